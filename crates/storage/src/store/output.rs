//! The SSTables that a job writes: one after the other, cut where a strategy wants them cut.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use helenus_events::Event;
use helenus_index::IndexedColumn;
use helenus_scheduling::StandingBack;
use helenus_schema::TableMetadata;
use helenus_types::Token;
use helenus_vfs::{Clock, Disk};

use super::indexing::columns_of;
use super::job::{BackgroundJob, JobError, JobProgress, Made};
use crate::compaction::{
    CompactionLimits, OutputShape, Pace, PurgeRule, RewriteError, RewriteTarget, Rewritten, RowGuard,
    Splitter, Stopped, Watch, WrittenRows, rewrite_partition,
};
use crate::index::{
    BuildError, BuiltTerms, IndexBuild, MemtableIndexes, TermsWriter, build_terms, write_memtable_terms,
};
use helenus_rows::row::RowRef;
use helenus_sstable::source::PartitionCursor;
use helenus_sstable::terms::{TermFile, remove_term_files};
use helenus_sstable::{
    Component, Descriptor, SidecarFault, SsTable, SsTableWriter, WriteError, WriterOptions, remove_sstable,
};

/// A job looks at its stop flag at least this often, also where it writes nothing.
const PARTITIONS_PER_LOOK: u32 = 64;

pub(super) struct JobOutput<'a> {
    job: &'a BackgroundJob,
    options: WriterOptions,
    /// Table that the SSTables are of, with columns that it has no more where cells of them are kept.
    table: Arc<TableMetadata>,
    splitter: Splitter,
    current: Option<SsTableWriter>,
    /// Indexes whose terms are made of the rows as they are written: those of a compaction.
    indexed: Vec<Arc<IndexedColumn>>,
    /// Terms of the rows that the current SSTable has so far.
    terms: Option<OutputTerms>,
    sealed: Vec<Descriptor>,
    /// Sealed ones that are open, with their terms.
    made: Vec<Made>,
    scratch: Rewritten,
    partitions_to_look: u32,
}

/// Keeps a job's progress, and paces it.
#[derive(Debug)]
struct Meter {
    progress: Arc<JobProgress>,
    clock: Arc<dyn Clock>,
    /// `None` for a flush, which nothing may hold up.
    pace: Option<(Arc<Pace>, Arc<CompactionLimits>)>,
    standing_back: Option<StandingBack>,
    resumed_ns: u64,
}

impl Meter {
    fn of(job: &BackgroundJob) -> Self {
        let clock = Arc::clone(job.folder.clock());
        Meter {
            progress: Arc::clone(&job.progress),
            resumed_ns: clock.monotonic_ns(),
            clock,
            standing_back: job.pace.as_ref().and_then(|_| StandingBack::begin()),
            pace: job.pace.clone(),
        }
    }
}

impl Watch for Meter {
    fn look(&mut self, bytes: u64) -> Result<(), Stopped> {
        self.progress.advance(bytes);
        let Some((pace, limits)) = &self.pace else {
            return self.progress.check();
        };
        if let Some(standing_back) = &mut self.standing_back {
            standing_back.look(pace.urgency());
        }
        let now_ns = self.clock.monotonic_ns();
        let worked = Duration::from_nanos(now_ns.saturating_sub(self.resumed_ns));
        let mut wait = pace.rest(worked).max(limits.throughput.spend(bytes, now_ns));
        while !wait.is_zero() {
            self.progress.check()?;
            // In pieces, so that a stop is heard.
            let slice = wait.min(Duration::from_millis(100));
            std::thread::sleep(slice);
            wait -= slice;
        }
        self.resumed_ns = self.clock.monotonic_ns();
        self.progress.check()
    }
}

impl<'a> JobOutput<'a> {
    pub fn new(
        job: &'a BackgroundJob,
        shape: OutputShape,
        options: WriterOptions,
        table: Arc<TableMetadata>,
    ) -> Result<Self, JobError> {
        // The first SSTable of a table makes its folder.
        job.folder
            .create_table_folder(&job.layout.metadata)
            .map_err(|source| WriteError::Io {
                file: job.table_folder.clone(),
                source,
            })?;
        let now_s = job.folder.clock().wall_s();
        let mut scratch = Rewritten::watched_by(Box::new(Meter::of(job)));
        let guardrails = job.partition_guardrails;
        if guardrails.are_on_rows_of(&table) {
            scratch = scratch.guarded_by(RowGuard {
                events: job.folder.events().clone(),
                guardrails,
                table: Arc::clone(&table),
                now_s,
            });
        }
        Ok(JobOutput {
            job,
            options: WriterOptions {
                level: shape.level,
                column_index_bytes: job.column_index_bytes,
                format: job.format(),
                ..options
            },
            table,
            splitter: Splitter::new(shape.split),
            current: None,
            indexed: Vec::new(),
            terms: None,
            sealed: Vec::new(),
            made: Vec::new(),
            scratch,
            partitions_to_look: PARTITIONS_PER_LOOK,
        })
    }

    /// Makes terms of the rows as they are written. Without, they are made of what a memtable has, or of what is read again.
    pub fn with_terms(mut self) -> Self {
        self.indexed = columns_of(&self.job.layout.metadata);
        self
    }

    /// Copies what the rule leaves of a partition.
    pub fn partition(
        &mut self,
        token: Token,
        key: &[u8],
        cursor: &mut dyn PartitionCursor,
        rule: PurgeRule,
    ) -> Result<(), JobError> {
        let disk_bytes = self.current.as_ref().map_or(0, SsTableWriter::disk_bytes);
        if self.splitter.is_next(token, disk_bytes) {
            self.seal()?;
        }
        if self.current.is_none() {
            let writer = self.begin()?;
            let place = (&*self.job.table_folder, writer.descriptor());
            let disk = self.job.folder.disk();
            self.terms = (!self.indexed.is_empty())
                .then(|| TermsWriter::begin(disk, &self.job.layout, place, &self.indexed))
                .map(OutputTerms::Written);
            self.current = Some(writer);
            self.scratch.writer_begins();
        }
        // Made above.
        let Some(writer) = &mut self.current else {
            return Ok(());
        };
        let partitions = writer.partition_count();
        rewrite_partition(
            &self.job.layout,
            token,
            key,
            cursor,
            rule,
            RewriteTarget {
                writer,
                observer: self.terms.as_mut().map(|terms| terms as &mut dyn WrittenRows),
            },
            &mut self.scratch,
        )?;
        if writer.partition_count() > partitions {
            let path = || writer.descriptor().path(&self.job.table_folder, Component::Data);
            let table = &self.job.layout.metadata;
            let guardrails = &self.job.partition_guardrails;
            for line in guardrails.check(table, key, path, writer.last_extent()) {
                let event = Event::Guardrail { violation: &line };
                self.job.folder.events().event(&event);
            }
        }
        self.partitions_to_look -= 1;
        if self.partitions_to_look == 0 {
            self.partitions_to_look = PARTITIONS_PER_LOOK;
            self.scratch.look_now(writer).map_err(RewriteError::from)?;
        }
        Ok(())
    }

    fn begin(&self) -> Result<SsTableWriter, JobError> {
        let job = self.job;
        let id = job.folder.new_sstable_id();
        let disk = Arc::clone(job.folder.disk());
        let options = self.options.clone();
        Ok(SsTableWriter::new(
            disk,
            &job.table_folder,
            id,
            &self.table,
            options,
        )?)
    }

    fn seal(&mut self) -> Result<(), JobError> {
        let Some(writer) = self.current.take() else {
            return Ok(());
        };
        let terms = self.terms.take();
        if writer.partition_count() == 0 {
            return Ok(writer.abandon()?);
        }
        // Also where sealing fails there are files to remove.
        self.sealed.push(writer.descriptor());
        let written = writer.seal()?;
        self.job.folder.note_sidecar_faults(&written.sidecar_faults);
        if let Some(terms) = terms {
            let sstable = self.open(&written.descriptor)?;
            let terms = self.job.finish_terms(&sstable, terms);
            self.made.push(Made { sstable, terms });
        }
        Ok(())
    }

    fn open(&self, descriptor: &Descriptor) -> Result<Arc<SsTable>, JobError> {
        let (folder, table) = (&self.job.table_folder, &self.job.layout.metadata);
        let sstable = SsTable::open(&**self.job.folder.disk(), folder, *descriptor, table)?;
        self.job.folder.note_sidecar_faults(sstable.sidecar_faults());
        Ok(sstable)
    }

    /// Ends the last SSTable; all of them are whole then, and garbage after a crash until they are published. `terms` are those of the memtable
    /// that became the one SSTable there is.
    pub fn finish(mut self, terms: Option<&MemtableIndexes>) -> Result<Vec<Made>, JobError> {
        let made = self.seal().and_then(|()| match self.indexed.is_empty() {
            true => {
                let opened = self.sealed.iter().map(|descriptor| self.open(descriptor));
                let opened = opened.collect::<Result<Vec<_>, _>>()?;
                let made = opened
                    .into_iter()
                    .map(|sstable| self.job.with_terms(sstable, terms));
                made.collect()
            }
            false => Ok(std::mem::take(&mut self.made)),
        });
        made.or_else(|error| self.abandon(error))
    }

    /// Removes what was written; what cannot be removed now has no TOC and goes at the next start.
    pub fn abandon<T>(mut self, error: JobError) -> Result<T, JobError> {
        if let Some(OutputTerms::Written(terms)) = self.terms.take() {
            terms.abandon();
        }
        if let Some(writer) = self.current.take() {
            let _ = writer.abandon();
        }
        discard(&**self.job.folder.disk(), &self.job.table_folder, &self.sealed);
        Err(error)
    }
}

/// Terms of an SSTable that is being written.
#[derive(Debug)]
enum OutputTerms {
    Written(TermsWriter),
    /// They are made later.
    Failed(WriteError),
}

impl OutputTerms {
    /// Takes in a part of the rows. Where that fails the SSTable is made without terms.
    fn take_in(&mut self, push: impl FnOnce(&mut TermsWriter) -> Result<(), WriteError>) {
        let OutputTerms::Written(terms) = self else {
            return;
        };
        if let Err(error) = push(terms)
            && let OutputTerms::Written(terms) = std::mem::replace(self, OutputTerms::Failed(error))
        {
            terms.abandon();
        }
    }
}

impl WrittenRows for OutputTerms {
    fn partition(&mut self, token: Token, key: &[u8], static_row: RowRef<'_>) {
        self.take_in(|terms| terms.push_partition(token, key, static_row));
    }

    fn row(&mut self, token: Token, key: &[u8], clustering: &[u8], row: RowRef<'_>) {
        self.take_in(|terms| terms.push_row(token, key, Some(clustering), row));
    }
}

impl BackgroundJob {
    /// Writes the terms of the rows of an SSTable that is not published yet. Where that fails, they are made later.
    fn finish_terms(&self, sstable: &SsTable, terms: OutputTerms) -> BuiltTerms {
        let finished = match terms {
            OutputTerms::Written(terms) => terms.finish(sstable),
            OutputTerms::Failed(error) => Err(error.into()),
        };
        finished.unwrap_or_else(|error| {
            let fault = SidecarFault::of_terms(JobError::from(error));
            self.folder.note_sidecar_faults(&[fault]);
            BuiltTerms::new()
        })
    }

    /// Makes the terms of an SSTable that is not published yet. Where that fails, it is made later.
    fn with_terms(
        &self,
        sstable: Arc<SsTable>,
        memtable: Option<&MemtableIndexes>,
    ) -> Result<Made, JobError> {
        let mut columns = columns_of(&self.layout.metadata);
        let mut terms = BuiltTerms::new();
        if let Some(memtable) = memtable {
            columns.retain(|column| match self.memtable_terms(&sstable, column, memtable) {
                Some(file) => {
                    terms.push((column.index, file));
                    false
                }
                None => true,
            });
        }
        let build = IndexBuild {
            columns,
            sstable: Arc::clone(&sstable),
        };
        match self.build_terms(&build) {
            Ok(built) => terms.extend(built),
            Err(JobError::Stopped) => return Err(JobError::Stopped),
            Err(error) => self.folder.note_sidecar_faults(&[SidecarFault::of_terms(error)]),
        }
        Ok(Made { sstable, terms })
    }

    /// Writes the terms of a column that the memtable of an SSTable has. Where that fails or cannot be, they are made from its rows.
    fn memtable_terms(
        &self,
        sstable: &SsTable,
        column: &IndexedColumn,
        memtable: &MemtableIndexes,
    ) -> Option<Arc<TermFile>> {
        let terms = memtable.get(column.index)?;
        write_memtable_terms(self.folder.disk(), &self.layout, (sstable, column), terms).unwrap_or_default()
    }

    pub(super) fn build_terms(&self, build: &IndexBuild) -> Result<BuiltTerms, JobError> {
        if build.columns.is_empty() {
            return Ok(BuiltTerms::new());
        }
        let mut meter = Meter::of(self);
        let mut look = |bytes| meter.look(bytes);
        let built = build_terms(self.folder.disk(), &self.layout, build, &mut look);
        built.map_err(JobError::from)
    }
}

impl From<BuildError> for JobError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Read(error) => error.into(),
            BuildError::Write(error) => error.into(),
            BuildError::Stopped(stopped) => stopped.into(),
        }
    }
}

/// Removes SSTables that were sealed and not published, as far as the disk lets us.
pub(super) fn discard(disk: &dyn Disk, folder: &Path, sealed: &[Descriptor]) {
    for &descriptor in sealed {
        let _ = remove_sstable(disk, folder, descriptor);
    }
    if !sealed.is_empty() {
        let _ = remove_term_files(disk, folder, false, |_, sstable| sealed.contains(&sstable));
    }
}
