//! Which SSTables a command is about: a file of one, or all of a folder.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_sstable::{Component, Descriptor, FileName, SsTable, StoredMetadata};
use helenus_storage::store::SourceFiles;
use helenus_vfs::{Disk, EntryKind};

/// One SSTable on the disk.
#[derive(Clone, Debug)]
pub struct Target {
    pub folder: PathBuf,
    pub descriptor: Descriptor,
    /// Files of the known components that are there.
    pub files: SourceFiles,
}

/// The SSTables of a folder.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Those that are finished, in the order of their ids.
    pub readable: Vec<Target>,
    /// Data files of versions that are not read, or with ids of unknown form.
    pub foreign: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a file of an SSTable; those are named like nb-1-big-Data.db", path.display())]
    NotAnSsTable { path: PathBuf },
    #[error("{} holds no finished SSTable; one has a TOC.txt, or was streamed to Cassandra and is in none of its transaction logs", path.display())]
    Empty { path: PathBuf },
    #[error("{} is of a version that this program does not read", path.display())]
    Foreign { path: PathBuf },
    #[error("{} is missing", path.display())]
    MissingComponent { path: PathBuf },
    #[error(transparent)]
    Open(#[from] helenus_sstable::OpenError),
}

impl Targets {
    /// The SSTable that a file belongs to, or all that a folder holds.
    pub fn find(disk: &dyn Disk, path: &Path) -> Result<Self, TargetError> {
        let failed = |source| TargetError::Io {
            path: path.to_path_buf(),
            source,
        };
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        match FileName::parse(name) {
            FileName::Component { descriptor, .. } => {
                if !disk.exists(path).map_err(failed)? {
                    return Err(failed(io::ErrorKind::NotFound.into()));
                }
                let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new("."));
                let files = by_sstable(disk, folder).map_err(failed)?.remove(&descriptor);
                let target = Target {
                    folder: folder.to_path_buf(),
                    descriptor,
                    files: files.unwrap_or_default(),
                };
                Ok(Targets {
                    readable: vec![target],
                    foreign: Vec::new(),
                })
            }
            FileName::Foreign { .. } => Err(TargetError::Foreign {
                path: path.to_path_buf(),
            }),
            FileName::Other => Self::of_folder(disk, path),
        }
    }

    fn of_folder(disk: &dyn Disk, path: &Path) -> Result<Self, TargetError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotADirectory => TargetError::NotAnSsTable {
                path: path.to_path_buf(),
            },
            _ => TargetError::Io {
                path: path.to_path_buf(),
                source,
            },
        };
        let found = by_sstable(disk, path).map_err(failed)?;
        let logs = transaction_logs(disk, path).map_err(failed)?;
        let readable: Vec<Target> = found
            .into_iter()
            .map(|(descriptor, files)| Target {
                folder: path.to_path_buf(),
                descriptor,
                files,
            })
            .filter(|target| target.has(Component::Toc) || target.was_streamed(&logs))
            .collect();
        let foreign = helenus_sstable::foreign_sstables(disk, path).map_err(failed)?;
        if readable.is_empty() && foreign.is_empty() {
            return Err(TargetError::Empty {
                path: path.to_path_buf(),
            });
        }
        Ok(Targets { readable, foreign })
    }

    /// All of them; an error if there are others that cannot be read.
    pub fn all(self) -> Result<Vec<Target>, TargetError> {
        match self.foreign.into_iter().next() {
            Some(path) => Err(TargetError::Foreign { path }),
            None => Ok(self.readable),
        }
    }
}

impl Target {
    /// The same SSTable under another name in another folder.
    #[must_use]
    pub fn renamed(&self, folder: &Path, descriptor: Descriptor) -> Target {
        let files = self.files.keys().map(|suffix| {
            let file = folder.join(descriptor.file_name(suffix));
            (suffix.clone(), file)
        });
        Target {
            folder: folder.to_path_buf(),
            descriptor,
            files: files.collect(),
        }
    }

    pub fn path(&self, component: Component) -> PathBuf {
        self.descriptor.path(&self.folder, component)
    }

    /// The data file's name, which stands for the SSTable in messages.
    pub fn label(&self) -> String {
        self.path(Component::Data).display().to_string()
    }

    pub fn has(&self, component: Component) -> bool {
        self.files.contains_key(component.file_suffix())
    }

    /// Returns whether it is finished though it has no TOC: Cassandra writes none for what other nodes stream to it. What it has
    /// not finished, or is about to remove, stands in a transaction log. Files of ours without a TOC are garbage of a crash.
    fn was_streamed(&self, transaction_logs: &[String]) -> bool {
        let name = self.descriptor.to_string();
        !self.has(Component::Checksums)
            && self.require_mandatory().is_ok()
            && !transaction_logs.iter().any(|log| log.contains(&name))
    }

    pub fn metadata(&self, disk: &dyn Disk) -> Result<StoredMetadata, TargetError> {
        self.require(Component::Statistics)?;
        Ok(StoredMetadata::read(disk, &self.folder, self.descriptor)?)
    }

    pub fn open(&self, disk: &dyn Disk, table: &TableMetadata) -> Result<Arc<SsTable>, TargetError> {
        self.require_mandatory()?;
        Ok(SsTable::open(disk, &self.folder, self.descriptor, table)?)
    }

    /// That everything is there without which nothing can be read.
    pub(crate) fn require_mandatory(&self) -> Result<(), TargetError> {
        Component::mandatory(self.descriptor.version.index_form())
            .iter()
            .try_for_each(|&component| self.require(component))
    }

    fn require(&self, component: Component) -> Result<(), TargetError> {
        if self.has(component) {
            return Ok(());
        }
        Err(TargetError::MissingComponent {
            path: self.path(component),
        })
    }
}

/// Bytes of one transaction log at most: a line for each SSTable of a compaction, of which there are at most some thousands.
const TRANSACTION_LOG_BYTES_MAX: u64 = 16 << 20;

/// The texts of Cassandra's transaction logs in a table's folder: `nb_txn_compaction_<id>.log`, or of another version and kind.
fn transaction_logs(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<String>> {
    let mut logs = Vec::new();
    for entry in disk.list(folder)? {
        if entry.kind == EntryKind::File && entry.name.contains("_txn_") && entry.name.ends_with(".log") {
            let file = disk.open(&folder.join(&entry.name))?;
            let length = file.length()?;
            if length > TRANSACTION_LOG_BYTES_MAX {
                return Err(io::Error::other("a transaction log of more than 16 MiB"));
            }
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(0, &mut bytes)?;
            logs.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(logs)
}

/// The files of each SSTable in a folder. What only Cassandra knows, such as its indexes, is left out, and so are
/// temporary files.
pub fn by_sstable(disk: &dyn Disk, folder: &Path) -> io::Result<BTreeMap<Descriptor, SourceFiles>> {
    let mut found: BTreeMap<Descriptor, SourceFiles> = BTreeMap::new();
    for entry in disk.list(folder)? {
        if let FileName::Component { descriptor, suffix } = FileName::parse(&entry.name)
            && entry.kind == EntryKind::File
            && Component::by_file_suffix(suffix).is_some()
        {
            found
                .entry(descriptor)
                .or_default()
                .insert(suffix.to_owned(), folder.join(&entry.name));
        }
    }
    Ok(found)
}
