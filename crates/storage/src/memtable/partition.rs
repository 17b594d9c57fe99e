//! One partition of a memtable.

use super::{ALLOCATION_OVERHEAD_BYTES, PackedRow, RangeTombstone, RangeTombstones, Rows};
use crate::clustering::ClusteringBound;
use crate::deletion::DeletionTime;
use crate::layout::TableLayout;
use crate::row::{RowRef, merge};
use crate::update::{BoundRef, Update, UpdateItem};

/// What was written to one partition. Deletions do not remove what they hide: a read passes over it, and the flush
/// leaves it out.
#[derive(Debug)]
pub struct Partition {
    key: Box<[u8]>,
    pub(super) deletion: DeletionTime,
    pub(super) static_row: Option<PackedRow>,
    pub(super) rows: Rows,
    /// Boxed: most partitions never see a range deletion.
    pub(super) ranges: Option<Box<RangeTombstones>>,
}

impl Partition {
    pub fn new(key: &[u8]) -> Self {
        Partition {
            key: key.into(),
            deletion: DeletionTime::LIVE,
            static_row: None,
            rows: Rows::Empty,
            ranges: None,
        }
    }

    pub fn key(&self) -> &[u8] {
        &self.key
    }

    pub fn deletion(&self) -> DeletionTime {
        self.deletion
    }

    pub fn static_row(&self) -> RowRef<'_> {
        self.static_row.as_ref().map_or(RowRef::EMPTY, PackedRow::row)
    }

    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    pub fn range_tombstones(&self) -> &RangeTombstones {
        self.ranges.as_deref().unwrap_or(RangeTombstones::NONE)
    }

    /// The bytes of a partition that nothing was written to yet.
    pub fn base_bytes(&self) -> usize {
        // A B-tree node is about two thirds full.
        (size_of::<(i64, Partition)>() * 3).div_ceil(2) + self.key.len() + ALLOCATION_OVERHEAD_BYTES
    }

    /// The row under a complete key, and what hides it from outside.
    #[inline]
    pub fn row(&self, layout: &TableLayout, clustering: &[u8]) -> Option<(&PackedRow, DeletionTime)> {
        let position = self.rows.find(&layout.comparator, clustering).ok()?;
        let row = self.rows.get(position)?;
        let shadow = match &self.ranges {
            None => self.deletion,
            Some(ranges) => self
                .deletion
                .max(ranges.deletion_at(&layout.comparator, clustering)),
        };
        Some((row, shadow))
    }

    /// Merges an update in; returns by how many bytes the partition has grown.
    pub fn apply(&mut self, layout: &TableLayout, update: &Update<'_>, scratch: &mut Vec<u8>) -> isize {
        let mut grown = 0;
        self.deletion = self.deletion.max(update.deletion);
        for item in update.items() {
            grown += match item {
                UpdateItem::StaticRow(row) => self.apply_static_row(layout, row, scratch),
                UpdateItem::Row { clustering, row } => self.apply_row(layout, clustering, row, scratch),
                UpdateItem::RangeTombstone { start, end, deletion } => {
                    let range = RangeTombstone {
                        start: owned(start),
                        end: owned(end),
                        deletion,
                    };
                    self.ranges
                        .get_or_insert_default()
                        .insert(&layout.comparator, range)
                }
            };
        }
        grown
    }

    fn apply_row(
        &mut self,
        layout: &TableLayout,
        clustering: &[u8],
        row: RowRef<'_>,
        scratch: &mut Vec<u8>,
    ) -> isize {
        match self.rows.find(&layout.comparator, clustering) {
            Ok(position) => {
                let Some(existing) = self.rows.get_mut(position) else {
                    return 0;
                };
                merge_into(layout, existing, row, scratch)
            }
            Err(position) => {
                let new = PackedRow::new(clustering, row);
                let grown = new.memory_bytes();
                (grown + self.rows.insert(position, new)) as isize
            }
        }
    }

    fn apply_static_row(&mut self, layout: &TableLayout, row: RowRef<'_>, scratch: &mut Vec<u8>) -> isize {
        match &mut self.static_row {
            Some(existing) => merge_into(layout, existing, row, scratch),
            None => self.static_row.insert(PackedRow::new(&[], row)).memory_bytes() as isize,
        }
    }
}

fn merge_into(
    layout: &TableLayout,
    existing: &mut PackedRow,
    row: RowRef<'_>,
    scratch: &mut Vec<u8>,
) -> isize {
    let before = existing.memory_bytes();
    if merge::replaces(&layout.shape, row, existing.row()) {
        existing.replace_row(row);
    } else {
        scratch.clear();
        merge::merge(&layout.shape, existing.row(), row, DeletionTime::LIVE, scratch);
        existing.replace_row(RowRef::new(scratch));
    }
    existing.memory_bytes() as isize - before as isize
}

fn owned(bound: BoundRef<'_>) -> ClusteringBound {
    ClusteringBound {
        prefix: bound.prefix.into(),
        side: bound.side,
    }
}
