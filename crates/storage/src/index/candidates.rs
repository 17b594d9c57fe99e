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
    fn set(&mut self, place: &TermPlace<'_>) {
        self.token = place.token;
        self.key.clear();
        self.key.extend_from_slice(place.key);
        match (place.clustering, &mut self.clustering) {
            (Some(clustering), Some(before)) => {
                before.clear();
                before.extend_from_slice(clustering);
            }
            (clustering, before) => *before = clustering.map(<[u8]>::to_vec),
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
    /// The place that is looked for in all of them.
    target: Candidate,
}

/// How many entries are passed for one unit of a step.
const ENTRIES_PER_UNIT: u32 = 8;
/// How many that lie side by side take as long as one that is searched for.
const ENTRIES_PASSED_PER_SEARCHED: u32 = 16;

/// Cost of passing entries, as that of a search.
fn entries_searched(entries: usize) -> u32 {
    (entries as u32).div_ceil(ENTRIES_PASSED_PER_SEARCHED)
}

impl<'a> Candidates<'a> {
    /// Takes the sources of each predicate. At least one predicate.
    pub fn new(comparator: &'a ClusteringComparator, predicates: Vec<Vec<TermStream<'a>>>) -> Self {
        Candidates {
            comparator,
            predicates,
            target: Candidate {
                token: Token::MINIMUM,
                key: Vec::new(),
                clustering: None,
            },
        }
    }

    /// Moves to what does not lie before a bound, and not back.
    pub fn seek_forward(&mut self, bound: &PlaceBound<'_>) -> Result<(), ReadError> {
        for stream in self.predicates.iter_mut().flatten() {
            stream.seek_forward(bound, self.comparator)?;
        }
        Ok(())
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
            let Some(token) = self.token() else {
                return Ok((Search::End, passed / ENTRIES_PER_UNIT));
            };
            let before = passed;
            let bound = PlaceBound::BeforeToken(token);
            for stream in self.predicates.iter_mut().flatten() {
                if stream.token().is_some_and(|at| at < token) {
                    passed += entries_searched(stream.seek_forward(&bound, self.comparator)?);
                }
            }
            if passed > before && passed / ENTRIES_PER_UNIT < units_max {
                continue;
            }
            if !self.find_target() {
                return Ok((Search::End, passed / ENTRIES_PER_UNIT));
            }
            if passed / ENTRIES_PER_UNIT >= units_max {
                return Ok((Search::Paused(self.target.clone()), units_max));
            }
            passed += 1;
            let place = self.target.place();
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
                    passed += entries_searched(stream.seek_forward(&bound, self.comparator)?);
                }
            }
            if is_met {
                self.pass()?;
                return Ok((Search::Found(self.target.clone()), passed / ENTRIES_PER_UNIT));
            }
        }
    }

    /// The last of the tokens that predicates stand on; `None` at the end of one.
    fn token(&self) -> Option<Token> {
        let mut last = Token::MINIMUM;
        for streams in &self.predicates {
            last = last.max(streams.iter().filter_map(TermStream::token).min()?);
        }
        Some(last)
    }

    /// Targets the last of the places that predicates stand on: nothing matches before it. False at the end of one.
    fn find_target(&mut self) -> bool {
        let mut target: Option<TermPlace<'_>> = None;
        for streams in &self.predicates {
            let Some(first) = first(streams, self.comparator) else {
                return false;
            };
            if target.is_none_or(|target| compare(&target, &first, self.comparator).is_lt()) {
                target = Some(first);
            }
        }
        if let Some(target) = &target {
            self.target.set(target);
        }
        target.is_some()
    }

    /// Passes the target.
    fn pass(&mut self) -> Result<(), ReadError> {
        let place = self.target.place();
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
