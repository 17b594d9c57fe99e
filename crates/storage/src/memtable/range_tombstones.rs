//! The range deletions of one partition: sorted, disjoint, each part under its newest deletion.

use std::cmp::Ordering;

use super::ALLOCATION_OVERHEAD_BYTES;
use crate::clustering::{ClusteringBound, ClusteringComparator};
use crate::deletion::DeletionTime;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    pub start: ClusteringBound,
    pub end: ClusteringBound,
    pub deletion: DeletionTime,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstones {
    ranges: Vec<RangeTombstone>,
}

impl RangeTombstone {
    pub fn memory_bytes(&self) -> usize {
        size_of::<RangeTombstone>()
            + [&self.start, &self.end]
                .map(|bound| bound.prefix.len() + ALLOCATION_OVERHEAD_BYTES)
                .iter()
                .sum::<usize>()
    }
}

impl RangeTombstones {
    pub fn as_slice(&self) -> &[RangeTombstone] {
        &self.ranges
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn memory_bytes(&self) -> usize {
        self.ranges.iter().map(RangeTombstone::memory_bytes).sum()
    }

    /// The ranges that reach into the space between two bounds, as indices.
    pub fn overlapping(
        &self,
        comparator: &ClusteringComparator,
        start: &ClusteringBound,
        end: &ClusteringBound,
    ) -> std::ops::Range<usize> {
        let first = self
            .ranges
            .partition_point(|range| compare(comparator, &range.end, start) != Ordering::Greater);
        let last = self
            .ranges
            .partition_point(|range| compare(comparator, &range.start, end) == Ordering::Less);
        first..last.max(first)
    }

    /// The deletion in force at a complete clustering key.
    pub fn deletion_at(&self, comparator: &ClusteringComparator, clustering: &[u8]) -> DeletionTime {
        let index = self.ranges.partition_point(|range| {
            comparator.compare_to_bound(clustering, &range.end) == Ordering::Greater
        });
        match self.ranges.get(index) {
            Some(range) if comparator.compare_to_bound(clustering, &range.start) == Ordering::Greater => {
                range.deletion
            }
            _ => DeletionTime::LIVE,
        }
    }

    /// Lays `new` over what is there; where both reach, the one that hides more stays. Returns by how many bytes the
    /// list has grown; it may shrink.
    pub fn insert(&mut self, comparator: &ClusteringComparator, new: RangeTombstone) -> isize {
        if compare(comparator, &new.start, &new.end) != Ordering::Less {
            return 0;
        }
        let overlapped = self.overlapping(comparator, &new.start, &new.end);
        let before: usize = self.ranges[overlapped.clone()]
            .iter()
            .map(RangeTombstone::memory_bytes)
            .sum();
        let laid = lay_over(comparator, &self.ranges[overlapped.clone()], new);
        let after: usize = laid.iter().map(RangeTombstone::memory_bytes).sum();
        self.ranges.splice(overlapped, laid);
        after as isize - before as isize
    }
}

fn lay_over(
    comparator: &ClusteringComparator,
    old: &[RangeTombstone],
    new: RangeTombstone,
) -> Vec<RangeTombstone> {
    let mut laid = Vec::with_capacity(old.len() * 2 + 1);
    // The part of `new` before `from` is done.
    let mut from = new.start.clone();
    let mut is_done = false;
    for range in old {
        if new.deletion.supersedes(range.deletion) {
            if compare(comparator, &range.start, &from) == Ordering::Less {
                laid.push(RangeTombstone {
                    start: range.start.clone(),
                    end: from.clone(),
                    deletion: range.deletion,
                });
            }
            if compare(comparator, &new.end, &range.end) == Ordering::Less {
                laid.push(RangeTombstone {
                    start: from.clone(),
                    end: new.end.clone(),
                    deletion: new.deletion,
                });
                laid.push(RangeTombstone {
                    start: new.end.clone(),
                    end: range.end.clone(),
                    deletion: range.deletion,
                });
                is_done = true;
            }
        } else {
            if compare(comparator, &from, &range.start) == Ordering::Less {
                laid.push(RangeTombstone {
                    start: from.clone(),
                    end: range.start.clone(),
                    deletion: new.deletion,
                });
            }
            laid.push(range.clone());
            from = range.end.clone();
            is_done = compare(comparator, &from, &new.end) != Ordering::Less;
        }
    }
    if !is_done {
        laid.push(RangeTombstone {
            start: from,
            end: new.end,
            deletion: new.deletion,
        });
    }
    laid
}

fn compare(comparator: &ClusteringComparator, left: &ClusteringBound, right: &ClusteringBound) -> Ordering {
    comparator.compare_bounds((&left.prefix, left.side), (&right.prefix, right.side))
}
