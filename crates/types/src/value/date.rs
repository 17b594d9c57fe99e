//! Dates: days as a u32 with 1970-01-01 at 2^31, so that bytes order as days do.

use crate::marshal_error::MarshalError;
use crate::value::calendar::{civil_from_days, days_from_civil, days_in_month};
use crate::value::scan::Scan;

/// The serialized number of 1970-01-01.
pub(crate) const DATE_EPOCH: u32 = 1 << 31;

const MS_PER_DAY: i64 = 86_400_000;

/// Days since 1970-01-01 to the serialized number.
pub(crate) fn date_of_days(days: i32) -> u32 {
    days.cast_unsigned() ^ DATE_EPOCH
}

/// The serialized number to days since 1970-01-01.
pub(crate) fn days_of_date(date: u32) -> i32 {
    (date ^ DATE_EPOCH).cast_signed()
}

/// The date of a timestamp. Moments before 1970 that are not midnight fall on the day after theirs, as Cassandra
/// rounds towards the epoch.
pub fn date_of_timestamp(timestamp_ms: i64) -> u32 {
    let days = timestamp_ms.div_euclid(1000) / 86_400;
    // Cassandra keeps the low 32 bits of days that do not fit.
    date_of_days(days as i32)
}

/// Milliseconds from the epoch to the start of the day.
pub fn timestamp_of_date(date: u32) -> i64 {
    i64::from(days_of_date(date)) * MS_PER_DAY
}

/// `2020-01-31`; years of more than four digits carry a sign.
pub(crate) fn format_date(date: u32) -> String {
    let (year, month, day) = civil_from_days(i64::from(days_of_date(date)));
    let year = format_year(year);
    format!("{year}-{month:02}-{day:02}")
}

pub(crate) fn format_year(year: i64) -> String {
    match year {
        ..0 => format!("-{:04}", -year),
        0..=9999 => format!("{year:04}"),
        _ => format!("+{year}"),
    }
}

/// Reads an ISO date or the serialized number in decimal.
pub(crate) fn parse_date(text: &str) -> Result<u32, MarshalError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = text
            .parse::<i64>()
            .ok()
            .and_then(|number| u32::try_from(number).ok());
        return number.ok_or_else(|| MarshalError::Text {
            before: "Unable to make unsigned int (for date) from: '",
            text: text.to_owned(),
            after: "'",
        });
    }
    let days = parse_iso_days(text).filter(|days| days.checked_mul(MS_PER_DAY).is_some());
    let Some(days) = days else {
        return Err(MarshalError::Text {
            before: "Unable to coerce '",
            text: text.to_owned(),
            after: "' to a formatted date (long)",
        });
    };
    i32::try_from(days)
        .map(date_of_days)
        .map_err(|_| MarshalError::Text {
            before: "Input date ",
            text: text.to_owned(),
            after: if days < 0 {
                " is less than min supported date -5877641-06-23T00:00Z"
            } else {
                " is greater than max supported date +5881580-07-11T00:00Z"
            },
        })
}

fn parse_iso_days(text: &str) -> Option<i64> {
    let mut scan = Scan::new(text);
    let (year, month, day) = scan_iso_date(&mut scan)?;
    let exists = day <= days_in_month(year, month);
    (scan.is_done() && exists).then(|| days_from_civil(year, month, day))
}

/// Reads the year, month and day of `[+-]y-MM-dd`: a year of more than four digits needs a plus, one of four must not
/// have it. Years are at most nine digits; the day is at most 31, whatever the month.
pub(crate) fn scan_iso_date(scan: &mut Scan<'_>) -> Option<(i64, i64, i64)> {
    let is_negative = scan.literal("-").is_some();
    let has_plus = scan.literal("+").is_some();
    let digits = scan.digits(4, 10)?;
    let needs_sign = digits.len() > 4;
    if (needs_sign && !is_negative && !has_plus) || (has_plus && (is_negative || !needs_sign)) {
        return None;
    }
    let year: i64 = digits.parse().ok().filter(|year| *year <= 999_999_999)?;
    if is_negative && year == 0 {
        return None;
    }
    let year = if is_negative { -year } else { year };
    scan.literal("-")?;
    let month = scan.number(2, 2).filter(|month| (1..=12).contains(month))?;
    scan.literal("-")?;
    let day = scan.number(2, 2).filter(|day| (1..=31).contains(day))?;
    Some((year, month, day))
}
