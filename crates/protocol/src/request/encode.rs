//! Requests as a client writes them: bodies appended to the output, between `begin` and `finish` of a
//! [`FrameWriter`](crate::frame::FrameWriter).

use super::batch::{BatchKind, BatchStatement};
use super::query::PREPARE_HAS_KEYSPACE;
use super::query_parameters::{QueryFlags, QueryParameters};
use super::session::{EventKind, Register};
use super::values::put_value;
use super::{Value, Values};
use crate::version::ProtocolVersion;
use crate::wire::{
    put_byte, put_bytes, put_consistency, put_int, put_long, put_long_string, put_short, put_short_bytes,
    put_string,
};

/// Values to bind, by position or by name. At most 65,535: a statement has no more markers.
#[derive(Clone, Copy, Debug)]
pub enum BindValues<'a> {
    Positional(&'a [Value<'a>]),
    Named(&'a [(&'a str, Value<'a>)]),
    /// Received values, passed on as they came.
    Received(Values<'a>),
    /// Positional values that are already written as they travel: each its length as an int, then its bytes.
    Encoded {
        count: u16,
        bytes: &'a [u8],
    },
}

impl BindValues<'_> {
    pub const NONE: BindValues<'static> = BindValues::Positional(&[]);

    fn count(&self) -> usize {
        match self {
            Self::Positional(values) => values.len(),
            Self::Named(values) => values.len(),
            Self::Received(values) => values.len(),
            Self::Encoded { count, .. } => usize::from(*count),
        }
    }

    fn has_names(&self) -> bool {
        match self {
            Self::Positional(_) => false,
            Self::Named(_) => true,
            Self::Received(values) => values.has_names(),
            Self::Encoded { .. } => false,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_short(out, short_count(self.count()));
        match self {
            Self::Positional(values) => values.iter().for_each(|value| put_value(out, *value)),
            Self::Named(values) => {
                for (name, value) in *values {
                    put_string(out, name);
                    put_value(out, *value);
                }
            }
            Self::Received(values) => out.extend_from_slice(values.as_bytes()),
            Self::Encoded { bytes, .. } => out.extend_from_slice(bytes),
        }
    }
}

/// Writes the body of STARTUP.
pub fn write_startup(out: &mut Vec<u8>, options: &[(&str, &str)]) {
    put_short(out, short_count(options.len()));
    for (name, value) in options {
        put_string(out, name);
        put_string(out, value);
    }
}

/// Writes the body of AUTH_RESPONSE.
pub fn write_auth_response(out: &mut Vec<u8>, token: &[u8]) {
    put_bytes(out, Some(token));
}

/// Writes the body of REGISTER.
pub fn write_register(out: &mut Vec<u8>, events: Register) {
    let kinds = EventKind::ALL.into_iter().filter(|kind| events.contains(*kind));
    put_short(out, short_count(kinds.clone().count()));
    kinds.for_each(|kind| put_string(out, kind.name()));
}

/// Writes the body of QUERY. The values are `values`; those of `parameters` are not looked at.
pub fn write_query(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    text: &str,
    parameters: &QueryParameters<'_>,
    values: BindValues<'_>,
) {
    put_long_string(out, text);
    put_parameters(out, version, parameters, values);
}

/// Writes the body of PREPARE. v3 and v4 have no place for a keyspace and leave it out.
pub fn write_prepare(out: &mut Vec<u8>, version: ProtocolVersion, text: &str, keyspace: Option<&str>) {
    put_long_string(out, text);
    if version >= ProtocolVersion::V5 {
        match keyspace {
            Some(keyspace) => {
                put_int(out, PREPARE_HAS_KEYSPACE);
                put_string(out, keyspace);
            }
            None => put_int(out, 0),
        }
    }
}

/// Writes the body of EXECUTE. `result_metadata_id` travels in v5 only.
pub fn write_execute(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    statement_id: &[u8],
    result_metadata_id: &[u8],
    parameters: &QueryParameters<'_>,
    values: BindValues<'_>,
) {
    put_short_bytes(out, statement_id);
    if version >= ProtocolVersion::V5 {
        put_short_bytes(out, result_metadata_id);
    }
    put_parameters(out, version, parameters, values);
}

/// Writes the body of BATCH, whose values are positional.
pub fn write_batch(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    kind: BatchKind,
    queries: &[(BatchStatement<'_>, BindValues<'_>)],
    parameters: &QueryParameters<'_>,
) {
    put_byte(out, kind as u8);
    put_short(out, short_count(queries.len()));
    for (statement, values) in queries {
        match statement {
            BatchStatement::Text(text) => {
                put_byte(out, 0);
                put_long_string(out, text);
            }
            BatchStatement::Prepared(id) => {
                put_byte(out, 1);
                put_short_bytes(out, id);
            }
        }
        values.put(out);
    }
    put_parameters(out, version, parameters, BindValues::NONE);
}

fn put_parameters(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    parameters: &QueryParameters<'_>,
    values: BindValues<'_>,
) {
    let is_v5 = version >= ProtocolVersion::V5;
    // v3 and v4 have no place for these two.
    let keyspace = parameters.keyspace.filter(|_| is_v5);
    let now_in_seconds = parameters.now_in_seconds.filter(|_| is_v5);
    let flags = QueryFlags::default()
        .with(QueryFlags::VALUES, values.count() > 0)
        .with(QueryFlags::SKIP_METADATA, parameters.skip_metadata)
        .with(QueryFlags::PAGE_SIZE, parameters.page_size.is_some())
        .with(QueryFlags::PAGING_STATE, parameters.paging_state.is_some())
        .with(
            QueryFlags::SERIAL_CONSISTENCY,
            parameters.serial_consistency.is_some(),
        )
        .with(
            QueryFlags::DEFAULT_TIMESTAMP,
            parameters.default_timestamp.is_some(),
        )
        .with(
            QueryFlags::NAMES_FOR_VALUES,
            values.count() > 0 && values.has_names(),
        )
        .with(QueryFlags::KEYSPACE, keyspace.is_some())
        .with(QueryFlags::NOW_IN_SECONDS, now_in_seconds.is_some());
    put_consistency(out, parameters.consistency);
    if is_v5 {
        put_int(out, flags.0.cast_signed());
    } else {
        put_byte(out, flags.0 as u8);
    }
    if values.count() > 0 {
        values.put(out);
    }
    if let Some(page_size) = parameters.page_size {
        put_int(out, page_size);
    }
    if let Some(paging_state) = parameters.paging_state {
        put_bytes(out, Some(paging_state));
    }
    if let Some(consistency) = parameters.serial_consistency {
        put_consistency(out, consistency);
    }
    if let Some(timestamp) = parameters.default_timestamp {
        put_long(out, timestamp);
    }
    if let Some(keyspace) = keyspace {
        put_string(out, keyspace);
    }
    if let Some(seconds) = now_in_seconds {
        put_int(out, seconds.cast_signed());
    }
}

/// Lists of a request are bounded by their 2-byte counts; a client that builds a longer one has a bug.
fn short_count(count: usize) -> u16 {
    assert!(count <= usize::from(u16::MAX), "a list of {count} items");
    count as u16
}
