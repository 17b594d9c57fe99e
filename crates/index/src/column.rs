//! One index of one table: which terms partitions and rows have under it.

use std::borrow::Cow;
use std::ops::ControlFlow;

use helenus_rows::clustering::Components;
use helenus_rows::row::{CellRef, Entry, RowRef};
use helenus_schema::{ColumnId, ColumnKind, IndexId, IndexKind, IndexMetadata, IndexTarget, TableMetadata};
use helenus_types::CqlType;
use helenus_types::partition_key::partition_key_components;
use helenus_types::value::CollectionElements;

use crate::collation::{Collation, expanded_address};
use crate::term::{ANY_TERM, keeps_order, push_entry_term, push_term};
use crate::text::TextOptions;

/// Column, or part of it, that an index has terms of.
#[derive(Clone, Debug)]
pub struct IndexedColumn {
    pub index: IndexId,
    pub column: ColumnId,
    pub place: Place,
    cql_type: CqlType,
    pub(crate) kind: IndexKind,
    target: IndexTarget,
    text: TextOptions,
    /// Columns in the table's partition key.
    partition_key_count: usize,
}

/// Where in a partition the indexed value stands, which decides what its term leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A component of the partition key: leads to the partition.
    PartitionKey(usize),
    /// In the static row: leads to the partition.
    Static,
    /// A component of the clustering key: leads to the row.
    Clustering(usize),
    /// Leads to the row.
    Regular,
}

impl Place {
    /// Returns whether a term leads to a partition and not to a row of it.
    pub fn is_of_partition(self) -> bool {
        matches!(self, Place::PartitionKey(_) | Place::Static)
    }
}

impl IndexedColumn {
    /// `None` for a column that the table does not have.
    pub fn of(table: &TableMetadata, index: &IndexMetadata) -> Option<Self> {
        let column = table.column_by_id(index.column)?;
        let position = usize::from(column.position);
        Some(IndexedColumn {
            index: index.id,
            column: column.id,
            place: match column.kind {
                ColumnKind::PartitionKey => Place::PartitionKey(position),
                ColumnKind::Clustering => Place::Clustering(position),
                ColumnKind::Static => Place::Static,
                ColumnKind::Regular => Place::Regular,
            },
            cql_type: column.cql_type.clone(),
            kind: index.kind,
            target: index.target,
            text: TextOptions::of(&index.options),
            partition_key_count: usize::from(table.partition_key_count),
        })
    }

    /// How storage-attached indexes compare values; none where that is how their type does, and for other indexes.
    pub fn collation(&self) -> Option<Collation> {
        match (self.kind, self.target) {
            (IndexKind::Legacy, _) | (_, IndexTarget::Entries | IndexTarget::Full) => None,
            (IndexKind::StorageAttached, _) => Collation::of(self.term_type()?, self.text),
        }
    }

    /// Returns whether the terms of a range of values are a range of terms.
    pub fn keeps_order(&self) -> bool {
        match self.target {
            IndexTarget::Entries => false,
            _ => self
                .term_type()
                .is_some_and(|cql_type| keeps_order(cql_type, &self.text)),
        }
    }

    /// The type of what has a term of its own; `None` for entries, which have two.
    fn term_type(&self) -> Option<&CqlType> {
        match (&self.cql_type, self.target) {
            (cql_type, IndexTarget::Simple | IndexTarget::Full) => Some(cql_type),
            (CqlType::Map { key, .. } | CqlType::Set { element: key, .. }, IndexTarget::Keys) => Some(key),
            (CqlType::Map { value, .. }, IndexTarget::Values) => Some(value),
            (CqlType::List { element, .. } | CqlType::Set { element, .. }, IndexTarget::Values) => {
                Some(element)
            }
            _ => None,
        }
    }

    /// Appends the term of a value, an element or a key; [`ANY_TERM`] where it has none of its own.
    pub(crate) fn push_value_term(&self, out: &mut Vec<u8>, value: &[u8]) {
        let is_pushed = self.term_type().is_some_and(|cql_type| {
            let value = match (self.kind, cql_type) {
                (IndexKind::StorageAttached, CqlType::Inet) => expanded_address(value),
                _ => Cow::Borrowed(value),
            };
            push_term(out, cql_type, &self.text, &value)
        });
        if !is_pushed {
            out.extend_from_slice(ANY_TERM);
        }
    }

    pub(crate) fn push_entry_term(&self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        let is_pushed = match &self.cql_type {
            CqlType::Map {
                key: key_type,
                value: value_type,
                ..
            } => push_entry_term(out, (key_type, key), (value_type, value)),
            _ => false,
        };
        if !is_pushed {
            out.extend_from_slice(ANY_TERM);
        }
    }

    /// Hands over the term of a partition's key, if it is that which is indexed. `term` is room for it.
    pub fn key_terms(&self, key: &[u8], term: &mut Vec<u8>, take: impl FnOnce(&[u8])) {
        let Place::PartitionKey(position) = self.place else {
            return;
        };
        if let Some(value) = partition_key_components(key, self.partition_key_count).nth(position) {
            term.clear();
            self.push_value_term(term, value);
            take(term);
        }
    }

    /// Hands over the terms of a row's clustering key or cells, until `take` breaks off; `clustering` is `None` for the static row. Some
    /// may come twice. `term` is room for them.
    pub fn row_terms(
        &self,
        clustering: Option<&[u8]>,
        row: RowRef<'_>,
        term: &mut Vec<u8>,
        mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let terms = &mut Terms {
            term,
            take: &mut take,
        };
        match (self.place, clustering) {
            (Place::Clustering(position), Some(clustering)) => {
                if let Some(value) = Components::new(clustering).nth(position) {
                    self.value_term(value, terms)?;
                }
            }
            (Place::Regular, Some(_)) | (Place::Static, None) => {
                for entry in row.entries() {
                    if let Entry::Cell(cell) = entry
                        && cell.column == self.column
                        && !cell.is_tombstone()
                    {
                        self.cell_terms(&cell, terms)?;
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn cell_terms(&self, cell: &CellRef<'_>, terms: &mut Terms<'_>) -> ControlFlow<()> {
        let Some(path) = cell.path else {
            return self.frozen_terms(cell.value, terms);
        };
        match (&self.cql_type, self.target) {
            (CqlType::Set { .. }, _) | (CqlType::Map { .. }, IndexTarget::Keys) => {
                self.value_term(path, terms)
            }
            (CqlType::Map { .. }, IndexTarget::Entries) => self.entry_term(path, cell.value, terms),
            _ => self.value_term(cell.value, terms),
        }
    }

    /// Makes the terms of a value in one piece.
    fn frozen_terms(&self, value: &[u8], terms: &mut Terms<'_>) -> ControlFlow<()> {
        let width = match (&self.cql_type, self.target) {
            (_, IndexTarget::Simple | IndexTarget::Full) => return self.value_term(value, terms),
            (CqlType::Map { .. }, _) => 2,
            _ => 1,
        };
        let mut elements = CollectionElements::new(value, width).into_iter().flatten();
        while let Some(first) = elements.next() {
            let second = if width == 2 { elements.next() } else { None };
            let (first, second) = (first.unwrap_or_default(), second.flatten().unwrap_or_default());
            match (width, self.target) {
                (2, IndexTarget::Entries) => self.entry_term(first, second, terms)?,
                (2, IndexTarget::Values) => self.value_term(second, terms)?,
                _ => self.value_term(first, terms)?,
            }
        }
        ControlFlow::Continue(())
    }

    fn value_term(&self, value: &[u8], terms: &mut Terms<'_>) -> ControlFlow<()> {
        terms.term.clear();
        self.push_value_term(terms.term, value);
        (terms.take)(terms.term)
    }

    fn entry_term(&self, key: &[u8], value: &[u8], terms: &mut Terms<'_>) -> ControlFlow<()> {
        terms.term.clear();
        self.push_entry_term(terms.term, key, value);
        (terms.take)(terms.term)
    }
}

/// Receiver of terms, and the room that they are made in.
struct Terms<'t> {
    term: &'t mut Vec<u8>,
    take: &'t mut dyn FnMut(&[u8]) -> ControlFlow<()>,
}
