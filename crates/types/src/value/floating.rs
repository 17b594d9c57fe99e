//! Floating-point numbers as Java reads and prints them.
//!
//! Cassandra 5.0 runs on Java 11 or 17, whose `Double.toString` does not always print the fewest digits that read
//! back: it stops generating digits by a test of its own (the free-format algorithm of Steele and White with Gay's
//! estimate, and special treatment of whole numbers). Casts to text and JSON show these digits, so they are generated
//! here in the same way.

use std::cmp::Ordering;
use std::f64::consts::LOG10_2;

use num_bigint::BigUint;

/// As Java 17's `Double.toString`: plain from 10^-3 up to 10^7, else with an exponent, always with a digit after the
/// point.
pub fn format_double(value: f64) -> String {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = (bits >> 52 & 0x7ff) as i32;
    format_parts(
        value,
        value.is_sign_negative(),
        Binary::new(fraction, exponent, 1023, 53),
    )
}

/// As Java 17's `Float.toString`.
pub fn format_float(value: f32) -> String {
    let bits = value.to_bits();
    let fraction = u64::from(bits & ((1 << 23) - 1)) << 29;
    let exponent = (bits >> 23 & 0xff) as i32;
    format_parts(
        f64::from(value),
        value.is_sign_negative(),
        Binary::new(fraction, exponent, 127, 24),
    )
}

/// Reads what `Double.valueOf` reads, but for hexadecimal digits.
pub fn parse_double(text: &str) -> Option<f64> {
    let text = java_trim(text);
    if let Some(value) = parse_special(text) {
        return Some(value);
    }
    decimal_digits(text)?.parse().ok()
}

pub fn parse_float(text: &str) -> Option<f32> {
    let text = java_trim(text);
    if let Some(value) = parse_special(text) {
        // Only infinities and NaN, which narrow to themselves.
        return Some(value as f32);
    }
    decimal_digits(text)?.parse().ok()
}

fn format_parts(value: f64, is_negative: bool, binary: Binary) -> String {
    let sign = if is_negative { "-" } else { "" };
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        format!("{sign}Infinity")
    } else if value == 0.0 {
        format!("{sign}0.0")
    } else {
        format!("{sign}{}", binary.digits().layout())
    }
}

/// A positive finite number: `fraction / 2^52 * 2^exponent`, with bit 52 of the fraction set.
#[derive(Clone, Copy)]
struct Binary {
    fraction: u64,
    exponent: i32,
    /// How many leading bits of the fraction the number's own format keeps: 53 or 24, fewer if it is subnormal.
    precision: i32,
}

/// Decimal digits, with the point before the digit of index `point` (which may lie outside).
struct Digits {
    digits: Vec<u8>,
    point: i32,
}

impl Binary {
    /// `fraction` is aligned to 52 bits whatever the format, `exponent` still has its bias.
    fn new(fraction: u64, exponent: i32, bias: i32, precision: i32) -> Binary {
        if exponent != 0 {
            return Binary {
                fraction: fraction | 1 << 52,
                exponent: exponent - bias,
                precision,
            };
        }
        // A subnormal is shifted until its first bit is where the others have theirs. Zero never gets further.
        let shift = (fraction | 1).leading_zeros() as i32 - 11;
        Binary {
            fraction: fraction << shift,
            exponent: 1 - shift - bias,
            precision: precision - shift,
        }
    }

    fn digits(self) -> Digits {
        let trailing_zeros = self.fraction.trailing_zeros() as i32;
        let fraction_bits = 53 - trailing_zeros;
        let bits_after_point = (fraction_bits - self.exponent - 1).max(0);
        if bits_after_point == 0 && self.exponent <= 62 {
            return self.whole_digits();
        }
        self.generated_digits(fraction_bits, bits_after_point)
    }

    /// The digits of a whole number below 2^63, without those that say nothing because the format ends before them.
    fn whole_digits(self) -> Digits {
        let mut value = if self.exponent >= 52 {
            self.fraction << (self.exponent - 52)
        } else {
            self.fraction >> (52 - self.exponent)
        };
        let mut point = 0;
        // How many powers of ten fit in the bits beyond the precision: p * log10(2), rounded down.
        let beyond = self.exponent - self.precision - 1;
        if beyond > 1 {
            let dropped = beyond * 30_103 / 100_000;
            let power = 10_u64.pow(dropped.unsigned_abs());
            let is_up = dropped > 0 && value % power >= power / 2;
            value = value / power + u64::from(is_up);
            point += dropped;
        }
        let mut digits = value.to_string().into_bytes();
        point += digits.len() as i32;
        while digits.len() > 1 && digits.last() == Some(&b'0') {
            digits.pop();
        }
        Digits { digits, point }
    }

    /// Sets up the generator: the number is `value / unit * 10^point`, and `margin` is half the distance to the next
    /// number, scaled like `value`. All are powers of 2 and 5, of which only the exponents are computed at first.
    fn generated_digits(self, fraction_bits: i32, bits_after_point: i32) -> Digits {
        let point = self.estimated_exponent();
        let fives_in_value = (-point).max(0);
        let mut twos_in_value = fives_in_value + bits_after_point + self.exponent;
        let fives_in_unit = point.max(0);
        let mut twos_in_unit = fives_in_unit + bits_after_point;
        let mut twos_in_margin = twos_in_value - self.precision;
        twos_in_value -= fraction_bits - 1;
        let common = twos_in_value.min(twos_in_unit);
        twos_in_value -= common;
        twos_in_unit -= common;
        twos_in_margin -= common;
        if fraction_bits == 1 {
            // Below a power of two the next number is only half as far away.
            twos_in_margin -= 1;
        }
        if twos_in_margin < 0 {
            twos_in_value -= twos_in_margin;
            twos_in_unit -= twos_in_margin;
            twos_in_margin = 0;
        }

        let significand = self.fraction >> (53 - fraction_bits);
        let value_bits = fraction_bits + twos_in_value + bits_of_power_of_5(fives_in_value);
        let unit_bits = twos_in_unit + 1 + bits_of_power_of_5(fives_in_unit + 1);
        let value = power_of_5_and_2(fives_in_value, twos_in_value) * significand;
        let unit = power_of_5_and_2(fives_in_unit, twos_in_unit);
        let margin = power_of_5_and_2(fives_in_value, twos_in_margin);
        let width = match value_bits.max(unit_bits) {
            ..32 => 32,
            32..64 => 64,
            _ => return BigQuotient::new(value, unit, margin).digits(point),
        };
        // The counts of bits above keep all three within the width.
        let narrow = |number: BigUint| i128::from(number.iter_u64_digits().next().unwrap_or(0));
        let (value, unit, margin) = (narrow(value), narrow(unit), narrow(margin));
        SmallQuotient {
            value,
            unit,
            margin,
            width,
        }
        .digits(point)
    }

    /// The decimal exponent or one more, from a straight line through the logarithm.
    fn estimated_exponent(self) -> i32 {
        let mantissa = f64::from_bits(1023 << 52 | self.fraction & ((1 << 52) - 1));
        let estimate = (mantissa - 1.5) * 0.289_529_654 + 0.176_091_259 + f64::from(self.exponent) * LOG10_2;
        estimate.floor() as i32
    }
}

/// A fraction `value / unit` below ten that yields its digits one by one, with the `margin` within which two numbers
/// are the same.
trait Quotient {
    /// The next digit, and whether what is left is within the margin of it and of the digit above.
    fn step(&mut self) -> (u8, bool, bool);

    /// How what is left compares with half a digit.
    fn compare_with_half(&self) -> Ordering;

    /// Makes digits until what is left is within the margin of a digit boundary.
    fn digits(&mut self, exponent: i32) -> Digits {
        let mut digits = Vec::new();
        let mut point = exponent + 1;
        let (first, mut is_low, mut is_high) = self.step();
        if first == 0 && !is_high {
            // The estimate of the exponent was one too high.
            point -= 1;
        } else {
            digits.push(b'0' + first);
        }
        if !(-2..=8).contains(&point) {
            // The form with an exponent always gets a second digit.
            (is_low, is_high) = (false, false);
        }
        while !is_low && !is_high {
            let digit;
            (digit, is_low, is_high) = self.step();
            digits.push(b'0' + digit);
        }
        let is_odd = digits.last().is_some_and(|digit| digit % 2 == 1);
        let mut out = Digits { digits, point };
        let is_up = match (is_low, is_high) {
            (true, true) => match self.compare_with_half() {
                Ordering::Less => false,
                Ordering::Equal => is_odd,
                Ordering::Greater => true,
            },
            (_, is_high) => is_high,
        };
        if is_up {
            out.round_up();
        }
        out
    }
}

struct BigQuotient {
    value: BigUint,
    unit: BigUint,
    ten_units: BigUint,
    margin: BigUint,
}

impl BigQuotient {
    fn new(value: BigUint, unit: BigUint, margin: BigUint) -> BigQuotient {
        let ten_units = &unit * 10_u32;
        BigQuotient {
            value,
            unit,
            ten_units,
            margin,
        }
    }
}

impl Quotient for BigQuotient {
    fn step(&mut self) -> (u8, bool, bool) {
        let digit = &self.value / &self.unit;
        self.value = (&self.value % &self.unit) * 10_u32;
        self.margin *= 10_u32;
        let is_low = self.value < self.margin;
        let is_high = &self.value + &self.margin >= self.ten_units;
        // A digit is at most 9, so it is its own lowest limb.
        (digit.iter_u32_digits().next().unwrap_or(0) as u8, is_low, is_high)
    }

    fn compare_with_half(&self) -> Ordering {
        (&self.value << 1_u32).cmp(&self.ten_units)
    }
}

/// Numbers that Java keeps in an `int` or a `long`, whose overflow shows in the digits: where `value + margin`
/// runs over, the digit above is not seen to be within the margin.
struct SmallQuotient {
    value: i128,
    unit: i128,
    margin: i128,
    /// Bits of Java's type, 32 or 64.
    width: u32,
}

impl SmallQuotient {
    fn wrap(&self, number: i128) -> i128 {
        let unused = i128::BITS - self.width;
        number << unused >> unused
    }
}

impl Quotient for SmallQuotient {
    fn step(&mut self) -> (u8, bool, bool) {
        let digit = self.value / self.unit;
        self.value = 10 * (self.value % self.unit);
        self.margin = self.wrap(10 * self.margin);
        if self.margin <= 0 {
            return (digit as u8, true, true);
        }
        let is_low = self.value < self.margin;
        let is_high = self.wrap(self.value + self.margin) > 10 * self.unit;
        (digit as u8, is_low, is_high)
    }

    fn compare_with_half(&self) -> Ordering {
        (2 * self.value).cmp(&(10 * self.unit))
    }
}

impl Digits {
    /// Adds one to the last digit.
    fn round_up(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit != b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        if let Some(first) = self.digits.first_mut() {
            *first = b'1';
        }
        self.point += 1;
    }

    fn layout(&self) -> String {
        // Only ASCII digits are ever pushed.
        let digits = String::from_utf8_lossy(&self.digits);
        match self.point {
            1..8 => {
                let places = self.point as usize;
                let (whole, fraction) = digits.split_at(digits.len().min(places));
                let fraction = if fraction.is_empty() { "0" } else { fraction };
                format!("{whole:0<places$}.{fraction}")
            }
            -2..1 => format!("0.{}{digits}", "0".repeat(self.point.unsigned_abs() as usize)),
            _ => {
                let (first, rest) = digits.split_at(digits.len().min(1));
                let rest = if rest.is_empty() { "0" } else { rest };
                format!("{first}.{rest}E{}", self.point - 1)
            }
        }
    }
}

fn power_of_5_and_2(fives: i32, twos: i32) -> BigUint {
    // Exponents of doubles keep both below 1,100.
    BigUint::from(5_u32).pow(fives.unsigned_abs()) << twos.unsigned_abs()
}

/// How many bits 5^`power` has, by Java's table for small powers and its bound for others.
fn bits_of_power_of_5(power: i32) -> i32 {
    match power {
        0 => 0,
        // p * log2(5), rounded up.
        1..27 => (power * 232_193 + 99_999) / 100_000,
        _ => power * 3,
    }
}

fn java_trim(text: &str) -> &str {
    text.trim_matches(|character| character <= ' ')
}

fn parse_special(text: &str) -> Option<f64> {
    let (is_negative, name) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    match name {
        "NaN" => Some(f64::NAN),
        "Infinity" if is_negative => Some(f64::NEG_INFINITY),
        "Infinity" => Some(f64::INFINITY),
        _ => None,
    }
}

/// The text without Java's type suffix, if nothing but a decimal number is left: Rust's own parser also knows
/// spellings of infinity that Java does not.
fn decimal_digits(text: &str) -> Option<&str> {
    let digits = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        .then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_change_where_java_s_do() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (100.0, "100.0"),
            (123.456, "123.456"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (0.001, "0.001"),
            (0.00099, "9.9E-4"),
            (-1.25e-7, "-1.25E-7"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(format_double(value), text);
        }
    }

    #[test]
    fn only_java_s_spellings_are_read() {
        for (text, value) in [
            ("1", 1.0),
            (" .5 ", 0.5),
            ("1.e2", 100.0),
            ("-2f", -2.0),
            ("+3D", 3.0),
            ("1e999", f64::INFINITY),
        ] {
            assert_eq!(parse_double(text), Some(value), "{text}");
        }
        assert!(parse_double("NaN").is_some_and(f64::is_nan));
        for text in ["", "inf", "nan", "infinity", "1_0", "e1", ".", "0x1p3", "1ff"] {
            assert_eq!(parse_double(text), None, "{text}");
        }
    }
}
