//! Which SSTable a file belongs to: its version and its id.
//!
//! A file is named `<version>-<id>-<big or bti>-<component>`. An id is a decimal number or, if Cassandra's
//! `uuid_sstable_identifiers_enabled` was set, a time-based UUID in a form of 28 characters:
//!
//! | characters | base 36, padded with zeros |
//! |---|---|
//! | 4, then `_` | days since 1582-10-15 |
//! | 4, then `_` | seconds of the day |
//! | 5 | tenths of microseconds of the second |
//! | 13 | the lower half of the UUID |

use std::fmt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::component::Component;
use crate::version::Version;

/// Tells the SSTables in one folder apart; with their versions, for two of different versions may share an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SsTableId {
    /// Number given by this node: above all numbers that its tables had when it started.
    Number(u64),
    /// Id from a Cassandra that gives such ids.
    TimeUuid(Uuid),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Descriptor {
    pub id: SsTableId,
    pub version: Version,
}

/// Kind of a file in a table's folder, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileName<'a> {
    Component {
        descriptor: Descriptor,
        /// That of a component, or of what was on its way to be one.
        suffix: &'a str,
    },
    /// It is named as a component is, but of a version that is not read, or with an id of an unknown form.
    Foreign {
        suffix: &'a str,
    },
    Other,
}

impl Descriptor {
    pub fn path(&self, directory: &Path, component: Component) -> PathBuf {
        directory.join(self.file_name(component.file_suffix()))
    }

    /// The name of a component, by its suffix.
    pub fn file_name(&self, suffix: &str) -> String {
        format!("{self}-{suffix}")
    }

    /// Parses the form that [`fmt::Display`] gives, such as `nb-12-big`.
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let (version, id, form) = (parts.next()?, parts.next()?, parts.next()?);
        let version = Version::parse(version)?;
        let id = SsTableId::parse(id)?;
        (parts.next().is_none() && form == version.index_form().name()).then_some(Descriptor { id, version })
    }
}

impl<'a> FileName<'a> {
    pub fn parse(name: &'a str) -> Self {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let mut dashes = name.match_indices('-').map(|(at, _)| at);
        let (Some(first), Some(_), Some(third)) = (dashes.next(), dashes.next(), dashes.next()) else {
            return FileName::Other;
        };
        let (descriptor, suffix) = (&name[..third], &name[third + 1..]);
        match Descriptor::parse(descriptor) {
            Some(descriptor) => FileName::Component { descriptor, suffix },
            None if first == 2
                && is_word(&name[..first])
                && (suffix.ends_with(".db") || suffix == Component::Toc.file_suffix()) =>
            {
                FileName::Foreign { suffix }
            }
            None => FileName::Other,
        }
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}-{}-{}",
            self.version,
            self.id,
            self.version.index_form().name()
        )
    }
}

const TICKS_PER_SECOND: u64 = 10_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
/// The bits of a UUID's upper half that are not its timestamp: version 1.
const VERSION_ONE: u64 = 0x1000;

impl SsTableId {
    pub fn parse(text: &str) -> Option<Self> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().map(SsTableId::Number);
        }
        let mut parts = text.split('_');
        let (days, seconds, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let is_form = parts.next().is_none() && days.len() == 4 && seconds.len() == 4 && rest.len() == 18;
        if !is_form || !text.is_ascii() {
            return None;
        }
        let number = |part: &str| {
            u64::from_str_radix(part, 36)
                .ok()
                .filter(|_| !part.starts_with('+'))
        };
        let (days, seconds) = (number(days)?, number(seconds)?);
        let (ticks, low) = (number(&rest[..5])?, number(&rest[5..])?);
        let timestamp = days
            .checked_mul(SECONDS_PER_DAY)?
            .checked_add(seconds)?
            .checked_mul(TICKS_PER_SECOND)?
            .checked_add(ticks)?;
        let id = SsTableId::TimeUuid(Uuid::from_u64_pair(uuid_high(timestamp)?, low));
        // Only the form that is written: files are found again by the names made from their ids.
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for SsTableId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SsTableId::Number(number) => number.fmt(out),
            SsTableId::TimeUuid(uuid) => {
                let (high, low) = uuid.as_u64_pair();
                let timestamp = uuid_timestamp(high);
                let ticks = timestamp % TICKS_PER_SECOND;
                let seconds = timestamp / TICKS_PER_SECOND;
                let (days, seconds) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
                write!(
                    out,
                    "{}_{}_{}{}",
                    base_36(days, 4),
                    base_36(seconds, 4),
                    base_36(ticks, 5),
                    base_36(low, 13)
                )
            }
        }
    }
}

/// The upper half of a version 1 UUID: low, middle and high bits of the timestamp, in that order.
fn uuid_high(timestamp: u64) -> Option<u64> {
    let top = timestamp >> 48;
    (top < VERSION_ONE).then_some((timestamp << 32) | ((timestamp >> 16) & 0xffff_0000) | VERSION_ONE | top)
}

fn uuid_timestamp(high: u64) -> u64 {
    (high >> 32) | ((high & 0xffff_0000) << 16) | ((high & 0x0fff) << 48)
}

fn base_36(mut number: u64, width: usize) -> String {
    let mut digits = Vec::with_capacity(13);
    while number > 0 || digits.len() < width {
        let digit = (number % 36) as u8;
        digits.push(char::from(if digit < 10 {
            b'0' + digit
        } else {
            b'a' + digit - 10
        }));
        number /= 36;
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_versions_read_back() {
        for version in Version::ALL {
            for id in [SsTableId::Number(7), SsTableId::Number(u64::MAX), time_uuid()] {
                let descriptor = Descriptor { id, version };
                assert_eq!(Descriptor::parse(&descriptor.to_string()), Some(descriptor));
            }
        }
        let name = Descriptor {
            id: SsTableId::Number(1),
            version: Version::Da,
        };
        assert_eq!(name.to_string(), "da-1-bti");
    }

    fn time_uuid() -> SsTableId {
        SsTableId::TimeUuid(Uuid::parse_str("1a2b3c4d-5e6f-11f0-9a8b-0123456789ab").unwrap())
    }

    #[test]
    fn a_time_based_id_has_cassandra_s_28_characters() {
        // Days, seconds and ticks by hand from the timestamp 0x1f05e6f1a2b3c4d.
        let timestamp = 0x01f0_5e6f_1a2b_3c4d_u64;
        let (days, seconds) = (timestamp / 864_000_000_000, timestamp / 10_000_000 % 86_400);
        let id = time_uuid().to_string();
        assert_eq!(id.len(), 28);
        assert_eq!(u64::from_str_radix(&id[..4], 36), Ok(days));
        assert_eq!(u64::from_str_radix(&id[5..9], 36), Ok(seconds));
        assert_eq!(u64::from_str_radix(&id[15..], 36), Ok(0x9a8b_0123_4567_89ab));
    }

    #[test]
    fn other_names_are_told_apart() {
        let foreign = |name| matches!(FileName::parse(name), FileName::Foreign { .. });
        assert!(foreign("lb-1-big-Data.db") && foreign("ob-1-big-TOC.txt") && foreign("nb-1-bti-Data.db"));
        for other in [
            "removal-3.txt",
            "schema.cql",
            "nb-1-big",
            "a-b-c-d",
            "manifest.json",
        ] {
            assert_eq!(FileName::parse(other), FileName::Other, "{other}");
        }
        assert_eq!(
            FileName::parse("nb-1-big-SAI+ba+Meta.db"),
            FileName::Component {
                descriptor: Descriptor {
                    id: SsTableId::Number(1),
                    version: Version::Nb
                },
                suffix: "SAI+ba+Meta.db",
            }
        );
        assert_eq!(SsTableId::parse("+1"), None);
        assert_eq!(SsTableId::parse("zzzz_zzzz_zzzzzzzzzzzzzzzzzz"), None);
    }
}
