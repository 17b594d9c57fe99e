//! Index entries of a partition and of its blocks, whatever the index's form, and the input of an index that is written.

use helenus_rows::deletion::DeletionTime;
use helenus_types::Token;

use crate::block::checksums::PageChecksums;
use crate::rows::clustering_codec::Place;
use crate::version::Version;

/// One partition's entry, without its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub token: Token,
    /// Empty where it was looked up by its key.
    pub key: Vec<u8>,
    /// Position of the partition in Data.db.
    pub position: u64,
    /// That of the next partition, where its entry lay at hand.
    pub end: Option<u64>,
    /// The index cannot tell the key from others like it: whether the partition is that key's shows in Data.db.
    pub is_candidate: bool,
    pub blocks: Option<BlockIndex>,
}

impl Default for IndexEntry {
    /// Returns an entry of no partition; memory for the next one that is read.
    fn default() -> Self {
        IndexEntry {
            token: Token::MINIMUM,
            key: Vec::new(),
            position: 0,
            end: None,
            is_candidate: false,
            blocks: None,
        }
    }
}

/// Where the blocks of a large partition are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockIndex {
    Promoted(PromotedIndex),
    Trie(TrieIndex),
}

/// Where the blocks of a large partition are described in Index.db.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PromotedIndex {
    pub block_count: u32,
    /// From the partition's start to its first row.
    pub header_length: u64,
    /// Deletion of the partition.
    pub deletion: DeletionTime,
    pub version: Version,
    /// Position of the first block's description.
    pub blocks_at: u64,
    /// Position of the table of offsets.
    pub offsets_at: u64,
}

/// The trie of a partition's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrieIndex {
    pub root: u64,
    pub block_count: u32,
    /// Deletion of the partition.
    pub deletion: DeletionTime,
}

/// A stretch of a partition's rows and markers. Offsets count from the partition's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockSpan {
    /// Names the block to the index that it came from.
    pub id: u64,
    pub start: u64,
    /// Where the next block starts; of the last block, where the partition ends.
    pub end: u64,
    /// The first row or marker, if the index says which.
    pub first: Option<Place>,
    /// The range deletion in force before it.
    pub open_before: DeletionTime,
}

/// Bounds of a block that is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockBounds {
    pub first: BlockPlace,
    pub last: BlockPlace,
    /// From the partition's start.
    pub offset: u64,
    pub width: u64,
}

/// Where a row or marker lies: its packed prefix, and its kind as it is stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockPlace {
    pub prefix: Vec<u8>,
    pub kind: u8,
}

impl BlockPlace {
    pub fn set(&mut self, prefix: &[u8], kind: u8) {
        self.prefix.clear();
        self.prefix.extend_from_slice(prefix);
        self.kind = kind;
    }
}

/// A partition that was written to Data.db.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenPartition<'a> {
    pub token: Token,
    pub key: &'a [u8],
    /// Both halves of the hash that the token comes from.
    pub key_hash: [u64; 2],
    /// Position of the partition in Data.db.
    pub position: u64,
    /// From there to its first row.
    pub header_length: u64,
    pub deletion: DeletionTime,
    /// In Data.db, with the mark of its end.
    pub length: u64,
}

/// Checksums of the index, for Checksums.db.
#[derive(Debug)]
pub(crate) struct FinishedIndex {
    pub summary_checksum: u32,
    pub page_checksums: Vec<PageChecksums>,
}
