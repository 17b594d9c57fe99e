//! Reading one partition of a memtable in clustering order.

use std::cmp::Ordering;
use std::ops::Range;

use super::{Partition, RangePosition, RangeTombstone, RangeTombstones, RowPosition};
use helenus_rows::clustering::{ClusteringBound, ClusteringComparator, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_rows::row::split::SplitRow;
use helenus_rows::update::BoundRef;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, Unfiltered};

/// Walks the rows and range deletions of a partition within slices, in either direction.
#[derive(Debug)]
pub struct MemtableCursor<'a> {
    partition: &'a Partition,
    comparator: &'a ClusteringComparator,
    /// Those that were not begun yet.
    slices: &'a [Slice],
    reversed: bool,
    window: Option<Window<'a>>,
    current: Unfiltered<'a>,
    /// The row of `current`, where it is kept in parts.
    joined: Option<Vec<u8>>,
    /// The static row, where it is kept in parts.
    joined_static_row: Option<Vec<u8>>,
}

/// Rest of the slice being read.
#[derive(Debug)]
struct Window<'a> {
    slice: &'a Slice,
    /// From the first row to one past the last, whatever the direction.
    rows: Range<RowPosition>,
    /// The range deletions that reach in.
    ranges: Range<RangePosition>,
    /// True while the next range in the direction of the walk is announced and not ended yet.
    is_inside_range: bool,
}

impl<'a> MemtableCursor<'a> {
    pub fn new(
        partition: &'a Partition,
        comparator: &'a ClusteringComparator,
        slices: &'a [Slice],
        reversed: bool,
    ) -> Self {
        let current = Unfiltered::Row {
            clustering: &[],
            row: RowRef::EMPTY,
        };
        MemtableCursor {
            partition,
            comparator,
            slices,
            reversed,
            window: None,
            current,
            joined: None,
            joined_static_row: partition.split_static_row().map(join),
        }
    }

    fn open_window(&self, slice: &'a Slice) -> Window<'a> {
        let rows = self.partition.rows();
        let at = |bound: &ClusteringBound| rows.after_bound(self.comparator, &bound.prefix, bound.side);
        let ranges = self.partition.range_tombstones();
        let ranges = match ranges.is_empty() {
            false => ranges.overlapping(self.comparator, &slice.start, &slice.end),
            true => RangePosition::default()..RangePosition::default(),
        };
        Window {
            slice,
            rows: at(&slice.start)..at(&slice.end),
            ranges,
            is_inside_range: false,
        }
    }

    /// The next element of the open slice.
    fn step(&mut self) -> Option<Unfiltered<'a>> {
        let window = self.window.as_mut()?;
        let row_position = if window.rows.start >= window.rows.end {
            None
        } else if self.reversed {
            self.partition.rows().previous(window.rows.end)
        } else {
            Some(window.rows.start)
        };
        let row = row_position.and_then(|position| self.partition.rows().get(position));
        let marker = next_marker(
            window,
            self.partition.range_tombstones(),
            self.comparator,
            self.reversed,
        );
        let takes_marker = match (&row, &marker) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(row), Some((bound, _))) => {
                let order = self.comparator.compare_to_bound(row.clustering(), bound);
                order
                    == if self.reversed {
                        Ordering::Less
                    } else {
                        Ordering::Greater
                    }
            }
        };
        if takes_marker {
            let (bound, deletion) = marker?;
            advance_range(window, self.partition.range_tombstones(), self.reversed);
            return Some(Unfiltered::Marker {
                bound: BoundRef {
                    prefix: &bound.prefix,
                    side: bound.side,
                },
                deletion,
            });
        }
        let (row, position) = (row?, row_position?);
        self.joined = self.partition.split_row(row).map(join);
        if self.reversed {
            window.rows.end = position;
        } else {
            window.rows.start = self.partition.rows().next(position);
        }
        Some(Unfiltered::Row {
            clustering: row.clustering(),
            row: row.row(),
        })
    }
}

fn join(split: &SplitRow) -> Vec<u8> {
    let mut joined = Vec::new();
    split.join(&mut joined);
    joined
}

/// Where the deletion in force changes next, and to what.
fn next_marker<'a>(
    window: &Window<'a>,
    ranges: &'a RangeTombstones,
    comparator: &ClusteringComparator,
    reversed: bool,
) -> Option<(&'a ClusteringBound, DeletionTime)> {
    if window.ranges.is_empty() {
        return None;
    }
    let range = ranges.get(if reversed {
        ranges.previous(window.ranges.end)?
    } else {
        window.ranges.start
    })?;
    // Entering forwards and leaving backwards happen at the start.
    if window.is_inside_range == reversed {
        let start = later(comparator, &range.start, &window.slice.start);
        let deletion = if reversed {
            following_deletion(window, ranges, true)
        } else {
            range.deletion
        };
        Some((start, deletion))
    } else {
        let end = earlier(comparator, &range.end, &window.slice.end);
        let deletion = if reversed {
            range.deletion
        } else {
            following_deletion(window, ranges, false)
        };
        Some((end, deletion))
    }
}

/// The deletion after the end of the range being left: of the next range where the two touch.
fn following_deletion(window: &Window<'_>, ranges: &RangeTombstones, reversed: bool) -> DeletionTime {
    touching_range(window, ranges, reversed).map_or(DeletionTime::LIVE, |range| range.deletion)
}

fn touching_range<'a>(
    window: &Window<'_>,
    ranges: &'a RangeTombstones,
    reversed: bool,
) -> Option<&'a RangeTombstone> {
    let Range { start, end } = window.ranges;
    if reversed {
        let left = ranges.previous(end).filter(|left| *left > start)?;
        let (left, next) = (ranges.get(left)?, ranges.get(ranges.previous(left)?)?);
        (next.end == left.start).then_some(next)
    } else {
        let next = Some(ranges.next(start)).filter(|next| *next < end)?;
        let (left, next) = (ranges.get(start)?, ranges.get(next)?);
        (left.end == next.start).then_some(next)
    }
}

/// Notes that the marker of [`next_marker`] was handed out.
fn advance_range(window: &mut Window<'_>, ranges: &RangeTombstones, reversed: bool) {
    if !window.is_inside_range {
        window.is_inside_range = true;
        return;
    }
    window.is_inside_range = touching_range(window, ranges, reversed).is_some();
    if reversed {
        window.ranges.end = ranges.previous(window.ranges.end).unwrap_or_default();
    } else {
        window.ranges.start = ranges.next(window.ranges.start);
    }
}

fn later<'a>(
    comparator: &ClusteringComparator,
    left: &'a ClusteringBound,
    right: &'a ClusteringBound,
) -> &'a ClusteringBound {
    match comparator.compare_bounds((&left.prefix, left.side), (&right.prefix, right.side)) {
        Ordering::Less => right,
        _ => left,
    }
}

fn earlier<'a>(
    comparator: &ClusteringComparator,
    left: &'a ClusteringBound,
    right: &'a ClusteringBound,
) -> &'a ClusteringBound {
    match comparator.compare_bounds((&left.prefix, left.side), (&right.prefix, right.side)) {
        Ordering::Greater => right,
        _ => left,
    }
}

impl PartitionCursor for MemtableCursor<'_> {
    fn deletion(&self) -> DeletionTime {
        self.partition.deletion()
    }

    fn static_row(&self) -> RowRef<'_> {
        match &self.joined_static_row {
            Some(joined) => RowRef::new(joined),
            None => self.partition.static_row(),
        }
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            if let Some(next) = self.step() {
                self.current = next;
                return Ok(true);
            }
            let next = if self.reversed {
                self.slices.split_last()
            } else {
                self.slices.split_first()
            };
            let Some((slice, rest)) = next else {
                self.window = None;
                return Ok(false);
            };
            self.slices = rest;
            self.window = Some(self.open_window(slice));
        }
    }

    fn current(&self) -> Unfiltered<'_> {
        match (&self.joined, self.current) {
            (Some(joined), Unfiltered::Row { clustering, .. }) => Unfiltered::Row {
                clustering,
                row: RowRef::new(joined),
            },
            _ => self.current,
        }
    }
}
