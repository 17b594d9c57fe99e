//! QUERY, PREPARE and EXECUTE.

use super::query_parameters::QueryParameters;
use crate::version::ProtocolVersion;
use crate::wire::{DecodeError, WireReader};

/// A statement as text, executed once.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub text: &'a str,
    pub parameters: QueryParameters<'a>,
}

impl<'a> Query<'a> {
    pub(super) fn decode(reader: &mut WireReader<'a>, version: ProtocolVersion) -> Result<Self, DecodeError> {
        let text = reader.long_string()?;
        Ok(Query {
            text,
            parameters: QueryParameters::decode(reader, version)?,
        })
    }
}

/// A statement as text, to be executed later by its id.
#[derive(Clone, Copy, Debug)]
pub struct Prepare<'a> {
    pub text: &'a str,
    /// The keyspace for unqualified names (v5), instead of the session's.
    pub keyspace: Option<&'a str>,
}

/// The flag of PREPARE that says that a keyspace follows (v5).
pub(super) const PREPARE_HAS_KEYSPACE: i32 = 0x01;

impl<'a> Prepare<'a> {
    pub(super) fn decode(reader: &mut WireReader<'a>, version: ProtocolVersion) -> Result<Self, DecodeError> {
        let text = reader.long_string()?;
        let mut keyspace = None;
        if version >= ProtocolVersion::V5 && reader.int("prepare flags")? & PREPARE_HAS_KEYSPACE != 0 {
            keyspace = Some(reader.string()?);
        }
        Ok(Prepare { text, keyspace })
    }
}

/// A prepared statement and its values.
#[derive(Clone, Copy, Debug)]
pub struct Execute<'a> {
    /// 16 bytes if it is an id of ours; anything else is unknown.
    pub statement_id: &'a [u8],
    /// The metadata the client holds (v5): if it is not the current one, the rows must bring the new one.
    pub result_metadata_id: Option<&'a [u8]>,
    pub parameters: QueryParameters<'a>,
}

impl<'a> Execute<'a> {
    #[inline]
    pub(super) fn decode(reader: &mut WireReader<'a>, version: ProtocolVersion) -> Result<Self, DecodeError> {
        let statement_id = reader.short_bytes()?;
        let result_metadata_id = if version >= ProtocolVersion::V5 {
            Some(reader.short_bytes()?)
        } else {
            None
        };
        let parameters = QueryParameters::decode(reader, version)?;
        Ok(Execute {
            statement_id,
            result_metadata_id,
            parameters,
        })
    }
}
