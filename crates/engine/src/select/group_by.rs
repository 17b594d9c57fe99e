//! GROUP BY: from its selectors to the columns whose values tell groups apart.

use helenus_cql::ast::Select;
use helenus_schema::{ColumnKind, ColumnMetadata};

use super::plan::Grouping;
use crate::CqlError;
use crate::clause::where_clause::WhereClause;
use crate::term::{Expression, RawTerm, Typing};

const DECLARED_ORDER: &str =
    "Group by currently only support groups of columns following their declared order in the PRIMARY KEY";

pub(super) fn grouping(
    typing: &Typing<'_>,
    select: &Select,
    clause: &WhereClause,
) -> Result<Option<Grouping>, CqlError> {
    if select.group_by.is_empty() {
        return Ok(None);
    }
    let table = typing.scope.table;
    let key: Vec<&ColumnMetadata> = table.partition_key().iter().chain(table.clustering()).collect();
    let mut rest = key.as_slice();
    let mut columns = Vec::new();
    let mut has_function = false;
    for selector in &select.group_by {
        if has_function {
            return Err(invalid!(
                "Functions are only supported on the last element of the GROUP BY clause"
            ));
        }
        let (grouped, function) = group_column(typing, &RawTerm::from(selector))?;
        has_function = function.is_some();
        rest = group_up_to(typing, clause, rest, (grouped, function), &mut columns)?;
    }
    let last = key[..key.len() - rest.len()].last();
    if rest
        .first()
        .is_some_and(|column| column.kind == ColumnKind::PartitionKey)
    {
        return Err(invalid!(
            "Group by is not supported on only a part of the partition key"
        ));
    }
    if select.distinct && last.is_some_and(|column| column.kind == ColumnKind::Clustering) {
        return Err(invalid!(
            "Grouping on clustering columns is not allowed for SELECT DISTINCT queries"
        ));
    }
    Ok(Some(Grouping {
        columns,
        partition_key_slots: slots(typing, table.partition_key())?,
        clustering_slots: slots(typing, table.clustering())?,
    }))
}

/// The column that one selector of the clause groups by, and what it makes of it.
fn group_column<'a>(
    typing: &Typing<'a>,
    term: &RawTerm,
) -> Result<(&'a ColumnMetadata, Option<Expression>), CqlError> {
    let RawTerm::Column(name) = term else {
        let (column, expression) = group_function(typing, term)?;
        return Ok((column, Some(expression)));
    };
    let column = typing.column(name)?;
    match column.kind {
        ColumnKind::PartitionKey | ColumnKind::Clustering => Ok((column, None)),
        _ => Err(invalid!(
            "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
            column.name
        )),
    }
}

/// Groups by the key's next columns up to the one that is named: those before it must have one value. Returns the columns
/// behind it.
fn group_up_to<'k, 'a>(
    typing: &Typing<'_>,
    clause: &WhereClause,
    rest: &'k [&'a ColumnMetadata],
    (grouped, function): (&ColumnMetadata, Option<Expression>),
    columns: &mut Vec<Expression>,
) -> Result<&'k [&'a ColumnMetadata], CqlError> {
    let Some(skipped) = rest.iter().position(|column| column.id == grouped.id) else {
        return Err(invalid!("{DECLARED_ORDER}"));
    };
    for column in &rest[..skipped] {
        if !clause.is_equal(column) {
            return Err(invalid!("{DECLARED_ORDER}"));
        }
        columns.push(selected(typing, column)?);
    }
    columns.push(match function {
        Some(function) => function,
        None => selected(typing, grouped)?,
    });
    Ok(&rest[skipped + 1..])
}

fn selected(typing: &Typing<'_>, column: &ColumnMetadata) -> Result<Expression, CqlError> {
    let selected = typing.select(&RawTerm::Column(column.name.to_string()), None)?;
    Ok(selected.expression)
}

/// Where these columns are fetched.
fn slots(typing: &Typing<'_>, columns: &[ColumnMetadata]) -> Result<Vec<usize>, CqlError> {
    let slot = |column: &ColumnMetadata| match selected(typing, column)? {
        Expression::Column(slot) => Ok(slot),
        _ => Ok(0),
    };
    columns.iter().map(slot).collect()
}

/// A function of one clustering column, as GROUP BY allows at its end.
fn group_function<'a>(
    typing: &Typing<'a>,
    term: &RawTerm,
) -> Result<(&'a ColumnMetadata, Expression), CqlError> {
    let mut names = term.column_names();
    let selected = typing.select(term, None)?;
    if let Expression::Aggregate(_) = selected.expression {
        return Err(invalid!(
            "Aggregate functions are not supported within the GROUP BY clause, got: {}",
            selected.name.split('(').next().unwrap_or_default()
        ));
    }
    names.dedup();
    let column = match names.as_slice() {
        [] => {
            return Err(invalid!(
                "GROUP BY functions must have one clustering column name as parameter"
            ));
        }
        [name] => typing.column(name)?,
        _ => {
            return Err(invalid!(
                "GROUP BY functions accept only one clustering column as parameter, got: {}",
                names.join(",")
            ));
        }
    };
    if column.kind != ColumnKind::Clustering {
        return Err(invalid!(
            "Group by functions are only supported on clustering columns, got {}",
            column.name
        ));
    }
    Ok((column, selected.expression))
}
