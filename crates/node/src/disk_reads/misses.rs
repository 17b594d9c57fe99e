//! Reads that miss the caches of their shard: queued, begun in turn, resumed when their pages are there.

use helenus_engine::CqlError;
use helenus_engine::error::PreparedId;
use helenus_engine::read_failure;
use helenus_events::Event;
use helenus_sstable::AbsentPages;
use helenus_storage::read_state::ReadState;
use helenus_transport::aged_queue::Wait;
use helenus_transport::fair_share::{ClientId, Offer, Turn};
use helenus_transport::request_memory::Held;
use helenus_vfs::read_queue::{FailedRead, READS_UNDER_WAY_MAX};
use tokio::sync::oneshot;

use super::{MOSTLY_MISSES_PERMILLE, QUEUED_BYTES, QueuedMiss, Waiting, readable_event};
use crate::deadline::{no_memory, not_begun_in_time};
use crate::panic_boundary::Panicked;
use crate::reader::Reader;
use crate::suspended_read::SuspendedRead;
use crate::unavailable::node_is_stopping;

/// Reads that are resumed before others are served, some 20 us each: all that are under way. What was begun is ended before new
/// work, or the shard would be busy with what it cannot answer yet.
const RESUMED_AT_A_TIME_MAX: usize = READS_UNDER_WAY_MAX;

/// Reads that are begun together: as many as may be under way.
const BEGUN_AT_A_TIME_MAX: usize = READS_UNDER_WAY_MAX;

impl Reader {
    /// Brings what a read lacks: at once where it was begun before or few are under way, else in its turn.
    pub(crate) fn bring_in_turn(&self, read: Box<SuspendedRead>, absent: Box<AbsentPages>) {
        let mut reads = self.disk_reads.borrow_mut();
        if read.has_waited || (reads.queued.is_empty() && reads.has_room()) || !self.context.options.admission
        {
            return reads.bring_for(read, absent);
        }
        drop(reads);
        self.queue_miss(read, Some(absent));
    }

    fn set_disk_is_busy(&self, is_busy: bool) {
        self.disk_is_busy.set(is_busy);
        self.context.transport.admission.set_has_begun(is_busy);
    }

    /// Returns whether a read is to wait for its turn at the disk before anything is looked up for it.
    #[inline]
    pub(crate) fn waits_for_disk(&self, statement: &PreparedId) -> bool {
        self.disk_is_busy.get() && self.mostly_misses(statement)
    }

    #[cold]
    fn mostly_misses(&self, statement: &PreparedId) -> bool {
        self.prepared.borrow().misses_permille(statement) >= MOSTLY_MISSES_PERMILLE
    }

    pub(crate) fn queue_miss(&self, read: Box<SuspendedRead>, absent: Option<Box<AbsentPages>>) {
        let account = self.context.account_of(&read.asker);
        let now_ns = self.context.last_looked_ns();
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
                self.context.answer_asker(&read.asker, Err(error));
            }
        }
    }

    /// While the disk has much to do: whether a read of the statement was answered without it.
    #[cold]
    pub(crate) fn learn_miss(&self, statement: &PreparedId, has_missed: bool) {
        self.prepared.borrow_mut().learn_miss(statement, has_missed);
    }

    /// Returns whether a read at `asker`'s end of the queue, of a statement that mostly misses all caches and of a client
    /// that asked to be told of overload, would not be begun in time.
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
            kept_requests: 0,
            wait: Wait {
                received_ns,
                wait_ns_max: u64::MAX,
            },
            cost_ns: reads.pace.read_ns,
        };
        reads.has_no_time_for(&offer, true, self.context.last_looked_ns())
    }

    /// As many as there is room for; those that waited too long are refused.
    fn begin_queued_misses(&self, now_ns: u64) {
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
                    self.context
                        .answer_asker(&queued.read.asker, Err(not_begun_in_time()));
                }
            }
        }
        // None of them needed the disk: nothing would call again.
        if self.disk_reads.borrow().has_room() {
            self.context
                .mailbox(self.context.id)
                .run(|shard| shard.reader.begin_queued_misses(shard.context.look_at_clock()));
        }
    }

    /// Refuses what was not begun in time.
    pub(crate) fn refuse_late_misses(&self, now_ns: u64) {
        loop {
            let late = self.disk_reads.borrow_mut().queued.pop_late(now_ns);
            let Some(late) = late else { break };
            self.context
                .answer_asker(&late.read.asker, Err(not_begun_in_time()));
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
            self.context.options.events.event(&Event::DiskReadsFailed {
                shard: self.context.id.0,
                error: &error,
            });
        }
    }

    fn begin_disk_reads(&self) {
        self.disk_reads.borrow_mut().begin_submitted();
        self.tell_of_refused_reads();
    }

    pub(super) fn disk_reads_completed(&self) {
        self.resume_completed();
        self.begin_disk_reads();
    }

    fn resume_completed(&self) {
        let now_ns = self.context.look_at_clock();
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
            self.context
                .mailbox(self.context.id)
                .run(|shard| shard.reader.disk_reads_completed());
        }
    }

    /// Takes completed reads where the queue has an event instead of calling the shard.
    pub(crate) async fn watch_disk_reads(&self) {
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
                self.context.options.events.event(&Event::DiskReadsFailed {
                    shard: self.context.id.0,
                    error: &error,
                });
                return;
            }
        };
        let submitted = self.disk_reads.borrow().submitted.clone();
        loop {
            tokio::select! {
                biased;
                () = submitted.notified() => self.begin_disk_reads(),
                ready = event.readable() => {
                    let Ok(mut ready) = ready else { return };
                    // Before looking: what completes after the look makes the event readable again.
                    ready.clear_ready();
                    self.disk_reads_completed();
                }
            }
        }
    }
}
