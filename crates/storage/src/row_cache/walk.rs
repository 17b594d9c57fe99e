//! Going through a cached partition item by item, in either direction.

use super::block::Block;
use super::item::{Item, Knowledge};
use super::partition::CachedPartition;
use helenus_rows::clustering::{ClusteringComparator, Slice};
use helenus_rows::row::RowRef;
use helenus_rows::update::BoundRef;

/// Next piece of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    Row {
        clustering: &'a [u8],
        /// Empty where it is known that there is none.
        row: RowRef<'a>,
    },
    /// From this bound on, in the direction of the walk, this is known.
    Change {
        bound: BoundRef<'a>,
        knowledge: Knowledge,
    },
}

/// An item's place: its block, and its index there, or past the block's last item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    block: usize,
    index: usize,
}

/// A walk through one slice.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    partition: &'a CachedPartition,
    reversed: bool,
    block: Block<'a>,
    /// Position of the next item; walking backwards, one past it.
    at: Position,
    end: Position,
}

impl<'a> Walk<'a> {
    /// The walk, and what is known where it begins.
    pub fn new(
        partition: &'a CachedPartition,
        comparator: &ClusteringComparator,
        slice: &'a Slice,
        reversed: bool,
    ) -> (Self, Knowledge) {
        let (start, end) = (slice.start.borrowed(), slice.end.borrowed());
        let first = partition.block_at(comparator, start);
        let first = Position {
            block: first,
            index: partition.block(first).first_after(comparator, start),
        };
        let last = partition.block_before(comparator, end);
        let last = Position {
            block: last,
            index: partition.block(last).first_at(comparator, end),
        };
        // A slice that ends before it begins is empty.
        let last = last.max(first);
        let (at, end) = if reversed { (last, first) } else { (first, last) };
        let block = partition.block(at.block);
        let knowledge = block.knowledge_before(at.index);
        let walk = Walk {
            partition,
            reversed,
            block,
            at,
            end,
        };
        (walk, knowledge)
    }

    pub fn next(&mut self) -> Option<Piece<'a>> {
        if self.reversed {
            self.previous_piece()
        } else {
            self.next_piece()
        }
    }

    fn next_piece(&mut self) -> Option<Piece<'a>> {
        if self.at == self.end {
            return None;
        }
        if self.at.index >= self.block.item_count() {
            self.enter(Position {
                block: self.at.block + 1,
                index: 0,
            });
            return Some(Piece::Change {
                bound: self.block.start,
                knowledge: self.block.initial(),
            });
        }
        let item = self.block.item(self.at.index);
        self.at.index += 1;
        Some(match item {
            Item::Row { clustering, row, .. } => Piece::Row { clustering, row },
            Item::Mark { bound, knowledge } => Piece::Change { bound, knowledge },
        })
    }

    fn previous_piece(&mut self) -> Option<Piece<'a>> {
        if self.at == self.end {
            return None;
        }
        if self.at.index == 0 {
            let bound = self.block.start;
            let block = self.at.block.checked_sub(1)?;
            self.enter(Position {
                block,
                index: self.partition.block(block).item_count(),
            });
            return Some(Piece::Change {
                bound,
                knowledge: self.block.final_knowledge(),
            });
        }
        self.at.index -= 1;
        Some(match self.block.item(self.at.index) {
            Item::Row { clustering, row, .. } => Piece::Row { clustering, row },
            Item::Mark { bound, .. } => Piece::Change {
                bound,
                knowledge: self.block.knowledge_before(self.at.index),
            },
        })
    }

    fn enter(&mut self, position: Position) {
        self.at = position;
        self.block = self.partition.block(position.block);
    }
}
