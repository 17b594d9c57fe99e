//! Reads by indexes: of all rows that a command asks for, those that may match its predicates.
//!
//! A step looks for candidates behind the place where the read stands, partition by partition, and reads these rows as a
//! scan reads all. Where an index says nothing (it is not built, its file is damaged, the range is too wide) its
//! predicate takes no part; where none does, the read is the scan.

use helenus_index::{ANY_TERM, IndexPredicate, TermQuery};
use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::partition_range::{PartitionBound, PartitionRange, PartitionSpan};
use helenus_schema::IndexId;
use helenus_sstable::error::ReadError;
use helenus_types::Token;

use super::answer::{Answer, Passed, Walk};
use super::read::{CurrentPartition, TableRead};
use crate::index::{
    Candidate, Candidates, IndexSources, PlaceBound, RANGE_PLACES_MAX, RangePlaces, Search, TermStream,
};
use crate::read::ReadSink;
use crate::read_state::{
    PARTITION_UNITS, PartitionPlace, PredicateState, ReadPosition, ReadState, STEP_UNITS_MAX,
};

/// Rows of a partition that are looked up together. A step passes fewer of those that are there; where it finds none of
/// them, it goes on with all that lies behind.
const SLICES_MAX: usize = STEP_UNITS_MAX as usize;

impl<'a> TableRead<'a> {
    /// One step of a read by indexes; `None` if none takes part, and the step is to be one of a scan.
    pub(super) fn walk_indexed<S: ReadSink>(
        &self,
        answer: &mut Answer<'_, S>,
    ) -> Result<Option<Walk>, ReadError> {
        match self.prepare_indexes(answer.state)? {
            true => self.read_indexed(answer),
            false => Ok(None),
        }
    }

    /// Finds out how predicates are asked, and gathers what ranges come to; whether any index takes part in the read.
    pub(super) fn prepare_indexes(&self, state: &mut ReadState) -> Result<bool, ReadError> {
        let predicates = self.command.index;
        if state.predicates.len() != predicates.len() {
            state.predicates = self.weighed_predicates(state.asks_all_indexes)?;
        }
        let mut is_any = false;
        for (predicate, asked) in predicates.iter().zip(&mut state.predicates) {
            let Some(sources) = self.table.index_sources(predicate.index) else {
                continue;
            };
            if let (TermQuery::Range { from, to }, PredicateState::Open { places_max }) =
                (&predicate.query, &*asked)
            {
                let comparator = &self.table.layout.comparator;
                let bounds = (from.as_deref(), to.as_deref());
                *asked = match RangePlaces::gather(comparator, &sources, self.pages, bounds, *places_max) {
                    Ok(Some(places)) => PredicateState::Gathered(Box::new(places)),
                    Ok(None) if *places_max < RANGE_PLACES_MAX => PredicateState::LeftOut,
                    Ok(None) => PredicateState::TooMany,
                    // What is damaged says nothing; the next look at it finds that out, too.
                    Err(error) if self.table.note_index_failure(&error) => continue,
                    Err(error) => return Err(error),
                };
            }
            is_any |= match asked {
                PredicateState::Open { .. } => matches!(predicate.query, TermQuery::Equal(_)),
                PredicateState::Gathered(_) => true,
                PredicateState::TooMany | PredicateState::LeftOut => false,
            };
        }
        Ok(is_any)
    }

    /// Through the candidates behind the place where the read stands.
    fn read_indexed<S: ReadSink>(&self, answer: &mut Answer<'_, S>) -> Result<Option<Walk>, ReadError> {
        // Candidates borrow them while the walk changes the state.
        let asked = std::mem::take(&mut answer.state.predicates);
        let mut current = CurrentPartition::default();
        let walk = loop {
            let Some(candidates) = self.candidates(&asked) else {
                break Ok(None);
            };
            let walk = self.read_candidates(candidates, &mut current, answer);
            // Within a partition the walk over it has noted the place.
            if matches!(walk, Ok(Walk::Paused) | Err(_)) {
                current.note(answer.state);
            }
            match walk {
                // The rest without the file that is damaged.
                Err(error) if self.table.note_index_failure(&error) => current = CurrentPartition::default(),
                walk => break walk.map(Some),
            }
        };
        answer.state.predicates = asked;
        walk
    }

    pub(super) fn candidates<'s>(&'s self, asked: &'s [PredicateState]) -> Option<Candidates<'s>> {
        let predicates = self.command.index.iter().zip(asked);
        let predicates: Vec<_> = predicates
            .filter_map(|(predicate, asked)| self.streams(predicate, asked))
            .collect();
        let comparator = &self.table.layout.comparator;
        (!predicates.is_empty()).then(|| Candidates::new(comparator, predicates))
    }

    fn streams<'s>(
        &'s self,
        predicate: &'s IndexPredicate,
        asked: &'s PredicateState,
    ) -> Option<Vec<TermStream<'s>>> {
        match (&predicate.query, asked) {
            (_, PredicateState::Gathered(places)) => Some(vec![TermStream::of_range(places)]),
            (TermQuery::Equal(term), PredicateState::Open { .. }) => {
                self.equal_streams(predicate.index, term)
            }
            _ => None,
        }
    }

    /// All that is under a term, and under the one that belongs to every query.
    pub(super) fn equal_streams<'s>(&'s self, index: IndexId, term: &'s [u8]) -> Option<Vec<TermStream<'s>>> {
        let IndexSources { memtables, files } = self.table.index_sources(index)?;
        let mut streams = Vec::with_capacity(memtables.len() + files.len());
        for terms in memtables {
            streams.push(TermStream::of_memtable(terms, term));
            if terms.flags().has_any {
                streams.push(TermStream::of_memtable(terms, ANY_TERM));
            }
        }
        for file in files {
            streams.push(TermStream::of_file(file, self.pages, term));
            if file.flags().has_any {
                streams.push(TermStream::of_file(file, self.pages, ANY_TERM));
            }
        }
        Some(streams)
    }

    fn read_candidates<S: ReadSink>(
        &self,
        candidates: Candidates<'_>,
        current: &mut CurrentPartition,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let stood_at = answer.state.position().cloned();
        let parts = self.parts();
        let stands_before = |token: &Token| stood_at.as_ref().is_none_or(|position| position.token < *token);
        let begin = match answer.state.searched_to.filter(stands_before) {
            Some(token) => Some(PlaceBound::BeforeToken(token)),
            None => self.begin(stood_at.as_ref(), &parts),
        };
        let Some(begin) = begin else {
            return Ok(Walk::Over);
        };
        let mut search = CandidateSearch {
            candidates,
            next: None,
            resumed: stood_at.as_ref().and_then(Resumed::of),
        };
        search.candidates.seek(&begin)?;
        loop {
            let found = self.without_place_backwards(search.take(answer.state)?);
            if let Some(resumed) = search.resumed.take_if(|resumed| !resumed.goes_on_with(&found)) {
                current.enter(resumed.token, &resumed.key);
                current.is_over = true;
                if answer.nothing_left(&Passed::resumed(resumed.is_announced)) == Walk::Enough {
                    return Ok(Walk::Enough);
                }
            }
            let candidate = match found {
                Search::End => return Ok(Walk::Over),
                Search::Paused(place) if place.key.is_empty() => {
                    answer.state.searched_to = Some(place.token);
                    return Ok(Walk::Paused);
                }
                Search::Paused(place) => {
                    *current = CurrentPartition::default();
                    let is_announced = search.resumed.is_some_and(|resumed| resumed.is_announced);
                    answer.state.position = Some(Box::new(position_before(place, is_announced)));
                    return Ok(Walk::Paused);
                }
                Search::Found(candidate) => candidate,
            };
            let Some(part) = part_of(&parts, &candidate) else {
                return Ok(Walk::Over);
            };
            let is_before = part.start.is_behind(candidate.token, &candidate.key);
            let walk = if candidate.key.is_empty() {
                self.read_token(candidate.token, &parts, &mut search, current, answer)?
            } else if is_before {
                search.seek_forward(&place_bound(&part.start))?;
                continue;
            } else {
                self.read_found(candidate, &mut search, current, answer)?
            };
            if walk != Walk::Over {
                return Ok(walk);
            }
            answer.state.spend(PARTITION_UNITS);
            if answer.state.units_left == 0 {
                return Ok(Walk::Paused);
            }
        }
    }

    /// All rows of a partition that is read backwards are looked at where the search in it takes more than a step: those behind the place
    /// where it pauses are the ones that come first.
    fn without_place_backwards(&self, found: Search) -> Search {
        match found {
            Search::Paused(place) if self.command.reversed && place.clustering.is_some() => {
                Search::Found(Candidate {
                    clustering: None,
                    ..place
                })
            }
            found => found,
        }
    }

    fn parts(&self) -> Vec<PartitionSpan<'a>> {
        match self.command.partitions {
            PartitionRange::Parts(parts) => parts.to_vec(),
            partitions => {
                let (start, end) = partitions.bounds();
                vec![PartitionSpan { start, end }]
            }
        }
    }

    /// Where the step begins; `None` where there is nothing to read.
    fn begin<'b>(
        &self,
        stood_at: Option<&'b ReadPosition>,
        parts: &[PartitionSpan<'b>],
    ) -> Option<PlaceBound<'b>> {
        let Some(ReadPosition { token, key, place }) = stood_at else {
            return parts.first().map(|part| place_bound(&part.start));
        };
        Some(match place {
            PartitionPlace::Within { bound, .. } if !self.command.reversed => PlaceBound::Within {
                token: *token,
                key,
                prefix: &bound.prefix,
                side: bound.side,
            },
            PartitionPlace::End => PlaceBound::BehindPartition(*token, key),
            _ => PlaceBound::BeforePartition(*token, key),
        })
    }

    /// Reads what is found of one partition.
    fn read_found<S: ReadSink>(
        &self,
        candidate: Candidate,
        search: &mut CandidateSearch<'_>,
        current: &mut CurrentPartition,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let resumed = search.resumed.take();
        if resumed.is_none() {
            current.enter(candidate.token, &candidate.key);
        }
        let (token, key) = (candidate.token, candidate.key.clone());
        let passed = match &resumed {
            Some(resumed) => Passed::resumed(resumed.is_announced),
            None => Passed::nothing(),
        };
        let is_whole = candidate.clustering.is_none() || self.command.reversed;
        let slices = match is_whole {
            true => match resumed.is_some() {
                true => self.slices_left(answer.state).0.into_owned(),
                false => self.command.slices.to_vec(),
            },
            false => self.collect_rows(candidate, search, answer.state)?,
        };
        // Of a whole partition the static row may be left, which alone is a row.
        let walk = match !is_whole && slices.is_empty() && !self.command.slices.is_empty() {
            true => answer.nothing_left(&passed),
            false => self.read_partition(token, &key, &slices, passed, answer)?,
        };
        if walk == Walk::Over {
            current.enter(token, &key);
            current.is_over = true;
            search.pass_partition(token, &key)?;
        }
        Ok(walk)
    }

    /// The rows of a partition that are found, as slices within those of the command. Where there are more than a step
    /// may look for, the last slice has all that is left.
    fn collect_rows(
        &self,
        first: Candidate,
        search: &mut CandidateSearch<'_>,
        state: &mut ReadState,
    ) -> Result<Vec<Slice>, ReadError> {
        let comparator = &self.table.layout.comparator;
        let (token, key) = (first.token, first.key.clone());
        let mut slices = Vec::new();
        let mut last = first.clustering.unwrap_or_default();
        loop {
            let within = self.command.slices;
            let behind =
                within.partition_point(|slice| comparator.compare_to_bound(&last, &slice.end).is_gt());
            let is_in = |slice: &Slice| comparator.compare_to_bound(&last, &slice.start).is_gt();
            if within.get(behind).is_some_and(is_in) {
                slices.push(row_slice(&last));
            }
            let is_in_partition = |other: &Candidate| other.token == token && other.key == key;
            let found = search.take(state)?;
            let is_cut = match &found {
                Search::Found(next) if is_in_partition(next) => slices.len() >= SLICES_MAX,
                Search::Paused(place) => is_in_partition(place),
                _ => false,
            };
            match found {
                Search::Found(Candidate {
                    token: found_token,
                    key: found_key,
                    clustering: Some(clustering),
                }) if !is_cut && found_token == token && found_key == key => last = clustering,
                found => {
                    if let Search::Found(next) = found {
                        search.next = Some(next);
                    }
                    if is_cut {
                        let place = ClusteringBound {
                            prefix: last.as_slice().into(),
                            side: Side::After,
                        };
                        slices.extend(comparator.slices_behind(within, &place, false));
                    }
                    return Ok(slices);
                }
            }
        }
    }

    /// Reads all partitions of a token, as a scan does: those behind what was read of it.
    fn read_token<S: ReadSink>(
        &self,
        token: Token,
        parts: &[PartitionSpan<'_>],
        search: &mut CandidateSearch<'_>,
        current: &mut CurrentPartition,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        if let Some(Resumed { key, .. }) = search.resumed.take() {
            let (slices, passed) = self.slices_left(answer.state);
            let walk = self.read_partition(token, &key, &slices, passed, answer)?;
            if walk != Walk::Over {
                return Ok(walk);
            }
            current.enter(token, &key);
            current.is_over = true;
        }
        let read_to = match answer.state.position() {
            _ if current.token == Some(token) => Some((current.key.clone(), Side::After)),
            Some(position) if current.token.is_none() && position.token == token => {
                let side = match position.place {
                    PartitionPlace::End => Side::After,
                    _ => Side::Before,
                };
                Some((position.key.clone(), side))
            }
            _ => None,
        };
        let first = match &read_to {
            Some((key, side)) => PartitionBound {
                token,
                key: Some(key),
                side: *side,
            },
            None => token_bound(token, Side::Before),
        };
        let spans = token_spans(parts, token, first);
        let before = current.token;
        let walk = match self.table.is_in_active() {
            true => self.scan_memtable(&spans, current, answer)?,
            false => self.scan(&spans, current, answer)?,
        };
        if walk == Walk::Over {
            search.seek_forward(&PlaceBound::BehindToken(token))?;
            if current.token == before {
                // Else the state stands behind what was read.
                answer.state.searched_to = token.0.checked_add(1).map(Token);
            }
        }
        Ok(walk)
    }
}

/// The candidates that a step goes through.
struct CandidateSearch<'s> {
    candidates: Candidates<'s>,
    /// Found, and to be taken next.
    next: Option<Candidate>,
    resumed: Option<Resumed>,
}

/// The partition that a step goes on within.
struct Resumed {
    token: Token,
    key: Vec<u8>,
    /// True if the sink knows of it.
    is_announced: bool,
}

impl Resumed {
    fn of(position: &ReadPosition) -> Option<Self> {
        match position.place {
            PartitionPlace::Within { is_announced, .. } => Some(Resumed {
                token: position.token,
                key: position.key.clone(),
                is_announced,
            }),
            _ => None,
        }
    }

    /// Returns whether more of the partition may match.
    fn goes_on_with(&self, found: &Search) -> bool {
        match found {
            Search::Found(place) | Search::Paused(place) => {
                place.token == self.token && (place.key.is_empty() || place.key == self.key)
            }
            Search::End => false,
        }
    }
}

impl CandidateSearch<'_> {
    /// The next candidate, paid for by the step.
    fn take(&mut self, state: &mut ReadState) -> Result<Search, ReadError> {
        if let Some(next) = self.next.take() {
            return Ok(Search::Found(next));
        }
        let (found, units) = self.candidates.next(state.units_left)?;
        state.spend(units);
        Ok(found)
    }

    /// Moves on to what does not lie before a bound.
    fn seek_forward(&mut self, bound: &PlaceBound<'_>) -> Result<(), ReadError> {
        self.next = None;
        self.candidates.seek_forward(bound)
    }

    /// All of a partition was read.
    fn pass_partition(&mut self, token: Token, key: &[u8]) -> Result<(), ReadError> {
        match &self.next {
            Some(next) if (next.token, &*next.key) != (token, key) => Ok(()),
            _ => self.seek_forward(&PlaceBound::BehindPartition(token, key)),
        }
    }
}

fn token_bound(token: Token, side: Side) -> PartitionBound<'static> {
    PartitionBound {
        token,
        key: None,
        side,
    }
}

/// Cuts out of the parts the spans of a token, from a place in it on.
fn token_spans<'p>(
    parts: &[PartitionSpan<'p>],
    token: Token,
    first: PartitionBound<'p>,
) -> Vec<PartitionSpan<'p>> {
    let of_token = parts
        .iter()
        .filter(|part| part.start.token <= token && token <= part.end.token);
    of_token
        .map(|part| PartitionSpan {
            start: match part.start.token < token {
                true => first,
                false => later(part.start, first),
            },
            end: match token < part.end.token {
                true => token_bound(token, Side::After),
                false => part.end,
            },
        })
        .collect()
}

/// The later of two bounds of one token.
fn later<'p>(left: PartitionBound<'p>, right: PartitionBound<'p>) -> PartitionBound<'p> {
    let place = |bound: &PartitionBound<'p>| match (bound.key, bound.side) {
        (None, Side::Before) => (0, None, 0),
        (Some(key), side) => (1, Some(key), side as u8),
        (None, Side::After) => (2, None, 0),
    };
    match place(&left) < place(&right) {
        true => right,
        false => left,
    }
}

fn position_before(place: Candidate, is_announced: bool) -> ReadPosition {
    ReadPosition {
        token: place.token,
        key: place.key,
        place: match place.clustering {
            Some(clustering) => PartitionPlace::Within {
                bound: ClusteringBound {
                    prefix: clustering.into(),
                    side: Side::Before,
                },
                is_announced,
            },
            None => PartitionPlace::Start,
        },
    }
}

/// The first part of a scan that does not end before a candidate.
fn part_of<'p>(parts: &[PartitionSpan<'p>], candidate: &Candidate) -> Option<PartitionSpan<'p>> {
    let Candidate { token, key, .. } = candidate;
    let ended = parts.partition_point(|part| match key.is_empty() {
        true => part.end.token < *token,
        false => !part.end.is_behind(*token, key),
    });
    parts.get(ended).copied()
}

fn place_bound<'b>(bound: &PartitionBound<'b>) -> PlaceBound<'b> {
    match (bound.key, bound.side) {
        (None, Side::Before) => PlaceBound::BeforeToken(bound.token),
        (None, Side::After) => PlaceBound::BehindToken(bound.token),
        (Some(key), Side::Before) => PlaceBound::BeforePartition(bound.token, key),
        (Some(key), Side::After) => PlaceBound::BehindPartition(bound.token, key),
    }
}

fn row_slice(clustering: &[u8]) -> Slice {
    let bound = |side| ClusteringBound {
        prefix: clustering.into(),
        side,
    };
    Slice {
        start: bound(Side::Before),
        end: bound(Side::After),
    }
}
