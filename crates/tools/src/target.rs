//! Which SSTables a command is about: a file of one, or all of a folder.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_storage::sstable::{self, Generation, SsTable, StoredMetadata};
use helenus_vfs::Disk;

use crate::file_name::{FileName, SsTableName, is_finished, sstables_in};

/// One SSTable on the disk.
#[derive(Clone, Debug)]
pub struct Target {
    pub folder: PathBuf,
    pub name: SsTableName,
    /// Paths by what follows the id in their names.
    pub files: BTreeMap<String, PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a file of an SSTable; those are named like nb-1-big-Data.db", path.display())]
    NotAnSsTable { path: PathBuf },
    #[error("{} holds no SSTable; an SSTable has a TOC.txt", path.display())]
    Empty { path: PathBuf },
    #[error("{} is of version {version} in the format {format}, which this program does not read", path.display())]
    ForeignVersion {
        path: PathBuf,
        version: String,
        format: String,
    },
    #[error("{} is missing", path.display())]
    MissingComponent { path: PathBuf },
    #[error("{} is numbered by a word; give it a number, such as nb-1-big-Data.db, or import its folder", path.display())]
    WordId { path: PathBuf },
    #[error(transparent)]
    Open(#[from] sstable::OpenError),
}

impl Target {
    /// The SSTable that a file belongs to, or all that a folder holds, by number.
    pub fn find(disk: &dyn Disk, path: &Path) -> Result<Vec<Target>, TargetError> {
        let failed = |source| TargetError::Io {
            path: path.to_path_buf(),
            source,
        };
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(wanted) = name.and_then(FileName::parse) {
            let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            if !disk.exists(path).map_err(failed)? {
                return Err(failed(io::ErrorKind::NotFound.into()));
            }
            let wanted = wanted.sstable();
            let files = sstables_in(disk, folder).map_err(failed)?.remove(&wanted);
            return Ok(vec![Target {
                folder: folder.to_path_buf(),
                name: wanted,
                files: files.unwrap_or_default(),
            }]);
        }
        let found = sstables_in(disk, path).map_err(|source| match source.kind() {
            io::ErrorKind::NotADirectory => TargetError::NotAnSsTable {
                path: path.to_path_buf(),
            },
            _ => failed(source),
        })?;
        let mut targets: Vec<Target> = found
            .into_iter()
            .filter(|(name, files)| is_finished(name, files))
            .map(|(name, files)| Target {
                folder: path.to_path_buf(),
                name,
                files,
            })
            .collect();
        if targets.is_empty() {
            return Err(TargetError::Empty {
                path: path.to_path_buf(),
            });
        }
        targets.sort_by_key(|target| (target.name.id.parse::<u64>().ok(), target.name.clone()));
        Ok(targets)
    }

    /// The same SSTable under another number in another folder.
    #[must_use]
    pub fn staged(&self, folder: &Path, number: u64) -> Target {
        let name = SsTableName {
            id: number.to_string(),
            ..self.name.clone()
        };
        let files = self.files.keys().map(|rest| {
            let file = folder.join(format!("{}-{number}-{rest}", name.version));
            (rest.clone(), file)
        });
        Target {
            folder: folder.to_path_buf(),
            files: files.collect(),
            name,
        }
    }

    pub fn path(&self, component: &str) -> PathBuf {
        self.folder.join(self.name.file(component))
    }

    pub fn data_path(&self) -> PathBuf {
        self.path("Data.db")
    }

    pub fn has(&self, component: &str) -> bool {
        self.files.contains_key(&self.name.rest(component))
    }

    pub fn metadata(&self, disk: &dyn Disk) -> Result<StoredMetadata, TargetError> {
        self.check_readable()?;
        self.require("Statistics.db")?;
        Ok(StoredMetadata::read(disk, &self.path("Statistics.db"))?)
    }

    pub fn open(&self, disk: &dyn Disk, table: &TableMetadata) -> Result<Arc<SsTable>, TargetError> {
        self.check_readable()?;
        for component in ["Data.db", "Statistics.db"] {
            self.require(component)?;
        }
        let id = self.name.id.parse().map_err(|_| TargetError::WordId {
            path: self.data_path(),
        })?;
        Ok(SsTable::open(disk, &self.folder, Generation(id), table)?)
    }

    /// Refuses versions by their names, before a byte of theirs is looked at.
    pub fn check_readable(&self) -> Result<(), TargetError> {
        if (self.name.version.as_str(), self.name.format.as_str()) == ("nb", "big") {
            return Ok(());
        }
        Err(TargetError::ForeignVersion {
            path: self.data_path(),
            version: self.name.version.clone(),
            format: self.name.format.clone(),
        })
    }

    fn require(&self, component: &str) -> Result<(), TargetError> {
        if self.has(component) {
            return Ok(());
        }
        Err(TargetError::MissingComponent {
            path: self.path(component),
        })
    }
}
