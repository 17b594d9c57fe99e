//! A block's rows and markers in memory, to be given out backwards.

use crate::index::entry::BlockSpan;
use crate::rows::row_decoder::{Decoded, Item};
use crate::source::Unfiltered;
use helenus_rows::row::RowRef;
use helenus_rows::update::BoundRef;

/// Items in forward order.
#[derive(Debug, Default)]
pub(crate) struct StoredBlock {
    bytes: Vec<u8>,
    items: Vec<StoredItem>,
}

/// State of a reversed walk.
#[derive(Debug, Default)]
pub(crate) struct Backward {
    pub block: StoredBlock,
    /// Items of the block that are not passed yet; the next one is the last of them.
    pub left: usize,
    /// The block's place in the index; `None` for the only block of a partition, or before the first was read.
    pub span: Option<BlockSpan>,
    /// The block is all there.
    pub is_loaded: bool,
    /// The start of the block that the slice ends in, once it was looked up: no block before it is needed.
    pub floor: Option<u64>,
    /// How much the last request backwards asked for.
    pub prefetched: u64,
}

#[derive(Debug)]
struct StoredItem {
    decoded: Decoded,
    /// Start of the clustering within the block's bytes; the row follows it.
    clustering_start: usize,
    row_start: usize,
    end: usize,
}

impl Backward {
    pub fn reset(&mut self) {
        self.left = 0;
        self.span = None;
        self.is_loaded = false;
        self.floor = None;
        self.prefetched = 0;
    }
}

impl StoredBlock {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn push(&mut self, decoded: Decoded, item: &Item) {
        let clustering_start = self.bytes.len();
        self.bytes.extend_from_slice(&item.clustering);
        let row_start = self.bytes.len();
        self.bytes.extend_from_slice(&item.row);
        self.items.push(StoredItem {
            decoded,
            clustering_start,
            row_start,
            end: self.bytes.len(),
        });
    }

    /// Returns the kind of an item, and its clustering.
    pub fn peek(&self, index: usize) -> (Decoded, &[u8]) {
        let item = &self.items[index];
        (item.decoded, &self.bytes[item.clustering_start..item.row_start])
    }

    /// As it is met when read backwards: a marker begins what was in force before it.
    pub fn item(&self, index: usize) -> Unfiltered<'_> {
        let (decoded, clustering) = self.peek(index);
        let item = &self.items[index];
        match decoded {
            Decoded::Marker { side, before, .. } => Unfiltered::Marker {
                bound: BoundRef {
                    prefix: clustering,
                    side,
                },
                deletion: before,
            },
            Decoded::Row | Decoded::EndOfPartition => Unfiltered::Row {
                clustering,
                row: RowRef::new(&self.bytes[item.row_start..item.end]),
            },
        }
    }
}
