//! Size-tiered compaction: merge files of like size, so that each write is rewritten about once per doubling.

use super::CompactionOptions;

/// An SSTable that is not being compacted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The caller's name for it.
    pub index: usize,
    pub bytes: u64,
    /// The share of its cells that are tombstones which gc_grace has passed by.
    pub droppable_tombstones: f64,
}

struct Bucket {
    members: Vec<Candidate>,
    mean_bytes: f64,
}

/// The SSTables to merge next, by index; empty if none need it.
pub fn choose(options: &CompactionOptions, candidates: &[Candidate]) -> Vec<usize> {
    if !options.is_enabled {
        return Vec::new();
    }
    let full = buckets(options, candidates)
        .into_iter()
        .filter(|bucket| bucket.members.len() >= options.min_threshold);
    // The smallest files first: they cost least and slow reads down as much.
    if let Some(bucket) = full.min_by(|left, right| left.mean_bytes.total_cmp(&right.mean_bytes)) {
        return bucket
            .members
            .iter()
            .take(options.max_threshold)
            .map(|member| member.index)
            .collect();
    }
    let most_tombstones = candidates
        .iter()
        .filter(|candidate| candidate.droppable_tombstones > options.tombstone_threshold)
        .max_by(|left, right| left.droppable_tombstones.total_cmp(&right.droppable_tombstones));
    most_tombstones
        .map(|candidate| candidate.index)
        .into_iter()
        .collect()
}

/// Files of like size together, sorted by size.
fn buckets(options: &CompactionOptions, candidates: &[Candidate]) -> Vec<Bucket> {
    let mut sorted = candidates.to_vec();
    sorted.sort_by_key(|candidate| (candidate.bytes, candidate.index));
    let mut buckets: Vec<Bucket> = Vec::new();
    for candidate in sorted {
        let bytes = candidate.bytes as f64;
        let min_bytes = options.min_sstable_bytes as f64;
        let alike = buckets.iter_mut().find(|bucket| {
            (bytes > bucket.mean_bytes * options.bucket_low
                && bytes < bucket.mean_bytes * options.bucket_high)
                || (bytes < min_bytes && bucket.mean_bytes < min_bytes)
        });
        match alike {
            Some(bucket) => {
                let count = bucket.members.len() as f64;
                bucket.mean_bytes = (bucket.mean_bytes * count + bytes) / (count + 1.0);
                bucket.members.push(candidate);
            }
            None => buckets.push(Bucket {
                members: vec![candidate],
                mean_bytes: bytes,
            }),
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn chosen(sizes: &[u64]) -> Vec<usize> {
        let candidates = sizes.iter().enumerate();
        let candidates: Vec<_> = candidates
            .map(|(index, &bytes)| Candidate {
                index,
                bytes,
                droppable_tombstones: 0.0,
            })
            .collect();
        choose(&CompactionOptions::default(), &candidates)
    }

    #[test]
    fn four_of_like_size_are_merged() {
        assert_eq!(chosen(&[100 * MIB, 110 * MIB, 90 * MIB]), [] as [usize; 0]);
        assert_eq!(chosen(&[100 * MIB, 110 * MIB, 90 * MIB, 105 * MIB]), [2, 0, 3, 1]);
        assert_eq!(
            chosen(&[100 * MIB, 110 * MIB, 90 * MIB, 300 * MIB]),
            [] as [usize; 0]
        );
    }

    #[test]
    fn small_files_are_alike() {
        assert_eq!(chosen(&[MIB, 30 * MIB, 2, 7 * MIB]), [2, 0, 3, 1]);
    }

    #[test]
    fn small_buckets_come_first_and_are_cut() {
        let large = [100 * MIB; 4];
        let small = [MIB; 40];
        let chosen = chosen(&[&large[..], &small[..]].concat());
        assert_eq!(chosen, (4..36).collect::<Vec<_>>());
    }

    #[test]
    fn many_tombstones_are_a_reason_of_their_own() {
        let candidate = |index, droppable_tombstones| Candidate {
            index,
            bytes: 1,
            droppable_tombstones,
        };
        let candidates = [candidate(0, 0.1), candidate(1, 0.3), candidate(2, 0.25)];
        assert_eq!(choose(&CompactionOptions::default(), &candidates), [1]);
        let disabled = CompactionOptions {
            is_enabled: false,
            ..Default::default()
        };
        assert_eq!(choose(&disabled, &candidates), [] as [usize; 0]);
    }
}
