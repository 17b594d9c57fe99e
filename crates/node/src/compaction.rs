//! Compactions of the whole node, for operators: how far they are, asking for one, stopping them.

use std::rc::Rc;
use std::time::Duration;

use helenus_catalog::system::SsTableTask;
use helenus_schema::TableId;
use helenus_storage::store::{CompactError, CompactionRequest, ShardCompactions};
use helenus_types::value::timeuuid::TimeuuidGenerator;
use uuid::Uuid;

use crate::shard::Shard;

/// Compactions of every shard, in the order of the shards.
pub type CompactionStatus = Vec<ShardCompactions>;

/// How often it is looked whether a request is still there, where nothing says that it is gone: as often as the store
/// looks for work.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A job's timeuuid, the same each time it is asked for.
pub(crate) fn job_id(number: u64, started_at_us: i64) -> Uuid {
    Uuid::from_bytes(TimeuuidGenerator::new(number).next(started_at_us))
}

impl Shard {
    /// Asks all shards; those that have stopped are left out.
    pub(crate) async fn compaction_status(self: &Rc<Self>) -> CompactionStatus {
        let status = self
            .on_all_shards(|shard| shard.store.borrow().compactions())
            .await;
        status.into_iter().flatten().collect()
    }

    /// As `system_views.sstable_tasks` has them.
    pub(crate) fn sstable_tasks(&self) -> Vec<SsTableTask> {
        let jobs = self.store.borrow().node_jobs();
        jobs.iter()
            .map(|job| SsTableTask {
                keyspace: job.keyspace.to_string(),
                table: job.table.to_string(),
                id: job_id(job.number, job.started_at_us),
                kind: job.kind.name(),
                progress: job.bytes_done(),
                total: job.bytes_total,
                sstables: u32::try_from(job.sstables).unwrap_or(u32::MAX),
                target_directory: job.directory.display().to_string(),
            })
            .collect()
    }

    /// Has every shard compact its part of a table. Returns when all have done so, have failed, or have been told to stop.
    pub async fn compact(self: &Rc<Self>, request: CompactionRequest) -> Result<(), CompactError> {
        let ended = self.on_all_shards_async(move |shard| async move { shard.compact_here(request).await });
        // Of several failures the first; all of them are in the node's log. A shard that has stopped has none.
        ended.await.into_iter().flatten().collect()
    }

    async fn compact_here(&self, request: CompactionRequest) -> Result<(), CompactError> {
        let ticket = self.store.borrow_mut().compact(request);
        self.persistence.schedule_turn();
        let ticket = ticket?;
        while self.store.borrow().is_compacting(ticket) {
            // What stops requests, or drops their tables, ends no job.
            let _either = tokio::time::timeout(LOOK_AGAIN, self.persistence.job_ended()).await;
        }
        self.store.borrow_mut().compaction_ended(ticket)
    }

    /// Stops the compactions of a table, or of all, on every shard; returns how many ran. None begins for a minute.
    pub async fn stop_compactions(self: &Rc<Self>, table: Option<TableId>) -> usize {
        let stopped = self.on_all_shards(move |shard| shard.store.borrow_mut().stop_compactions(table));
        stopped.await.into_iter().flatten().sum()
    }
}
