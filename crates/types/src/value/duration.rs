//! Durations: months, days and nanoseconds as three signed vints, all of one sign. Durations have no order of their
//! own, since months and days vary in length.

use std::fmt::{self, Write as _};

use crate::marshal_error::MarshalError;
use crate::value::scan::Scan;
use crate::value::vint::{read_vint, write_vint};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Duration {
    pub months: i32,
    pub days: i32,
    pub nanoseconds: i64,
}

const NANOS_PER_MICRO: i64 = 1_000;
const NANOS_PER_MILLI: i64 = 1_000 * NANOS_PER_MICRO;
const NANOS_PER_SECOND: i64 = 1_000 * NANOS_PER_MILLI;
const NANOS_PER_MINUTE: i64 = 60 * NANOS_PER_SECOND;
const NANOS_PER_HOUR: i64 = 60 * NANOS_PER_MINUTE;

impl Duration {
    /// Reads and checks a serialized duration. Like Cassandra it does not mind bytes after it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Duration, MarshalError> {
        if bytes.len() < 3 {
            return Err(MarshalError::Length {
                wanted: "Expected at least 3 bytes for a duration",
                found: bytes.len(),
            });
        }
        let mut input = bytes;
        let mut part = || read_vint(&mut input).ok_or(MarshalError::DurationTruncated);
        let (months, days, nanoseconds) = (part()?, part()?, part()?);
        let fit =
            |unit, value| i32::try_from(value).map_err(|_| MarshalError::DurationOutOfRange { unit, value });
        let duration = Duration {
            months: fit("months", months)?,
            days: fit("days", days)?,
            nanoseconds,
        };
        duration.check_signs()?;
        Ok(duration)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_vint(&mut out, i64::from(self.months));
        write_vint(&mut out, i64::from(self.days));
        write_vint(&mut out, self.nanoseconds);
        out
    }

    pub fn is_negative(&self) -> bool {
        self.months < 0 || self.days < 0 || self.nanoseconds < 0
    }

    /// Reads Cassandra's `1y2mo3w4d5h6m7s8ms9us10ns` or one of the ISO 8601 forms `P1Y2M3DT4H5M6S`, `P1W` and
    /// `P0001-02-03T04:05:06`, each with an optional minus.
    pub fn parse(text: &str) -> Result<Duration, MarshalError> {
        let is_negative = text.starts_with('-');
        let text = text.strip_prefix('-').unwrap_or(text);
        let mut builder = Builder::default();
        let read = match text.strip_prefix('P') {
            None => read_units(&mut builder, text),
            Some(iso) if iso.ends_with('W') => read_iso_weeks(&mut builder, iso),
            Some(iso) if iso.contains('-') => read_iso_alternative(&mut builder, iso),
            Some(iso) => read_iso(&mut builder, iso),
        };
        match read {
            Ok(Some(())) => Ok(builder.build(is_negative)),
            Ok(None) => Err(MarshalError::Text {
                before: "Unable to convert '",
                text: text.to_owned(),
                after: "' to a duration",
            }),
            Err(error) => Err(error),
        }
    }

    fn check_signs(&self) -> Result<(), MarshalError> {
        let Duration {
            months,
            days,
            nanoseconds,
        } = *self;
        let is_positive = months >= 0 && days >= 0 && nanoseconds >= 0;
        let is_negative = months <= 0 && days <= 0 && nanoseconds <= 0;
        if is_positive || is_negative {
            return Ok(());
        }
        Err(MarshalError::DurationSigns {
            months,
            days,
            nanoseconds,
        })
    }
}

/// `1y2mo3d4h5m6s7ms8us9ns`, leaving out what is zero: nothing at all for the zero duration.
impl fmt::Display for Duration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_negative() {
            out.write_char('-')?;
        }
        let months = u64::from(self.months.unsigned_abs());
        write_units(out, months, &[(12, "y"), (1, "mo")])?;
        write_units(out, u64::from(self.days.unsigned_abs()), &[(1, "d")])?;
        let units = [
            (NANOS_PER_HOUR.unsigned_abs(), "h"),
            (NANOS_PER_MINUTE.unsigned_abs(), "m"),
            (NANOS_PER_SECOND.unsigned_abs(), "s"),
            (NANOS_PER_MILLI.unsigned_abs(), "ms"),
            (NANOS_PER_MICRO.unsigned_abs(), "us"),
            (1, "ns"),
        ];
        write_units(out, self.nanoseconds.unsigned_abs(), &units)
    }
}

fn write_units(out: &mut fmt::Formatter<'_>, mut amount: u64, units: &[(u64, &str)]) -> fmt::Result {
    for (size, unit) in units {
        if amount >= *size {
            write!(out, "{}{unit}", amount / size)?;
            amount %= size;
        }
    }
    Ok(())
}

/// The units in the order in which they must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl Unit {
    fn plural(self) -> &'static str {
        match self {
            Unit::Year => "years",
            Unit::Month => "months",
            Unit::Week => "weeks",
            Unit::Day => "days",
            Unit::Hour => "hours",
            Unit::Minute => "minutes",
            Unit::Second => "seconds",
            Unit::Millisecond => "milliseconds",
            Unit::Microsecond => "microseconds",
            Unit::Nanosecond => "nanoseconds",
        }
    }

    /// Reads the unit's symbol, whatever its case.
    fn scan(scan: &mut Scan<'_>) -> Option<Unit> {
        const SYMBOLS: [(&str, Unit); 11] = [
            ("mo", Unit::Month),
            ("ms", Unit::Millisecond),
            ("us", Unit::Microsecond),
            ("\u{b5}s", Unit::Microsecond),
            ("ns", Unit::Nanosecond),
            ("y", Unit::Year),
            ("w", Unit::Week),
            ("d", Unit::Day),
            ("h", Unit::Hour),
            ("m", Unit::Minute),
            ("s", Unit::Second),
        ];
        SYMBOLS.into_iter().find_map(|(symbol, unit)| {
            let head = scan.rest().get(..symbol.len())?;
            head.eq_ignore_ascii_case(symbol).then(|| scan.literal(head))??;
            Some(unit)
        })
    }
}

/// Adds up units, each at most once and in falling order. Sums stay within i32 and i64 because each addend is
/// compared with what is left.
#[derive(Default)]
struct Builder {
    months: i64,
    days: i64,
    nanoseconds: i64,
    last: Option<Unit>,
}

impl Builder {
    fn add(&mut self, amount: i64, unit: Unit) -> Result<(), MarshalError> {
        if let Some(last) = self.last {
            if unit == last {
                return Err(MarshalError::DurationTextTwice(unit.plural()));
            }
            if unit < last {
                return Err(MarshalError::DurationTextOrder {
                    before: last.plural(),
                    after: unit.plural(),
                });
            }
        }
        self.last = Some(unit);
        let (sum, size, max, name) = match unit {
            Unit::Year => (&mut self.months, 12, i64::from(i32::MAX), "months"),
            Unit::Month => (&mut self.months, 1, i64::from(i32::MAX), "months"),
            Unit::Week => (&mut self.days, 7, i64::from(i32::MAX), "days"),
            Unit::Day => (&mut self.days, 1, i64::from(i32::MAX), "days"),
            Unit::Hour => (&mut self.nanoseconds, NANOS_PER_HOUR, i64::MAX, "nanoseconds"),
            Unit::Minute => (&mut self.nanoseconds, NANOS_PER_MINUTE, i64::MAX, "nanoseconds"),
            Unit::Second => (&mut self.nanoseconds, NANOS_PER_SECOND, i64::MAX, "nanoseconds"),
            Unit::Millisecond => (&mut self.nanoseconds, NANOS_PER_MILLI, i64::MAX, "nanoseconds"),
            Unit::Microsecond => (&mut self.nanoseconds, NANOS_PER_MICRO, i64::MAX, "nanoseconds"),
            Unit::Nanosecond => (&mut self.nanoseconds, 1, i64::MAX, "nanoseconds"),
        };
        if amount > (max - *sum) / size {
            return Err(MarshalError::DurationTextTooLong(name));
        }
        *sum += amount * size;
        Ok(())
    }

    fn build(&self, is_negative: bool) -> Duration {
        let sign = if is_negative { -1 } else { 1 };
        // `add` keeps months and days within an i32.
        Duration {
            months: (sign * self.months) as i32,
            days: (sign * self.days) as i32,
            nanoseconds: sign * self.nanoseconds,
        }
    }
}

/// Result of a reader: None if the text has not its form.
type Read = Result<Option<()>, MarshalError>;

fn read_units(builder: &mut Builder, text: &str) -> Read {
    let mut scan = Scan::new(text);
    loop {
        let (Some(amount), Some(unit)) = (scan.number(1, usize::MAX), Unit::scan(&mut scan)) else {
            return Ok(None);
        };
        builder.add(amount, unit)?;
        if scan.is_done() {
            return Ok(Some(()));
        }
    }
}

fn read_iso(builder: &mut Builder, text: &str) -> Read {
    let mut scan = Scan::new(text);
    read_iso_parts(
        builder,
        &mut scan,
        &[("Y", Unit::Year), ("M", Unit::Month), ("D", Unit::Day)],
    )?;
    if scan.literal("T").is_some() {
        let parts = [("H", Unit::Hour), ("M", Unit::Minute), ("S", Unit::Second)];
        read_iso_parts(builder, &mut scan, &parts)?;
    }
    Ok(scan.is_done().then_some(()))
}

fn read_iso_parts(
    builder: &mut Builder,
    scan: &mut Scan<'_>,
    parts: &[(&str, Unit)],
) -> Result<(), MarshalError> {
    for (symbol, unit) in parts {
        let mut ahead = *scan;
        if let Some(amount) = ahead.number(1, usize::MAX)
            && ahead.literal(symbol).is_some()
        {
            builder.add(amount, *unit)?;
            *scan = ahead;
        }
    }
    Ok(())
}

fn read_iso_weeks(builder: &mut Builder, text: &str) -> Read {
    let mut scan = Scan::new(text);
    let Some(weeks) = scan.number(1, usize::MAX) else {
        return Ok(None);
    };
    if scan.rest() != "W" {
        return Ok(None);
    }
    builder.add(weeks, Unit::Week).map(Some)
}

fn read_iso_alternative(builder: &mut Builder, text: &str) -> Read {
    const PARTS: [(usize, &str, Unit); 6] = [
        (4, "-", Unit::Year),
        (2, "-", Unit::Month),
        (2, "T", Unit::Day),
        (2, ":", Unit::Hour),
        (2, ":", Unit::Minute),
        (2, "", Unit::Second),
    ];
    let mut scan = Scan::new(text);
    for (digits, end, unit) in PARTS {
        let Some(amount) = scan.number(digits, digits) else {
            return Ok(None);
        };
        if scan.literal(end).is_none() {
            return Ok(None);
        }
        builder.add(amount, unit)?;
    }
    Ok(scan.is_done().then_some(()))
}
