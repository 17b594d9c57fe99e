//! Reads of a shard that wait for the disk, while the shard serves others.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_engine::execute::read_failure;
use helenus_storage::read_state::ReadState;
use helenus_storage::sstable::AbsentPages;
use helenus_vfs::read_queue::{FailedRead, Notify};
use helenus_vfs::{CompletedRead, QueuedRead, ReadQueue};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::mailbox::Mailbox;
use crate::options::NodeOptions;
use crate::panic_boundary::Panicked;
use crate::request::node_is_stopping;
use crate::shard::Shard;

/// The shard's queue of reads, and who waits for which. As many as reads are suspended, each for one request at a time.
pub struct DiskReads {
    queue: Box<dyn ReadQueue>,
    waiting: HashMap<u64, oneshot::Sender<Result<Vec<u8>, FailedRead>>>,
    next_id: u64,
    completed: Vec<CompletedRead>,
}

impl DiskReads {
    /// On the shard's thread.
    pub fn start(options: &NodeOptions, mailbox: &Mailbox) -> io::Result<Self> {
        let mailbox = mailbox.clone();
        let notify: Notify = Arc::new(move || {
            mailbox.run(|shard| shard.disk_reads_completed());
        });
        Ok(DiskReads {
            queue: options.disk.read_queue(options.disk_io, notify)?,
            waiting: HashMap::new(),
            next_id: 0,
            completed: Vec::new(),
        })
    }

    /// What the disk is read through.
    pub fn name(&self) -> &'static str {
        self.queue.name()
    }

    fn submit(&mut self, absent: &AbsentPages) -> oneshot::Receiver<Result<Vec<u8>, FailedRead>> {
        let (sender, receiver) = oneshot::channel();
        let id = self.next_id;
        self.next_id += 1;
        self.waiting.insert(id, sender);
        self.queue.submit(QueuedRead {
            id,
            file: absent.file().clone(),
            offset: absent.offset(),
            length: absent.length(),
        });
        receiver
    }

    fn take_completed(&mut self) {
        self.queue.take_completed(&mut self.completed);
        for CompletedRead { id, result } in self.completed.drain(..) {
            if let Some(sender) = self.waiting.remove(&id) {
                // A read whose time was over has given up waiting.
                let _given_up = sender.send(result);
            }
        }
    }
}

impl Shard {
    /// Waits for what a suspended read lacks, and pins it to the read.
    pub(crate) async fn bring(&self, state: &ReadState, absent: &AbsentPages) -> Result<(), CqlError> {
        let receiver = self.disk_reads.borrow_mut().submit(absent);
        let stored = match receiver.await {
            Ok(Ok(stored)) => stored,
            Ok(Err(FailedRead::Io(source))) => return Err(read_failure(absent.failed(source))),
            Ok(Err(FailedRead::Panicked)) => return Err(Panicked.error()),
            Err(_) => return Err(node_is_stopping()),
        };
        let delivered = self.store.borrow().deliver(state, absent, stored);
        delivered.map_err(read_failure)
    }

    fn disk_reads_completed(&self) {
        self.disk_reads.borrow_mut().take_completed();
    }

    /// Takes completed reads where the queue has an event instead of calling the shard.
    pub(crate) async fn watch_disk_reads(self: Rc<Self>) {
        let event = self
            .disk_reads
            .borrow()
            .queue
            .event()
            .map(|event| event.try_clone_to_owned());
        let event = match event {
            None => return,
            Some(event) => event.and_then(readable_event),
        };
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                eprintln!("shard {}: cannot wait for the disk: {error}", self.id.0);
                return;
            }
        };
        while let Ok(mut ready) = event.readable().await {
            // Before looking: what completes after the look makes the event readable again.
            ready.clear_ready();
            self.disk_reads_completed();
        }
    }
}

fn readable_event(event: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always gives the same descriptor and keeps it open until it is dropped, which the `AsyncFd`
    // that owns it does after it has deregistered it.
    let registered = unsafe { AsyncFd::register_with_interest(event, Interest::READABLE) };
    registered.map_err(io::Error::from)
}
