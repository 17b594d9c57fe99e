//! Reads of a shard that wait for the disk, while the shard serves others.
//!
//! The disk is asked for a bounded number of reads at a time. Requests that miss all caches beyond that wait in a queue of
//! their own, each client in its turn, and are told at once where they could not be begun in time, as long reads are
//! ([`long_reads`](crate::long_reads)). What has been begun is read on before anything else.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::fast::RandomState;
use helenus_engine::CqlError;
use helenus_engine::error::PreparedId;
use helenus_engine::execute::read_failure;
use helenus_events::Event;
use helenus_sstable::AbsentPages;
use helenus_storage::read_state::ReadState;
use helenus_transport::aged_queue::Wait;
use helenus_transport::fair_share::{ClientId, FairShareQueue, Offer, Turn};
use helenus_transport::request_memory::{Account, Held};
use helenus_transport::standing_queue::StandingQueue;
use helenus_vfs::read_queue::{FailedRead, Notify, READS_UNDER_WAY_MAX};
use helenus_vfs::{CompletedRead, QueuedRead, ReadQueue};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::deadline::{no_memory, not_begun_in_time};
use crate::forward::OwnedExecution;
use crate::mailbox::Mailbox;
use crate::options::NodeOptions;
use crate::panic_boundary::Panicked;
use crate::request::node_is_stopping;
use crate::shard::Shard;
use crate::suspended_read::SuspendedRead;

/// Reads that are resumed before others are served, some 20 us each: all that are under way. What was begun is ended before new
/// work, or the shard would be busy with what it cannot answer yet.
const RESUMED_AT_A_TIME_MAX: usize = READS_UNDER_WAY_MAX;

/// Reads that are begun together: as many as may be under way.
const BEGUN_AT_A_TIME_MAX: usize = READS_UNDER_WAY_MAX;

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
    /// What is not begun before fewer reads are under way.
    queued: FairShareQueue<QueuedMiss>,
    pace: DiskPace,
    standing: StandingQueue,
}

struct QueuedMiss {
    read: Box<SuspendedRead>,
    /// What it lacks; `None` if it was not tried, because reads of its statement mostly miss.
    absent: Option<Box<AbsentPages>>,
    _held: Held,
}

/// What a miss that waits takes besides its values.
const QUEUED_BYTES: usize = size_of::<SuspendedRead>() + size_of::<AbsentPages>();

/// How often the disk completes a read where it always has enough of them.
struct DiskPace {
    read_ns: u64,
    window_began_ns: u64,
    completed: u64,
}

/// A statement of which so many executions miss is refused before anything is looked up for it.
const MOSTLY_MISSES_PERMILLE: u32 = 700;

/// What a read is taken to cost until it was measured: a disk that does 20,000 a second.
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
                mailbox.run(Shard::disk_reads_completed);
            }
        });
        Ok(DiskReads {
            queue: options.disk.read_queue(options.disk_io, notify)?,
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

    /// What the disk is read through.
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
        id
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
            wait: Wait {
                received_ns: execution.received_ns,
                wait_ns_max,
            },
            cost_ns: self.pace.read_ns,
        }
    }

    /// Whether a read would not be begun in time, of a client that asked to be told.
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

impl Shard {
    /// Brings what a read lacks: at once where it was begun before or few are under way, else in its turn.
    pub(crate) fn bring_in_turn(self: &Rc<Self>, read: Box<SuspendedRead>, absent: Box<AbsentPages>) {
        let mut reads = self.disk_reads.borrow_mut();
        if read.has_waited || (reads.queued.is_empty() && reads.has_room()) || !self.options.admission {
            return reads.bring_for(read, absent);
        }
        drop(reads);
        self.queue_miss(read, Some(absent));
    }

    fn set_disk_is_busy(&self, is_busy: bool) {
        self.disk_is_busy.set(is_busy);
        self.transport.admission.set_has_begun(is_busy);
    }

    /// Whether a read is to wait for its turn at the disk before anything is looked up for it.
    #[inline]
    pub(crate) fn waits_for_disk(&self, statement: &PreparedId) -> bool {
        self.disk_is_busy.get() && self.mostly_misses(statement)
    }

    #[cold]
    fn mostly_misses(&self, statement: &PreparedId) -> bool {
        self.prepared.borrow().misses_permille(statement) >= MOSTLY_MISSES_PERMILLE
    }

    pub(crate) fn queue_miss(self: &Rc<Self>, read: Box<SuspendedRead>, absent: Option<Box<AbsentPages>>) {
        let account = self.account_of(&read.asker);
        let now_ns = self.last_looked_ns();
        let mut reads = self.disk_reads.borrow_mut();
        let offer = reads.offer_of(&read.execution, &account);
        let held = match reads.has_no_time_for(&offer, read.execution.throws_on_overload, now_ns) {
            true => Err(not_begun_in_time()),
            false => {
                let held = Held::nothing_of(&account);
                held.try_set(QUEUED_BYTES).map(|()| held).map_err(no_memory)
            }
        };
        match held {
            Ok(held) => {
                let queued = QueuedMiss {
                    read,
                    absent,
                    _held: held,
                };
                reads.queued.push(&offer, queued, now_ns);
                self.set_disk_is_busy(true);
            }
            Err(error) => {
                drop(reads);
                self.answer_asker(&read.asker, Err(error));
            }
        }
    }

    /// While the disk has much to do: whether a read of the statement was answered without it.
    #[cold]
    pub(crate) fn learn_miss(&self, statement: &PreparedId, has_missed: bool) {
        self.prepared.borrow_mut().learn_miss(statement, has_missed);
    }

    /// Whether a read at `offer`'s end of the queue, of a statement that mostly misses all caches and of a client that asked
    /// to be told of overload, would not be begun in time.
    pub(crate) fn has_disk_reads_enough(
        &self,
        statement: &PreparedId,
        asker: ClientId,
        received_ns: u64,
    ) -> bool {
        if !self.mostly_misses(statement) {
            return false;
        }
        let reads = &mut *self.disk_reads.borrow_mut();
        let offer = Offer {
            asker,
            wait: Wait {
                received_ns,
                wait_ns_max: u64::MAX,
            },
            cost_ns: reads.pace.read_ns,
        };
        reads.has_no_time_for(&offer, true, self.last_looked_ns())
    }

    /// As many as there is room for; those that waited too long are refused.
    fn begin_queued_misses(self: &Rc<Self>, now_ns: u64) {
        for _ in 0..BEGUN_AT_A_TIME_MAX {
            let mut reads = self.disk_reads.borrow_mut();
            if !reads.has_room() {
                return;
            }
            let next = reads.queued.pop(now_ns);
            drop(reads);
            match next {
                None => return self.set_disk_is_busy(false),
                Some(Turn::Begin(QueuedMiss { mut read, absent, .. })) => {
                    read.has_waited = true;
                    match absent {
                        Some(absent) => self.bring_in_turn(read, absent),
                        None => self.try_directly(read),
                    }
                }
                Some(Turn::TooLate(queued)) => {
                    self.answer_asker(&queued.read.asker, Err(not_begun_in_time()));
                }
            }
        }
        // None of them needed the disk: nothing would call again.
        if self.disk_reads.borrow().has_room() {
            self.mailbox(self.id)
                .run(|shard| shard.begin_queued_misses(shard.look_at_clock()));
        }
    }

    /// Refuses what was not begun in time.
    pub(crate) fn refuse_late_misses(self: &Rc<Self>, now_ns: u64) {
        loop {
            let late = self.disk_reads.borrow_mut().queued.pop_late(now_ns);
            let Some(late) = late else { break };
            self.answer_asker(&late.read.asker, Err(not_begun_in_time()));
        }
        self.begin_queued_misses(now_ns);
    }

    /// Waits for what a suspended read lacks, and pins it to the read.
    pub(crate) async fn bring(&self, state: &ReadState, absent: &AbsentPages) -> Result<(), CqlError> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut reads = self.disk_reads.borrow_mut();
            let id = reads.submit(absent);
            reads.waiting.insert(id, Waiting::Task(sender));
        }
        let stored = receiver.await.map_err(|_| node_is_stopping())?;
        self.deliver(state, absent, stored)
    }

    /// Pins what was read to a suspended read.
    pub(crate) fn deliver(
        &self,
        state: &ReadState,
        absent: &AbsentPages,
        stored: Result<Vec<u8>, FailedRead>,
    ) -> Result<(), CqlError> {
        let stored = match stored {
            Ok(stored) => stored,
            Err(FailedRead::Io(source)) => {
                return self
                    .store
                    .borrow()
                    .not_delivered(absent, source)
                    .map_err(read_failure);
            }
            Err(FailedRead::Panicked) => return Err(Panicked.error()),
        };
        let delivered = self.store.borrow().deliver(state, absent, &stored);
        self.disk_reads.borrow_mut().give_back(stored);
        delivered.map_err(read_failure)
    }

    /// The kernel may have refused reads, which do not complete then.
    pub(crate) fn tell_of_refused_reads(&self) {
        let refusal = self.disk_reads.borrow_mut().queue.take_refusal();
        if let Some(error) = refusal {
            self.options.events.event(&Event::DiskReadsFailed {
                shard: self.id.0,
                error: &error,
            });
        }
    }

    fn disk_reads_completed(self: &Rc<Self>) {
        let now_ns = self.look_at_clock();
        self.disk_reads.borrow_mut().take_completed(now_ns);
        self.tell_of_refused_reads();
        self.begin_queued_misses(now_ns);
        for _ in 0..RESUMED_AT_A_TIME_MAX {
            let Some((waiting, stored)) = self.disk_reads.borrow_mut().next_completed() else {
                return;
            };
            match waiting {
                // A task whose time was over has given up waiting.
                Waiting::Task(sender) => drop(sender.send(stored)),
                Waiting::Suspended { read, absent } => self.resume(read, &absent, stored),
            }
        }
        if !self.disk_reads.borrow().ready.is_empty() {
            self.mailbox(self.id).run(Shard::disk_reads_completed);
        }
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
                self.options.events.event(&Event::DiskReadsFailed {
                    shard: self.id.0,
                    error: &error,
                });
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
