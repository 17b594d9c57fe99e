//! One partition in the cache.

use std::cell::Cell;
use std::ops::Range;

use helenus_types::Token;

use super::block::Block;
use super::builder::BlockBuilder;
use super::item::{
    IS_DELETED, Item, Knowledge, compare_bounds, decode_deletion, encode_deletion, encode_sized, split_sized,
};
use helenus_rows::clustering::{ClusteringComparator, Side};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_rows::update::BoundRef;

/// Overhead of the allocator for each allocation, in bytes: mimalloc's size classes waste up to an eighth of it.
const ALLOCATION_OVERHEAD_BYTES: usize = 16;

/// In the flags of the head.
const HAS_STATIC_ROW: u8 = 0x40;

pub(super) const BOTTOM: BoundRef<'static> = BoundRef {
    prefix: &[],
    side: Side::Before,
};

/// Key, deletion and static row of a partition as all SSTables together have them, and those of its rows that were
/// read. A partition that is cached was looked for in every SSTable.
///
/// The first block shares an allocation with what it comes behind, so that a partition of one row costs one:
///
/// | part | bytes |
/// |---|---|
/// | flags | 1 |
/// | deletion | with `IS_DELETED`: timestamp i64, local time u32 |
/// | partition key | length, bytes |
/// | static row | with `HAS_STATIC_ROW`: length, packed row |
/// | first block | the rest |
#[derive(Debug)]
pub struct CachedPartition {
    token: Token,
    /// Number of the table that it belongs to, in the cache.
    pub(super) table: u32,
    /// The next slot of those with the same token.
    pub(super) next: u32,
    first: Box<[u8]>,
    /// Blocks after the first one, in order. Boxed: most partitions have none.
    more: Option<Box<MoreBlocks>>,
    is_visited: Cell<bool>,
}

#[derive(Debug, Default)]
struct MoreBlocks {
    blocks: Vec<MoreBlock>,
    /// Their sum.
    bytes: usize,
}

#[derive(Debug)]
struct MoreBlock {
    bytes: Box<[u8]>,
    /// True if the block was read since the eviction looked at it.
    is_visited: Cell<bool>,
}

/// Knowledge of the cache about one row.
#[derive(Clone, Copy, Debug)]
pub enum CachedRow<'a> {
    Unknown,
    /// The row, if there is one, as the SSTables have it, and the range deletion in force at its place.
    Known {
        found: Option<(&'a [u8], RowRef<'a>)>,
        deletion: DeletionTime,
    },
}

struct Head<'a> {
    deletion: DeletionTime,
    key: &'a [u8],
    static_row: &'a [u8],
    block: &'a [u8],
}

impl CachedPartition {
    pub(super) fn new(
        table: u32,
        token: Token,
        key: &[u8],
        deletion: DeletionTime,
        static_row: RowRef<'_>,
    ) -> Self {
        let mut blocks = BlockBuilder::new(
            &encode_head(deletion, key, static_row),
            BOTTOM,
            Knowledge::Unknown,
        )
        .finish();
        CachedPartition {
            token,
            table,
            next: super::index::NONE,
            first: blocks.pop().unwrap_or_default(),
            more: None,
            is_visited: Cell::new(false),
        }
    }

    pub fn token(&self) -> Token {
        self.token
    }

    pub fn key(&self) -> &[u8] {
        self.head().key
    }

    pub fn deletion(&self) -> DeletionTime {
        self.head().deletion
    }

    pub fn static_row(&self) -> RowRef<'_> {
        RowRef::new(self.head().static_row)
    }

    #[inline]
    fn head(&self) -> Head<'_> {
        let (&flags, rest) = self.first.split_first().unwrap_or((&0, &[]));
        let (deletion, rest) = if flags & IS_DELETED == 0 {
            (DeletionTime::LIVE, rest)
        } else {
            decode_deletion(rest)
        };
        let (key, rest) = split_sized(rest);
        let (static_row, block) = if flags & HAS_STATIC_ROW == 0 {
            (RowRef::EMPTY.as_bytes(), rest)
        } else {
            split_sized(rest)
        };
        Head {
            deletion,
            key,
            static_row,
            block,
        }
    }

    /// The row under a complete clustering key.
    #[inline]
    pub fn row(&self, comparator: &ClusteringComparator, key: &[u8]) -> CachedRow<'_> {
        let block = self.block(self.block_of_key(comparator, key));
        Self::row_of(&block, comparator, key)
    }

    /// The partition's deletion and static row, and the row under a complete clustering key.
    #[inline]
    pub fn point(
        &self,
        comparator: &ClusteringComparator,
        key: &[u8],
    ) -> ((DeletionTime, RowRef<'_>), CachedRow<'_>) {
        let head = self.head();
        let row = match self.block_of_key(comparator, key) {
            0 => {
                self.is_visited.set(true);
                Self::row_of(&Block::parse(head.block), comparator, key)
            }
            index => Self::row_of(&self.block(index), comparator, key),
        };
        ((head.deletion, RowRef::new(head.static_row)), row)
    }

    #[inline]
    fn row_of<'b>(block: &Block<'b>, comparator: &ClusteringComparator, key: &[u8]) -> CachedRow<'b> {
        match block.find(comparator, key) {
            Ok((index, item)) => {
                let Item::Row {
                    clustering,
                    row,
                    is_island,
                } = item
                else {
                    return CachedRow::Unknown;
                };
                let deletion = match block.knowledge_before(index) {
                    Knowledge::Known(deletion) if !is_island => deletion,
                    _ => DeletionTime::LIVE,
                };
                CachedRow::Known {
                    found: (!row.is_empty()).then_some((clustering, row)),
                    deletion,
                }
            }
            Err(index) => match block.knowledge_before(index) {
                Knowledge::Unknown => CachedRow::Unknown,
                Knowledge::Known(deletion) => CachedRow::Known {
                    found: None,
                    deletion,
                },
            },
        }
    }

    /// A block that is about to be read.
    #[inline]
    pub(super) fn block(&self, index: usize) -> Block<'_> {
        let more = index
            .checked_sub(1)
            .and_then(|index| self.more.as_ref()?.blocks.get(index));
        match more {
            None => {
                self.is_visited.set(true);
                Block::parse(self.head().block)
            }
            Some(block) => {
                block.is_visited.set(true);
                Block::parse(&block.bytes)
            }
        }
    }

    /// The last block that begins before a bound, or at it.
    pub(super) fn block_at(&self, comparator: &ClusteringComparator, bound: BoundRef<'_>) -> usize {
        self.last_block(|start| compare_bounds(comparator, start, bound).is_le())
    }

    /// The last block that begins before a bound.
    pub(super) fn block_before(&self, comparator: &ClusteringComparator, bound: BoundRef<'_>) -> usize {
        self.last_block(|start| compare_bounds(comparator, start, bound).is_lt())
    }

    #[inline]
    fn block_of_key(&self, comparator: &ClusteringComparator, key: &[u8]) -> usize {
        self.last_block(|start| comparator.compare_to_place(key, start.prefix, start.side).is_gt())
    }

    #[inline]
    fn last_block(&self, begins_before: impl Fn(BoundRef<'_>) -> bool) -> usize {
        self.more.as_ref().map_or(0, |more| {
            more.blocks
                .partition_point(|block| begins_before(Block::parse(&block.bytes).start))
        })
    }

    /// Makes known what lies between two bounds: `deletion` is in force from the start on, and `items` tell the rest.
    pub(super) fn fill<'i>(
        &mut self,
        comparator: &ClusteringComparator,
        (start, end): (BoundRef<'_>, BoundRef<'_>),
        deletion: DeletionTime,
        items: impl Iterator<Item = Item<'i>>,
    ) {
        if compare_bounds(comparator, start, end).is_ge() {
            return;
        }
        let (first, last) = (self.block_at(comparator, start), self.block_at(comparator, end));
        let (before, after) = (self.block(first), self.block(last));
        let mut builder = self.rebuild(first);
        if first == last {
            builder.halve(&before);
        }
        let kept = before.first_at(comparator, start);
        before.items().take(kept).for_each(|item| builder.push(item));
        builder.mark(start, Knowledge::Known(deletion));
        items.for_each(|item| builder.push(item));
        let kept = after.first_after(comparator, end);
        builder.mark(end, after.knowledge_before(kept));
        after.items().skip(kept).for_each(|item| builder.push(item));
        self.replace(first..last + 1, builder.finish());
    }

    /// Makes one row known, or that it does not exist, where its surroundings are unknown; replaces a row that is.
    pub(super) fn put_row(&mut self, comparator: &ClusteringComparator, key: &[u8], row: RowRef<'_>) {
        let at = self.block_of_key(comparator, key);
        let block = self.block(at);
        let found = block.find(comparator, key);
        let (Ok((index, _)) | Err(index)) = found;
        let is_island = !block.knowledge_before(index).is_known();
        let mut builder = self.rebuild(at);
        builder.halve(&block);
        block.items().take(index).for_each(|item| builder.push(item));
        if is_island || !row.is_empty() {
            builder.push(Item::Row {
                clustering: key,
                row,
                is_island,
            });
        }
        let next = if found.is_ok() { index + 1 } else { index };
        block.items().skip(next).for_each(|item| builder.push(item));
        self.replace(at..at + 1, builder.finish());
    }

    /// Puts another deletion and static row in the place of what is there.
    pub(super) fn set_head(&mut self, deletion: DeletionTime, static_row: RowRef<'_>) {
        let head = self.head();
        let mut first = encode_head(deletion, head.key, static_row);
        first.extend_from_slice(head.block);
        self.first = first.into_boxed_slice();
    }

    /// Forgets blocks, until at least `bytes_wanted` are free: those that were not read since the last call, or any where
    /// visited ones are not spared. Whether nothing is left of the partition.
    pub(super) fn evict(&mut self, bytes_wanted: usize, spares_visited: bool) -> bool {
        let mut freed = 0;
        let mut evicted = Vec::new();
        for (index, block) in self.more.iter().flat_map(|more| &more.blocks).enumerate() {
            if freed >= bytes_wanted {
                break;
            }
            if !block.is_visited.replace(false) || !spares_visited {
                freed += block_bytes(&block.bytes);
                evicted.push(index + 1);
            }
        }
        // From the end, so that a block that is given a mark is not one that goes.
        let mut rest = &evicted[..];
        while let Some(&last) = rest.last() {
            let run = rest
                .iter()
                .rev()
                .zip((0..=last).rev())
                .take_while(|(at, index)| **at == *index);
            let run_length = run.count();
            self.forget(last + 1 - run_length..last + 1);
            rest = &rest[..rest.len() - run_length];
        }
        if freed >= bytes_wanted || (self.is_visited.replace(false) && spares_visited) {
            return false;
        }
        let block = Block::parse(self.head().block);
        let is_empty = block.item_count() == 0 && !block.initial().is_known();
        if self.more.is_none() {
            return true;
        }
        if !is_empty {
            let blocks = self.rebuild_empty().finish();
            self.replace(0..1, blocks);
        }
        false
    }

    /// Makes unknown what some blocks hold, of which the first is not one.
    fn forget(&mut self, blocks: Range<usize>) {
        let before = blocks.start - 1;
        let block = Block::parse(self.block_bytes_at(before));
        let mut replacement = Vec::new();
        let replaced = if block.final_knowledge().is_known() {
            let start = Block::parse(self.block_bytes_at(blocks.start)).start;
            let mut builder = self.rebuild(before);
            block.items().for_each(|item| builder.push(item));
            builder.mark(start, Knowledge::Unknown);
            replacement = builder.finish();
            before..blocks.end
        } else {
            blocks
        };
        self.replace(replaced, replacement);
    }

    fn block_bytes_at(&self, index: usize) -> &[u8] {
        let more = index
            .checked_sub(1)
            .and_then(|index| self.more.as_ref()?.blocks.get(index));
        more.map_or(self.head().block, |block| &block.bytes)
    }

    /// Bytes that it holds, the allocator's included.
    pub(super) fn bytes(&self) -> usize {
        let more = self.more.as_ref().map_or(0, |more| {
            more.bytes + size_of::<MoreBlocks>() + 2 * ALLOCATION_OVERHEAD_BYTES
        });
        size_of::<Option<CachedPartition>>() + self.first.len() + ALLOCATION_OVERHEAD_BYTES + more
    }

    /// A builder that begins as a block does.
    fn rebuild(&self, index: usize) -> BlockBuilder {
        let bytes = self.block_bytes_at(index);
        let block = Block::parse(bytes);
        let head = if index == 0 {
            self.first.get(..self.first.len() - bytes.len()).unwrap_or(&[])
        } else {
            &[]
        };
        BlockBuilder::new(head, block.start, block.initial())
    }

    fn rebuild_empty(&self) -> BlockBuilder {
        let head_length = self.first.len() - self.head().block.len();
        let head = self.first.get(..head_length).unwrap_or(&[]);
        BlockBuilder::new(head, BOTTOM, Knowledge::Unknown)
    }

    /// Puts blocks in the place of others. Those that replace the first one begin with a block for it.
    fn replace(&mut self, replaced: Range<usize>, blocks: Vec<Box<[u8]>>) {
        let mut blocks = blocks.into_iter();
        let mut start = replaced.start;
        if start == 0 {
            let Some(first) = blocks.next() else { return };
            self.first = first;
            start = 1;
        }
        let range = start - 1..replaced.end - 1;
        if range.is_empty() && blocks.len() == 0 {
            return;
        }
        let more = self.more.get_or_insert_default();
        let bytes = |block: &MoreBlock| block_bytes(&block.bytes);
        let blocks: Vec<_> = blocks
            .map(|bytes| MoreBlock {
                bytes,
                is_visited: Cell::new(false),
            })
            .collect();
        more.bytes += blocks.iter().map(bytes).sum::<usize>();
        let replaced = more.blocks.splice(range, blocks);
        more.bytes -= replaced.map(|block| bytes(&block)).sum::<usize>();
        if more.blocks.is_empty() {
            self.more = None;
        }
    }
}

fn block_bytes(bytes: &[u8]) -> usize {
    bytes.len() + ALLOCATION_OVERHEAD_BYTES + size_of::<MoreBlock>()
}

fn encode_head(deletion: DeletionTime, key: &[u8], static_row: RowRef<'_>) -> Vec<u8> {
    let flags = if static_row.is_empty() { 0 } else { HAS_STATIC_ROW };
    let mut head = Vec::new();
    if deletion.is_live() {
        head.push(flags);
    } else {
        head.push(flags | IS_DELETED);
        encode_deletion(deletion, &mut head);
    }
    encode_sized(key, &mut head);
    if !static_row.is_empty() {
        encode_sized(static_row.as_bytes(), &mut head);
    }
    head
}
