//! The range deletions of one partition: sorted, disjoint, each part under its newest deletion.

use std::cmp::Ordering;
use std::ops::Range;

use super::ALLOCATION_OVERHEAD_BYTES;
use helenus_rows::clustering::{ClusteringBound, ClusteringComparator};
use helenus_rows::deletion::DeletionTime;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    pub start: ClusteringBound,
    pub end: ClusteringBound,
    pub deletion: DeletionTime,
}

/// Cut in sorted chunks, so that an insert moves at most one, and a list of millions never grows all at once. No chunk
/// is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstones {
    chunks: Vec<Vec<RangeTombstone>>,
}

/// A full chunk is cut: 64 ranges are four kilobytes.
const CHUNK_RANGES_MAX: usize = if cfg!(test) { 4 } else { 64 };

/// A place in [`RangeTombstones`]: of a range, or past the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RangePosition {
    chunk: usize,
    index: usize,
}

impl RangeTombstone {
    pub fn memory_bytes(&self) -> usize {
        size_of::<RangeTombstone>()
            + [&self.start, &self.end]
                .map(|bound| bound.prefix.len() + ALLOCATION_OVERHEAD_BYTES)
                .iter()
                .sum::<usize>()
    }
}

impl RangeTombstones {
    pub const NONE: &'static RangeTombstones = &RangeTombstones { chunks: Vec::new() };

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &RangeTombstone> {
        self.chunks.iter().flatten()
    }

    pub fn get(&self, position: RangePosition) -> Option<&RangeTombstone> {
        self.chunks.get(position.chunk)?.get(position.index)
    }

    /// Behind a range.
    pub fn next(&self, position: RangePosition) -> RangePosition {
        let RangePosition { chunk, index } = position;
        match self.chunks.get(chunk) {
            Some(ranges) if index + 1 < ranges.len() => RangePosition {
                chunk,
                index: index + 1,
            },
            _ => RangePosition {
                chunk: chunk + 1,
                index: 0,
            },
        }
    }

    /// The range before a place.
    pub fn previous(&self, position: RangePosition) -> Option<RangePosition> {
        let RangePosition { chunk, index } = position;
        if let Some(index) = index.checked_sub(1) {
            return Some(RangePosition { chunk, index });
        }
        let chunk = chunk.checked_sub(1)?;
        let index = self.chunks.get(chunk)?.len().checked_sub(1)?;
        Some(RangePosition { chunk, index })
    }

    /// The first range for which a test fails that holds for all before it.
    fn first_not(&self, holds: impl Fn(&RangeTombstone) -> bool) -> RangePosition {
        let chunk = self
            .chunks
            .partition_point(|ranges| ranges.last().is_some_and(&holds));
        let ranges = self.chunks.get(chunk);
        RangePosition {
            chunk,
            index: ranges.map_or(0, |ranges| ranges.partition_point(holds)),
        }
    }

    /// The ranges that reach into the space between two bounds.
    pub fn overlapping(
        &self,
        comparator: &ClusteringComparator,
        start: &ClusteringBound,
        end: &ClusteringBound,
    ) -> Range<RangePosition> {
        let first = self.first_not(|range| compare(comparator, &range.end, start) != Ordering::Greater);
        let last = self.first_not(|range| compare(comparator, &range.start, end) == Ordering::Less);
        first..last.max(first)
    }

    /// The deletion in force at a complete clustering key.
    pub(crate) fn deletion_at(&self, comparator: &ClusteringComparator, clustering: &[u8]) -> DeletionTime {
        let position =
            self.first_not(|range| comparator.compare_to_bound(clustering, &range.end) == Ordering::Greater);
        match self.get(position) {
            Some(range) if comparator.compare_to_bound(clustering, &range.start) == Ordering::Greater => {
                range.deletion
            }
            _ => DeletionTime::LIVE,
        }
    }

    /// Lays `new` over what is there; where both reach, the one that hides more stays. Returns by how many bytes the
    /// list has grown; it may shrink.
    pub fn insert(&mut self, comparator: &ClusteringComparator, new: RangeTombstone) -> isize {
        if compare(comparator, &new.start, &new.end) != Ordering::Less {
            return 0;
        }
        let overlapped = self.overlapping(comparator, &new.start, &new.end);
        let before: usize = self
            .between(overlapped.clone())
            .map(RangeTombstone::memory_bytes)
            .sum();
        let laid = lay_over(comparator, self.between(overlapped.clone()), new);
        let after: usize = laid.iter().map(RangeTombstone::memory_bytes).sum();
        self.replace(overlapped, laid);
        after as isize - before as isize
    }

    fn between(&self, positions: Range<RangePosition>) -> impl Iterator<Item = &RangeTombstone> {
        let mut at = positions.start;
        std::iter::from_fn(move || {
            let range = self.get(at).filter(|_| at < positions.end)?;
            at = self.next(at);
            Some(range)
        })
    }

    fn replace(&mut self, old: Range<RangePosition>, new: Vec<RangeTombstone>) {
        let Range { start, end } = old;
        // What comes behind all goes into the last chunk.
        let at = start.chunk.min(self.chunks.len().saturating_sub(1));
        let Some(first) = self.chunks.get_mut(at) else {
            self.chunks.push(new);
            return self.cut(0);
        };
        if start.chunk > at {
            first.extend(new);
        } else if start.chunk == end.chunk {
            first.splice(start.index..end.index, new);
        } else {
            first.truncate(start.index);
            first.extend(new);
            if let Some(last) = self.chunks.get_mut(end.chunk) {
                last.drain(..end.index);
            }
            self.chunks.drain(at + 1..end.chunk);
        }
        self.cut(at);
    }

    /// Cuts a chunk that has become too large. Ranges mostly come in order: the last chunk is left full.
    fn cut(&mut self, mut at: usize) {
        loop {
            let is_last = at + 1 == self.chunks.len();
            let Some(chunk) = self
                .chunks
                .get_mut(at)
                .filter(|chunk| chunk.len() > CHUNK_RANGES_MAX)
            else {
                return;
            };
            let kept = if is_last {
                CHUNK_RANGES_MAX
            } else {
                CHUNK_RANGES_MAX / 2
            };
            let rest = chunk.split_off(kept);
            at += 1;
            self.chunks.insert(at, rest);
        }
    }
}

fn lay_over<'r>(
    comparator: &ClusteringComparator,
    old: impl Iterator<Item = &'r RangeTombstone>,
    new: RangeTombstone,
) -> Vec<RangeTombstone> {
    let mut laid = Vec::new();
    // The part of `new` before `from` is done.
    let mut from = new.start.clone();
    let mut is_done = false;
    for range in old {
        if new.deletion.supersedes(range.deletion) {
            if compare(comparator, &range.start, &from) == Ordering::Less {
                laid.push(RangeTombstone {
                    start: range.start.clone(),
                    end: from.clone(),
                    deletion: range.deletion,
                });
            }
            if compare(comparator, &new.end, &range.end) == Ordering::Less {
                laid.push(RangeTombstone {
                    start: from.clone(),
                    end: new.end.clone(),
                    deletion: new.deletion,
                });
                laid.push(RangeTombstone {
                    start: new.end.clone(),
                    end: range.end.clone(),
                    deletion: range.deletion,
                });
                is_done = true;
            }
        } else {
            if compare(comparator, &from, &range.start) == Ordering::Less {
                laid.push(RangeTombstone {
                    start: from.clone(),
                    end: range.start.clone(),
                    deletion: new.deletion,
                });
            }
            laid.push(range.clone());
            from = range.end.clone();
            is_done = compare(comparator, &from, &new.end) != Ordering::Less;
        }
    }
    if !is_done {
        laid.push(RangeTombstone {
            start: from,
            end: new.end,
            deletion: new.deletion,
        });
    }
    laid
}

fn compare(comparator: &ClusteringComparator, left: &ClusteringBound, right: &ClusteringBound) -> Ordering {
    comparator.compare_bounds((&left.prefix, left.side), (&right.prefix, right.side))
}

#[cfg(test)]
mod tests {
    use helenus_schema::ClusteringOrder;
    use helenus_types::CqlType;
    use helenus_vfs::{Random, SeededRandom};

    use super::*;
    use helenus_rows::clustering::{Side, push_component};

    const PLACES: u8 = 60;

    fn clustering(place: u8) -> Vec<u8> {
        let mut packed = Vec::new();
        push_component(&mut packed, &i32::from(place).to_be_bytes());
        packed
    }

    fn bound(place: u8, side: Side) -> ClusteringBound {
        ClusteringBound {
            prefix: clustering(place).into(),
            side,
        }
    }

    /// The model lists what hides each place by itself; the ranges must say the same, in order and disjoint, in chunks of
    /// bounded size, and account for their memory.
    #[test]
    fn ranges_in_chunks_say_what_every_place_says_alone() {
        let comparator =
            ClusteringComparator::of_components(vec![(CqlType::Int, ClusteringOrder::Ascending)]);
        for seed in 0..300 {
            let random = SeededRandom::new(seed);
            let below = |bound: u64| random.below(bound) as u8;
            let mut ranges = RangeTombstones::default();
            let mut model = vec![DeletionTime::LIVE; usize::from(PLACES)];
            let mut bytes = 0;
            for _ in 0..120 {
                let first = below(u64::from(PLACES));
                let last = first
                    .saturating_add(below(if seed % 3 == 0 { 20 } else { 2 }))
                    .min(PLACES - 1);
                let deletion = DeletionTime {
                    timestamp_us: i64::from(below(9)),
                    local_s: 1,
                };
                bytes += ranges.insert(
                    &comparator,
                    RangeTombstone {
                        start: bound(first, Side::Before),
                        end: bound(last, Side::After),
                        deletion,
                    },
                );
                let places = usize::from(first)..=usize::from(last);
                model[places]
                    .iter_mut()
                    .for_each(|place| *place = (*place).max(deletion));
            }
            for (place, wanted) in (0..PLACES).zip(&model) {
                let found = ranges.deletion_at(&comparator, &clustering(place));
                assert_eq!(found, *wanted, "seed {seed}");
            }
            let all: Vec<_> = ranges.iter().collect();
            assert!(
                all.windows(2)
                    .all(|pair| { compare(&comparator, &pair[0].end, &pair[1].start) != Ordering::Greater })
            );
            assert!(
                ranges
                    .chunks
                    .iter()
                    .all(|chunk| (1..=CHUNK_RANGES_MAX).contains(&chunk.len()))
            );
            let held: usize = all.iter().map(|range| range.memory_bytes()).sum();
            assert_eq!(bytes, held as isize);
            let (start, end) = (bound(0, Side::Before), bound(PLACES, Side::After));
            let mut at = ranges.overlapping(&comparator, &start, &end);
            let mut backwards = Vec::new();
            while let Some(position) = ranges.previous(at.end) {
                backwards.extend(ranges.get(position));
                at.end = position;
            }
            backwards.reverse();
            assert_eq!(backwards, all);
        }
    }
}
