//! The size of an update as Cassandra 5.0 counts it for `batch_size_warn_threshold` and `batch_size_fail_threshold`
//! (`PartitionUpdate.dataSize`, read off its warnings): values, and numbers of fixed size for each cell and row, whatever is sent
//! or stored of them.

use std::collections::BTreeMap;

use crate::clustering::Components;
use crate::deletion::DeletionTime;
use crate::row::merge::merge;
use crate::row::{Entry, RowRef, RowShape};
use crate::update::{Update, UpdateItem};

/// A timestamp, and a local time of 4 bytes.
const DELETION_BYTES: u64 = 12;
/// A marker's timestamp, the row's deletion, and whether that one gives way to a newer marker; without either, too.
const ROW_BYTES: u64 = 8 + DELETION_BYTES + 1;
/// Time to live and its end, of a marker that has them.
const EXPIRATION_BYTES: u64 = 12;
/// Timestamp, time to live and its end, which every cell has.
const CELL_BYTES: u64 = 20;
/// A count of one shard, with its head.
const COUNTER_BYTES: u64 = 36;
/// The timestamp of the partition's deletion, and a static row.
const PARTITION_BYTES: u64 = 8 + ROW_BYTES;
/// The number of ranges that are deleted, where any is.
const RANGES_BYTES: u64 = 4;

/// Bytes of what an update writes. Rows that it has several times count once and as they are together; ranges of deletions each.
pub fn data_bytes(update: &Update<'_>, shape: &RowShape) -> u64 {
    let mut rows: BTreeMap<Option<&[u8]>, Vec<u8>> = BTreeMap::new();
    let mut ranges = 0;
    for item in update.items() {
        let (clustering, row) = match item {
            UpdateItem::StaticRow(row) => (None, row),
            UpdateItem::Row { clustering, row } => (Some(clustering), row),
            UpdateItem::RangeTombstone { .. } => {
                ranges += item_bytes(&item, shape);
                continue;
            }
        };
        let before = rows.entry(clustering).or_default();
        let mut merged = Vec::with_capacity(before.len() + row.as_bytes().len());
        if before.is_empty() {
            merged.extend_from_slice(row.as_bytes());
        } else {
            merge(shape, RowRef::new(before), row, DeletionTime::LIVE, &mut merged);
        }
        *before = merged;
    }
    let rows = rows.iter().map(|(clustering, row)| match clustering {
        None => static_row_bytes(RowRef::new(row), shape),
        Some(clustering) => row_bytes(clustering, RowRef::new(row), shape),
    });
    PARTITION_BYTES + rows.sum::<u64>() + if ranges > 0 { RANGES_BYTES + ranges } else { 0 }
}

/// At least [`data_bytes`], without merging anything.
pub fn data_bytes_max(update: &Update<'_>, shape: &RowShape) -> u64 {
    let items = update.items().map(|item| item_bytes(&item, shape));
    PARTITION_BYTES + RANGES_BYTES + items.sum::<u64>()
}

fn item_bytes(item: &UpdateItem<'_>, shape: &RowShape) -> u64 {
    match item {
        UpdateItem::StaticRow(row) => static_row_bytes(*row, shape),
        UpdateItem::Row { clustering, row } => row_bytes(clustering, *row, shape),
        UpdateItem::RangeTombstone { start, end, .. } => {
            clustering_bytes(start.prefix) + clustering_bytes(end.prefix) + DELETION_BYTES
        }
    }
}

fn clustering_bytes(packed: &[u8]) -> u64 {
    Components::new(packed)
        .map(|component| component.len() as u64)
        .sum()
}

/// Its head counts for every partition.
fn static_row_bytes(row: RowRef<'_>, shape: &RowShape) -> u64 {
    row_bytes(&[], row, shape) - ROW_BYTES
}

fn row_bytes(clustering: &[u8], row: RowRef<'_>, shape: &RowShape) -> u64 {
    let (liveness, _, entries) = row.open();
    let mut bytes = ROW_BYTES + clustering_bytes(clustering);
    if liveness.ttl_s != 0 {
        bytes += EXPIRATION_BYTES;
    }
    let mut collection = None;
    for entry in entries {
        let (is_of_collection, entry_bytes) = match entry {
            Entry::ComplexDeletion { .. } => (true, 0),
            Entry::Cell(cell) => {
                let value = match shape.is_counter() {
                    true if !cell.is_tombstone() => COUNTER_BYTES,
                    _ => cell.value.len() as u64,
                };
                let path = cell.path.map_or(0, |path| path.len() as u64);
                (cell.path.is_some(), CELL_BYTES + value + path)
            }
        };
        // A collection has a deletion even where nothing of it is deleted.
        if is_of_collection && collection != Some(entry.column()) {
            collection = Some(entry.column());
            bytes += DELETION_BYTES;
        }
        bytes += entry_bytes;
    }
    bytes
}
