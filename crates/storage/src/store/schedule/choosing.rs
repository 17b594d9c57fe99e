//! The next piece of background work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::TableId;

use super::{COMPACTIONS_PER_SHARD_MAX, Obsolete};
use crate::commitlog::{CommitLog, LogPosition};
use crate::compaction::{Candidate, Task};
use crate::memtable::Memtable;
use crate::store::compaction_request::{CompactionKind, CompactionTicket, PendingRequest};
use crate::store::job::{BackgroundJob, JobKind, JobProgress, Work};
use crate::store::shard::{Disk, ShardStore, StoreOptions};
use crate::store::table::Table;

/// The part of its bound from which on the log is relieved: a flush takes a while, in which it grows.
const LOG_RELIEVED_AT_PERCENT: u64 = 75;

/// Without news, how long until the tables are looked through again: a log grows too long and tombstones come of age
/// without a word.
const LOOK_AGAIN_NS: u64 = 100_000_000;

impl ShardStore {
    /// The next piece of background work, if there is any; costs next to nothing while there is none. A memtable is
    /// flushed once the log has made its last write durable. Several jobs may run at the same time; each table has at
    /// most one flush and each shard at most [`COMPACTIONS_PER_SHARD_MAX`] compactions among them.
    pub fn next_job(&mut self) -> Option<BackgroundJob> {
        self.next(true)
    }

    /// As [`ShardStore::next_job`], without compactions: for a thread that flushes must find free.
    pub fn next_short_job(&mut self) -> Option<BackgroundJob> {
        self.next(false)
    }

    fn next(&mut self, with_compactions: bool) -> Option<BackgroundJob> {
        let now_ns = self.disk.as_ref()?.folder.clock().monotonic_ns();
        self.tend_row_cache();
        // Neither fails by what made others fail, and writes wait for the memory.
        if let Some(job) = self.next_list().or_else(|| self.next_release()) {
            return Some(job);
        }
        if !self.schedule.is_due(now_ns) {
            return None;
        }
        self.relieve_log();
        self.tend_rewrites();
        let job = self
            .next_flush(now_ns)
            .or_else(|| self.next_removal(false))
            .or_else(|| with_compactions.then(|| self.next_index_build(now_ns)).flatten())
            .or_else(|| with_compactions.then(|| self.next_compaction(now_ns)).flatten())
            .or_else(|| self.next_removal(true));
        if job.is_none() && with_compactions {
            // Behind a request without work there may be one with work.
            self.schedule.has_news = self.schedule.has_settled_request;
            self.schedule.look_again_ns = now_ns + LOOK_AGAIN_NS;
        }
        job
    }

    /// Returns whether it is time to ask for the next job, though nothing else may say so.
    pub fn may_have_work(&self, now_ns: u64) -> bool {
        self.disk.is_some()
            && (self.schedule.is_waiting_for_log()
                || self.schedule.has_garbage()
                || self.schedule.is_due(now_ns))
    }

    /// Returns whether a request for a compaction was found to have nothing to do since this was asked last.
    pub fn take_settled_request(&mut self) -> bool {
        std::mem::take(&mut self.schedule.has_settled_request)
    }

    /// Returns whether memtables wait for their flush or are being flushed.
    pub fn is_flushing(&self) -> bool {
        self.tables.values().any(|table| !table.sealed.is_empty())
    }

    /// Seals the memtable that keeps the log from being cut when the log has become too long. What cannot be flushed is
    /// written to the log again instead.
    fn relieve_log(&mut self) {
        let Some(Disk { log: Some(log), .. }) = &self.disk else {
            return;
        };
        let bytes_max = self.options.log_bytes_max / 100 * LOG_RELIEVED_AT_PERCENT;
        let oldest = |table: &Table| table.active.log_positions().map(|(first, _)| first);
        let table = self
            .tables
            .values_mut()
            .filter(|table| oldest(table).is_some())
            .min_by_key(|table| oldest(table));
        if let Some(table) = table
            && let Some(first) = oldest(table)
            && log.needed_bytes(first) > bytes_max
        {
            self.active_bytes = self.active_bytes.saturating_sub(table.active.bytes());
            table.seal();
        }
        if self.schedule.failing_tables == 0 {
            return;
        }
        let stuck = self.tables.iter().filter(|(_, table)| {
            let bytes = log.needed_bytes(table.oldest_unflushed().unwrap_or(log.position()));
            // Not again as long as most of the log is what was written again.
            table.flush_failure.is_some() && bytes > bytes_max.max(2 * table.memory_bytes() as u64)
        });
        let stuck: Vec<TableId> = stuck.map(|(id, _)| *id).collect();
        stuck.into_iter().for_each(|id| self.begin_rewrite(id));
    }

    pub(in crate::store) fn next_flush(&mut self, now_ns: u64) -> Option<BackgroundJob> {
        let resolved = self.disk.as_mut()?.log.as_mut().map(CommitLog::resolved);
        self.schedule.is_waiting_for_log = self
            .tables
            .values()
            .filter_map(|table| table.sealed.first())
            .any(|sealed| !is_logged(&sealed.memtable, resolved));
        let table = self.tables.values_mut().find(|table| {
            !table.is_flushing
                && !table.is_held
                && table
                    .flush_failure
                    .as_ref()
                    .is_none_or(|failure| failure.is_due(now_ns))
                && table
                    .sealed
                    .first()
                    .is_some_and(|sealed| is_logged(&sealed.memtable, resolved))
        })?;
        let memtable = Arc::clone(&table.sealed.first()?.memtable);
        table.is_flushing = true;
        let disk = self.disk.as_ref()?;
        let bytes = memtable.bytes() as u64;
        let progress = JobProgress::new(
            JobKind::Flush,
            &table.layout,
            &table.folder,
            0,
            bytes,
            disk.now_us(),
        );
        Some(Self::job(
            &self.options,
            disk,
            table,
            progress,
            Work::Flush(memtable),
        ))
    }

    fn next_release(&mut self) -> Option<BackgroundJob> {
        let (layout, memtable) = self.schedule.garbage.pop()?;
        let disk = self.disk.as_ref()?;
        let bytes = memtable.bytes() as u64;
        Some(BackgroundJob {
            folder: Arc::clone(&disk.folder),
            progress: JobProgress::new(JobKind::Release, &layout, Path::new(""), 0, bytes, disk.now_us()),
            layout,
            table_folder: PathBuf::new(),
            epoch: 0,
            column_index_bytes: self.options.column_index_bytes,
            sstable_format: self.options.sstable_format,
            partition_guardrails: self.options.partition_guardrails,
            pace: None,
            permit: None,
            work: Work::Release(Some(memtable)),
        })
    }

    /// The list of what a TRUNCATE or DROP removes.
    fn next_list(&mut self) -> Option<BackgroundJob> {
        if !self.schedule.is_list_wanted {
            return None;
        }
        let job = self
            .next_truncation()
            .or_else(|| self.next_removal_where(Obsolete::awaits_list));
        self.schedule.is_list_wanted = job.is_some();
        job
    }

    /// Those that have failed may fail each time that anything is due, and nothing else would have its turn before them.
    fn next_removal(&mut self, has_failed: bool) -> Option<BackgroundJob> {
        self.next_removal_where(|obsolete| obsolete.has_failed == has_failed)
    }

    fn next_removal_where(&mut self, is_next: impl Fn(&Obsolete) -> bool) -> Option<BackgroundJob> {
        let disk = self.disk.as_ref()?;
        let removals = &mut self.schedule.removals;
        let obsolete = removals.swap_remove(removals.iter().rposition(is_next)?);
        self.schedule.lists_under_way += usize::from(obsolete.awaits_list());
        let Obsolete {
            layout,
            folder,
            files,
            is_table_dropped,
            has_failed,
        } = obsolete;
        Some(BackgroundJob {
            folder: Arc::clone(&disk.folder),
            progress: JobProgress::new(JobKind::Removal, &layout, &folder, 0, 0, disk.now_us()),
            layout,
            table_folder: folder,
            epoch: 0,
            column_index_bytes: self.options.column_index_bytes,
            sstable_format: self.options.sstable_format,
            partition_guardrails: self.options.partition_guardrails,
            pace: None,
            permit: None,
            work: Work::Removal {
                files,
                is_table_dropped,
                has_failed,
            },
        })
    }

    /// Makes what SSTables lack of indexes, one after the other, as a compaction takes its time.
    fn next_index_build(&mut self, now_ns: u64) -> Option<BackgroundJob> {
        if self.schedule.index_builds > 0 {
            return None;
        }
        let disk = self.disk.as_ref()?;
        let found = self
            .tables
            .values_mut()
            .find_map(|table| Some((table.choose_index_build(now_ns)?, table)));
        let (build, table) = found?;
        let limits = &self.options.compaction;
        let bytes = build.sstable.data_bytes();
        let permit = limits.permit(bytes)?;
        let now_us = disk.now_us();
        let progress = JobProgress::new(
            JobKind::IndexBuild,
            &table.layout,
            &table.folder,
            1,
            bytes,
            now_us,
        );
        table.compacting.push(build.sstable.descriptor());
        self.schedule.index_builds += 1;
        let pace = (Arc::clone(&self.schedule.pace), Arc::clone(limits));
        let job = Self::job(&self.options, disk, table, progress, Work::IndexBuild(build));
        Some(BackgroundJob {
            pace: Some(pace),
            permit: Some(permit),
            ..job
        })
    }

    /// Chooses the next compaction. What an operator asked for goes first; of what strategies want, the smallest, so that a
    /// large compaction holds up as few others as can be.
    fn next_compaction(&mut self, now_ns: u64) -> Option<BackgroundJob> {
        if self.schedule.compactions >= COMPACTIONS_PER_SHARD_MAX {
            return None;
        }
        let disk = self.disk.as_ref()?;
        let ring_parts = disk.folder.shard_count();
        let moment_of = |table: &Table| table.moment(disk.folder.clock().wall_s(), ring_parts);
        let mut choice: Option<(TableId, CompactionChoice)> = None;
        for (&id, table) in &mut self.tables {
            if table.is_held || table.is_undecided {
                continue;
            }
            let moment = moment_of(table);
            let candidates = table.candidates(&moment);
            table.waiting = table.compaction.waiting(&candidates, &moment);
            if let Some(request) = table.requested.front() {
                // Begins when what runs has ended: nothing is left out.
                if table.compacting.is_empty() {
                    let task = request.kind.task(table, &candidates);
                    choice = Some((id, CompactionChoice::requested(*request, task, &candidates)));
                    break;
                }
                continue;
            }
            if now_ns < table.compactions_paused_until_ns {
                continue;
            }
            if let Some(task) = table.compaction.choose(&candidates, &moment) {
                let found = CompactionChoice::of_strategy(task, &candidates);
                if choice.as_ref().is_none_or(|(_, best)| found.bytes < best.bytes) {
                    choice = Some((id, found));
                }
            }
        }
        let (id, choice) = choice?;
        self.begin_compaction(id, choice)
    }

    fn begin_compaction(&mut self, id: TableId, choice: CompactionChoice) -> Option<BackgroundJob> {
        let disk = self.disk.as_ref()?;
        let table = self.tables.get_mut(&id)?;
        let Some(task) = choice.task else {
            // There is nothing to do for the request.
            table.requested.pop_front();
            self.schedule.has_settled_request = true;
            return None;
        };
        let limits = &self.options.compaction;
        let permit = limits.permit(choice.bytes)?;
        if let Some(level) = choice.sends_up {
            table.idle_levels.sent_up_to(level);
        }
        let compaction = table.compaction_of(&task);
        let bytes = compaction.inputs.iter().map(|input| input.data_bytes()).sum();
        let count = task.inputs.len() + task.expired.len();
        let progress = JobProgress::new(
            choice.kind,
            &table.layout,
            &table.folder,
            count,
            bytes,
            disk.now_us(),
        );
        table
            .compacting
            .extend(compaction.replaced().map(|input| input.descriptor()));
        if let Some(ticket) = choice.ticket {
            table.requested.pop_front();
            self.schedule.requests_running.push((ticket, progress.number));
        }
        self.schedule.compactions += 1;
        let pace = (Arc::clone(&self.schedule.pace), Arc::clone(limits));
        let job = Self::job(&self.options, disk, table, progress, Work::Compaction(compaction));
        Some(BackgroundJob {
            pace: Some(pace),
            permit: Some(permit),
            ..job
        })
    }

    pub(in crate::store) fn job(
        options: &StoreOptions,
        disk: &Disk,
        table: &mut Table,
        progress: Arc<JobProgress>,
        work: Work,
    ) -> BackgroundJob {
        table.jobs.push(Arc::clone(&progress));
        disk.folder.note_job(&progress);
        BackgroundJob {
            folder: Arc::clone(&disk.folder),
            progress,
            layout: Arc::clone(&table.layout),
            table_folder: table.folder.clone(),
            epoch: table.epoch,
            column_index_bytes: options.column_index_bytes,
            sstable_format: options.sstable_format,
            partition_guardrails: options.partition_guardrails,
            pace: None,
            permit: None,
            work,
        }
    }
}

/// A compaction that could begin.
struct CompactionChoice {
    kind: JobKind,
    ticket: Option<CompactionTicket>,
    task: Option<Task>,
    /// Bytes of the SSTables to merge.
    bytes: u64,
    /// See [`sends_up`].
    sends_up: Option<u32>,
}

impl CompactionChoice {
    fn requested(request: PendingRequest, task: Option<Task>, candidates: &[Candidate]) -> Self {
        CompactionChoice {
            kind: match request.kind {
                CompactionKind::Major { .. } => JobKind::MajorCompaction,
                CompactionKind::Cleanup => JobKind::Cleanup,
            },
            ticket: Some(request.ticket),
            sends_up: None,
            bytes: task.as_ref().map_or(0, |task| task.bytes(candidates)),
            task,
        }
    }

    fn of_strategy(task: Task, candidates: &[Candidate]) -> Self {
        CompactionChoice {
            kind: if task.inputs.len() == 1 && !task.is_relabelling {
                JobKind::TombstoneCompaction
            } else {
                JobKind::Compaction
            },
            ticket: None,
            bytes: task.bytes(candidates),
            sends_up: sends_up(&task, candidates),
            task: Some(task),
        }
    }
}

/// The level that leveled compaction sends something to from one above level 0.
fn sends_up(task: &Task, candidates: &[Candidate]) -> Option<u32> {
    let inputs = candidates
        .iter()
        .filter(|candidate| task.inputs.contains(&candidate.generation));
    let lowest = inputs.map(|input| input.level).min()?;
    (lowest > 0 && task.output.level > lowest).then_some(task.output.level)
}

/// Returns whether the log has all of a memtable for good, so that an SSTable never knows a write that a replay would not
/// apply. Else a deletion could be flushed, purged together with what it hides, and be missing from the log that brings the
/// latter back after a crash; or half of a write set would stay that the crash undoes.
fn is_logged(memtable: &Memtable, resolved: Option<LogPosition>) -> bool {
    match (memtable.log_positions(), resolved) {
        (Some((_, last)), Some(resolved)) => last <= resolved,
        _ => true,
    }
}
