//! Which background work a shard has, and taking its results in.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::TableId;

use super::compact::Compaction;
use super::compaction_history::{CompactionHistory, CompactionRecord, PartitionsBySources};
use super::compaction_request::{CompactionKind, CompactionTicket, CompactionTotals, PendingRequest};
use super::job::{
    BackgroundJob, JobError, JobKind, JobOutcome, JobProgress, JobReport, JobResult, ObsoleteFiles, Work,
};
use super::shard::{Disk, ShardStore, StoreOptions};
use super::table::Table;
use crate::commitlog::{CommitLog, LogPosition};
use crate::compaction::{Candidate, Pace, Removal, RemovalError, Task};
use crate::memtable::Memtable;
use helenus_rows::layout::TableLayout;
use helenus_sstable::{Descriptor, SsTable};

/// After a failed job no other is begun for a second, then two, then four..
pub(super) const RETRY_DELAY_NS_MIN: u64 = 1_000_000_000;
/// ..up to a minute: a disk that was full may have room again.
pub(super) const RETRY_DELAY_NS_MAX: u64 = 60 * RETRY_DELAY_NS_MIN;

/// The part of its bound from which on the log is relieved: a flush takes a while, in which it grows.
const LOG_RELIEVED_AT_PERCENT: u64 = 75;

/// Whoever asked is told within moments; only those who gave up waiting are never.
const FAILED_REQUESTS_MAX: usize = 64;

/// One for the large compaction that takes an hour, one for the small ones that come meanwhile.
pub const COMPACTIONS_PER_SHARD_MAX: usize = 2;

/// Without news, how long until the tables are looked through again: a log grows too long and tombstones come of age
/// without a word.
const LOOK_AGAIN_NS: u64 = 100_000_000;

/// Between jobs.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// SSTables that nothing reads any more, by table.
    removals: Vec<Obsolete>,
    /// Dropped tables whose files may still come or go: an entry for each job and each removal that is not done.
    leaving: Vec<TableId>,
    /// Memtables that nothing reads any more. Freeing millions of rows takes longer than a shard may stand still.
    garbage: Vec<(Arc<TableLayout>, Arc<Memtable>)>,
    /// Compactions under way.
    compactions: usize,
    pub pace: Arc<Pace>,
    pub totals: CompactionTotals,
    pub history: CompactionHistory,
    /// Compactions that strategies wanted when they were last asked.
    pending: usize,
    last_ticket: u64,
    /// Requests whose compactions run, each with the number of its job.
    requests_running: Vec<(CompactionTicket, u64)>,
    /// Requests whose compactions failed, and why, until whoever asked is told; the latest last.
    requests_failed: VecDeque<(CompactionTicket, String)>,
    /// A request had nothing to do: whoever waits for it does not know yet.
    has_settled_request: bool,
    /// Whose flushes have failed again.
    pub failing_tables: usize,
    /// Of any table.
    pub is_rewriting: bool,
    /// A sealed memtable waits until the log is durable.
    is_waiting_for_log: bool,
    /// Something has changed since there was no job to be had.
    has_news: bool,
    look_again_ns: u64,
    retry_delay_ns: u64,
    not_before_ns: u64,
}

#[derive(Debug)]
struct Obsolete {
    layout: Arc<TableLayout>,
    folder: PathBuf,
    files: ObsoleteFiles,
    is_table_dropped: bool,
    /// It was tried, and is to be tried again.
    has_failed: bool,
}

impl Schedule {
    /// All that a dropped table leaves. From here on a crash brings none of its SSTables back, unless the list of them cannot
    /// be written; then, or while a job may still add some, it is written in the background.
    pub fn remove_dropped(&mut self, disk: &dyn helenus_vfs::Disk, table: Table) {
        let sstables: Vec<_> = table
            .sstables
            .iter()
            .map(|sstable| sstable.descriptor())
            .collect();
        table.jobs.iter().for_each(|job| job.stop());
        let listed = if table.jobs.is_empty() && !sstables.is_empty() {
            Removal::commit(disk, &table.folder, &sstables).ok()
        } else {
            None
        };
        let files = listed.map_or(ObsoleteFiles::Unlisted(sstables), ObsoleteFiles::Listed);
        let left_to_do = table.jobs.len() + 1;
        self.leaving
            .extend(std::iter::repeat_n(table.layout.metadata.id, left_to_do));
        self.remove(Obsolete {
            layout: Arc::clone(&table.layout),
            folder: table.folder,
            files,
            is_table_dropped: true,
            has_failed: false,
        });
        self.release(
            &table.layout,
            table
                .sealed
                .into_iter()
                .map(|sealed| sealed.memtable)
                .chain(table.absorbing.into_iter().map(|absorption| absorption.memtable))
                .chain([Arc::new(table.active)]),
        );
    }

    pub fn release(&mut self, layout: &Arc<TableLayout>, memtables: impl IntoIterator<Item = Arc<Memtable>>) {
        self.garbage.extend(
            memtables
                .into_iter()
                .map(|memtable| (Arc::clone(layout), memtable)),
        );
        self.has_news = true;
    }

    pub fn is_waiting_for_log(&self) -> bool {
        self.is_waiting_for_log
    }

    /// There may be a job now.
    pub fn note_news(&mut self) {
        self.has_news = true;
    }

    /// Whether no file of a dropped table is left, nor will come.
    pub fn has_left(&self, id: TableId) -> bool {
        !self.leaving.contains(&id)
    }

    pub fn note_log_progress(&mut self) {
        self.has_news |= self.is_waiting_for_log;
    }

    fn remove(&mut self, obsolete: Obsolete) {
        self.has_news = true;
        self.removals.push(obsolete);
    }

    /// How many compactions strategies wanted when they were last asked.
    pub fn pending(&self) -> usize {
        self.pending
    }

    pub fn new_ticket(&mut self) -> CompactionTicket {
        self.has_news = true;
        self.last_ticket += 1;
        CompactionTicket(self.last_ticket)
    }

    pub fn is_running(&self, ticket: CompactionTicket) -> bool {
        self.requests_running
            .iter()
            .any(|(running, _)| *running == ticket)
    }

    fn request_ended(&mut self, number: u64, error: Option<&JobError>) {
        let of_job = |(_, running): &(CompactionTicket, u64)| *running == number;
        let Some(place) = self.requests_running.iter().position(of_job) else {
            return;
        };
        let (ticket, _) = self.requests_running.swap_remove(place);
        if let Some(error) = error.filter(|error| !matches!(error, JobError::Stopped)) {
            self.request_failed(ticket, error.to_string());
        }
    }

    fn request_failed(&mut self, ticket: CompactionTicket, reason: String) {
        if self.requests_failed.len() >= FAILED_REQUESTS_MAX {
            self.requests_failed.pop_front();
        }
        self.requests_failed.push_back((ticket, reason));
    }

    /// Why the compaction of a request failed; once.
    pub fn take_failure(&mut self, ticket: CompactionTicket) -> Option<String> {
        let place = self
            .requests_failed
            .iter()
            .position(|(failed, _)| *failed == ticket)?;
        self.requests_failed.remove(place).map(|(_, reason)| reason)
    }

    fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.not_before_ns && (self.has_news || now_ns >= self.look_again_ns)
    }

    /// Whether files of a table could not be removed when that was tried last.
    pub fn is_failing_to_remove(&self, id: TableId) -> bool {
        let mut removals = self.removals.iter();
        removals.any(|obsolete| obsolete.has_failed && obsolete.layout.metadata.id == id)
    }

    fn job_done(&mut self, failed: bool, now_ns: u64) {
        self.has_news = true;
        if failed {
            self.retry_delay_ns = (self.retry_delay_ns * 2).clamp(RETRY_DELAY_NS_MIN, RETRY_DELAY_NS_MAX);
            self.not_before_ns = now_ns + self.retry_delay_ns;
        } else {
            self.retry_delay_ns = 0;
        }
    }
}

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
        if !self.schedule.is_due(now_ns) {
            return None;
        }
        self.relieve_log();
        self.tend_rewrites();
        let job = self
            .next_flush(now_ns)
            .or_else(|| self.next_release())
            .or_else(|| self.next_removal())
            .or_else(|| with_compactions.then(|| self.next_compaction(now_ns)).flatten());
        if job.is_none() && with_compactions {
            // Behind a request without work there may be one with work.
            self.schedule.has_news = self.schedule.has_settled_request;
            self.schedule.look_again_ns = now_ns + LOOK_AGAIN_NS;
        }
        job
    }

    /// Whether a request for a compaction was found to have nothing to do since this was asked last.
    pub fn take_settled_request(&mut self) -> bool {
        std::mem::take(&mut self.schedule.has_settled_request)
    }

    /// Whether memtables wait for their flush or are being flushed.
    pub fn is_flushing(&self) -> bool {
        self.tables.values().any(|table| !table.sealed.is_empty())
    }

    /// Takes in what a job has made.
    pub fn complete(&mut self, result: JobResult) -> JobReport {
        let JobResult {
            progress,
            epoch,
            layout,
            table_folder,
            work,
            outcome,
        } = result;
        let id = progress.table_id;
        let suspect = self.job_ended(&progress, &work, &outcome);
        let is_flush = matches!(work, Work::Flush(_));
        let is_news = match &outcome {
            Err(error) if is_flush && !matches!(error, JobError::Stopped) => {
                self.flush_failed(id, error.to_string())
            }
            _ => true,
        };
        let has_left = match &work {
            Work::Removal { is_table_dropped, .. } => *is_table_dropped && outcome.is_ok(),
            Work::Flush(_) | Work::Compaction(_) => !self.tables.contains_key(&id),
            Work::Release(_) => false,
        };
        let is_current = self.tables.get(&id).is_some_and(|table| table.epoch == epoch);
        let result = match (work, outcome) {
            (
                Work::Removal {
                    files,
                    is_table_dropped,
                },
                Err(error),
            ) => {
                self.schedule.remove(Obsolete {
                    layout,
                    folder: table_folder,
                    files,
                    is_table_dropped,
                    has_failed: true,
                });
                Err(error)
            }
            (_, Err(error)) => Err(error),
            (
                Work::Removal {
                    is_table_dropped: false,
                    ..
                },
                Ok(_),
            ) => {
                if let Some(table) = self.tables.get_mut(&id) {
                    table.removals = table.removals.saturating_sub(1);
                }
                Ok(())
            }
            (Work::Flush(memtable), Ok(JobOutcome::Flushed(sstable))) if is_current => {
                self.flushed(id, &memtable, sstable);
                Ok(())
            }
            (
                Work::Compaction(compaction),
                Ok(JobOutcome::Compacted {
                    outputs,
                    removal,
                    partitions,
                }),
            ) if is_current => {
                self.compacted(id, &progress, &compaction, outputs, partitions);
                self.remove(id, &layout, table_folder, ObsoleteFiles::Listed(removal));
                Ok(())
            }
            // The table was dropped or truncated meanwhile; what went into the job went with that.
            (_, Ok(JobOutcome::Flushed(sstable))) => {
                let generations = sstable.iter().map(|sstable| sstable.descriptor());
                let files = ObsoleteFiles::Unlisted(generations.collect());
                self.remove(id, &layout, table_folder, files);
                Ok(())
            }
            (_, Ok(JobOutcome::Compacted { outputs, removal, .. })) => {
                let generations = outputs.iter().map(|output| output.descriptor());
                let files = ObsoleteFiles::Unlisted(generations.collect());
                self.remove(id, &layout, table_folder.clone(), files);
                self.remove(id, &layout, table_folder, ObsoleteFiles::Listed(removal));
                Ok(())
            }
            (_, Ok(JobOutcome::Nothing)) => Ok(()),
        };
        if has_left && let Some(place) = self.schedule.leaving.iter().position(|leaving| *leaving == id) {
            self.schedule.leaving.swap_remove(place);
        }
        if let Some(disk) = &self.disk {
            // A flush that fails holds up its own table only.
            let failed = !is_flush && matches!(&result, Err(error) if !matches!(error, JobError::Stopped));
            self.schedule.job_done(failed, disk.folder.clock().monotonic_ns());
        }
        JobReport {
            progress,
            result,
            is_news,
            suspect,
        }
    }

    /// Nobody works on what a job worked on any more. Returns the input that it failed for.
    fn job_ended(
        &mut self,
        progress: &Arc<JobProgress>,
        work: &Work,
        outcome: &Result<JobOutcome, JobError>,
    ) -> Option<Descriptor> {
        let mut suspect = None;
        if let Some(table) = self.tables.get_mut(&progress.table_id) {
            table.jobs.retain(|job| !Arc::ptr_eq(job, progress));
            match work {
                Work::Flush(_) => table.is_flushing = false,
                Work::Compaction(compaction) => table.compacting.retain(|generation| {
                    !compaction
                        .replaced()
                        .any(|input| input.descriptor() == *generation)
                }),
                Work::Release(_) | Work::Removal { .. } => {}
            }
            if let (Work::Compaction(compaction), Err(error)) = (work, outcome) {
                suspect = table.suspect_of(compaction, error);
            }
            if let (Work::Compaction(_), Err(JobError::Removal(error @ RemovalError::Undecided { .. }))) =
                (work, outcome)
            {
                table.is_undecided = true;
                for request in table.requested.drain(..) {
                    self.schedule.request_failed(request.ticket, error.to_string());
                }
            }
        }
        if matches!(work, Work::Compaction(_)) {
            self.schedule.compactions -= 1;
            self.schedule
                .request_ended(progress.number, outcome.as_ref().err());
            self.schedule.totals.failed += u64::from(outcome.is_err());
        }
        suspect
    }

    /// Has files removed that nothing reads any more.
    fn remove(&mut self, id: TableId, layout: &Arc<TableLayout>, folder: PathBuf, files: ObsoleteFiles) {
        let table = self.tables.get_mut(&id);
        let is_table_dropped = table.is_none();
        match table {
            Some(table) => table.removals += 1,
            None => self.schedule.leaving.push(id),
        }
        self.schedule.remove(Obsolete {
            layout: Arc::clone(layout),
            folder,
            files,
            is_table_dropped,
            has_failed: false,
        });
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

    pub(super) fn next_flush(&mut self, now_ns: u64) -> Option<BackgroundJob> {
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

    fn next_removal(&mut self) -> Option<BackgroundJob> {
        let disk = self.disk.as_ref()?;
        let Obsolete {
            layout,
            folder,
            files,
            is_table_dropped,
            has_failed: _,
        } = self.schedule.removals.pop()?;
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
            },
        })
    }

    /// What an operator asked for goes first; of what strategies want, the smallest, so that a large compaction holds
    /// up as few others as can be.
    fn next_compaction(&mut self, now_ns: u64) -> Option<BackgroundJob> {
        if self.schedule.compactions >= COMPACTIONS_PER_SHARD_MAX {
            return None;
        }
        let disk = self.disk.as_ref()?;
        let ring_parts = disk.folder.shard_count();
        let moment_of = |table: &Table| table.moment(disk.folder.clock().wall_s(), ring_parts);
        let mut pending = 0;
        let mut choice: Option<(TableId, CompactionChoice)> = None;
        for (&id, table) in &self.tables {
            if table.is_held || table.is_undecided {
                continue;
            }
            let moment = moment_of(table);
            let candidates = table.candidates(&moment);
            if let Some(request) = table.requested.front() {
                // Begins when what runs has ended: nothing is left out.
                if table.compacting.is_empty() {
                    let task = request.kind.task(table, &candidates);
                    choice = Some((id, CompactionChoice::requested(*request, task, &candidates)));
                    break;
                }
                continue;
            }
            pending += table.compaction.pending(&candidates, &moment);
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
        self.schedule.pending = pending;
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

    fn job(
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

    /// A memtable has become an SSTable (or nothing, if all of it was hidden by its own deletions).
    fn flushed(&mut self, id: TableId, memtable: &Arc<Memtable>, sstable: Option<Arc<SsTable>>) {
        let now_s = self.disk.as_ref().map_or(0, |disk| disk.folder.clock().wall_s());
        let Some(table) = self.tables.get_mut(&id) else {
            return;
        };
        if let Some(sstable) = &sstable {
            table.note_flush(sstable.disk_bytes());
        }
        table.sstables_made(sstable, now_s);
        let place = table
            .sealed
            .iter()
            .position(|sealed| Arc::ptr_eq(&sealed.memtable, memtable));
        let flushed_to = place.and_then(|place| table.sealed.remove(place).flushed_to);
        if flushed_to >= table.is_rewritten_to {
            table.is_rewritten_to = None;
        }
        self.flush_succeeded(id);
        self.absorb(id, memtable);
        if let Some(flushed_to) = flushed_to {
            self.log_flushed(id, flushed_to);
        }
    }

    fn compacted(
        &mut self,
        id: TableId,
        progress: &JobProgress,
        compaction: &Compaction,
        outputs: Vec<Arc<SsTable>>,
        partitions: PartitionsBySources,
    ) {
        let Some((disk, table)) = self.disk.as_ref().zip(self.tables.get_mut(&id)) else {
            return;
        };
        let clock = disk.folder.clock();
        let mut record = CompactionRecord::of_job(progress, clock.wall_us());
        let bytes = |sstables: &[Arc<SsTable>]| sstables.iter().map(|one| one.disk_bytes()).sum::<u64>();
        if !compaction.is_relabelling {
            record.bytes_in = bytes(&compaction.inputs);
            record.bytes_out = bytes(&outputs);
        }
        record.partitions = partitions;
        self.schedule.totals.count(&record);
        self.schedule.history.note(record);
        let is_input =
            |sstable: &Arc<SsTable>| compaction.replaced().any(|input| Arc::ptr_eq(input, sstable));
        let was_settled = |input: &Arc<SsTable>| table.settled.contains(&input.descriptor());
        let is_settled = if compaction.is_relabelling {
            compaction.inputs.iter().any(was_settled)
        } else {
            compaction.inputs.len() == 1
        };
        table.sstables.retain(|sstable| !is_input(sstable));
        table.forget_replaced();
        if is_settled {
            table
                .settled
                .extend(outputs.iter().map(|output| output.descriptor()));
        }
        table.sstables_made(outputs, clock.wall_s());
    }
}

/// A compaction that could begin.
struct CompactionChoice {
    kind: JobKind,
    ticket: Option<CompactionTicket>,
    task: Option<Task>,
    /// Of the SSTables to merge.
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

/// Whether the log has all of a memtable for good, so that an SSTable never knows a write that a replay would not apply.
/// Else a deletion could be flushed, purged together with what it hides, and be missing from the log that brings the
/// latter back after a crash; or half of a write set would stay that the crash undoes.
fn is_logged(memtable: &Memtable, resolved: Option<LogPosition>) -> bool {
    match (memtable.log_positions(), resolved) {
        (Some((_, last)), Some(resolved)) => last <= resolved,
        _ => true,
    }
}
