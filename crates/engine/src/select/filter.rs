//! Filtering: restrictions that can only be met by looking at rows.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Bound;

use helenus_index::Collation;
use helenus_schema::{ColumnKind, ColumnMetadata, IndexId};
use helenus_types::CqlType;
use helenus_types::value::{CollectionElements, MapEntries};

use super::row_view::RowView;
use crate::CqlError;
use crate::clause::index_support::{IndexCollation, UseOfIndex};
use crate::clause::restriction::{BoundTuple, Restriction, RestrictionKind, TupleTerm};
use crate::clause::slices::check_combinations;
use crate::term::{Evaluated, EvaluationContext, Expression};

/// One test of one column, with its values bound.
#[derive(Clone, Debug)]
pub struct Filter {
    column: ColumnMetadata,
    test: Test,
    /// Collation of the index that Cassandra would read by, if that compares in its own way; the test's values are made alike
    /// already.
    collation: Option<(IndexId, Collation)>,
    /// The value of a comparison that the column's type has to accept, too.
    plain: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum Test {
    Compare {
        accepts: fn(Ordering) -> bool,
        value: Vec<u8>,
    },
    /// In the order of the column's type, without repetitions.
    In(Vec<Vec<u8>>),
    Contains(Vec<u8>),
    ContainsKey(Vec<u8>),
    Entry {
        key: Vec<u8>,
        value: Vec<u8>,
    },
}

/// Condition of a filter on its column, as an index can be asked for it.
pub enum Sought<'f> {
    Between {
        from: Bound<&'f [u8]>,
        to: Bound<&'f [u8]>,
    },
    Element(&'f [u8]),
    Key(&'f [u8]),
    Entry {
        key: &'f [u8],
        value: &'f [u8],
    },
}

impl Filter {
    pub fn column(&self) -> &ColumnMetadata {
        &self.column
    }

    /// The only index that may be asked, since no other compares as the test does.
    pub fn collating_index(&self) -> Option<IndexId> {
        let collation = self.collation.as_ref();
        collation.and_then(|(index, collation)| collation.changes_order().then_some(*index))
    }

    fn push(
        filters: &mut Vec<Filter>,
        column: &ColumnMetadata,
        mut test: Test,
        collations: &[IndexCollation],
    ) {
        let found = collations.iter().find(|collation| {
            collation.column == column.id && collation.is_for(&column.cql_type, test.use_of_index())
        });
        let collation = found.map(|found| (found.index, found.collation));
        let plain = match (&collation, &test) {
            (Some((_, collation)), Test::Compare { value, .. }) if collation.narrows() => Some(value.clone()),
            _ => None,
        };
        if let Some((_, collation)) = &collation {
            test.collate(collation);
        }
        filters.push(Filter {
            column: column.clone(),
            test,
            collation,
            plain,
        });
    }

    /// `None` for a value that the test cannot accept.
    fn collated<'v>(&self, value: &'v [u8]) -> Option<Cow<'v, [u8]>> {
        match &self.collation {
            Some((_, collation)) => collation.apply(value),
            None => Some(Cow::Borrowed(value)),
        }
    }

    /// `None` for what indexes do not say. Bounds are included: the filter tells whether they are.
    pub fn sought(&self) -> Option<Sought<'_>> {
        Some(match &self.test {
            Test::Compare { accepts, value } => {
                let bound = |ordering| match accepts(ordering) {
                    true => Bound::Unbounded,
                    false => Bound::Included(value.as_slice()),
                };
                Sought::Between {
                    from: bound(Ordering::Less),
                    to: bound(Ordering::Greater),
                }
            }
            Test::In(_) => return None,
            Test::Contains(value) => Sought::Element(value),
            Test::ContainsKey(key) => Sought::Key(key),
            Test::Entry { key, value } => Sought::Entry { key, value },
        })
    }

    /// Returns whether the test looks at the partition only: then it is made once for all of its rows.
    pub fn is_of_partition(&self) -> bool {
        matches!(self.column.kind, ColumnKind::PartitionKey | ColumnKind::Static)
    }

    pub fn value_count(&self) -> usize {
        match &self.test {
            Test::In(values) => values.len(),
            _ => 1,
        }
    }

    pub fn accepts(&self, row: &RowView<'_>, effort: &mut FilterEffort) -> bool {
        let Some(found) = row.value(&self.column) else {
            return false;
        };
        effort.add(self.test.comparisons(), found.len());
        let cql_type = &self.column.cql_type;
        match &self.test {
            Test::Compare { accepts, value } => {
                let accepts = |found: &[u8], value: &[u8]| accepts(cql_type.compare(found, value));
                let collated = self.collated(&found);
                collated.is_some_and(|found| accepts(&found, value))
                    && self.plain.as_ref().is_none_or(|value| accepts(&found, value))
            }
            Test::In(values) => values
                .binary_search_by(|value| cql_type.compare(value, &found))
                .is_ok(),
            Test::Contains(value) => match cql_type {
                CqlType::Map {
                    value: value_type, ..
                } => entries(&found).any(|(_, other)| self.is_equal(value_type, other, value)),
                CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                    CollectionElements::new(&found, 1)
                        .into_iter()
                        .flatten()
                        .flatten()
                        .any(|other| self.is_equal(element, other, value))
                }
                _ => false,
            },
            Test::ContainsKey(key) => match cql_type {
                CqlType::Map { key: key_type, .. } => {
                    entries(&found).any(|(other, _)| self.is_equal(key_type, other, key))
                }
                _ => false,
            },
            Test::Entry { key, value } => match cql_type {
                CqlType::Map {
                    key: key_type,
                    value: value_type,
                    ..
                } => entries(&found).any(|(other_key, other)| {
                    key_type.compare(other_key, key) == Ordering::Equal
                        && value_type.compare(other, value) == Ordering::Equal
                }),
                _ => false,
            },
        }
    }
}

impl Filter {
    fn is_equal(&self, cql_type: &CqlType, found: &[u8], value: &[u8]) -> bool {
        let found = self.collated(found);
        found.is_some_and(|found| cql_type.compare(&found, value) == Ordering::Equal)
    }
}

impl Test {
    fn use_of_index(&self) -> UseOfIndex {
        match self {
            Test::Compare { accepts, .. } if accepts(Ordering::Less) || accepts(Ordering::Greater) => {
                UseOfIndex::Range
            }
            Test::Compare { .. } => UseOfIndex::Equality,
            Test::Contains(_) => UseOfIndex::Element,
            Test::ContainsKey(_) => UseOfIndex::Key,
            Test::In(_) | Test::Entry { .. } => UseOfIndex::Other,
        }
    }

    fn collate(&mut self, collation: &Collation) {
        let (Test::Compare { value, .. } | Test::Contains(value) | Test::ContainsKey(value)) = self else {
            return;
        };
        let collated = collation.apply(value).map(Cow::into_owned);
        if let Some(collated) = collated {
            *value = collated;
        }
    }

    /// Counts the comparisons with the whole value; a collection is gone through once.
    fn comparisons(&self) -> u32 {
        match self {
            Test::In(values) => 1 + values.len().checked_ilog2().unwrap_or(0),
            _ => 1,
        }
    }
}

/// Cost of looking at rows, for the budget of a read's step.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilterEffort {
    comparisons: u64,
}

/// So many comparisons of short values cost as much as passing a row.
const COMPARISONS_PER_UNIT: u64 = 16;

/// Comparing, or going through a collection of, so many bytes costs about as much as a short value.
const BYTES_PER_COMPARISON: usize = 128;

/// Walking over so many bytes of a row's cells costs about as much as comparing two short values. Rows of tens of columns
/// come to nothing by it; those of thousands to a step each.
const WALKED_BYTES_PER_COMPARISON: usize = 2_048;

impl FilterEffort {
    fn add(&mut self, comparisons: u32, value_bytes: usize) {
        self.comparisons += u64::from(comparisons) * (1 + (value_bytes / BYTES_PER_COMPARISON) as u64);
    }

    /// A value of so many bytes was compared with another one.
    pub fn add_value(&mut self, bytes: usize) {
        self.add(1, bytes);
    }

    /// So many columns were looked for in a row of so many bytes, in the worst case each from its front.
    pub fn add_walks(&mut self, columns: usize, row_bytes: usize) {
        self.comparisons += (columns * row_bytes / WALKED_BYTES_PER_COMPARISON) as u64;
    }

    /// Takes the effort since the last call, in units of a read's step; the rest is kept for later.
    pub fn take_units(&mut self) -> u32 {
        let units = self.comparisons / COMPARISONS_PER_UNIT;
        self.comparisons %= COMPARISONS_PER_UNIT;
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

fn entries(map: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    MapEntries::new(map).into_iter().flatten()
}

/// Binds the restrictions that filter.
pub fn bind_filters<'r>(
    restrictions: impl IntoIterator<Item = &'r Restriction>,
    collations: &[IndexCollation],
    context: &EvaluationContext<'_>,
) -> Result<Vec<Filter>, CqlError> {
    let mut filters = Vec::new();
    for restriction in restrictions {
        bind_filter(restriction, collations, context, &mut filters)?;
    }
    Ok(filters)
}

fn bind_filter(
    restriction: &Restriction,
    collations: &[IndexCollation],
    context: &EvaluationContext<'_>,
    filters: &mut Vec<Filter>,
) -> Result<(), CqlError> {
    let columns = &restriction.columns;
    let column = &*restriction.first().column;
    let mut push = |column: &ColumnMetadata, test| Filter::push(filters, column, test, collations);
    match &restriction.kind {
        RestrictionKind::Equal(term) => {
            let tuple = single_or_tuple(restriction, term, context)?;
            for (value, column) in tuple.into_iter().zip(columns) {
                let accepts = Ordering::is_eq;
                push(&column.column, Test::Compare { accepts, value });
            }
        }
        RestrictionKind::In(_) if columns.len() > 1 => {
            return Err(invalid!("Multicolumn IN filters are not supported"));
        }
        RestrictionKind::In(terms) => {
            let tuples = terms.bind(columns, restriction.is_multi_column, context)?;
            check_combinations(tuples.len())?;
            push(column, one_of(tuples, &column.cql_type));
        }
        RestrictionKind::Slice { .. } if restriction.is_multi_column => {
            return Err(invalid!(
                "Multi-column slice restrictions cannot be used for filtering."
            ));
        }
        RestrictionKind::Slice { start, end } => {
            for (bound, is_start) in [(start, true), (end, false)] {
                let Some(bound) = bound else { continue };
                let accepts = within_bound(is_start, bound.is_inclusive);
                for value in single_or_tuple(restriction, &bound.value, context)? {
                    push(column, Test::Compare { accepts, value });
                }
            }
        }
        RestrictionKind::Contains {
            values,
            keys,
            entries,
        } => {
            let bind = |term: &Expression, what| operand(term.evaluate(context)?, &column.name, what);
            for value in values {
                push(column, Test::Contains(bind(value, "value")?));
            }
            for key in keys {
                push(column, Test::ContainsKey(bind(key, "value")?));
            }
            for (key, value) in entries {
                let (key, value) = (bind(key, "map key")?, bind(value, "map value")?);
                push(column, Test::Entry { key, value });
            }
        }
    }
    Ok(())
}

/// One of the values of an IN, which are looked for in their order.
fn one_of(tuples: Vec<BoundTuple>, cql_type: &CqlType) -> Test {
    let mut values: Vec<Vec<u8>> = tuples.into_iter().flatten().collect();
    values.sort_unstable_by(|left, right| cql_type.compare(left, right));
    values.dedup_by(|left, right| cql_type.compare(left, right).is_eq());
    Test::In(values)
}

/// Returns the test that a value compared with the bound of a slice has to pass.
fn within_bound(is_start: bool, is_inclusive: bool) -> fn(Ordering) -> bool {
    match (is_start, is_inclusive) {
        (true, true) => Ordering::is_ge,
        (true, false) => Ordering::is_gt,
        (false, true) => Ordering::is_le,
        (false, false) => Ordering::is_lt,
    }
}

fn single_or_tuple(
    restriction: &Restriction,
    term: &TupleTerm,
    context: &EvaluationContext<'_>,
) -> Result<Vec<Vec<u8>>, CqlError> {
    match term {
        TupleTerm::Single(term) => {
            let value = operand(term.evaluate(context)?, restriction.first().name(), "value")?;
            Ok(vec![value])
        }
        other => other.bind(&restriction.columns, context),
    }
}

fn operand(value: Evaluated<'_>, column: &str, what: &str) -> Result<Vec<u8>, CqlError> {
    match value {
        Evaluated::Null => Err(invalid!("Unsupported null {what} for column {column}")),
        Evaluated::Unset => Err(invalid!("Unsupported unset {what} for column {column}")),
        Evaluated::Bytes(bytes) => Ok(bytes.into_owned()),
    }
}
