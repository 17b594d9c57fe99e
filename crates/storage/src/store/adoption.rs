//! Bringing SSTables from elsewhere into a table: all of them or none, also across a crash.
//!
//! The files are linked (or written) into a folder of their own inside the table's, under new ids. A durable
//! record then decides; from there on the files are moved up, what they replace is removed, and a start finishes what a
//! crash interrupted. Without a record the folder is garbage of a crash.
//!
//! | path in the table's folder | holds |
//! |---|---|
//! | `adopting-<number>/` | SSTables on their way in |
//! | `adoption-<number>.txt` | a line per SSTable that goes, then `crc32` and the checksum of the lines |

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_types::shard_of;
use helenus_vfs::{Disk, EntryKind};

use super::folder::DataFolder;
use super::open::OpenError;
use crate::compaction::{RemovalError, decode_sstables, encode_sstables};
use helenus_sstable::terms::remove_term_files;
use helenus_sstable::{Component, Descriptor, SealError, SsTable, Version, remove_sstable};

const FOLDER_PREFIX: &str = "adopting-";
const RECORD_PREFIX: &str = "adoption-";
const RECORD_SUFFIX: &str = ".txt";
const NEW_SUFFIX: &str = ".new";
/// A guard against damage; a line is at most 35 characters, and no folder holds a million SSTables.
const RECORD_BYTES_MAX: u64 = 16 << 20;
/// Bytes copied at once where a file cannot be linked.
const COPY_BYTES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptionError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Open(#[from] helenus_sstable::OpenError),
    #[error("cannot split an SSTable among the shards: {0}")]
    Split(#[from] Box<OpenError>),
    #[error(transparent)]
    Removal(#[from] RemovalError),
    #[error("{} is damaged: wanted SSTables and their checksum; remove it and the folder beside it by hand", file.display())]
    Damaged { file: PathBuf },
}

/// Way of taking files over: as one with those they come from, or as copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Hard links where the file system has them for both places, copies else.
    Link,
    Copy,
}

/// SSTables on their way into one table. Dropping it leaves garbage for the next start; [`Adoption::abandon`] does not.
#[derive(Debug)]
pub struct Adoption {
    data: Arc<DataFolder>,
    table: Arc<TableMetadata>,
    table_folder: PathBuf,
    number: u64,
    staging: PathBuf,
    staged: Vec<Descriptor>,
}

/// The files of one SSTable: paths by their names' suffixes, `Data.db` for one.
pub type SourceFiles = BTreeMap<String, PathBuf>;

impl Adoption {
    pub fn begin(data: &Arc<DataFolder>, table: &Arc<TableMetadata>) -> Result<Self, AdoptionError> {
        let table_folder = data.table_folder(table);
        let number = data.new_sstable_number();
        let staging = table_folder.join(format!("{FOLDER_PREFIX}{number}"));
        let make = || {
            data.create_table_folder(table)?;
            data.disk().create_dir_all(&staging)
        };
        make().map_err(io_at(&staging))?;
        Ok(Adoption {
            data: Arc::clone(data),
            table: Arc::clone(table),
            table_folder,
            number,
            staging,
            staged: Vec::new(),
        })
    }

    /// Where the files wait.
    pub fn staging(&self) -> &Path {
        &self.staging
    }

    /// Gives an SSTable's files a second name here, under a new id; nothing of them is looked at.
    pub fn take(
        &mut self,
        version: Version,
        files: &SourceFiles,
        transfer: Transfer,
    ) -> Result<Descriptor, AdoptionError> {
        let id = self.data.new_sstable_id();
        let descriptor = Descriptor { id, version };
        let disk = &**self.data.disk();
        for (suffix, source) in files {
            let target = self.staging.join(descriptor.file_name(suffix));
            let linked = match transfer {
                Transfer::Link => disk.hard_link(source, &target),
                Transfer::Copy => Err(io::ErrorKind::Unsupported.into()),
            };
            match linked {
                // Whoever made the file may have left it to the page cache.
                Ok(()) => {
                    let sync = || disk.open(&target)?.sync_data();
                    sync().map_err(io_at(source))?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(io_at(source)(error)),
                Err(_) => copy(disk, source, &target).map_err(io_at(source))?,
            }
        }
        if !files.contains_key(Component::Toc.file_suffix()) {
            self.write_toc(descriptor, files)?;
        }
        self.staged.push(descriptor);
        Ok(descriptor)
    }

    /// For one that came without: a table's folder has none that is not finished.
    fn write_toc(&self, descriptor: Descriptor, files: &SourceFiles) -> Result<(), AdoptionError> {
        let toc = Component::Toc.file_suffix();
        let names = files.keys().map(String::as_str).chain([toc]);
        let text: String = names.map(|name| format!("{name}\n")).collect();
        let path = self.staging.join(descriptor.file_name(toc));
        let write = || {
            let file = self.data.disk().create(&path)?;
            file.append(text.as_bytes())?;
            file.sync_data()
        };
        write().map_err(io_at(&path))
    }

    pub fn open(&self, descriptor: Descriptor) -> Result<Arc<SsTable>, AdoptionError> {
        Ok(SsTable::open(
            &**self.data.disk(),
            &self.staging,
            descriptor,
            &self.table,
        )?)
    }

    /// Gives one that others wrote checksums of ours; whether it had none.
    pub fn seal(&self, descriptor: Descriptor) -> Result<bool, SealError> {
        helenus_sstable::seal_sstable(&**self.data.disk(), &self.staging, descriptor)
    }

    /// Puts one back that turned out not to be wanted.
    pub fn refuse(&mut self, descriptor: Descriptor) -> Result<(), AdoptionError> {
        self.staged.retain(|staged| *staged != descriptor);
        remove_sstable(&**self.data.disk(), &self.staging, descriptor).map_err(io_at(&self.staging))
    }

    /// Writes an SSTable anew as one per shard, if it holds partitions of several. Whether it did.
    pub fn split(&mut self, sstable: &SsTable, shard_count: u16) -> Result<bool, AdoptionError> {
        if shard_of(sstable.first_token(), shard_count) == shard_of(sstable.last_token(), shard_count) {
            return Ok(false);
        }
        let parts = self
            .data
            .split(&self.table, sstable, shard_count, &self.staging)
            .map_err(Box::new)?;
        self.refuse(sstable.descriptor())?;
        self.staged.extend(parts.iter().map(|part| part.descriptor()));
        Ok(true)
    }

    /// Decides: the staged SSTables are the table's, those named are not any more. Returns the new ones, open.
    pub fn commit(self, replaced: &[Descriptor]) -> Result<Vec<Arc<SsTable>>, AdoptionError> {
        let disk = &**self.data.disk();
        disk.sync_directory(&self.staging).map_err(io_at(&self.staging))?;
        let record = self
            .table_folder
            .join(format!("{RECORD_PREFIX}{}{RECORD_SUFFIX}", self.number));
        let new = self
            .table_folder
            .join(format!("{RECORD_PREFIX}{}{NEW_SUFFIX}", self.number));
        let write = || {
            let file = disk.create(&new)?;
            file.append(encode_sstables(replaced).as_bytes())?;
            file.sync_data()?;
            disk.rename(&new, &record)?;
            disk.sync_directory(&self.table_folder)
        };
        write().map_err(io_at(&record))?;
        finish(disk, &self.table_folder, &self.staging, &record, replaced)?;
        self.staged
            .iter()
            .map(|&descriptor| Ok(SsTable::open(disk, &self.table_folder, descriptor, &self.table)?))
            .collect()
    }

    pub fn abandon(self) -> Result<(), AdoptionError> {
        discard(&**self.data.disk(), &self.staging).map_err(io_at(&self.staging))
    }

    /// Finishes or clears away what was interrupted in a table's folder. Before its SSTables are looked for.
    pub fn recover(disk: &dyn Disk, table_folder: &Path) -> Result<(), AdoptionError> {
        let entries = disk.list(table_folder).map_err(io_at(table_folder))?;
        for entry in &entries {
            let path = table_folder.join(&entry.name);
            if entry.kind == EntryKind::File && entry.name.starts_with(RECORD_PREFIX) {
                if entry.name.ends_with(NEW_SUFFIX) {
                    disk.remove(&path).map_err(io_at(&path))?;
                } else if let Some(number) = record_number(&entry.name) {
                    let replaced = load(disk, &path)?;
                    let staging = table_folder.join(format!("{FOLDER_PREFIX}{number}"));
                    finish(disk, table_folder, &staging, &path, &replaced)?;
                }
            }
        }
        for entry in &entries {
            let path = table_folder.join(&entry.name);
            if entry.kind == EntryKind::Directory
                && entry.name.starts_with(FOLDER_PREFIX)
                && disk.exists(&path).map_err(io_at(&path))?
            {
                discard(disk, &path).map_err(io_at(&path))?;
            }
        }
        Ok(())
    }
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> AdoptionError + use<> {
    let path = path.to_path_buf();
    move |source| AdoptionError::Io {
        path: path.clone(),
        source,
    }
}

fn record_number(name: &str) -> Option<u64> {
    name.strip_prefix(RECORD_PREFIX)?
        .strip_suffix(RECORD_SUFFIX)?
        .parse()
        .ok()
}

/// Carries out a decision. May be repeated.
fn finish(
    disk: &dyn Disk,
    table_folder: &Path,
    staging: &Path,
    record: &Path,
    replaced: &[Descriptor],
) -> Result<(), AdoptionError> {
    let failed = io_at(table_folder);
    if disk.exists(staging).map_err(&failed)? {
        for entry in disk.list(staging).map_err(&failed)? {
            disk.rename(&staging.join(&entry.name), &table_folder.join(&entry.name))
                .map_err(&failed)?;
        }
        disk.sync_directory(table_folder).map_err(&failed)?;
    }
    for &descriptor in replaced {
        remove_sstable(disk, table_folder, descriptor).map_err(&failed)?;
    }
    remove_term_files(disk, table_folder, false, |_, sstable| {
        replaced.contains(&sstable)
    })
    .map_err(&failed)?;
    disk.sync_directory(table_folder).map_err(&failed)?;
    disk.remove(record).map_err(&failed)?;
    // A record that came back after a crash could name SSTables that are in use again by then.
    disk.sync_directory(table_folder).map_err(&failed)?;
    discard(disk, staging).map_err(&failed)
}

fn discard(disk: &dyn Disk, staging: &Path) -> io::Result<()> {
    if !disk.exists(staging)? {
        return Ok(());
    }
    for entry in disk.list(staging)? {
        disk.remove(&staging.join(&entry.name))?;
    }
    disk.remove_directory(staging)
}

fn load(disk: &dyn Disk, path: &Path) -> Result<Vec<Descriptor>, AdoptionError> {
    let read = || {
        let file = disk.open(path)?;
        let length = file.length()?;
        if length > RECORD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(io_at(path))?;
    str::from_utf8(&bytes)
        .ok()
        .and_then(decode_sstables)
        .ok_or_else(|| AdoptionError::Damaged {
            file: path.to_path_buf(),
        })
}

fn copy(disk: &dyn Disk, source: &Path, target: &Path) -> io::Result<()> {
    let from = disk.open(source)?;
    let to = disk.create(target)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        let count = from.read_at(offset, &mut buffer)?;
        if count == 0 {
            return to.sync_data();
        }
        to.append(buffer.get(..count).unwrap_or_default())?;
        offset += count as u64;
    }
}
