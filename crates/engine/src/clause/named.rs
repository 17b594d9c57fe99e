//! Names in a WHERE clause besides columns: the partition key's token, and indexes.

use helenus_cql::ast::QualifiedName;
use helenus_schema::{IndexKind, TableMetadata};

use crate::CqlError;
use crate::term::Typing;

/// `expr(index, value)`, which none of the indexes there are takes.
pub(crate) fn check_expressions(
    table: &TableMetadata,
    expressions: &[&QualifiedName],
) -> Result<(), CqlError> {
    let name = match expressions {
        [] => return Ok(()),
        [index] => &index.name,
        _ => {
            return Err(invalid!(
                "Multiple custom index expressions in a single query are not supported"
            ));
        }
    };
    Err(match table.index(name).map(|index| index.kind) {
        None => invalid!(
            "Invalid index expression, index {name} not found for {}.{}",
            table.keyspace,
            table.name
        ),
        Some(IndexKind::Legacy) => {
            invalid!("Only CUSTOM indexes may be used in custom index expressions, {name} is not valid")
        }
        Some(IndexKind::StorageAttached) => invalid!("Index {name} does not support custom expressions"),
    })
}

pub(crate) fn check_token_columns(typing: &Typing<'_>, names: &[String]) -> Result<(), CqlError> {
    let key = typing.scope.table.partition_key();
    let columns = names
        .iter()
        .map(|name| typing.column(name))
        .collect::<Result<Vec<_>, _>>()?;
    if columns
        .iter()
        .map(|column| column.id)
        .eq(key.iter().map(|column| column.id))
    {
        return Ok(());
    }
    if !key
        .iter()
        .all(|column| columns.iter().any(|other| other.id == column.id))
    {
        return Err(invalid!(
            "The token() function must be applied to all partition key components or none of them"
        ));
    }
    let is_repeated = |index: usize| columns[..index].iter().any(|other| other.id == columns[index].id);
    if (0..columns.len()).any(is_repeated) {
        return Err(invalid!(
            "The token() function contains duplicate partition key components"
        ));
    }
    if columns.len() > key.len() {
        return Err(invalid!(
            "The token() function must contains only partition key components"
        ));
    }
    let order = key
        .iter()
        .map(|column| &*column.name)
        .collect::<Vec<_>>()
        .join(", ");
    Err(invalid!(
        "The token function arguments must be in the partition key order: {order}"
    ))
}
