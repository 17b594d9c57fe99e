//! The end of a shard, and what it waits for: flushes, and write sets that it coordinates.

use std::rc::Rc;

use super::Shard;
use crate::deadline::WRITE_SETS_RESOLVED_IN;
use crate::panic_boundary::catch_async;

/// How a shard ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Log synced, memtables flushed; compactions are left.
    Flush,
    /// The same, while clients wait for another process to go on.
    FlushAwaited,
    /// Nothing more is written: what a crash would leave.
    Abandon,
}

impl Shard {
    /// Ends [`Shard::run`]: at once, or when everything acknowledged is in SSTables.
    pub(crate) fn stop(self: &Rc<Self>, ending: Ending) {
        // It has answered everybody; what it still does, down to giving its memory back, others need not wait for.
        if ending != Ending::FlushAwaited {
            self.context.options.threads.give_way();
        }
        if ending == Ending::Abandon {
            self.messages.end();
            return;
        }
        // Compactions can be done again after the next start. Waited for, they keep the node, and the processors from
        // those who serve meanwhile.
        self.store.borrow_mut().stop_compactions(None);
        let shard = self.clone();
        self.context.spawn(async move {
            shard.resolve_write_sets().await;
            // After a panic the log still has what was not flushed.
            let _reported = catch_async(shard.persistence.flush(None)).await;
            shard.messages.end();
        });
    }

    /// Waits until the write sets that this shard coordinates are durable on all shards, which nobody else can find out:
    /// what shards that end later have of them could not be flushed. Not for long: replay finds out, too.
    async fn resolve_write_sets(&self) {
        let deadline_ns = self.context.deadline_after(WRITE_SETS_RESOLVED_IN);
        while !self.write_sets.are_resolved() && self.context.clock.monotonic_ns() < deadline_ns {
            self.persistence.sync_logs_soon();
            self.persistence.background_progress().await;
        }
    }

    /// After the loop has ended; waits for the threads.
    pub(crate) fn close(&self) {
        if let Some(owner) = &self.schema_owner {
            owner.stop();
        }
        self.planner.stop();
        self.persistence.stop();
    }
}
