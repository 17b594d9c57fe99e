//! Deletions and deletion times as numbers of fixed size, in the form of a version.
//!
//! | up to `nb` | bytes |
//! |---|---|
//! | local time | 4, signed seconds; 2^31 - 1 for never |
//! | timestamp | 8, microseconds; -2^63 for a deletion that deletes nothing |
//!
//! | from `oa` | bytes |
//! |---|---|
//! | nothing deleted | 1: 0x80 |
//! | or timestamp | 8, microseconds; the first byte is never 0x80 |
//! | local time | 4, unsigned seconds; 2^32 - 1 for never |

use crate::decode::{ByteReader, DecodeError};
use crate::version::Version;
use helenus_rows::deletion::{DeletionTime, NEVER_S};

/// "Never" where times are signed; times from it on are stored as the one before.
const NEVER_SIGNED_S: u32 = i32::MAX as u32;
/// Mark that nothing is deleted, where times are unsigned.
const NOTHING_DELETED: u8 = 0x80;
/// The least timestamp that does not begin with [`NOTHING_DELETED`]: earlier ones, 290,000 years ago, are stored as it.
const TIMESTAMP_US_MIN: i64 = i64::MIN + (1 << 56);
/// Cassandra takes the two largest numbers for "never" and for "invalid".
const DELETION_UNSIGNED_S_MAX: u32 = u32::MAX - 2;

/// The last time that a version can store.
pub(crate) fn deletion_s_max(version: Version) -> u32 {
    if version.has_unsigned_deletion_time() {
        DELETION_UNSIGNED_S_MAX
    } else {
        NEVER_SIGNED_S - 1
    }
}

/// Returns the number for "never" where rows store differences: Cassandra 5.0 writes -1 whatever the version, those that wrote
/// `me` the largest signed number.
pub(crate) fn never_in_rows(version: Version) -> u32 {
    if version < Version::Nb {
        NEVER_SIGNED_S
    } else {
        NEVER_S
    }
}

/// As a 4-byte number.
pub(crate) fn stored_deletion_time(version: Version, local_s: u32) -> u32 {
    if local_s != NEVER_S {
        local_s.min(deletion_s_max(version))
    } else if version.has_unsigned_deletion_time() {
        NEVER_S
    } else {
        NEVER_SIGNED_S
    }
}

pub(crate) fn deletion_time_of_stored(version: Version, stored: u32) -> u32 {
    if stored == NEVER_SIGNED_S && !version.has_unsigned_deletion_time() {
        NEVER_S
    } else {
        stored
    }
}

pub(crate) fn push_deletion_time(out: &mut Vec<u8>, version: Version, deletion: DeletionTime) {
    let local_s = stored_deletion_time(version, deletion.local_s);
    if !version.has_unsigned_deletion_time() {
        out.extend_from_slice(&local_s.to_be_bytes());
        out.extend_from_slice(&deletion.timestamp_us.to_be_bytes());
    } else if deletion.is_live() {
        out.push(NOTHING_DELETED);
    } else {
        out.extend_from_slice(&deletion.timestamp_us.max(TIMESTAMP_US_MIN).to_be_bytes());
        out.extend_from_slice(&local_s.to_be_bytes());
    }
}

/// Timestamps before 1970 are read as Cassandra 5.0 writes them, though it refuses to read them itself.
pub(crate) fn read_deletion_time(
    reader: &mut ByteReader<'_>,
    version: Version,
) -> Result<DeletionTime, DecodeError> {
    if !version.has_unsigned_deletion_time() {
        let local_s = deletion_time_of_stored(version, reader.u32()?);
        let timestamp_us = reader.i64()?;
        return Ok(DeletionTime {
            timestamp_us,
            local_s,
        });
    }
    let mut ahead = *reader;
    if ahead.u8()? == NOTHING_DELETED {
        *reader = ahead;
        return Ok(DeletionTime::LIVE);
    }
    let timestamp_us = reader.i64()?;
    let local_s = reader.u32()?;
    Ok(DeletionTime {
        timestamp_us,
        local_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(version: Version, timestamp_us: i64, local_s: u32) -> (Vec<u8>, DeletionTime) {
        let mut out = Vec::new();
        push_deletion_time(
            &mut out,
            version,
            DeletionTime {
                timestamp_us,
                local_s,
            },
        );
        let mut reader = ByteReader::new(&out);
        let read = read_deletion_time(&mut reader, version).unwrap();
        reader.finish().unwrap();
        (out, read)
    }

    #[test]
    fn each_version_has_its_layout() {
        let (bytes, read) = stored(Version::Nb, 0x0102, 0x0304);
        assert_eq!(bytes, [0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!((read.timestamp_us, read.local_s), (0x0102, 0x0304));
        let (bytes, read) = stored(Version::Oa, 0x0102, 0x0304);
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4]);
        assert_eq!((read.timestamp_us, read.local_s), (0x0102, 0x0304));
        for version in Version::ALL {
            let DeletionTime {
                timestamp_us,
                local_s,
            } = DeletionTime::LIVE;
            let (bytes, read) = stored(version, timestamp_us, local_s);
            assert_eq!(bytes.len(), if version < Version::Oa { 12 } else { 1 });
            assert!(read.is_live());
        }
    }

    #[test]
    fn the_ends_of_time_are_kept_or_capped() {
        assert_eq!(stored(Version::Oa, -5, 1).1.timestamp_us, -5);
        assert_eq!(
            stored(Version::Oa, i64::MIN + 1, 1).1.timestamp_us,
            TIMESTAMP_US_MIN
        );
        assert_eq!(stored(Version::Nb, 0, 3_000_000_000).1.local_s, 0x7fff_fffe);
        assert_eq!(stored(Version::Oa, 0, 3_000_000_000).1.local_s, 3_000_000_000);
        assert_eq!(stored(Version::Nb, 0, NEVER_S).1.local_s, NEVER_S);
    }
}
