//! The smallest timestamp, deletion time and TTL of an SSTable, from which its rows count.

use crate::decode::{ByteReader, DecodeError, push_unsigned_vint};
use helenus_rows::deletion::{DeletionTime, NEVER_S, NO_TIMESTAMP};
use helenus_rows::row::{Entry, RowRef};

/// Base values that the rows of an SSTable are encoded relative to. Any value is correct; the smallest ones that occur are the
/// most compact. Gathered while a memtable fills, or from the inputs of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingStats {
    pub timestamp_us_min: i64,
    pub local_deletion_s_min: u32,
    pub ttl_s_min: u32,
}

/// 2015-09-22T00:00:00Z: where a file counts from if nothing was written that could say better.
const TIMESTAMP_EPOCH_US: i64 = 1_442_880_000_000_000;
const DELETION_EPOCH_S: u32 = 1_442_880_000;

/// Gathers [`EncodingStats`] from what is going to be written. It sees each write, so that it only takes minima: what
/// nothing was said of is the largest number.
#[derive(Clone, Copy, Debug)]
pub struct EncodingStatsCollector {
    timestamp_us_min: i64,
    local_deletion_s_min: u32,
    ttl_s_min: u32,
}

impl Default for EncodingStatsCollector {
    fn default() -> Self {
        EncodingStatsCollector {
            timestamp_us_min: i64::MAX,
            local_deletion_s_min: NEVER_S,
            ttl_s_min: u32::MAX,
        }
    }
}

impl Default for EncodingStats {
    fn default() -> Self {
        EncodingStats {
            timestamp_us_min: TIMESTAMP_EPOCH_US,
            local_deletion_s_min: DELETION_EPOCH_S,
            ttl_s_min: 0,
        }
    }
}

impl EncodingStats {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_unsigned_vint(
            out,
            self.timestamp_us_min
                .wrapping_sub(TIMESTAMP_EPOCH_US)
                .cast_unsigned(),
        );
        let deletion_delta = self
            .local_deletion_s_min
            .wrapping_sub(DELETION_EPOCH_S)
            .cast_signed();
        push_unsigned_vint(out, i64::from(deletion_delta).cast_unsigned());
        push_unsigned_vint(out, u64::from(self.ttl_s_min));
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let timestamp_us_min = TIMESTAMP_EPOCH_US.wrapping_add(reader.unsigned_vint()?.cast_signed());
        let local_deletion_s_min = DELETION_EPOCH_S.wrapping_add(reader.unsigned_vint()? as u32);
        let offset = reader.position();
        let ttl = reader.unsigned_vint()?;
        let ttl_s_min = u32::try_from(ttl).map_err(|_| DecodeError::malformed(offset, "a TTL", ttl))?;
        Ok(EncodingStats {
            timestamp_us_min,
            local_deletion_s_min,
            ttl_s_min,
        })
    }
}

impl EncodingStatsCollector {
    #[inline]
    pub fn row(&mut self, row: RowRef<'_>) {
        let (liveness, deletion, entries) = row.open();
        if !liveness.is_none() {
            self.timestamp(liveness.timestamp_us);
            self.expiration(liveness.ttl_s, liveness.expires_at_s);
        }
        self.deletion(deletion);
        for entry in entries {
            match entry {
                Entry::ComplexDeletion { deletion, .. } => self.deletion(deletion),
                Entry::Cell(cell) => {
                    self.timestamp(cell.timestamp_us);
                    self.expiration(cell.ttl_s, cell.local_deletion_s);
                }
            }
        }
    }

    /// Takes in the deletion of a partition, a row, a range or a collection.
    #[inline]
    pub fn deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.timestamp(deletion.timestamp_us);
            self.expiration(0, deletion.local_s);
        }
    }

    /// Takes over what an SSTable to be compacted was encoded with.
    pub fn merge(&mut self, stats: EncodingStats) {
        let defaults = EncodingStats::default();
        if stats.timestamp_us_min != defaults.timestamp_us_min {
            self.timestamp(stats.timestamp_us_min);
        }
        if stats.local_deletion_s_min != defaults.local_deletion_s_min {
            self.expiration(0, stats.local_deletion_s_min);
        }
        self.expiration(stats.ttl_s_min, NEVER_S);
    }

    pub fn finish(&self) -> EncodingStats {
        let EncodingStats {
            timestamp_us_min,
            local_deletion_s_min,
            ttl_s_min,
        } = EncodingStats::default();
        let found = *self;
        EncodingStats {
            timestamp_us_min: match found.timestamp_us_min {
                i64::MAX => timestamp_us_min,
                min => min,
            },
            local_deletion_s_min: match found.local_deletion_s_min {
                NEVER_S => local_deletion_s_min,
                min => min,
            },
            ttl_s_min: match found.ttl_s_min {
                u32::MAX => ttl_s_min,
                min => min,
            },
        }
    }

    /// The smallest of all timestamps, `i64::MAX` if there was none.
    pub fn timestamp_us_min(&self) -> i64 {
        self.timestamp_us_min
    }

    #[inline]
    fn timestamp(&mut self, timestamp_us: i64) {
        if timestamp_us != NO_TIMESTAMP {
            self.timestamp_us_min = self.timestamp_us_min.min(timestamp_us);
        }
    }

    #[inline]
    fn expiration(&mut self, ttl_s: u32, local_deletion_s: u32) {
        if ttl_s != 0 {
            self.ttl_s_min = self.ttl_s_min.min(ttl_s);
        }
        // Of what never expires this is the largest number.
        self.local_deletion_s_min = self.local_deletion_s_min.min(local_deletion_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_counts_from_the_epoch() {
        let mut out = Vec::new();
        EncodingStatsCollector::default().finish().encode(&mut out);
        assert_eq!(out, [0, 0, 0]);
        assert_eq!(
            EncodingStats::decode(&mut ByteReader::new(&out)),
            Ok(EncodingStats::default())
        );
    }

    #[test]
    fn times_before_the_epoch_read_back() {
        let stats = EncodingStats {
            timestamp_us_min: -5,
            local_deletion_s_min: 7,
            ttl_s_min: 60,
        };
        let mut out = Vec::new();
        stats.encode(&mut out);
        assert_eq!(EncodingStats::decode(&mut ByteReader::new(&out)), Ok(stats));
        let mut collector = EncodingStatsCollector::default();
        collector.merge(stats);
        assert_eq!(collector.finish(), stats);
    }
}
