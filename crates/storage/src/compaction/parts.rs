//! Parts of a shard's tokens, in which size-tiered compaction merges a large table one after another.
//!
//! While SSTables are merged, what goes in and what comes out of it are both on the disk. Of a table whose SSTables each lie in one
//! of eight parts that is an eighth of it, and not all.

use super::candidate::{Candidate, Moment, OutputShape, Split, bytes_of};
use super::options::SizeTieredOptions;
use super::split::part_of;

/// Parts of a table that is cut.
pub(super) const PARTS: u32 = 8;
/// A table is cut from so many times `min_sstable_size` on..
const CUT_SSTABLES_MIN: u64 = 2;
/// ..and while it has this much of what it takes to be cut again.
const STAYS_CUT_PART: u64 = 2;
/// The output of a merge is cut if it has this part of the table..
const CUT_OUTPUT_PART_MIN: u64 = 32;
/// ..and this part of `min_sstable_size`. The pieces cost more than the bytes in them where they are smaller.
const CUT_OUTPUT_SSTABLE_PART_MIN: u64 = 4;

/// SSTables of a table by the part that they lie in.
pub(super) struct Parts<'a> {
    /// Parts of the whole ring; none if the table is not cut.
    cut: Option<u32>,
    /// From so many bytes on what is merged is cut.
    cut_output_bytes_min: u64,
    /// Those of each part alone.
    within: Vec<Vec<&'a Candidate>>,
    /// The others, and all if the table is not cut.
    across: Vec<&'a Candidate>,
}

impl<'a> Parts<'a> {
    /// Those that no compaction works on.
    pub fn of_free(sizes: &SizeTieredOptions, candidates: &'a [Candidate], moment: &Moment) -> Self {
        Self::of(sizes, candidates, moment, |candidate| !candidate.is_busy)
    }

    pub fn of_all(sizes: &SizeTieredOptions, candidates: &'a [Candidate], moment: &Moment) -> Self {
        Self::of(sizes, candidates, moment, |_| true)
    }

    fn of(
        sizes: &SizeTieredOptions,
        candidates: &'a [Candidate],
        moment: &Moment,
        is_meant: impl Fn(&Candidate) -> bool,
    ) -> Self {
        let shards = u32::from(moment.ring_parts.max(1)) * PARTS;
        let part = |candidate: &Candidate| only_part([candidate], shards);
        let bytes = bytes_of(candidates);
        let cut_bytes_min = sizes.min_sstable_bytes.saturating_mul(CUT_SSTABLES_MIN);
        let largest = candidates.iter().max_by_key(|candidate| candidate.bytes);
        let was_cut = largest.is_some_and(|largest| part(largest).is_some());
        let is_cut = bytes >= cut_bytes_min || was_cut && bytes >= cut_bytes_min / STAYS_CUT_PART;
        let mut within = vec![Vec::new(); PARTS as usize];
        let mut across = Vec::new();
        for candidate in candidates.iter().filter(|candidate| is_meant(candidate)) {
            match part(candidate).filter(|_| is_cut) {
                Some(part) => within[(part % PARTS) as usize].push(candidate),
                None => across.push(candidate),
            }
        }
        Parts {
            cut: is_cut.then_some(shards),
            cut_output_bytes_min: (bytes / CUT_OUTPUT_PART_MIN)
                .max(sizes.min_sstable_bytes / CUT_OUTPUT_SSTABLE_PART_MIN),
            within,
            across,
        }
    }

    /// SSTables of each part alone, where the table is cut.
    pub fn within(&self) -> &[Vec<&'a Candidate>] {
        &self.within
    }

    /// SSTables of several parts, and all where the table is not cut.
    pub fn across(&self) -> &[&'a Candidate] {
        &self.across
    }

    pub fn all(&self) -> impl Iterator<Item = &'a Candidate> + Clone {
        self.within.iter().flatten().chain(&self.across).copied()
    }

    /// Returns whether what some of [`Self::across`] are merged into is cut.
    pub fn cuts(&self, inputs: &[&Candidate]) -> bool {
        self.cut.is_some() && bytes_of(inputs.iter().copied()) >= self.cut_output_bytes_min
    }

    /// How the output of a merge of some is cut.
    pub fn shape(&self, inputs: &[&Candidate]) -> OutputShape {
        match self.cut {
            Some(shards) if self.cuts(inputs) && only_part(inputs.iter().copied(), shards).is_none() => {
                OutputShape {
                    level: 0,
                    split: Split::ByShard { shards },
                }
            }
            _ => OutputShape::WHOLE,
        }
    }
}

/// The part in which some lie, if they all do.
fn only_part<'a>(
    candidates: impl IntoIterator<Item = &'a Candidate, IntoIter: Clone>,
    shards: u32,
) -> Option<u32> {
    let candidates = candidates.into_iter();
    let first = candidates.clone().map(|candidate| candidate.first).min()?;
    let last = candidates.map(|candidate| candidate.last).max()?;
    let part = part_of(first, shards);
    (part == part_of(last, shards)).then_some(part)
}
