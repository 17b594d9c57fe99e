//! The operating system's file system.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "linux")]
use rustix::io::ReadWriteFlags;

use crate::disk::{DirectoryEntry, DirectoryLock, Disk, DiskCounters, DiskUsage, EntryKind, File};
use crate::read_queue::{DiskIo, Notify, ReadQueue, real_read_queue};

#[derive(Debug, Default)]
pub struct RealDisk {
    counters: Arc<DiskCounters>,
}

/// The file whose lock stands for its folder's.
const LOCK_FILE: &str = ".lock";

impl RealDisk {
    pub fn new() -> Self {
        Self::default()
    }

    fn file(&self, file: fs::File) -> Arc<dyn File> {
        Arc::new(RealFile {
            file,
            counters: Arc::clone(&self.counters),
            failed: AtomicBool::new(false),
        })
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.file(fs::File::open(path)?))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.file(fs::OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.file(
            fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(path)?,
        ))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let kind = if entry.file_type()?.is_dir() {
                EntryKind::Directory
            } else {
                EntryKind::File
            };
            entries.push(DirectoryEntry {
                name: entry.file_name().to_string_lossy().into_owned(),
                kind,
            });
        }
        entries.sort();
        Ok(entries)
    }

    fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()> {
        fs::hard_link(existing, link)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.counters.count_sync();
        fs::File::open(directory)?.sync_all()
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join(LOCK_FILE))?;
        file.try_lock()?;
        Ok(Box::new(LockedFile { _file: file }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut statistics = MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: `path` is a NUL-terminated string and `statistics` is writable memory of the size that statvfs
        // fills; both outlive the call.
        let result = unsafe { libc::statvfs(path.as_ptr(), statistics.as_mut_ptr()) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: statvfs returned 0, so it filled the structure.
        let statistics = unsafe { statistics.assume_init() };
        Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    }

    fn usage(&self) -> DiskUsage {
        self.counters.snapshot()
    }

    fn read_queue(&self, disk_io: DiskIo, notify: Notify) -> io::Result<Box<dyn ReadQueue>> {
        real_read_queue(disk_io, notify)
    }
}

#[derive(Debug)]
struct RealFile {
    file: fs::File,
    counters: Arc<DiskCounters>,
    /// Set by the first failed write or sync and never cleared.
    failed: AtomicBool,
}

impl RealFile {
    fn latch<T>(&self, action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier write or sync of this file failed"));
        }
        action().inspect_err(|_| self.failed.store(true, Ordering::Release))
    }
}

impl File for RealFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, offset)?;
        self.counters.count_read(count);
        Ok(count)
    }

    #[cfg(target_os = "linux")]
    fn read_resident_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let room = &mut [io::IoSliceMut::new(buffer)];
        let count = rustix::io::preadv2(&self.file, room, offset, ReadWriteFlags::NOWAIT)?;
        self.counters.count_read(count);
        Ok(count)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.counters.count_write(bytes.len());
        self.latch(|| {
            io::Seek::seek(&mut &self.file, io::SeekFrom::End(0))?;
            (&self.file).write_all(bytes)
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.counters.count_write(bytes.len());
        self.latch(|| self.file.write_all_at(bytes, offset))
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.latch(|| self.file.set_len(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.counters.count_sync();
        self.latch(|| self.file.sync_data())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn count_read(&self, bytes: usize) {
        self.counters.count_read(bytes);
    }
}

/// The lock ends when the file is closed.
#[derive(Debug)]
struct LockedFile {
    _file: fs::File,
}

impl DirectoryLock for LockedFile {}
