//! Columns of results and bind markers, encoded once per statement and version and copied into every response.

use helenus_types::CqlType;

use crate::type_option::put_type;
use crate::version::ProtocolVersion;
use crate::wire::{put_int, put_short, put_string};

/// A column of a result, or a bind marker.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec<'a> {
    pub keyspace: &'a str,
    pub table: &'a str,
    pub name: &'a str,
    pub data_type: &'a CqlType,
}

/// The flags in front of metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataFlags(pub i32);

impl MetadataFlags {
    /// One keyspace and table for all columns, named once.
    pub(crate) const GLOBAL_TABLES_SPEC: MetadataFlags = MetadataFlags(0x01);
    pub const HAS_MORE_PAGES: MetadataFlags = MetadataFlags(0x02);
    pub const NO_METADATA: MetadataFlags = MetadataFlags(0x04);
    /// v5: the client's metadata is out of date; its new id and the columns follow.
    pub const METADATA_CHANGED: MetadataFlags = MetadataFlags(0x08);

    #[inline]
    pub fn contains(self, flag: MetadataFlags) -> bool {
        self.0 & flag.0 != 0
    }

    #[inline]
    #[must_use]
    pub fn with(self, flag: MetadataFlags) -> MetadataFlags {
        MetadataFlags(self.0 | flag.0)
    }

    #[inline]
    #[must_use]
    pub fn without(self, flag: MetadataFlags) -> MetadataFlags {
        MetadataFlags(self.0 & !flag.0)
    }
}

/// The columns of a result, encoded for one version (v3, v4, and v5 name types differently).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultMetadata {
    pub(super) flags: MetadataFlags,
    pub(super) column_count: i32,
    /// The table, if one is named for all, and the columns.
    pub(super) columns: Vec<u8>,
}

impl ResultMetadata {
    pub fn new(version: ProtocolVersion, columns: &[ColumnSpec<'_>]) -> Self {
        let (flags, encoded) = encode_columns(version, columns);
        ResultMetadata {
            flags,
            column_count: column_count(columns),
            columns: encoded,
        }
    }

    /// Bytes of the heap that it holds.
    pub fn heap_bytes(&self) -> usize {
        self.columns.capacity()
    }

    /// Metadata that PREPARE gives for a statement that returns no rows.
    pub fn none() -> Self {
        ResultMetadata {
            flags: MetadataFlags::NO_METADATA,
            column_count: 0,
            columns: Vec::new(),
        }
    }

    pub fn column_count(&self) -> usize {
        self.column_count as usize
    }

    /// Appends the metadata as PREPARED carries it.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_int(out, self.flags.0);
        put_int(out, self.column_count);
        out.extend_from_slice(&self.columns);
    }
}

/// The bind markers of a statement, encoded for one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMetadata {
    encoded: Vec<u8>,
}

impl BindMetadata {
    /// `partition_key_markers` are the positions of the markers that make up the partition key, in the key's order;
    /// empty if the markers alone do not give it. v3 leaves them out.
    pub fn new(version: ProtocolVersion, markers: &[ColumnSpec<'_>], partition_key_markers: &[u16]) -> Self {
        let (flags, columns) = encode_columns(version, markers);
        let mut encoded = Vec::with_capacity(columns.len() + 12 + 2 * partition_key_markers.len());
        put_int(&mut encoded, flags.0);
        put_int(&mut encoded, column_count(markers));
        if version >= ProtocolVersion::V4 {
            // Positions mean nothing when the markers belong to several tables.
            let is_one_table = flags.contains(MetadataFlags::GLOBAL_TABLES_SPEC);
            let positions = if is_one_table { partition_key_markers } else { &[] };
            put_int(&mut encoded, positions.len() as i32);
            for position in positions {
                put_short(&mut encoded, *position);
            }
        }
        encoded.extend_from_slice(&columns);
        BindMetadata { encoded }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encoded);
    }
}

/// The parser bounds both lists by the statement's length, far below 2^31.
fn column_count(columns: &[ColumnSpec<'_>]) -> i32 {
    columns.len() as i32
}

fn encode_columns(version: ProtocolVersion, columns: &[ColumnSpec<'_>]) -> (MetadataFlags, Vec<u8>) {
    let mut out = Vec::new();
    let table_of_all = columns.first().filter(|first| {
        columns
            .iter()
            .all(|column| column.keyspace == first.keyspace && column.table == first.table)
    });
    if let Some(first) = table_of_all {
        put_string(&mut out, first.keyspace);
        put_string(&mut out, first.table);
    }
    for column in columns {
        if table_of_all.is_none() {
            put_string(&mut out, column.keyspace);
            put_string(&mut out, column.table);
        }
        put_string(&mut out, column.name);
        put_type(&mut out, version, column.data_type);
    }
    let flags = if table_of_all.is_some() {
        MetadataFlags::GLOBAL_TABLES_SPEC
    } else {
        MetadataFlags::default()
    };
    (flags, out)
}
