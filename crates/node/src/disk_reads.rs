//! Reads of a shard that wait for the disk, while the shard serves others.
//!
//! The disk is asked for a bounded number of reads at a time. Requests that miss all caches beyond that wait in a queue of
//! their own, each client in its turn, and are told at once where they could not be begun in time, as long reads are
//! ([`long_reads`](crate::long_reads)). What has been begun is read on before anything else.

mod misses;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::fast::RandomState;
use helenus_sstable::AbsentPages;
use helenus_transport::aged_queue::Wait;
use helenus_transport::fair_share::{ClientId, FairShareQueue, Offer};
use helenus_transport::request_memory::{Account, Held};
use helenus_transport::standing_queue::StandingQueue;
use helenus_vfs::read_queue::{FailedRead, Notify, READS_UNDER_WAY_MAX};
use helenus_vfs::{CompletedRead, QueuedRead, ReadQueue};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::forward::OwnedExecution;
use crate::options::NodeOptions;
use crate::shard::mailbox::Mailbox;
use crate::suspended_read::SuspendedRead;

/// Lengths of up to 32 KiB: a chunk of the usual size and what its compression may add. Of each class as many rooms are
/// kept as reads are under way at a time.
const ROOM_CLASSES: usize = 16;

/// Rooms of one class differ by less than a factor of two.
fn room_class(length: usize) -> usize {
    length.next_power_of_two().ilog2() as usize
}

/// The shard's queue of reads, and who waits for which. As many as reads are suspended, each for one request at a time.
pub struct DiskReads {
    queue: Box<dyn ReadQueue>,
    /// Called when the queue was given reads, so that those of a turn of the shard are begun together.
    submitted: Rc<tokio::sync::Notify>,
    has_submitted: bool,
    waiting: HashMap<u64, Waiting, RandomState>,
    next_id: u64,
    /// Room for what the queue gives.
    completed: Vec<CompletedRead>,
    /// Memory of reads that have been delivered, for those that come; by the logarithm of its length, for what is longer
    /// than the read before it must be cleared.
    rooms: [Vec<Vec<u8>>; ROOM_CLASSES],
    /// Completed, and nobody was told yet.
    ready: VecDeque<CompletedRead>,
    /// The queue has called and the shard has not looked yet: one message is enough for all that completes meanwhile.
    is_called: Arc<AtomicBool>,
    /// No read without a task must be answered before.
    earliest_deadline_ns: u64,
    /// Misses that are not begun before fewer reads are under way.
    queued: FairShareQueue<QueuedMiss>,
    pace: DiskPace,
    standing: StandingQueue,
}

struct QueuedMiss {
    read: Box<SuspendedRead>,
    /// Pages that the read lacks; `None` if it was not tried, because reads of its statement mostly miss.
    absent: Option<Box<AbsentPages>>,
    _held: Held,
}

/// Bytes of a waiting miss besides its values.
const QUEUED_BYTES: usize = size_of::<SuspendedRead>() + size_of::<AbsentPages>();

/// How often the disk completes a read where it always has enough of them.
struct DiskPace {
    read_ns: u64,
    window_began_ns: u64,
    completed: u64,
}

/// A statement of which so many executions miss is refused before anything is looked up for it.
const MOSTLY_MISSES_PERMILLE: u32 = 700;

/// Assumed cost of a read until it was measured, in ns: that of a disk that does 20,000 a second.
const READ_NS_FIRST: u64 = 50_000;

/// The pace is measured over so long.
const PACE_WINDOW_NS: u64 = 20_000_000;

impl DiskPace {
    /// `is_busy`: others have waited all the time.
    fn completed(&mut self, reads: u64, is_busy: bool, now_ns: u64) {
        if !is_busy || self.window_began_ns == 0 {
            (self.window_began_ns, self.completed) = (now_ns, 0);
            return;
        }
        self.completed += reads;
        let passed_ns = now_ns.saturating_sub(self.window_began_ns);
        if passed_ns >= PACE_WINDOW_NS && self.completed > 0 {
            self.read_ns = (self.read_ns + passed_ns / self.completed).div_ceil(2);
            (self.window_began_ns, self.completed) = (now_ns, 0);
        }
    }
}

enum Waiting {
    Task(oneshot::Sender<Result<Vec<u8>, FailedRead>>),
    Suspended {
        read: Box<SuspendedRead>,
        absent: Box<AbsentPages>,
    },
}

impl DiskReads {
    /// On the shard's thread.
    pub fn start(options: &NodeOptions, mailbox: &Mailbox) -> io::Result<Self> {
        let mailbox = mailbox.clone();
        let is_called = Arc::new(AtomicBool::new(false));
        let calls = is_called.clone();
        let notify: Notify = Arc::new(move || {
            if !calls.swap(true, Ordering::SeqCst) {
                mailbox.run(|shard| shard.reader.disk_reads_completed());
            }
        });
        Ok(DiskReads {
            queue: options.disk.read_queue(options.disk_io, notify)?,
            submitted: Rc::default(),
            has_submitted: false,
            waiting: HashMap::default(),
            next_id: 0,
            completed: Vec::new(),
            rooms: Default::default(),
            ready: VecDeque::new(),
            is_called,
            earliest_deadline_ns: u64::MAX,
            queued: FairShareQueue::default(),
            pace: DiskPace {
                read_ns: READ_NS_FIRST,
                window_began_ns: 0,
                completed: 0,
            },
            standing: StandingQueue::default(),
        })
    }

    /// Name of the interface through which the disk is read.
    pub fn name(&self) -> &'static str {
        self.queue.name()
    }

    fn submit(&mut self, absent: &AbsentPages) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let room = self.rooms.get_mut(room_class(absent.length()));
        let room = room.and_then(Vec::pop).unwrap_or_default();
        self.queue.submit(QueuedRead {
            id,
            file: absent.file().clone(),
            offset: absent.offset(),
            length: absent.length(),
            room,
        });
        if !std::mem::replace(&mut self.has_submitted, true) {
            self.submitted.notify_one();
        }
        id
    }

    fn begin_submitted(&mut self) {
        if std::mem::take(&mut self.has_submitted) {
            self.queue.begin();
        }
    }

    /// Reads that wait until fewer are under way.
    pub fn queued(&self) -> usize {
        self.queued.len()
    }

    fn offer_of(&self, execution: &OwnedExecution, account: &Arc<Account>) -> Offer {
        let time_ns = execution.deadline_ns().saturating_sub(execution.received_ns);
        let wait_ns_max = match execution.throws_on_overload {
            true => (time_ns / 2).min(self.standing.delay_ns_max()),
            false => time_ns / 2,
        };
        Offer {
            asker: ClientId::of(account),
            kept_requests: account.kept_requests(),
            wait: Wait {
                received_ns: execution.received_ns,
                wait_ns_max,
            },
            cost_ns: self.pace.read_ns,
        }
    }

    /// Returns whether a read of a THROW_ON_OVERLOAD client would start too late.
    fn has_no_time_for(&mut self, offer: &Offer, throws_on_overload: bool, now_ns: u64) -> bool {
        let wait_ns = self.queued.cost_before_ns(offer.asker);
        let delay_ns = offer.wait.age_ns(now_ns).saturating_add(wait_ns);
        self.standing.saw(delay_ns, now_ns);
        throws_on_overload && delay_ns > self.standing.delay_ns_max()
    }

    fn has_room(&self) -> bool {
        self.waiting.len() < READS_UNDER_WAY_MAX
    }

    /// Brings pages for a read, which is then resumed.
    fn bring_for(&mut self, read: Box<SuspendedRead>, absent: Box<AbsentPages>) {
        let deadline_ns = read.deadline().at_ns;
        self.earliest_deadline_ns = self.earliest_deadline_ns.min(deadline_ns);
        let id = self.submit(&absent);
        self.waiting.insert(id, Waiting::Suspended { read, absent });
    }

    /// Takes out reads whose time was over at `now_ns`. What the disk brings for them is let go.
    pub(crate) fn take_late(&mut self, now_ns: u64) -> Vec<SuspendedRead> {
        if now_ns <= self.earliest_deadline_ns {
            return Vec::new();
        }
        let mut earliest_ns = u64::MAX;
        let late = self.waiting.extract_if(|_, waiting| match waiting {
            Waiting::Suspended { read, .. } => {
                let deadline = read.deadline();
                if !deadline.is_over(now_ns) {
                    earliest_ns = earliest_ns.min(deadline.at_ns);
                }
                deadline.is_over(now_ns)
            }
            // Tasks look at their time themselves.
            Waiting::Task(_) => false,
        });
        let late = late.filter_map(|(_, waiting)| match waiting {
            Waiting::Suspended { read, .. } => Some(*read),
            Waiting::Task(_) => None,
        });
        let late = late.collect();
        self.earliest_deadline_ns = earliest_ns;
        late
    }

    fn give_back(&mut self, room: Vec<u8>) {
        if let Some(rooms) = self.rooms.get_mut(room_class(room.len()))
            && rooms.len() < READS_UNDER_WAY_MAX
        {
            rooms.push(room);
        }
    }

    fn take_completed(&mut self, now_ns: u64) {
        // Before looking: what completes after the look calls again.
        self.is_called.store(false, Ordering::SeqCst);
        self.queue.take_completed(&mut self.completed);
        let (reads, is_busy) = (self.completed.len() as u64, !self.queued.is_empty());
        self.pace.completed(reads, is_busy, now_ns);
        self.ready.extend(self.completed.drain(..));
    }

    fn next_completed(&mut self) -> Option<(Waiting, Result<Vec<u8>, FailedRead>)> {
        loop {
            let CompletedRead { id, result } = self.ready.pop_front()?;
            // A read whose time was over is not there any more.
            if let Some(waiting) = self.waiting.remove(&id) {
                return Some((waiting, result));
            }
        }
    }
}

fn readable_event(event: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always gives the same descriptor and keeps it open until it is dropped, which the `AsyncFd`
    // that owns it does after it has deregistered it.
    let registered = unsafe { AsyncFd::register_with_interest(event, Interest::READABLE) };
    registered.map_err(io::Error::from)
}
