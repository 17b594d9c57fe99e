//! A disk that asks a test before it changes anything.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_vfs::read_queue::Notify;
use helenus_vfs::{DirectoryEntry, DirectoryLock, Disk, DiskIo, DiskUsage, File, Operation, ReadQueue};

/// Called before each change and each sync, with the file or folder it is about. It may block; an error is what the
/// caller gets, and nothing was changed.
pub(crate) type Hook = Arc<dyn Fn(Operation, &Path) -> io::Result<()> + Send + Sync>;

/// Another disk behind a `Hook`.
pub struct HookedDisk {
    disk: Arc<dyn Disk>,
    hook: Hook,
    tells_looks: bool,
    waits_for_reads: bool,
}

struct HookedFile {
    file: Arc<dyn File>,
    path: PathBuf,
    hook: Hook,
}

impl HookedDisk {
    pub fn new(
        disk: Arc<dyn Disk>,
        hook: impl Fn(Operation, &Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        HookedDisk {
            disk,
            hook: Arc::new(hook),
            tells_looks: false,
            waits_for_reads: false,
        }
    }

    /// Nothing of a file that is opened for reading counts as what the operating system has in memory: reads that may wait do.
    #[must_use]
    pub fn waiting_for_reads(self) -> Self {
        HookedDisk {
            waits_for_reads: true,
            ..self
        }
    }

    /// Files that are opened and folders that are looked into are told as well, as [`Operation::Open`].
    #[must_use]
    pub fn telling_looks(self) -> Self {
        HookedDisk {
            tells_looks: true,
            ..self
        }
    }

    fn look(&self, path: &Path) -> io::Result<()> {
        match self.tells_looks {
            true => self.ask(Operation::Open, path),
            false => Ok(()),
        }
    }

    fn ask(&self, operation: Operation, path: &Path) -> io::Result<()> {
        (self.hook)(operation, path)
    }

    fn hooked(&self, file: Arc<dyn File>, path: &Path) -> Arc<dyn File> {
        Arc::new(HookedFile {
            file,
            path: path.to_owned(),
            hook: self.hook.clone(),
        })
    }
}

impl fmt::Debug for HookedDisk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(out)
    }
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(out)
    }
}

impl File for HookedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (self.hook)(Operation::Write, &self.path)?;
        self.file.append(bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (self.hook)(Operation::Write, &self.path)?;
        self.file.write_at(offset, bytes)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        (self.hook)(Operation::Write, &self.path)?;
        self.file.set_length(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        (self.hook)(Operation::Sync, &self.path)?;
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    fn count_read(&self, bytes: usize) {
        self.file.count_read(bytes);
    }
}

impl Disk for HookedDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.look(path)?;
        let file = self.disk.open(path)?;
        Ok(match self.waits_for_reads {
            true => self.hooked(file, path),
            false => file,
        })
    }

    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.look(path)?;
        Ok(self.hooked(self.disk.open_writable(path)?, path))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.ask(Operation::Create, path)?;
        Ok(self.hooked(self.disk.create(path)?, path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(Operation::Rename, to)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(Operation::Remove, path)?;
        self.disk.remove(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.ask(Operation::Remove, path)?;
        self.disk.remove_directory(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.look(directory)?;
        self.disk.list(directory)
    }

    fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        self.disk.create_dir_all(directory)
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()> {
        self.ask(Operation::Create, link)?;
        self.disk.hard_link(existing, link)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.ask(Operation::SyncDirectory, directory)?;
        self.disk.sync_directory(directory)
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk.lock_directory(directory)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.look(path)?;
        self.disk.exists(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }

    fn usage(&self) -> DiskUsage {
        self.disk.usage()
    }

    fn read_queue(&self, disk_io: DiskIo, notify: Notify) -> io::Result<Box<dyn ReadQueue>> {
        self.disk.read_queue(disk_io, notify)
    }
}
