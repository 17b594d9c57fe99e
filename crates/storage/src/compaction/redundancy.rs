//! Merges that save space because several SSTables hold the same partitions.
//!
//! Size-tiered compaction alone merges what is of like size. A table that is written again and again so grows to about as many
//! times its rows as there are tiers from a flush to all of them. Here what SSTables share is estimated from the sketches of
//! their keys, and they are merged when they take too much space for what they hold.

use std::cmp::Reverse;
use std::sync::Arc;

use helenus_sstable::{Cardinality, KeySketch, SsTable};

use super::candidate::{Candidate, MergeYield, bytes_of};
use super::options::{CompactionOptions, SizeTieredOptions};

/// Bytes of SSTables for each byte that is left of them when they are merged: one and a half, less the estimate's error.
/// The smaller, the less space and the more is written: each byte once more for every 0.45 that the table takes.
const SPACE_AMPLIFICATION_MAX: f64 = 1.45;
/// Merging saves at least this part of `min_sstable_size`. Below, SSTables cost more than the bytes in them.
const SAVED_PART_MIN: u64 = 4;
/// An SSTable that shares less than this part of its partitions with the others is not written again to rid those of their
/// old versions..
const SHARED_PART_MIN: f64 = 0.1;
/// ..if it has this part of all partitions. What smaller ones share is less than the estimate's error, and they cost little.
const LARGE_PART_MIN: f64 = 0.1;
/// A merge that should save less than this part of its bytes tells nothing about what merges save.
const TELLING_PART_MIN: f64 = 0.05;

/// Amount and keys of an SSTable.
#[derive(Clone, Copy)]
struct Content<'a> {
    bytes: u64,
    partitions: u64,
    /// Without it nothing is known to be shared.
    keys: Option<&'a KeySketch>,
}

/// SSTables that take too much space beside each other; empty if there are none.
pub(super) fn most_redundant<'a>(
    options: &CompactionOptions,
    sizes: &SizeTieredOptions,
    candidates: impl IntoIterator<Item = &'a Candidate>,
    merge_yield: MergeYield,
) -> Vec<&'a Candidate> {
    let mut largest: Vec<&Candidate> = candidates.into_iter().collect();
    largest.sort_by_key(|candidate| (Reverse(candidate.bytes), candidate.generation));
    largest.truncate(options.max_threshold);
    let saved_bytes_min = sizes.min_sstable_bytes / SAVED_PART_MIN;
    let is_redundant = |chosen: &[&Candidate]| {
        let bytes = bytes_of(chosen.iter().copied());
        // Nothing is smaller than its largest part. Without keys to merge: most tables at most moments.
        let least_bytes = chosen.iter().map(|candidate| candidate.bytes).max().unwrap_or(0);
        let is_too_much = |left_bytes: u64| {
            bytes as f64 > SPACE_AMPLIFICATION_MAX * left_bytes as f64 && bytes - left_bytes > saved_bytes_min
        };
        is_too_much(least_bytes)
            && is_too_much(least_bytes.max(merge_yield.merged_bytes(chosen.iter().copied().map(content))))
    };
    if !is_redundant(&largest) {
        return Vec::new();
    }
    leave_out_unshared(&mut largest);
    if is_redundant(&largest) {
        largest
    } else {
        Vec::new()
    }
}

/// Leaves out large SSTables of which the others hold next to nothing.
fn leave_out_unshared(largest: &mut Vec<&Candidate>) {
    let mut place = 0;
    while place < largest.len() {
        let all = distinct_partitions(largest.iter().copied().map(content));
        let candidate = largest[place];
        let partitions = candidate.partitions as f64;
        if partitions < LARGE_PART_MIN * all {
            place += 1;
            continue;
        }
        let others = largest
            .iter()
            .copied()
            .filter(|other| other.generation != candidate.generation);
        let alone = all - distinct_partitions(others.map(content));
        if alone > (1.0 - SHARED_PART_MIN) * partitions {
            largest.remove(place);
        } else {
            place += 1;
        }
    }
}

impl MergeYield {
    /// Before the first merge has told: all if partitions have one row.
    pub(crate) fn unmeasured(has_clustering: bool) -> Self {
        MergeYield {
            part: if has_clustering { 0.0 } else { 1.0 },
            is_measured: false,
        }
    }

    /// Learns from a merge.
    pub(crate) fn note<'a>(
        &mut self,
        inputs: &[Arc<SsTable>],
        outputs: impl IntoIterator<Item = &'a Arc<SsTable>>,
    ) {
        let expected = shared_part(inputs.iter().map(|input| Content::of(input)));
        if expected < TELLING_PART_MIN {
            return;
        }
        // Without what each file has however little is in it.
        let data_bytes = |sstable: &Arc<SsTable>| sstable.data_bytes();
        let bytes_in: u64 = inputs.iter().map(data_bytes).sum();
        let bytes_out: u64 = outputs.into_iter().map(data_bytes).sum();
        let saved = 1.0 - bytes_out as f64 / bytes_in.max(1) as f64;
        let part = (saved / expected).clamp(0.0, 1.0);
        self.part = if self.is_measured {
            (self.part + part) / 2.0
        } else {
            part
        };
        self.is_measured = true;
    }

    /// Estimates what is left of some when they are merged.
    fn merged_bytes<'a>(self, contents: impl Iterator<Item = Content<'a>> + Clone) -> u64 {
        let bytes: u64 = contents.clone().map(|content| content.bytes).sum();
        (bytes as f64 * (1.0 - self.part * shared_part(contents))) as u64
    }
}

impl<'a> Content<'a> {
    fn of(sstable: &'a SsTable) -> Self {
        Content {
            bytes: sstable.disk_bytes(),
            partitions: sstable.statistics().partition_count(),
            keys: sstable.keys().map(AsRef::as_ref),
        }
    }
}

fn content(candidate: &Candidate) -> Content<'_> {
    Content {
        bytes: candidate.bytes,
        partitions: candidate.partitions,
        keys: candidate.keys.as_deref(),
    }
}

/// Estimates how many different partitions some hold.
pub(crate) fn distinct_partitions_of(sstables: &[Arc<SsTable>]) -> u64 {
    distinct_partitions(sstables.iter().map(|sstable| Content::of(sstable))).ceil() as u64
}

/// The part of their partitions that goes if each is kept once.
fn shared_part<'a>(contents: impl Iterator<Item = Content<'a>> + Clone) -> f64 {
    let partitions: u64 = contents.clone().map(|content| content.partitions).sum();
    (1.0 - distinct_partitions(contents) / partitions.max(1) as f64).max(0.0)
}

fn distinct_partitions<'a>(contents: impl Iterator<Item = Content<'a>>) -> f64 {
    let mut known = Cardinality::new();
    let mut unknown = 0;
    for content in contents {
        match content.keys {
            Some(keys) => known.merge(keys),
            None => unknown += content.partitions,
        }
    }
    known.estimate() + unknown as f64
}
