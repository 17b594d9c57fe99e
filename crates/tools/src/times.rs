//! Times as Cassandra's tools print them.

use helenus_types::value::calendar::{civil_from_days, days_from_civil, days_in_month};

const SECONDS_PER_DAY: i64 = 86_400;

/// Civil date and time of a second since the Unix epoch, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CivilTime {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
}

impl CivilTime {
    pub fn of(seconds: i64) -> Self {
        let days = seconds.div_euclid(SECONDS_PER_DAY);
        let within = seconds.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        CivilTime {
            year,
            month,
            day,
            hour: within / 3600,
            minute: within / 60 % 60,
            second: within % 60,
        }
    }
}

/// As Java prints an `Instant`: the fraction in groups of three digits, none if it is zero.
pub fn instant(seconds: i64, nanos: u32) -> String {
    let CivilTime {
        year,
        month,
        day,
        hour,
        minute,
        second,
    } = CivilTime::of(seconds);
    let year = if year > 9999 {
        format!("+{year}")
    } else if year < 0 {
        format!("-{:04}", -year)
    } else {
        format!("{year:04}")
    };
    let fraction = match nanos {
        0 => String::new(),
        _ if nanos.is_multiple_of(1_000_000) => format!(".{:03}", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1_000) => format!(".{:06}", nanos / 1_000),
        _ => format!(".{nanos:09}"),
    };
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// As [`instant`], of microseconds.
pub(crate) fn instant_of_us(us: i64) -> String {
    let nanos = us.rem_euclid(1_000_000) * 1000;
    instant(us.div_euclid(1_000_000), u32::try_from(nanos).unwrap_or(0))
}

/// Microseconds since the Unix epoch of an ISO 8601 instant in UTC, as `instant_of_us` and Cassandra print it; what is
/// finer is cut off. `None` for anything else.
pub fn us_of_instant(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.splitn(3, ':').map(str::parse::<i64>);
    let (hour, minute) = (time.next()?.ok()?, time.next()?.ok()?);
    // Java leaves seconds of zero out of nothing, but others do.
    let second = time.next().unwrap_or(Ok(0)).ok()?;
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..61).contains(&second);
    let is_date = (0..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day);
    if !is_time || !is_date {
        return None;
    }
    let days = days_from_civil(year, month, day);
    let digits = fraction.get(..fraction.len().min(6))?;
    let us: i64 = match digits {
        "" => 0,
        digits => digits.parse::<i64>().ok()? * 10_i64.pow(6 - digits.len() as u32),
    };
    Some((days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second) * 1_000_000 + us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_as_java_prints_them() {
        assert_eq!(instant(1_700_000_000, 0), "2023-11-14T22:13:20Z");
        assert_eq!(
            instant_of_us(1_700_000_000_000_005),
            "2023-11-14T22:13:20.000005Z"
        );
        assert_eq!(instant_of_us(1_700_000_000_120_000), "2023-11-14T22:13:20.120Z");
        for text in [
            "2023-11-14T22:13:20Z",
            "2023-11-14T22:13:20.000005Z",
            "2023-11-14T22:13:20.120Z",
            "1969-12-31T23:59:59.999999Z",
        ] {
            assert_eq!(us_of_instant(text).map(instant_of_us).as_deref(), Some(text));
        }
        assert_eq!(us_of_instant("2023-11-14T22:13Z"), Some(1_699_999_980_000_000));
        for text in [
            "",
            "null",
            "2023-11-14",
            "2023-13-14T22:13:20Z",
            "2023-11-14T25:13:20Z",
            "2023-11-14T22:13:20",
        ] {
            assert_eq!(us_of_instant(text), None, "{text}");
        }
        assert_eq!(instant_of_us(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(instant_of_us(i64::MAX), "+294247-01-10T04:00:54.775807Z");
    }
}
