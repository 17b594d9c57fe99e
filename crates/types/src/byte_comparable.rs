//! Values as strings of bytes whose plain order is the order of the values: what tries and terms of indexes are made of.
//!
//! This is the translation that Cassandra 5.0 calls OSS50. A sequence announces each component with a separator and
//! ends in a terminator, all of which lie between the two escapes of a zero byte, so that no translated value is the
//! start of another. See `docs/formats/byte-comparable.md`.

use crate::cql_type::CqlType;
use crate::value::vint::write_unsigned_vint;
use crate::value::{CollectionElements, Decimal, TupleComponents, VectorElements};

/// A component follows.
pub const NEXT_COMPONENT: u8 = 0x40;
/// A null, or an element without bytes within a tuple, collection or vector.
const NEXT_COMPONENT_NULL: u8 = 0x3e;
/// Ends a complete key, and every nested sequence.
pub const TERMINATOR: u8 = 0x38;

/// Stands for a zero byte, and ends an escaped value.
const ESCAPE: u8 = 0x00;
/// Another zero after an escape, or the end after one.
const ESCAPED_ZERO_MORE: u8 = 0xfe;
/// The run of zeros is over.
const ESCAPED_ZERO_DONE: u8 = 0xff;

/// From this many significant bytes on a varint is written with its length instead of as a variable-length integer.
const VARINT_LONG_BYTES_MIN: usize = 7;

const DECIMAL_POSITIVE: u8 = 0x80;
const DECIMAL_EXPONENT_LENGTH: u8 = 0x40;

/// Translation of a NaN's bits, of which no order takes notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NanForm {
    /// As the format of tries has them, but for the sign.
    AsStored,
    /// The same for all: equal values have equal translations.
    Unified,
}

/// Types whose values are byte strings that sort as such.
pub fn is_escaped(cql_type: &CqlType) -> bool {
    matches!(
        cql_type,
        CqlType::Text
            | CqlType::Ascii
            | CqlType::Blob
            | CqlType::Inet
            | CqlType::Duration
            | CqlType::Counter
            | CqlType::Custom(_)
    )
}

/// Appends a value's translation; false, and nothing appended, for what only a separator can stand for.
///
/// Recursion is as deep as the type, which [`TYPE_DEPTH_MAX`](crate::TYPE_DEPTH_MAX) bounds.
pub fn push_value(out: &mut Vec<u8>, cql_type: &CqlType, value: &[u8], nans: NanForm) -> bool {
    if is_escaped(cql_type) {
        push_escaped(out, value);
        return true;
    }
    if value.is_empty() || *cql_type == CqlType::Empty {
        return false;
    }
    match cql_type {
        CqlType::Tinyint | CqlType::Smallint | CqlType::Int | CqlType::Timestamp => {
            push_sign_flipped(out, value);
        }
        CqlType::Bigint => match <[u8; 8]>::try_from(value) {
            Ok(bytes) => push_variable_length(out, i64::from_be_bytes(bytes)),
            Err(_) => push_sign_flipped(out, value),
        },
        CqlType::Boolean => out.push(u8::from(value != [0])),
        CqlType::Float | CqlType::Double => push_float(out, value, nans),
        CqlType::Timeuuid => push_timeuuid(out, value),
        CqlType::Uuid => push_uuid(out, value),
        CqlType::Varint => push_varint(out, value),
        CqlType::Decimal => return push_decimal(out, value),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let elements = CollectionElements::new(value, 1).into_iter().flatten();
            push_sequence(out, elements.map(|value| (&**element, value)), nans);
        }
        CqlType::Map { key, value: of, .. } => {
            let elements = CollectionElements::new(value, 2).into_iter().flatten();
            let types = [&**key, &**of].into_iter().cycle();
            push_sequence(out, types.zip(elements), nans);
        }
        CqlType::Tuple(types) => push_tuple(out, types.iter(), value, nans),
        CqlType::UserDefined { definition, .. } => {
            push_tuple(out, definition.fields.iter().map(|(_, of)| of), value, nans);
        }
        CqlType::Vector { element, dimension } => {
            let elements = VectorElements::new(element, *dimension, value);
            push_sequence(out, elements.map(|value| (&**element, Some(value))), nans);
        }
        // Dates and times are unsigned numbers of fixed length; all else was handled above.
        _ => out.extend_from_slice(value),
    }
    true
}

fn push_sequence<'a>(
    out: &mut Vec<u8>,
    elements: impl Iterator<Item = (&'a CqlType, Option<&'a [u8]>)>,
    nans: NanForm,
) {
    for (cql_type, value) in elements {
        let separator = out.len();
        out.push(NEXT_COMPONENT);
        let is_there = value.is_some_and(|value| push_value(out, cql_type, value, nans));
        if !is_there {
            out.truncate(separator);
            out.push(NEXT_COMPONENT_NULL);
        }
    }
    out.push(TERMINATOR);
}

/// Nulls at the end are left out, so that a field added to a type later changes nothing.
fn push_tuple<'a>(
    out: &mut Vec<u8>,
    types: impl Iterator<Item = &'a CqlType> + Clone,
    value: &'a [u8],
    nans: NanForm,
) {
    let components = TupleComponents::new(value);
    let count = types
        .clone()
        .zip(components.clone())
        .enumerate()
        .filter(|(_, (_, component))| component.is_some())
        .last()
        .map_or(0, |(index, _)| index + 1);
    push_sequence(out, types.zip(components).take(count), nans);
}

/// Zero bytes become an escape; a value that ends in zeros keeps its place before those that go on after them.
pub fn push_escaped(out: &mut Vec<u8>, value: &[u8]) {
    let mut is_escaped = false;
    for &byte in value {
        match (is_escaped, byte) {
            (true, ESCAPE) => out.push(ESCAPED_ZERO_MORE),
            (true, _) => {
                out.extend_from_slice(&[ESCAPED_ZERO_DONE, byte]);
                is_escaped = false;
            }
            (false, _) => {
                out.push(byte);
                is_escaped = byte == ESCAPE;
            }
        }
    }
    out.push(if is_escaped { ESCAPED_ZERO_MORE } else { ESCAPE });
}

pub fn push_sign_flipped(out: &mut Vec<u8>, value: &[u8]) {
    if let [first, rest @ ..] = value {
        out.push(first ^ 0x80);
        out.extend_from_slice(rest);
    }
}

/// A signed integer in one to nine bytes: the inverted sign, as many bits equal to that as bytes follow, the number.
fn push_variable_length(out: &mut Vec<u8>, value: i64) {
    let negative = (value >> 63).cast_unsigned();
    let magnitude = value.cast_unsigned() ^ negative;
    let bits = 64 - (magnitude | 1).leading_zeros() as usize;
    let length = bits / 7 + 1;
    if length >= 9 {
        out.push(0xff ^ negative as u8);
        out.extend_from_slice(&((magnitude | 1 << 63) ^ negative).to_be_bytes());
        return;
    }
    let mask = u64::from(0xff_u8 << (8 - length));
    let coded = (magnitude | mask << (8 * (length - 1))) ^ negative;
    out.extend_from_slice(coded.to_be_bytes().get(8 - length..).unwrap_or_default());
}

/// Negative numbers are inverted. Java sorts every NaN last; a negative one, which Cassandra misplaces, loses its sign
/// here to keep that order.
fn push_float(out: &mut Vec<u8>, value: &[u8], nans: NanForm) {
    let is_nan = match (<[u8; 4]>::try_from(value), <[u8; 8]>::try_from(value)) {
        (Ok(bytes), _) => f32::from_be_bytes(bytes).is_nan(),
        (_, Ok(bytes)) => f64::from_be_bytes(bytes).is_nan(),
        _ => false,
    };
    let [first, rest @ ..] = value else { return };
    if is_nan && nans == NanForm::Unified {
        return out.extend(value.iter().map(|_| 0xff));
    }
    if first & 0x80 != 0 && !is_nan {
        out.push(!first);
        out.extend(rest.iter().map(|byte| !byte));
    } else {
        out.push(first | 0x80);
        out.extend_from_slice(rest);
    }
}

fn push_timeuuid(out: &mut Vec<u8>, value: &[u8]) {
    let Ok(bytes) = <[u8; 16]>::try_from(value) else {
        return out.extend_from_slice(value);
    };
    let word = u128::from_be_bytes(bytes);
    out.extend_from_slice(&time_first((word >> 64) as u64).to_be_bytes());
    // The lower bytes compare as signed ones.
    out.extend_from_slice(&(word as u64 ^ 0x8080_8080_8080_8080).to_be_bytes());
}

fn push_uuid(out: &mut Vec<u8>, value: &[u8]) {
    let Ok(bytes) = <[u8; 16]>::try_from(value) else {
        return out.extend_from_slice(value);
    };
    let word = u128::from_be_bytes(bytes);
    let high = (word >> 64) as u64;
    let version = (high >> 12) & 0xf;
    let first = if version == 1 {
        time_first(high)
    } else {
        version << 60 | (high >> 4) & 0x0fff_ffff_ffff_f000 | high & 0xfff
    };
    out.extend_from_slice(&first.to_be_bytes());
    out.extend_from_slice(&(word as u64).to_be_bytes());
}

/// The time of a version 1 UUID, most significant part first, under its version.
fn time_first(high: u64) -> u64 {
    high << 48 | (high << 16) & 0xffff_0000_0000 | high >> 32
}

fn push_varint(out: &mut Vec<u8>, value: &[u8]) {
    let Some(&sign_byte) = value.first() else { return };
    let sign = if sign_byte & 0x80 != 0 { 0xff } else { 0x00 };
    let is_padding = |byte: &&u8| sign_byte == sign && **byte == sign;
    let padding = value.iter().take_while(is_padding).count().min(value.len() - 1);
    let significant = value.get(padding..).unwrap_or_default();
    if significant.len() < VARINT_LONG_BYTES_MIN {
        let mut bytes = [sign; 8];
        let tail = bytes.iter_mut().rev().zip(value.iter().rev());
        tail.for_each(|(to, from)| *to = *from);
        return push_variable_length(out, i64::from_be_bytes(bytes));
    }
    out.push(!sign);
    let length_at = out.len();
    write_unsigned_vint(out, (significant.len() - VARINT_LONG_BYTES_MIN) as u64);
    let length = out.get_mut(length_at..).unwrap_or_default();
    length.iter_mut().for_each(|byte| *byte ^= sign);
    out.extend_from_slice(significant);
}

/// Sign and base-100 exponent, then the base-100 digits of a mantissa below one, each at 0x80, then zero. The digits
/// of a negative number are those of what is left above the next lower integer, as floors give them.
fn push_decimal(out: &mut Vec<u8>, value: &[u8]) -> bool {
    let Some(decimal) = Decimal::from_bytes(value) else {
        return false;
    };
    let is_negative = value.get(4).is_some_and(|first| first & 0x80 != 0);
    let mut scale = i64::from(decimal.scale);
    let mut digits = if scale % 2 == 0 {
        decimal.unscaled.magnitude().to_radix_be(100)
    } else {
        scale += 1;
        (decimal.unscaled.magnitude() * 10_u32).to_radix_be(100)
    };
    if digits.iter().all(|digit| *digit == 0) {
        out.push(DECIMAL_POSITIVE);
        return true;
    }
    let exponent = digits.len() as i64 - scale / 2;
    while digits.last() == Some(&0) {
        digits.pop();
    }
    // Scales are 32 bits wide and digits 64 KiB at most, so this fits.
    let exponent = i32::try_from(if is_negative { -exponent } else { exponent }).unwrap_or(i32::MAX);
    let length = 4 - (exponent.unsigned_abs().leading_zeros() / 8) as u8;
    let sign = if is_negative { 0 } else { DECIMAL_POSITIVE };
    let length_coded = if exponent < 0 {
        DECIMAL_EXPONENT_LENGTH - length
    } else {
        DECIMAL_EXPONENT_LENGTH + length
    };
    out.push(length_coded + sign);
    let exponent_bytes = exponent.to_be_bytes();
    out.extend_from_slice(exponent_bytes.get(4 - usize::from(length)..).unwrap_or_default());
    let last = digits.len() - 1;
    out.extend(digits.iter().enumerate().map(|(index, digit)| {
        let floor = match (is_negative, index) {
            (false, _) => *digit,
            (true, 0) if last == 0 => digit.wrapping_neg(),
            (true, 0) => digit.wrapping_neg().wrapping_sub(1),
            (true, index) if index == last => 100 - digit,
            (true, _) => 99 - digit,
        };
        floor.wrapping_add(0x80)
    }));
    out.push(0);
    true
}
