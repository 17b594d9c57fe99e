//! Which background work a shard has, and taking its results in.

use std::path::PathBuf;
use std::sync::Arc;

use helenus_schema::TableId;

use super::job::{BackgroundJob, Compaction, JobError, JobKind, JobProgress, JobReport, JobResult, Work};
use super::shard::{Disk, ShardStore};
use super::table::Table;
use crate::commitlog::{CommitLog, LogPosition};
use crate::compaction::{self, Candidate};
use crate::layout::TableLayout;
use crate::memtable::Memtable;
use crate::sstable::{Descriptor, SsTable};

/// After a failed job no other is begun for a second, then two, then four..
const RETRY_DELAY_NS_MIN: u64 = 1_000_000_000;
/// ..up to a minute: a disk that was full may have room again.
const RETRY_DELAY_NS_MAX: u64 = 60 * RETRY_DELAY_NS_MIN;

/// Without news, how long until the tables are looked through again: a log grows too long and tombstones come of age
/// without a word.
const LOOK_AGAIN_NS: u64 = 100_000_000;

/// Between jobs.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// SSTables that nothing reads any more, by table.
    removals: Vec<Obsolete>,
    /// Memtables that nothing reads any more. Freeing millions of rows takes longer than a shard may stand still.
    garbage: Vec<(Arc<TableLayout>, Arc<Memtable>)>,
    is_compacting: bool,
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
    sstables: Vec<Descriptor>,
    is_table_dropped: bool,
}

impl Schedule {
    /// Whether there is something to remove.
    pub fn remove(&mut self, layout: &Arc<TableLayout>, folder: PathBuf, sstables: &[Arc<SsTable>]) -> bool {
        if !sstables.is_empty() {
            self.push(layout, folder, sstables, false);
        }
        !sstables.is_empty()
    }

    /// All that a dropped table leaves.
    pub fn remove_dropped(&mut self, table: Table) {
        self.push(&table.layout, table.folder, &table.sstables, true);
        self.release(
            &table.layout,
            table.sealed.into_iter().chain([Arc::new(table.active)]),
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

    pub fn note_log_progress(&mut self) {
        self.has_news |= self.is_waiting_for_log;
    }

    fn push(
        &mut self,
        layout: &Arc<TableLayout>,
        folder: PathBuf,
        sstables: &[Arc<SsTable>],
        is_table_dropped: bool,
    ) {
        self.has_news = true;
        let sstables = sstables.iter().map(|sstable| sstable.descriptor()).collect();
        self.removals.push(Obsolete {
            layout: Arc::clone(layout),
            folder,
            sstables,
            is_table_dropped,
        });
    }

    fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.not_before_ns && (self.has_news || now_ns >= self.look_again_ns)
    }

    /// Whether the last job failed.
    pub fn is_failing(&self) -> bool {
        self.retry_delay_ns > 0
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
    /// most one flush and each shard at most one compaction among them.
    pub fn next_job(&mut self) -> Option<BackgroundJob> {
        let now_ns = self.disk.as_ref()?.folder.clock().monotonic_ns();
        if !self.schedule.is_due(now_ns) {
            return None;
        }
        self.relieve_log();
        let job = self
            .next_flush()
            .or_else(|| self.next_release())
            .or_else(|| self.next_removal())
            .or_else(|| self.next_compaction());
        if job.is_none() {
            self.schedule.has_news = false;
            self.schedule.look_again_ns = now_ns + LOOK_AGAIN_NS;
        }
        job
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
        if let Some(table) = self.tables.get_mut(&id) {
            table.jobs.retain(|job| !Arc::ptr_eq(job, &progress));
            match work {
                Work::Flush(_) => table.is_flushing = false,
                Work::Compaction(_) => table.compacting.clear(),
                Work::Release(_) | Work::Removal { .. } => {}
            }
        }
        self.schedule.is_compacting &= !matches!(work, Work::Compaction(_));
        let is_current = self.tables.get(&id).is_some_and(|table| table.epoch == epoch);
        let result = match (work, outcome) {
            (
                Work::Removal {
                    sstables,
                    is_table_dropped,
                },
                Err(error),
            ) => {
                let obsolete = Obsolete {
                    layout,
                    folder: table_folder,
                    sstables,
                    is_table_dropped,
                };
                self.schedule.removals.push(obsolete);
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
            (Work::Release(_) | Work::Removal { .. }, Ok(_)) => Ok(()),
            (_, Ok(sstable)) if !is_current => {
                // The table was dropped or truncated meanwhile; what went into the job went with that.
                let has_removal = self.schedule.remove(&layout, table_folder, sstable.as_slice());
                if let Some(table) = self.tables.get_mut(&id) {
                    table.removals += usize::from(has_removal);
                }
                Ok(())
            }
            (Work::Flush(memtable), Ok(sstable)) => {
                self.flushed(id, &memtable, sstable);
                Ok(())
            }
            (Work::Compaction(compaction), Ok(sstable)) => {
                self.compacted(id, table_folder, &compaction, sstable);
                Ok(())
            }
        };
        if let Some(disk) = &self.disk {
            let failed = matches!(&result, Err(error) if !matches!(error, JobError::Stopped));
            self.schedule.job_done(failed, disk.folder.clock().monotonic_ns());
        }
        JobReport { progress, result }
    }

    /// Seals the memtable that keeps the log from being cut when the log has become too long.
    fn relieve_log(&mut self) {
        let Some(Disk { log: Some(log), .. }) = &self.disk else {
            return;
        };
        let oldest = |table: &Table| table.active.log_positions().map(|(first, _)| first);
        let table = self
            .tables
            .values_mut()
            .filter(|table| oldest(table).is_some())
            .min_by_key(|table| oldest(table));
        if let Some(table) = table
            && let Some(first) = oldest(table)
            && log.needed_bytes(first) > self.options.log_bytes_max
        {
            self.active_bytes = self.active_bytes.saturating_sub(table.active.bytes());
            table.seal();
        }
    }

    pub(super) fn next_flush(&mut self) -> Option<BackgroundJob> {
        let durable = self.disk.as_ref()?.log.as_ref().map(CommitLog::durable);
        self.schedule.is_waiting_for_log = self
            .tables
            .values()
            .filter_map(|table| table.sealed.first())
            .any(|memtable| !is_logged(memtable, durable));
        let table = self.tables.values_mut().find(|table| {
            !table.is_flushing
                && !table.is_held
                && table
                    .sealed
                    .first()
                    .is_some_and(|memtable| is_logged(memtable, durable))
        })?;
        let memtable = Arc::clone(table.sealed.first()?);
        table.is_flushing = true;
        let progress = JobProgress::new(JobKind::Flush, &table.layout, memtable.bytes() as u64);
        Self::job(self.disk.as_ref()?, table, progress, 0, Work::Flush(memtable))
    }

    fn next_release(&mut self) -> Option<BackgroundJob> {
        let (layout, memtable) = self.schedule.garbage.pop()?;
        Some(BackgroundJob {
            folder: Arc::clone(&self.disk.as_ref()?.folder),
            progress: JobProgress::new(JobKind::Release, &layout, memtable.bytes() as u64),
            layout,
            table_folder: PathBuf::new(),
            epoch: 0,
            bytes_per_s_max: 0,
            work: Work::Release(Some(memtable)),
        })
    }

    fn next_removal(&mut self) -> Option<BackgroundJob> {
        let disk = self.disk.as_ref()?;
        let Obsolete {
            layout,
            folder,
            sstables,
            is_table_dropped,
        } = self.schedule.removals.pop()?;
        Some(BackgroundJob {
            folder: Arc::clone(&disk.folder),
            progress: JobProgress::new(JobKind::Removal, &layout, 0),
            layout,
            table_folder: folder,
            epoch: 0,
            bytes_per_s_max: 0,
            work: Work::Removal {
                sstables,
                is_table_dropped,
            },
        })
    }

    fn next_compaction(&mut self) -> Option<BackgroundJob> {
        if self.schedule.is_compacting {
            return None;
        }
        let disk = self.disk.as_ref()?;
        let now_s = disk.folder.clock().wall_s();
        for table in self.tables.values_mut() {
            if table.is_held || table.removals > 0 {
                continue;
            }
            let chosen = compaction::choose(&table.compaction, &candidates(table, now_s));
            if chosen.is_empty() {
                continue;
            }
            let (mut inputs, mut others) = (Vec::new(), Vec::new());
            for (index, sstable) in table.sstables.iter().enumerate() {
                let side = if chosen.contains(&index) {
                    &mut inputs
                } else {
                    &mut others
                };
                side.push(Arc::clone(sstable));
            }
            let bytes = inputs.iter().map(|input| input.data_bytes()).sum();
            let progress = JobProgress::new(JobKind::Compaction, &table.layout, bytes);
            table.compacting = inputs.iter().map(|input| input.descriptor()).collect();
            self.schedule.is_compacting = true;
            let memtable_min_timestamp_us = table.memtable_min_timestamp_us();
            let work = Work::Compaction(Compaction {
                inputs,
                others,
                memtable_min_timestamp_us,
            });
            return Self::job(
                disk,
                table,
                progress,
                self.options.compaction_bytes_per_s_max,
                work,
            );
        }
        None
    }

    fn job(
        disk: &Disk,
        table: &mut Table,
        progress: Arc<JobProgress>,
        bytes_per_s_max: u64,
        work: Work,
    ) -> Option<BackgroundJob> {
        table.jobs.push(Arc::clone(&progress));
        Some(BackgroundJob {
            folder: Arc::clone(&disk.folder),
            progress,
            layout: Arc::clone(&table.layout),
            table_folder: table.folder.clone(),
            epoch: table.epoch,
            bytes_per_s_max,
            work,
        })
    }

    /// A memtable has become an SSTable (or nothing, if all of it was hidden by its own deletions).
    fn flushed(&mut self, id: TableId, memtable: &Arc<Memtable>, sstable: Option<Arc<SsTable>>) {
        let Some(table) = self.tables.get_mut(&id) else {
            return;
        };
        table.add_sstables(sstable);
        table.sealed.retain(|other| !Arc::ptr_eq(other, memtable));
        self.memtable_bytes = self.memtable_bytes.saturating_sub(memtable.bytes());
        self.schedule.release(&table.layout, [Arc::clone(memtable)]);
        if let Some((_, last)) = memtable.log_positions() {
            self.log_flushed(id, last);
        }
    }

    fn compacted(
        &mut self,
        id: TableId,
        folder: PathBuf,
        compaction: &Compaction,
        output: Option<Arc<SsTable>>,
    ) {
        let Some(table) = self.tables.get_mut(&id) else {
            return;
        };
        let is_input =
            |sstable: &Arc<SsTable>| compaction.inputs.iter().any(|input| Arc::ptr_eq(input, sstable));
        table.sstables.retain(|sstable| !is_input(sstable));
        table.settled.retain(|descriptor| {
            table
                .sstables
                .iter()
                .any(|sstable| sstable.descriptor() == *descriptor)
        });
        if compaction.inputs.len() == 1 {
            table
                .settled
                .extend(output.iter().map(|output| output.descriptor()));
        }
        table.add_sstables(output);
        table.removals += usize::from(self.schedule.remove(&table.layout, folder, &compaction.inputs));
    }
}

/// Whether the log has all of a memtable, so that an SSTable never knows a write that the log does not. Else a
/// deletion could be flushed, purged together with what it hides, and be missing from the log that brings the latter
/// back after a crash.
fn is_logged(memtable: &Memtable, durable: Option<LogPosition>) -> bool {
    match (memtable.log_positions(), durable) {
        (Some((_, last)), Some(durable)) => last <= durable,
        _ => true,
    }
}

/// The SSTables of a table that no compaction works on.
fn candidates(table: &Table, now_s: u32) -> Vec<Candidate> {
    let gc_before_s = now_s.saturating_sub(table.layout.metadata.params.gc_grace_seconds);
    let free = table.sstables.iter().enumerate();
    free.filter(|(_, sstable)| !table.compacting.contains(&sstable.descriptor()))
        .map(|(index, sstable)| Candidate {
            index,
            bytes: sstable.disk_bytes(),
            droppable_tombstones: if table.settled.contains(&sstable.descriptor()) {
                0.0
            } else {
                sstable.statistics().droppable_tombstone_ratio(gc_before_s)
            },
        })
        .collect()
}
