//! BATCH: several modifications in one request.

use super::query_parameters::QueryParameters;
use super::values::Values;
use crate::version::ProtocolVersion;
use crate::wire::{DecodeError, WireReader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BatchKind {
    Logged = 0,
    Unlogged = 1,
    Counter = 2,
}

/// A batch. Its statements are a view of the request's bytes, walked once to check every length.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    pub kind: BatchKind,
    pub queries: BatchQueries<'a>,
    pub parameters: QueryParameters<'a>,
}

/// Statement of a batch: text, or the id of a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStatement<'a> {
    Text(&'a str),
    Prepared(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
pub struct BatchQuery<'a> {
    pub statement: BatchStatement<'a>,
    pub values: Values<'a>,
}

/// The statements of a batch, in order.
#[derive(Clone, Copy, Debug)]
pub struct BatchQueries<'a> {
    bytes: &'a [u8],
    count: u16,
    version: ProtocolVersion,
}

impl<'a> Batch<'a> {
    pub(super) fn decode(reader: &mut WireReader<'a>, version: ProtocolVersion) -> Result<Self, DecodeError> {
        let kind = reader.byte("a batch type")?.cast_signed();
        // A statement is at least its kind (1), an empty id (2) and no values (2).
        let count = reader.count("batch queries", 5)?;
        let start = reader.rest();
        for _ in 0..count {
            BatchQuery::decode(reader, version)?;
        }
        let used = start.len() - reader.rest().len();
        let queries = BatchQueries {
            bytes: &start[..used],
            count: count as u16,
            version,
        };
        let parameters = QueryParameters::decode(reader, version)?;
        let kind = match kind {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            other => return Err(DecodeError::UnknownBatchType(other)),
        };
        Ok(Batch {
            kind,
            queries,
            parameters,
        })
    }
}

impl<'a> BatchQuery<'a> {
    fn decode(reader: &mut WireReader<'a>, version: ProtocolVersion) -> Result<Self, DecodeError> {
        let statement = match reader.byte("a query kind")?.cast_signed() {
            0 => BatchStatement::Text(reader.long_string()?),
            1 => BatchStatement::Prepared(reader.short_bytes()?),
            other => return Err(DecodeError::UnknownBatchQueryKind(other)),
        };
        // Names for a batch's values are in the specification, but its servers never understood them
        // (CASSANDRA-10246): the values are positional whatever the flags say.
        Ok(BatchQuery {
            statement,
            values: Values::decode(reader, version, false)?,
        })
    }
}

impl<'a> BatchQueries<'a> {
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = BatchQuery<'a>> + use<'a> {
        let mut reader = WireReader::new(self.bytes);
        let version = self.version;
        // `Batch::decode` has checked the same bytes, so none of these can fail.
        (0..self.count).map_while(move |_| BatchQuery::decode(&mut reader, version).ok())
    }
}
