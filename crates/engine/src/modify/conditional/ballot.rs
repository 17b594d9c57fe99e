//! Update that a conditional batch writes: the updates of its statements merged, with the ballot's timestamps.

use helenus_rows::clustering::ClusteringComparator;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{Entry, Liveness, RowRef, RowShape, merge};
use helenus_rows::update::{BoundRef, Update, UpdateBuilder, UpdateItem};
use helenus_schema::{TableId, TableMetadata};

/// Merges the updates of one partition, all built at the same time, and gives them the ballot's: what is live has it,
/// deletions are one older.
///
/// The order matters. As in Cassandra, what one row is deleted and written by in the same batch is deleted, because rows are
/// merged first, while deletions of ranges and of the partition leave rows of the batch alone.
pub fn merged(table: &TableMetadata, key: &[u8], updates: &[Vec<u8>], ballot_us: i64) -> Vec<u8> {
    let shape = RowShape::of(table);
    let comparator = ClusteringComparator::of(table);
    let retimed = |deletion: DeletionTime| match deletion.is_live() {
        true => deletion,
        false => DeletionTime {
            timestamp_us: ballot_us - 1,
            ..deletion
        },
    };
    let mut partition_deletion = DeletionTime::LIVE;
    let mut static_row: Option<Vec<u8>> = None;
    let mut rows: Vec<(&[u8], Vec<u8>)> = Vec::new();
    let mut ranges: Vec<(BoundRef<'_>, BoundRef<'_>, DeletionTime)> = Vec::new();
    for update in updates.iter().filter_map(|update| Update::decode_trusted(update)) {
        partition_deletion = partition_deletion.max(update.deletion);
        for item in update.items() {
            match item {
                UpdateItem::StaticRow(row) => {
                    static_row = Some(both(&shape, static_row.as_deref(), row));
                }
                UpdateItem::Row { clustering, row } => {
                    let place = rows.binary_search_by(|(other, _)| comparator.compare(other, clustering));
                    match place {
                        Ok(place) => rows[place].1 = both(&shape, Some(&rows[place].1), row),
                        Err(place) => rows.insert(place, (clustering, row.as_bytes().to_vec())),
                    }
                }
                UpdateItem::RangeTombstone { start, end, deletion } => ranges.push((start, end, deletion)),
            }
        }
    }
    let mut out = Vec::new();
    let table: TableId = table.id;
    let mut builder = UpdateBuilder::new(&mut out, table, key, retimed(partition_deletion));
    for (start, end, deletion) in ranges {
        builder.range_tombstone(start, end, retimed(deletion));
    }
    let rows = rows.iter().map(|(clustering, row)| (Some(*clustering), row));
    for (clustering, row) in static_row.iter().map(|row| (None, row)).chain(rows) {
        let (liveness, deletion, entries) = RowRef::new(row).open();
        let liveness = match liveness.is_none() {
            true => liveness,
            false => Liveness {
                timestamp_us: ballot_us,
                ..liveness
            },
        };
        builder.any_row(clustering, liveness, retimed(deletion), |row| {
            for entry in entries {
                row.push(match entry {
                    Entry::ComplexDeletion { column, deletion } => Entry::ComplexDeletion {
                        column,
                        deletion: retimed(deletion),
                    },
                    Entry::Cell(mut cell) => {
                        cell.timestamp_us = ballot_us - i64::from(cell.is_tombstone());
                        Entry::Cell(cell)
                    }
                });
            }
        });
    }
    out
}

fn both(shape: &RowShape, first: Option<&[u8]>, second: RowRef<'_>) -> Vec<u8> {
    let Some(first) = first else {
        return second.as_bytes().to_vec();
    };
    let mut out = Vec::new();
    merge::merge(shape, RowRef::new(first), second, DeletionTime::LIVE, &mut out);
    out
}
