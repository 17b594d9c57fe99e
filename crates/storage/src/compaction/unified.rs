//! Unified compaction: levels by density (bytes per share of the ring), each tiered or leveled by its own parameter,
//! with output cut at fixed boundaries of the ring so that compactions of different places run side by side.
//!
//! After the design of CEP-26. The ring of the formulas is the node's: a shard holds its part of it.

use super::candidate::{Candidate, Moment, OutputShape, Split, bytes_of};
use super::options::UnifiedOptions;
use super::overlaps::{self, Section};

/// Spans below this share of the ring (an SSTable of one partition, say) count as the whole.
const SPAN_MIN: f64 = 1.0 / (1_u64 << 48) as f64;
/// Before there was a flush.
const FLUSH_BYTES_MIN: u64 = 1 << 20;
/// Shards double at most this often.
const SHARD_DOUBLINGS_MAX: u32 = 20;

struct Level<'a> {
    index: usize,
    members: Vec<&'a Candidate>,
}

/// The SSTables to merge on the level with the most overlaps; empty if no level has enough.
pub(super) fn choose<'a>(
    options: &UnifiedOptions,
    candidates: impl IntoIterator<Item = &'a Candidate>,
    moment: &Moment,
) -> Vec<&'a Candidate> {
    let levels = levels(options, candidates, moment);
    // Of equal overlaps the lower level's, which is cheaper: `max_by_key` takes the last.
    let picks = levels.iter().rev().filter_map(|level| level.pick(options));
    let most = picks.max_by_key(|(overlap, _)| *overlap);
    most.map(|(_, inputs)| inputs).unwrap_or_default()
}

pub(super) fn pending<'a>(
    options: &UnifiedOptions,
    candidates: impl IntoIterator<Item = &'a Candidate>,
    moment: &Moment,
) -> usize {
    let levels = levels(options, candidates, moment);
    levels.iter().map(|level| level.pending(options)).sum()
}

/// How many overlapping SSTables are in the most crowded places of levels that want a compaction.
pub(super) fn waiting(options: &UnifiedOptions, candidates: &[Candidate], moment: &Moment) -> usize {
    let levels = levels(options, candidates, moment);
    let overlaps = levels.iter().map(|level| {
        let overlap = overlaps::sections(&level.members).iter().map(Section::len).max();
        overlap.filter(|overlap| *overlap >= options.threshold(level.index))
    });
    overlaps.flatten().sum()
}

/// How to cut the output of a merge of these.
pub(super) fn shape(options: &UnifiedOptions, inputs: &[&Candidate]) -> OutputShape {
    let first = inputs.iter().map(|input| input.first.0).min().unwrap_or(0);
    let last = inputs.iter().map(|input| input.last.0).max().unwrap_or(0);
    let density = bytes_of(inputs.iter().copied()) as f64 / span(first, last);
    OutputShape {
        level: 0,
        split: Split::ByShard {
            shards: options.shards(density),
        },
    }
}

/// The share of the ring between two tokens.
fn span(first: i64, last: i64) -> f64 {
    let tokens = i128::from(last) - i128::from(first) + 1;
    let span = tokens as f64 / 2.0_f64.powi(64);
    if span >= SPAN_MIN { span } else { 1.0 }
}

fn density(candidate: &Candidate) -> f64 {
    candidate.bytes as f64 / span(candidate.first.0, candidate.last.0)
}

fn levels<'a>(
    options: &UnifiedOptions,
    candidates: impl IntoIterator<Item = &'a Candidate>,
    moment: &Moment,
) -> Vec<Level<'a>> {
    let mut sorted: Vec<&Candidate> = candidates.into_iter().collect();
    sorted.sort_by(|left, right| {
        let by_density = density(left).total_cmp(&density(right));
        by_density.then(left.generation.cmp(&right.generation))
    });
    let mut levels: Vec<Level<'_>> = Vec::new();
    let mut density_max = options.density_max(0, options.base_density(moment));
    let mut level = Level {
        index: 0,
        members: Vec::new(),
    };
    for candidate in sorted {
        while density(candidate) >= density_max {
            let index = level.index + 1;
            density_max = options.density_max(index, density_max);
            let next = Level {
                index,
                members: Vec::new(),
            };
            levels.push(std::mem::replace(&mut level, next));
        }
        level.members.push(candidate);
    }
    levels.push(level);
    levels
}

impl UnifiedOptions {
    fn scaling_parameter(&self, level: usize) -> i32 {
        let parameters = &self.scaling_parameters;
        parameters
            .get(level)
            .or(parameters.last())
            .copied()
            .unwrap_or(2)
            // What Cassandra takes without complaint must not overflow here.
            .clamp(-(1 << 20), 1 << 20)
    }

    fn fanout(&self, level: usize) -> usize {
        2 + self.scaling_parameter(level).unsigned_abs() as usize
    }

    /// Overlapping SSTables that want a compaction.
    fn threshold(&self, level: usize) -> usize {
        2 + self.scaling_parameter(level).max(0) as usize
    }

    /// The density of a flush, with some leeway below, so that flushes a little smaller are of the same level.
    fn base_density(&self, moment: &Moment) -> f64 {
        let flush_bytes = if self.flush_bytes_override > 0 {
            self.flush_bytes_override
        } else {
            moment.flush_bytes.div_ceil(1 << 20) << 20
        };
        let fanout = self.fanout(0) as f64;
        flush_bytes.max(FLUSH_BYTES_MIN) as f64 * (1.0 - 0.9 / fanout) * f64::from(moment.ring_parts.max(1))
    }

    fn density_max(&self, level: usize, density_min: f64) -> f64 {
        (density_min * self.fanout(level) as f64).floor()
    }

    /// Into how many parts a density is to be cut.
    fn shards(&self, density: f64) -> u32 {
        let base = self.base_shard_count;
        if self.min_sstable_bytes > 0.0 {
            let count = density / self.min_sstable_bytes;
            // Also where the count is not a number.
            if count
                .partial_cmp(&f64::from(base))
                .is_none_or(|order| order.is_lt())
            {
                // A power of two below the base, so that boundaries stay boundaries as more come.
                let below = 1 << (count as u32 | 1).ilog2();
                return u32::min(below, 1 << base.trailing_zeros());
            }
        }
        let growth = self.sstable_growth;
        let doublings = if growth >= 1.0 {
            0
        } else if growth <= 0.0 {
            let count = density / (self.target_sstable_bytes * 0.5_f64.sqrt() * f64::from(base));
            (count as u32 | 1).ilog2()
        } else {
            let count = density / (self.target_sstable_bytes * f64::from(base));
            (count.log2() * (1.0 - growth) + 0.5).max(0.0) as u32
        };
        base.saturating_mul(1 << doublings.min(SHARD_DOUBLINGS_MAX))
    }
}

impl<'a> Level<'a> {
    /// The overlap of the most crowded bucket, and what to merge there.
    fn pick(&self, options: &UnifiedOptions) -> Option<(usize, Vec<&'a Candidate>)> {
        let threshold = options.threshold(self.index);
        let sections = overlaps::sections(&self.members);
        let buckets = overlaps::buckets(&sections, threshold, options.overlap_inclusion);
        let most = |sections: &[Section]| sections.iter().map(Section::len).max().unwrap_or(0);
        let (overlap, bucket) = buckets
            .into_iter()
            .map(|bucket| (most(&sections[bucket.clone()]), bucket))
            .rev()
            .max_by_key(|(overlap, _)| *overlap)?;
        let sections = &sections[bucket];
        let everything: Section = sections.iter().flatten().copied().collect();
        // The oldest last, which are taken first.
        let mut members: Vec<usize> = everything.into_iter().collect();
        members.sort_by_key(|&index| {
            let member = self.members[index];
            (
                std::cmp::Reverse(member.timestamp_max),
                std::cmp::Reverse(member.generation),
            )
        });
        let chosen = match self.overlap_max(options, overlap) {
            Some(overlap_max) => oldest(&members, sections, overlap_max),
            None => members,
        };
        Some((
            overlap,
            chosen.into_iter().map(|index| self.members[index]).collect(),
        ))
    }

    /// How many overlapping SSTables to merge at once, where not all of them.
    fn overlap_max(&self, options: &UnifiedOptions, overlap: usize) -> Option<usize> {
        let fanout = options.fanout(self.index);
        let at_once_max = options.sstables_at_once_max.max(fanout);
        let next_fanout = options.fanout(self.index + 1);
        if overlap <= fanout {
            return None;
        }
        if overlap <= fanout.saturating_mul(next_fanout) || at_once_max == fanout {
            return (overlap > at_once_max).then_some(at_once_max);
        }
        // Far behind: as much at once as takes it up whole levels.
        let limit = at_once_max.min(overlap);
        let (mut count, mut next, mut level) = (fanout, fanout, self.index);
        while next <= limit {
            count = next;
            level += 1;
            next = next.saturating_mul(options.fanout(level));
        }
        if options.scaling_parameter(self.index) < 0 {
            count *= (limit / count).max(1);
        }
        Some(count)
    }

    fn pending(&self, options: &UnifiedOptions) -> usize {
        let threshold = options.threshold(self.index);
        let sections = overlaps::sections(&self.members);
        overlaps::buckets(&sections, threshold, options.overlap_inclusion)
            .into_iter()
            .filter_map(|bucket| sections[bucket].iter().map(Section::len).max())
            .map(|overlap| overlap / threshold)
            .sum()
    }
}

/// Returns the oldest of members sorted newest first, as many as let no section have more than `overlap_max`.
fn oldest(members: &[usize], sections: &[Section], overlap_max: usize) -> Vec<usize> {
    let mut counts = vec![0; sections.len()];
    let mut chosen = Vec::new();
    for &member in members.iter().rev() {
        for (section, count) in sections.iter().zip(&mut counts) {
            *count += usize::from(section.contains(&member));
        }
        if counts.iter().any(|count| *count > overlap_max) {
            break;
        }
        chosen.push(member);
    }
    chosen
}
