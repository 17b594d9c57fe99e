//! The blocks of a large partition, as whatever index there is finds them.

use crate::big::block_file::{PAGED_ID, PagedBlocks};
use crate::big::index::PromotedBlocks;
use crate::bti::TrieBlocks;
use crate::error::ReadError;
use crate::index::entry::BlockSpan;
use crate::rows::clustering_codec::Place;
use helenus_rows::clustering::{ClusteringBound, ClusteringComparator, Components, Side, Slice};

/// Where the rows of one large partition lie, by their clustering. Lookups read index pages, never data.
#[derive(Debug)]
pub(crate) enum Blocks<'a> {
    /// Blocks in Index.db.
    Promoted(PromotedBlocks<'a>),
    /// Blocks in our Blocks.db.
    Paged(PagedBlocks<'a>),
    /// Blocks in Rows.db.
    Trie(TrieBlocks<'a>),
}

impl BlockSpan {
    /// Returns whether an index can say what lies before the block.
    pub fn is_of(&self, blocks: Option<&Blocks<'_>>) -> bool {
        let is_paged = self.id & PAGED_ID != 0;
        blocks.is_some_and(|blocks| matches!(blocks, Blocks::Paged(_)) == is_paged)
    }
}

impl Blocks<'_> {
    /// The block from which on a forward read meets everything of a slice that starts at a bound.
    pub fn first_of(
        &mut self,
        comparator: &ClusteringComparator,
        start: &ClusteringBound,
    ) -> Result<BlockSpan, ReadError> {
        let is_key = start.side == Side::Before && is_whole(comparator, start);
        if let Blocks::Trie(blocks) = self {
            return blocks.first_of(start, is_key);
        }
        let holds = |first: &Place| {
            if is_key {
                // The row of that very key may begin the block: what is in force before it, the index says.
                let after = (&*start.prefix, Side::After);
                first.compare_to_bound(comparator, after).is_lt()
            } else {
                first
                    .compare_to_bound(comparator, (&start.prefix, start.side))
                    .is_le()
            }
        };
        self.last_where(&holds)
    }

    /// The block that has the last row or marker before a bound.
    pub fn last_before(
        &mut self,
        comparator: &ClusteringComparator,
        end: &ClusteringBound,
    ) -> Result<BlockSpan, ReadError> {
        if let Blocks::Trie(blocks) = self {
            let is_key = end.side == Side::After && is_whole(comparator, end);
            return blocks.last_before(end, is_key);
        }
        self.last_where(&|first| {
            first
                .compare_to_bound(comparator, (&end.prefix, end.side))
                .is_lt()
        })
    }

    /// Before which offset everything lies that comes before a bound, as far as that can be said without reading
    /// index pages far from the block where the slice starts.
    pub fn end_before(
        &mut self,
        comparator: &ClusteringComparator,
        from: &BlockSpan,
        end: &ClusteringBound,
    ) -> Result<u64, ReadError> {
        let holds = |first: &Place| {
            first
                .compare_to_bound(comparator, (&end.prefix, end.side))
                .is_lt()
        };
        match self {
            Blocks::Promoted(blocks) => blocks.end_where(from, &holds),
            Blocks::Paged(blocks) => blocks.end_where(from, &holds),
            Blocks::Trie(blocks) => blocks.end_before(end),
        }
    }

    /// Returns whether all of a slice is in the block that it is found at: the row of a key.
    pub fn has_one_block(&self, comparator: &ClusteringComparator, slice: &Slice) -> bool {
        let is_found = match self {
            Blocks::Promoted(_) | Blocks::Paged(_) => true,
            Blocks::Trie(blocks) => blocks.finds(&slice.start.prefix),
        };
        is_found && slice.as_key(comparator.component_count()).is_some()
    }

    /// The block before, if there is one.
    pub fn before(&mut self, block: &BlockSpan) -> Result<Option<BlockSpan>, ReadError> {
        match self {
            Blocks::Promoted(blocks) => blocks.before(block),
            Blocks::Paged(blocks) => blocks.before(block),
            Blocks::Trie(blocks) => blocks.before(block),
        }
    }

    /// Returns whether a slice of one key is certain to have nothing: no row, and no range deletion either.
    pub fn lacks(&mut self, block: &BlockSpan, slice: &Slice) -> Result<bool, ReadError> {
        match self {
            // Where a slice begins after all blocks, it is given an empty one.
            Blocks::Promoted(_) | Blocks::Trie(_) => Ok(block.start >= block.end),
            Blocks::Paged(blocks) => blocks.lacks(block, &slice.start.prefix),
        }
    }

    /// The last block for whose first place a test holds, if it holds for those before; the first block else.
    fn last_where(&mut self, holds: &dyn Fn(&Place) -> bool) -> Result<BlockSpan, ReadError> {
        match self {
            Blocks::Promoted(blocks) => blocks.last_where(holds),
            Blocks::Paged(blocks) => blocks.last_where(holds),
            Blocks::Trie(blocks) => blocks.last(),
        }
    }
}

fn is_whole(comparator: &ClusteringComparator, bound: &ClusteringBound) -> bool {
    Components::new(&bound.prefix).count() == comparator.component_count()
}
