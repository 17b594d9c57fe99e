//! From what was written in memory to the disk: the log's queue, flushes and compactions, and who waits for them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use helenus_engine::CqlError;
use helenus_events::Event;
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::response::write_void;
use helenus_rows::update::Update;
use helenus_schema::TableId;
use helenus_storage::ShardStore;
use helenus_storage::commitlog::{LogBatch, LogError, LogPosition, WriteSetId};
use helenus_storage::error::WriteError;
use helenus_storage::store::JobResult;
use helenus_types::{ShardId, Token};
use tokio::sync::{Notify, oneshot};

use super::background::BackgroundThreads;
use super::durability::{Acknowledgement, LogThread};
use super::foreground::PROBE_INTERVAL;
use super::log_queue::LogQueue;
use crate::context::ShardContext;
use crate::deadline::{Deadline, WRITE_SETS_RESOLVED_IN};
use crate::options::CommitlogSync;
use crate::panic_boundary::catch;
use crate::session::Session;
use crate::unavailable::node_is_stopping;

/// How often a periodic log hands its bytes to the operating system, so that a killed process loses at most this much
/// (a power cut loses up to the sync period).
const PERIODIC_WRITE_INTERVAL: Duration = Duration::from_millis(10);

/// Bytes of a periodic log that are handed over before: some 20 us of copying for the log's thread, whose waking costs half as
/// much again on either side.
const PERIODIC_WRITE_BYTES: usize = 256 << 10;

/// Parts of write sets that a periodic log may owe a sync: some 10 MB of them.
const PARTS_UNSYNCED_MAX: usize = 65_536;

/// How long until a log that has no file to go on in tries to make one again: much shorter than a write's time, and long
/// enough to cost nothing.
const LOG_STALL_RETRY: Duration = Duration::from_millis(100);

/// How long a flush, or what changes files or the schema, waits for a log that has no file to go on in: connections that a stop has
/// closed give theirs back.
const LOG_STALL_WAIT: Duration = Duration::from_secs(5);

/// How often somebody who waits for threads looks whether they are done, in case the news was missed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub struct Persistence {
    context: Rc<ShardContext>,
    store: Rc<RefCell<ShardStore>>,
    pub(super) log: LogQueue,
    threads: RefCell<BackgroundThreads>,
    /// Set where log and background work must be looked at before the loop sleeps.
    turn: Notify,
    /// Woken when a flush gave memory back, or the log accepted more.
    room: Notify,
}

impl Persistence {
    pub(super) fn new(
        context: Rc<ShardContext>,
        store: Rc<RefCell<ShardStore>>,
        log: Option<LogThread>,
        threads: BackgroundThreads,
    ) -> Self {
        Persistence {
            context,
            store,
            log: LogQueue::new(log),
            threads: RefCell::new(threads),
            turn: Notify::new(),
            room: Notify::new(),
        }
    }

    /// Something was appended to the log or to a memtable: look at it when the tasks that are ready have run.
    pub fn schedule_turn(&self) {
        self.turn.notify_one();
    }

    /// Waits until a flush has given memory back. False if the write's time is over.
    pub async fn wait_for_room(&self, deadline: Deadline) -> bool {
        self.schedule_turn();
        let left = deadline.left(self.context.clock.monotonic_ns());
        tokio::time::timeout(left, self.room.notified()).await.is_ok()
    }

    /// Waits until a background job has ended, a request was found to need none, or the log has accepted more.
    pub async fn job_ended(&self) {
        self.schedule_turn();
        self.room.notified().await;
    }

    pub(super) async fn turns(self: Rc<Self>) {
        loop {
            self.turn.notified().await;
            self.log.begin_turn();
            // Without its turns the shard would acknowledge nothing any more.
            let _reported = catch(|| {
                self.hand_over_in_turn();
                self.offer_background_work();
            });
        }
    }

    /// Looks how late the loop is, and lets compactions go as fast as requests do not feel.
    pub(super) async fn pace_compactions(self: Rc<Self>) {
        loop {
            let due_ns = self.context.clock.monotonic_ns() + PROBE_INTERVAL.as_nanos() as u64;
            let slept = self.context.transport.pause(PROBE_INTERVAL).await;
            let late_ns = match slept == PROBE_INTERVAL {
                true => self.context.clock.monotonic_ns().saturating_sub(due_ns),
                // Nobody was there to be late for.
                false => 0,
            };
            if self.context.foreground.probe(late_ns) {
                let store = self.store.borrow();
                let urgency = store.compaction_urgency();
                let foreground = &self.context.foreground;
                let share = foreground.next_share(store.has_compactions(), urgency);
                let pace = store.compaction_pace();
                pace.set_share(share);
                pace.set_urgency(urgency);
            }
        }
    }

    pub fn offer_background_work(&self) {
        let mut store = self.store.borrow_mut();
        if store.tend_row_cache() {
            self.schedule_turn();
        }
        self.threads.borrow_mut().offer(&mut store);
        if store.take_settled_request() {
            self.schedule_turn();
            self.room.notify_waiters();
        }
    }

    pub fn job_finished(self: &Rc<Self>, thread: usize, result: JobResult) {
        self.threads.borrow_mut().job_finished(thread);
        let report = self.store.borrow_mut().complete(result);
        report.tell(self.context.id.0, &self.context.options.events);
        self.room.notify_waiters();
        self.schedule_turn();
    }

    /// Returns whether a write is acknowledged at once, or must wait for [`Persistence::acknowledge_at`] otherwise.
    pub fn acknowledges_at_once(&self) -> bool {
        self.context.options.in_memory
            || matches!(
                self.context.options.commitlog_sync,
                CommitlogSync::Periodic { .. }
            )
    }

    /// Returns whether a write is acknowledged when the log is durable up to its position. What no log takes
    /// (`durable_writes = false`) has no position and waits for nobody.
    #[inline]
    pub fn waits_for_log(&self, position: LogPosition) -> bool {
        position != LogPosition::default() && !self.acknowledges_at_once()
    }

    /// A write was appended: once enough of them are, the log or a memtable wants attention.
    #[inline]
    pub fn note_write(&self) {
        if self.log.note_write() {
            self.schedule_turn();
        }
    }

    pub fn acknowledge_at(
        &self,
        position: LogPosition,
        deadline: Deadline,
        acknowledgement: Acknowledgement,
    ) {
        self.log.push(position, deadline, acknowledgement);
        self.schedule_turn();
    }

    pub async fn durable(&self, position: LogPosition, deadline: Deadline) -> Result<(), CqlError> {
        if !self.waits_for_log(position) {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        self.acknowledge_at(position, deadline, Acknowledgement::Task(sender));
        receiver.await.unwrap_or_else(|_| Err(node_is_stopping()))
    }

    /// Writes that the log has not made durable in their time. It still may.
    pub fn take_late_writes(&self, now_ns: u64) -> Vec<(Acknowledgement, Deadline)> {
        self.log.take_late(now_ns)
    }

    pub(super) async fn write_log_periodically(self: Rc<Self>) {
        let CommitlogSync::Periodic { period } = self.context.options.commitlog_sync else {
            return;
        };
        let mut since_sync = Duration::ZERO;
        loop {
            since_sync += self.context.transport.pause(PERIODIC_WRITE_INTERVAL).await;
            if self.store.borrow().wants_log_sync() {
                self.sync_logs_soon();
            }
            let is_due = since_sync >= period || self.log.unacknowledged() > PARTS_UNSYNCED_MAX;
            let sync = is_due || self.log.wants_sync();
            if self.hand_over_log(sync) && sync {
                self.log.set_wants_sync(false);
                since_sync = Duration::ZERO;
            }
            self.offer_background_work();
        }
    }

    /// Has the periodic logs of all shards synced the next time they are written: a flush, or whoever decides on what a
    /// write set has written, waits for its parts in all of them.
    pub fn sync_logs_soon(&self) {
        for shard in self.context.shards() {
            self.context
                .mailbox(shard)
                .run(|shard| shard.persistence.log.set_wants_sync(true));
        }
    }

    /// Whatever somebody waits for; of a periodic log what is worth waking its thread. [`Persistence::write_log_periodically`]
    /// brings the rest.
    fn hand_over_in_turn(&self) {
        let is_waited_for = !self.acknowledges_at_once();
        if is_waited_for || self.store.borrow().log_bytes_gathered() >= PERIODIC_WRITE_BYTES {
            self.hand_over_log(is_waited_for);
        }
    }

    /// Gives the log thread what was appended, unless it is still busy with the last batch.
    pub fn hand_over_log(&self, sync: bool) -> bool {
        self.log
            .hand_over(&self.store, sync, || self.context.clock.monotonic_ns())
    }

    /// The log's thread is done with a batch. What waited for it can be told.
    pub(super) fn log_handed_back(self: &Rc<Self>, batch: LogBatch, result: &Result<LogPosition, LogError>) {
        let log_ns = self.log.handed_back(self.context.clock.monotonic_ns());
        // Whoever was answered before does not feel it.
        if !self.acknowledges_at_once() {
            self.context.foreground.log_took(log_ns);
        }
        self.store.borrow_mut().log_batch_done(batch, result);
        if let Err(error) = result {
            match error.is_final() {
                true => self.context.options.events.event(&Event::LogFailed {
                    shard: self.context.id.0,
                    error,
                }),
                false => self.try_log_again(error),
            }
        }
    }

    /// Lets those go on that wait for room, once those that wait for the log were told.
    pub(super) fn log_went_on(&self) {
        self.room.notify_waiters();
        if self.store.borrow().log_stall().is_none() {
            self.schedule_turn();
        }
    }

    /// The log has no file to go on in: its batch waits, and with it the writes that are in it.
    fn try_log_again(self: &Rc<Self>, error: &LogError) {
        if self.log.says_stall(self.context.clock.monotonic_ns()) {
            self.context.options.events.event(&Event::LogStalled {
                shard: self.context.id.0,
                error,
            });
        }
        if !self.log.begin_retry() {
            return;
        }
        let persistence = self.clone();
        self.context.spawn(async move {
            tokio::time::sleep(LOG_STALL_RETRY).await;
            persistence.log.end_retry();
            persistence.hand_over_log(true);
        });
    }

    /// Why nobody who has waited until `until_ns` waits for the log any longer: it has failed, or has had no file to go on in.
    fn log_is_given_up(&self, until_ns: u64) -> Result<(), CqlError> {
        let store = self.store.borrow();
        let stall = store
            .log_stall()
            .filter(|_| self.context.clock.monotonic_ns() >= until_ns);
        match store.log_failure().or(stall) {
            None => Ok(()),
            Some(reason) => Err(CqlError::server(format_args!("{reason}"))),
        }
    }

    /// Waits until a start would not bring back what was flushed or truncated. An error if the log has failed, or has had no
    /// file to go on in for [`LOG_STALL_WAIT`].
    pub async fn record_flushes(&self) -> Result<(), CqlError> {
        let until_ns = self.context.deadline_after(LOG_STALL_WAIT);
        while !self.store.borrow().are_flushes_recorded() {
            self.log_is_given_up(until_ns)?;
            self.background_progress().await;
        }
        Ok(())
    }

    /// Waits until a crash brings back no SSTable of a table that was dropped, unless the disk does not take their list.
    pub async fn drops_listed(&self) {
        while !self.store.borrow().are_drops_listed() {
            self.background_progress().await;
        }
    }

    /// Waits until nothing is left of a table that had this id, in the log or on the disk.
    pub async fn forget(&self, id: TableId) -> Result<(), CqlError> {
        let until_ns = self.context.deadline_after(LOG_STALL_WAIT);
        let mut has_tried = false;
        loop {
            self.log_is_given_up(until_ns)?;
            let forgotten = self.store.borrow().is_forgotten(id);
            match forgotten {
                Ok(true) => return Ok(()),
                Err(error) if has_tried => return Err(CqlError::server(format_args!("{error}"))),
                Ok(false) | Err(_) => self.background_progress().await,
            }
            has_tried = true;
        }
    }

    /// Hands out what there is for the threads of the log and of background work, and waits for one of them to be done.
    pub async fn background_progress(&self) {
        // A memtable is flushed once its last write is durable, and a periodic log is not synced on its own.
        self.hand_over_log(true);
        self.offer_background_work();
        let _timed_out = tokio::time::timeout(POLL_INTERVAL, self.room.notified()).await;
    }

    /// Waits for the threads, after the loop has ended.
    pub(super) fn stop(&self) {
        self.threads.borrow_mut().stop();
        self.log.stop();
    }

    /// Applies one update that this shard owns.
    #[inline]
    pub fn apply(&self, token: Token, update: &[u8]) -> Result<LogPosition, WriteError> {
        // A packed update that the engine just built has a head.
        let update = Update::decode_trusted(update).ok_or(WriteError::Malformed)?;
        let position = self.store.borrow_mut().apply_at(token, &update)?;
        self.note_write();
        Ok(position)
    }

    /// Answers a write of a client of this shard, once it is durable where that is promised.
    pub fn acknowledge_session(
        &self,
        session: &Rc<Session>,
        stream: i16,
        position: Option<LogPosition>,
        deadline: Deadline,
    ) {
        match position {
            Some(position) if self.waits_for_log(position) => {
                session.expect_answer();
                self.acknowledge_at(
                    position,
                    deadline,
                    Acknowledgement::Session {
                        session: session.clone(),
                        stream,
                    },
                );
            }
            _ => session.respond(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
                write_void(out);
                Ok(())
            }),
        }
    }

    /// Waits until a crash loses nothing of what this shard's log has now.
    pub async fn log_durable(&self) -> Result<(), CqlError> {
        let Some(position) = self.store.borrow().undurable_position() else {
            return Ok(());
        };
        if self.acknowledges_at_once() {
            self.sync_logs_soon();
        }
        let (sender, receiver) = oneshot::channel();
        self.acknowledge_at(position, Deadline::ENDLESS, Acknowledgement::Task(sender));
        receiver.await.unwrap_or_else(|_| Err(node_is_stopping()))
    }

    /// Up to where the log must be durable before anybody is told what this shard's rows are now; none where it is already,
    /// or where writes are acknowledged before they are.
    pub fn certain_at(&self) -> Option<LogPosition> {
        let position = self.store.borrow().undurable_position()?;
        self.waits_for_log(position).then_some(position)
    }

    /// Seals and flushes the memtables of a table, or all, unless the log has failed, and without those that cannot be
    /// flushed: the log still has what they hold. Whether all of it was flushed.
    pub async fn flush(&self, table: Option<TableId>) -> bool {
        self.store.borrow_mut().flush(table);
        let stalled_until_ns = self.context.deadline_after(LOG_STALL_WAIT);
        let unresolved_until_ns = self.context.deadline_after(WRITE_SETS_RESOLVED_IN);
        while self.store.borrow().awaits_flush(table) {
            let is_late = self.context.clock.monotonic_ns() >= unresolved_until_ns;
            if self.log_is_given_up(stalled_until_ns).is_err() || self.has_orphaned_parts(is_late) {
                break;
            }
            self.background_progress().await;
        }
        let is_flushed = !self.store.borrow().has_sealed_memtables(table);
        if !is_flushed {
            self.context.options.events.event(&Event::NotFlushedAtStop {
                shard: self.context.id.0,
            });
        }
        is_flushed
    }

    /// Returns whether this shard has parts that nobody is left to resolve: their coordinator has ended. Once the caller
    /// `has_waited` it is enough that any shard has ended: it may have had a part of the same set, and told nobody what
    /// became of it.
    fn has_orphaned_parts(&self, has_waited: bool) -> bool {
        let unresolved = self.store.borrow().unresolved_write_sets();
        let has_ended = |shard: ShardId| self.context.mailbox(shard).is_closed();
        let is_orphaned = |id: &WriteSetId| has_ended(id.coordinator);
        unresolved.iter().any(is_orphaned)
            || (has_waited && !unresolved.is_empty() && self.context.shards().any(has_ended))
    }
}
