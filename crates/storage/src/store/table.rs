//! State of one table on one shard.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use foldhash::fast::FixedState;
use helenus_types::Token;

use super::compaction_request::PendingRequest;
use super::indexing::TableIndexes;
use super::job::JobProgress;
use super::truncation::Truncation;
use super::unflushed::{FlushFailure, Rewrite};
use super::vectors::vectors_of;
use crate::commitlog::LogPosition;
use crate::compaction::{CompactionOptions, IdleLevels, MergeYield};
use crate::memtable::Memtable;
use crate::vectors::VectorIndex;
use helenus_rows::layout::TableLayout;
use helenus_sstable::{Descriptor, SsTable};

/// A flushed memtable on its way into the row cache.
#[derive(Debug)]
pub(super) struct Absorption {
    pub memtable: Arc<Memtable>,
    /// Token from which on it is to be done; what comes before is.
    pub from: Token,
}

/// A memtable that takes no more writes.
#[derive(Debug)]
pub(super) struct Sealed {
    pub memtable: Arc<Memtable>,
    /// From where on the log is needed while it is not flushed; `None` where the log has nothing of it.
    pub needs: Option<LogPosition>,
    /// Up to where the log is not needed for the table once it is flushed.
    pub flushed_to: Option<LogPosition>,
}

#[derive(Debug)]
pub(super) struct Table {
    pub layout: Arc<TableLayout>,
    pub indexes: TableIndexes,
    pub vectors: Vec<VectorIndex>,
    pub compaction: CompactionOptions,
    /// False where the keyspace has `durable_writes = false`.
    pub is_logged: bool,
    /// Takes the writes.
    pub active: Memtable,
    /// Being flushed or waiting for it, oldest first.
    pub sealed: Vec<Sealed>,
    /// Failure of the last try to flush the first of these, if it failed.
    pub flush_failure: Option<FlushFailure>,
    pub rewrite: Option<Rewrite>,
    /// Where the log ends to have what was written to it again, until all of that is flushed.
    pub is_rewritten_to: Option<LogPosition>,
    /// SSTables by now, which the row cache does not know all of yet; oldest first. Reads go on merging them.
    pub absorbing: Vec<Absorption>,
    /// Those with the newest writes first, in which order a read looks into them.
    pub sstables: Vec<Arc<SsTable>>,
    /// Where its SSTables are; empty in memory.
    pub folder: PathBuf,
    pub is_flushing: bool,
    /// Inputs of the compactions that run.
    pub compacting: Vec<Descriptor>,
    /// A compaction that an operator asked for, until it has begun.
    pub requested: VecDeque<PendingRequest>,
    /// On the clock's monotonic time: an operator has stopped the strategy's compactions until then.
    pub compactions_paused_until_ns: u64,
    /// The disk failed in a way that leaves open whether a compaction has happened: see [`RemovalError::Undecided`].
    ///
    /// [`RemovalError::Undecided`]: crate::compaction::RemovalError::Undecided
    pub is_undecided: bool,
    /// Successors of that compaction: the table's or garbage, which a restart tells, or DROP makes all the same.
    pub undecided: Vec<Descriptor>,
    /// Compactions found damage in them: they are read as far as they can be, and left out of compactions.
    pub suspects: Vec<Descriptor>,
    /// There are SSTables that did not open. They may hold what tombstones of the others hide, and a later salvage must not
    /// bring it back.
    pub has_refused: bool,
    /// Bytes that a flush makes, smoothed; 0 before the first.
    pub flush_bytes: u64,
    /// Seconds since the Unix epoch at which SSTables were made, by this process.
    pub created_at_s: HashMap<Descriptor, u32, FixedState>,
    /// Compacted alone for their tombstones already: what is left of those cannot go yet.
    pub settled: Vec<Descriptor>,
    pub idle_levels: IdleLevels,
    pub merge_yield: MergeYield,
    /// SSTables that wait to be merged: what makes compactions hurry.
    pub waiting: usize,
    /// Removals of SSTables that compactions have replaced, waiting or under way.
    pub removals: usize,
    /// Flushes and compactions under way.
    pub jobs: Vec<Arc<JobProgress>>,
    /// A truncation waits for the jobs under way; no new flush or compaction is begun.
    pub is_held: bool,
    pub truncation: Truncation,
    /// Counts truncations, from a number of the table's own: a job that began before one, or for a table that was dropped and
    /// made again under its id, must not bring its result in.
    pub epoch: u64,
}

impl Table {
    pub fn new(layout: TableLayout, is_logged: bool, folder: PathBuf) -> Self {
        let layout = Arc::new(layout);
        let indexes = TableIndexes::of(&layout.metadata);
        let has_clustering = !layout.metadata.clustering().is_empty();
        Table {
            compaction: CompactionOptions::of(&layout.metadata),
            is_logged,
            active: Memtable::indexed(Arc::clone(&layout), indexes.columns()),
            indexes,
            vectors: vectors_of(&layout.metadata),
            layout,
            sealed: Vec::new(),
            flush_failure: None,
            rewrite: None,
            is_rewritten_to: None,
            absorbing: Vec::new(),
            sstables: Vec::new(),
            folder,
            is_flushing: false,
            compacting: Vec::new(),
            requested: VecDeque::new(),
            compactions_paused_until_ns: 0,
            is_undecided: false,
            undecided: Vec::new(),
            suspects: Vec::new(),
            has_refused: false,
            flush_bytes: 0,
            created_at_s: HashMap::default(),
            settled: Vec::new(),
            idle_levels: IdleLevels::default(),
            merge_yield: MergeYield::unmeasured(has_clustering),
            waiting: 0,
            removals: 0,
            jobs: Vec::new(),
            is_held: false,
            truncation: Truncation::None,
            epoch: 0,
        }
    }

    pub fn set_layout(&mut self, layout: TableLayout, is_logged: bool) {
        self.layout = Arc::new(layout);
        self.compaction = CompactionOptions::of(&self.layout.metadata);
        self.is_logged = is_logged;
        self.active.set_layout(Arc::clone(&self.layout));
    }

    pub fn add_sstables(&mut self, added: impl IntoIterator<Item = Arc<SsTable>>) {
        self.sstables.extend(added);
        self.sstables
            .sort_by_key(|sstable| Reverse(sstable.statistics().timestamp_us_max));
    }

    /// Returns whether a job is under way whose files a crash would bring back after the table was emptied.
    pub fn has_files_to_come_or_go(&self) -> bool {
        !self.jobs.is_empty() || self.removals > 0 || self.is_undecided || self.truncation.is_pending()
    }

    /// All that reads look into.
    pub fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        let absorbing = self.absorbing.iter().map(|absorption| &*absorption.memtable);
        let sealed = self.sealed.iter().map(|sealed| &*sealed.memtable);
        std::iter::once(&self.active).chain(sealed).chain(absorbing)
    }

    /// Returns whether there is nothing but the memtable that takes the writes.
    pub fn is_in_active(&self) -> bool {
        self.sealed.is_empty() && self.sstables.is_empty() && self.absorbing.is_empty()
    }

    pub fn memory_bytes(&self) -> usize {
        self.memtables().map(Memtable::bytes).sum()
    }

    /// Puts an empty memtable in the place of the active one.
    pub fn seal(&mut self) {
        if !self.active.is_empty() {
            let empty = Memtable::indexed(Arc::clone(&self.layout), self.indexes.columns());
            let sealed = std::mem::replace(&mut self.active, empty);
            let positions = sealed.log_positions();
            self.sealed.push(Sealed {
                memtable: Arc::new(sealed),
                needs: positions.map(|(first, _)| first),
                flushed_to: positions.map(|(_, last)| last),
            });
        }
    }

    /// The first write that is in the log and in no SSTable.
    pub fn oldest_unflushed(&self) -> Option<LogPosition> {
        let sealed = self.sealed.iter().filter_map(|sealed| sealed.needs);
        let active = self.active.log_positions().map(|(first, _)| first);
        sealed.chain(active).min()
    }

    /// The smallest timestamp of any write that reads take from a memtable.
    pub fn memtable_min_timestamp_us(&self) -> i64 {
        self.memtables()
            .map(Memtable::min_timestamp_us)
            .min()
            .unwrap_or(i64::MAX)
    }
}
