//! Receivers of terms: the column, element or argument that gets the value, and the bind markers met on the way.

use std::cell::RefCell;
use std::sync::Arc;

use helenus_schema::{ColumnKind, ColumnMetadata, Schema, TableMetadata};
use helenus_types::CqlType;

use super::{CallTypes, References};
use crate::functions::{Clock, NativeFunction};
use crate::heap_bytes::HeapBytes;

/// Name and type of a bind marker or of a column of a result, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub name: Arc<str>,
    pub cql_type: CqlType,
}

/// Receiver of a term's value. The name appears in error messages and names the bind marker.
#[derive(Clone, Debug)]
pub struct Receiver {
    pub name: Arc<str>,
    pub cql_type: CqlType,
    /// Set when the receiver is a column of the partition key itself: drivers route by such markers.
    pub partition_key_position: Option<u16>,
}

/// The bind markers of a statement; a batch's statements share them.
#[derive(Debug, Default)]
pub struct BindMarkers {
    names: Vec<Option<Arc<str>>>,
    specs: Vec<Option<ColumnSpec>>,
    partition_key_positions: Vec<Option<u16>>,
    decodes_json: bool,
}

/// Context in which the terms of one statement are typed.
#[derive(Clone, Copy, Debug)]
pub struct StatementScope<'a> {
    pub schema: &'a Schema,
    pub table: &'a Arc<TableMetadata>,
    pub markers: &'a RefCell<BindMarkers>,
    /// Call types of this statement alone: what a call is depends on its table.
    pub calls: &'a RefCell<CallTypes>,
    /// In a transaction, what its statements may refer to.
    pub references: Option<&'a References>,
    /// When the statement is prepared.
    pub now: Clock,
}

impl Receiver {
    pub fn new(name: impl Into<Arc<str>>, cql_type: CqlType) -> Self {
        Receiver {
            name: name.into(),
            cql_type,
            partition_key_position: None,
        }
    }

    /// Returns the receiver of a function's argument at `index`; bind markers are named by it.
    pub(crate) fn argument(function: &NativeFunction, index: usize) -> Receiver {
        let cql_type = function
            .argument_types
            .get(index)
            .cloned()
            .unwrap_or(CqlType::Blob);
        Receiver::new(format!("arg{index}({})", function.qualified_name()), cql_type)
    }

    pub fn column(column: &ColumnMetadata) -> Self {
        let is_key = column.kind == ColumnKind::PartitionKey;
        Receiver {
            name: Arc::clone(&column.name),
            cql_type: column.cql_type.clone(),
            partition_key_position: is_key.then_some(column.position),
        }
    }

    /// The receiver of one part of this one's value, such as `key(m)`.
    pub fn part(&self, what: &str, cql_type: &CqlType) -> Self {
        Receiver::new(format!("{what}({})", self.name), cql_type.clone())
    }
}

fn has_elements(cql_type: &CqlType) -> bool {
    cql_type.is_collection()
        || matches!(
            cql_type,
            CqlType::Tuple(_) | CqlType::UserDefined { .. } | CqlType::Vector { .. }
        )
}

impl StatementScope<'_> {
    /// Records what the marker `index` is for.
    pub fn bind(&self, index: usize, name: Option<&str>, receiver: &Receiver) {
        let mut markers = self.markers.borrow_mut();
        if markers.specs.len() <= index {
            markers.specs.resize(index + 1, None);
            markers.names.resize(index + 1, None);
            markers.partition_key_positions.resize(index + 1, None);
        }
        let name = name.map_or_else(|| Arc::clone(&receiver.name), Arc::from);
        markers.specs[index] = Some(ColumnSpec {
            keyspace: Arc::clone(&self.table.keyspace),
            table: Arc::clone(&self.table.name),
            name: Arc::clone(&name),
            cql_type: receiver.cql_type.clone(),
        });
        markers.names[index] = Some(name);
        if receiver.partition_key_position.is_some() {
            markers.partition_key_positions[index] = receiver.partition_key_position;
        }
    }
}

impl BindMarkers {
    /// A value of the statement is decoded from JSON when it is executed.
    pub(crate) fn note_json(&mut self) {
        self.decodes_json = true;
    }

    pub(crate) fn decodes_json(&self) -> bool {
        self.decodes_json
    }

    /// Returns whether a value that is bound is checked element by element.
    pub(crate) fn binds_elements(&self) -> bool {
        self.specs
            .iter()
            .flatten()
            .any(|spec| has_elements(&spec.cql_type))
    }

    pub fn into_specs(self) -> Vec<ColumnSpec> {
        self.specs.into_iter().flatten().collect()
    }

    /// Which marker gives each column of the partition key; empty unless all columns have one.
    pub fn partition_key_bind_indexes(&self, table: &TableMetadata) -> Vec<u16> {
        let mut indexes = vec![None; usize::from(table.partition_key_count)];
        for (marker, position) in self.partition_key_positions.iter().enumerate() {
            if let Some(index) = position.and_then(|position| indexes.get_mut(usize::from(position))) {
                *index = u16::try_from(marker).ok();
            }
        }
        indexes
            .into_iter()
            .collect::<Option<Vec<u16>>>()
            .unwrap_or_default()
    }
}

impl HeapBytes for ColumnSpec {
    fn heap_bytes(&self) -> usize {
        self.name.heap_bytes()
    }
}
