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
use super::parts::{PARTS, Parts};

/// Bytes of SSTables for each byte that is left of them when they are merged: one and a half, less the estimate's error.
/// The smaller, the less space and the more is written: each byte once more for every 0.45 that the table takes.
const SPACE_AMPLIFICATION_MAX: f64 = 1.45;
/// The same of a table that is merged part by part: a half, less an eighth each for what is merged and for what is not cut yet.
/// Its parts take from 1 to 1.5, as they are merged in turn, so that no more is written than of a table that is merged as a whole.
const SPACE_AMPLIFICATION_OF_PARTS_MAX: f64 = 1.25;
/// Merging saves at least this part of `min_sstable_size`. Below, SSTables cost more than the bytes in them.
const SAVED_PART_MIN: u64 = 4;
/// An SSTable that shares less than this part of its partitions with the others is not written again to rid those of their
/// old versions..
const SHARED_PART_MIN: f64 = 0.1;
/// ..if it has this part of all partitions. What smaller ones share is less than the estimate's error, and they cost little.
const LARGE_PART_MIN: f64 = 0.1;
/// A merge that should save less than this part of its bytes tells nothing about what merges save.
const TELLING_PART_MIN: f64 = 0.05;

/// Partitions of an SSTable.
#[derive(Clone, Copy)]
struct Content<'a> {
    partitions: u64,
    /// Without it nothing is known to be shared.
    keys: Option<&'a KeySketch>,
}

/// Different partitions of several SSTables.
#[derive(Clone)]
struct Distinct {
    known: Cardinality,
    /// Those of which nothing is known.
    unknown: u64,
}

/// How much space is too much.
#[derive(Clone, Copy)]
struct Limits {
    space_amplification: f64,
    saved_bytes: u64,
    merge_yield: MergeYield,
}

/// SSTables that take too much space beside each other; empty if there are none.
pub(super) fn most_redundant<'a>(
    options: &CompactionOptions,
    sizes: &SizeTieredOptions,
    parts: &Parts<'a>,
    merge_yield: MergeYield,
) -> Vec<&'a Candidate> {
    let mut limits = Limits {
        space_amplification: SPACE_AMPLIFICATION_MAX,
        saved_bytes: sizes.min_sstable_bytes / SAVED_PART_MIN,
        merge_yield,
    };
    if parts.within().iter().all(Vec::is_empty) {
        return redundant_among(parts.across(), options.max_threshold, limits);
    }
    limits.space_amplification = SPACE_AMPLIFICATION_OF_PARTS_MAX;
    let largest_bytes = |part: &Vec<&Candidate>| part.iter().map(|candidate| candidate.bytes).max();
    let least_bytes = parts.within().iter().filter_map(largest_bytes).sum();
    if !limits.are_exceeded(least_bytes, parts.all()) {
        return Vec::new();
    }
    limits.saved_bytes /= u64::from(PARTS);
    let redundant = parts
        .within()
        .iter()
        .map(|part| redundant_among(part, options.max_threshold, limits));
    let amplification = |part: &Vec<&Candidate>| {
        bytes_of(part.iter().copied()) as f64 / merge_yield.left_bytes(part.iter().copied()) as f64
    };
    let most = redundant
        .filter(|part| !part.is_empty())
        .max_by(|left, right| amplification(left).total_cmp(&amplification(right)));
    // What lies across parts is cut before it can be merged with them.
    most.unwrap_or_else(|| {
        let mut across = largest_of(parts.across(), options.max_threshold);
        leave_out_unshared(&mut across, parts.within().iter().flatten().copied());
        if parts.cuts(&across) { across } else { Vec::new() }
    })
}

/// Those of some that take too much space beside each other.
fn redundant_among<'a>(candidates: &[&'a Candidate], count_max: usize, limits: Limits) -> Vec<&'a Candidate> {
    let mut largest = largest_of(candidates, count_max);
    let is_redundant = |chosen: &[&Candidate]| limits.are_exceeded(0, chosen.iter().copied());
    if !is_redundant(&largest) {
        return Vec::new();
    }
    leave_out_unshared(&mut largest, []);
    if is_redundant(&largest) {
        largest
    } else {
        Vec::new()
    }
}

fn largest_of<'a>(candidates: &[&'a Candidate], count_max: usize) -> Vec<&'a Candidate> {
    let mut largest = candidates.to_vec();
    largest.sort_by_key(|candidate| (Reverse(candidate.bytes), candidate.generation));
    largest.truncate(count_max);
    largest
}

impl Distinct {
    fn of<'a>(contents: impl IntoIterator<Item = Content<'a>>) -> Self {
        let mut distinct = Distinct {
            known: Cardinality::new(),
            unknown: 0,
        };
        contents.into_iter().for_each(|content| distinct.add(content));
        distinct
    }

    fn add(&mut self, content: Content<'_>) {
        match content.keys {
            Some(keys) => self.known.merge(keys),
            None => self.unknown += content.partitions,
        }
    }

    fn partitions(&self) -> f64 {
        self.known.estimate() + self.unknown as f64
    }
}

impl Limits {
    /// Returns whether some take too much space, of which no fewer bytes than `least_bytes` can be left.
    fn are_exceeded<'a>(self, least_bytes: u64, chosen: impl Iterator<Item = &'a Candidate> + Clone) -> bool {
        let bytes = bytes_of(chosen.clone());
        let is_too_much = |left_bytes: u64| {
            bytes as f64 > self.space_amplification * left_bytes as f64
                && bytes.saturating_sub(left_bytes) > self.saved_bytes
        };
        // Without keys to merge: most tables at most moments.
        let largest_bytes = chosen.clone().map(|candidate| candidate.bytes).max();
        is_too_much(least_bytes.max(largest_bytes.unwrap_or(0)))
            && is_too_much(least_bytes.max(self.merge_yield.left_bytes(chosen)))
    }
}

/// Leaves out large SSTables of which the others, and those beside them, hold next to nothing.
fn leave_out_unshared<'a>(largest: &mut Vec<&Candidate>, beside: impl IntoIterator<Item = &'a Candidate>) {
    let beside = Distinct::of(beside.into_iter().map(content));
    let distinct_with = |some: &mut dyn Iterator<Item = &Candidate>| {
        let mut distinct = beside.clone();
        some.map(content).for_each(|content| distinct.add(content));
        distinct.partitions()
    };
    let mut place = 0;
    while place < largest.len() {
        let all = distinct_with(&mut largest.iter().copied());
        let candidate = largest[place];
        let partitions = candidate.partitions as f64;
        if partitions < LARGE_PART_MIN * all {
            place += 1;
            continue;
        }
        let mut others = largest
            .iter()
            .copied()
            .filter(|other| other.generation != candidate.generation);
        let alone = all - distinct_with(&mut others);
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

    /// Estimates what is left of some when they are merged: no less than the largest of them.
    fn left_bytes<'a>(self, merged: impl Iterator<Item = &'a Candidate> + Clone) -> u64 {
        let largest_bytes = merged.clone().map(|candidate| candidate.bytes).max();
        let bytes = bytes_of(merged.clone()) as f64 * (1.0 - self.part * shared_part(merged.map(content)));
        largest_bytes.unwrap_or(0).max(bytes as u64)
    }
}

impl<'a> Content<'a> {
    fn of(sstable: &'a SsTable) -> Self {
        Content {
            partitions: sstable.statistics().partition_count(),
            keys: sstable.keys().map(AsRef::as_ref),
        }
    }
}

fn content(candidate: &Candidate) -> Content<'_> {
    Content {
        partitions: candidate.partitions,
        keys: candidate.keys.as_deref(),
    }
}

/// Estimates how many different partitions some hold.
pub(crate) fn distinct_partitions_of(sstables: &[Arc<SsTable>]) -> u64 {
    let distinct = Distinct::of(sstables.iter().map(|sstable| Content::of(sstable)));
    distinct.partitions().ceil() as u64
}

/// The part of their partitions that goes if each is kept once.
fn shared_part<'a>(contents: impl Iterator<Item = Content<'a>> + Clone) -> f64 {
    let partitions: u64 = contents.clone().map(|content| content.partitions).sum();
    (1.0 - Distinct::of(contents).partitions() / partitions.max(1) as f64).max(0.0)
}
