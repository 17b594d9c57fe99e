//! A disk without a disk: for `--in-memory` nodes and tests. Nothing survives the process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::disk::{
    DirectoryEntry, DirectoryLock, Disk, DiskCounters, DiskUsage, EntryKind, File, name_of, parent_of,
};
use crate::read_queue::{DiskIo, ImmediateReads, Notify, ReadQueue};

#[derive(Debug, Default)]
pub struct MemoryDisk {
    names: Mutex<Names>,
    locks: Arc<Mutex<Vec<PathBuf>>>,
    counters: Arc<DiskCounters>,
    is_resident: bool,
}

/// Every path of the disk; the root exists from the start.
#[derive(Debug, Default)]
struct Names {
    nodes: BTreeMap<PathBuf, Node>,
}

#[derive(Clone, Debug)]
enum Node {
    File(Arc<RwLock<Vec<u8>>>),
    Directory,
}

impl MemoryDisk {
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk whose files count as what an operating system has in memory: nobody who can do with that waits for a read.
    pub fn resident() -> Self {
        MemoryDisk {
            is_resident: true,
            ..Self::default()
        }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, bytes: &Arc<RwLock<Vec<u8>>>) -> Arc<dyn File> {
        Arc::new(MemoryFile {
            bytes: Arc::clone(bytes),
            counters: Arc::clone(&self.counters),
            is_resident: self.is_resident,
        })
    }
}

impl Names {
    fn is_directory(&self, path: &Path) -> bool {
        path == Path::new("/") || matches!(self.nodes.get(path), Some(Node::Directory))
    }

    fn existing_file(&self, path: &Path) -> io::Result<&Arc<RwLock<Vec<u8>>>> {
        match self.nodes.get(path) {
            Some(Node::File(bytes)) => Ok(bytes),
            Some(Node::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The place for a new name: its directory exists and the name does not.
    fn check_vacant(&self, path: &Path) -> io::Result<()> {
        if self.nodes.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !self.is_directory(&parent_of(path)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }

    fn children<'a>(&'a self, directory: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Node)> {
        self.nodes
            .iter()
            .filter(move |(path, _)| parent_of(path) == directory)
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.names().existing_file(path).map(|bytes| self.file(bytes))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut names = self.names();
        names.check_vacant(path)?;
        let bytes = Arc::default();
        let file = self.file(&bytes);
        names.nodes.insert(path.to_path_buf(), Node::File(bytes));
        Ok(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names();
        if !names.is_directory(&parent_of(to)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let node = names.nodes.get(from).cloned().ok_or(io::ErrorKind::NotFound)?;
        if matches!(node, Node::Directory) {
            let inside: Vec<PathBuf> = names
                .nodes
                .keys()
                .filter(|path| path.starts_with(from))
                .cloned()
                .collect();
            for path in inside {
                let renamed = match path.strip_prefix(from) {
                    Ok(rest) if rest.as_os_str().is_empty() => to.to_path_buf(),
                    Ok(rest) => to.join(rest),
                    Err(_) => continue,
                };
                if let Some(node) = names.nodes.remove(&path) {
                    names.nodes.insert(renamed, node);
                }
            }
        } else {
            names.nodes.remove(from);
            names.nodes.insert(to.to_path_buf(), node);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names();
        names.existing_file(path)?;
        names.nodes.remove(path);
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names();
        if !matches!(names.nodes.get(path), Some(Node::Directory)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if names.children(path).next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        names.nodes.remove(path);
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let names = self.names();
        if !names.is_directory(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut entries: Vec<DirectoryEntry> = names
            .children(directory)
            .map(|(path, node)| DirectoryEntry {
                name: name_of(path),
                kind: match node {
                    Node::File(_) => EntryKind::File,
                    Node::Directory => EntryKind::Directory,
                },
            })
            .collect();
        entries.sort();
        Ok(entries)
    }

    fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        let mut names = self.names();
        for ancestor in directory.ancestors() {
            if ancestor.as_os_str().is_empty() || names.is_directory(ancestor) {
                continue;
            }
            if names.nodes.contains_key(ancestor) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            names.nodes.insert(ancestor.to_path_buf(), Node::Directory);
        }
        Ok(())
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()> {
        let mut names = self.names();
        let bytes = Arc::clone(names.existing_file(existing)?);
        names.check_vacant(link)?;
        names.nodes.insert(link.to_path_buf(), Node::File(bytes));
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.counters.count_sync();
        if self.names().is_directory(directory) {
            Ok(())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        if !self.names().is_directory(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        FolderLock::take(&self.locks, directory)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let names = self.names();
        Ok(names.is_directory(path) || names.nodes.contains_key(path))
    }

    /// As much as fits: memory is limited by whoever starts the node.
    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn usage(&self) -> DiskUsage {
        self.counters.snapshot()
    }

    fn read_queue(&self, _disk_io: DiskIo, notify: Notify) -> io::Result<Box<dyn ReadQueue>> {
        Ok(Box::new(ImmediateReads::new(notify)))
    }
}

#[derive(Debug)]
struct MemoryFile {
    bytes: Arc<RwLock<Vec<u8>>>,
    counters: Arc<DiskCounters>,
    is_resident: bool,
}

impl File for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let available = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get(offset..))
            .unwrap_or(&[]);
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.counters.count_read(count);
        Ok(count)
    }

    fn read_resident_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self.is_resident {
            true => self.read_at(offset, buffer),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn append(&self, added: &[u8]) -> io::Result<()> {
        self.counters.count_write(added.len());
        self.bytes
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(added);
        Ok(())
    }

    fn write_at(&self, offset: u64, added: &[u8]) -> io::Result<()> {
        self.counters.count_write(added.len());
        overwrite(
            &mut self.bytes.write().unwrap_or_else(PoisonError::into_inner),
            offset,
            added,
        )
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.bytes
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .resize(length, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.counters.count_sync();
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.bytes.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }
}

/// Puts bytes at an offset, with zeros in a gap before it.
pub(crate) fn overwrite(bytes: &mut Vec<u8>, offset: u64, added: &[u8]) -> io::Result<()> {
    let start = usize::try_from(offset).map_err(io::Error::other)?;
    let end = start
        .checked_add(added.len())
        .ok_or(io::ErrorKind::FileTooLarge)?;
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(added);
    Ok(())
}

/// A folder lock among the users of one in-process disk.
#[derive(Debug)]
pub(crate) struct FolderLock {
    held: Arc<Mutex<Vec<PathBuf>>>,
    folder: PathBuf,
}

impl FolderLock {
    pub(crate) fn take(held: &Arc<Mutex<Vec<PathBuf>>>, folder: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let mut folders = held.lock().unwrap_or_else(PoisonError::into_inner);
        if folders.iter().any(|locked| locked == folder) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        folders.push(folder.to_path_buf());
        Ok(Box::new(FolderLock {
            held: Arc::clone(held),
            folder: folder.to_path_buf(),
        }))
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        self.held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|locked| *locked != self.folder);
    }
}

impl DirectoryLock for FolderLock {}
