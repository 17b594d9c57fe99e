//! Exchange between a shard's store and its log: batches to persist, how far they are durable, what need not be kept.

use helenus_schema::TableId;

use super::shard::{Disk, ShardStore};
use super::table::Table;
use crate::commitlog::{CommitLog, LogBatch, LogError, LogPosition, WriteSetId};
use crate::error::TruncateError;

impl ShardStore {
    /// All that was appended to the log since the last call, for this shard's
    /// [`LogWriter`](crate::commitlog::LogWriter); `None` if there is nothing to do.
    pub fn take_log_batch(&mut self) -> Option<LogBatch> {
        self.disk.as_mut()?.log.as_mut()?.take_batch()
    }

    /// As [`ShardStore::take_log_batch`], for a caller that syncs what it persists: also gives a batch, without
    /// anything in it, while earlier ones were persisted without a sync.
    pub fn take_log_batch_to_sync(&mut self) -> Option<LogBatch> {
        self.disk.as_mut()?.log.as_mut()?.take_batch_to_sync()
    }

    /// Bytes that the next batch of the log would have.
    pub fn log_bytes_gathered(&self) -> usize {
        self.log().map_or(0, CommitLog::gathered_bytes)
    }

    /// Returns whether a flush waits for the log to be synced.
    pub fn wants_log_sync(&self) -> bool {
        self.schedule.is_waiting_for_log()
    }

    /// Where the log ends, if not all of it is durable yet.
    pub fn undurable_position(&self) -> Option<LogPosition> {
        let log = self.log()?;
        let position = log.position();
        (position > log.durable()).then_some(position)
    }

    /// Returns, for each coordinator, the last write set that this shard has a part of and that is not resolved.
    pub fn unresolved_write_sets(&self) -> Vec<WriteSetId> {
        self.log().map_or_else(Vec::new, CommitLog::unresolved_write_sets)
    }

    /// Takes a batch back that the log thread is done with, and what came of it. After an error every later write is
    /// refused; reads go on.
    pub fn log_batch_done(&mut self, batch: LogBatch, result: &Result<LogPosition, LogError>) {
        if let Some(log) = self.disk.as_mut().and_then(|disk| disk.log.as_mut()) {
            log.batch_done(batch, result);
            self.schedule.note_log_progress();
        }
    }

    /// Takes note of a sync that the log thread made without a batch.
    pub fn log_synced(&mut self, result: &Result<LogPosition, LogError>) {
        if let Some(log) = self.disk.as_mut().and_then(|disk| disk.log.as_mut()) {
            log.log_synced(result);
            self.schedule.note_log_progress();
        }
    }

    /// Refuses writes from now on: what the caller found out means that they could be lost. Reads go on. Without effect
    /// on a store in memory, which loses everything anyway.
    pub fn refuse_writes(&mut self, reason: &str) {
        if let Some(log) = self.disk.as_mut().and_then(|disk| disk.log.as_mut()) {
            log.fail(reason);
        }
    }

    /// Why writes are refused, once the log has failed.
    pub fn log_failure(&self) -> Option<&str> {
        self.disk.as_ref()?.log.as_ref()?.failure()
    }

    /// Why no write is taken until a batch that came back is written.
    pub fn log_stall(&self) -> Option<&str> {
        self.disk.as_ref()?.log.as_ref()?.stall()
    }

    /// How far the log is durable; what was applied at or before that may be acknowledged.
    pub fn durable(&self) -> LogPosition {
        let log = self.disk.as_ref().and_then(|disk| disk.log.as_ref());
        log.map_or(LogPosition::default(), CommitLog::durable)
    }

    /// Returns whether a start would pass over all writes that are in SSTables or were truncated. Until then it would bring
    /// them back, also those whose SSTables are gone by then.
    pub fn are_flushes_recorded(&self) -> bool {
        let log = self.disk.as_ref().and_then(|disk| disk.log.as_ref());
        log.is_none_or(CommitLog::is_flushed_recorded)
    }

    /// Returns whether a crash brings back no SSTable of a table that was dropped, but for those whose list the disk did not
    /// take.
    pub fn are_drops_listed(&self) -> bool {
        self.schedule.are_drops_listed()
    }

    /// Returns whether a table may be made under the id of one that was dropped: neither the log nor a file would bring back
    /// what that one had. `CannotRemove` while removing its files fails; that is tried again.
    pub fn is_forgotten(&self, id: TableId) -> Result<bool, TruncateError> {
        if self.schedule.has_left(id) {
            Ok(self.are_flushes_recorded())
        } else if self.schedule.is_failing_to_remove(id) {
            Err(TruncateError::CannotRemove)
        } else {
            Ok(false)
        }
    }

    /// A table's writes up to here need no log any more.
    pub(super) fn log_flushed(&mut self, id: TableId, position: LogPosition) {
        if let Some(disk) = self.disk.as_mut().filter(|disk| disk.log.is_some()) {
            disk.flushed.set(id, position);
            self.note_log_needs();
        }
    }

    /// Tells the log what tables need of it, once that has changed.
    pub(super) fn note_log_needs(&mut self) {
        let oldest = self.tables.values().filter_map(Table::oldest_unflushed).min();
        let Some(Disk {
            log: Some(log),
            flushed,
            ..
        }) = &mut self.disk
        else {
            return;
        };
        let discard_before = log.first_kept_segment(oldest.unwrap_or(log.position()));
        // Of dropped tables, as long as the log has anything of them.
        flushed.retain(|id, position| self.tables.contains_key(&id) || position.segment >= discard_before);
        log.set_flushed(flushed.clone(), discard_before);
    }
}
