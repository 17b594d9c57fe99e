//! The rows that may match all predicates of a read, in the order of a scan.

use std::cmp::Ordering;

use helenus_rows::clustering::ClusteringComparator;
use helenus_sstable::error::ReadError;
use helenus_sstable::terms::TermPlace;
use helenus_types::Token;

use super::range::covers;
use super::stream::TermStream;

pub(crate) use super::stream::PlaceBound;

/// A row, a partition or a token that may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub token: Token,
    /// Empty for all partitions of the token.
    pub key: Vec<u8>,
    /// `None` for all rows of the partition.
    pub clustering: Option<Vec<u8>>,
}

impl Candidate {
    fn of(place: TermPlace<'_>) -> Self {
        Candidate {
            token: place.token,
            key: place.key.to_vec(),
            clustering: place.clustering.map(<[u8]>::to_vec),
        }
    }

    pub fn place(&self) -> TermPlace<'_> {
        TermPlace {
            token: self.token,
            key: &self.key,
            clustering: self.clustering.as_deref(),
        }
    }
}

/// Result of the search for the next candidate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Search {
    Found(Candidate),
    End,
    /// As much was done as one step may; there is none before this place.
    Paused(Candidate),
}

/// The intersection, over predicates, of the union of their sources.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    comparator: &'a ClusteringComparator,
    predicates: Vec<Vec<TermStream<'a>>>,
}

/// How many entries are passed for one unit of a step.
const ENTRIES_PER_UNIT: u32 = 8;

impl<'a> Candidates<'a> {
    /// Takes the sources of each predicate. At least one predicate.
    pub fn new(comparator: &'a ClusteringComparator, predicates: Vec<Vec<TermStream<'a>>>) -> Self {
        Candidates {
            comparator,
            predicates,
        }
    }

    /// Moves to what does not lie before a bound.
    pub fn seek(&mut self, bound: &PlaceBound<'_>) -> Result<(), ReadError> {
        for stream in self.predicates.iter_mut().flatten() {
            stream.seek(bound, self.comparator)?;
        }
        Ok(())
    }

    /// The next candidate, which is passed by that, and how many units it took. It may lie within the one before: whoever
    /// has read all of a partition seeks behind it.
    pub fn next(&mut self, units_max: u32) -> Result<(Search, u32), ReadError> {
        let mut passed = 0;
        loop {
            let Some(target) = self.target() else {
                return Ok((Search::End, passed / ENTRIES_PER_UNIT));
            };
            if passed / ENTRIES_PER_UNIT >= units_max {
                return Ok((Search::Paused(target), units_max));
            }
            passed += 1;
            let place = target.place();
            let bound = PlaceBound::before(&place);
            let mut is_met = true;
            for streams in &mut self.predicates {
                let is_covered = first(streams, self.comparator)
                    .is_some_and(|first| covers(&first, &place, self.comparator));
                if is_covered {
                    continue;
                }
                is_met = false;
                for stream in streams {
                    if stream
                        .place()
                        .is_some_and(|place| bound.is_behind(&place, self.comparator))
                    {
                        passed += 1;
                        stream.seek(&bound, self.comparator)?;
                    }
                }
            }
            if is_met {
                self.pass(&target)?;
                return Ok((Search::Found(target), passed / ENTRIES_PER_UNIT));
            }
        }
    }

    /// The last of the places that predicates stand on: nothing matches before it.
    fn target(&self) -> Option<Candidate> {
        let mut target: Option<TermPlace<'_>> = None;
        for streams in &self.predicates {
            let first = first(streams, self.comparator)?;
            if target.is_none_or(|target| compare(&target, &first, self.comparator).is_lt()) {
                target = Some(first);
            }
        }
        target.map(Candidate::of)
    }

    fn pass(&mut self, candidate: &Candidate) -> Result<(), ReadError> {
        let place = candidate.place();
        for stream in self.predicates.iter_mut().flatten() {
            while stream
                .place()
                .is_some_and(|passed| compare(&passed, &place, self.comparator).is_eq())
            {
                stream.advance()?;
            }
        }
        Ok(())
    }
}

/// The first place of a union.
fn first<'s>(streams: &'s [TermStream<'_>], comparator: &ClusteringComparator) -> Option<TermPlace<'s>> {
    streams
        .iter()
        .filter_map(TermStream::place)
        .min_by(|left, right| compare(left, right, comparator))
}

/// By where places begin; what covers another comes first.
fn compare(left: &TermPlace<'_>, right: &TermPlace<'_>, comparator: &ClusteringComparator) -> Ordering {
    let partitions = (left.token, left.key).cmp(&(right.token, right.key));
    partitions.then_with(|| match (left.clustering, right.clustering) {
        (Some(left), Some(right)) => comparator.compare(left, right),
        (left, right) => left.is_some().cmp(&right.is_some()),
    })
}
