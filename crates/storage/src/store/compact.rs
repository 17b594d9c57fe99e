//! The work of a compaction: merge, purge, and put the outputs in the place of the inputs.

use std::sync::Arc;

use helenus_schema::IndexId;
use helenus_types::Token;

use super::compaction_history::PartitionsBySources;
use super::job::{BackgroundJob, JobError, JobOutcome, Made};
use super::output::{JobOutput, discard};
use crate::compaction::{
    OutputShape, PurgeRule, Removal, RemovalError, RewriteError, Split, distinct_partitions_of,
};
use crate::index::BuiltTerms;
use crate::merge::MergedScanner;
use helenus_rows::clustering::Slice;
use helenus_rows::deletion::NO_TIMESTAMP;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::purge::Purge;
use helenus_sstable::source::PartitionScanner;
use helenus_sstable::terms::{TermFile, term_file_path};
use helenus_sstable::{
    Descriptor, EncodingStatsCollector, PageCache, Pages, SsTable, WriteError, WriterOptions, relabel_sstable,
};

/// Page cache of a compaction's inputs, in bytes: a few pages of each are enough, since it reads them once and in order.
const COMPACTION_CACHE_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Compaction {
    pub inputs: Vec<Arc<SsTable>>,
    /// Go unread: all they hold has expired.
    pub expired: Vec<Arc<SsTable>>,
    /// The table's other SSTables: what they may hold limits what is purged.
    pub others: Vec<Arc<SsTable>>,
    /// The smallest timestamp in the table's memtables.
    pub memtable_min_timestamp_us: i64,
    pub shape: OutputShape,
    /// The one input stays as it is, but for the level of the shape.
    pub is_relabelling: bool,
    /// False where tombstones stay whatever their age.
    pub purges: bool,
}

impl Compaction {
    pub fn replaced(&self) -> impl Iterator<Item = &Arc<SsTable>> {
        self.inputs.iter().chain(&self.expired)
    }

    /// Partitions of each output, for its bloom filter.
    fn partition_count_estimate(&self) -> u64 {
        let partitions = distinct_partitions_of(&self.inputs);
        let bytes: u64 = self.inputs.iter().map(|input| input.disk_bytes()).sum();
        let outputs = match self.shape.split {
            Split::Whole | Split::Halving { .. } => 1,
            Split::BySize { sstable_bytes } => bytes / sstable_bytes.max(1),
            Split::ByShard { shards } => {
                let first = self.inputs.iter().map(|input| input.first_token().0).min();
                let last = self.inputs.iter().map(|input| input.last_token().0).max();
                let tokens = i128::from(last.unwrap_or(0)) - i128::from(first.unwrap_or(0));
                // The part of the ring, rounded down: a filter too large costs less than one too small.
                ((u128::from(shards) * tokens.unsigned_abs()) >> 64) as u64
            }
        };
        partitions / outputs.max(1)
    }
}

/// Which other SSTables have a say about a partition, asked in token order.
struct Overlapping<'a> {
    /// By falling first token: the next to begin is the last.
    waiting: Vec<&'a Arc<SsTable>>,
    active: Vec<&'a Arc<SsTable>>,
}

impl<'a> Overlapping<'a> {
    fn new(others: &'a [Arc<SsTable>]) -> Self {
        let mut waiting: Vec<_> = others.iter().collect();
        waiting.sort_by_key(|other| std::cmp::Reverse(other.first_token()));
        Overlapping {
            waiting,
            active: Vec::new(),
        }
    }

    /// The smallest timestamp that any of them may have in the partition.
    fn timestamp_min(&mut self, token: Token, key: &[u8]) -> i64 {
        while let Some(next) = self.waiting.pop_if(|next| next.first_token() <= token) {
            self.active.push(next);
        }
        self.active.retain(|other| other.last_token() >= token);
        let hit = self.active.iter().filter(|other| other.may_contain(token, key));
        hit.map(|other| other.statistics().timestamp_us_min)
            .min()
            .unwrap_or(i64::MAX)
    }
}

impl BackgroundJob {
    pub(super) fn compact(&self, compaction: &Compaction) -> Result<JobOutcome, JobError> {
        let mut partitions = PartitionsBySources::new();
        let outputs = match &compaction.inputs[..] {
            [] => Vec::new(),
            [only] if compaction.is_relabelling => self.relabel(only, compaction, &mut partitions)?,
            _ => self.merge(compaction, &mut partitions)?,
        };
        let disk = &**self.folder.disk();
        let successors = outputs.iter().map(|output| output.sstable.descriptor());
        let successors: Vec<Descriptor> = successors.collect();
        let replaced: Vec<Descriptor> = compaction.replaced().map(|input| input.descriptor()).collect();
        if let Err(stopped) = self.progress.check() {
            discard(disk, &self.table_folder, &successors);
            return Err(stopped.into());
        }
        match Removal::replace(disk, &self.table_folder, &replaced, &successors) {
            Ok(removal) => {
                self.progress.finish();
                Ok(JobOutcome::Compacted {
                    outputs,
                    removal,
                    partitions,
                })
            }
            // Whether they are the table's a restart will tell.
            Err(error @ RemovalError::Undecided { .. }) => Err(error.into()),
            Err(error) => {
                discard(disk, &self.table_folder, &successors);
                Err(error.into())
            }
        }
    }

    /// The same SSTable under another id, with another level. It is a compaction for everybody else, so that a crash
    /// leaves one or the other; where files cannot have two names it becomes a real one.
    fn relabel(
        &self,
        input: &SsTable,
        compaction: &Compaction,
        partitions: &mut PartitionsBySources,
    ) -> Result<Vec<Made>, JobError> {
        let disk = &**self.folder.disk();
        let relabelled = Descriptor {
            id: self.folder.new_sstable_id(),
            version: input.descriptor().version,
        };
        let place = (&*self.table_folder, input.descriptor(), relabelled);
        let made = relabel_sstable(disk, place, compaction.shape.level)
            .map_err(JobError::from)
            .and_then(|()| {
                let sstable = SsTable::open(disk, &self.table_folder, relabelled, &self.layout.metadata)?;
                let terms = self.link_terms(input, &sstable);
                Ok(vec![Made { sstable, terms }])
            });
        if made.is_ok() {
            return made;
        }
        discard(disk, &self.table_folder, &[relabelled]);
        match made {
            Err(JobError::Rewrite(RewriteError::Write(WriteError::Io { .. }))) => {
                self.merge(compaction, partitions)
            }
            made => made,
        }
    }

    /// Gives the files of indexes a second name, as the SSTable's own. What has none is made later.
    fn link_terms(&self, input: &SsTable, sstable: &SsTable) -> BuiltTerms {
        let disk = &**self.folder.disk();
        let path = |index: IndexId, of: Descriptor| term_file_path(&self.table_folder, index.0, of);
        let indexes = self.layout.metadata.indexes.iter().map(|index| index.id);
        let linked = indexes.filter_map(|index| {
            let (from, to) = (path(index, input.descriptor()), path(index, sstable.descriptor()));
            disk.hard_link(&from, &to).ok()?;
            let file = TermFile::open(disk, &to, sstable.identity(), &self.layout.comparator).ok()?;
            Some((index, Arc::new(file)))
        });
        linked.collect()
    }

    fn merge(
        &self,
        compaction: &Compaction,
        partitions: &mut PartitionsBySources,
    ) -> Result<Vec<Made>, JobError> {
        let cache = PageCache::new(COMPACTION_CACHE_BYTES);
        let slices = [Slice::all()];
        let (start, end) = PartitionRange::everything().bounds();
        let read_bytes = self.pace.as_ref().map_or(0, |(_, limits)| limits.read_bytes);
        let mut stats = EncodingStatsCollector::default();
        let mut scanners: Vec<Box<dyn PartitionScanner + '_>> = Vec::with_capacity(compaction.inputs.len());
        for input in &compaction.inputs {
            stats.merge(input.encoding_stats());
            let pages = Pages::from(&cache).sharing(read_bytes, compaction.inputs.len());
            scanners.push(Box::new(input.scan(pages, start, end, &slices, false)));
        }
        let options = WriterOptions {
            partition_count_estimate: compaction.partition_count_estimate(),
            encoding_stats: stats.finish(),
            ..WriterOptions::of(&self.layout.metadata)
        };
        let held = self.layout.absent_columns().filter(|dropped| {
            let mut inputs = compaction.inputs.iter();
            inputs.any(|input| input.holds_newer_than(dropped))
        });
        let table = self.layout.with_columns(held);
        let mut output = JobOutput::new(self, compaction.shape, options, table)?.with_terms();
        let mut scanner = MergedScanner::new(&self.layout, false, scanners);
        match self.copy_all(compaction, &mut scanner, &mut output, partitions) {
            Ok(()) => output.finish(None),
            Err(error) => output.abandon(error),
        }
    }

    fn copy_all(
        &self,
        compaction: &Compaction,
        scanner: &mut MergedScanner<'_>,
        output: &mut JobOutput<'_>,
        partitions: &mut PartitionsBySources,
    ) -> Result<(), JobError> {
        let now_s = self.folder.clock().wall_s();
        let gc_before_s = now_s.saturating_sub(self.layout.metadata.params.gc_grace_seconds);
        let may_purge = compaction.purges
            && compaction
                .inputs
                .iter()
                .any(|input| input.statistics().local_deletion_s_min < gc_before_s);
        let mut others = Overlapping::new(&compaction.others);
        let mut key = Vec::new();
        while scanner.advance()? {
            *partitions.entry(scanner.sources_taken()).or_default() += 1;
            let (token, position_key) = scanner.position();
            key.clear();
            key.extend_from_slice(position_key);
            let max_purgeable_timestamp_us = if may_purge {
                others
                    .timestamp_min(token, &key)
                    .min(compaction.memtable_min_timestamp_us)
            } else {
                NO_TIMESTAMP
            };
            let rule = PurgeRule::Purge(Purge {
                now_s,
                gc_before_s,
                max_purgeable_timestamp_us,
            });
            let mut cursor = scanner.open()?;
            output.partition(token, &key, &mut cursor, rule)?;
        }
        Ok(())
    }
}
