//! The parameters QUERY, EXECUTE and BATCH share (native_protocol_v5.spec, section 4.1.4).

use super::values::Values;
use crate::consistency::Consistency;
use crate::version::ProtocolVersion;
use crate::wire::{DecodeError, WireReader};

/// Which parameters are present: one byte in v3 and v4, four in v5. Bits without a meaning are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryFlags(pub u32);

impl QueryFlags {
    pub const VALUES: QueryFlags = QueryFlags(0x0001);
    pub(crate) const SKIP_METADATA: QueryFlags = QueryFlags(0x0002);
    pub(crate) const PAGE_SIZE: QueryFlags = QueryFlags(0x0004);
    pub(crate) const PAGING_STATE: QueryFlags = QueryFlags(0x0008);
    pub(crate) const SERIAL_CONSISTENCY: QueryFlags = QueryFlags(0x0010);
    pub(crate) const DEFAULT_TIMESTAMP: QueryFlags = QueryFlags(0x0020);
    pub(crate) const NAMES_FOR_VALUES: QueryFlags = QueryFlags(0x0040);
    pub const KEYSPACE: QueryFlags = QueryFlags(0x0080);
    pub(crate) const NOW_IN_SECONDS: QueryFlags = QueryFlags(0x0100);

    #[inline]
    pub fn contains(self, flag: QueryFlags) -> bool {
        self.0 & flag.0 != 0
    }

    #[inline]
    #[must_use]
    pub fn with(self, flag: QueryFlags, is_set: bool) -> QueryFlags {
        if is_set { QueryFlags(self.0 | flag.0) } else { self }
    }
}

/// Parameters that a statement is executed with.
#[derive(Clone, Copy, Debug)]
pub struct QueryParameters<'a> {
    pub consistency: Consistency,
    /// The client has the result's metadata from PREPARE and wants the rows without it.
    pub skip_metadata: bool,
    /// Empty in a BATCH, whose values belong to its statements.
    pub values: Values<'a>,
    /// As sent: zero and negative sizes are for the executor to judge.
    pub page_size: Option<i32>,
    pub paging_state: Option<&'a [u8]>,
    pub serial_consistency: Option<Consistency>,
    /// Microseconds since 1970, unless the statement says `USING TIMESTAMP`.
    pub default_timestamp: Option<i64>,
    /// The keyspace for unqualified names (v5), instead of the session's.
    pub keyspace: Option<&'a str>,
    /// Time that counts as "now" for expiry (v5), in seconds since 1970; unsigned, as in Cassandra 5.0.
    pub now_in_seconds: Option<u32>,
}

impl<'a> QueryParameters<'a> {
    /// Parameters with nothing but a consistency level.
    pub fn new(consistency: Consistency) -> Self {
        QueryParameters {
            consistency,
            skip_metadata: false,
            values: Values::EMPTY,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            default_timestamp: None,
            keyspace: None,
            now_in_seconds: None,
        }
    }

    #[inline]
    pub(super) fn decode(reader: &mut WireReader<'a>, version: ProtocolVersion) -> Result<Self, DecodeError> {
        let mut parameters = QueryParameters::new(reader.consistency()?);
        let flags = if version >= ProtocolVersion::V5 {
            QueryFlags(reader.int("query flags")?.cast_unsigned())
        } else {
            QueryFlags(u32::from(reader.byte("query flags")?))
        };
        parameters.skip_metadata = flags.contains(QueryFlags::SKIP_METADATA);
        if flags.contains(QueryFlags::VALUES) {
            let has_names = flags.contains(QueryFlags::NAMES_FOR_VALUES);
            parameters.values = Values::decode(reader, version, has_names)?;
        }
        if flags.contains(QueryFlags::PAGE_SIZE) {
            parameters.page_size = Some(reader.int("a page size")?);
        }
        if flags.contains(QueryFlags::PAGING_STATE) {
            parameters.paging_state = reader.bytes("a paging state")?;
        }
        if flags.contains(QueryFlags::SERIAL_CONSISTENCY) {
            parameters.serial_consistency = Some(reader.consistency()?);
        }
        if flags.contains(QueryFlags::DEFAULT_TIMESTAMP) {
            let timestamp = reader.long("a timestamp")?;
            // Cassandra's mark for "no timestamp", so it cannot be one.
            if timestamp == i64::MIN {
                return Err(DecodeError::TimestampOutOfBounds(timestamp));
            }
            parameters.default_timestamp = Some(timestamp);
        }
        if flags.contains(QueryFlags::KEYSPACE) {
            parameters.keyspace = Some(reader.string()?);
        }
        if flags.contains(QueryFlags::NOW_IN_SECONDS) {
            parameters.now_in_seconds = Some(reader.int("the time in seconds")?.cast_unsigned());
        }
        Ok(parameters)
    }
}
