//! Functions of time.

use helenus_types::CqlType;
use helenus_types::value::Duration;
use helenus_types::value::calendar::{civil_from_days, days_from_civil, days_in_month};
use helenus_types::value::date::{date_of_timestamp, timestamp_of_date};
use helenus_types::value::timeuuid::{timeuuid_max, timeuuid_min, timeuuid_timestamp_ms};

use super::clock::{Clock, next_timeuuid};
use super::kinds::{Moment, TimeKind};
use super::signature::{NativeFunction, ScalarKind};
use crate::CqlError;

const MS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_MS: i64 = 1_000_000;
const NANOS_PER_DAY: i64 = MS_PER_DAY * NANOS_PER_MS;

impl Moment {
    pub(super) fn bytes(self, clock: Clock) -> Vec<u8> {
        let now_ms = clock.server_timestamp_us.div_euclid(1_000);
        match self {
            Moment::Timeuuid => next_timeuuid(clock).to_vec(),
            Moment::Timestamp => now_ms.to_be_bytes().to_vec(),
            Moment::Date => date_of_ms(now_ms),
            Moment::Time => {
                let of_day_us = clock.server_timestamp_us.rem_euclid(MS_PER_DAY * 1_000);
                (of_day_us * 1_000).to_be_bytes().to_vec()
            }
        }
    }
}

pub(super) fn overloads(name: &str) -> Vec<NativeFunction> {
    let moment = |name, moment, cql_type| {
        vec![NativeFunction::scalar(
            name,
            ScalarKind::Moment(moment),
            [],
            cql_type,
        )]
    };
    let convert = |name: &'static str, from: &[CqlType], to: CqlType| {
        let function = |from: &CqlType| {
            NativeFunction::scalar(
                name,
                ScalarKind::Time(TimeKind::Convert),
                [from.clone()],
                to.clone(),
            )
        };
        from.iter().map(function).collect()
    };
    let bound = |name, kind| {
        vec![NativeFunction::scalar(
            name,
            ScalarKind::Time(kind),
            [CqlType::Timestamp],
            CqlType::Timeuuid,
        )]
    };
    let (timeuuid, timestamp, date) = (CqlType::Timeuuid, CqlType::Timestamp, CqlType::Date);
    match name {
        "now" => moment("now", Moment::Timeuuid, timeuuid),
        "current_timeuuid" => moment("current_timeuuid", Moment::Timeuuid, timeuuid),
        "currenttimeuuid" => moment("currenttimeuuid", Moment::Timeuuid, timeuuid),
        "current_timestamp" => moment("current_timestamp", Moment::Timestamp, timestamp),
        "currenttimestamp" => moment("currenttimestamp", Moment::Timestamp, timestamp),
        "current_date" => moment("current_date", Moment::Date, date),
        "currentdate" => moment("currentdate", Moment::Date, date),
        "current_time" => moment("current_time", Moment::Time, CqlType::Time),
        "currenttime" => moment("currenttime", Moment::Time, CqlType::Time),
        "min_timeuuid" => bound("min_timeuuid", TimeKind::MinTimeuuid),
        "mintimeuuid" => bound("mintimeuuid", TimeKind::MinTimeuuid),
        "max_timeuuid" => bound("max_timeuuid", TimeKind::MaxTimeuuid),
        "maxtimeuuid" => bound("maxtimeuuid", TimeKind::MaxTimeuuid),
        "to_date" => convert("to_date", &[timeuuid, timestamp], date),
        "todate" => convert("todate", &[timeuuid, timestamp], date),
        "to_timestamp" => convert("to_timestamp", &[timeuuid, date], timestamp),
        "totimestamp" => convert("totimestamp", &[timeuuid, date], timestamp),
        "to_unix_timestamp" => convert("to_unix_timestamp", &[timeuuid, timestamp, date], CqlType::Bigint),
        "tounixtimestamp" => convert("tounixtimestamp", &[timeuuid, timestamp, date], CqlType::Bigint),
        "floor" => floor_overloads(),
        _ => Vec::new(),
    }
}

fn floor_overloads() -> Vec<NativeFunction> {
    let mut overloads = Vec::new();
    for (from, to, start) in [
        (CqlType::Timestamp, CqlType::Timestamp, CqlType::Timestamp),
        (CqlType::Timeuuid, CqlType::Timestamp, CqlType::Timestamp),
        (CqlType::Date, CqlType::Date, CqlType::Date),
    ] {
        let kind = || ScalarKind::Time(TimeKind::Floor);
        overloads.push(NativeFunction::scalar(
            "floor",
            kind(),
            [from.clone(), CqlType::Duration],
            to.clone(),
        ));
        overloads.push(NativeFunction::scalar(
            "floor",
            kind(),
            [from, CqlType::Duration, start],
            to,
        ));
    }
    // The order in which Cassandra's messages list them.
    overloads.swap(0, 1);
    let arguments = [CqlType::Time, CqlType::Duration];
    overloads.push(NativeFunction::scalar(
        "floor",
        ScalarKind::Time(TimeKind::FloorTime),
        arguments,
        CqlType::Time,
    ));
    overloads
}

pub(super) fn execute(
    kind: TimeKind,
    function: &NativeFunction,
    arguments: &[&[u8]],
) -> Result<Option<Vec<u8>>, CqlError> {
    let time_ms = |index: usize| ms_of(function.argument_types.get(index)?, arguments.get(index)?);
    match kind {
        TimeKind::MinTimeuuid => Ok(time_ms(0).map(|time_ms| timeuuid_min(time_ms).to_vec())),
        TimeKind::MaxTimeuuid => Ok(time_ms(0).map(|time_ms| timeuuid_max(time_ms).to_vec())),
        TimeKind::Convert => Ok(time_ms(0).map(|time_ms| value_of(&function.return_type, time_ms))),
        TimeKind::Floor => {
            let (Some(time), Some(duration)) = (time_ms(0), arguments.get(1)) else {
                return Ok(None);
            };
            let start = if arguments.len() > 2 { time_ms(2) } else { Some(0) };
            let Some(start) = start else { return Ok(None) };
            let duration = Duration::from_bytes(duration).map_err(|error| invalid!("{error}"))?;
            check_floor_precision(&function.return_type, duration)?;
            Ok(Some(value_of(
                &function.return_type,
                floor_ms(time, duration, start)?,
            )))
        }
        TimeKind::FloorTime => {
            let (Some(time), Some(duration)) =
                (arguments.first().and_then(|time| i64_of(time)), arguments.get(1))
            else {
                return Ok(None);
            };
            let duration = Duration::from_bytes(duration).map_err(|error| invalid!("{error}"))?;
            if duration.is_negative() {
                return Err(invalid!(
                    "Negative durations are not supported by the floor function"
                ));
            }
            if duration.months != 0 || duration.days != 0 || duration.nanoseconds > NANOS_PER_DAY {
                return Err(invalid!(
                    "For time values, the floor can only be computed for durations smaller that a day"
                ));
            }
            let delta = if duration.nanoseconds == 0 {
                0
            } else {
                time % duration.nanoseconds
            };
            Ok(Some((time - delta).to_be_bytes().to_vec()))
        }
    }
}

fn check_floor_precision(cql_type: &CqlType, duration: Duration) -> Result<(), CqlError> {
    if *cql_type == CqlType::Date && duration.nanoseconds != 0 {
        return Err(invalid!(
            "The floor on date values cannot be computed for the {duration} duration as precision is below 1 day"
        ));
    }
    if duration.nanoseconds % NANOS_PER_MS != 0 {
        return Err(invalid!(
            "The floor cannot be computed for the {duration} duration as precision is below 1 millisecond"
        ));
    }
    Ok(())
}

/// The start of the interval of this duration, counted from `start_ms`, that the time falls into.
fn floor_ms(time_ms: i64, duration: Duration, start_ms: i64) -> Result<i64, CqlError> {
    if start_ms > time_ms {
        return Err(invalid!(
            "The floor function starting time is greater than the provided time"
        ));
    }
    if duration.is_negative() {
        return Err(invalid!(
            "Negative durations are not supported by the floor function"
        ));
    }
    let interval_ms =
        (i64::from(duration.days) * MS_PER_DAY).saturating_add(duration.nanoseconds / NANOS_PER_MS);
    if duration.months == 0 {
        let delta = if interval_ms == 0 {
            0
        } else {
            (time_ms - start_ms) % interval_ms
        };
        return Ok(time_ms - delta);
    }
    let months = month_of(time_ms) - month_of(start_ms);
    let mut multiplier = months / i64::from(duration.months);
    let floor = |multiplier: i64| {
        add_months(start_ms, multiplier * i64::from(duration.months))
            .saturating_add(multiplier.saturating_mul(interval_ms))
    };
    while floor(multiplier) > time_ms && multiplier > 0 && interval_ms > 0 {
        multiplier -= 1;
    }
    Ok(floor(multiplier).max(start_ms))
}

/// The time a serialized value stands for, in milliseconds since 1970.
pub(super) fn ms_of(cql_type: &CqlType, bytes: &[u8]) -> Option<i64> {
    match cql_type {
        CqlType::Timestamp => i64_of(bytes),
        CqlType::Date => Some(timestamp_of_date(u32::from_be_bytes(bytes.try_into().ok()?))),
        CqlType::Timeuuid => Some(timeuuid_timestamp_ms(bytes.try_into().ok()?)),
        _ => None,
    }
}

fn i64_of(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_be_bytes)
}

fn value_of(cql_type: &CqlType, time_ms: i64) -> Vec<u8> {
    match cql_type {
        CqlType::Date => date_of_ms(time_ms),
        _ => time_ms.to_be_bytes().to_vec(),
    }
}

pub(super) fn date_of_ms(time_ms: i64) -> Vec<u8> {
    date_of_timestamp(time_ms).to_be_bytes().to_vec()
}

pub(super) fn add_duration(time_ms: i64, duration: Duration) -> i64 {
    add_months(time_ms, i64::from(duration.months))
        .wrapping_add(i64::from(duration.days).wrapping_mul(MS_PER_DAY))
        .wrapping_add(duration.nanoseconds / NANOS_PER_MS)
}

/// Months since year 0.
fn month_of(time_ms: i64) -> i64 {
    let (year, month, _) = civil_from_days(time_ms.div_euclid(MS_PER_DAY));
    year * 12 + month - 1
}

/// The same day and time of another month, or the last day of a month that is too short.
fn add_months(time_ms: i64, months: i64) -> i64 {
    if months == 0 {
        return time_ms;
    }
    let (days, of_day_ms) = (time_ms.div_euclid(MS_PER_DAY), time_ms.rem_euclid(MS_PER_DAY));
    let (_, _, day) = civil_from_days(days);
    let target = month_of(time_ms) + months;
    let (year, month) = (target.div_euclid(12), target.rem_euclid(12) + 1);
    let day = day.min(days_in_month(year, month));
    days_from_civil(year, month, day)
        .wrapping_mul(MS_PER_DAY)
        .wrapping_add(of_day_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamp(text: &str) -> i64 {
        i64_of(&CqlType::Timestamp.from_text(text, 0).unwrap()).unwrap()
    }

    #[test]
    fn floors_count_from_their_start() {
        let floor = |time: &str, duration: &str, start: &str| {
            floor_ms(
                timestamp(time),
                Duration::parse(duration).unwrap(),
                timestamp(start),
            )
            .unwrap()
        };
        let cases = [
            (
                "2016-09-27 16:12:00+0000",
                "1h",
                "1970-01-01+0000",
                "2016-09-27 16:00:00+0000",
            ),
            (
                "2016-09-27 16:12:00+0000",
                "1mo",
                "1970-01-01+0000",
                "2016-09-01 00:00:00+0000",
            ),
            (
                "2016-09-27 16:12:00+0000",
                "1y",
                "1970-01-01+0000",
                "2016-01-01 00:00:00+0000",
            ),
            (
                "2016-09-27 16:12:00+0000",
                "2h",
                "2016-09-27 15:00:00+0000",
                "2016-09-27 15:00:00+0000",
            ),
        ];
        for (time, duration, start, expected) in cases {
            assert_eq!(
                floor(time, duration, start),
                timestamp(expected),
                "{time} {duration}"
            );
        }
    }

    #[test]
    fn months_end_on_their_last_day() {
        assert_eq!(
            add_months(timestamp("2021-01-31+0000"), 1),
            timestamp("2021-02-28+0000")
        );
        assert_eq!(
            add_months(timestamp("2021-01-31+0000"), -2),
            timestamp("2020-11-30+0000")
        );
    }
}
