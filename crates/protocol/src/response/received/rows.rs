//! RESULT as a client reads it.

use helenus_types::CqlType;

use super::event::read_schema_change;
use crate::response::event::SchemaChange;
use crate::response::metadata::MetadataFlags;
use crate::response::result::ResultKind;
use crate::type_option::read_type;
use crate::version::ProtocolVersion;
use crate::wire::{DecodeError, WireReader};

#[derive(Clone, Debug)]
pub enum ReceivedResult<'a> {
    Void,
    Rows(ReceivedRows<'a>),
    SetKeyspace(&'a str),
    Prepared(ReceivedPrepared<'a>),
    SchemaChange(SchemaChange<'a>),
}

/// A column of a result, or a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedColumn<'a> {
    pub keyspace: &'a str,
    pub table: &'a str,
    pub name: &'a str,
    pub data_type: CqlType,
}

/// The metadata of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedColumns<'a> {
    pub flags: MetadataFlags,
    pub column_count: usize,
    pub paging_state: Option<&'a [u8]>,
    pub new_metadata_id: Option<&'a [u8]>,
    /// Empty if the client asked to leave them out.
    pub columns: Vec<ReceivedColumn<'a>>,
}

/// The bind markers of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMarkers<'a> {
    pub columns: Vec<ReceivedColumn<'a>>,
    /// Positions of the markers that make up the partition key; v4 and later.
    pub partition_key: Vec<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedPrepared<'a> {
    pub statement_id: &'a [u8],
    /// v5 and later.
    pub result_metadata_id: Option<&'a [u8]>,
    pub markers: ReceivedMarkers<'a>,
    pub result: ReceivedColumns<'a>,
}

/// A page of rows: a view of bytes whose lengths have all been checked.
#[derive(Clone, Debug)]
pub struct ReceivedRows<'a> {
    pub metadata: ReceivedColumns<'a>,
    row_count: usize,
    bytes: &'a [u8],
}

/// One row's values, in the columns' order; `None` is null.
#[derive(Clone, Debug)]
pub struct ReceivedRow<'a> {
    reader: WireReader<'a>,
    values_left: usize,
}

impl<'a> ReceivedResult<'a> {
    pub(super) fn decode(reader: &mut WireReader<'a>, version: ProtocolVersion) -> Result<Self, DecodeError> {
        let number = reader.int("a result kind")?;
        let kind = ResultKind::from_number(number).ok_or(DecodeError::UnknownResultKind(number))?;
        Ok(match kind {
            ResultKind::Void => ReceivedResult::Void,
            ResultKind::Rows => ReceivedResult::Rows(ReceivedRows::decode(reader)?),
            ResultKind::SetKeyspace => ReceivedResult::SetKeyspace(reader.string()?),
            ResultKind::Prepared => ReceivedResult::Prepared(ReceivedPrepared::decode(reader, version)?),
            ResultKind::SchemaChange => ReceivedResult::SchemaChange(read_schema_change(reader)?),
        })
    }
}

impl<'a> ReceivedColumns<'a> {
    fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        let flags = MetadataFlags(reader.int("metadata flags")?);
        let column_count = reader.long_count("columns", 0)?;
        let mut metadata = ReceivedColumns {
            flags,
            column_count,
            paging_state: None,
            new_metadata_id: None,
            columns: Vec::new(),
        };
        if flags.contains(MetadataFlags::HAS_MORE_PAGES) {
            metadata.paging_state = reader.bytes("a paging state")?;
        }
        if flags.contains(MetadataFlags::METADATA_CHANGED) {
            metadata.new_metadata_id = Some(reader.short_bytes()?);
        }
        if !flags.contains(MetadataFlags::NO_METADATA) {
            metadata.columns = read_columns(reader, flags, column_count)?;
        }
        Ok(metadata)
    }
}

impl<'a> ReceivedPrepared<'a> {
    fn decode(reader: &mut WireReader<'a>, version: ProtocolVersion) -> Result<Self, DecodeError> {
        let statement_id = reader.short_bytes()?;
        let result_metadata_id = if version >= ProtocolVersion::V5 {
            Some(reader.short_bytes()?)
        } else {
            None
        };
        let flags = MetadataFlags(reader.int("metadata flags")?);
        let marker_count = reader.long_count("markers", 0)?;
        let mut partition_key = Vec::new();
        if version >= ProtocolVersion::V4 {
            for _ in 0..reader.long_count("partition key markers", 2)? {
                partition_key.push(reader.short("a partition key marker")?);
            }
        }
        let columns = read_columns(reader, flags, marker_count)?;
        let markers = ReceivedMarkers {
            columns,
            partition_key,
        };
        Ok(ReceivedPrepared {
            statement_id,
            result_metadata_id,
            markers,
            result: ReceivedColumns::decode(reader)?,
        })
    }
}

fn read_columns<'a>(
    reader: &mut WireReader<'a>,
    flags: MetadataFlags,
    count: usize,
) -> Result<Vec<ReceivedColumn<'a>>, DecodeError> {
    // A column is at least an empty name (2 bytes) and a type option (2 bytes).
    let found = reader.rest().len();
    if count.saturating_mul(4) > found {
        return Err(DecodeError::CountBeyondBody {
            what: "columns",
            count,
            found,
        });
    }
    let table_of_all = if flags.contains(MetadataFlags::GLOBAL_TABLES_SPEC) {
        Some((reader.string()?, reader.string()?))
    } else {
        None
    };
    (0..count)
        .map(|_| {
            let (keyspace, table) = match table_of_all {
                Some(names) => names,
                None => (reader.string()?, reader.string()?),
            };
            Ok(ReceivedColumn {
                keyspace,
                table,
                name: reader.string()?,
                data_type: read_type(reader)?,
            })
        })
        .collect()
}

impl<'a> ReceivedRows<'a> {
    fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        let metadata = ReceivedColumns::decode(reader)?;
        // A value is at least its 4-byte length. Rows without columns do not exist; counting one byte for each keeps
        // a hostile server from making the client loop over nothing.
        let row_bytes_min = metadata.column_count.saturating_mul(4).max(1);
        let row_count = reader.long_count("rows", row_bytes_min)?;
        let start = reader.rest();
        for _ in 0..row_count * metadata.column_count {
            reader.bytes("a value")?;
        }
        let used = start.len() - reader.rest().len();
        Ok(ReceivedRows {
            metadata,
            row_count,
            bytes: &start[..used],
        })
    }

    pub fn len(&self) -> usize {
        self.row_count
    }

    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = ReceivedRow<'a>> + use<'a> {
        let mut reader = WireReader::new(self.bytes);
        let columns = self.metadata.column_count;
        (0..self.row_count).map(move |_| {
            let row = ReceivedRow {
                reader,
                values_left: columns,
            };
            // `decode` has checked the same bytes, so none of these can fail.
            (0..columns).all(|_| reader.bytes("a value").is_ok());
            row
        })
    }
}

impl<'a> Iterator for ReceivedRow<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        self.values_left = self.values_left.checked_sub(1)?;
        self.reader.bytes("a value").ok()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.values_left, Some(self.values_left))
    }
}

impl ExactSizeIterator for ReceivedRow<'_> {}
