//! References of a transaction to rows that it reads.

use std::cell::RefCell;
use std::sync::Arc;

use helenus_schema::{ColumnId, ColumnMetadata, TableMetadata};
use helenus_types::CqlType;

use super::Expression;
use crate::heap_bytes::HeapBytes;

/// A row that a `LET` reads.
#[derive(Clone, Debug)]
pub struct LetRow {
    pub name: String,
    pub table: Arc<TableMetadata>,
    /// Those that it selects.
    pub columns: Vec<ColumnId>,
}

/// The rows of a transaction, and what its statements have referred to so far.
#[derive(Debug)]
pub struct References {
    pub(super) rows: Vec<LetRow>,
    pub(super) first_marker: usize,
    pub(super) used: RefCell<Vec<ReferencePlan>>,
}

/// A value of a row that is read.
#[derive(Clone, Debug)]
pub struct ReferencePlan {
    pub row: usize,
    pub column: Arc<ColumnMetadata>,
    pub cql_type: CqlType,
    pub(super) part: Part,
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    Whole,
    Element(Expression),
    Field(usize),
}

impl HeapBytes for ReferencePlan {
    fn heap_bytes(&self) -> usize {
        let part = match &self.part {
            Part::Element(key) => key.heap_bytes(),
            Part::Whole | Part::Field(_) => 0,
        };
        part + size_of::<ColumnMetadata>()
    }
}
