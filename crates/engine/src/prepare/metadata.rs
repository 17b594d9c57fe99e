//! The columns of a statement's result, encoded for each version of the protocol.

use helenus_protocol::ProtocolVersion;
use helenus_protocol::response;
use helenus_types::ExtentBounds;

use super::digest::md5;
use crate::CqlError;
use crate::heap_bytes::{HeapBytes, allocation_bytes};
use crate::term::ColumnSpec;

/// Metadata of the columns that a statement returns.
#[derive(Debug)]
pub struct ResultMetadata {
    pub columns: Vec<ColumnSpec>,
    /// Digest that v5 clients know the metadata by: changes with names and types.
    pub id: [u8; 16],
    /// v3, v4, and v5 with all later ones.
    encoded: [response::ResultMetadata; 3],
}

impl ResultMetadata {
    pub fn new(columns: Vec<ColumnSpec>) -> Self {
        let mut text = String::new();
        for column in &columns {
            let ColumnSpec {
                keyspace,
                table,
                name,
                cql_type,
            } = column;
            // Class names, unlike CQL's, tell a user type's fields.
            text.push_str(&format!(
                "{keyspace}.{table}.{name}:{}\n",
                cql_type.to_marshal_class()
            ));
        }
        let specs = protocol_specs(&columns);
        let encoded = [ProtocolVersion::V3, ProtocolVersion::V4, ProtocolVersion::V5]
            .map(|version| response::ResultMetadata::new(version, &specs));
        drop(specs);
        ResultMetadata {
            columns,
            id: md5(&[&text]),
            encoded,
        }
    }

    #[inline]
    pub fn for_version(&self, version: ProtocolVersion) -> &response::ResultMetadata {
        let [v3, v4, v5] = &self.encoded;
        match version {
            ProtocolVersion::V3 => v3,
            ProtocolVersion::V4 => v4,
            ProtocolVersion::V5 | ProtocolVersion::V6 => v5,
        }
    }
}

/// Clients are sent the types of all columns, user types spelled out.
pub fn check_extent(what: &str, columns: &[ColumnSpec]) -> Result<(), CqlError> {
    let types = columns.iter().map(|column| &column.cql_type);
    match ExtentBounds::COLUMNS.check(types) {
        Ok(_) => Ok(()),
        Err(error) => Err(invalid!("The list of {what} {error}")),
    }
}

/// Column specs as the protocol's encoders take them.
pub fn protocol_specs(columns: &[ColumnSpec]) -> Vec<response::ColumnSpec<'_>> {
    columns
        .iter()
        .map(
            |ColumnSpec {
                 keyspace,
                 table,
                 name,
                 cql_type,
             }| response::ColumnSpec {
                keyspace,
                table,
                name,
                data_type: cql_type,
            },
        )
        .collect()
}

impl HeapBytes for ResultMetadata {
    fn heap_bytes(&self) -> usize {
        let encoded = self
            .encoded
            .iter()
            .map(|metadata| allocation_bytes(metadata.heap_bytes()));
        self.columns.heap_bytes() + encoded.sum::<usize>()
    }
}
