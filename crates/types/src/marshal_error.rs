//! Why bytes or text are not a value of a type, in Cassandra's words.

use thiserror::Error;

use crate::cql_type::CqlType;
use crate::value::blob::Hex;

/// Cassandra's `MarshalException`. What the message needs is kept; it is put together only when it is printed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MarshalError {
    /// `wanted` is how Cassandra phrases the length, for example "Expected 4 or 0 byte int".
    #[error("{wanted} ({found})")]
    Length { wanted: &'static str, found: usize },
    #[error("Invalid byte for ascii: {0}")]
    NotAscii(i8),
    #[error("String didn't validate.")]
    NotUtf8,
    #[error("Expected 4 or 16 byte inetaddress; got {}", Hex(.0))]
    InetLength(Box<[u8]>),
    /// Cassandra prints the wrong half byte here: the top one of byte 0, not the version's in byte 6.
    #[error("Invalid version for TimeUUID type: 0x{0:x}")]
    TimeuuidVersion(u8),
    #[error("EmptyType only accept empty values")]
    NotEmpty,
    #[error("Not enough bytes to read a duration")]
    DurationTruncated,
    #[error("The duration {unit} must be a 32 bits integer but was: {value}")]
    DurationOutOfRange { unit: &'static str, value: i64 },
    #[error(
        "The duration months, days and nanoseconds must be all of the same sign ({months}, {days}, {nanoseconds})"
    )]
    DurationSigns {
        months: i32,
        days: i32,
        nanoseconds: i64,
    },
    /// `kind` is list, set or map.
    #[error("Not enough bytes to read a {kind}")]
    CollectionTruncated { kind: &'static str },
    #[error("Null value read when not allowed")]
    NullElement,
    #[error("Unexpected extraneous bytes after {kind} value")]
    CollectionTrailing { kind: &'static str },
    #[error("Not enough bytes to read size of {0}th component")]
    TupleSizeTruncated(usize),
    #[error("Not enough bytes to read {0}th component")]
    TupleTruncated(usize),
    #[error("Invalid remaining data after end of tuple value")]
    TupleTrailing,
    #[error("Not enough bytes to read size of {index}th field {field}")]
    FieldSizeTruncated { index: usize, field: String },
    #[error("Not enough bytes to read {index}th field {field}")]
    FieldTruncated { index: usize, field: String },
    #[error("Failure validating the {index}th field {field}; {cause}")]
    Field {
        index: usize,
        field: String,
        cause: Box<MarshalError>,
    },
    #[error("Invalid remaining data after end of UDT value")]
    UserTypeTrailing,
    #[error("Invalid empty vector value")]
    EmptyVector,
    #[error("Not enough bytes to read a {0}")]
    VectorTruncated(CqlType),
    #[error("Unexpected {bytes} extraneous bytes after {vector} value")]
    VectorTrailing { bytes: usize, vector: CqlType },
    /// Text that is no constant of the type; `before` and `after` enclose it as Cassandra's message does.
    #[error("{before}{text}{after}")]
    Text {
        before: &'static str,
        text: String,
        after: &'static str,
    },
    #[error("Invalid tuple literal: too many elements. Type {tuple} expects {wanted} but got {found}")]
    TupleTextTooLong {
        tuple: CqlType,
        wanted: usize,
        found: usize,
    },
    #[error("TimeUUID supports only version 1 UUIDs")]
    TimeuuidText,
    #[error("An hex string representing bytes must have an even length")]
    HexLength,
    #[error("Non-hex characters in {0}")]
    HexCharacter(String),
    #[error("Invalid duration. The total number of {0} must be less or equal to 2147483647")]
    DurationTextTooLong(&'static str),
    #[error("Invalid duration. The {0} are specified multiple times")]
    DurationTextTwice(&'static str),
    #[error("Invalid duration. The {before} should be after {after}")]
    DurationTextOrder {
        before: &'static str,
        after: &'static str,
    },
}
