//! The memtable of one table on one shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_schema::ColumnId;
use helenus_types::Token;

use super::{MemtableCursor, MemtableScanner, Partition, Partitions};
use crate::commitlog::LogPosition;
use crate::index::MemtableIndexes;
use helenus_index::IndexedColumn;
use helenus_rows::clustering::Slice;
use helenus_rows::layout::TableLayout;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::Entry;
use helenus_rows::update::{Update, UpdateItem};
use helenus_sstable::{EncodingStats, EncodingStatsCollector};

#[derive(Debug)]
pub struct Memtable {
    layout: Arc<TableLayout>,
    partitions: BTreeMap<i64, Slot>,
    partition_count: usize,
    bytes: usize,
    first_position: Option<LogPosition>,
    last_position: Option<LogPosition>,
    /// Statistics of all that was written, also of what something later hides.
    encoding_stats: EncodingStatsCollector,
    /// True if there may be cells of columns that the table has no more.
    may_hold_dropped: bool,
    indexes: MemtableIndexes,
}

/// The partitions of one token. Keys collide about once in 2^63 pairs, but a client may look for such keys.
#[derive(Debug)]
pub(super) enum Slot {
    One(Partition),
    /// By key.
    Several(Vec<Partition>),
}

impl Memtable {
    pub fn new(layout: Arc<TableLayout>) -> Self {
        Memtable {
            layout,
            partitions: BTreeMap::new(),
            partition_count: 0,
            bytes: 0,
            first_position: None,
            last_position: None,
            encoding_stats: EncodingStatsCollector::default(),
            may_hold_dropped: false,
            indexes: MemtableIndexes::default(),
        }
    }

    /// One that indexes have all of.
    pub fn indexed(layout: Arc<TableLayout>, columns: &[Arc<IndexedColumn>]) -> Self {
        Memtable {
            indexes: MemtableIndexes::new(columns),
            ..Self::new(layout)
        }
    }

    pub fn indexes(&self) -> &MemtableIndexes {
        &self.indexes
    }

    /// Gives all that is there to other indexes, row by row; returns by how many bytes the memtable has grown.
    pub(crate) fn set_indexes(&mut self, columns: &[Arc<IndexedColumn>]) -> isize {
        let before = self.indexes.bytes() as isize;
        let mut indexes = MemtableIndexes::new(columns);
        let mut joined = Vec::new();
        let comparator = &self.layout.comparator;
        for (token, partitions) in self.slots_from(Token::MINIMUM) {
            for partition in partitions {
                let place = (token, partition.key());
                indexes.add_row(comparator, place, None, partition.joined_static_row(&mut joined));
                for row in partition.rows().iter() {
                    let whole = partition.joined_row(row, &mut joined);
                    indexes.add_row(comparator, place, Some(row.clustering()), whole);
                }
            }
        }
        self.indexes = indexes;
        let grown = self.indexes.bytes() as isize - before;
        self.bytes = self.bytes.saturating_add_signed(grown);
        grown
    }

    pub fn layout(&self) -> &Arc<TableLayout> {
        &self.layout
    }

    /// Takes over a newer version of the table; clustering columns and stored types never change their order.
    pub(crate) fn set_layout(&mut self, layout: Arc<TableLayout>) {
        self.layout = layout;
        self.may_hold_dropped |= !self.is_empty();
    }

    /// Notes that writes come from a log, and may be older than the table's layout.
    pub(crate) fn expect_dropped(&mut self) {
        self.may_hold_dropped = true;
    }

    /// Returns whether there is a cell or a deletion of a column that is not of the table any more, newer than a time. Goes
    /// through all that was written where that is possible.
    pub fn holds(&self, column: ColumnId, after_us: i64) -> bool {
        let is_one = |entry: Entry<'_>| entry.column() == column && entry.timestamp_us() > after_us;
        let mut joined = Vec::new();
        self.may_hold_dropped
            && self.slots_from(Token::MINIMUM).any(|(_, partitions)| {
                partitions.iter().any(|partition| {
                    let mut rows = partition.rows().iter();
                    partition.joined_static_row(&mut joined).entries().any(is_one)
                        || rows.any(|row| partition.joined_row(row, &mut joined).entries().any(is_one))
                })
            })
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// Memory held, overheads included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The log's positions of the first and last write, where there is a log.
    pub(crate) fn log_positions(&self) -> Option<(LogPosition, LogPosition)> {
        self.first_position.zip(self.last_position)
    }

    /// The smallest timestamp of anything written, `i64::MAX` while empty; compaction keeps the deletions that may
    /// hide it.
    pub(crate) fn min_timestamp_us(&self) -> i64 {
        self.encoding_stats.timestamp_us_min()
    }

    /// Returns the minima that an SSTable with all of it counts its times from.
    pub fn encoding_stats(&self) -> EncodingStats {
        self.encoding_stats.finish()
    }

    /// Merges an update in; returns by how many bytes the memtable has grown.
    pub fn apply(
        &mut self,
        token: Token,
        update: &Update<'_>,
        position: Option<LogPosition>,
        scratch: &mut Vec<u8>,
    ) -> isize {
        self.first_position = self.first_position.or(position);
        self.last_position = position.or(self.last_position);
        collect_stats(&mut self.encoding_stats, update);
        let mut grown = 0_isize;
        let new_partition = |grown: &mut isize| {
            let partition = Partition::new(update.partition_key);
            *grown += partition.base_bytes() as isize;
            partition
        };
        let slot = self.partitions.entry(token.0).or_insert_with(|| {
            self.partition_count += 1;
            Slot::One(new_partition(&mut grown))
        });
        let partition = match slot.find(update.partition_key) {
            Ok(index) => slot.get_mut(index),
            Err(index) => {
                self.partition_count += 1;
                slot.insert(index, new_partition(&mut grown))
            }
        };
        grown += partition.map_or(0, |partition| partition.apply(&self.layout, update, scratch));
        if !self.indexes.is_empty() {
            grown += self.indexes.apply(&self.layout.comparator, token, update) as isize;
        }
        self.bytes = self.bytes.saturating_add_signed(grown);
        grown
    }

    #[inline]
    pub fn partition(&self, token: Token, key: &[u8]) -> Option<&Partition> {
        let slot = self.partitions.get(&token.0)?;
        slot.as_slice().get(slot.find(key).ok()?)
    }

    pub fn cursor<'a>(
        &'a self,
        token: Token,
        key: &[u8],
        slices: &'a [Slice],
        reversed: bool,
    ) -> Option<MemtableCursor<'a>> {
        let partition = self.partition(token, key)?;
        Some(MemtableCursor::new(
            partition,
            &self.layout.comparator,
            slices,
            reversed,
        ))
    }

    /// The partitions in a range, in order.
    pub fn partitions(&self, range: &PartitionRange<'_>) -> Partitions<'_> {
        Partitions::new(&self.partitions, range)
    }

    /// Those of tokens from `first` on, token by token.
    pub(crate) fn slots_from(&self, first: Token) -> impl Iterator<Item = (Token, &[Partition])> {
        let slots = self.partitions.range(first.0..);
        slots.map(|(token, slot)| (Token(*token), slot.as_slice()))
    }

    pub fn scanner<'a>(
        &'a self,
        range: &PartitionRange<'_>,
        slices: &'a [Slice],
        reversed: bool,
    ) -> MemtableScanner<'a> {
        MemtableScanner::new(self.partitions(range), &self.layout.comparator, slices, reversed)
    }
}

impl Slot {
    pub(super) fn as_slice(&self) -> &[Partition] {
        match self {
            Slot::One(partition) => std::slice::from_ref(partition),
            Slot::Several(partitions) => partitions,
        }
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        match self {
            Slot::One(partition) if partition.key() == key => Ok(0),
            slot => slot
                .as_slice()
                .binary_search_by(|partition| partition.key().cmp(key)),
        }
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut Partition> {
        match self {
            Slot::One(partition) => Some(partition),
            Slot::Several(partitions) => partitions.get_mut(index),
        }
    }

    fn insert(&mut self, index: usize, partition: Partition) -> Option<&mut Partition> {
        let mut partitions = match std::mem::replace(self, Slot::Several(Vec::new())) {
            Slot::One(partition) => vec![partition],
            Slot::Several(partitions) => partitions,
        };
        partitions.insert(index, partition);
        *self = Slot::Several(partitions);
        self.get_mut(index)
    }
}

/// Collects the minima that an SSTable with an update would count its times from.
fn collect_stats(stats: &mut EncodingStatsCollector, update: &Update<'_>) {
    stats.deletion(update.deletion);
    for item in update.items() {
        match item {
            UpdateItem::StaticRow(row) | UpdateItem::Row { row, .. } => stats.row(row),
            UpdateItem::RangeTombstone { deletion, .. } => stats.deletion(deletion),
        }
    }
}
