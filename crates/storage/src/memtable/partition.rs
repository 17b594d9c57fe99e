//! One partition of a memtable.

use std::collections::BTreeMap;

use super::{ALLOCATION_OVERHEAD_BYTES, PackedRow, RangeTombstone, RangeTombstones, Rows};
use helenus_rows::clustering::ClusteringBound;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::layout::TableLayout;
use helenus_rows::row::merge::Left;
use helenus_rows::row::split::{self, SplitRow};
use helenus_rows::row::{RowRef, merge};
use helenus_rows::update::{BoundRef, Update, UpdateItem};

/// Writes to one partition. Deletions do not remove what they hide: a read passes over it, and the flush leaves it out.
#[derive(Debug)]
pub struct Partition {
    key: Box<[u8]>,
    pub(super) deletion: DeletionTime,
    pub(super) static_row: Option<PackedRow>,
    pub(super) rows: Rows,
    /// Boxed: most partitions never have any of it.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    ranges: RangeTombstones,
    /// The rows that are kept in parts, by clustering key as their [`PackedRow`] has it; for each there is one.
    split_rows: BTreeMap<Box<[u8]>, SplitRow>,
    split_static_row: Option<SplitRow>,
}

impl Partition {
    pub fn new(key: &[u8]) -> Self {
        Partition {
            key: key.into(),
            deletion: DeletionTime::LIVE,
            static_row: None,
            rows: Rows::Empty,
            rare: None,
        }
    }

    pub fn key(&self) -> &[u8] {
        &self.key
    }

    pub fn deletion(&self) -> DeletionTime {
        self.deletion
    }

    /// Returns the static row of a partition [in whole rows](Self::has_whole_rows).
    pub fn static_row(&self) -> RowRef<'_> {
        self.static_row.as_ref().map_or(RowRef::EMPTY, PackedRow::row)
    }

    pub(super) fn split_static_row(&self) -> Option<&SplitRow> {
        self.rare.as_ref()?.split_static_row.as_ref()
    }

    /// The static row, put together in `joined` where it is kept in parts.
    pub fn joined_static_row<'r>(&'r self, joined: &'r mut Vec<u8>) -> RowRef<'r> {
        match self.split_static_row() {
            Some(split) => join(split, joined),
            None => self.static_row(),
        }
    }

    /// A row of the partition, put together in `joined` where it is kept in parts.
    pub fn joined_row<'r>(&'r self, row: &'r PackedRow, joined: &'r mut Vec<u8>) -> RowRef<'r> {
        match self.split_row(row) {
            Some(split) => join(split, joined),
            None => row.row(),
        }
    }

    /// Returns the parts of a row that is not whole.
    pub(super) fn split_row(&self, row: &PackedRow) -> Option<&SplitRow> {
        row.is_split()
            .then(|| self.rare.as_ref()?.split_rows.get(row.clustering()))?
    }

    /// Returns whether no row is kept in parts, so that rows can be taken as they lie there.
    #[inline]
    pub fn has_whole_rows(&self) -> bool {
        self.rare
            .as_ref()
            .is_none_or(|rare| rare.split_rows.is_empty() && rare.split_static_row.is_none())
    }

    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    pub fn range_tombstones(&self) -> &RangeTombstones {
        self.rare
            .as_ref()
            .map_or(RangeTombstones::NONE, |rare| &rare.ranges)
    }

    /// The bytes of a partition that nothing was written to yet.
    pub(crate) fn base_bytes(&self) -> usize {
        // A B-tree node is about two thirds full.
        (size_of::<(i64, Partition)>() * 3).div_ceil(2) + self.key.len() + ALLOCATION_OVERHEAD_BYTES
    }

    /// The row under a complete key, and what hides it from outside. Of a partition [in whole rows](Self::has_whole_rows).
    #[inline]
    pub fn row(&self, layout: &TableLayout, clustering: &[u8]) -> Option<(&PackedRow, DeletionTime)> {
        let position = self.rows.find(&layout.comparator, clustering).ok()?;
        let row = self.rows.get(position)?;
        Some((row, self.deletion_at(layout, clustering)))
    }

    /// Returns the deletion in force at a row: of the partition, or of a range around the row.
    #[inline]
    pub(crate) fn deletion_at(&self, layout: &TableLayout, clustering: &[u8]) -> DeletionTime {
        match &self.rare {
            None => self.deletion,
            Some(rare) => {
                let range = rare.ranges.deletion_at(&layout.comparator, clustering);
                self.deletion.max(range)
            }
        }
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
                    let (rare, grown) = rare(&mut self.rare);
                    grown + rare.ranges.insert(&layout.comparator, range)
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
                let shadow = match layout.shape.is_counter() {
                    true => self.deletion_at(layout, clustering),
                    false => DeletionTime::LIVE,
                };
                let Some(existing) = self.rows.get_mut(position) else {
                    return 0;
                };
                match merge_into(layout, existing, row, shadow, scratch) {
                    Merged::Whole { grown } => grown,
                    Merged::Split => {
                        let (rare, grown) = rare(&mut self.rare);
                        let key: Box<[u8]> = existing.clustering().into();
                        let mut kept = rare.split_rows.remove(&*key);
                        let grown = grown + merge_split(layout, existing, &mut kept, row, scratch);
                        if let Some(kept) = kept {
                            rare.split_rows.insert(key, kept);
                        }
                        grown
                    }
                }
            }
            Err(position) => {
                let new = PackedRow::new(clustering, row);
                let grown = new.memory_bytes();
                (grown + self.rows.insert(position, new)) as isize
            }
        }
    }

    fn apply_static_row(&mut self, layout: &TableLayout, row: RowRef<'_>, scratch: &mut Vec<u8>) -> isize {
        let shadow = match layout.shape.is_counter() {
            true => self.deletion,
            false => DeletionTime::LIVE,
        };
        let Some(existing) = &mut self.static_row else {
            return self.static_row.insert(PackedRow::new(&[], row)).memory_bytes() as isize;
        };
        match merge_into(layout, existing, row, shadow, scratch) {
            Merged::Whole { grown } => grown,
            Merged::Split => {
                let (rare, grown) = rare(&mut self.rare);
                grown + merge_split(layout, existing, &mut rare.split_static_row, row, scratch)
            }
        }
    }
}

fn rare(rare: &mut Option<Box<Rare>>) -> (&mut Rare, isize) {
    let grown = match rare {
        Some(_) => 0,
        None => size_of::<Rare>() + ALLOCATION_OVERHEAD_BYTES,
    };
    (rare.get_or_insert_default(), grown as isize)
}

/// Outcome of merging another version into a row.
enum Merged {
    /// By how many bytes it has grown.
    Whole { grown: isize },
    /// Nothing yet: it is kept in parts, or is to be.
    Split,
}

/// `shadow` takes out what it hides. It need not: a read passes over that, too. But a counter's tombstone would hide what is
/// newer than it is.
fn merge_into(
    layout: &TableLayout,
    existing: &mut PackedRow,
    row: RowRef<'_>,
    shadow: DeletionTime,
    scratch: &mut Vec<u8>,
) -> Merged {
    let before = existing.memory_bytes();
    scratch.clear();
    let left = merge::left_of(&layout.shape, existing.row(), row);
    match left {
        Left::Nothing => existing.replace_row(row),
        Left::Marker => {
            merge::with_marker_of(existing.row(), row, scratch);
            existing.replace_row(RowRef::new(scratch));
        }
        // What stays of a large row is not copied for each write.
        Left::Entries | Left::Unknown
            if existing.is_split() || split::is_large(&layout.shape, existing.row().as_bytes()) =>
        {
            return Merged::Split;
        }
        Left::Entries => {
            merge::with_marker_of(row, existing.row(), scratch);
            existing.replace_row(RowRef::new(scratch));
        }
        Left::Unknown => {
            merge::merge(&layout.shape, existing.row(), row, shadow, scratch);
            existing.replace_row(RowRef::new(scratch));
        }
    }
    Merged::Whole {
        grown: existing.memory_bytes() as isize - before as isize,
    }
}

/// Merges into a row that is kept in parts, or will be from now on; returns by how many bytes both have grown.
#[cold]
fn merge_split(
    layout: &TableLayout,
    existing: &mut PackedRow,
    kept: &mut Option<SplitRow>,
    row: RowRef<'_>,
    scratch: &mut Vec<u8>,
) -> isize {
    let before = existing.memory_bytes() + kept.as_ref().map_or(0, |kept| kept_bytes(existing, kept));
    let split = kept.get_or_insert_with(|| SplitRow::new(existing.row()));
    split.merge(&layout.shape, row);
    let after = if split.is_small() {
        scratch.clear();
        split.join(scratch);
        existing.replace_row(RowRef::new(scratch));
        *kept = None;
        existing.memory_bytes()
    } else {
        existing.split_off();
        existing.memory_bytes() + kept_bytes(existing, split)
    };
    after as isize - before as isize
}

/// Memory for a row in parts, its key in the map included.
fn kept_bytes(existing: &PackedRow, kept: &SplitRow) -> usize {
    // A B-tree node is about two thirds full.
    let entry_bytes = (size_of::<(Box<[u8]>, SplitRow)>() * 3).div_ceil(2);
    let allocations = kept.allocations() + 1;
    entry_bytes + existing.clustering().len() + kept.bytes() + allocations * ALLOCATION_OVERHEAD_BYTES
}

fn join<'r>(split: &SplitRow, joined: &'r mut Vec<u8>) -> RowRef<'r> {
    joined.clear();
    split.join(joined);
    RowRef::new(joined)
}

fn owned(bound: BoundRef<'_>) -> ClusteringBound {
    ClusteringBound {
        prefix: bound.prefix.into(),
        side: bound.side,
    }
}
