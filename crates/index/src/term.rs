//! Terms: what values are found under.

use helenus_types::CqlType;
use helenus_types::byte_comparable::{NanForm, is_escaped, push_escaped, push_value};

use crate::text::{TextOptions, analyzed};

/// Longer terms are cut. Two values that differ only behind it share a term, and the row tells them apart.
pub const TERM_BYTES_MAX: usize = 512;

/// The term of what has no other: rows under it are candidates of every query.
pub const ANY_TERM: &[u8] = &[0];

/// Begins every other term.
const VALUE: u8 = 1;

/// Translating a number takes time by the square of its digits: 10 microseconds of these.
const DECIMAL_BYTES_MAX: usize = 1024;
/// Translating anything else takes time by its length: 100 microseconds of these, of which a term keeps the start.
const TRANSLATED_BYTES_MAX: usize = 64 << 10;

/// Appends the term of a value; false, and nothing appended, where it has none of its own.
pub(crate) fn push_term(out: &mut Vec<u8>, cql_type: &CqlType, text: &TextOptions, value: &[u8]) -> bool {
    if is_too_long(cql_type, text, value) {
        return false;
    }
    let start = out.len();
    out.push(VALUE);
    match cql_type {
        CqlType::Text | CqlType::Ascii if !text.are_plain() => match str::from_utf8(value) {
            Ok(value) => out.extend_from_slice(analyzed(text, value).as_bytes()),
            Err(_) => out.extend_from_slice(value),
        },
        _ if is_escaped(cql_type) => {
            out.extend_from_slice(value.get(..TERM_BYTES_MAX).unwrap_or(value));
        }
        // An empty value has the shortest term, and comes first.
        _ => {
            let _is_there = push_value(out, cql_type, value, NanForm::Unified);
        }
    }
    out.truncate(start + TERM_BYTES_MAX);
    true
}

/// Appends the term of a map's entry.
pub(crate) fn push_entry_term(out: &mut Vec<u8>, key: (&CqlType, &[u8]), value: (&CqlType, &[u8])) -> bool {
    let plain = TextOptions::default();
    let mut part = Vec::new();
    if !push_term(&mut part, key.0, &plain, key.1) {
        return false;
    }
    let start = out.len();
    out.push(VALUE);
    push_escaped(out, &part);
    part.clear();
    if !push_term(&mut part, value.0, &plain, value.1) {
        out.truncate(start);
        return false;
    }
    out.extend_from_slice(&part);
    out.truncate(start + TERM_BYTES_MAX);
    true
}

fn is_too_long(cql_type: &CqlType, text: &TextOptions, value: &[u8]) -> bool {
    if value.len() <= DECIMAL_BYTES_MAX {
        return false;
    }
    let bytes_max = match has_decimal(cql_type) {
        true => DECIMAL_BYTES_MAX,
        false => TRANSLATED_BYTES_MAX,
    };
    let is_sliced = is_escaped(cql_type) && text.are_plain();
    value.len() > bytes_max && !is_sliced
}

fn has_decimal(cql_type: &CqlType) -> bool {
    *cql_type == CqlType::Decimal || cql_type.sub_types().any(has_decimal)
}

/// Returns whether terms sort as the values do. Not where an empty element and a null, two places in the order of a nested type,
/// have the same term.
pub(crate) fn keeps_order(cql_type: &CqlType, text: &TextOptions) -> bool {
    cql_type.sub_types().next().is_none()
        && (text.are_plain() || !matches!(cql_type, CqlType::Text | CqlType::Ascii))
}
