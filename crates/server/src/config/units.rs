//! Cassandra's units: `16MiB`, `10s`, `500ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

/// A number of bytes: `64KiB`, `16MiB`, `1GiB`, `512B`. A bare number is bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSize(pub u64);

/// Bytes a second: `64MiB/s`. A bare number is MiB/s, as in Cassandra's older names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRate(pub u64);

/// A duration: `10s`, `5000ms`, `100us`, `2m`, `1h`, `1d`. A bare number is milliseconds, as in Cassandra's older names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationSetting(pub Duration);

/// How long a snapshot is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotTtl(pub Duration);

/// Bytes of a file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSize(pub u32);

/// A write takes half of a segment at most: below, values of common sizes would be refused.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// From Cassandra's own bound on, a segment is too large.
const SEGMENT_BYTES_END: u64 = 2048 << 20;

/// Cassandra's `snapshot_min_allowed_ttl`.
const SNAPSHOT_TTL_MIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    #[error("'{0}' is not a size; write a whole number with one of B, KiB, MiB, GiB, for example 512MiB")]
    Size(String),
    #[error("'{0}' is not a rate; write a whole number with one of B/s, KiB/s, MiB/s, for example 64MiB/s")]
    Rate(String),
    #[error(
        "'{0}' is not a duration; write a whole number with one of d, h, m, s, ms, us, for example 500ms"
    )]
    Duration(String),
    #[error("'{0}' is shorter than snapshots are kept at least, 60s")]
    SnapshotTtl(String),
    #[error("'{0}' is no size of a segment of the log; write one from 1MiB to 2047MiB, for example 32MiB")]
    SegmentSize(String),
}

impl FromStr for DataSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError::Size(text.to_owned());
        let (number, unit) = split(text).ok_or_else(error)?;
        let factor: u64 = match unit {
            "" | "B" => 1,
            "KiB" | "K" | "k" => 1 << 10,
            "MiB" | "M" | "m" => 1 << 20,
            "GiB" | "G" | "g" => 1 << 30,
            _ => return Err(error()),
        };
        number.checked_mul(factor).map(DataSize).ok_or_else(error)
    }
}

impl FromStr for DataRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError::Rate(text.to_owned());
        let (number, unit) = split(text).ok_or_else(error)?;
        let factor: u64 = match unit {
            "B/s" => 1,
            "KiB/s" => 1 << 10,
            "" | "MiB/s" => 1 << 20,
            _ => return Err(error()),
        };
        number.checked_mul(factor).map(DataRate).ok_or_else(error)
    }
}

impl FromStr for SegmentSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let DataSize(bytes) = text.parse()?;
        (SEGMENT_BYTES_MIN..SEGMENT_BYTES_END)
            .contains(&bytes)
            .then_some(SegmentSize(bytes as u32))
            .ok_or_else(|| UnitError::SegmentSize(text.to_owned()))
    }
}

impl FromStr for SnapshotTtl {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let DurationSetting(ttl) = text.parse()?;
        if ttl < SNAPSHOT_TTL_MIN {
            return Err(UnitError::SnapshotTtl(text.to_owned()));
        }
        Ok(SnapshotTtl(ttl))
    }
}

impl FromStr for DurationSetting {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError::Duration(text.to_owned());
        let (number, unit) = split(text).ok_or_else(error)?;
        let micros: u64 = match unit {
            "us" => 1,
            "" | "ms" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return Err(error()),
        };
        number
            .checked_mul(micros)
            .map(|micros| DurationSetting(Duration::from_micros(micros)))
            .ok_or_else(error)
    }
}

impl<'de> Deserialize<'de> for DataSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(UnitVisitor("a size such as 64KiB"))
            .and_then(parse)
    }
}

impl<'de> Deserialize<'de> for DataRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(UnitVisitor("a rate such as 64MiB/s"))
            .and_then(parse)
    }
}

impl<'de> Deserialize<'de> for DurationSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(UnitVisitor("a duration such as 500ms"))
            .and_then(parse)
    }
}

impl<'de> Deserialize<'de> for SegmentSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(UnitVisitor("a size such as 32MiB"))
            .and_then(parse)
    }
}

impl<'de> Deserialize<'de> for SnapshotTtl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(UnitVisitor("a duration such as 30d"))
            .and_then(parse)
    }
}

fn parse<T: FromStr<Err = UnitError>, E: de::Error>(text: String) -> Result<T, E> {
    text.parse().map_err(E::custom)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim()))
}

struct UnitVisitor(&'static str);

impl de::Visitor<'_> for UnitVisitor {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }
}
