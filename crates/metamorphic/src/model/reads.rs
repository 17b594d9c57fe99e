//! Answers to SELECT statements.

use std::cmp::Ordering;

use helenus_cql::ast::{
    InValues, Operator, OrderDirection, OrderingExpression, Relation, Select, Selection, Selector, Term,
    TupleValue,
};
use helenus_schema::{ClusteringOrder, ColumnKind, ColumnMetadata, TableMetadata};
use helenus_types::Token;

use super::Values;
use super::facts::{Facts, Partition, holds, place_of};
use super::writes::{integer, value};

/// Rows as they are answered, all pages together.
#[derive(Debug, PartialEq, Eq)]
pub struct Expected {
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// In the order of the answer; else in any.
    pub is_ordered: bool,
}

/// A row before its columns are chosen.
struct Candidate<'p> {
    partition: &'p Partition,
    /// `None` is a partition of which only static columns live.
    row: Option<usize>,
}

/// A restriction with its values.
enum Test<'t> {
    Compare(&'t ColumnMetadata, Operator, Vec<u8>),
    OneOf(&'t ColumnMetadata, Vec<Vec<u8>>),
    Token(Operator, Token),
    Tuple(Vec<&'t ColumnMetadata>, Operator, Vec<Vec<u8>>),
}

pub fn expect(facts: &Facts, select: &Select, values: &Values, now_s: i64) -> Option<Expected> {
    let table = facts.table()?;
    if select.json || !select.group_by.is_empty() {
        return None;
    }
    let tests: Vec<Test<'_>> = select
        .relations
        .iter()
        .map(|relation| test(table, relation, values))
        .collect::<Option<_>>()?;
    let has_statics = !table.statics().is_empty();
    // Which partitions without rows an answer has where it is about some of the rows or columns is not modelled.
    let is_plain =
        matches!(select.selection, Selection::Wildcard) && tests.iter().all(Test::is_of_partitions);
    if has_statics && !is_plain && !select.distinct {
        return None;
    }
    let partitions = facts.partitions(now_s);
    let is_reversed = is_reversed(table, select)?;
    let per_partition = limit(select.per_partition_limit.as_ref())?;
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    let by_key = names_whole_keys(table, &tests);
    for partition in &partitions {
        let mut rows: Vec<Candidate<'_>> = (0..partition.rows.len())
            .map(|row| Candidate {
                partition,
                row: Some(row),
            })
            .collect();
        if rows.is_empty() {
            rows.push(Candidate { partition, row: None });
        }
        rows.retain(|row| tests.iter().all(|test| test.holds(row, by_key)));
        if is_reversed {
            rows.reverse();
        }
        let most = if select.distinct { 1 } else { per_partition };
        candidates.extend(rows.into_iter().take(most));
    }
    let limit = limit(select.limit.as_ref())?;
    let is_ordered = !tests.iter().any(Test::names_partitions);
    if !is_ordered && candidates.len() > limit {
        return None;
    }
    let rows = chosen(table, select, candidates, limit)?;
    Some(Expected { rows, is_ordered })
}

/// The columns that are asked for, or the count of the rows.
fn chosen(
    table: &TableMetadata,
    select: &Select,
    candidates: Vec<Candidate<'_>>,
    limit: usize,
) -> Option<Vec<Vec<Option<Vec<u8>>>>> {
    let names: Vec<&str> = match &select.selection {
        Selection::Wildcard => table.columns.iter().map(|column| &*column.name).collect(),
        Selection::Items(items) if items.iter().all(|item| item.selector == Selector::CountRows) => {
            let count = (candidates.len() as i64).to_be_bytes().to_vec();
            return Some(vec![items.iter().map(|_| Some(count.clone())).collect()]);
        }
        Selection::Items(items) => items
            .iter()
            .map(|item| match &item.selector {
                Selector::Column(name) => Some(name.as_str()),
                _ => None,
            })
            .collect::<Option<_>>()?,
    };
    let columns: Vec<&ColumnMetadata> = names
        .into_iter()
        .map(|name| table.column(name))
        .collect::<Option<_>>()?;
    let rows = candidates.into_iter().take(limit);
    Some(
        rows.map(|row| columns.iter().map(|column| row.value(column)).collect())
            .collect(),
    )
}

fn limit(term: Option<&Term>) -> Option<usize> {
    match term {
        None => Some(usize::MAX),
        Some(term) => usize::try_from(integer(term)?).ok(),
    }
}

/// Returns whether the rows of a partition come from its end; `None` for an order that is not one of clustering columns.
fn is_reversed(table: &TableMetadata, select: &Select) -> Option<bool> {
    let Some(first) = select.order_by.first() else {
        return Some(false);
    };
    let OrderingExpression::Column(name) = &first.expression else {
        return None;
    };
    let is_descending = first.direction == Some(OrderDirection::Descending);
    Some(is_descending != (table.column(name)?.order == ClusteringOrder::Descending))
}

fn test<'t>(table: &'t TableMetadata, relation: &Relation, values: &Values) -> Option<Test<'t>> {
    let is_comparison = |operator: &Operator| {
        matches!(
            operator,
            Operator::Equal
                | Operator::Less
                | Operator::LessOrEqual
                | Operator::Greater
                | Operator::GreaterOrEqual
        )
    };
    let of = |term: &Term| value(term, values)?;
    match relation {
        Relation::Column {
            column,
            operator,
            value,
        } if is_comparison(operator) => {
            let column = table.column(column)?;
            (!column.cql_type.is_multi_cell())
                .then_some(())
                .and_then(|()| Some(Test::Compare(column, *operator, of(value)?)))
        }
        Relation::In {
            column,
            values: InValues::List(terms),
        } => {
            let values: Option<Vec<Vec<u8>>> = terms.iter().map(of).collect();
            Some(Test::OneOf(table.column(column)?, values?))
        }
        Relation::Token {
            operator,
            value: Term::Function { arguments, .. },
            ..
        } => {
            let key: Vec<Vec<u8>> = arguments.iter().map(of).collect::<Option<_>>()?;
            let token = place_of(&key)?.0;
            // As an end, the least token is the ring's end in Cassandra.
            (token != Token::MINIMUM).then_some(Test::Token(*operator, token))
        }
        Relation::Tuple {
            columns,
            operator,
            value: TupleValue::Tuple(terms),
        } => {
            let columns = columns.iter().map(|name| table.column(name));
            let values: Option<Vec<Vec<u8>>> = terms.iter().map(of).collect();
            Some(Test::Tuple(columns.collect::<Option<_>>()?, *operator, values?))
        }
        _ => None,
    }
}

/// Returns whether each column of the partition key has values of its own.
fn names_whole_keys(table: &TableMetadata, tests: &[Test<'_>]) -> bool {
    table.partition_key().iter().all(|key| {
        tests.iter().any(|test| match test {
            Test::Compare(column, Operator::Equal, _) | Test::OneOf(column, _) => column.id == key.id,
            _ => false,
        })
    })
}

impl Test<'_> {
    fn is_of_partitions(&self) -> bool {
        match self {
            Test::Compare(column, ..) | Test::OneOf(column, _) => column.kind == ColumnKind::PartitionKey,
            Test::Token(..) => true,
            Test::Tuple(..) => false,
        }
    }

    /// Returns whether several partitions are named, whose order in the answer is not modelled.
    fn names_partitions(&self) -> bool {
        matches!(self, Test::OneOf(column, _) if column.kind == ColumnKind::PartitionKey)
    }

    /// `by_key`: partitions are looked up by the bytes of their keys, so that one NaN is not another.
    fn holds(&self, row: &Candidate<'_>, by_key: bool) -> bool {
        let compare = |column: &ColumnMetadata, wanted: &[u8]| {
            let value = row.value(column)?;
            Some(match column.kind {
                ColumnKind::PartitionKey if by_key => value.as_slice().cmp(wanted),
                _ => column.cql_type.compare(&value, wanted),
            })
        };
        match self {
            Test::Compare(column, operator, wanted) => {
                compare(column, wanted).is_some_and(|ordering| holds(*operator, ordering))
            }
            Test::OneOf(column, wanted) => wanted
                .iter()
                .any(|wanted| compare(column, wanted) == Some(Ordering::Equal)),
            Test::Token(operator, token) => holds(*operator, row.partition.token.cmp(token)),
            Test::Tuple(columns, operator, wanted) => {
                let orderings: Option<Vec<Ordering>> = columns
                    .iter()
                    .zip(wanted)
                    .map(|(column, wanted)| compare(column, wanted))
                    .collect();
                orderings.is_some_and(|orderings| {
                    let first = orderings
                        .into_iter()
                        .find(|ordering| *ordering != Ordering::Equal);
                    holds(*operator, first.unwrap_or(Ordering::Equal))
                })
            }
        }
    }
}

impl Candidate<'_> {
    fn value(&self, column: &ColumnMetadata) -> Option<Vec<u8>> {
        let position = usize::from(column.position);
        let row = self.row.and_then(|row| self.partition.rows.get(row));
        match column.kind {
            ColumnKind::PartitionKey => self.partition.key.get(position).cloned(),
            ColumnKind::Clustering => row?.0.get(position).cloned(),
            ColumnKind::Static => self.partition.statics.get(&*column.name).cloned(),
            ColumnKind::Regular => row?.1.get(&*column.name).cloned(),
        }
    }
}
