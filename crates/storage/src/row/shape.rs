//! What merging a table's rows must know about its columns.

use std::cmp::Ordering;

use helenus_schema::{ColumnId, TableMetadata};
use helenus_types::CqlType;

/// The order of the elements in each multi-cell column of one table, and which cells to ignore.
#[derive(Clone, Debug, Default)]
pub struct RowShape {
    /// Sorted by column.
    multi_cell: Vec<(ColumnId, CqlType)>,
    /// Sorted. Rows may still hold cells of columns that were dropped since.
    dropped: Vec<ColumnId>,
    is_counter: bool,
}

impl RowShape {
    pub fn of(table: &TableMetadata) -> Self {
        let live = table.columns.iter().map(|column| (column.id, &column.cql_type));
        let dropped = table
            .dropped_columns
            .iter()
            .map(|column| (column.id, &column.cql_type));
        let mut multi_cell: Vec<_> = live
            .chain(dropped)
            .filter_map(|(id, cql_type)| Some((id, path_type(cql_type)?)))
            .collect();
        multi_cell.sort_by_key(|&(id, _)| id);
        let mut dropped: Vec<_> = table.dropped_columns.iter().map(|column| column.id).collect();
        dropped.sort_unstable();
        RowShape {
            multi_cell,
            dropped,
            is_counter: table.is_counter(),
        }
    }

    /// Every cell of a counter table is a counter context, which merges by its own rules.
    pub fn is_counter(&self) -> bool {
        self.is_counter
    }

    pub fn has_dropped_columns(&self) -> bool {
        !self.dropped.is_empty()
    }

    pub fn is_dropped(&self, column: ColumnId) -> bool {
        self.dropped.binary_search(&column).is_ok()
    }

    pub fn compare_paths(&self, column: ColumnId, left: &[u8], right: &[u8]) -> Ordering {
        match self.multi_cell.binary_search_by_key(&column, |&(id, _)| id) {
            Ok(index) => self.multi_cell[index].1.compare(left, right),
            Err(_) => left.cmp(right),
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
