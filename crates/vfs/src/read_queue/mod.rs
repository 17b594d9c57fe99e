//! Reads that are asked for now and come later, so that the thread which asks can do something else.
//!
//! A queue belongs to one thread. What completes is announced through the queue's [`Notify`] or its event, and taken
//! with [`ReadQueue::take_completed`] on that thread.

mod immediate;
mod pool;
mod shuffled;
#[cfg(target_os = "linux")]
mod uring;

use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::disk::File;

pub(crate) use immediate::ImmediateReads;
pub use pool::ThreadPoolReads;
pub(crate) use shuffled::ShuffledReads;
#[cfg(target_os = "linux")]
pub(crate) use uring::UringReads;

/// Reads that one shard has under way at the same time; more wait in the queue's own list. A drive's queue is 32 (SATA)
/// to 1,024 (NVMe) deep, and most reach their throughput with 32 to 64.
pub const READS_UNDER_WAY_MAX: usize = 64;

/// Called when something has completed, from any thread.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// Bytes to be read from a file.
#[derive(Clone, Debug)]
pub struct QueuedRead {
    /// The asker's own name for the read, given back with its result.
    pub id: u64,
    pub file: Arc<dyn File>,
    pub offset: u64,
    pub length: usize,
    /// Room for the bytes, whatever it holds: memory that was used before costs nothing to clear.
    pub room: Vec<u8>,
}

impl QueuedRead {
    /// Takes the room, with the length of the read.
    fn take_room(&mut self) -> Vec<u8> {
        let mut room = std::mem::take(&mut self.room);
        room.resize(self.length, 0);
        room
    }
}

/// All bytes of a [`QueuedRead`], or why there are none.
#[derive(Debug)]
pub struct CompletedRead {
    pub id: u64,
    pub result: Result<Vec<u8>, FailedRead>,
}

#[derive(Debug)]
pub enum FailedRead {
    /// `UnexpectedEof` where the file ends before the read does.
    Io(io::Error),
    /// A bug; the process's hook has reported it.
    Panicked,
}

pub trait ReadQueue {
    /// Takes a read. It completes once, whatever happens, behind the next [`ReadQueue::begin`].
    fn submit(&mut self, read: QueuedRead);

    /// Begins what was submitted since the last call, all of it together where that is cheaper.
    fn begin(&mut self) {}

    /// Moves what has completed since the last call to `completed`, and begins what waited for it.
    fn take_completed(&mut self, completed: &mut Vec<CompletedRead>);

    /// Readable when something has completed; `None` for a queue that calls its [`Notify`].
    fn event(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Why the kernel took no reads, once; those that it did not take do not complete.
    fn take_refusal(&mut self) -> Option<io::Error> {
        None
    }

    /// Kind of the queue, for the log.
    fn name(&self) -> &'static str;
}

/// How a disk is to be read: Helenus' `disk_io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskIo {
    /// io_uring where the kernel allows it, else threads.
    #[default]
    Auto,
    IoUring,
    Threads,
}

/// A queue for files of the operating system.
pub(crate) fn real_read_queue(disk_io: DiskIo, notify: Notify) -> io::Result<Box<dyn ReadQueue>> {
    #[cfg(target_os = "linux")]
    if disk_io != DiskIo::Threads {
        match UringReads::start() {
            Ok(queue) => return Ok(Box::new(queue)),
            Err(error) if disk_io == DiskIo::IoUring => return Err(error),
            // Containers and old kernels refuse it.
            Err(_) => {}
        }
    }
    #[cfg(not(target_os = "linux"))]
    if disk_io == DiskIo::IoUring {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(Box::new(ThreadPoolReads::start(notify)?))
}

/// Reads at once, on the calling thread; completes whatever happens.
fn read_now(mut read: QueuedRead) -> CompletedRead {
    let mut bytes = read.take_room();
    let result = catch_unwind(AssertUnwindSafe(|| {
        read.file.read_exact_at(read.offset, &mut bytes).map(|()| bytes)
    }));
    CompletedRead {
        id: read.id,
        result: match result {
            Ok(read) => read.map_err(FailedRead::Io),
            Err(_) => Err(FailedRead::Panicked),
        },
    }
}
