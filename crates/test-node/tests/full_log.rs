//! A log that is behind: what its buffer cannot take is refused with nothing done.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::read_queue::Notify;
use helenus_vfs::{
    DirectoryEntry, DirectoryLock, Disk, DiskIo, DiskUsage, File, ManualClock, MemoryDisk, ReadQueue,
};

/// Nothing is written while somebody holds the gate.
#[derive(Debug)]
struct GatedDisk {
    disk: MemoryDisk,
    gate: Arc<Mutex<()>>,
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<Mutex<()>>,
}

impl GatedFile {
    fn pass(&self) -> &dyn File {
        drop(self.gate.lock().unwrap());
        &*self.file
    }
}

impl File for GatedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.pass().append(bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.pass().write_at(offset, bytes)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.pass().sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.open(path)
    }

    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.open_writable(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(GatedFile {
            file: self.disk.create(path)?,
            gate: self.gate.clone(),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_directory(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.disk.list(directory)
    }

    fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        self.disk.create_dir_all(directory)
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()> {
        self.disk.hard_link(existing, link)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk.sync_directory(directory)
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.disk.lock_directory(directory)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
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

/// Four of them fit the log's buffer of two segments of 32 MiB, and no fifth.
const VALUE_BYTES: usize = 15 << 20;
const FITTING: i32 = 4;

/// A full buffer was answered as a server error, although nothing was done and the next moment has room.
#[test]
fn a_write_that_the_full_log_buffer_cannot_take_is_overload() {
    let gate = Arc::new(Mutex::new(()));
    let disk = GatedDisk {
        disk: MemoryDisk::new(),
        gate: gate.clone(),
    };
    // A clock that stands still: nobody's time is over while the log hangs.
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    let node = TestNode::start(options(1, Arc::new(disk), clock)).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v blob)");
    let write = |p: i32| Execution {
        values: vec![Some(p.to_be_bytes().to_vec()), Some(vec![7; VALUE_BYTES])],
        ..Execution::default()
    };
    let insert = "INSERT INTO k.t (p, v) VALUES (?, ?)";

    let hanging = gate.lock().unwrap();
    let waiting: Vec<_> = (0..FITTING).map(|p| node.submit(insert, &write(p))).collect();
    let answer = node.execute_with(insert, &write(FITTING));
    let Answer::Error { code, message } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(code, ErrorCode::Overloaded, "{message}");
    drop(hanging);
    for pending in waiting {
        assert_eq!(pending.wait(), Some(Answer::Void));
    }
    assert_eq!(node.rows("SELECT p FROM k.t").len(), FITTING as usize);
    assert_eq!(node.execute_with(insert, &write(FITTING)), Answer::Void);
}
