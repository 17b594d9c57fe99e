//! Timestamps: milliseconds since 1970-01-01T00:00Z as an i64.
//!
//! Cassandra reads text without a zone in the zone its JVM runs in; Helenus always takes UTC.

use crate::marshal_error::MarshalError;
use crate::value::calendar::{civil_from_days, days_from_civil, days_in_month};
use crate::value::date::scan_iso_date;
use crate::value::scan::Scan;

const MS_PER_DAY: i64 = 86_400_000;

/// `2020-01-31T08:12:54.123Z`, the form of literals and of casts to text.
pub fn format_timestamp(timestamp_ms: i64) -> String {
    format_with(timestamp_ms, 'T')
}

/// `2020-01-31 08:12:54.123Z`, the form of JSON.
pub fn format_timestamp_json(timestamp_ms: i64) -> String {
    format_with(timestamp_ms, ' ')
}

fn format_with(timestamp_ms: i64, separator: char) -> String {
    let (year, month, day) = civil_from_days(timestamp_ms.div_euclid(MS_PER_DAY));
    let ms = timestamp_ms.rem_euclid(MS_PER_DAY);
    // Java's "yyyy" is the year of the era: 1 BC is year 0 and prints as 0001.
    let year_of_era = if year > 0 { year } else { 1 - year };
    let plus = if year_of_era > 9999 { "+" } else { "" };
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, fraction) = (ms / 1000 % 60, ms % 1000);
    format!(
        "{plus}{year_of_era:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}.{fraction:03}Z"
    )
}

/// Reads milliseconds in decimal, `now`, or one of Cassandra's date forms: `y-M-d` followed by `T` or a blank and
/// `H:m[:s][.fraction]`, or `yyyy-MM-dd` alone; then an optional zone, as an offset or as UTC or GMT. Named zones
/// other than these, which Cassandra takes from its JVM's tables, are not known.
pub(crate) fn parse_timestamp(text: &str, now_ms: i64) -> Result<i64, MarshalError> {
    if text.eq_ignore_ascii_case("now") {
        return Ok(now_ms);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map_err(|_| MarshalError::Text {
            before: "Unable to make long (for date) from: '",
            text: text.to_owned(),
            after: "'",
        });
    }
    parse_date_time(text)
        .or_else(|| parse_date_alone(text))
        .ok_or_else(|| MarshalError::Text {
            before: "Unable to parse a date/time from '",
            text: text.to_owned(),
            after: "'",
        })
}

fn parse_date_time(text: &str) -> Option<i64> {
    let mut scan = Scan::new(text);
    let year = scan_year(&mut scan)?;
    scan.literal("-")?;
    let month = scan.number(1, 19).filter(|month| (1..=12).contains(month))?;
    scan.literal("-")?;
    let day = scan.number(1, 19).filter(|day| (1..=31).contains(day))?;
    let days = smart_days(year, month, day);
    scan.literal("T").or_else(|| scan.literal(" "))?;
    let hour = scan.number(1, 19).filter(|hour| *hour <= 24)?;
    scan.literal(":")?;
    let minute = scan.number(1, 19).filter(|minute| *minute < 60)?;
    let second = scan_second(&mut scan);
    let fraction = scan_fraction(&mut scan);
    if second.is_none() && fraction.is_some() {
        return None;
    }
    let (second, fraction_ms) = (second.unwrap_or(0), fraction.unwrap_or(0));
    if hour == 24 && (minute, second, fraction_ms) != (0, 0, 0) {
        return None;
    }
    let offset_seconds = parse_zone(scan.rest())?;
    let seconds = hour * 3600 + minute * 60 + second - offset_seconds;
    days.checked_mul(MS_PER_DAY)?
        .checked_add(seconds * 1000 + fraction_ms)
}

fn parse_date_alone(text: &str) -> Option<i64> {
    let mut scan = Scan::new(text);
    let (year, month, day) = scan_iso_date(&mut scan)?;
    smart_days(year, month, day)
        .checked_mul(MS_PER_DAY)?
        .checked_sub(parse_zone(scan.rest())? * 1000)
}

/// A year of era, so not below 1, of at most nine digits.
fn scan_year(scan: &mut Scan<'_>) -> Option<i64> {
    scan.number(1, 19).filter(|year| (1..=999_999_999).contains(year))
}

/// As Java's smart resolver, takes a day that the month does not have for its last.
fn smart_days(year: i64, month: i64, day: i64) -> i64 {
    days_from_civil(year, month, day.min(days_in_month(year, month)))
}

/// `:s`
fn scan_second(scan: &mut Scan<'_>) -> Option<i64> {
    let mut ahead = *scan;
    ahead.literal(":")?;
    let second = ahead.number(1, 19).filter(|second| *second < 60)?;
    *scan = ahead;
    Some(second)
}

/// `.fffffffff`, cut down to milliseconds. A point without digits is read and means nothing.
fn scan_fraction(scan: &mut Scan<'_>) -> Option<i64> {
    scan.literal(".")?;
    let digits = scan.digits(1, 9)?;
    let ms = digits.bytes().chain(*b"000").take(3);
    Some(ms.fold(0, |ms, digit| 10 * ms + i64::from(digit - b'0')))
}

/// Seconds east of Greenwich of a zone, with or without a blank before it; 0 for no zone at all.
fn parse_zone(text: &str) -> Option<i64> {
    if text.is_empty() || text == "Z" || text == " Z" {
        return Some(0);
    }
    let zone = text.strip_prefix(' ').unwrap_or(text);
    let has_blank = zone.len() != text.len();
    let offset = if has_blank {
        // Zone ids are read after a blank only, and may put an offset after their name.
        ["UTC", "GMT", "UT"]
            .iter()
            .find_map(|name| zone.strip_prefix(name))
            .unwrap_or(zone)
    } else {
        zone
    };
    if offset.is_empty() {
        return Some(0);
    }
    parse_offset(offset)
}

/// `+HH`, `+HHmm` or `+HH:mm`, at most 18 hours.
fn parse_offset(text: &str) -> Option<i64> {
    let is_west = text.starts_with('-');
    let mut scan = Scan::new(text.strip_prefix(['+', '-'])?);
    let hours = scan.number(2, 2)?;
    let minutes = if scan.is_done() {
        0
    } else {
        scan.literal(":").unwrap_or(());
        scan.number(2, 2)?
    };
    let seconds = hours * 3600 + minutes * 60;
    if !scan.is_done() || minutes > 59 || seconds > 18 * 3600 {
        return None;
    }
    Some(if is_west { -seconds } else { seconds })
}
