//! Decimals: an i32 scale and a [`super::varint`]; the value is `unscaled * 10^-scale`.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::{BigInt, Sign};

use crate::value::varint::{VARINT_DIGITS_MAX, compare_varints, parse_varint};

/// A decimal number of any size, as Java's `BigDecimal` has it: equal numbers of different scale are different values
/// that compare as equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    pub unscaled: BigInt,
    pub scale: i32,
}

impl Decimal {
    /// None if the bytes are fewer than the scale takes. No bytes after it are a zero here; Cassandra fails on them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Decimal> {
        let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
        Some(Decimal {
            unscaled: BigInt::from_signed_bytes_be(unscaled),
            scale: i32::from_be_bytes(*scale),
        })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.scale.to_be_bytes().to_vec();
        out.extend_from_slice(&self.unscaled.to_signed_bytes_be());
        out
    }

    /// Reads what `new BigDecimal(String)` reads: sign, digits with at most one point, exponent.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (text.get(..at)?, parse_exponent(text.get(at + 1..)?)?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if mantissa.len() > VARINT_DIGITS_MAX {
            return None;
        }
        let unscaled = parse_varint(&format!("{whole}{fraction}"))?;
        let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        Some(Decimal {
            unscaled,
            scale: i32::try_from(scale).ok()?,
        })
    }
}

/// As `BigDecimal.toString` prints it: plain where the exponent is at least -6 and the scale not negative, else
/// with one digit before the point and an exponent.
impl fmt::Display for Decimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.unscaled.magnitude().to_string();
        if self.unscaled.sign() == Sign::Minus {
            out.write_str("-")?;
        }
        let adjusted = i64::try_from(digits.len()).unwrap_or(i64::MAX) - 1 - i64::from(self.scale);
        if let Ok(scale) = usize::try_from(self.scale)
            && adjusted >= -6
        {
            if scale == 0 {
                return out.write_str(&digits);
            }
            // The exponent bound above keeps the zeros to at most six.
            return match digits.len().checked_sub(scale) {
                Some(0) | None => write!(out, "0.{digits:0>scale$}"),
                Some(point) => write!(out, "{}.{}", &digits[..point], &digits[point..]),
            };
        }
        let (first, rest) = digits.split_at(1);
        out.write_str(first)?;
        if !rest.is_empty() {
            write!(out, ".{rest}")?;
        }
        if adjusted != 0 {
            write!(out, "E{adjusted:+}")?;
        }
        Ok(())
    }
}

/// Compares two serialized decimals numerically; bytes too few for a scale come first.
///
/// Allocates only where both are nearly equal and too large for 128 bits.
pub(crate) fn compare_decimals(left: &[u8], right: &[u8]) -> Ordering {
    let (Some((left_scale, left_unscaled)), Some((right_scale, right_unscaled))) =
        (left.split_first_chunk::<4>(), right.split_first_chunk::<4>())
    else {
        return (left.len() >= 4).cmp(&(right.len() >= 4));
    };
    if left_scale == right_scale {
        return compare_unscaled(left_unscaled, right_unscaled);
    }
    let scales = [left_scale, right_scale].map(|scale| i64::from(i32::from_be_bytes(*scale)));
    match (to_i128(left_unscaled), to_i128(right_unscaled)) {
        (Some(left), Some(right)) => compare_small(left, right, scales)
            .unwrap_or_else(|| compare_big(&left.into(), &right.into(), scales)),
        _ => {
            let [left, right] = [left_unscaled, right_unscaled].map(BigInt::from_signed_bytes_be);
            compare_big(&left, &right, scales)
        }
    }
}

/// A decimal's number of no bytes is zero, not the empty value that a varint's is.
fn compare_unscaled(left: &[u8], right: &[u8]) -> Ordering {
    let or_zero = |bytes| if <[u8]>::is_empty(bytes) { &[0] } else { bytes };
    compare_varints(or_zero(left), or_zero(right))
}

/// None if bringing both to one scale does not fit 128 bits.
fn compare_small(left: i128, right: i128, [left_scale, right_scale]: [i64; 2]) -> Option<Ordering> {
    if left.signum() != right.signum() || left == 0 {
        return Some(left.signum().cmp(&right.signum()));
    }
    let shift = u32::try_from(left_scale.abs_diff(right_scale)).ok()?;
    let power = 10_i128.checked_pow(shift)?;
    Some(if left_scale < right_scale {
        left.checked_mul(power)?.cmp(&right)
    } else {
        left.cmp(&right.checked_mul(power)?)
    })
}

fn compare_big(left: &BigInt, right: &BigInt, [left_scale, right_scale]: [i64; 2]) -> Ordering {
    let signs = signum(left).cmp(&signum(right));
    if signs.is_ne() || left.sign() == Sign::NoSign {
        return signs;
    }
    let magnitudes = match (
        exponent_range(left, left_scale),
        exponent_range(right, right_scale),
    ) {
        ((_, left_last), (right_first, _)) if left_last < right_first => Ordering::Less,
        ((left_first, _), (_, right_last)) if left_first > right_last => Ordering::Greater,
        // The exponents overlap, so the scales differ by no more than the numbers have digits.
        _ => {
            let shift = u32::try_from(left_scale.abs_diff(right_scale)).unwrap_or(u32::MAX);
            let power = BigInt::from(10).pow(shift);
            if left_scale < right_scale {
                (left * power).magnitude().cmp(right.magnitude())
            } else {
                left.magnitude().cmp((right * power).magnitude())
            }
        }
    };
    if left.sign() == Sign::Minus {
        magnitudes.reverse()
    } else {
        magnitudes
    }
}

/// Bounds of the decimal exponent of a number that is not zero, from its count of bits.
fn exponent_range(unscaled: &BigInt, scale: i64) -> (i64, i64) {
    let bits = i64::try_from(unscaled.bits()).unwrap_or(i64::MAX);
    // 2^(bits-1) <= magnitude < 2^bits, and log10(2) lies between 0.30102 and 0.30103.
    let first = i128::from(bits - 1) * 30_102 / 100_000;
    let last = i128::from(bits) * 30_103 / 100_000 + 1;
    // bits is at most 8 * i32::MAX, so both fit.
    (first as i64 - scale, last as i64 - scale)
}

fn signum(value: &BigInt) -> i8 {
    match value.sign() {
        Sign::Minus => -1,
        Sign::NoSign => 0,
        Sign::Plus => 1,
    }
}

fn to_i128(varint: &[u8]) -> Option<i128> {
    let sign = if varint.first().is_some_and(|&first| first >= 0x80) {
        0xff
    } else {
        0
    };
    let mut word = [sign; 16];
    word.get_mut(16_usize.checked_sub(varint.len())?..)?
        .copy_from_slice(varint);
    Some(i128::from_be_bytes(word))
}

/// An exponent is a sign and at most ten digits, and fits an i32.
fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let significant = digits.trim_start_matches('0');
    if !is_number || significant.len() > 10 {
        return None;
    }
    let magnitude: i64 = if significant.is_empty() {
        0
    } else {
        significant.parse().ok()?
    };
    let exponent = if text.starts_with('-') {
        -magnitude
    } else {
        magnitude
    };
    i32::try_from(exponent).ok().map(i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn order_is_numeric_over_all_scales() {
        let ascending = [
            "-1e2147483647",
            "-123456789012345678901234567890123456789012345678901",
            "-100.1",
            "-1e2",
            "-1e-2147483647",
            "0",
            "1e-2147483647",
            "1e-50",
            "0.5",
            "1.000000000000000000000000000000000000000000000001",
            "1.1",
            "99999999999999999999999999999999999999999999",
            "1e44",
            "1e2147483647",
        ];
        for (at, left) in ascending.iter().enumerate() {
            for (with, right) in ascending.iter().enumerate() {
                let order = compare_decimals(&decimal(left).to_bytes(), &decimal(right).to_bytes());
                assert_eq!(order, at.cmp(&with), "{left} {right}");
            }
        }
        for (left, right) in [
            ("1.0", "1"),
            ("0e9", "0"),
            (
                "1e60",
                "1000000000000000000000000000000000000000000000000000000000000",
            ),
        ] {
            assert!(compare_decimals(&decimal(left).to_bytes(), &decimal(right).to_bytes()).is_eq());
        }
    }

    #[test]
    fn no_constant_without_digits() {
        for text in [
            "",
            ".",
            "-",
            "1e",
            "1e+",
            "e5",
            "1.2.3",
            "1e99999999999",
            "1e2147483649",
            "--1",
            "1-2",
        ] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }
}
