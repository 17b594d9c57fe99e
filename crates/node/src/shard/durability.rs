//! From an appended write to a durable one: the shard's log thread, and the writes that wait for it.
//!
//! The shard appends to its log's buffer and never touches the file. A log thread takes the whole buffer, writes it,
//! syncs it and reports back; writes that arrive meanwhile gather in the next buffer and share the next sync.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helenus_engine::CqlError;
use helenus_storage::commitlog::{LogBatch, LogError, LogPosition, LogWriter, SegmentFiles};
use helenus_types::ShardId;
use helenus_vfs::{Threads, Urgency, Worker};
use tokio::sync::oneshot;

use crate::deadline::Deadline;
use crate::forward::{ForwardedAnswer, Ticket};
use crate::panic_boundary::catch;
use crate::session::Session;
use crate::shard::mailbox::Mailbox;
use crate::write_set::PartOfSet;

/// The log thread of one shard, seen from the shard, and the one that makes and removes its files.
pub struct LogThread {
    worker: Worker<LogWork>,
    /// The log thread tells it when there is something to do.
    tending: Arc<Mutex<Worker<()>>>,
    files: Arc<SegmentFiles>,
}

struct LogWork {
    batch: LogBatch,
    sync: bool,
}

/// Writes that wait until the log is durable up to their position, oldest first. Bounded by the requests in flight,
/// of which a connection has at most 32,768, and of a periodic log by the parts of write sets that it may owe a sync.
pub struct Unacknowledged {
    waiting: VecDeque<LoggedWrite>,
    /// No write that waits must be answered before.
    earliest_deadline_ns: u64,
}

struct LoggedWrite {
    position: LogPosition,
    deadline: Deadline,
    acknowledgement: Acknowledgement,
}

/// Whom to tell that a write is durable, or that it will never be.
pub enum Acknowledgement {
    /// A client of this shard's, with an empty result.
    Session { session: Rc<Session>, stream: i16 },
    /// A client of this shard's, with rows.
    Answer {
        session: Rc<Session>,
        stream: i16,
        answer: ForwardedAnswer,
    },
    /// A statement that another shard sent here.
    Forwarded { from: ShardId, ticket: Ticket },
    /// A task of this shard's that coordinates several writes.
    Task(oneshot::Sender<Result<(), CqlError>>),
    /// The coordinator of a write set, of which this shard has a part.
    Part(PartOfSet),
}

impl LogThread {
    pub fn start(
        threads: &dyn Threads,
        shard: u16,
        mut writer: LogWriter,
        mailbox: Mailbox,
    ) -> std::io::Result<Self> {
        let files = writer.segment_files();
        let tending = Arc::new(Mutex::new(tend(threads, shard, files.clone(), mailbox.clone())?));
        let tender = tending.clone();
        let work = move |LogWork { batch, sync }| {
            // After a panic nobody knows what the file holds; the shard takes no more writes, as after an error.
            let result = catch(|| writer.persist(&batch, sync)).unwrap_or_else(|_| {
                Err(LogError::Abandoned {
                    reason: "writing it panicked".to_owned(),
                })
            });
            mailbox.run(move |shard| shard.log_persisted(batch, &result));
            if writer.wants_tending() {
                lock(&tender).send(());
            }
        };
        Ok(LogThread {
            worker: Worker::start(threads, format!("log-{shard}"), Urgency::Answers, work)?,
            tending,
            files,
        })
    }

    /// The shard hands over one batch at a time, so the channel never holds more than one.
    pub fn persist(&self, batch: LogBatch, sync: bool) {
        let _stopped = self.worker.send(LogWork { batch, sync });
    }

    /// Lets the thread finish what it was given, and waits for it.
    pub fn stop(&mut self) {
        self.worker.finish();
        self.files.close();
        lock(&self.tending).finish();
        self.files.remove_unused();
    }
}

/// Starts the thread that makes and removes a log's files.
fn tend(
    threads: &dyn Threads,
    shard: u16,
    files: Arc<SegmentFiles>,
    mailbox: Mailbox,
) -> std::io::Result<Worker<()>> {
    let work = move |()| {
        // After a panic the log goes on in files that grow, and the next call removes what is left.
        if let Ok(Err(error)) = catch(|| files.tend()) {
            mailbox.run(move |shard| shard.log_segment_not_removed(&error));
        }
    };
    // Its short work comes between that of those who answer: late, the log would go on in a file that grows.
    Worker::start(threads, format!("log-files-{shard}"), Urgency::Answers, work)
}

fn lock(worker: &Mutex<Worker<()>>) -> MutexGuard<'_, Worker<()>> {
    worker.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Unacknowledged {
    fn default() -> Self {
        Unacknowledged {
            waiting: VecDeque::new(),
            earliest_deadline_ns: u64::MAX,
        }
    }
}

impl Unacknowledged {
    pub fn push(&mut self, position: LogPosition, deadline: Deadline, acknowledgement: Acknowledgement) {
        self.earliest_deadline_ns = self.earliest_deadline_ns.min(deadline.at_ns);
        self.waiting.push_back(LoggedWrite {
            position,
            deadline,
            acknowledgement,
        });
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn pop_durable(&mut self, durable: LogPosition) -> Option<Acknowledgement> {
        if self.waiting.front()?.position > durable {
            return None;
        }
        self.waiting.pop_front().map(|write| write.acknowledgement)
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Acknowledgement> + '_ {
        self.waiting.drain(..).map(|write| write.acknowledgement)
    }

    /// Takes out those whose time was over at `now_ns`.
    pub fn take_late(&mut self, now_ns: u64) -> Vec<(Acknowledgement, Deadline)> {
        if now_ns <= self.earliest_deadline_ns {
            return Vec::new();
        }
        let mut late = Vec::new();
        let mut earliest_ns = u64::MAX;
        for write in std::mem::take(&mut self.waiting) {
            if write.deadline.is_over(now_ns) {
                late.push((write.acknowledgement, write.deadline));
            } else {
                earliest_ns = earliest_ns.min(write.deadline.at_ns);
                self.waiting.push_back(write);
            }
        }
        self.earliest_deadline_ns = earliest_ns;
        late
    }
}
