//! `int_as_blob`, `blob_as_int` and their kin: the same bytes under another type.

use helenus_types::CqlType;
use helenus_types::value::blob::Hex;

use super::signature::{NativeFunction, ScalarKind};
use crate::CqlError;

/// For every native type but blob, the functions to blob and from it, each with its name of Cassandra 5.0 and the
/// older one.
const FUNCTIONS: &[([&str; 4], CqlType)] = &[
    (
        ["ascii_as_blob", "asciiasblob", "blob_as_ascii", "blobasascii"],
        CqlType::Ascii,
    ),
    (
        ["bigint_as_blob", "bigintasblob", "blob_as_bigint", "blobasbigint"],
        CqlType::Bigint,
    ),
    (
        [
            "boolean_as_blob",
            "booleanasblob",
            "blob_as_boolean",
            "blobasboolean",
        ],
        CqlType::Boolean,
    ),
    (
        [
            "counter_as_blob",
            "counterasblob",
            "blob_as_counter",
            "blobascounter",
        ],
        CqlType::Counter,
    ),
    (
        ["date_as_blob", "dateasblob", "blob_as_date", "blobasdate"],
        CqlType::Date,
    ),
    (
        [
            "decimal_as_blob",
            "decimalasblob",
            "blob_as_decimal",
            "blobasdecimal",
        ],
        CqlType::Decimal,
    ),
    (
        ["double_as_blob", "doubleasblob", "blob_as_double", "blobasdouble"],
        CqlType::Double,
    ),
    (
        [
            "duration_as_blob",
            "durationasblob",
            "blob_as_duration",
            "blobasduration",
        ],
        CqlType::Duration,
    ),
    (
        ["float_as_blob", "floatasblob", "blob_as_float", "blobasfloat"],
        CqlType::Float,
    ),
    (
        ["inet_as_blob", "inetasblob", "blob_as_inet", "blobasinet"],
        CqlType::Inet,
    ),
    (
        ["int_as_blob", "intasblob", "blob_as_int", "blobasint"],
        CqlType::Int,
    ),
    (
        [
            "smallint_as_blob",
            "smallintasblob",
            "blob_as_smallint",
            "blobassmallint",
        ],
        CqlType::Smallint,
    ),
    (
        ["text_as_blob", "textasblob", "blob_as_text", "blobastext"],
        CqlType::Text,
    ),
    (
        ["time_as_blob", "timeasblob", "blob_as_time", "blobastime"],
        CqlType::Time,
    ),
    (
        [
            "timestamp_as_blob",
            "timestampasblob",
            "blob_as_timestamp",
            "blobastimestamp",
        ],
        CqlType::Timestamp,
    ),
    (
        [
            "timeuuid_as_blob",
            "timeuuidasblob",
            "blob_as_timeuuid",
            "blobastimeuuid",
        ],
        CqlType::Timeuuid,
    ),
    (
        [
            "tinyint_as_blob",
            "tinyintasblob",
            "blob_as_tinyint",
            "blobastinyint",
        ],
        CqlType::Tinyint,
    ),
    (
        ["uuid_as_blob", "uuidasblob", "blob_as_uuid", "blobasuuid"],
        CqlType::Uuid,
    ),
    (
        [
            "varchar_as_blob",
            "varcharasblob",
            "blob_as_varchar",
            "blobasvarchar",
        ],
        CqlType::Text,
    ),
    (
        ["varint_as_blob", "varintasblob", "blob_as_varint", "blobasvarint"],
        CqlType::Varint,
    ),
];

pub(super) fn overloads(name: &str) -> Vec<NativeFunction> {
    let found = FUNCTIONS.iter().find_map(|(names, cql_type)| {
        let index = names.iter().position(|candidate| *candidate == name)?;
        Some((names[index], index < 2, cql_type.clone()))
    });
    match found {
        Some((name, true, cql_type)) => {
            vec![NativeFunction::scalar(
                name,
                ScalarKind::ToBlob,
                [cql_type],
                CqlType::Blob,
            )]
        }
        Some((name, false, cql_type)) => {
            vec![NativeFunction::scalar(
                name,
                ScalarKind::FromBlob,
                [CqlType::Blob],
                cql_type,
            )]
        }
        None => Vec::new(),
    }
}

pub(super) fn from_blob(
    function: &NativeFunction,
    arguments: &[Option<&[u8]>],
) -> Result<Option<Vec<u8>>, CqlError> {
    let Some(bytes) = arguments.first().copied().flatten() else {
        return Ok(None);
    };
    if function.return_type.validate(bytes).is_err() {
        return Err(invalid!(
            "In call to function {}, value 0x{} is not a valid binary representation for type {}",
            function.qualified_name(),
            Hex(bytes),
            function.return_type
        ));
    }
    Ok(Some(bytes.to_vec()))
}
