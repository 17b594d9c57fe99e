//! TRUNCATE: a job makes the list of what goes durable, then the table is emptied in memory, in the turn that takes the job in.

use std::mem;
use std::sync::Arc;

use helenus_schema::TableId;
use helenus_sstable::Descriptor;

use super::job::{BackgroundJob, JobError, JobKind, JobProgress, Work};
use super::shard::{Disk, ShardStore};
use crate::commitlog::LogPosition;
use crate::compaction::{Removal, RemovalError};
use crate::error::TruncateError;
use crate::vectors::VectorIndex;

/// How far a truncation of a table has come. One at a time.
#[derive(Debug, Default)]
pub(super) enum Truncation {
    #[default]
    None,
    /// Nothing of the table is under way any more, and nothing is begun.
    Wanted,
    /// A job removes the table's SSTables. Whatever whoever wanted it does, the table is emptied once that has happened.
    UnderWay { is_awaited: bool },
    /// For whoever asks next.
    Ended(Result<LogPosition, TruncateError>),
}

impl Truncation {
    pub fn is_pending(&self) -> bool {
        matches!(self, Truncation::Wanted | Truncation::UnderWay { .. })
    }

    pub fn is_under_way(&self) -> bool {
        matches!(self, Truncation::UnderWay { .. })
    }
}

impl ShardStore {
    /// A truncation that was told [`TruncateError::Busy`] is not tried again. One that was begun ends all the same.
    pub fn truncation_given_up(&mut self, id: TableId) {
        let Some(table) = self.tables.get_mut(&id) else {
            return;
        };
        match &mut table.truncation {
            Truncation::UnderWay { is_awaited } => *is_awaited = false,
            truncation => {
                *truncation = Truncation::None;
                table.is_held = false;
            }
        }
        self.schedule.note_news();
    }

    /// Removes all rows of a table. Gone for good once the log has reached the position returned. Where there are SSTables a
    /// job removes them, and this says [`TruncateError::Busy`] until that has ended.
    pub fn truncate(&mut self, id: TableId) -> Result<LogPosition, TruncateError> {
        let table = self
            .tables
            .get_mut(&id)
            .ok_or(TruncateError::UnknownTable { id })?;
        match mem::take(&mut table.truncation) {
            Truncation::Ended(ended) => return ended,
            Truncation::UnderWay { .. } => {
                table.truncation = Truncation::UnderWay { is_awaited: true };
                return Err(TruncateError::Busy);
            }
            Truncation::Wanted | Truncation::None => {}
        }
        if let Some(Disk { log: Some(log), .. }) = &self.disk
            && let Some(reason) = log.failure()
        {
            return Err(TruncateError::LogFailed {
                reason: reason.to_owned(),
            });
        }
        table.is_held = table.has_files_to_come_or_go();
        if table.is_held {
            table.jobs.iter().for_each(|job| job.stop());
            if table.jobs.is_empty() && (self.schedule.is_failing_to_remove(id) || table.is_undecided) {
                return Err(TruncateError::CannotRemove);
            }
            self.schedule.note_news();
            return Err(TruncateError::Busy);
        }
        if self.disk.is_none() || table.sstables.is_empty() {
            return Ok(self.forget_rows(id, None));
        }
        table.is_held = true;
        table.truncation = Truncation::Wanted;
        self.schedule.note_list_wanted();
        Err(TruncateError::Busy)
    }

    /// Somebody waits for it, so it goes before everything else.
    pub(super) fn next_truncation(&mut self) -> Option<BackgroundJob> {
        let disk = self.disk.as_ref()?;
        let mut tables = self.tables.values_mut();
        let table = tables.find(|table| matches!(table.truncation, Truncation::Wanted))?;
        table.truncation = Truncation::UnderWay { is_awaited: true };
        let sstables: Vec<Descriptor> = table
            .sstables
            .iter()
            .map(|sstable| sstable.descriptor())
            .collect();
        let (layout, folder) = (&table.layout, &table.folder);
        let progress = JobProgress::new(JobKind::Removal, layout, folder, sstables.len(), 0, disk.now_us());
        Some(Self::job(
            &self.options,
            disk,
            table,
            progress,
            Work::Truncation(sstables),
        ))
    }

    /// The table's SSTables are as good as gone, or not at all.
    pub(super) fn truncation_ended(&mut self, id: TableId, ended: Result<Option<Removal>, &JobError>) {
        // The disk may hold the list or not.
        let is_undecided =
            matches!(ended, Err(error) if !matches!(error, JobError::Removal(RemovalError::Io { .. })));
        let ended = match ended {
            Ok(unfinished) => Ok(self.forget_rows(id, unfinished)),
            Err(error) => Err(TruncateError::NotListed {
                reason: error.to_string(),
            }),
        };
        let Some(table) = self.tables.get_mut(&id) else {
            return;
        };
        table.is_undecided |= is_undecided;
        table.is_held = false;
        let is_awaited = matches!(table.truncation, Truncation::UnderWay { is_awaited: true });
        table.truncation = match is_awaited {
            true => Truncation::Ended(ended),
            false => Truncation::None,
        };
    }

    /// Forgets all rows of a table, whose SSTables a crash does not bring back.
    fn forget_rows(&mut self, id: TableId, unfinished: Option<Removal>) -> LogPosition {
        let Some(table) = self.tables.get_mut(&id) else {
            return LogPosition::default();
        };
        let (layout, folder) = (Arc::clone(&table.layout), table.folder.clone());
        let bytes = table.memory_bytes();
        self.active_bytes = self.active_bytes.saturating_sub(table.active.bytes());
        table.seal();
        self.row_cache.drop_table(id);
        let absorbing = std::mem::take(&mut table.absorbing);
        let absorbing = absorbing.into_iter().map(|absorption| absorption.memtable);
        let memtables: Vec<_> = std::mem::take(&mut table.sealed)
            .into_iter()
            .map(|sealed| sealed.memtable)
            .chain(absorbing)
            .collect();
        table.rewrite = None;
        table.is_rewritten_to = None;
        match self.disk {
            Some(_) => self.schedule.release(&table.layout, memtables),
            None => self.memtable_bytes = self.memtable_bytes.saturating_sub(bytes),
        }
        table.sstables.clear();
        table.vectors.iter_mut().for_each(VectorIndex::note_empty);
        table.forget_replaced();
        table.epoch += 1;
        if let Some(removal) = unfinished {
            self.finish_later(id, &layout, folder, removal);
        }
        let Some(log) = self.disk.as_mut().and_then(|disk| disk.log.as_mut()) else {
            return LogPosition::default();
        };
        let truncated_to = log.position();
        log.mark();
        let position = log.position();
        self.log_flushed(id, truncated_to);
        self.flush_succeeded(id);
        position
    }
}
