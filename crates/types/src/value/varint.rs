//! Integers of any size: two's complement, big-endian, in as few bytes as hold them with their sign. Padded ones are
//! valid too and compare as equal.

use std::cmp::Ordering;

use num_bigint::BigInt;

/// The most digits read from text. Conversion takes quadratic time; at this bound that is some milliseconds.
pub(crate) const VARINT_DIGITS_MAX: usize = 1 << 16;

/// The shortest form of `value`.
pub fn varint_of(value: i64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    bytes[padding(&bytes)..].to_vec()
}

/// The value if it fits an i64; None too for no bytes at all.
pub fn varint_to_i64(varint: &[u8]) -> Option<i64> {
    let significant = varint.get(padding(varint)..)?;
    let &first = significant.first()?;
    let mut word = [if first >= 0x80 { 0xff } else { 0 }; 8];
    word.get_mut(8_usize.checked_sub(significant.len())?..)?
        .copy_from_slice(significant);
    Some(i64::from_be_bytes(word))
}

pub fn varint_to_big(varint: &[u8]) -> BigInt {
    BigInt::from_signed_bytes_be(varint)
}

pub fn varint_of_big(value: &BigInt) -> Vec<u8> {
    value.to_signed_bytes_be()
}

/// Reads an optional sign and decimal digits.
pub(crate) fn parse_varint(text: &str) -> Option<BigInt> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || digits.len() > VARINT_DIGITS_MAX {
        return None;
    }
    let magnitude = BigInt::parse_bytes(digits.as_bytes(), 10)?;
    Some(if text.starts_with('-') {
        -magnitude
    } else {
        magnitude
    })
}

/// Compares numerically; no bytes at all come first.
pub(crate) fn compare_varints(left: &[u8], right: &[u8]) -> Ordering {
    let (left, right) = (&left[padding(left)..], &right[padding(right)..]);
    let (Some(&left_first), Some(&right_first)) = (left.first(), right.first()) else {
        return left.len().cmp(&right.len());
    };
    match (left_first >= 0x80, right_first >= 0x80) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
        (true, true) => right.len().cmp(&left.len()).then_with(|| left.cmp(right)),
    }
}

/// How many leading bytes only repeat the sign; never all of them.
fn padding(varint: &[u8]) -> usize {
    varint
        .windows(2)
        .take_while(|pair| {
            let sign = if pair[1] >= 0x80 { 0xff } else { 0 };
            pair[0] == sign
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [i64; 17] = [
        i64::MIN,
        i64::MIN + 1,
        -65_537,
        -65_536,
        -32_769,
        -129,
        -128,
        -2,
        -1,
        0,
        1,
        127,
        128,
        255,
        256,
        1 << 40,
        i64::MAX,
    ];

    #[test]
    fn shortest_forms_read_back() {
        for value in SAMPLES {
            let bytes = varint_of(value);
            assert_eq!(bytes, varint_of_big(&BigInt::from(value)), "{value}");
            assert_eq!(varint_to_i64(&bytes), Some(value));
        }
    }

    #[test]
    fn order_is_numeric_whatever_the_padding() {
        for left in SAMPLES {
            for right in SAMPLES {
                let pad = if left < 0 { 0xff } else { 0 };
                let padded = [&[pad, pad], varint_of(left).as_slice()].concat();
                assert_eq!(
                    compare_varints(&padded, &varint_of(right)),
                    left.cmp(&right),
                    "{left} {right}"
                );
            }
        }
        assert_eq!(compare_varints(&[], &varint_of(i64::MIN)), Ordering::Less);
    }

    #[test]
    fn greater_values_fit_no_i64() {
        assert_eq!(varint_to_i64(&[0, 0x80, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(varint_to_i64(&[]), None);
    }

    #[test]
    fn text_is_a_sign_and_digits() {
        assert_eq!(parse_varint("+12"), Some(BigInt::from(12)));
        assert_eq!(parse_varint("-12"), Some(BigInt::from(-12)));
        for text in ["", "-", "+-1", "1_0", "0x1", " 1"] {
            assert_eq!(parse_varint(text), None, "{text}");
        }
    }
}
