//! Size-tiered compaction: merge files of like size, so that each write is rewritten about once per doubling.

use super::candidate::{Candidate, bytes_of};
use super::options::{CompactionOptions, SizeTieredOptions};
use super::parts::{PARTS, Parts};

pub(super) struct Bucket<'a> {
    pub members: Vec<&'a Candidate>,
    mean_bytes: f64,
}

/// The bucket to merge next, cut to what may be merged at once; empty if none is full.
///
/// Cassandra takes the bucket that reads touch most. Without measured reads all buckets count alike there, and here
/// the smallest files go first: they cost least and slow reads down as much.
pub(super) fn most_interesting<'a>(
    options: &CompactionOptions,
    sizes: &SizeTieredOptions,
    candidates: impl IntoIterator<Item = &'a Candidate>,
) -> Vec<&'a Candidate> {
    let full = full_buckets(options, sizes, candidates);
    let Some(mut bucket) = full.min_by(|left, right| left.mean_bytes.total_cmp(&right.mean_bytes)) else {
        return Vec::new();
    };
    bucket.members.truncate(options.max_threshold);
    bucket.members
}

/// The same of a table that may be cut into parts, each with buckets of its own.
pub(super) fn most_interesting_of<'a>(
    options: &CompactionOptions,
    sizes: &SizeTieredOptions,
    parts: &Parts<'a>,
) -> Vec<&'a Candidate> {
    let (within, across) = of_each(sizes, parts, |sizes, some| {
        most_interesting(options, sizes, some.iter().copied())
    });
    let mean_bytes = |bucket: &Vec<&Candidate>| bytes_of(bucket.iter().copied()) / bucket.len() as u64;
    let full = within
        .into_iter()
        .chain([across])
        .filter(|bucket| !bucket.is_empty());
    full.min_by_key(mean_bytes).unwrap_or_default()
}

/// How many compactions the full buckets of all parts amount to.
pub(super) fn pending_of(options: &CompactionOptions, sizes: &SizeTieredOptions, parts: &Parts<'_>) -> usize {
    let (within, across) = of_each(sizes, parts, |sizes, some| {
        pending(options, sizes, some.iter().copied())
    });
    within.into_iter().sum::<usize>() + across
}

/// How many SSTables are in the full buckets that a read may come to: those of one part, and those of several.
pub(super) fn waiting_of(options: &CompactionOptions, sizes: &SizeTieredOptions, parts: &Parts<'_>) -> usize {
    let (within, across) = of_each(sizes, parts, |sizes, some| {
        waiting(options, sizes, some.iter().copied())
    });
    within.into_iter().max().unwrap_or(0) + across
}

/// Asks the same of each part alone, where small is what is smaller, and of what lies across them.
fn of_each<'a, T>(
    sizes: &SizeTieredOptions,
    parts: &Parts<'a>,
    ask: impl Fn(&SizeTieredOptions, &[&'a Candidate]) -> T,
) -> (Vec<T>, T) {
    let part_sizes = SizeTieredOptions {
        min_sstable_bytes: sizes.min_sstable_bytes / u64::from(PARTS),
        ..*sizes
    };
    let within = parts.within().iter().map(|part| ask(&part_sizes, part));
    (within.collect(), ask(sizes, parts.across()))
}

/// How many compactions the full buckets amount to.
pub(super) fn pending<'a>(
    options: &CompactionOptions,
    sizes: &SizeTieredOptions,
    candidates: impl IntoIterator<Item = &'a Candidate>,
) -> usize {
    full_buckets(options, sizes, candidates)
        .map(|bucket| bucket.members.len().div_ceil(options.max_threshold))
        .sum()
}

/// How many SSTables are in full buckets.
pub(super) fn waiting<'a>(
    options: &CompactionOptions,
    sizes: &SizeTieredOptions,
    candidates: impl IntoIterator<Item = &'a Candidate>,
) -> usize {
    full_buckets(options, sizes, candidates)
        .map(|bucket| bucket.members.len())
        .sum()
}

fn full_buckets<'a>(
    options: &CompactionOptions,
    sizes: &SizeTieredOptions,
    candidates: impl IntoIterator<Item = &'a Candidate>,
) -> impl Iterator<Item = Bucket<'a>> {
    let buckets = buckets(sizes, candidates).into_iter();
    buckets.filter(|bucket| bucket.members.len() >= options.min_threshold)
}

/// Files of like size together, sorted by size.
fn buckets<'a>(
    sizes: &SizeTieredOptions,
    candidates: impl IntoIterator<Item = &'a Candidate>,
) -> Vec<Bucket<'a>> {
    let mut sorted: Vec<&Candidate> = candidates.into_iter().collect();
    sorted.sort_by_key(|candidate| (candidate.bytes, candidate.generation));
    let mut buckets: Vec<Bucket<'_>> = Vec::new();
    for candidate in sorted {
        let bytes = candidate.bytes as f64;
        let min_bytes = sizes.min_sstable_bytes as f64;
        let alike = buckets.iter_mut().find(|bucket| {
            (bytes > bucket.mean_bytes * sizes.bucket_low && bytes < bucket.mean_bytes * sizes.bucket_high)
                || (bytes < min_bytes && bucket.mean_bytes < min_bytes)
        });
        match alike {
            Some(bucket) => {
                bucket.members.push(candidate);
                bucket.mean_bytes =
                    bytes_of(bucket.members.iter().copied()) as f64 / bucket.members.len() as f64;
            }
            None => buckets.push(Bucket {
                members: vec![candidate],
                mean_bytes: bytes,
            }),
        }
    }
    buckets
}
