//! Rows that expire at the time that a column of theirs says.
//!
//! Such a row is read as if it had been deleted at that time, and stays as it is until somebody writes that deletion: another
//! file may have a later time for it.

use helenus_schema::{ColumnId, ColumnKind, TableMetadata};
use helenus_types::CqlType;

use super::{CellRef, Entry, RowRef, RowShape};
use crate::deletion::DeletionTime;

/// The column of a table that says when its row expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpirationColumn {
    id: ColumnId,
    unit: Unit,
}

/// How a value counts time since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// A `timestamp`.
    Milliseconds,
    /// A `bigint`.
    Seconds,
    /// An `int`.
    ShortSeconds,
}

impl ExpirationColumn {
    /// `None` also where what is designated cannot be one.
    pub fn of(table: &TableMetadata) -> Option<Self> {
        let column = table.column_by_id(table.expiration_column?)?;
        let unit = Unit::of(&column.cql_type)?;
        (column.kind == ColumnKind::Regular).then_some(ExpirationColumn { id: column.id, unit })
    }

    /// Returns whether values of the type can say when a row expires.
    pub fn allows(cql_type: &CqlType) -> bool {
        Unit::of(cql_type).is_some()
    }

    /// The timestamp in microseconds up to which the row is deleted, if it has expired.
    fn expired_us(self, cell: &CellRef<'_>, now_s: u32) -> Option<i64> {
        // A value that expires itself counts if the row's time came first: else the row would be there again after it.
        let until_s = match (cell.is_tombstone(), cell.ttl_s) {
            (true, _) => return None,
            (false, 0) => now_s,
            (false, _) => now_s.min(cell.local_deletion_s.saturating_sub(1)),
        };
        let (expiration, per_second) = match self.unit {
            Unit::Milliseconds => (i64::from_be_bytes(cell.value.try_into().ok()?), 1_000),
            Unit::Seconds => (i64::from_be_bytes(cell.value.try_into().ok()?), 1),
            Unit::ShortSeconds => (i32::from_be_bytes(cell.value.try_into().ok()?).into(), 1),
        };
        let is_expired = expiration <= i64::from(until_s) * per_second;
        let expiration_us = expiration.saturating_mul(1_000_000 / per_second);
        is_expired.then(|| expiration_us.max(cell.timestamp_us))
    }

    pub(super) fn is_of(self, cell: &CellRef<'_>) -> bool {
        cell.column == self.id
    }
}

impl RowShape {
    /// The deletion that a row is read with at `now_s` because it has expired; [`DeletionTime::LIVE`] if it has not. `outer` is
    /// the deletion of its partition or of a range around it.
    pub fn deletion_of_expired(&self, row: RowRef<'_>, outer: DeletionTime, now_s: u32) -> DeletionTime {
        let Some(column) = self.expiration() else {
            return DeletionTime::LIVE;
        };
        let (_, own, mut entries) = row.open();
        let cell = entries.find_map(|entry| match entry {
            Entry::Cell(cell) if column.is_of(&cell) => Some(cell),
            _ => None,
        });
        let shadow = own.max(outer);
        let seen = cell
            .filter(|cell| !shadow.hides(cell.timestamp_us) && !self.hides(cell.column, cell.timestamp_us));
        let expired_us = seen.and_then(|cell| column.expired_us(&cell, now_s));
        expired_us.map_or(DeletionTime::LIVE, |timestamp_us| DeletionTime {
            timestamp_us,
            local_s: now_s,
        })
    }
}

impl Unit {
    fn of(cql_type: &CqlType) -> Option<Self> {
        match cql_type {
            CqlType::Timestamp => Some(Unit::Milliseconds),
            CqlType::Bigint => Some(Unit::Seconds),
            CqlType::Int => Some(Unit::ShortSeconds),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helenus_schema::{ClusteringOrder, ColumnMetadata, TableId, TableKind, TableParams};
    use uuid::Uuid;

    use super::*;
    use crate::deletion::NEVER_S;
    use crate::row::live::{ReadTime, live_view};
    use crate::row::purge::{Purge, purge_row};
    use crate::row::{Liveness, RowBuilder};

    const EXPIRATION: ColumnId = ColumnId(1);
    const OTHER: ColumnId = ColumnId(2);
    const NOW_S: u32 = 1_000;

    fn shape(cql_type: CqlType) -> RowShape {
        let column = |id: ColumnId, name: &str, kind: ColumnKind, cql_type: &CqlType| ColumnMetadata {
            id,
            name: name.into(),
            kind,
            position: 0,
            cql_type: cql_type.clone(),
            order: ClusteringOrder::Ascending,
        };
        let mut table = TableMetadata {
            keyspace: Arc::from("k"),
            name: Arc::from("t"),
            id: TableId(Uuid::nil()),
            kind: TableKind::Regular,
            columns: Vec::new(),
            partition_key_count: 0,
            clustering_count: 0,
            static_count: 0,
            next_column_id: ColumnId(3),
            dropped_columns: Vec::new(),
            indexes: Vec::new(),
            expiration_column: Some(EXPIRATION),
            params: TableParams::default(),
        };
        table.set_columns(vec![
            column(ColumnId(0), "p", ColumnKind::PartitionKey, &CqlType::Int),
            column(EXPIRATION, "e", ColumnKind::Regular, &cql_type),
            column(OTHER, "v", ColumnKind::Regular, &CqlType::Int),
        ]);
        RowShape::of(&table)
    }

    fn cell(column: ColumnId, timestamp_us: i64, value: &[u8]) -> CellRef<'_> {
        CellRef {
            column,
            timestamp_us,
            ttl_s: 0,
            local_deletion_s: NEVER_S,
            path: None,
            value,
        }
    }

    fn row_of(cells: &[CellRef<'_>], deletion: DeletionTime) -> Vec<u8> {
        let mut packed = Vec::new();
        let mut builder = RowBuilder::new(&mut packed, Liveness::NONE, deletion);
        cells.iter().for_each(|cell| builder.cell(*cell));
        packed
    }

    /// The timestamp up to which a row with this value is deleted.
    fn deleted_us(shape: &RowShape, value: &[u8], timestamp_us: i64) -> Option<i64> {
        let row = row_of(&[cell(EXPIRATION, timestamp_us, value)], DeletionTime::LIVE);
        let deletion = shape.deletion_of_expired(RowRef::new(&row), DeletionTime::LIVE, NOW_S);
        (!deletion.is_live()).then_some(deletion.timestamp_us)
    }

    #[test]
    fn a_row_is_deleted_up_to_its_expiration_or_its_write_whichever_is_later() {
        let (milliseconds, seconds) = (shape(CqlType::Timestamp), shape(CqlType::Bigint));
        let cases: [(&RowShape, i64, i64, Option<i64>); 14] = [
            (&milliseconds, 1_000_000, 7, Some(1_000_000_000)),
            (&milliseconds, 1_000_001, 7, None),
            (&milliseconds, 999_999, 7, Some(999_999_000)),
            (&milliseconds, 0, 7, Some(7)),
            (&milliseconds, -1, 7, Some(7)),
            (&milliseconds, -1, -5_000, Some(-1_000)),
            (&milliseconds, i64::MIN, -5, Some(-5)),
            (&milliseconds, i64::MAX, 7, None),
            (&seconds, 1_000, 7, Some(1_000_000_000)),
            (&seconds, 1_001, 7, None),
            (&seconds, 1_000, 1_000_000_001, Some(1_000_000_001)),
            (&seconds, -9_223_372_036_855, 7, Some(7)),
            (&seconds, i64::MIN, i64::MIN + 1, Some(i64::MIN + 1)),
            (&seconds, i64::MAX, 7, None),
        ];
        for (shape, value, written_us, expected) in cases {
            let deleted = deleted_us(shape, &value.to_be_bytes(), written_us);
            assert_eq!(deleted, expected, "{value} written at {written_us}");
        }
        let short = shape(CqlType::Int);
        for (value, expected) in [
            (1_000, Some(1_000_000_000)),
            (1_001, None),
            (i32::MIN, Some(7)),
            (i32::MAX, None),
        ] {
            assert_eq!(deleted_us(&short, &i32::to_be_bytes(value), 7), expected);
        }
        // No value at all, and one of another length.
        assert_eq!(deleted_us(&milliseconds, &[], 7), None);
        assert_eq!(deleted_us(&short, &0_i64.to_be_bytes(), 7), None);
    }

    #[test]
    fn a_deleted_expiration_says_nothing() {
        let shape = shape(CqlType::Bigint);
        let is_expired = |cell: CellRef<'_>, own_us: i64, outer_us: i64| {
            let deletion = |timestamp_us| DeletionTime {
                timestamp_us,
                local_s: 1,
            };
            let row = row_of(&[cell], deletion(own_us));
            !shape
                .deletion_of_expired(RowRef::new(&row), deletion(outer_us), NOW_S)
                .is_live()
        };
        let value = 10_i64.to_be_bytes();
        let written = cell(EXPIRATION, 7, &value);
        assert!(is_expired(written, 6, 6));
        assert!(!is_expired(written, 7, 6));
        assert!(!is_expired(written, 6, 7));
        assert!(!is_expired(cell(OTHER, 7, &value), 6, 6));
        let tombstone = CellRef {
            local_deletion_s: 5,
            value: &[],
            ..written
        };
        assert!(!is_expired(tombstone, 6, 6));
    }

    /// A value that expires itself: what counts is whether the row's time came before its own end.
    #[test]
    fn an_expiration_that_has_expired_counts_if_it_was_reached() {
        let shape = shape(CqlType::Bigint);
        for (until_s, expected) in [(501, true), (500, false), (499, false), (2_000, true)] {
            let value = 500_i64.to_be_bytes();
            let expiring = CellRef {
                ttl_s: 100,
                local_deletion_s: until_s,
                ..cell(EXPIRATION, 7, &value)
            };
            let other = cell(OTHER, 7, b"1234");
            let row = row_of(&[expiring, other], DeletionTime::LIVE);
            let is_seen = |row: RowRef<'_>| {
                let (mut scratch, mut tombstones) = (Vec::new(), 0);
                let time = ReadTime {
                    now_s: NOW_S,
                    gc_before_s: 0,
                };
                live_view(
                    &shape,
                    row,
                    DeletionTime::LIVE,
                    time,
                    &mut scratch,
                    &mut tombstones,
                )
                .is_some()
            };
            assert_eq!(is_seen(RowRef::new(&row)), !expected, "{until_s}");
            let purge = Purge {
                now_s: NOW_S,
                gc_before_s: 100,
                max_purgeable_timestamp_us: i64::MAX,
            };
            let mut scratch = Vec::new();
            let kept = purge_row(&shape, RowRef::new(&row), &purge, &mut scratch).unwrap();
            assert_eq!(is_seen(kept), !expected, "{until_s}, compacted");
        }
    }

    #[test]
    fn what_is_newer_than_the_expiration_is_seen_and_one_deletion_is_counted() {
        let shape = shape(CqlType::Bigint);
        let value = 10_i64.to_be_bytes();
        let seen = |written_us: i64| {
            let cells = [cell(EXPIRATION, 7, &value), cell(OTHER, written_us, b"1234")];
            let row = row_of(&cells, DeletionTime::LIVE);
            let (mut scratch, mut tombstones) = (Vec::new(), 0);
            let time = ReadTime {
                now_s: NOW_S,
                gc_before_s: NOW_S,
            };
            let row = RowRef::new(&row);
            let live = live_view(
                &shape,
                row,
                DeletionTime::LIVE,
                time,
                &mut scratch,
                &mut tombstones,
            );
            let columns = live.map(|row| row.entries().map(|entry| entry.column()).collect::<Vec<_>>());
            (columns, tombstones)
        };
        assert_eq!(seen(10_000_000), (None, 1));
        assert_eq!(seen(10_000_001), (Some(vec![OTHER]), 1));
    }
}
