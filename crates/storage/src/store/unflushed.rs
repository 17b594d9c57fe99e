//! Tables whose memtables cannot be flushed.
//!
//! Such a table keeps what it has in memory and in the log. It is tried again and again, refuses writes of its own beyond
//! a bound, and nothing else waits for it or fails by it: not other tables, not the start, not a drop or truncation of it,
//! not the node's stop.
//!
//! What keeps old segments of the log is written again behind what the log has ([`Rewrite`]): by a start, which removes
//! the logs of the last run whole and so need not care whose parts of write sets they hold, and where the log would
//! outgrow its bound.

use std::sync::Arc;

use helenus_schema::TableId;
use helenus_types::Token;

use super::schedule::{RETRY_DELAY_NS_MAX, RETRY_DELAY_NS_MIN, Schedule};
use super::shard::{Disk, ShardStore, StoreOptions};
use super::table::Table;
use crate::commitlog::{CommitLog, LogAppendError, LogError, LogPosition, LogWriter};
use crate::error::WriteError;
use crate::memtable::Memtable;

/// Divisor of what memtables may hold: this part is for all tables together whose flushes have failed again, the rest stays
/// for those whose flushes work.
const UNFLUSHED_SHARE: usize = 4;
/// One failure may be the disk's that passes; a table that fails again refuses writes beyond its bound.
const FAILURES_MIN: u32 = 2;
/// How often the log of the node says of a table that it cannot be flushed.
const SAID_AGAIN_NS: u64 = 3600 * 1_000_000_000;
/// Bytes that one step writes again: a millisecond of copying, between two of which requests are answered.
const REWRITE_STEP_BYTES: usize = 1 << 20;

/// A table that has sealed memtables which could not be flushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnflushedTable {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    /// Bytes that its memtables hold.
    pub bytes: u64,
    /// Reason of the last failure.
    pub reason: String,
}

/// Why the oldest memtable of a table is still there.
#[derive(Debug)]
pub(super) struct FlushFailure {
    reason: String,
    count: u32,
    retry_delay_ns: u64,
    not_before_ns: u64,
    said_at_ns: u64,
    /// It was tried since somebody asked for a flush.
    is_answer: bool,
}

/// Sealed memtables of a table on their way to the end of the log.
#[derive(Debug)]
pub(super) struct Rewrite {
    /// Before the first of what is written again.
    begin: LogPosition,
    /// Still to be written, the next one last.
    left: Vec<Arc<Memtable>>,
    /// Where to go on in it.
    next: Token,
    /// Behind the last of what was written.
    end: LogPosition,
}

impl FlushFailure {
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.not_before_ns
    }
}

impl Table {
    /// Returns whether a flush that was asked for may still come about.
    fn is_flush_awaited(&self) -> bool {
        let is_answered = |failure: &FlushFailure| failure.is_answer;
        !self.sealed.is_empty() && !self.flush_failure.as_ref().is_some_and(is_answered)
    }

    fn fails_again(&self) -> bool {
        let failure = self.flush_failure.as_ref();
        failure.is_some_and(|failure| failure.count >= FAILURES_MIN)
    }

    /// Checks that the table takes more although its flushes fail.
    #[cold]
    pub fn check_unflushed(&self, options: &StoreOptions, schedule: &Schedule) -> Result<(), WriteError> {
        let bytes_max = options.memtable_bytes_max / UNFLUSHED_SHARE / schedule.failing_tables.max(1);
        match &self.flush_failure {
            Some(failure) if self.fails_again() && self.memory_bytes() >= bytes_max => {
                Err(WriteError::TableNotFlushed {
                    keyspace: self.layout.metadata.keyspace.to_string(),
                    table: self.layout.metadata.name.to_string(),
                    bytes_max,
                    reason: failure.reason.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// A flush is asked for: what has failed is tried at once.
    pub fn ask_for_flush(&mut self) {
        if let Some(failure) = &mut self.flush_failure {
            failure.is_answer = false;
            failure.not_before_ns = 0;
        }
    }
}

impl ShardStore {
    /// Returns whether sealed memtables of a table, or of any with `None`, are still to be flushed, without those that could
    /// not be since [`ShardStore::flush`] was called.
    pub fn awaits_flush(&self, id: Option<TableId>) -> bool {
        match id {
            None => self.tables.values().any(Table::is_flush_awaited),
            Some(id) => self.tables.get(&id).is_some_and(Table::is_flush_awaited),
        }
    }

    /// Tables with memtables that could not be flushed when that was tried last.
    pub fn unflushed_tables(&self) -> Vec<UnflushedTable> {
        let tables = self.tables.values();
        let unflushed = tables.filter_map(|table| {
            let failure = table.flush_failure.as_ref()?;
            Some(UnflushedTable {
                keyspace: Arc::clone(&table.layout.metadata.keyspace),
                table: Arc::clone(&table.layout.metadata.name),
                bytes: table.memory_bytes() as u64,
                reason: failure.reason.clone(),
            })
        });
        unflushed.collect()
    }

    /// Notes that a table could not be flushed; whether that is news.
    pub(super) fn flush_failed(&mut self, id: TableId, reason: String) -> bool {
        let now_ns = self
            .disk
            .as_ref()
            .map_or(0, |disk| disk.folder.clock().monotonic_ns());
        let Some(table) = self.tables.get_mut(&id) else {
            return true;
        };
        let before = table.flush_failure.take();
        let is_news = before
            .as_ref()
            .is_none_or(|before| now_ns >= before.said_at_ns.saturating_add(SAID_AGAIN_NS));
        let retry_delay_ns = before.as_ref().map_or(RETRY_DELAY_NS_MIN, |before| {
            (before.retry_delay_ns * 2).min(RETRY_DELAY_NS_MAX)
        });
        table.flush_failure = Some(FlushFailure {
            reason,
            count: before.as_ref().map_or(1, |before| before.count.saturating_add(1)),
            retry_delay_ns,
            not_before_ns: now_ns.saturating_add(retry_delay_ns),
            said_at_ns: match &before {
                Some(before) if !is_news => before.said_at_ns,
                _ => now_ns,
            },
            is_answer: true,
        });
        self.count_failing();
        is_news
    }

    pub(super) fn flush_succeeded(&mut self, id: TableId) {
        let table = self.tables.get_mut(&id);
        if table.is_some_and(|table| table.flush_failure.take().is_some()) {
            self.count_failing();
        }
    }

    fn count_failing(&mut self) {
        let failing = self.tables.values().filter(|table| table.fails_again());
        self.schedule.failing_tables = failing.count();
    }

    /// Has what is sealed of a table written again at the end of the log, step by step.
    pub(super) fn begin_rewrite(&mut self, id: TableId) {
        let Some((log, table)) = self
            .disk
            .as_ref()
            .and_then(|disk| disk.log.as_ref())
            .zip(self.tables.get_mut(&id))
        else {
            return;
        };
        if table.rewrite.is_some() || !table.is_logged {
            return;
        }
        let memtables = table
            .sealed
            .iter()
            .rev()
            .map(|sealed| Arc::clone(&sealed.memtable));
        self.schedule.is_rewriting = true;
        table.rewrite = Some(Rewrite {
            begin: log.position(),
            left: memtables.collect(),
            next: Token(i64::MIN),
            end: log.position(),
        });
    }

    /// Takes rewrites that are under way further; those that are durable let the log go that they stand for.
    pub(super) fn tend_rewrites(&mut self) {
        if self.schedule.is_rewriting && self.continue_rewrites() {
            self.note_log_needs();
        }
    }

    /// Takes a step of each rewrite; returns whether any has ended.
    fn continue_rewrites(&mut self) -> bool {
        let rewriting = self.tables.iter().filter(|(_, table)| table.rewrite.is_some());
        let rewriting: Vec<TableId> = rewriting.map(|(id, _)| *id).collect();
        let mut has_ended = false;
        for id in rewriting {
            let (Some(Disk { log: Some(log), .. }), Some(table)) = (&mut self.disk, self.tables.get_mut(&id))
            else {
                continue;
            };
            let Some(rewrite) = &mut table.rewrite else {
                continue;
            };
            // A log that is full, or has failed, is asked again.
            let _later = rewrite.step(id, log);
            if rewrite.left.is_empty() && log.durable() >= rewrite.end {
                self.active_bytes = self.active_bytes.saturating_sub(table.active.bytes());
                table.end_rewrite();
                has_ended = true;
            }
        }
        self.schedule.is_rewriting = self.tables.values().any(|table| table.rewrite.is_some());
        has_ended
    }

    /// Writes all that is sealed again, to a log that was just begun; durable when it returns. What the log knows to be flushed
    /// is still that of the last run, whose segments are there.
    pub(super) fn rewrite_all(&mut self, writer: &mut LogWriter) -> Result<(), LogError> {
        let unflushed = self.tables.iter().filter(|(_, table)| !table.sealed.is_empty());
        let unflushed: Vec<TableId> = unflushed.map(|(id, _)| *id).collect();
        unflushed.iter().for_each(|id| self.begin_rewrite(*id));
        while self.schedule.is_rewriting {
            self.continue_rewrites();
            if let Some(batch) = self.take_log_batch_to_sync() {
                let result = writer.persist(&batch, true);
                self.log_batch_done(batch, &result);
                result?;
            }
        }
        Ok(())
    }
}

impl Rewrite {
    /// Appends about [`REWRITE_STEP_BYTES`].
    fn step(&mut self, id: TableId, log: &mut CommitLog) -> Result<(), LogAppendError> {
        let mut written = 0;
        while let Some(memtable) = self.left.last() {
            for (token, partitions) in memtable.slots_from(self.next) {
                if written >= REWRITE_STEP_BYTES {
                    return Ok(());
                }
                log.check_room(REWRITE_STEP_BYTES)?;
                for partition in partitions {
                    partition.write_updates(id, log.record_bytes_max(), |update| {
                        written += update.len();
                        self.end = log.append_again(update)?;
                        Ok(())
                    })?;
                }
                match token.0.checked_add(1) {
                    Some(next) => self.next = Token(next),
                    None => break,
                }
            }
            self.left.pop();
            self.next = Token(i64::MIN);
        }
        Ok(())
    }
}

impl Table {
    /// The log has the memtables once more, behind `begin`, and newer writes between what was written again: only once all
    /// that is in memory now is flushed, the log up to `end` is of no more use for the table.
    fn end_rewrite(&mut self) {
        let Some(rewrite) = self.rewrite.take() else {
            return;
        };
        self.seal();
        for sealed in &mut self.sealed {
            sealed.needs = Some(rewrite.begin);
            sealed.flushed_to = None;
        }
        if let Some(last) = self.sealed.last_mut() {
            let own = last.memtable.log_positions().map(|(_, last)| last);
            last.flushed_to = own.max(Some(rewrite.end));
            self.is_rewritten_to = last.flushed_to;
        }
    }

    /// Returns whether the log has writes that may be flushed by now and that a start would bring back: what hides them must
    /// not go.
    pub fn is_rewritten(&self) -> bool {
        self.rewrite.is_some() || self.is_rewritten_to.is_some()
    }
}
