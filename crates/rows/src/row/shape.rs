//! Properties of a table's columns by which its rows are merged.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

use helenus_schema::{ColumnId, DroppedColumn, TableMetadata};
use helenus_types::CqlType;

use super::{Entry, ExpirationColumn, RowRef};

/// The order of the elements in each multi-cell column of one table, and which cells to ignore.
#[derive(Clone, Debug, Default)]
pub struct RowShape {
    /// Sorted by column.
    multi_cell: Vec<(ColumnId, CqlType)>,
    /// By column. Rows may still hold cells of columns that were dropped since.
    dropped: Vec<Dropped>,
    is_counter: bool,
    /// A row without a live marker is not there, whatever cells it has (`enforceStrictLiveness`).
    needs_marker: bool,
    /// How many cells a row has at most, where each is a plain regular one: no statics, no multi-cell columns.
    plain_count: Option<usize>,
    expiration: Option<ExpirationColumn>,
    /// True if a row may be shown in part, or not at all, though nothing in it is deleted or expires: of columns that were dropped, or by a
    /// column that says when the row expires.
    may_hide: bool,
}

/// A column that was dropped. It may have been added again.
#[derive(Clone, Copy, Debug)]
struct Dropped {
    column: ColumnId,
    /// No read sees what is as old or older.
    hidden_until_us: i64,
    /// Timestamp in microseconds; cells and deletions as old or older never come back.
    gone_until_us: i64,
}

impl RowShape {
    pub fn of(table: &TableMetadata) -> Self {
        let present: HashSet<ColumnId> = table.columns.iter().map(|column| column.id).collect();
        let live = table.columns.iter().map(|column| (column.id, &column.cql_type));
        let dropped = table
            .dropped_columns
            .iter()
            .filter(|dropped| !present.contains(&dropped.id))
            .map(|column| (column.id, &column.cql_type));
        let mut multi_cell: Vec<_> = live
            .chain(dropped)
            .filter_map(|(id, cql_type)| Some((id, path_type(cql_type)?)))
            .collect();
        multi_cell.sort_by_key(|&(id, _)| id);
        let dropped = dropped_columns(table);
        let is_plain = table.statics().is_empty() && multi_cell.is_empty() && !table.is_counter();
        let expiration = ExpirationColumn::of(table);
        RowShape {
            may_hide: !dropped.is_empty() || expiration.is_some(),
            plain_count: is_plain.then(|| table.regulars().len()),
            multi_cell,
            dropped,
            is_counter: table.is_counter(),
            needs_marker: false,
            expiration,
        }
    }

    /// The column that says when its row expires, where there is one.
    #[inline]
    pub fn expiration(&self) -> Option<ExpirationColumn> {
        self.expiration
    }

    /// Shape of a materialized view whose key has a column of its base table's rows: a row of it is there as long as that column
    /// is, which its marker says.
    #[must_use]
    pub(crate) fn needing_markers(self) -> Self {
        RowShape {
            needs_marker: true,
            ..self
        }
    }

    /// Returns whether only a live marker makes a row be there.
    #[inline]
    pub(crate) fn needs_marker(&self) -> bool {
        self.needs_marker
    }

    /// Every cell of a counter table is a counter context, which merges by its own rules.
    pub fn is_counter(&self) -> bool {
        self.is_counter
    }

    /// Returns whether a row may have any number of cells.
    pub(crate) fn has_multi_cell_columns(&self) -> bool {
        !self.multi_cell.is_empty()
    }

    /// The timestamp below which nothing in another source can show in this row: that of its deletion, or the smallest
    /// one in it where it has its marker and every column. `i64::MIN` where anything might.
    pub fn settled_below_us(&self, row: RowRef<'_>) -> i64 {
        let Some(plain_count) = self.plain_count else {
            return i64::MIN;
        };
        let (liveness, deletion, entries) = row.open();
        let deleted_below_us = if deletion.is_live() {
            i64::MIN
        } else {
            deletion.timestamp_us.saturating_add(1)
        };
        let mut count = 0;
        let mut min_us = liveness.timestamp_us;
        for entry in entries.filter(|entry| !self.hides(entry.column(), entry.timestamp_us())) {
            let Entry::Cell(cell) = entry else {
                return deleted_below_us;
            };
            count += 1;
            min_us = min_us.min(cell.timestamp_us);
        }
        let complete_below_us = if count == plain_count { min_us } else { i64::MIN };
        complete_below_us.max(deleted_below_us)
    }

    /// Returns whether a row may have to be looked into though nothing in it is deleted or expires.
    #[inline]
    pub(crate) fn may_hide(&self) -> bool {
        self.may_hide
    }

    pub fn has_dropped_columns(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Returns whether a cell or a deletion is of a column that is not there, or was dropped after it was written.
    pub fn hides(&self, column: ColumnId, timestamp_us: i64) -> bool {
        self.dropped(column)
            .is_some_and(|dropped| timestamp_us <= dropped.hidden_until_us)
    }

    /// Returns whether no statement can make it visible again. A column that comes back has what is newer than its deletion.
    pub fn is_gone(&self, column: ColumnId, timestamp_us: i64) -> bool {
        self.dropped(column)
            .is_some_and(|dropped| timestamp_us <= dropped.gone_until_us)
    }

    fn dropped(&self, column: ColumnId) -> Option<&Dropped> {
        let index = self
            .dropped
            .binary_search_by_key(&column, |dropped| dropped.column);
        self.dropped.get(index.ok()?)
    }

    pub(crate) fn compare_paths(&self, column: ColumnId, left: &[u8], right: &[u8]) -> Ordering {
        match self.multi_cell.binary_search_by_key(&column, |&(id, _)| id) {
            Ok(index) => self.multi_cell[index].1.compare(left, right),
            Err(_) => left.cmp(right),
        }
    }
}

/// Every column that the table had and has no more, or has again. Of a name that was dropped twice the table remembers the last
/// column only, and its memtables and its log may hold cells of all: what counts are the ids that were given.
fn dropped_columns(table: &TableMetadata) -> Vec<Dropped> {
    let mut dropped: BTreeMap<ColumnId, Dropped> = (0..table.next_column_id.0)
        .map(ColumnId)
        .map(|column| (column, Dropped::forgotten(column)))
        .collect();
    for remembered in &table.dropped_columns {
        let forgotten = Dropped::forgotten(remembered.id);
        dropped.entry(remembered.id).or_insert(forgotten).gone_until_us = remembered.dropped_at_us;
    }
    let by_name: HashMap<&str, &DroppedColumn> = table
        .dropped_columns
        .iter()
        .map(|dropped| (&*dropped.name, dropped))
        .collect();
    for column in &table.columns {
        dropped.remove(&column.id);
        if let Some(remembered) = by_name.get(&*column.name) {
            let again = Dropped {
                column: column.id,
                hidden_until_us: remembered.dropped_at_us,
                gone_until_us: remembered.dropped_at_us,
            };
            dropped.insert(column.id, again);
        }
    }
    dropped.into_values().collect()
}

impl Dropped {
    /// Nothing can bring it back.
    fn forgotten(column: ColumnId) -> Self {
        Dropped {
            column,
            hidden_until_us: i64::MAX,
            gone_until_us: i64::MAX,
        }
    }
}

/// The type of a cell's path: set elements, map keys, the time-uuid of a list cell, a field's index.
fn path_type(cql_type: &CqlType) -> Option<CqlType> {
    match cql_type {
        CqlType::Set {
            element,
            frozen: false,
        } => Some(CqlType::clone(element)),
        CqlType::Map {
            key, frozen: false, ..
        } => Some(CqlType::clone(key)),
        CqlType::List { frozen: false, .. } => Some(CqlType::Timeuuid),
        CqlType::UserDefined { frozen: false, .. } => Some(CqlType::Smallint),
        _ => None,
    }
}
