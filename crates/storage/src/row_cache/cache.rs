//! The cache of one shard: partitions by key, and a bound on their bytes.

use std::cell::Cell;

use helenus_schema::TableId;
use helenus_types::Token;

use super::admission::Admission;
use super::fill::Recorder;
use super::index::{INDEX_BYTES_PER_PARTITION, PartitionIndex};
use super::partition::CachedPartition;
use helenus_rows::clustering::Slice;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::layout::TableLayout;
use helenus_rows::row::RowRef;
use helenus_sstable::{Ghosts, Worth};

/// One eviction frees at least this much, so that going through a large partition's blocks pays.
const EVICTION_BYTES_MIN: usize = 64 << 10;

/// Places that one eviction looks at before it takes what was read lately too: some 100 microseconds.
const SPARING_STEPS_MAX: u64 = 4_096;

/// Time of a core for looking a row up in SSTables whose pages are in memory, in ns (decision 28).
const LOOKUP_NS: u64 = 5_000;

/// Two partitions of one token are one to it.
fn ghost_key(partition: &CachedPartition) -> (u32, i64) {
    (partition.table, partition.token().0)
}

/// As [`ghost_key`]; tokens are spread over all bits already.
fn admission_hash(table: u32, token: Token) -> u64 {
    (token.0 as u64 ^ u64::from(table)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Merged rows of SSTables, by bytes. Belongs to a shard's thread.
///
/// Eviction goes round the partitions and takes the blocks that were not read since it last came by (CLOCK, second
/// chance): a hit costs the setting of a flag and no list is kept.
#[derive(Debug)]
pub struct RowCache {
    bytes_max: usize,
    bytes: usize,
    pub(super) index: PartitionIndex,
    /// The slot that eviction looks at next.
    hand: u32,
    /// Where the clearing of dropped tables has come to; `None` while there is nothing to clear.
    clearing: Option<u32>,
    /// Counted while the cache is borrowed by a read.
    hits: Cell<u64>,
    misses: Cell<u64>,
    fills: u64,
    evicted_bytes: u64,
    /// Partitions that a somewhat larger cache would have.
    left: Ghosts,
    /// Those that were looked for and are not admitted yet.
    admission: Admission,
}

/// Counts since the cache was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCacheCounts {
    /// Reads of one partition that needed no SSTable.
    pub hits: u64,
    /// Those that needed one, with something cached or nothing.
    pub misses: u64,
    /// Fillings of slices.
    pub fills: u64,
    pub evicted_bytes: u64,
}

impl RowCache {
    /// 0 bytes keep nothing.
    pub fn new(bytes_max: usize) -> Self {
        RowCache {
            bytes_max,
            bytes: 0,
            index: PartitionIndex::default(),
            hand: 0,
            clearing: None,
            hits: Cell::new(0),
            misses: Cell::new(0),
            fills: 0,
            evicted_bytes: 0,
            left: Ghosts::default(),
            admission: Admission::default(),
        }
    }

    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// From now on takes up to so many bytes.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.evict();
    }

    /// Savings so far if the cache had had as many bytes more as were said to [`Self::set_ghost_bytes`].
    pub fn worth(&self) -> Worth {
        self.left.worth()
    }

    /// See [`Self::worth`].
    pub fn set_ghost_bytes(&mut self, bytes: usize) {
        self.left.set_bytes_max(bytes);
    }

    pub fn is_enabled(&self) -> bool {
        self.bytes_max > 0
    }

    /// Bytes held, the allocator's included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn counts(&self) -> RowCacheCounts {
        RowCacheCounts {
            hits: self.hits.get(),
            misses: self.misses.get(),
            fills: self.fills,
            evicted_bytes: self.evicted_bytes,
        }
    }

    #[inline]
    pub fn count_read(&self, is_hit: bool) {
        let count = if is_hit { &self.hits } else { &self.misses };
        count.set(count.get() + 1);
    }

    #[inline]
    pub fn partition(&self, table: TableId, token: Token, key: &[u8]) -> Option<&CachedPartition> {
        self.index.get(self.index.find(table, token, key)?)
    }

    /// Returns whether a partition that is not cached is worth recording: there is room, or it was looked for before.
    pub(crate) fn admits(&self, table: TableId, token: Token) -> bool {
        let kept_free = 2 * self.eviction_bytes();
        if self.bytes + kept_free <= self.bytes_max {
            return true;
        }
        let Some(number) = self.index.number(table) else {
            return true;
        };
        self.admission.has_seen(admission_hash(number, token)) || self.left.contains((number, token.0))
    }

    /// A partition was read that is not cached and was not admitted.
    pub(crate) fn note_refused(&mut self, table: TableId, token: Token) {
        if let Some(number) = self.index.number(table) {
            self.admission.set_partitions(self.index.len());
            self.admission.see(admission_hash(number, token));
        }
    }

    /// Bytes that one eviction frees at least.
    fn eviction_bytes(&self) -> usize {
        EVICTION_BYTES_MIN.min(self.bytes_max / 8)
    }

    /// Takes in what a read recorded of some slices of a partition, whose deletion and static row were read with it.
    pub fn fill(
        &mut self,
        layout: &TableLayout,
        (token, key): (Token, &[u8]),
        (deletion, static_row): (DeletionTime, RowRef<'_>),
        slices: &[Slice],
        recorder: &Recorder,
    ) {
        if !self.is_enabled() || recorder.is_empty() {
            return;
        }
        self.fills += 1;
        let table = layout.metadata.id;
        let slot = match self.index.find(table, token, key) {
            Some(slot) => slot,
            None => {
                let make = |number| CachedPartition::new(number, token, key, deletion, static_row);
                let slot = self.index.insert(table, token, make);
                if let Some(partition) = self.index.get(slot) {
                    self.left.brought(ghost_key(partition), LOOKUP_NS);
                }
                self.bytes += self.bytes_of(slot);
                slot
            }
        };
        self.change(slot, |partition| {
            recorder.fill(&layout.comparator, slices, partition)
        });
        self.evict();
    }

    /// Changes a partition and keeps account of its bytes.
    pub(super) fn change(&mut self, slot: u32, change: impl FnOnce(&mut CachedPartition)) {
        let before = self.bytes_of(slot);
        if let Some(partition) = self.index.get_mut(slot) {
            change(partition);
        }
        self.bytes = (self.bytes + self.bytes_of(slot)).saturating_sub(before);
    }

    fn bytes_of(&self, slot: u32) -> usize {
        let partition = self.index.get(slot);
        partition.map_or(0, |partition| partition.bytes() + INDEX_BYTES_PER_PARTITION)
    }

    pub(super) fn remove(&mut self, slot: u32) {
        self.bytes = self.bytes.saturating_sub(self.bytes_of(slot));
        self.index.remove(slot);
    }

    /// Forgets all of a table. Its memory is freed step by step, with [`RowCache::clear_dropped`] and by eviction.
    pub fn drop_table(&mut self, table: TableId) {
        if self.index.has_table(table) {
            self.index.drop_table(table);
            self.clearing = Some(0);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.bytes = 0;
        self.index = PartitionIndex::default();
        self.hand = 0;
        self.clearing = None;
    }

    /// Looks through up to `slots_max` places for what dropped tables have left; whether there may be more.
    pub fn clear_dropped(&mut self, slots_max: u32) -> bool {
        let Some(from) = self.clearing else {
            return false;
        };
        let to = from.saturating_add(slots_max).min(self.index.slot_count());
        for slot in from..to {
            let partition = self.index.get(slot);
            if partition.is_some_and(|partition| self.index.is_orphan(partition)) {
                self.remove(slot);
            }
        }
        self.clearing = (to < self.index.slot_count()).then_some(to);
        if self.clearing.is_none() {
            self.index.dropped_are_cleared();
        }
        self.clearing.is_some()
    }

    fn note_gone(&mut self, slot: u32) {
        let bytes = self.bytes_of(slot);
        if let Some(partition) = self.index.get(slot) {
            self.left.add(ghost_key(partition), bytes);
        }
    }

    pub(super) fn evict(&mut self) {
        if self.bytes <= self.bytes_max {
            return;
        }
        let before = self.bytes;
        let target = self.bytes_max.saturating_sub(self.eviction_bytes());
        // Twice round finds everything.
        let steps_max = u64::from(self.index.slot_count()) * 2;
        for step in 0..steps_max {
            if self.bytes <= target {
                break;
            }
            let slot = self.hand;
            self.hand = if slot + 1 < self.index.slot_count() {
                slot + 1
            } else {
                0
            };
            let Some(partition) = self.index.get(slot) else {
                continue;
            };
            if self.index.is_orphan(partition) {
                self.remove(slot);
                continue;
            }
            let wanted = self.bytes - target;
            let mut is_gone = false;
            let spares_visited = step < SPARING_STEPS_MAX;
            self.change(slot, |partition| {
                is_gone = partition.evict(wanted, spares_visited)
            });
            if is_gone {
                self.note_gone(slot);
                self.remove(slot);
            }
        }
        self.evicted_bytes += (before - self.bytes.min(before)) as u64;
    }
}
