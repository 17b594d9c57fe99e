//! Taking over a memtable that has become an SSTable.

use helenus_types::Token;

use super::cache::RowCache;
use super::partition::{CachedPartition, CachedRow};
use crate::memtable::{Memtable, Partition};
use helenus_rows::clustering::Side;
use helenus_rows::layout::TableLayout;
use helenus_rows::partition_range::{PartitionBound, PartitionRange};
use helenus_rows::row::{RowRef, merge};

/// Rows of a partition that are merged in; one with more, or with rows of so many entries that they are kept in parts, is
/// forgotten instead. Each costs the writing of a block,
/// about a microsecond.
const ROWS_MAX: usize = 128;

/// Partitions that one call looks at, and rows that it merges: about 100 microseconds.
const PARTITIONS_PER_STEP: usize = 512;
const ROWS_PER_STEP: usize = 128;

/// How far a memtable was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsorbedTo {
    /// Up to this token; the rest is for later calls.
    Token(Token),
    End,
}

impl RowCache {
    /// Brings what is cached up to a memtable that is an SSTable by now, from a token on, in steps of bounded length.
    ///
    /// Until the end is reached, reads go on merging the memtable on top. Merging it twice changes nothing.
    pub fn absorb(&mut self, layout: &TableLayout, memtable: &Memtable, from: Token) -> AbsorbedTo {
        let table = layout.metadata.id;
        if !self.index.has_table(table) {
            return AbsorbedTo::End;
        }
        let bound = |token, side| PartitionBound {
            token,
            key: None,
            side,
        };
        let rest = PartitionRange::Many {
            start: bound(from, Side::Before),
            end: bound(Token::MAXIMUM, Side::After),
        };
        let (mut partitions, mut rows) = (0, 0);
        let mut last = None;
        for (token, partition) in memtable.partitions(&rest) {
            // Those of one token stay together, so that the next call can begin after them.
            if last != Some(token) && (partitions >= PARTITIONS_PER_STEP || rows >= ROWS_PER_STEP) {
                return AbsorbedTo::Token(token);
            }
            last = Some(token);
            partitions += 1;
            if let Some(slot) = self.index.find(table, token, partition.key()) {
                rows += self.absorb_partition(layout, slot, partition);
            }
        }
        AbsorbedTo::End
    }

    /// The number of rows merged.
    fn absorb_partition(&mut self, layout: &TableLayout, slot: u32, written: &Partition) -> usize {
        let is_large = written.rows().iter().nth(ROWS_MAX).is_some() || !written.has_whole_rows();
        // Deletions may hide any number of rows; what they leave is read again when it is asked for.
        if is_large || !written.deletion().is_live() || !written.range_tombstones().is_empty() {
            self.remove(slot);
            return 1;
        }
        let mut rows = 0;
        self.change(slot, |cached| rows = merge_partition(layout, cached, written));
        self.evict();
        rows
    }
}

fn merge_partition(layout: &TableLayout, cached: &mut CachedPartition, written: &Partition) -> usize {
    let mut merged = Vec::new();
    let deletion = cached.deletion();
    let mut rows = 0;
    if !written.static_row().is_empty() {
        merge::merge(
            &layout.shape,
            cached.static_row(),
            written.static_row(),
            deletion,
            &mut merged,
        );
        cached.set_head(deletion, RowRef::new(&merged));
        rows += 1;
    }
    for row in written.rows().iter() {
        merged.clear();
        match cached.row(&layout.comparator, row.clustering()) {
            CachedRow::Unknown => continue,
            CachedRow::Known {
                found,
                deletion: range,
            } => {
                let old = found.map_or(RowRef::EMPTY, |(_, row)| row);
                let shadow = deletion.max(range);
                merge::merge(&layout.shape, old, row.row(), shadow, &mut merged);
            }
        }
        cached.put_row(&layout.comparator, row.clustering(), RowRef::new(&merged));
        rows += 1;
    }
    rows
}
