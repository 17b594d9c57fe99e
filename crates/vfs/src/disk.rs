//! The disk as the storage engine sees it.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::read_queue::{DiskIo, Notify, ReadQueue};

/// A file system. One instance is shared by all threads of a node.
///
/// Durability has two halves, as on a real disk: [`File::sync_data`] for a file's bytes, and
/// [`Disk::sync_directory`] for the names in a directory. Nothing else promises anything after a crash.
pub trait Disk: Send + Sync + Debug {
    /// Opens an existing file for reading.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for reading, appending and overwriting.
    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Creates a file that must not exist yet, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Replaces `to` if it exists, atomically; durable after the directory of `to` is synced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Handles that are open keep reading it.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted.
    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>>;

    /// Creates a directory and its missing ancestors; not an error where it exists.
    fn create_dir_all(&self, directory: &Path) -> io::Result<()>;

    /// Gives a file a second name, which must not exist yet.
    fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in a directory durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Takes an existing folder for this process until the lock is dropped; `WouldBlock` if another one has it.
    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>>;

    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Bytes that can still be written to the file system which holds `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Calls to this disk and their bytes so far.
    fn usage(&self) -> DiskUsage;

    /// A queue for reads of this disk's files; called on the thread that will own it.
    fn read_queue(&self, disk_io: DiskIo, notify: Notify) -> io::Result<Box<dyn ReadQueue>>;
}

/// An open file. Methods take `&self`: reads may come from many threads, writes come from one owner at a time.
///
/// After a failed write or sync the handle refuses every later write and sync with the same kind of error: the
/// kernel may have marked the pages clean, so a repeated sync would claim what is not so. The owner abandons the
/// file; reading it stays possible.
pub trait File: Send + Sync + Debug {
    /// Reads up to `buffer.len()` bytes from `offset`; 0 at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// As [`File::read_at`], of what the operating system has in memory, so that the caller does not wait for a device. `WouldBlock`
    /// where it has nothing of that, or cannot tell.
    fn read_resident_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Writes all bytes at the end of the file.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Writes all bytes at `offset`, extending the file with zeros up to it where it is shorter.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Makes the file's bytes and length durable.
    fn sync_data(&self) -> io::Result<()>;

    fn length(&self) -> io::Result<u64>;

    /// The operating system's name for the file, if it is one of its files.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Counts bytes that were read through [`File::descriptor`].
    fn count_read(&self, _bytes: usize) {}

    /// Fills the buffer or fails with `UnexpectedEof`.
    fn read_exact_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(offset, buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let rest = std::mem::take(&mut buffer);
                    buffer = rest.get_mut(count..).unwrap_or_default();
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Held for as long as the folder is this process's; released on drop.
pub trait DirectoryLock: Send + Sync + Debug {}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    pub name: String,
    pub kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    File,
    Directory,
}

/// A snapshot of `DiskCounters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub syncs: u64,
}

/// Counts calls and bytes; shared between a disk and its open files.
#[derive(Debug, Default)]
pub(crate) struct DiskCounters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl DiskCounters {
    pub fn count_read(&self, bytes: usize) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_write(&self, bytes: usize) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn snapshot(&self) -> DiskUsage {
        DiskUsage {
            reads: self.reads.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }
}

/// The directory that holds a path's name; the root for a path without one.
pub(crate) fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("/"),
    }
}

pub(crate) fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
