//! Which column of a table says when its row expires: `TTL` behind a column's type, and `ALTER TABLE ... TTL`.

use helenus_cql::ast::ColumnDefinition;
use helenus_engine::CqlError;
use helenus_rows::row::ExpirationColumn;
use helenus_schema::{ColumnKind, ColumnMetadata, TableMetadata};
use helenus_types::quoted_identifier;

use super::guard::qualified_name;

/// Takes over what the columns of a new table say.
pub(super) fn declare(table: &mut TableMetadata, columns: &[ColumnDefinition]) -> Result<(), CqlError> {
    let mut declared = columns.iter().filter(|column| column.is_expiration);
    match (declared.next(), declared.next()) {
        (None, _) => Ok(()),
        (Some(column), None) => designate(table, &column.name),
        (Some(first), Some(second)) => Err(invalid!(
            "Table {} cannot have more than one TTL column: {} and {} are declared as such",
            qualified_name(table),
            quoted_identifier(&first.name),
            quoted_identifier(&second.name)
        )),
    }
}

/// `ALTER TABLE ... TTL column`, or `TTL NULL` where there is no name.
pub(super) fn alter(table: &mut TableMetadata, name: Option<&str>) -> Result<(), CqlError> {
    match name {
        Some(name) => designate(table, name),
        None => take_away(table),
    }
}

/// Makes a column of the table the one that says when its row expires.
pub(super) fn designate(table: &mut TableMetadata, name: &str) -> Result<(), CqlError> {
    let table_name = qualified_name(table);
    let column_name = quoted_identifier(name);
    if let Some(designated) = designated(table) {
        let designated = quoted_identifier(&designated.name);
        return Err(invalid!(
            "Column {column_name} cannot be the TTL column of table {table_name}, which has {designated} as its TTL \
             column; take that away first: ALTER TABLE {table_name} TTL NULL"
        ));
    }
    if table.is_counter() {
        return Err(invalid!(
            "Counter table {table_name} cannot have a TTL column: its rows do not expire"
        ));
    }
    let Some(column) = table.column(name) else {
        return Err(invalid!(
            "Undefined column name {column_name} in table {table_name}"
        ));
    };
    let refused = match column.kind {
        ColumnKind::Regular => None,
        ColumnKind::Static => Some("it is static"),
        ColumnKind::PartitionKey | ColumnKind::Clustering => Some("it is part of the primary key"),
    };
    if let Some(reason) = refused {
        return Err(invalid!(
            "Column {column_name} cannot be the TTL column of table {table_name}: {reason}"
        ));
    }
    if !ExpirationColumn::allows(&column.cql_type) {
        return Err(invalid!(
            "Column {column_name} of type {} cannot be the TTL column of table {table_name}: it must be of type \
             timestamp, bigint or int",
            column.cql_type
        ));
    }
    table.expiration_column = Some(column.id);
    Ok(())
}

fn take_away(table: &mut TableMetadata) -> Result<(), CqlError> {
    if designated(table).is_none() {
        let table_name = qualified_name(table);
        return Err(invalid!(
            "Table {table_name} has no TTL column that could be taken away; ALTER TABLE {table_name} TTL and a column's \
             name gives it one"
        ));
    }
    table.expiration_column = None;
    Ok(())
}

/// A column goes only once it does not say any more when rows expire.
pub(super) fn check_not_designated(table: &TableMetadata, column: &ColumnMetadata) -> Result<(), CqlError> {
    if table.expiration_column != Some(column.id) {
        return Ok(());
    }
    Err(invalid!(
        "Cannot drop column {} of table {name}: it is the TTL column; take that away first: ALTER TABLE {name} TTL NULL",
        quoted_identifier(&column.name),
        name = qualified_name(table)
    ))
}

fn designated(table: &TableMetadata) -> Option<&ColumnMetadata> {
    table.column_by_id(table.expiration_column?)
}
