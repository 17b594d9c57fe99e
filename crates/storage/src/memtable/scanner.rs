//! The partitions of a memtable in token order.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};

use helenus_types::Token;

use super::table::Slot;
use super::{MemtableCursor, Partition};
use helenus_rows::clustering::{ClusteringComparator, Side, Slice};
use helenus_rows::partition_range::{PartitionBound, PartitionRange};
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{OpenPartition, PartitionScanner};

/// The partitions in a range, in (token, key) order.
#[derive(Debug)]
pub struct Partitions<'a> {
    slots: btree_map::Range<'a, i64, Slot>,
    /// The rest of the slot being walked.
    slot: std::slice::Iter<'a, Partition>,
    token: i64,
    /// Keys of the first and last token that the range leaves out.
    start: Option<(i64, Box<[u8]>, Side)>,
    end: Option<(i64, Box<[u8]>, Side)>,
}

impl<'a> Partitions<'a> {
    pub(super) fn new(partitions: &'a BTreeMap<i64, Slot>, range: &PartitionRange<'_>) -> Self {
        let (start, end) = range.bounds();
        // A bound without a key leaves all or nothing of its token out.
        let first = match (start.key, start.side) {
            (None, Side::After) => start.token.0.checked_add(1),
            _ => Some(start.token.0),
        };
        let last = match (end.key, end.side) {
            (None, Side::Before) => end.token.0.checked_sub(1),
            _ => Some(end.token.0),
        };
        let slots = match (first, last) {
            (Some(first), Some(last)) if first <= last => partitions.range(first..=last),
            // An empty range; `range` panics where start and end are excluded and equal, or out of order.
            _ => partitions.range(0..0),
        };
        let keyed = |bound: PartitionBound<'_>| bound.key.map(|key| (bound.token.0, key.into(), bound.side));
        Partitions {
            slots,
            slot: [].iter(),
            token: 0,
            start: keyed(start),
            end: keyed(end),
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        let is_after_start = self.start.as_ref().is_none_or(|(token, bound, side)| {
            *token != self.token
                || match key.cmp(bound) {
                    Ordering::Equal => *side == Side::Before,
                    ordering => ordering == Ordering::Greater,
                }
        });
        let is_before_end = self.end.as_ref().is_none_or(|(token, bound, side)| {
            *token != self.token
                || match key.cmp(bound) {
                    Ordering::Equal => *side == Side::After,
                    ordering => ordering == Ordering::Less,
                }
        });
        is_after_start && is_before_end
    }
}

impl<'a> Iterator for Partitions<'a> {
    type Item = (Token, &'a Partition);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some(partition) = self.slot.next() {
                if self.contains(partition.key()) {
                    return Some((Token(self.token), partition));
                }
            }
            let (token, slot) = self.slots.next()?;
            self.token = *token;
            self.slot = slot.as_slice().iter();
        }
    }
}

/// [`Partitions`] as a source of a merge.
#[derive(Debug)]
pub struct MemtableScanner<'a> {
    partitions: Partitions<'a>,
    comparator: &'a ClusteringComparator,
    slices: &'a [Slice],
    reversed: bool,
    current: Option<(Token, &'a Partition)>,
}

impl<'a> MemtableScanner<'a> {
    pub(super) fn new(
        partitions: Partitions<'a>,
        comparator: &'a ClusteringComparator,
        slices: &'a [Slice],
        reversed: bool,
    ) -> Self {
        MemtableScanner {
            partitions,
            comparator,
            slices,
            reversed,
            current: None,
        }
    }
}

impl PartitionScanner for MemtableScanner<'_> {
    fn advance(&mut self) -> Result<bool, ReadError> {
        self.current = self.partitions.next();
        Ok(self.current.is_some())
    }

    fn advance_to(&mut self, start: &PartitionBound<'_>) -> Result<bool, ReadError> {
        while self
            .current
            .is_none_or(|(token, partition)| start.is_behind(token, partition.key()))
        {
            if !self.advance()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn position(&self) -> (Token, &[u8]) {
        self.current.map_or((Token::MINIMUM, &[]), |(token, partition)| {
            (token, partition.key())
        })
    }

    fn open(&mut self) -> Result<OpenPartition<'_>, ReadError> {
        let Some((_, partition)) = self.current else {
            unreachable!("opened without a position")
        };
        Ok(OpenPartition::Owned(Box::new(MemtableCursor::new(
            partition,
            self.comparator,
            self.slices,
            self.reversed,
        ))))
    }
}
