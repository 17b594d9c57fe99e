//! `schema.cql`: the statements that make a table, as Cassandra puts them beside the files of a snapshot.

use helenus_catalog::describe::{
    create_index_statement, create_table_statement, create_type_statement, create_view_statement,
};
use helenus_schema::{KeyspaceMetadata, TableMetadata};
use helenus_types::{CqlType, UserType};

pub(crate) const SCHEMA_FILE: &str = "schema.cql";

/// The types that a table needs, then the table with its id, then the columns that it lost, then its indexes.
pub(crate) fn schema_text(keyspace: &KeyspaceMetadata, table: &TableMetadata) -> String {
    let mut types: Vec<&UserType> = Vec::new();
    for column in &table.columns {
        add_types(keyspace, &column.cql_type, &mut types);
    }
    let mut text = String::new();
    for user_type in types {
        text.push_str(&if_not_exists(&create_type_statement(user_type), "CREATE TYPE "));
        text.push_str("\n\n");
    }
    text.push_str(&match keyspace.views.get(&table.name) {
        Some(view) => if_not_exists(
            &create_view_statement(view, table, true),
            "CREATE MATERIALIZED VIEW ",
        ),
        None => if_not_exists(&create_table_statement(table, true), "CREATE TABLE "),
    });
    text.push('\n');
    for index in &table.indexes {
        let statement = create_index_statement(index, table);
        let head = match index.class_name {
            Some(_) => "CREATE CUSTOM INDEX ",
            None => "CREATE INDEX ",
        };
        text.push('\n');
        text.push_str(&if_not_exists(&statement, head));
        text.push('\n');
    }
    text
}

fn if_not_exists(statement: &str, head: &str) -> String {
    match statement.strip_prefix(head) {
        Some(rest) => format!("{head}IF NOT EXISTS {rest}"),
        None => statement.to_owned(),
    }
}

/// Types behind those they are made of.
fn add_types<'a>(keyspace: &'a KeyspaceMetadata, cql_type: &CqlType, found: &mut Vec<&'a UserType>) {
    if let CqlType::UserDefined { definition, .. } = cql_type {
        let Some(user_type) = keyspace.types.get(&definition.name) else {
            return;
        };
        if found.iter().any(|known| known.name == user_type.name) {
            return;
        }
        for (_, field) in &user_type.fields {
            add_types(keyspace, field, found);
        }
        found.push(user_type);
        return;
    }
    cql_type
        .sub_types()
        .for_each(|part| add_types(keyspace, part, found));
}
