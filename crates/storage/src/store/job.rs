//! Background work as data: flushes, compactions, removals.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use helenus_schema::TableId;

use super::DataFolder;
use crate::clustering::Slice;
use crate::compaction::{PurgeRule, Removal, RemovalError, RewriteError, Rewritten, rewrite_partition};
use crate::error::ReadError;
use crate::layout::TableLayout;
use crate::memtable::{Memtable, MemtableCursor};
use crate::merge::MergedScanner;
use crate::read::PartitionRange;
use crate::row::purge::Purge;
use crate::source::PartitionScanner;
use crate::sstable::{
    self, Descriptor, EncodingStatsCollector, PageCache, SsTable, SsTableWriter, WriteError, WriterOptions,
};

/// Chunks that a compaction keeps: a few per input are enough, since it reads each once and in order.
const COMPACTION_CACHE_BYTES: usize = 4 << 20;
/// A job looks at its stop flag and its allowance after this many partitions.
const PARTITIONS_PER_CHECK: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    Flush,
    Compaction,
    /// Frees memory.
    Release,
    /// Frees disk space.
    Removal,
}

/// What a job is about, how far it is, and the means to stop it.
#[derive(Debug)]
pub struct JobProgress {
    pub kind: JobKind,
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub table_id: TableId,
    /// In bytes: of the memtable for a flush, of the input files for a compaction.
    pub bytes_total: u64,
    bytes_done: AtomicU64,
    stop: AtomicBool,
}

/// Work on immutable data that any thread may run; its result goes back to the shard that it came from.
#[derive(Debug)]
pub struct BackgroundJob {
    pub(super) folder: Arc<DataFolder>,
    pub(super) progress: Arc<JobProgress>,
    pub(super) layout: Arc<TableLayout>,
    pub(super) table_folder: PathBuf,
    /// The table's truncation count when the job was made.
    pub(super) epoch: u64,
    /// Bytes of output; 0 is unlimited.
    pub(super) bytes_per_s_max: u64,
    pub(super) work: Work,
}

#[derive(Debug)]
pub(super) enum Work {
    Flush(Arc<Memtable>),
    Compaction(Compaction),
    Release(Option<Arc<Memtable>>),
    Removal {
        sstables: Vec<Descriptor>,
        is_table_dropped: bool,
    },
}

#[derive(Debug)]
pub(super) struct Compaction {
    pub inputs: Vec<Arc<SsTable>>,
    /// The table's other SSTables: what they may hold limits what is purged.
    pub others: Vec<Arc<SsTable>>,
    /// The smallest timestamp in the table's memtables.
    pub memtable_min_timestamp_us: i64,
}

/// To be handed to [`ShardStore::complete`](super::ShardStore::complete).
#[derive(Debug)]
pub struct JobResult {
    pub(super) progress: Arc<JobProgress>,
    pub(super) epoch: u64,
    pub(super) layout: Arc<TableLayout>,
    pub(super) table_folder: PathBuf,
    pub(super) work: Work,
    pub(super) outcome: Result<Option<Arc<SsTable>>, JobError>,
}

/// How a job ended; for the log and the metrics.
#[derive(Debug)]
pub struct JobReport {
    pub progress: Arc<JobProgress>,
    pub result: Result<(), JobError>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    #[error(transparent)]
    Open(#[from] sstable::OpenError),
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

impl From<WriteError> for JobError {
    fn from(error: WriteError) -> Self {
        JobError::Rewrite(error.into())
    }
}

impl JobProgress {
    pub(super) fn new(kind: JobKind, layout: &TableLayout, bytes_total: u64) -> Arc<Self> {
        Arc::new(JobProgress {
            kind,
            keyspace: Arc::clone(&layout.metadata.keyspace),
            table: Arc::clone(&layout.metadata.name),
            table_id: layout.metadata.id,
            bytes_total,
            bytes_done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        })
    }

    pub fn bytes_done(&self) -> u64 {
        self.bytes_done.load(Ordering::Relaxed).min(self.bytes_total)
    }

    /// The job ends at its next check, as if it had not begun.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl BackgroundJob {
    pub fn progress(&self) -> &Arc<JobProgress> {
        &self.progress
    }

    /// Does the work; blocks on the disk.
    pub fn run(mut self) -> JobResult {
        if let Work::Release(memtable) = &mut self.work {
            drop(memtable.take());
        }
        // Unwind safe: a job reads immutable inputs, and what it writes is garbage until its TOC is there. A bug that
        // panics here must not keep the shard waiting for a result.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.do_work())).unwrap_or(Err(JobError::Panicked));
        let BackgroundJob {
            progress,
            epoch,
            layout,
            table_folder,
            work,
            ..
        } = self;
        JobResult {
            progress,
            epoch,
            layout,
            table_folder,
            work,
            outcome,
        }
    }

    fn do_work(&self) -> Result<Option<Arc<SsTable>>, JobError> {
        match &self.work {
            Work::Release(_) => Ok(None),
            Work::Flush(memtable) => self.flush(memtable),
            Work::Compaction(compaction) => self.compact(compaction),
            Work::Removal {
                sstables,
                is_table_dropped,
            } => self.remove(sstables, *is_table_dropped).map(|()| None),
        }
    }

    fn flush(&self, memtable: &Memtable) -> Result<Option<Arc<SsTable>>, JobError> {
        let everything = PartitionRange::everything();
        let mut stats = EncodingStatsCollector::default();
        memtable
            .partitions(&everything)
            .for_each(|(_, partition)| partition.collect_stats(&mut stats));
        let options = WriterOptions {
            partition_count_estimate: memtable.partition_count() as u64,
            encoding_stats: stats.finish(),
            ..WriterOptions::of(&self.layout.metadata)
        };
        let slices = [Slice::all()];
        let mut output = JobOutput::create(self, options)?;
        for (token, partition) in memtable.partitions(&everything) {
            let mut cursor = MemtableCursor::new(partition, &self.layout.comparator, &slices, false);
            let writer = &mut output.writer;
            let scratch = &mut output.scratch;
            let rule = PurgeRule::KeepAll;
            if let Err(error) = rewrite_partition(
                &self.layout,
                token,
                partition.key(),
                &mut cursor,
                rule,
                writer,
                scratch,
            ) {
                return output.abandon(error.into());
            }
            if let Err(error) = output.check() {
                return output.abandon(error);
            }
        }
        output.finish()
    }

    fn compact(&self, compaction: &Compaction) -> Result<Option<Arc<SsTable>>, JobError> {
        let cache = PageCache::new(COMPACTION_CACHE_BYTES);
        let slices = [Slice::all()];
        let (start, end) = PartitionRange::everything().bounds();
        let mut stats = EncodingStatsCollector::default();
        let mut scanners: Vec<Box<dyn PartitionScanner + '_>> = Vec::with_capacity(compaction.inputs.len());
        for input in &compaction.inputs {
            stats.merge(input.encoding_stats());
            scanners.push(Box::new(input.scan(&cache, start, end, &slices, false)));
        }
        let options = WriterOptions {
            partition_count_estimate: compaction
                .inputs
                .iter()
                .map(|input| input.statistics().partition_count())
                .sum(),
            encoding_stats: stats.finish(),
            ..WriterOptions::of(&self.layout.metadata)
        };
        let mut output = JobOutput::create(self, options)?;
        let mut scanner = MergedScanner::new(&self.layout, false, scanners);
        match self.copy_all(compaction, &mut scanner, &mut output) {
            Ok(()) => output.finish(),
            Err(error) => output.abandon(error),
        }
    }

    fn copy_all(
        &self,
        compaction: &Compaction,
        scanner: &mut MergedScanner<'_>,
        output: &mut JobOutput<'_>,
    ) -> Result<(), JobError> {
        let now_s = self.folder.clock().wall_s();
        let gc_before_s = now_s.saturating_sub(self.layout.metadata.params.gc_grace_seconds);
        let mut key = Vec::new();
        while scanner.advance()? {
            let (token, position_key) = scanner.position();
            key.clear();
            key.extend_from_slice(position_key);
            let others = compaction
                .others
                .iter()
                .filter(|other| other.may_contain(token, &key));
            let max_purgeable_timestamp_us = others
                .map(|other| other.statistics().timestamp_us_min)
                .fold(compaction.memtable_min_timestamp_us, i64::min);
            let rule = PurgeRule::Purge(Purge {
                now_s,
                gc_before_s,
                max_purgeable_timestamp_us,
            });
            let mut cursor = scanner.open()?;
            let JobOutput { writer, scratch, .. } = &mut *output;
            rewrite_partition(&self.layout, token, &key, &mut *cursor, rule, writer, scratch)?;
            drop(cursor);
            output.check()?;
        }
        Ok(())
    }

    fn remove(&self, sstables: &[Descriptor], is_table_dropped: bool) -> Result<(), JobError> {
        let disk = &**self.folder.disk();
        if !sstables.is_empty() {
            Removal::commit(disk, &self.table_folder, sstables)?.finish(disk)?;
        }
        if is_table_dropped {
            // Fails while other shards have files in it; the last one succeeds.
            let _ = disk.remove_directory(&self.table_folder);
        }
        Ok(())
    }
}

/// The SSTable that a job writes.
struct JobOutput<'a> {
    job: &'a BackgroundJob,
    writer: SsTableWriter,
    scratch: Rewritten,
    started_ns: u64,
    partitions_to_check: u64,
}

impl<'a> JobOutput<'a> {
    fn create(job: &'a BackgroundJob, options: WriterOptions) -> Result<Self, JobError> {
        let folder = &job.folder;
        let id = folder.new_sstable_id();
        let disk = Arc::clone(folder.disk());
        // The first SSTable of a table makes its folder.
        folder
            .create_table_folder(&job.layout.metadata)
            .map_err(|source| {
                JobError::Rewrite(
                    WriteError::Io {
                        file: job.table_folder.clone(),
                        source,
                    }
                    .into(),
                )
            })?;
        let writer = SsTableWriter::new(disk, &job.table_folder, id, &job.layout.metadata, options)?;
        Ok(JobOutput {
            job,
            writer,
            scratch: Rewritten::default(),
            started_ns: folder.clock().monotonic_ns(),
            partitions_to_check: PARTITIONS_PER_CHECK,
        })
    }

    /// Every now and then: whether to stop, and whether the allowance asks for a pause.
    fn check(&mut self) -> Result<(), JobError> {
        self.partitions_to_check -= 1;
        if self.partitions_to_check > 0 {
            return Ok(());
        }
        self.partitions_to_check = PARTITIONS_PER_CHECK;
        let progress = &self.job.progress;
        if progress.stop.load(Ordering::Relaxed) {
            return Err(JobError::Stopped);
        }
        let bytes = self.writer.data_bytes();
        progress.bytes_done.store(bytes, Ordering::Relaxed);
        if self.job.bytes_per_s_max > 0 {
            let due_ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.job.bytes_per_s_max);
            let spent_ns = self
                .job
                .folder
                .clock()
                .monotonic_ns()
                .saturating_sub(self.started_ns);
            let ahead_ns = due_ns.saturating_sub(u128::from(spent_ns));
            // At most a second at once, so that a stop is heard.
            std::thread::sleep(Duration::from_nanos(ahead_ns.min(1_000_000_000) as u64));
        }
        Ok(())
    }

    /// `None` if nothing was left to write.
    fn finish(self) -> Result<Option<Arc<SsTable>>, JobError> {
        let JobOutput { job, writer, .. } = self;
        if writer.partition_count() == 0 {
            writer.abandon()?;
            return Ok(None);
        }
        let descriptor = writer.descriptor();
        writer.finish()?;
        job.progress
            .bytes_done
            .store(job.progress.bytes_total, Ordering::Relaxed);
        let disk = &**job.folder.disk();
        Ok(Some(SsTable::open(
            disk,
            &job.table_folder,
            descriptor,
            &job.layout.metadata,
        )?))
    }

    /// Removes what was written; what cannot be removed now has no TOC and goes at the next start.
    fn abandon(self, error: JobError) -> Result<Option<Arc<SsTable>>, JobError> {
        let _ = self.writer.abandon();
        Err(error)
    }
}
