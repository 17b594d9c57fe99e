//! A block's rows and markers in memory, to be given out backwards.

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

#[derive(Debug)]
struct StoredItem {
    decoded: Decoded,
    /// Of the clustering within the block's bytes; the row follows it.
    clustering_start: usize,
    row_start: usize,
    end: usize,
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

    /// What an item is, and its clustering.
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
