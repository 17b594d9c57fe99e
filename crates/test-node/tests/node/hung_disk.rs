//! A disk that answers nothing: its readers are told when their time is over, on whichever shard they wait.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::read_queue::Notify;
use helenus_vfs::{
    CompletedRead, DirectoryEntry, DirectoryLock, Disk, DiskIo, DiskUsage, File, ManualClock, MemoryDisk,
    QueuedRead, ReadQueue,
};

const SHARDS: u16 = 2;

/// More than a read has.
const READ_TIMEOUT_S: u64 = 61;

/// More than a page of a scan has.
const RANGE_TIMEOUT_S: u64 = 61;

/// Looks at what a shard has noticed, 10 ms apart: a minute, should the machine be busy.
const LOOKS_MAX: u32 = 6_000;

/// Forgets what is asked of its read queues, while it hangs.
#[derive(Debug)]
struct HangingDisk {
    disk: MemoryDisk,
    hangs: Arc<AtomicBool>,
    asked: mpsc::SyncSender<()>,
}

struct HangingReads {
    queue: Box<dyn ReadQueue>,
    hangs: Arc<AtomicBool>,
    asked: mpsc::SyncSender<()>,
}

impl ReadQueue for HangingReads {
    fn submit(&mut self, read: QueuedRead) {
        if self.hangs.load(Ordering::SeqCst) {
            self.asked.try_send(()).unwrap();
        } else {
            self.queue.submit(read);
        }
    }

    fn take_completed(&mut self, completed: &mut Vec<CompletedRead>) {
        self.queue.take_completed(completed);
    }

    fn name(&self) -> &'static str {
        "hanging"
    }
}

impl Disk for HangingDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.open(path)
    }

    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.open_writable(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.create(path)
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
        Ok(Box::new(HangingReads {
            queue: self.disk.read_queue(disk_io, notify)?,
            hangs: self.hangs.clone(),
            asked: self.asked.clone(),
        }))
    }
}

#[test]
fn a_read_that_the_disk_leaves_waiting_is_answered_when_its_time_is_over() {
    let (asked, was_asked) = mpsc::sync_channel(16);
    let hangs = Arc::new(AtomicBool::new(false));
    let disk = HangingDisk {
        disk: MemoryDisk::new(),
        hangs: hangs.clone(),
        asked,
    };
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    let mut node = TestNode::start(options(SHARDS, Arc::new(disk), clock.clone())).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    for p in 0..8 {
        node.run(&format!("INSERT INTO k.t (p, v) VALUES ({p}, 1)"));
    }
    node.restart().unwrap();
    let (select, scan) = ("SELECT v FROM k.t WHERE p = 1", "SELECT count(*) FROM k.t");

    hangs.store(true, Ordering::SeqCst);
    // One of the shards owns the partition, the other one asks it.
    let selects = (0..SHARDS).map(|shard| (shard, select, READ_TIMEOUT_S));
    for (shard, text, timeout_s) in selects.chain([(0, scan, RANGE_TIMEOUT_S)]) {
        let execution = Execution {
            shard,
            ..Execution::default()
        };
        let pending = node.submit(text, &execution);
        was_asked.recv_timeout(Duration::from_secs(60)).unwrap();
        clock.advance_s(timeout_s);
        let answer = pending.wait().unwrap();
        assert!(
            matches!(
                answer,
                Answer::Error {
                    code: ErrorCode::ReadTimeout,
                    ..
                }
            ),
            "{answer:?}"
        );
    }
    hangs.store(false, Ordering::SeqCst);
    assert_eq!(node.rows(select), [[Some(1_i32.to_be_bytes().to_vec())]]);
    // What was given up was slow, too: the shard that executes it notices at its next look.
    let slow = || node.rows("SELECT query FROM system_views.slow_queries WHERE keyspace_name = 'k'");
    let is_listed = |text: &str| slow().contains(&vec![Some(text.into())]);
    for _ in 0..LOOKS_MAX {
        if is_listed(select) && is_listed(scan) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}", slow());
}
