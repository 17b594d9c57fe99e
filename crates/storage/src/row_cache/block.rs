//! A run of items in one allocation, with a table of where they begin.
//!
//! | part | bytes |
//! |---|---|
//! | head | flags 1, with `IS_DELETED` timestamp i64 and local time u32, prefix length, prefix |
//! | items | one after the other |
//! | offsets | u32 each, of every item but the first, from the first one's start |
//! | count | of the items, u32 |
//!
//! The head says from which bound on the block holds what is known, and what is known there before its first mark.
//! It ends where the next block begins. These bytes never leave the process, so they are not checked: those that end
//! early read as items that end early, as in [`RowRef`](helenus_rows::row::RowRef).

use std::cmp::Ordering;

use super::item::{IS_MARK, Item, Knowledge, side_of, split_sized};
use helenus_rows::clustering::ClusteringComparator;
use helenus_rows::update::BoundRef;

/// A block is closed once its items have reached this: a page, of which a hit looks at two or three cache lines, and
/// little enough to write anew when a row in it changes.
pub(super) const BLOCK_BYTES_TARGET: usize = 4_096;

/// In the flags of the head: at least one of the items is a mark.
pub(super) const HAS_MARKS: u8 = 0x20;

#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    pub start: BoundRef<'a>,
    /// Knowledge of the places from `start` on.
    initial: Knowledge,
    has_marks: bool,
    count: usize,
    items: &'a [u8],
    offsets: &'a [u8],
}

impl<'a> Block<'a> {
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Self {
        let (&flags, rest) = bytes.split_first().unwrap_or((&0, &[]));
        let (initial, rest) = Knowledge::decode(flags, rest);
        let (prefix, rest) = split_sized(rest);
        let (rest, count) = rest.split_last_chunk::<4>().map_or((rest, 0), |(rest, count)| {
            (rest, u32::from_le_bytes(*count) as usize)
        });
        let offset_bytes = count.saturating_sub(1) * 4;
        let (items, offsets) = rest.split_at(rest.len().saturating_sub(offset_bytes));
        Block {
            start: BoundRef {
                prefix,
                side: side_of(flags),
            },
            initial,
            has_marks: flags & HAS_MARKS != 0,
            count,
            items,
            offsets,
        }
    }

    pub fn item_count(&self) -> usize {
        self.count
    }

    pub fn items_bytes(&self) -> usize {
        self.items.len()
    }

    fn offset(&self, index: usize) -> Option<usize> {
        let Some(before) = index.checked_sub(1) else {
            return Some(0);
        };
        let (_, rest) = self.offsets.split_at_checked(before * 4)?;
        Some(u32::from_le_bytes(*rest.first_chunk()?) as usize)
    }

    #[inline]
    fn item_bytes(&self, index: usize) -> &'a [u8] {
        let start = self.offset(index).unwrap_or(self.items.len());
        let end = self.offset(index + 1).unwrap_or(self.items.len());
        self.items.get(start..end).unwrap_or(&[])
    }

    #[inline]
    pub fn item(&self, index: usize) -> Item<'a> {
        Item::decode(self.item_bytes(index))
    }

    pub fn items(&self) -> impl Iterator<Item = Item<'a>> + '_ {
        (0..self.item_count()).map(|index| self.item(index))
    }

    /// Returns the knowledge of the places between the item before `index` and the one at it.
    #[inline]
    pub fn knowledge_before(&self, index: usize) -> Knowledge {
        if !self.has_marks {
            return self.initial;
        }
        let is_mark = |bytes: &&[u8]| bytes.first().is_some_and(|flags| flags & IS_MARK != 0);
        let marks = (0..index).rev().map(|index| self.item_bytes(index)).find(is_mark);
        match marks.map(Item::decode) {
            Some(Item::Mark { knowledge, .. }) => knowledge,
            _ => self.initial,
        }
    }

    /// Returns the knowledge of the places up to the next block.
    pub fn final_knowledge(&self) -> Knowledge {
        self.knowledge_before(self.item_count())
    }

    pub fn initial(&self) -> Knowledge {
        self.initial
    }

    /// The first item that does not lie before a bound.
    pub fn first_at(&self, comparator: &ClusteringComparator, bound: BoundRef<'_>) -> usize {
        self.partition_point(|item| item.compare_to_bound(comparator, bound) == Ordering::Less)
    }

    /// The first item after a bound.
    pub fn first_after(&self, comparator: &ClusteringComparator, bound: BoundRef<'_>) -> usize {
        self.partition_point(|item| item.compare_to_bound(comparator, bound) != Ordering::Greater)
    }

    /// The row under a key and its place, or the place where it belongs.
    #[inline]
    pub fn find(&self, comparator: &ClusteringComparator, key: &[u8]) -> Result<(usize, Item<'a>), usize> {
        let (mut low, mut high) = (0, self.item_count());
        while low < high {
            let middle = low.midpoint(high);
            let item = self.item(middle);
            match item.compare_to_key(comparator, key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok((middle, item)),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    #[inline]
    fn partition_point(&self, is_before: impl Fn(Item<'a>) -> bool) -> usize {
        let (mut low, mut high) = (0, self.item_count());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(self.item(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
