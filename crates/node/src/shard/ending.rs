//! The end of a shard, and what it waits for: flushes, and write sets that it coordinates.

use std::rc::Rc;
use std::time::Duration;

use helenus_events::Event;
use helenus_schema::TableId;

use super::Shard;
use crate::panic_boundary::catch_async;

/// How long a flush waits for a log that has no file to go on in: connections that a stop has closed give theirs back.
const LOG_STALL_WAIT: Duration = Duration::from_secs(5);

/// How long a stopping shard waits for the logs of others, of which some may have ended.
const WRITE_SETS_RESOLVED_IN: Duration = Duration::from_secs(1);

/// How often a stopping shard looks whether its memtables are flushed, in case it missed the news.
const FLUSH_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How a shard ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Log synced, memtables flushed; compactions are left.
    Flush,
    /// Nothing more is written: what a crash would leave.
    Abandon,
}

impl Shard {
    /// Ends [`Shard::run`]: at once, or when everything acknowledged is in SSTables.
    pub(crate) fn stop(self: &Rc<Self>, ending: Ending) {
        // It has answered everybody; what it still does, down to giving its memory back, others need not wait for.
        self.options.threads.give_way();
        if ending == Ending::Abandon {
            self.stopping.set(true);
            return;
        }
        // Compactions can be done again after the next start. Waited for, they keep the node, and the processors from
        // those who serve meanwhile.
        self.store.borrow_mut().stop_compactions(None);
        let shard = self.clone();
        self.spawn(async move {
            shard.resolve_write_sets().await;
            // After a panic the log still has what was not flushed.
            let _reported = catch_async(shard.flush(None)).await;
            // The loop looks at the flag when the next message arrives.
            shard.mailbox(shard.id).run(|shard| shard.stopping.set(true));
        });
    }

    /// Waits until the write sets that this shard coordinates are durable on all shards, which nobody else can find out:
    /// what shards that end later have of them could not be flushed. Not for long: replay finds out, too.
    async fn resolve_write_sets(&self) {
        let deadline_ns = self.deadline_after(WRITE_SETS_RESOLVED_IN);
        while !self.write_sets.are_resolved() && self.clock.monotonic_ns() < deadline_ns {
            self.sync_logs_soon();
            self.background_progress().await;
        }
    }

    /// Seals and flushes the memtables of a table, or all, unless the log has failed, and without those that cannot be
    /// flushed: the log still has what they hold. Whether all of it was flushed.
    pub async fn flush(&self, table: Option<TableId>) -> bool {
        self.store.borrow_mut().flush(table);
        let stalled_until_ns = self.deadline_after(LOG_STALL_WAIT);
        let unresolved_until_ns = self.deadline_after(WRITE_SETS_RESOLVED_IN);
        while self.store.borrow().awaits_flush(table) {
            let now_ns = self.clock.monotonic_ns();
            let stall_is_over = self.store.borrow().log_stall().is_some() && now_ns >= stalled_until_ns;
            let has_failed = self.store.borrow().log_failure().is_some();
            if has_failed || stall_is_over || self.has_orphaned_parts(now_ns >= unresolved_until_ns) {
                break;
            }
            self.background_progress().await;
        }
        let is_flushed = !self.store.borrow().has_sealed_memtables(table);
        if !is_flushed {
            self.options
                .events
                .event(&Event::NotFlushedAtStop { shard: self.id.0 });
        }
        is_flushed
    }

    /// Waits until a start would not bring back what was flushed or truncated. False if the log has failed.
    pub async fn record_flushes(&self) -> bool {
        while !self.store.borrow().are_flushes_recorded() {
            if self.store.borrow().log_failure().is_some() {
                return false;
            }
            self.background_progress().await;
        }
        true
    }

    /// Hands out what there is for the threads of the log and of background work, and waits for one of them to be done.
    pub(crate) async fn background_progress(&self) {
        // A memtable is flushed once its last write is durable, and a periodic log is not synced on its own.
        self.hand_over_log(true);
        self.offer_background_work();
        let _timed_out = tokio::time::timeout(FLUSH_POLL_INTERVAL, self.room.notified()).await;
    }

    /// After the loop has ended; waits for the threads.
    pub(crate) fn close(&self) {
        if let Some(worker) = &self.snapshot_worker {
            worker.stop();
        }
        if let Some(worker) = &self.schema_worker {
            worker.stop();
        }
        self.planner.stop();
        self.background.borrow_mut().stop();
        self.log.stop();
    }
}
