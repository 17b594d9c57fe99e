//! Which indexes help to find the rows that filters accept.
//!
//! An index is asked wherever there is one for a filter, whether the statement needed it or allows filtering; the filters look
//! at each row all the same.

use std::ops::Bound;

use helenus_index::{IndexPredicate, IndexedColumn, TermQuery};
use helenus_schema::{IndexMetadata, IndexTarget, TableMetadata};

use super::filter::{Filter, Sought};
use super::plan::SelectPlan;

/// Returns the predicates on the table's indexes for the filters, all of which are to accept a row.
pub fn predicates<'f>(
    plan: &SelectPlan,
    filters: impl IntoIterator<Item = &'f Filter>,
) -> Vec<IndexPredicate> {
    let table = plan.indexed_table();
    let mut predicates = Vec::new();
    if table.indexes.is_empty() {
        return predicates;
    }
    for filter in filters {
        let Some(sought) = filter.sought() else { continue };
        let predicate = table.indexes_of(filter.column().id).find_map(|index| {
            if !compares_alike(table, index, filter, &sought) {
                return None;
            }
            let query = query(table, index, &sought).filter(|query| *query != TermQuery::All)?;
            Some(IndexPredicate {
                index: index.id,
                query,
            })
        });
        if let Some(predicate) = predicate {
            add(&mut predicates, predicate);
        }
    }
    predicates
}

/// Returns whether the index has all rows that the filter accepts under the terms that would be asked for. What an index
/// takes for equal may be more than what a filter does, but not another order.
fn compares_alike(
    table: &TableMetadata,
    index: &IndexMetadata,
    filter: &Filter,
    sought: &Sought<'_>,
) -> bool {
    if let Some(only) = filter.collating_index() {
        return index.id == only;
    }
    let is_range = match sought {
        Sought::Between { from, to } => {
            !matches!((from, to), (Bound::Included(from), Bound::Included(to)) if from == to)
        }
        _ => false,
    };
    if !is_range {
        return true;
    }
    let collation = IndexedColumn::of(table, index).and_then(|column| column.collation());
    collation.is_none_or(|collation| !collation.changes_order())
}

/// `None` where the index is of something else.
fn query(table: &TableMetadata, index: &IndexMetadata, sought: &Sought<'_>) -> Option<TermQuery> {
    let column = || IndexedColumn::of(table, index);
    Some(match (index.target, sought) {
        (IndexTarget::Simple | IndexTarget::Full, Sought::Between { from, to }) => match (from, to) {
            (Bound::Included(from), Bound::Included(to)) if from == to => TermQuery::equal(&column()?, from),
            _ => TermQuery::range(&column()?, *from, *to),
        },
        (IndexTarget::Values, Sought::Element(value)) | (IndexTarget::Keys, Sought::Key(value)) => {
            TermQuery::equal(&column()?, value)
        }
        (IndexTarget::Entries, Sought::Entry { key, value }) => TermQuery::entry(&column()?, key, value),
        _ => return None,
    })
}

/// Two bounds of one column are one range.
fn add(predicates: &mut Vec<IndexPredicate>, predicate: IndexPredicate) {
    let TermQuery::Range { from, to } = &predicate.query else {
        return predicates.push(predicate);
    };
    for other in predicates
        .iter_mut()
        .filter(|other| other.index == predicate.index)
    {
        if let TermQuery::Range {
            from: other_from,
            to: other_to,
        } = &mut other.query
        {
            if from.is_some() && (other_from.is_none() || from > other_from) {
                other_from.clone_from(from);
            }
            if to.is_some() && (other_to.is_none() || to < other_to) {
                other_to.clone_from(to);
            }
            return;
        }
    }
    predicates.push(predicate);
}
