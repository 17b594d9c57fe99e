//! How far ranges are worth asking an index for, beside values that lead to few rows: looking at these rows costs less than gathering a
//! long range does.

use helenus_index::TermQuery;
use helenus_sstable::error::ReadError;
use helenus_types::Token;

use super::read::TableRead;
use crate::index::{PlaceBound, RANGE_PLACES_MAX, TermStream};
use crate::read_state::PredicateState;

/// Rows that are looked at sooner than any range is gathered: that is a search at least, and where it is on disk one or two reads,
/// which is what these rows are.
const ROWS_LOOKED_AT_MAX: usize = 4;
/// Places of a range that are gathered in the time that one row is read in: some 60 ns each, a row in memory a microsecond.
const RANGE_PLACES_PER_ROW: usize = 16;
/// More rows are worth as many places of a range as there may be.
const ROWS_COUNTED_MAX: usize = RANGE_PLACES_MAX / RANGE_PLACES_PER_ROW;
/// Equalities whose places are counted.
const COUNTED_PREDICATES_MAX: usize = 8;

impl TableRead<'_> {
    /// How each predicate is to be asked. Equalities always are: that is one search.
    pub(super) fn weighed_predicates(&self, asks_all: bool) -> Result<Vec<PredicateState>, ReadError> {
        let predicates = self.command.index;
        let is_range = |query: &TermQuery| matches!(query, TermQuery::Range { .. });
        let has_range = predicates.iter().any(|predicate| is_range(&predicate.query));
        let places_max = match asks_all || !has_range {
            true => RANGE_PLACES_MAX,
            false => self.places_worth_gathering()?,
        };
        let asked = predicates.iter().map(|predicate| match places_max {
            0 if is_range(&predicate.query) => PredicateState::LeftOut,
            _ => PredicateState::Open { places_max },
        });
        Ok(asked.collect())
    }

    /// By the equality that leads to the fewest rows, overwritten ones among them.
    fn places_worth_gathering(&self) -> Result<usize, ReadError> {
        let mut rows = ROWS_COUNTED_MAX;
        let equal = self
            .command
            .index
            .iter()
            .filter_map(|predicate| match &predicate.query {
                TermQuery::Equal(term) => self.equal_streams(predicate.index, term),
                _ => None,
            });
        for mut streams in equal.take(COUNTED_PREDICATES_MAX) {
            match self.count(&mut streams, rows) {
                Ok(counted) => rows = counted,
                // It takes no part in the read.
                Err(error) if self.table.note_index_failure(&error) => {}
                Err(error) => return Err(error),
            }
            if rows <= ROWS_LOOKED_AT_MAX {
                return Ok(0);
            }
        }
        Ok(rows * RANGE_PLACES_PER_ROW)
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
