//! The shard and its log: what is appended is handed over, and acknowledged when it is durable.

use std::rc::Rc;
use std::time::Duration;

use helenus_engine::CqlError;
use helenus_events::Event;
use helenus_storage::commitlog::{LogBatch, LogError, LogPosition};

use super::Shard;
use super::durability::Acknowledgement;
use crate::deadline::Deadline;
use crate::options::CommitlogSync;

/// How often a periodic log hands its bytes to the operating system, so that a killed process loses at most this much
/// (a power cut loses up to the sync period).
const PERIODIC_WRITE_INTERVAL: Duration = Duration::from_millis(10);

/// Parts of write sets that a periodic log may owe a sync: some 10 MB of them.
const PARTS_UNSYNCED_MAX: usize = 65_536;

/// How long until a log that has no file to go on in tries to make one again: much shorter than a write's time, and long
/// enough to cost nothing.
const LOG_STALL_RETRY: Duration = Duration::from_millis(100);

impl Shard {
    /// Whether a write must wait for [`Shard::acknowledge_at`], or is acknowledged at once.
    pub fn acknowledges_at_once(&self) -> bool {
        self.options.in_memory || matches!(self.options.commitlog_sync, CommitlogSync::Periodic { .. })
    }

    /// Whether a write is acknowledged when the log is durable up to its position. What no log takes
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

    pub(crate) fn acknowledge_at(
        &self,
        position: LogPosition,
        deadline: Deadline,
        acknowledgement: Acknowledgement,
    ) {
        self.log.push(position, deadline, acknowledgement);
        self.schedule_turn();
    }

    /// Writes that the log has not made durable in their time. It still may.
    pub(crate) fn take_late_writes(&self, now_ns: u64) -> Vec<(Acknowledgement, Deadline)> {
        self.log.take_late(now_ns)
    }

    pub(super) async fn write_log_periodically(self: Rc<Self>) {
        let CommitlogSync::Periodic { period } = self.options.commitlog_sync else {
            return;
        };
        let mut interval = tokio::time::interval(PERIODIC_WRITE_INTERVAL);
        let mut since_sync = Duration::ZERO;
        loop {
            interval.tick().await;
            since_sync += PERIODIC_WRITE_INTERVAL;
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
    pub(crate) fn sync_logs_soon(&self) {
        for shard in self.shards() {
            self.mailbox(shard).run(|shard| shard.log.set_wants_sync(true));
        }
    }

    /// Gives the log thread what was appended, unless it is still busy with the last batch.
    pub(super) fn hand_over_log(&self, sync: bool) -> bool {
        self.log
            .hand_over(&self.store, sync, || self.clock.monotonic_ns())
    }

    pub(crate) fn log_persisted(self: &Rc<Self>, batch: LogBatch, result: &Result<LogPosition, LogError>) {
        let log_ns = self.log.handed_back(self.clock.monotonic_ns());
        self.foreground.log_took(log_ns);
        self.store.borrow_mut().log_batch_done(batch, result);
        match result {
            Ok(durable) => {
                while let Some(next) = self.log.pop_durable(*durable) {
                    self.acknowledge(next, Ok(()));
                }
            }
            Err(error) if !error.is_final() => self.try_log_again(error),
            Err(error) => {
                self.options.events.event(&Event::LogFailed {
                    shard: self.id.0,
                    error,
                });
                for acknowledgement in self.log.take_all() {
                    self.acknowledge(acknowledgement, Err(CqlError::server(format_args!("{error}"))));
                }
            }
        }
        self.room.notify_waiters();
        if self.store.borrow().log_stall().is_none() {
            self.schedule_turn();
        }
    }

    /// The log has no file to go on in: its batch waits, and with it the writes that are in it.
    fn try_log_again(self: &Rc<Self>, error: &LogError) {
        if self.log.says_stall(self.clock.monotonic_ns()) {
            self.options.events.event(&Event::LogStalled {
                shard: self.id.0,
                error,
            });
        }
        if !self.log.begin_retry() {
            return;
        }
        let shard = self.clone();
        self.spawn(async move {
            tokio::time::sleep(LOG_STALL_RETRY).await;
            shard.log.end_retry();
            shard.hand_over_log(true);
        });
    }

    pub(crate) fn acknowledge(
        self: &Rc<Self>,
        acknowledgement: Acknowledgement,
        result: Result<(), CqlError>,
    ) {
        match acknowledgement {
            Acknowledgement::Session { session, stream } => self.answer_write_later(&session, stream, result),
            Acknowledgement::Answer {
                session,
                stream,
                answer,
            } => self.answer_read(&session, stream, result.map(|()| answer)),
            Acknowledgement::Forwarded { from, ticket } => self.answer_forwarded_write(from, ticket, result),
            Acknowledgement::Task(sender) => {
                let _gone = sender.send(result);
            }
            Acknowledgement::Part(part) => self.part_persisted(part, result),
        }
    }
}
