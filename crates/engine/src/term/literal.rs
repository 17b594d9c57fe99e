//! Constants: the type one has by its looks, and its bytes for the type it is given.

use helenus_cql::ast::{Literal, LiteralKind};
use helenus_types::value::blob::hex_decode;
use helenus_types::{CqlType, MarshalError};

use crate::functions::Clock;

/// The kind of a constant in error messages.
pub(super) fn kind_name(kind: LiteralKind) -> &'static str {
    match kind {
        LiteralKind::String => "STRING",
        LiteralKind::Integer => "INTEGER",
        LiteralKind::Uuid => "UUID",
        LiteralKind::Float => "FLOAT",
        LiteralKind::Boolean => "BOOLEAN",
        LiteralKind::Hex => "HEX",
        LiteralKind::Duration => "DURATION",
    }
}

/// The type a constant fits exactly: the narrowest of its kind.
pub(super) fn preferred_type(literal: &Literal) -> CqlType {
    match literal.kind {
        LiteralKind::String if literal.text.is_ascii() => CqlType::Ascii,
        LiteralKind::String => CqlType::Text,
        LiteralKind::Integer if literal.text.parse::<i32>().is_ok() => CqlType::Int,
        LiteralKind::Integer if literal.text.parse::<i64>().is_ok() => CqlType::Bigint,
        LiteralKind::Integer => CqlType::Varint,
        // The version is the first digit of the third group.
        LiteralKind::Uuid if literal.text.as_bytes().get(14) == Some(&b'1') => CqlType::Timeuuid,
        LiteralKind::Uuid => CqlType::Uuid,
        LiteralKind::Float if is_exact_double(&literal.text) => CqlType::Double,
        LiteralKind::Float => CqlType::Decimal,
        LiteralKind::Boolean => CqlType::Boolean,
        // Cassandra says tinyint here, so a blob constant never fits anything exactly.
        LiteralKind::Hex => CqlType::Tinyint,
        LiteralKind::Duration => CqlType::Duration,
    }
}

/// `now` is what the timestamp constant `'now'` stands for: the moment that the statement is prepared.
pub(super) fn constant_bytes(
    literal: &Literal,
    cql_type: &CqlType,
    now: Clock,
) -> Result<Vec<u8>, MarshalError> {
    if literal.kind == LiteralKind::Hex {
        let digits = literal.text.get(2..).unwrap_or_default();
        // What digits are to a class is for its text to say; without a text of its own they are its bytes.
        if matches!(cql_type, CqlType::Custom(_)) {
            return cql_type.from_text(digits, now.now_ms());
        }
        return hex_decode(digits).ok_or_else(|| MarshalError::Text {
            before: "cannot parse '",
            text: digits.to_owned(),
            after: "' as hex bytes",
        });
    }
    match cql_type {
        CqlType::Counter => CqlType::Bigint.from_text(&literal.text, now.now_ms()),
        _ => cql_type.from_text(&literal.text, now.now_ms()),
    }
}

/// Returns whether a double's shortest decimal form is this number.
fn is_exact_double(text: &str) -> bool {
    if text.ends_with("NaN") || text.ends_with("Infinity") {
        return true;
    }
    match text.parse::<f64>() {
        Ok(double) if double.is_finite() => decimal_digits(&format!("{double:e}")) == decimal_digits(text),
        _ => false,
    }
}

/// The significant digits of a decimal number and the power of ten of the last one.
fn decimal_digits(text: &str) -> Option<(bool, String, i64)> {
    let (text, is_negative) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.trim_start_matches('+').parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let trimmed = digits.trim_end_matches('0');
    let power = exponent - fraction.len() as i64 + (digits.len() - trimmed.len()) as i64;
    let significant = trimmed.trim_start_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    Some((is_negative, significant.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_is_the_moment_that_was_given() {
        let literal = Literal {
            kind: LiteralKind::String,
            text: "now".to_owned(),
        };
        let now = Clock {
            server_timestamp_us: 1_234_567,
        };
        let bytes = constant_bytes(&literal, &CqlType::Timestamp, now).unwrap();
        assert_eq!(bytes, 1_234_i64.to_be_bytes());
    }

    #[test]
    fn the_preferred_type_is_the_narrowest() {
        let cases = [
            (LiteralKind::String, "abc", CqlType::Ascii),
            (LiteralKind::String, "\u{e9}", CqlType::Text),
            (LiteralKind::Integer, "2147483647", CqlType::Int),
            (LiteralKind::Integer, "2147483648", CqlType::Bigint),
            (LiteralKind::Integer, "9223372036854775808", CqlType::Varint),
            (LiteralKind::Float, "1.50", CqlType::Double),
            (LiteralKind::Float, "0.1234567890123456789", CqlType::Decimal),
            (LiteralKind::Float, "NaN", CqlType::Double),
            (
                LiteralKind::Uuid,
                "d2177dd0-eaa2-11de-a572-001b779c76e3",
                CqlType::Timeuuid,
            ),
            (
                LiteralKind::Uuid,
                "550e8400-e29b-41d4-a716-446655440000",
                CqlType::Uuid,
            ),
        ];
        for (kind, text, expected) in cases {
            assert_eq!(
                preferred_type(&Literal {
                    kind,
                    text: text.to_owned()
                }),
                expected,
                "{text}"
            );
        }
    }
}
