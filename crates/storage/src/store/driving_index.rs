//! Which predicates of a read are asked of their indexes: where one leads to few rows, looking at these rows costs less than
//! asking the indexes of the others.

use helenus_index::TermQuery;
use helenus_sstable::error::ReadError;
use helenus_types::Token;

use super::read::TableRead;
use crate::index::{PlaceBound, RANGE_PLACES_MAX, TermStream};
use crate::read_state::PredicateState;

/// Rows that are looked at without asking any other index of them: each other index is a search, and where it is on disk one or
/// two reads, which is what these rows are.
const ROWS_LOOKED_AT_MAX: usize = 4;
/// Places of a range that are gathered in the time that one row is read in: some 60 ns each, a row in memory a microsecond.
const RANGE_PLACES_PER_ROW: usize = 16;
/// More rows are worth as many places of a range as there may be.
const ROWS_COUNTED_MAX: usize = RANGE_PLACES_MAX / RANGE_PLACES_PER_ROW;
/// Equalities whose places are counted. Statements with more of them have the others intersected.
const COUNTED_PREDICATES_MAX: usize = 8;

/// The equality that leads to the fewest rows, overwritten ones among them.
#[derive(Clone, Copy, Debug)]
struct Driving {
    predicate: usize,
    /// As far as they were counted.
    rows: usize,
}

impl TableRead<'_> {
    /// How each predicate is to be asked.
    pub(super) fn weighed_predicates(&self, asks_all: bool) -> Result<Vec<PredicateState>, ReadError> {
        let predicates = self.command.index;
        let driving = match asks_all || predicates.len() < 2 {
            true => None,
            false => self.driving()?,
        };
        let asked = |predicate| match driving {
            Some(driving) if driving.rows <= ROWS_LOOKED_AT_MAX && driving.predicate != predicate => {
                PredicateState::LeftOut
            }
            Some(driving) => PredicateState::Open {
                places_max: driving.rows.saturating_mul(RANGE_PLACES_PER_ROW),
            },
            None => PredicateState::Open {
                places_max: RANGE_PLACES_MAX,
            },
        };
        Ok((0..predicates.len()).map(asked).collect())
    }

    fn driving(&self) -> Result<Option<Driving>, ReadError> {
        let predicates = self.command.index;
        let is_range = |query: &TermQuery| matches!(query, TermQuery::Range { .. });
        let mut rows_max = match predicates.iter().any(|predicate| is_range(&predicate.query)) {
            true => ROWS_COUNTED_MAX,
            false => ROWS_LOOKED_AT_MAX + 1,
        };
        let mut driving = None;
        let equal = predicates
            .iter()
            .enumerate()
            .filter_map(|(number, predicate)| match &predicate.query {
                TermQuery::Equal(term) => Some((number, self.equal_streams(predicate.index, term)?)),
                _ => None,
            });
        for (predicate, mut streams) in equal.take(COUNTED_PREDICATES_MAX) {
            match self.count(&mut streams, rows_max) {
                Ok(rows) if driving.is_none() || rows < rows_max => {
                    rows_max = rows;
                    driving = Some(Driving { predicate, rows });
                }
                Ok(_) => {}
                // It takes no part in the read.
                Err(error) if self.table.note_index_failure(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(driving)
    }

    /// How many places these have, counted as far as that matters.
    fn count(&self, streams: &mut [TermStream<'_>], max: usize) -> Result<usize, ReadError> {
        let comparator = &self.table.layout.comparator;
        let mut count = 0;
        for stream in streams {
            stream.seek(&PlaceBound::BeforeToken(Token::MINIMUM), comparator)?;
            while count < max && stream.token().is_some() {
                count += 1;
                stream.advance()?;
            }
        }
        Ok(count)
    }
}
