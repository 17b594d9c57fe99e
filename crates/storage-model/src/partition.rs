//! One partition, as it is written and as a whole forward read returns it.

use std::collections::BTreeMap;

use helenus_rows::clustering::{Side, push_component};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Entry, Liveness, RowBuilder, RowRef};
use helenus_schema::ColumnId;
use helenus_types::Token;
use helenus_types::token::token_of;

#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    pub deletion: DeletionTime,
    pub static_row: Vec<u8>,
    pub items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Row {
        clustering: Vec<u8>,
        row: Vec<u8>,
    },
    /// `deletion` is in force from here on.
    Marker {
        prefix: Vec<u8>,
        side: Side,
        deletion: DeletionTime,
    },
}

/// A table's partitions in the order of its files.
pub type Partitions = BTreeMap<(Token, Vec<u8>), Partition>;

impl Default for Partition {
    fn default() -> Self {
        Partition {
            deletion: DeletionTime::LIVE,
            static_row: empty_row(),
            items: Vec::new(),
        }
    }
}

impl Partition {
    pub fn row(&mut self, clustering: Vec<u8>, row: Vec<u8>) -> &mut Self {
        self.items.push(Item::Row { clustering, row });
        self
    }

    pub fn marker(&mut self, prefix: Vec<u8>, side: Side, deletion: DeletionTime) -> &mut Self {
        self.items.push(Item::Marker {
            prefix,
            side,
            deletion,
        });
        self
    }
}

pub fn insert(partitions: &mut Partitions, partition_key: &[u8], partition: Partition) {
    partitions.insert((token_of(partition_key), partition_key.to_vec()), partition);
}

pub fn empty_row() -> Vec<u8> {
    RowRef::EMPTY.as_bytes().to_vec()
}

/// Returns whether nothing of the row is left without the column.
pub(crate) fn is_empty_without(row: &[u8], gone: ColumnId) -> bool {
    let (liveness, deletion, mut entries) = RowRef::new(row).open();
    liveness.is_none() && deletion.is_live() && entries.all(|entry| entry.column() == gone)
}

/// A row of entries that are in the order of their columns and paths.
pub fn packed_row<'a>(
    liveness: Liveness,
    deletion: DeletionTime,
    entries: impl IntoIterator<Item = Entry<'a>>,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut builder = RowBuilder::new(&mut out, liveness, deletion);
    entries.into_iter().for_each(|entry| builder.push(entry));
    out
}

/// A clustering key or prefix of one.
pub(crate) fn packed_key<'a>(components: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut packed = Vec::new();
    components
        .into_iter()
        .for_each(|component| push_component(&mut packed, component));
    packed
}

/// The marker of a row that does not expire.
pub fn live(timestamp_us: i64) -> Liveness {
    Liveness {
        timestamp_us,
        ttl_s: 0,
        expires_at_s: NEVER_S,
    }
}

/// A cell that does not expire.
pub fn cell(column: ColumnId, timestamp_us: i64, value: &[u8]) -> CellRef<'_> {
    CellRef {
        column,
        timestamp_us,
        ttl_s: 0,
        local_deletion_s: NEVER_S,
        path: None,
        value,
    }
}

pub(crate) fn is_live(row: &[u8], now_s: u32) -> bool {
    let (liveness, _, mut entries) = RowRef::new(row).open();
    liveness.is_live(now_s)
        || entries.any(|entry| match entry {
            Entry::Cell(cell) => cell.is_live(now_s),
            Entry::ComplexDeletion { .. } => false,
        })
}
