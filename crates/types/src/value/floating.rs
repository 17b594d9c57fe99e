//! Floating-point numbers as Java reads and prints them.

/// As `Double.toString` prints it: plain from 10^-3 up to 10^7, else with an exponent, always with a digit after the
/// point. The digits are the fewest that read back, as Java prints them from version 19 on; older ones sometimes
/// print one more.
pub fn format_double(value: f64) -> String {
    match special(value.is_nan(), value.is_infinite(), value.is_sign_negative()) {
        Some(name) => name.to_owned(),
        None => layout(&format!("{value:e}")),
    }
}

pub fn format_float(value: f32) -> String {
    match special(value.is_nan(), value.is_infinite(), value.is_sign_negative()) {
        Some(name) => name.to_owned(),
        None => layout(&format!("{value:e}")),
    }
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

fn special(is_nan: bool, is_infinite: bool, is_negative: bool) -> Option<&'static str> {
    match (is_nan, is_infinite, is_negative) {
        (true, _, _) => Some("NaN"),
        (_, true, false) => Some("Infinity"),
        (_, true, true) => Some("-Infinity"),
        _ => None,
    }
}

/// Turns Rust's shortest scientific form, such as `-1.25e-7`, into Java's layout.
fn layout(scientific: &str) -> String {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    match exponent {
        0 => format!("{sign}{whole}.{fraction}"),
        1..7 => {
            let places = exponent as usize;
            let digits = format!("{whole}{:0<places$}", if fraction == "0" { "" } else { fraction });
            let (whole, fraction) = digits.split_at(places + 1);
            let fraction = if fraction.is_empty() { "0" } else { fraction };
            format!("{sign}{whole}.{fraction}")
        }
        -3..0 => {
            let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
            let fraction = if fraction == "0" { "" } else { fraction };
            format!("{sign}0.{zeros}{whole}{fraction}")
        }
        _ => format!("{sign}{whole}.{fraction}E{exponent}"),
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
            (1.25e7, "1.25E7"),
            (0.001, "0.001"),
            (0.00123, "0.00123"),
            (0.00099, "9.9E-4"),
            (-1.25e-7, "-1.25E-7"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(format_double(value), text);
        }
        assert_eq!(format_float(0.1), "0.1");
        assert_eq!(format_float(3.4e38), "3.4E38");
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
