//! Every queue of asynchronous reads does the same.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use helenus_vfs::read_queue::{FailedRead, Notify, READS_UNDER_WAY_MAX, ThreadPoolReads};
use helenus_vfs::{
    CompletedRead, Disk, DiskIo, File, MemoryDisk, QueuedRead, ReadQueue, RealDisk, SimulatedDisk,
};

const FILE_BYTES: usize = 300_000;

/// Longer than any read takes; a test that reaches it hangs for another reason.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(30);

struct Fixture {
    queue: Box<dyn ReadQueue>,
    file: Arc<dyn File>,
    notified: mpsc::Receiver<()>,
}

fn content() -> Vec<u8> {
    (0..FILE_BYTES as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Each kind of queue over a file with [`content`].
fn each_queue(mut test: impl FnMut(Fixture)) {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("helenus-read-queues-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut run = |disk: &dyn Disk, path: &Path, start: &dyn Fn(Notify) -> Box<dyn ReadQueue>| {
        let file = disk.create(path).unwrap();
        file.append(&content()).unwrap();
        let (sender, notified) = mpsc::channel();
        let queue = start(Arc::new(move || {
            let _ended = sender.send(());
        }));
        test(Fixture {
            queue,
            file,
            notified,
        });
        disk.remove(path).unwrap();
    };
    let real = RealDisk::new();
    let path = folder.join("file");
    run(&real, &path, &|notify| {
        real.read_queue(DiskIo::Auto, notify).unwrap()
    });
    run(&real, &path, &|notify| {
        real.read_queue(DiskIo::Threads, notify).unwrap()
    });
    run(&real, &path, &|notify| {
        Box::new(ThreadPoolReads::start(notify).unwrap())
    });
    let memory = MemoryDisk::new();
    run(&memory, Path::new("/file"), &|notify| {
        memory.read_queue(DiskIo::Auto, notify).unwrap()
    });
    for seed in 0..5 {
        let simulated = SimulatedDisk::new(seed);
        run(&simulated, Path::new("/file"), &|notify| {
            simulated.read_queue(DiskIo::Auto, notify).unwrap()
        });
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

impl Fixture {
    fn submit(&mut self, id: u64, offset: u64, length: usize) {
        let file = self.file.clone();
        self.queue.submit(QueuedRead {
            id,
            file,
            offset,
            length,
            room: vec![0xee; 100],
        });
    }

    /// Waits as a shard does: for the event, or for the notification.
    fn complete(&mut self, count: usize) -> Vec<CompletedRead> {
        self.queue.begin();
        let mut completed = Vec::new();
        while completed.len() < count {
            match self.queue.event() {
                Some(event) => wait_readable(event),
                None => self.notified.recv_timeout(COMPLETION_TIMEOUT).unwrap(),
            }
            self.queue.take_completed(&mut completed);
        }
        assert_eq!(completed.len(), count);
        completed
    }
}

fn wait_readable(event: std::os::fd::BorrowedFd<'_>) {
    use std::os::fd::AsRawFd;
    let mut poll = libc::pollfd {
        fd: event.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `poll` is one structure of the kind that poll reads and fills.
    let ready = unsafe { libc::poll(&mut poll, 1, COMPLETION_TIMEOUT.as_millis() as libc::c_int) };
    assert_eq!(ready, 1, "nothing completed on {event:?}");
}

#[test]
fn more_reads_than_may_be_under_way_all_complete_with_their_bytes() {
    let content = content();
    each_queue(|mut fixture| {
        let count = 3 * READS_UNDER_WAY_MAX;
        for id in 0..count {
            fixture.submit(id as u64, (id * 1_111) as u64, 1 + id * 17);
        }
        let mut ids = Vec::new();
        for CompletedRead { id, result } in fixture.complete(count) {
            let start = id as usize * 1_111;
            let name = fixture.queue.name();
            assert_eq!(
                result.unwrap(),
                content[start..start + 1 + id as usize * 17],
                "{name}"
            );
            ids.push(id);
        }
        ids.sort_unstable();
        assert_eq!(ids, (0..count as u64).collect::<Vec<_>>());
    });
}

#[test]
fn a_read_past_the_end_fails_alone() {
    each_queue(|mut fixture| {
        fixture.submit(1, FILE_BYTES as u64 - 10, 11);
        fixture.submit(2, FILE_BYTES as u64 - 10, 10);
        let mut completed = fixture.complete(2);
        completed.sort_by_key(|read| read.id);
        let Err(FailedRead::Io(error)) = &completed[0].result else {
            panic!("{:?}", completed[0]);
        };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(completed[1].result.as_ref().unwrap().len(), 10);
    });
}

#[test]
fn a_queue_may_be_dropped_with_reads_under_way() {
    each_queue(|mut fixture| {
        for id in 0..2 * READS_UNDER_WAY_MAX as u64 {
            fixture.submit(id, 0, FILE_BYTES);
        }
    });
}
