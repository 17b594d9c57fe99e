//! Gathering of the sets that searches of indexes of vectors are narrowed to: [`FilterSets`](crate::vectors::FilterSets).

use std::sync::Arc;

use helenus_index::IndexPredicate;
use helenus_rows::clustering::Side;
use helenus_rows::partition_range::{PartitionBound, PartitionRange};
use helenus_schema::{ColumnId, ColumnKind};
use helenus_sstable::error::ReadError;
use helenus_types::Token;

use super::partition_read::Fills;
use super::read::TableRead;
use super::shard::ShardStore;
use super::table::Table;
use crate::index::{Candidate, Candidates, PlaceBound, Search};
use crate::read::ReadCommand;
use crate::read_state::{PredicateState, ReadProgress, ReadState};
use crate::vectors::{Gathered, NearestRequest, PLACES_PER_QUERY};

/// Places that one step gathers: each takes some 300 ns.
const PLACES_PER_STEP: u32 = 1_024;

/// Units of passing entries of the index in which none was a place, after which a step ends.
const UNITS_PER_STEP: u32 = 256;

/// How far one query has come with what it gathers.
#[derive(Clone, Copy, Debug)]
pub struct FilterGathering {
    /// Predicates that it is done with.
    done: usize,
    places_left: u32,
}

impl Default for FilterGathering {
    fn default() -> Self {
        FilterGathering::of(PLACES_PER_QUERY)
    }
}

impl FilterGathering {
    /// For a query that gathers so many places at most.
    pub fn of(places_max: u32) -> Self {
        FilterGathering {
            done: 0,
            places_left: places_max,
        }
    }
}

/// How one step of one predicate ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GatherStep {
    /// All that there is was gathered.
    Whole,
    Paused,
    /// The index says nothing for now.
    Silent,
    /// The index says nothing of so wide a range.
    TooWide,
}

impl ShardStore {
    /// A step of gathering the rows that may match the predicates of a search; once that is `Done` the search may begin.
    pub fn gather_nearest_filters(
        &mut self,
        request: &NearestRequest<'_>,
        gathering: &mut FilterGathering,
        state: &mut ReadState,
    ) -> Result<ReadProgress, ReadError> {
        while let Some(predicate) = request.predicates.get(gathering.done) {
            match self.gather_filter(request, predicate, gathering, state) {
                Ok(GatherStep::Paused) if gathering.places_left == 0 => break,
                Ok(GatherStep::Paused) => return Ok(ReadProgress::Yield),
                Ok(_) => {
                    gathering.done += 1;
                    state.predicates.clear();
                }
                Err(ReadError::Absent(pages)) => return Ok(ReadProgress::Absent(pages)),
                Err(error) => return Err(error),
            }
        }
        Ok(ReadProgress::Done)
    }

    fn gather_filter(
        &mut self,
        request: &NearestRequest<'_>,
        predicate: &IndexPredicate,
        gathering: &mut FilterGathering,
        state: &mut ReadState,
    ) -> Result<GatherStep, ReadError> {
        let Some(table) = self.tables.get_mut(&request.table) else {
            return Ok(GatherStep::Silent);
        };
        let from = match table.gathered_filter(request, predicate) {
            Some(Gathered::Nothing) => None,
            Some(Gathered::To(place)) => Some(place.clone()),
            Some(Gathered::Whole { .. } | Gathered::Unusable) => return Ok(GatherStep::Whole),
            None => return Ok(GatherStep::Silent),
        };
        let metadata = Arc::clone(&table.layout.metadata);
        let (start, end) = (
            bound(Token::MINIMUM, Side::Before),
            bound(Token::MAXIMUM, Side::After),
        );
        let command = ReadCommand {
            table: &metadata,
            partitions: PartitionRange::Many { start, end },
            slices: &[],
            reversed: false,
            now_s: 0,
            index: std::slice::from_ref(predicate),
        };
        let ticket = self.cache.ready_ticket(std::mem::take(&mut state.ticket));
        let fills = Fills::default();
        let (caches, memory) = ((&self.cache, &self.row_cache), (&ticket, &fills));
        let read = TableRead::new(table, &command, caches, memory, state);
        let mut places = Vec::new();
        let places_max = PLACES_PER_STEP.min(gathering.places_left);
        ticket.begin_run();
        let step = read.gather_places(state, from.as_ref(), places_max, &mut places);
        if places.is_empty() && matches!(step, Err(ReadError::Absent(_))) {
            ticket.keep_pages();
        }
        state.statistics.cost = ticket.cost();
        state.ticket = ticket;
        gathering.places_left -= places.len() as u32;
        table.fill_filter(request, predicate, places, step.as_ref().ok().copied());
        step
    }
}

fn bound(token: Token, side: Side) -> PartitionBound<'static> {
    PartitionBound {
        token,
        key: None,
        side,
    }
}

impl Table {
    /// Progress of the set of a predicate; `None` where nothing can be gathered.
    fn gathered_filter(
        &mut self,
        request: &NearestRequest<'_>,
        predicate: &IndexPredicate,
    ) -> Option<&Gathered> {
        let column = self.row_column_of(predicate)?;
        let (set, _) = self
            .vector_index_mut(request.index)?
            .open_filter(predicate, column)?;
        Some(&set.gathered)
    }

    /// The column that a predicate is on, if places under its index are of single rows.
    fn row_column_of(&self, predicate: &IndexPredicate) -> Option<ColumnId> {
        let metadata = &self.layout.metadata;
        let index = metadata
            .indexes
            .iter()
            .find(|index| index.id == predicate.index)?;
        let column = metadata.column_by_id(index.column)?;
        let is_of_rows = match column.kind {
            ColumnKind::Regular | ColumnKind::Clustering => true,
            ColumnKind::PartitionKey => !self.is_clustered(),
            ColumnKind::Static => false,
        };
        is_of_rows.then_some(column.id)
    }

    fn is_clustered(&self) -> bool {
        self.layout.comparator.component_count() > 0
    }

    fn fill_filter(
        &mut self,
        request: &NearestRequest<'_>,
        predicate: &IndexPredicate,
        places: Vec<Candidate>,
        step: Option<GatherStep>,
    ) {
        let is_clustered = self.is_clustered();
        let Some(column) = self.row_column_of(predicate) else {
            return;
        };
        let index = self.vector_index_mut(request.index);
        let Some((set, nodes)) = index.and_then(|index| index.open_filter(predicate, column)) else {
            return;
        };
        set.take(nodes, is_clustered, places);
        match step {
            Some(GatherStep::Whole) => set.note_whole(nodes),
            Some(GatherStep::TooWide) => set.gathered = Gathered::Unusable,
            _ => {}
        }
    }
}

impl TableRead<'_> {
    /// Gathers what the index has behind a place.
    fn gather_places(
        &self,
        state: &mut ReadState,
        from: Option<&Candidate>,
        places_max: u32,
        places: &mut Vec<Candidate>,
    ) -> Result<GatherStep, ReadError> {
        loop {
            if !self.prepare_indexes(state)? {
                let is_too_wide = matches!(state.predicates[..], [PredicateState::TooMany]);
                return Ok(match is_too_wide {
                    true => GatherStep::TooWide,
                    false => GatherStep::Silent,
                });
            }
            let Some(candidates) = self.candidates(&state.predicates) else {
                return Ok(GatherStep::Silent);
            };
            match take_places(candidates, from, places_max, places) {
                // Reads do without the file that is damaged.
                Err(error) if self.table.note_index_failure(&error) => {}
                step => return step,
            }
        }
    }
}

fn take_places(
    mut candidates: Candidates<'_>,
    from: Option<&Candidate>,
    places_max: u32,
    places: &mut Vec<Candidate>,
) -> Result<GatherStep, ReadError> {
    match places.last().or(from) {
        None => candidates.seek(&PlaceBound::BeforeToken(Token::MINIMUM))?,
        Some(place) => candidates.seek(&PlaceBound::behind(&place.place()))?,
    }
    let mut units_left = UNITS_PER_STEP;
    while (places.len() as u32) < places_max {
        let (found, units) = candidates.next(units_left)?;
        units_left -= units;
        match found {
            Search::Found(place) => places.push(place),
            Search::Paused(_) => return Ok(GatherStep::Paused),
            Search::End => return Ok(GatherStep::Whole),
        }
    }
    Ok(GatherStep::Paused)
}
