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
