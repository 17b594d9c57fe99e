//! `CAST(a AS type)`.

use helenus_types::CqlType;
use num_bigint::BigInt;

use super::number::{Number, is_numeric};
use super::signature::{NativeFunction, ScalarKind};
use super::time::{date_of_ms, ms_of};
use crate::CqlError;

/// The conversion between two types, if there is one.
pub(crate) fn cast_function(from: &CqlType, to: &CqlType) -> Option<NativeFunction> {
    is_castable(from, to)
        .then(|| NativeFunction::scalar(name(to), ScalarKind::Cast, [from.clone()], to.clone()))
}

/// Returns whether anything at all converts to the type.
pub(crate) fn is_cast_target(to: &CqlType) -> bool {
    is_numeric(to) && *to != CqlType::Counter
        || matches!(
            to,
            CqlType::Text | CqlType::Ascii | CqlType::Date | CqlType::Timestamp
        )
}

/// All conversions to a type, in the order Cassandra's messages list those to text, ascii and int.
pub(crate) fn overloads(to: &CqlType) -> Vec<NativeFunction> {
    let order: &[CqlType] = match to {
        CqlType::Text => &TO_TEXT,
        CqlType::Ascii => &TO_ASCII,
        CqlType::Date | CqlType::Timestamp => &[CqlType::Timeuuid, CqlType::Timestamp, CqlType::Date],
        _ => &TO_NUMBER,
    };
    order.iter().filter_map(|from| cast_function(from, to)).collect()
}

const TO_TEXT: [CqlType; 17] = [
    CqlType::Boolean,
    CqlType::Varint,
    CqlType::Timestamp,
    CqlType::Inet,
    CqlType::Date,
    CqlType::Float,
    CqlType::Double,
    CqlType::Timeuuid,
    CqlType::Tinyint,
    CqlType::Int,
    CqlType::Uuid,
    CqlType::Smallint,
    CqlType::Decimal,
    CqlType::Ascii,
    CqlType::Time,
    CqlType::Counter,
    CqlType::Bigint,
];

const TO_ASCII: [CqlType; 16] = [
    CqlType::Timestamp,
    CqlType::Time,
    CqlType::Counter,
    CqlType::Inet,
    CqlType::Smallint,
    CqlType::Float,
    CqlType::Int,
    CqlType::Double,
    CqlType::Varint,
    CqlType::Date,
    CqlType::Boolean,
    CqlType::Uuid,
    CqlType::Decimal,
    CqlType::Tinyint,
    CqlType::Bigint,
    CqlType::Timeuuid,
];

const TO_NUMBER: [CqlType; 9] = [
    CqlType::Decimal,
    CqlType::Tinyint,
    CqlType::Varint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Counter,
    CqlType::Float,
    CqlType::Double,
];

/// A conversion called by its function's name, such as `cast_as_int(x)`.
pub(super) fn named_overloads(function: &str) -> Vec<NativeFunction> {
    let target = function.strip_prefix("cast_as_").and_then(CqlType::native);
    target.map_or_else(Vec::new, |target| overloads(&target))
}

fn is_castable(from: &CqlType, to: &CqlType) -> bool {
    match to {
        _ if from == to => false,
        CqlType::Counter => false,
        to if is_numeric(to) => is_numeric(from),
        CqlType::Text | CqlType::Ascii => {
            is_numeric(from)
                || (*from == CqlType::Ascii)
                || matches!(
                    from,
                    CqlType::Inet
                        | CqlType::Boolean
                        | CqlType::Timeuuid
                        | CqlType::Timestamp
                        | CqlType::Date
                        | CqlType::Time
                        | CqlType::Uuid
                )
        }
        CqlType::Date => matches!(from, CqlType::Timeuuid | CqlType::Timestamp),
        CqlType::Timestamp => matches!(from, CqlType::Timeuuid | CqlType::Date),
        _ => false,
    }
}

fn name(to: &CqlType) -> &'static str {
    match to {
        CqlType::Tinyint => "cast_as_tinyint",
        CqlType::Smallint => "cast_as_smallint",
        CqlType::Int => "cast_as_int",
        CqlType::Bigint => "cast_as_bigint",
        CqlType::Float => "cast_as_float",
        CqlType::Double => "cast_as_double",
        CqlType::Decimal => "cast_as_decimal",
        CqlType::Varint => "cast_as_varint",
        CqlType::Ascii => "cast_as_ascii",
        CqlType::Date => "cast_as_date",
        CqlType::Timestamp => "cast_as_timestamp",
        _ => "cast_as_text",
    }
}

pub(super) fn execute(function: &NativeFunction, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, CqlError> {
    let (&[bytes], [from]) = (arguments, function.argument_types.as_slice()) else {
        return Ok(None);
    };
    let to = &function.return_type;
    match to {
        CqlType::Text | CqlType::Ascii => Ok(Some(text_of(from, bytes).into_bytes())),
        CqlType::Date => Ok(ms_of(from, bytes).map(date_of_ms)),
        CqlType::Timestamp => Ok(ms_of(from, bytes).map(|time_ms| time_ms.to_be_bytes().to_vec())),
        // Even from decimal and double a varint comes by way of a bigint.
        CqlType::Varint => {
            let number =
                Number::from_bytes(from, bytes).map(|number| Number::Varint(BigInt::from(number.to_i64())));
            Ok(number.and_then(|number| number.to_bytes(to)))
        }
        _ => {
            let Some(number) = Number::from_bytes(from, bytes) else {
                return Ok(None);
            };
            number.to_bytes(to).map(Some).ok_or_else(|| invalid!("Character {} is neither a decimal digit number, decimal point, nor \"e\" notation exponential mark.", first_letter(&number)))
        }
    }
}

/// The text of a value without quotes.
fn text_of(from: &CqlType, bytes: &[u8]) -> String {
    if *from == CqlType::Counter {
        return CqlType::Bigint.to_cql_literal(bytes);
    }
    let literal = from.to_cql_literal(bytes);
    match literal
        .strip_prefix('\'')
        .and_then(|literal| literal.strip_suffix('\''))
    {
        Some(text) => text.replace("''", "'"),
        None => literal,
    }
}

/// Returns the character at which Java's parser fails when a number that is not finite becomes a decimal.
fn first_letter(number: &Number) -> char {
    if number.to_f64().is_nan() { 'N' } else { 'I' }
}
