//! Background work as data: flushes, compactions, removals.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use helenus_events::{Event, Events};
use helenus_schema::{SsTableFormat, TableId};

use super::DataFolder;
use super::compact::Compaction;
use super::compaction_history::PartitionsBySources;
use super::output::{JobOutput, discard};
use crate::compaction::{
    CompactionLimits, CompactorPermit, OutputShape, Pace, PurgeRule, Removal, RemovalError, RewriteError,
    Stopped,
};
use crate::index::{BuiltTerms, IndexBuild};
use crate::memtable::{Memtable, MemtableCursor};
use helenus_rows::clustering::Slice;
use helenus_rows::guardrails::PartitionGuardrails;
use helenus_rows::layout::TableLayout;
use helenus_rows::partition_range::PartitionRange;
use helenus_sstable::error::ReadError;
use helenus_sstable::{Descriptor, SealError, SsTable, WriteError, WriterOptions, remove_if_there};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    Flush,
    /// Compaction that the strategy wanted.
    Compaction,
    /// One SSTable alone, for its tombstones.
    TombstoneCompaction,
    MajorCompaction,
    /// For what belongs to other shards.
    Cleanup,
    /// Frees memory.
    Release,
    /// Frees disk space.
    Removal,
    /// Makes what an SSTable lacks of secondary indexes.
    IndexBuild,
}

/// Subject and progress of a job, and the means to stop it.
#[derive(Debug)]
pub struct JobProgress {
    /// Tells the jobs of a process apart.
    pub number: u64,
    pub kind: JobKind,
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub table_id: TableId,
    /// Where its SSTables go.
    pub directory: PathBuf,
    /// SSTables that go in.
    pub sstables: usize,
    /// In bytes: of the memtable for a flush, of the input's data for a compaction.
    pub bytes_total: u64,
    /// Microseconds since the Unix epoch.
    pub started_at_us: i64,
    bytes_done: AtomicU64,
    stop: AtomicBool,
}

/// The number of the next job.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// Work on immutable data that any thread may run; its result goes back to the shard that it came from.
#[derive(Debug)]
pub struct BackgroundJob {
    pub(super) folder: Arc<DataFolder>,
    pub(super) progress: Arc<JobProgress>,
    pub(super) layout: Arc<TableLayout>,
    pub(super) table_folder: PathBuf,
    /// The table's truncation count when the job was made.
    pub(super) epoch: u64,
    /// Granularity of the index inside a partition of what is written.
    pub(super) column_index_bytes: u32,
    pub(super) sstable_format: SsTableFormat,
    pub(super) partition_guardrails: PartitionGuardrails,
    /// Pace and limits of a compaction; `None` for what nothing may hold up.
    pub(super) pace: Option<(Arc<Pace>, Arc<CompactionLimits>)>,
    /// Permit of a compaction, given back when it has ended.
    pub(super) permit: Option<CompactorPermit>,
    pub(super) work: Work,
}

#[derive(Debug)]
pub(super) enum Work {
    Flush(Arc<Memtable>),
    Compaction(Compaction),
    Release(Option<Arc<Memtable>>),
    IndexBuild(IndexBuild),
    Removal {
        files: ObsoleteFiles,
        is_table_dropped: bool,
        /// It was tried before.
        has_failed: bool,
    },
    /// Removes all SSTables of a table that stays.
    Truncation(Vec<Descriptor>),
}

/// SSTables that nothing reads any more.
#[derive(Debug)]
pub(super) enum ObsoleteFiles {
    /// A crash brings them back.
    Unlisted(Vec<Descriptor>),
    /// A crash does not.
    Listed(Removal),
    /// Files of indexes; a start removes them, too.
    Terms(Vec<PathBuf>),
}

impl ObsoleteFiles {
    pub fn is_unlisted(&self) -> bool {
        matches!(self, ObsoleteFiles::Unlisted(sstables) if !sstables.is_empty())
    }
}

/// An SSTable that a job has made, with its files of indexes.
#[derive(Debug)]
pub(super) struct Made {
    pub sstable: Arc<SsTable>,
    pub terms: BuiltTerms,
}

/// Output of a job.
#[derive(Debug)]
pub(super) enum JobOutcome {
    Nothing,
    /// `None` if all of it was hidden by its own deletions.
    Flushed(Option<Made>),
    Indexed(BuiltTerms),
    /// A crash does not bring back what a dropped table has left.
    Listed(Removal),
    /// A crash does not bring the SSTables back. What could not be removed yet.
    Truncated(Option<Removal>),
    /// The outputs have taken the place of the inputs on the disk.
    Compacted {
        outputs: Vec<Made>,
        removal: Removal,
        partitions: PartitionsBySources,
    },
}

/// To be handed to [`ShardStore::complete`](super::ShardStore::complete).
#[derive(Debug)]
pub struct JobResult {
    pub(super) progress: Arc<JobProgress>,
    pub(super) epoch: u64,
    pub(super) layout: Arc<TableLayout>,
    pub(super) table_folder: PathBuf,
    pub(super) work: Work,
    pub(super) outcome: Result<JobOutcome, JobError>,
}

/// How a job ended; for the log and the metrics.
#[derive(Debug)]
pub struct JobReport {
    pub progress: Arc<JobProgress>,
    pub result: Result<(), JobError>,
    /// False for a failure that was told before, and not long ago.
    pub is_news: bool,
    /// The input that it failed for; compactions leave it out until a restart.
    pub suspect: Option<Descriptor>,
}

impl JobReport {
    /// Tells of a failure, unless it was told not long ago. What was stopped has not failed.
    pub fn tell(&self, shard: u16, events: &Events) {
        let error = match &self.result {
            Err(error) if self.is_news && !matches!(error, JobError::Stopped) => error,
            _ => return,
        };
        let JobProgress {
            kind,
            keyspace,
            table,
            ..
        } = &*self.progress;
        events.event(&match kind {
            JobKind::Flush => Event::NotFlushed {
                shard,
                keyspace,
                table,
                error,
            },
            kind => Event::JobFailed {
                shard,
                job: kind.operation_type(),
                keyspace,
                table,
                error,
            },
        });
        if let Some(suspect) = &self.suspect {
            events.event(&Event::SsTableDamaged {
                shard,
                keyspace,
                table,
                sstable: suspect,
            });
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    #[error(transparent)]
    Rewrite(RewriteError),
    #[error(transparent)]
    Open(#[from] helenus_sstable::OpenError),
    #[error(transparent)]
    Removal(#[from] RemovalError),
    #[error("stopped")]
    Stopped,
    /// A bug; the job is tried again later.
    #[error("the work panicked")]
    Panicked,
}

impl From<ReadError> for JobError {
    fn from(error: ReadError) -> Self {
        JobError::Rewrite(error.into())
    }
}

impl From<Stopped> for JobError {
    fn from(_: Stopped) -> Self {
        JobError::Stopped
    }
}

impl From<RewriteError> for JobError {
    fn from(error: RewriteError) -> Self {
        match error {
            RewriteError::Stopped(stopped) => stopped.into(),
            error => JobError::Rewrite(error),
        }
    }
}

impl From<SealError> for JobError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Open(helenus_sstable::OpenError::Read(error)) => error.into(),
            SealError::Open(error) => JobError::Open(error),
            SealError::Write(error) => error.into(),
        }
    }
}

impl From<WriteError> for JobError {
    fn from(error: WriteError) -> Self {
        JobError::Rewrite(error.into())
    }
}

impl JobProgress {
    pub(super) fn new(
        kind: JobKind,
        layout: &TableLayout,
        directory: &Path,
        sstables: usize,
        bytes_total: u64,
        started_at_us: i64,
    ) -> Arc<Self> {
        Arc::new(JobProgress {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            kind,
            keyspace: Arc::clone(&layout.metadata.keyspace),
            table: Arc::clone(&layout.metadata.name),
            table_id: layout.metadata.id,
            directory: directory.to_path_buf(),
            sstables,
            bytes_total,
            started_at_us,
            bytes_done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        })
    }

    /// Returns the bytes done of the merged data; what merges away is counted when the job ends.
    pub fn bytes_done(&self) -> u64 {
        self.bytes_done.load(Ordering::Relaxed).min(self.bytes_total)
    }

    /// The job ends at its next check, as if it had not begun.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn advance(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn finish(&self) {
        self.bytes_done.store(self.bytes_total, Ordering::Relaxed);
    }

    pub(super) fn check(&self) -> Result<(), Stopped> {
        if self.stop.load(Ordering::Relaxed) {
            Err(Stopped)
        } else {
            Ok(())
        }
    }
}

impl BackgroundJob {
    pub fn progress(&self) -> &Arc<JobProgress> {
        &self.progress
    }

    /// The version to write: the table's, or else the node's.
    pub(super) fn format(&self) -> SsTableFormat {
        let params = &self.layout.metadata.params;
        params.sstable_format.unwrap_or(self.sstable_format)
    }

    /// Returns whether the job may take long, and waits for nothing.
    pub fn is_compaction(&self) -> bool {
        matches!(self.work, Work::Compaction(_) | Work::IndexBuild(_))
    }

    /// Does the work; blocks on the disk.
    pub fn run(mut self) -> JobResult {
        if let Work::Release(memtable) = &mut self.work {
            drop(memtable.take());
        }
        // Unwind safe: a job reads immutable inputs, and what it writes is garbage until its TOC is there. A bug that
        // panics here must not keep the shard waiting for a result.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.do_work())).unwrap_or(Err(JobError::Panicked));
        let outcome = outcome.map_err(|error| self.stopped_or(error));
        let BackgroundJob {
            progress,
            epoch,
            layout,
            table_folder,
            work,
            permit,
            ..
        } = self;
        drop(permit);
        JobResult {
            progress,
            epoch,
            layout,
            table_folder,
            work,
            outcome,
        }
    }

    fn do_work(&self) -> Result<JobOutcome, JobError> {
        match &self.work {
            Work::Release(_) => Ok(JobOutcome::Nothing),
            Work::Flush(memtable) => self.flush(memtable).map(JobOutcome::Flushed),
            Work::Compaction(compaction) => self.compact(compaction),
            Work::IndexBuild(build) => self.build_terms(build).map(JobOutcome::Indexed),
            Work::Removal {
                files: ObsoleteFiles::Unlisted(sstables),
                is_table_dropped: true,
                ..
            } if !sstables.is_empty() => {
                let disk = &**self.folder.disk();
                match Removal::commit(disk, &self.table_folder, sstables) {
                    Ok(removal) => Ok(JobOutcome::Listed(removal)),
                    // A compaction that ended meanwhile had them on its own list, and the folder went with the last file.
                    Err(_) if disk.exists(&self.table_folder).is_ok_and(|exists| !exists) => {
                        Ok(JobOutcome::Nothing)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Work::Removal {
                files,
                is_table_dropped,
                ..
            } => self
                .remove(files, *is_table_dropped)
                .map(|()| JobOutcome::Nothing),
            Work::Truncation(sstables) => {
                let disk = &**self.folder.disk();
                let removal = Removal::commit(disk, &self.table_folder, sstables)?;
                let finished = removal.finish(disk);
                Ok(JobOutcome::Truncated(finished.err().map(|_| removal)))
            }
        }
    }

    fn flush(&self, memtable: &Memtable) -> Result<Option<Made>, JobError> {
        let everything = PartitionRange::everything();
        let options = WriterOptions {
            partition_count_estimate: memtable.partition_count() as u64,
            encoding_stats: memtable.encoding_stats(),
            ..WriterOptions::of(&self.layout.metadata)
        };
        let slices = [Slice::all()];
        let held = self.layout.absent_columns();
        let held = held.filter(|dropped| memtable.holds(dropped.id, dropped.dropped_at_us));
        let table = self.layout.with_columns(held);
        let mut output = JobOutput::new(self, OutputShape::WHOLE, options, table)?;
        for (token, partition) in memtable.partitions(&everything) {
            let mut cursor = MemtableCursor::new(partition, &self.layout.comparator, &slices, false);
            if let Err(error) = output.partition(token, partition.key(), &mut cursor, PurgeRule::KeepAll) {
                return output.abandon(error);
            }
        }
        let flushed = output.finish(Some(memtable.indexes()))?.pop();
        if let Some(made) = &flushed {
            self.publish(&made.sstable)?;
        }
        self.progress.finish();
        Ok(flushed)
    }

    fn publish(&self, sstable: &SsTable) -> Result<(), JobError> {
        let disk = &**self.folder.disk();
        let published = helenus_sstable::publish_sstable(disk, &self.table_folder, sstable.descriptor())
            .and_then(|()| disk.sync_directory(&self.table_folder));
        published.map_err(|source| {
            // The memtable is flushed again; if this one shows up after a crash all the same, both say the same.
            discard(disk, &self.table_folder, &[sstable.descriptor()]);
            WriteError::Io {
                file: self.table_folder.clone(),
                source,
            }
            .into()
        })
    }

    /// The folder of a dropped table may go before its job looks whether it was stopped, and finds that out by an error.
    fn stopped_or(&self, error: JobError) -> JobError {
        let disk = &**self.folder.disk();
        let is_gone = || disk.exists(&self.table_folder).is_ok_and(|exists| !exists);
        match error {
            JobError::Panicked => error,
            _ if self.progress.check().is_err() && is_gone() => JobError::Stopped,
            _ => error,
        }
    }

    fn remove(&self, files: &ObsoleteFiles, is_table_dropped: bool) -> Result<(), JobError> {
        let disk = &**self.folder.disk();
        match files {
            ObsoleteFiles::Unlisted(sstables) if sstables.is_empty() => {}
            ObsoleteFiles::Unlisted(sstables) => {
                Removal::commit(disk, &self.table_folder, sstables)?.finish(disk)?;
            }
            ObsoleteFiles::Listed(removal) => removal.finish(disk)?,
            ObsoleteFiles::Terms(files) => {
                for file in files {
                    remove_if_there(disk, file).map_err(|source| {
                        let file = file.clone();
                        RemovalError::Io { file, source }
                    })?;
                }
            }
        }
        if is_table_dropped {
            // Fails while other shards have files in it; the last one succeeds.
            let _ = disk.remove_directory(&self.table_folder);
        }
        Ok(())
    }
}
