//! Taking in what background work has made.

use std::path::PathBuf;
use std::sync::Arc;

use helenus_schema::TableId;

use super::Obsolete;
use crate::compaction::{Removal, RemovalError};
use crate::index::{BuiltTerms, IndexBuild};
use crate::memtable::Memtable;
use crate::store::compact::Compaction;
use crate::store::compaction_history::{CompactionRecord, PartitionsBySources};
use crate::store::job::{JobError, JobOutcome, JobProgress, JobReport, JobResult, Made, ObsoleteFiles, Work};
use crate::store::shard::ShardStore;
use helenus_rows::layout::TableLayout;
use helenus_sstable::{Descriptor, SsTable};

/// Returns whether a DROP waited for the work, which lists what a dropped table has left.
fn is_first_list(work: &Work) -> bool {
    matches!(
        work,
        Work::Removal { files, is_table_dropped: true, has_failed: false } if files.is_unlisted()
    )
}

/// Table that a job worked on, as it is when the job has ended.
struct JobPlace {
    id: TableId,
    layout: Arc<TableLayout>,
    table_folder: PathBuf,
    /// Neither dropped nor truncated meanwhile.
    is_current: bool,
}

impl ShardStore {
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
        let is_build = matches!(work, Work::IndexBuild(_));
        let is_truncation = matches!(work, Work::Truncation(_));
        let is_news = match &outcome {
            Err(error) if is_flush && !matches!(error, JobError::Stopped) => {
                self.flush_failed(id, error.to_string())
            }
            _ => true,
        };
        if matches!(work, Work::Release(_)) {
            self.note_freed(usize::try_from(progress.bytes_total).unwrap_or(usize::MAX));
            self.borrow_from_memtables();
        }
        let is_of_table = !matches!(work, Work::Removal { .. } | Work::Release(_));
        let has_left = match &work {
            Work::Removal { .. } => {
                !self.tables.contains_key(&id) && matches!(outcome, Ok(JobOutcome::Nothing))
            }
            Work::Flush(_) | Work::Compaction(_) | Work::IndexBuild(_) | Work::Truncation(_) => {
                !self.tables.contains_key(&id)
            }
            Work::Release(_) => false,
        };
        let is_current = self.tables.get(&id).is_some_and(|table| table.epoch == epoch);
        let place = JobPlace {
            id,
            layout,
            table_folder,
            is_current,
        };
        self.schedule.lists_under_way -= usize::from(is_first_list(&work));
        let result = self.take_outcome(&progress, place, work, outcome);
        if has_left && let Some(at) = self.schedule.leaving.iter().position(|leaving| *leaving == id) {
            self.schedule.leaving.swap_remove(at);
            self.schedule.jobs_of_dropped -= usize::from(is_of_table);
        }
        if let Some(disk) = &self.disk {
            // A flush or truncation that fails holds up its own table only, and a build its own SSTable.
            let is_own = is_flush || is_build || is_truncation;
            let failed = !is_own && matches!(&result, Err(error) if !matches!(error, JobError::Stopped));
            self.schedule.job_done(failed, disk.folder.clock().monotonic_ns());
        }
        self.count_sstable_memory();
        JobReport {
            progress,
            result,
            is_news,
            suspect,
        }
    }

    fn take_outcome(
        &mut self,
        progress: &JobProgress,
        place: JobPlace,
        work: Work,
        outcome: Result<JobOutcome, JobError>,
    ) -> Result<(), JobError> {
        match outcome {
            Ok(outcome) => {
                self.take_made(progress, place, work, outcome);
                Ok(())
            }
            Err(error) => {
                self.take_failure(place, work, &error);
                Err(error)
            }
        }
    }

    fn take_failure(&mut self, place: JobPlace, work: Work, error: &JobError) {
        match work {
            Work::Removal { files, .. } => self.schedule.remove(Obsolete {
                is_table_dropped: !self.tables.contains_key(&place.id),
                layout: place.layout,
                folder: place.table_folder,
                files,
                has_failed: true,
            }),
            Work::Truncation(_) if place.is_current => self.truncation_ended(place.id, Err(error)),
            // Dropped meanwhile: that left its SSTables to the truncation.
            Work::Truncation(sstables) => {
                let files = ObsoleteFiles::Unlisted(sstables);
                self.remove(place.id, &place.layout, place.table_folder, files);
            }
            Work::Compaction(_) if !self.tables.contains_key(&place.id) => {
                if let JobError::Removal(RemovalError::Undecided { successors, .. }) = error {
                    let files = ObsoleteFiles::Unlisted(successors.clone());
                    self.remove(place.id, &place.layout, place.table_folder, files);
                }
            }
            Work::Flush(_) | Work::Compaction(_) | Work::Release(_) | Work::IndexBuild(_) => {}
        }
    }

    fn take_made(&mut self, progress: &JobProgress, place: JobPlace, work: Work, outcome: JobOutcome) {
        let JobPlace {
            id,
            layout,
            table_folder,
            is_current,
        } = place;
        match (work, outcome) {
            (
                Work::Removal {
                    is_table_dropped: false,
                    ..
                },
                _,
            ) => match self.tables.get_mut(&id) {
                Some(table) => table.removals = table.removals.saturating_sub(1),
                // Dropped meanwhile: its folder may be empty only now.
                None => self.remove(id, &layout, table_folder, ObsoleteFiles::Unlisted(Vec::new())),
            },
            (Work::Removal { .. }, JobOutcome::Listed(removal)) => self.schedule.remove(Obsolete {
                layout,
                folder: table_folder,
                files: ObsoleteFiles::Listed(removal),
                is_table_dropped: true,
                has_failed: false,
            }),
            (Work::Truncation(_), JobOutcome::Truncated(unfinished)) if is_current => {
                self.truncation_ended(id, Ok(unfinished));
            }
            (_, JobOutcome::Truncated(Some(removal))) | (_, JobOutcome::Listed(removal)) => {
                self.remove(id, &layout, table_folder, ObsoleteFiles::Listed(removal));
            }
            (Work::Flush(memtable), JobOutcome::Flushed(sstable)) if is_current => {
                self.flushed(id, &memtable, sstable);
            }
            (
                Work::Compaction(compaction),
                JobOutcome::Compacted {
                    outputs,
                    removal,
                    partitions,
                },
            ) if is_current => {
                self.compacted(id, progress, &compaction, outputs, partitions);
                self.remove(id, &layout, table_folder, ObsoleteFiles::Listed(removal));
            }
            (Work::IndexBuild(build), JobOutcome::Indexed(terms)) if is_current => {
                self.indexed(id, &build, terms, &layout);
            }
            // The table was dropped or truncated meanwhile; what went into the job went with that.
            (_, JobOutcome::Flushed(made)) => {
                self.remove(id, &layout, table_folder, unlisted(made.as_slice()));
            }
            (_, JobOutcome::Compacted { outputs, removal, .. }) => {
                self.remove(id, &layout, table_folder.clone(), unlisted(&outputs));
                self.remove(id, &layout, table_folder, ObsoleteFiles::Listed(removal));
            }
            (_, JobOutcome::Indexed(terms)) => {
                let files = terms.iter().map(|(_, file)| file.path().to_path_buf());
                self.remove_terms(id, &layout, table_folder, files.collect());
            }
            // Dropped meanwhile: its folder may be empty only now.
            (_, JobOutcome::Truncated(None)) => {
                self.remove(id, &layout, table_folder, ObsoleteFiles::Unlisted(Vec::new()));
            }
            (_, JobOutcome::Nothing) => {}
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
        let now_ns = self
            .disk
            .as_ref()
            .map_or(0, |disk| disk.folder.clock().monotonic_ns());
        if let Some(table) = self.tables.get_mut(&progress.table_id) {
            table.jobs.retain(|job| !Arc::ptr_eq(job, progress));
            match work {
                Work::Flush(_) => table.is_flushing = false,
                Work::Compaction(compaction) => table.compacting.retain(|generation| {
                    !compaction
                        .replaced()
                        .any(|input| input.descriptor() == *generation)
                }),
                Work::IndexBuild(build) => {
                    let built = build.sstable.descriptor();
                    table.compacting.retain(|generation| *generation != built);
                    if outcome
                        .as_ref()
                        .is_err_and(|error| !matches!(error, JobError::Stopped))
                    {
                        table.indexes.note_failed(built, now_ns);
                    }
                }
                Work::Release(_) | Work::Removal { .. } | Work::Truncation(_) => {}
            }
            if let (Work::Compaction(compaction), Err(error)) = (work, outcome) {
                suspect = table.suspect_of(compaction, error);
            }
            if let (Work::Compaction(_), Err(JobError::Removal(error))) = (work, outcome)
                && let RemovalError::Undecided { successors, .. } = error
            {
                table.is_undecided = true;
                table.undecided.extend(successors);
                for request in table.requested.drain(..) {
                    self.schedule.request_failed(request.ticket, error.to_string());
                }
            }
        }
        if matches!(work, Work::IndexBuild(_)) {
            self.schedule.index_builds -= 1;
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

    /// Has what a removal that was decided could not remove yet removed, again and again.
    pub(in crate::store) fn finish_later(
        &mut self,
        id: TableId,
        layout: &Arc<TableLayout>,
        folder: PathBuf,
        removal: Removal,
    ) {
        self.remove(id, layout, folder, ObsoleteFiles::Listed(removal));
    }

    /// Has files of indexes removed.
    pub(in crate::store) fn remove_terms(
        &mut self,
        id: TableId,
        layout: &Arc<TableLayout>,
        folder: PathBuf,
        files: Vec<PathBuf>,
    ) {
        self.remove(id, layout, folder, ObsoleteFiles::Terms(files));
    }

    /// Terms of an SSTable were made. Those of indexes that were dropped meanwhile go again.
    fn indexed(&mut self, id: TableId, build: &IndexBuild, terms: BuiltTerms, layout: &Arc<TableLayout>) {
        let Some(table) = self.tables.get_mut(&id) else {
            return;
        };
        let descriptor = build.sstable.descriptor();
        let is_there = table
            .sstables
            .iter()
            .any(|sstable| Arc::ptr_eq(sstable, &build.sstable));
        let columns = table.indexes.columns();
        let is_kept = |index| is_there && columns.iter().any(|column| column.index == index);
        let (kept, gone): (BuiltTerms, BuiltTerms) =
            terms.into_iter().partition(|(index, _)| is_kept(*index));
        table.indexes.add(descriptor, kept);
        let folder = table.folder.clone();
        if !gone.is_empty() {
            let files = gone.iter().map(|(_, file)| file.path().to_path_buf());
            self.remove_terms(id, layout, folder, files.collect());
        }
    }

    /// A memtable has become an SSTable (or nothing, if all of it was hidden by its own deletions).
    fn flushed(&mut self, id: TableId, memtable: &Arc<Memtable>, made: Option<Made>) {
        let Some((disk, table)) = self.disk.as_ref().zip(self.tables.get_mut(&id)) else {
            return;
        };
        let (now_s, ring_parts) = (disk.folder.clock().wall_s(), disk.folder.shard_count());
        if let Some(made) = &made {
            table.note_flush(made.sstable.disk_bytes());
        }
        table.sstables_made(made, now_s);
        table.count_waiting(now_s, ring_parts);
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
        outputs: Vec<Made>,
        partitions: PartitionsBySources,
    ) {
        let Some((disk, table)) = self.disk.as_ref().zip(self.tables.get_mut(&id)) else {
            return;
        };
        let clock = disk.folder.clock();
        let mut record = CompactionRecord::of_job(progress, clock.wall_us());
        let bytes = |sstable: &Arc<SsTable>| sstable.disk_bytes();
        if !compaction.is_relabelling {
            record.bytes_in = compaction.inputs.iter().map(bytes).sum();
            record.bytes_out = outputs.iter().map(|output| bytes(&output.sstable)).sum();
        }
        if compaction.inputs.len() > 1 {
            let outputs = outputs.iter().map(|output| &output.sstable);
            table.merge_yield.note(&compaction.inputs, outputs);
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
                .extend(outputs.iter().map(|output| output.sstable.descriptor()));
        }
        table.sstables_made(outputs, clock.wall_s());
        table.count_waiting(clock.wall_s(), disk.folder.shard_count());
    }
}

fn unlisted(made: &[Made]) -> ObsoleteFiles {
    ObsoleteFiles::Unlisted(made.iter().map(|made| made.sstable.descriptor()).collect())
}
