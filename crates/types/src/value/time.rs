//! Times of day: nanoseconds since midnight as an i64.

use crate::marshal_error::MarshalError;

pub const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// `08:12:54.123000000`. Stored bytes may hold any i64; what is outside a day is printed as the time it is in its day.
pub(crate) fn format_time(nanos: i64) -> String {
    let nanos = nanos.rem_euclid(NANOS_PER_DAY);
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!(
        "{:02}:{:02}:{seconds:02}.{fraction:09}",
        minutes / 60,
        minutes % 60
    )
}

/// Reads `hh:mm:ss[.fffffffff]` or nanoseconds in decimal.
pub(crate) fn parse_time(text: &str) -> Result<i64, MarshalError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let nanos = text
            .parse()
            .ok()
            .filter(|nanos| (0..NANOS_PER_DAY).contains(nanos));
        return nanos.ok_or_else(|| MarshalError::Text {
            before: "Unable to make long (for time) from: '",
            text: text.to_owned(),
            after: "'",
        });
    }
    parse_clock(text).ok_or_else(|| MarshalError::Text {
        before: "(TimeType) Unable to coerce '",
        text: text.to_owned(),
        after: "' to a formatted time (long)",
    })
}

fn parse_clock(text: &str) -> Option<i64> {
    let text = text.trim_matches(|character| character <= ' ');
    let (hour, rest) = text.split_once(':')?;
    let (minute, rest) = rest.split_once(':')?;
    let (second, fraction) = match rest.split_once('.') {
        Some((second, fraction)) => (second, parse_fraction(fraction)?),
        None => (rest, 0),
    };
    // As in Java, a part may carry a plus, and minus zero is zero.
    let part = |text: &str, end: i64| text.parse::<i64>().ok().filter(|part| (0..end).contains(part));
    let seconds = part(hour, 24)? * 3600 + part(minute, 60)? * 60 + part(second, 60)?;
    Some(seconds * 1_000_000_000 + fraction)
}

fn parse_fraction(fraction: &str) -> Option<i64> {
    let is_number = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return None;
    }
    format!("{fraction:0<9}").parse().ok()
}
