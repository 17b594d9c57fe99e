//! Rows of system tables, by column name, as packed updates.

use std::collections::BTreeMap;
use std::net::IpAddr;

use helenus_rows::clustering::push_component;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Liveness};
use helenus_rows::update::UpdateBuilder;
use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_types::partition_key::write_partition_key;
use helenus_types::value::collection::write_collection;
use helenus_types::value::inet::inet_of;
use uuid::Uuid;

/// A value of a system table's column, in the type the column has.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Boolean(bool),
    Int(i32),
    Bigint(i64),
    Double(f64),
    /// Milliseconds since the Unix epoch.
    Timestamp(i64),
    Uuid(Uuid),
    Inet(IpAddr),
    Blob(&'a [u8]),
    TextList(Vec<String>),
    /// Frozen, or a cell per element, as the column is declared. Sorted when written.
    TextSet(Vec<String>),
    TextMap(&'a BTreeMap<String, String>),
    BlobMap(&'a BTreeMap<String, Vec<u8>>),
    /// A cell per entry.
    CountMap(&'a BTreeMap<i32, i64>),
}

/// Writes rows of one table as updates of one row each.
pub(super) struct RowWriter<'a> {
    table: &'a TableMetadata,
    timestamp_us: i64,
    out: &'a mut Vec<Vec<u8>>,
}

impl<'a> RowWriter<'a> {
    pub fn new(table: &'a TableMetadata, timestamp_us: i64, out: &'a mut Vec<Vec<u8>>) -> Self {
        RowWriter {
            table,
            timestamp_us,
            out,
        }
    }

    /// Adds a row. Columns that `values` does not mention are null; names that the table does not have are a bug of the
    /// caller, as is a primary key that is not complete.
    pub fn row(&mut self, values: &[(&str, Value<'_>)]) {
        debug_assert!(
            values.iter().all(|(name, _)| self.table.column(name).is_some()),
            "a value without a column in {}.{}",
            self.table.keyspace,
            self.table.name
        );
        let value_of = |column: &ColumnMetadata| {
            values
                .iter()
                .find(|(name, _)| *name == &*column.name)
                .map(|(_, value)| value)
        };
        let encoded = |column: &ColumnMetadata| {
            let value = value_of(column);
            debug_assert!(value.is_some(), "the key column {} has no value", column.name);
            value.map(Value::encode).unwrap_or_default()
        };
        let key_parts: Vec<Vec<u8>> = self.table.partition_key().iter().map(encoded).collect();
        let mut key = Vec::new();
        let is_written = write_partition_key(&mut key, key_parts.iter().map(Vec::as_slice));
        debug_assert!(is_written, "names are far shorter than a part of a key may be");
        let mut clustering = Vec::new();
        for column in self.table.clustering() {
            push_component(&mut clustering, &encoded(column));
        }
        let mut columns: Vec<(&ColumnMetadata, &Value<'_>)> = self
            .table
            .regulars()
            .iter()
            .filter_map(|column| Some((column, value_of(column)?)))
            .collect();
        columns.sort_by_key(|(column, _)| column.id);
        let mut update = Vec::new();
        let liveness = Liveness {
            timestamp_us: self.timestamp_us,
            ttl_s: 0,
            expires_at_s: NEVER_S,
        };
        let timestamp_us = self.timestamp_us;
        UpdateBuilder::new(&mut update, self.table.id, &key, DeletionTime::LIVE).row(
            &clustering,
            liveness,
            DeletionTime::LIVE,
            |row| {
                for (column, value) in columns {
                    value.cells(column, |path, bytes| {
                        row.cell(CellRef {
                            column: column.id,
                            timestamp_us,
                            ttl_s: 0,
                            local_deletion_s: NEVER_S,
                            path,
                            value: bytes,
                        });
                    });
                }
            },
        );
        self.out.push(update);
    }
}

impl Value<'_> {
    /// Calls `emit` with the path and value of each cell.
    fn cells(&self, column: &ColumnMetadata, mut emit: impl FnMut(Option<&[u8]>, &[u8])) {
        match self {
            Value::TextSet(elements) if column.cql_type.is_multi_cell() => {
                for element in sorted(elements) {
                    emit(Some(element.as_bytes()), &[]);
                }
            }
            Value::CountMap(counts) => {
                for (key, count) in *counts {
                    emit(Some(&key.to_be_bytes()), &count.to_be_bytes());
                }
            }
            _ => emit(None, &self.encode()),
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Value::Text(text) => text.as_bytes().to_vec(),
            Value::Boolean(value) => vec![u8::from(*value)],
            Value::Int(value) => value.to_be_bytes().to_vec(),
            Value::Bigint(value) | Value::Timestamp(value) => value.to_be_bytes().to_vec(),
            Value::Double(value) => value.to_be_bytes().to_vec(),
            Value::Uuid(value) => value.as_bytes().to_vec(),
            Value::Inet(address) => inet_of(*address),
            Value::Blob(bytes) => bytes.to_vec(),
            Value::TextList(elements) => collection(1, elements.iter().map(|text| text.as_bytes())),
            Value::TextSet(elements) => {
                collection(1, sorted(elements).into_iter().map(|text| text.as_bytes()))
            }
            Value::TextMap(entries) => collection(
                2,
                entries
                    .iter()
                    .flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]),
            ),
            Value::CountMap(counts) => {
                let entries: Vec<_> = counts
                    .iter()
                    .map(|(key, count)| (key.to_be_bytes(), count.to_be_bytes()))
                    .collect();
                collection(2, entries.iter().flat_map(|(key, count)| [&key[..], &count[..]]))
            }
            Value::BlobMap(entries) => collection(
                2,
                entries
                    .iter()
                    .flat_map(|(key, value)| [key.as_bytes(), value.as_slice()]),
            ),
        }
    }
}

fn sorted(elements: &[String]) -> Vec<&String> {
    let mut sorted: Vec<&String> = elements.iter().collect();
    sorted.sort_unstable();
    sorted
}

fn collection<'v>(values_per_entry: usize, values: impl Iterator<Item = &'v [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    write_collection(&mut out, values_per_entry, values);
    out
}
