//! The histograms of the Statistics file: sizes in exponential buckets, and when tombstones can be dropped.

use std::collections::BTreeMap;

use crate::decode::{ByteReader, DecodeError};
use crate::rows::deletion_codec::deletion_s_max;
use crate::version::Version;

/// Counts values in buckets that grow by a fifth each.
#[derive(Clone, Debug)]
pub struct EstimatedHistogram {
    /// The largest value of each bucket but the last, which takes the rest.
    bounds: Vec<u64>,
    counts: Vec<u64>,
    /// Bucket of the last value added; the next is often alike.
    last_bucket: usize,
}

/// Enough for partitions of 3.5 TB; Cassandra's choice, as is the next one.
pub(crate) const PARTITION_SIZE_BUCKETS: usize = 155;
/// Enough for 4 billion cells in a partition.
pub(crate) const CELL_COUNT_BUCKETS: usize = 118;

impl PartialEq for EstimatedHistogram {
    fn eq(&self, other: &Self) -> bool {
        self.bounds == other.bounds && self.counts == other.counts
    }
}

impl Eq for EstimatedHistogram {}

impl EstimatedHistogram {
    pub(crate) fn new(bucket_count: usize) -> Self {
        let mut bounds = vec![1_u64];
        while bounds.len() < bucket_count {
            let last = bounds[bounds.len() - 1];
            // Rounded to the nearest, in integers: last * 1.2.
            bounds.push(((last * 12 + 5) / 10).max(last + 1));
        }
        let counts = vec![0; bounds.len() + 1];
        EstimatedHistogram {
            bounds,
            counts,
            last_bucket: 0,
        }
    }

    pub(crate) fn add(&mut self, value: u64) {
        let is_above = |bucket: usize| bucket == 0 || self.bounds[bucket - 1] < value;
        let is_within = |bucket: usize| self.bounds.get(bucket).is_none_or(|bound| value <= *bound);
        if !(is_above(self.last_bucket) && is_within(self.last_bucket)) {
            self.last_bucket = self.bounds.partition_point(|bound| *bound < value);
        }
        self.counts[self.last_bucket] += 1;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The buckets that have something, each as the largest value that it takes.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let largest = self.bounds.last().copied().unwrap_or(0);
        let bounds = self.bounds.iter().copied().chain([largest]);
        bounds
            .zip(self.counts.iter().copied())
            .filter(|(_, count)| *count > 0)
    }

    /// The sum of what was added, as if every value were its bucket's largest.
    pub(crate) fn sum_estimate(&self) -> u64 {
        let largest = self.bounds.last().copied().unwrap_or(0);
        let bounds = self.bounds.iter().copied().chain([largest]);
        bounds.zip(&self.counts).fold(0, |sum, (bound, count)| {
            sum.saturating_add(bound.saturating_mul(*count))
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.counts.len() as u32).to_be_bytes());
        for (index, count) in self.counts.iter().enumerate() {
            let bound = self.bounds[index.saturating_sub(1)];
            out.extend_from_slice(&bound.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.position();
        let count = reader.count_u32(16)?;
        if count < 2 {
            return Err(DecodeError::malformed(offset, "at least two buckets", count));
        }
        let mut histogram = EstimatedHistogram {
            bounds: Vec::with_capacity(count),
            counts: Vec::with_capacity(count),
            last_bucket: 0,
        };
        for index in 0..count {
            let bound = reader.u64()?;
            // The first bound is written twice.
            if index > 0 {
                histogram.bounds.push(bound);
            }
            histogram.counts.push(reader.u64()?);
        }
        Ok(histogram)
    }
}

/// Counts deletions and expirations by when they happened or will, in a bounded number of bins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TombstoneHistogram {
    /// Count by local deletion time in seconds, rounded up.
    bins: BTreeMap<u32, u64>,
}

/// Bins that are stored; Cassandra's choice.
const TOMBSTONE_BINS_MAX: usize = 100;
/// Bins while writing: more than are stored, so that merging the closest ones is seldom.
const TOMBSTONE_BINS_WHILE_WRITING_MAX: usize = 4096;
/// Times are rounded up to whole minutes before they are counted; Cassandra's choice.
const TOMBSTONE_ROUND_S: u32 = 60;

impl TombstoneHistogram {
    pub(crate) fn add(&mut self, local_deletion_s: u32) {
        let rounded = local_deletion_s
            .checked_next_multiple_of(TOMBSTONE_ROUND_S)
            .unwrap_or(local_deletion_s);
        *self.bins.entry(rounded).or_default() += 1;
        if self.bins.len() > TOMBSTONE_BINS_WHILE_WRITING_MAX {
            self.shrink(TOMBSTONE_BINS_WHILE_WRITING_MAX / 2);
        }
    }

    /// Merges neighbours until `bins_max` are left: all within a distance that doubles as long as needed.
    pub(crate) fn shrink(&mut self, bins_max: usize) {
        let mut distance_s = TOMBSTONE_ROUND_S;
        while self.bins.len() > bins_max {
            // First and last time of each merged bin, which keeps the last, so that nothing counts as droppable too
            // early.
            let mut merged: Vec<(u32, u32, u64)> = Vec::with_capacity(self.bins.len());
            for (&point, &count) in &self.bins {
                match merged.last_mut() {
                    Some((first, last, sum)) if point - *first <= distance_s => {
                        *last = point;
                        *sum += count;
                    }
                    _ => merged.push((point, point, count)),
                }
            }
            self.bins = merged.into_iter().map(|(_, last, sum)| (last, sum)).collect();
            distance_s = distance_s.saturating_mul(2);
        }
    }

    /// Times in seconds, and how many were counted at each.
    pub fn bins(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.bins.iter().map(|(&time, &count)| (time, count))
    }

    /// How many were deleted or expired before a time.
    pub(crate) fn count_before(&self, local_deletion_s: u32) -> u64 {
        self.bins.range(..local_deletion_s).map(|(_, count)| count).sum()
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let mut stored = self.clone();
        stored.shrink(TOMBSTONE_BINS_MAX);
        let count = (stored.bins.len() as u32).to_be_bytes();
        // The number of bins there may be, then the number there are; the first is a leftover of the format.
        out.extend_from_slice(&count);
        out.extend_from_slice(&count);
        for (point, count) in &stored.bins {
            if version.has_unsigned_deletion_time() {
                out.extend_from_slice(&u64::from(*point).to_be_bytes());
                out.extend_from_slice(&u32::try_from(*count).unwrap_or(u32::MAX >> 1).to_be_bytes());
            } else {
                out.extend_from_slice(&f64::from(*point).to_be_bytes());
                out.extend_from_slice(&count.to_be_bytes());
            }
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>, version: Version) -> Result<Self, DecodeError> {
        reader.u32()?;
        let is_unsigned = version.has_unsigned_deletion_time();
        let count = reader.count_u32(if is_unsigned { 12 } else { 16 })?;
        let mut bins: BTreeMap<u32, u64> = BTreeMap::new();
        for _ in 0..count {
            let offset = reader.position();
            let (point_s, count) = if is_unsigned {
                let point = reader.u64()?;
                let point_s = u32::try_from(point)
                    .map_err(|_| DecodeError::malformed(offset, "a time in seconds", point))?;
                (point_s, u64::from(reader.u32()?))
            } else {
                (legacy_time(reader.f64()?, offset)?, reader.u64()?)
            };
            let bin = bins.entry(point_s).or_default();
            *bin = bin.saturating_add(count);
        }
        Ok(TombstoneHistogram { bins })
    }
}

/// Times that overflowed 32 bits are negative in files of before Cassandra 3.0.16: as late as can be told.
fn legacy_time(point: f64, offset: usize) -> Result<u32, DecodeError> {
    if (f64::from(i32::MIN)..0.0).contains(&point) {
        Ok(deletion_s_max(Version::Nb))
    } else if (0.0..=f64::from(u32::MAX)).contains(&point) {
        Ok(point as u32)
    } else {
        Err(DecodeError::malformed(offset, "a time in seconds", point))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow_as_in_the_format() {
        let histogram = EstimatedHistogram::new(10);
        assert_eq!(histogram.bounds, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]);
        assert_eq!(
            EstimatedHistogram::new(PARTITION_SIZE_BUCKETS).bounds.last(),
            Some(&3_520_571_548_412)
        );
        assert_eq!(
            EstimatedHistogram::new(CELL_COUNT_BUCKETS).bounds.last(),
            Some(&4_139_110_981)
        );
    }

    #[test]
    fn values_fall_in_the_bucket_that_bounds_them() {
        let mut histogram = EstimatedHistogram::new(10);
        [1, 9, 10, 11, 1000]
            .into_iter()
            .for_each(|value| histogram.add(value));
        assert_eq!(histogram.counts, [1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 1]);
        let mut out = Vec::new();
        histogram.encode(&mut out);
        assert_eq!(
            EstimatedHistogram::decode(&mut ByteReader::new(&out)),
            Ok(histogram)
        );
    }

    #[test]
    fn a_value_falls_in_its_bucket_whatever_came_before_it() {
        let mut histogram = EstimatedHistogram::new(10);
        let mut counts = vec![0; histogram.counts.len()];
        for value in [5, 5, 1000, 13, 12, 11, 10, 9, 8, 2, 1, 0, 0, 1, 2, 12, 1000] {
            histogram.add(value);
            counts[histogram.bounds.partition_point(|bound| *bound < value)] += 1;
        }
        assert_eq!(histogram.counts, counts);
    }

    #[test]
    fn tombstones_keep_their_count_when_bins_merge() {
        let mut histogram = TombstoneHistogram::default();
        (0..500_000).for_each(|index| histogram.add(1_700_000_000 + 61 * index));
        for version in [Version::Me, Version::Oa] {
            let mut out = Vec::new();
            histogram.encode(version, &mut out);
            let mut reader = ByteReader::new(&out);
            let read = TombstoneHistogram::decode(&mut reader, version).unwrap();
            reader.finish().unwrap();
            assert!(read.bins.len() <= TOMBSTONE_BINS_MAX);
            assert_eq!(read.count_before(u32::MAX), 500_000);
            assert_eq!(read.count_before(1_700_000_000), 0);
        }
    }
}
