//! Queries to an index.

use std::ops::Bound;

use helenus_schema::IndexId;

use crate::column::IndexedColumn;
use crate::term::ANY_TERM;

/// The rows of a table that may match one predicate of a query. Several are all to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexPredicate {
    pub index: IndexId,
    pub query: TermQuery,
}

/// Terms whose rows are candidates, those of [`ANY_TERM`] besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermQuery {
    Equal(Vec<u8>),
    /// Both included: the row tells whether its value is.
    Range {
        from: Option<Box<[u8]>>,
        to: Option<Box<[u8]>>,
    },
    /// The index says nothing of these values: all rows are candidates.
    All,
}

impl TermQuery {
    /// For a value that the column has, or that its collection contains as an element or key.
    pub fn equal(column: &IndexedColumn, value: &[u8]) -> Self {
        let mut query = TermQuery::All;
        query.become_equal(column, value);
        query
    }

    /// Becomes [`equal`](Self::equal), in the memory that it has.
    pub fn become_equal(&mut self, column: &IndexedColumn, value: &[u8]) {
        let mut term = match std::mem::replace(self, TermQuery::All) {
            TermQuery::Equal(term) => term,
            TermQuery::Range { .. } | TermQuery::All => Vec::new(),
        };
        term.clear();
        column.push_value_term(&mut term, value);
        *self = Self::of_term(term);
    }

    /// For a map that has a value under a key.
    pub fn entry(column: &IndexedColumn, key: &[u8], value: &[u8]) -> Self {
        let mut term = Vec::new();
        column.push_entry_term(&mut term, key, value);
        Self::of_term(term)
    }

    fn of_term(term: Vec<u8>) -> Self {
        match term == ANY_TERM {
            true => TermQuery::All,
            false => TermQuery::Equal(term),
        }
    }

    /// For a value between two bounds.
    pub fn range(column: &IndexedColumn, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Self {
        if !column.keeps_order() {
            return TermQuery::All;
        }
        let term = |bound| match bound {
            Bound::Included(value) | Bound::Excluded(value) => {
                let mut term = Vec::new();
                column.push_value_term(&mut term, value);
                // A bound that has no term of its own leaves its side open.
                (term != ANY_TERM).then(|| term.into())
            }
            Bound::Unbounded => None,
        };
        match (term(from), term(to)) {
            (None, None) => TermQuery::All,
            (from, to) => TermQuery::Range { from, to },
        }
    }
}
