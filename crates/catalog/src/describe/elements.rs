//! Elements that DESCRIBE lists: keyspaces, types, tables, their indexes and views, in Cassandra's order.

use std::sync::Arc;

use helenus_schema::{IndexMetadata, KeyspaceMetadata, Schema, TableMetadata, ViewMetadata};
use helenus_types::{CqlType, UserType, quoted_identifier};

use super::create_statement::{
    create_index_statement, create_keyspace_statement, create_table_statement, create_type_statement,
    create_view_statement,
};

/// One row of a description.
#[derive(Clone, Copy)]
pub(super) enum Element<'a> {
    Keyspace(&'a KeyspaceMetadata),
    Type(&'a UserType),
    Table(&'a TableMetadata),
    View(&'a ViewMetadata, &'a TableMetadata),
    Index(&'a IndexMetadata, &'a TableMetadata),
}

impl<'a> Element<'a> {
    /// The values of `keyspace_name`, `type` and `name`.
    pub fn identification(self) -> [String; 3] {
        let (keyspace, kind, name) = match self {
            Element::Keyspace(keyspace) => (&keyspace.name, "keyspace", &keyspace.name),
            Element::Type(user_type) => (&user_type.keyspace, "type", &user_type.name),
            Element::Table(table) => (&table.keyspace, "table", &table.name),
            Element::View(view, table) => (&table.keyspace, "materialized_view", &view.name),
            Element::Index(index, table) => (&table.keyspace, "index", &index.name),
        };
        [
            quoted_identifier(keyspace).into_owned(),
            kind.to_owned(),
            quoted_identifier(name).into_owned(),
        ]
    }

    pub fn create_statement(self, with_internals: bool) -> String {
        match self {
            Element::Keyspace(keyspace) => create_keyspace_statement(keyspace),
            Element::Type(user_type) => create_type_statement(user_type),
            Element::Table(table) => create_table_statement(table, with_internals),
            Element::View(view, table) => create_view_statement(view, table, with_internals),
            Element::Index(index, table) => create_index_statement(index, table),
        }
    }

    pub fn keyspaces(schema: &'a Schema) -> Vec<&'a KeyspaceMetadata> {
        by_name(schema.keyspaces.values().map(Arc::as_ref), |keyspace| {
            &keyspace.name
        })
    }

    pub fn tables(keyspace: &'a KeyspaceMetadata) -> impl Iterator<Item = Element<'a>> {
        by_name(keyspace.base_tables().map(Arc::as_ref), |table| &table.name)
            .into_iter()
            .map(Element::Table)
    }

    /// A table, its indexes and the views of it.
    pub fn with_parts(
        keyspace: &'a KeyspaceMetadata,
        table: &'a TableMetadata,
    ) -> impl Iterator<Item = Element<'a>> {
        let views = keyspace.views_of(table.id).map(Arc::as_ref);
        let views = by_name(views, |view| &view.name).into_iter();
        let views = views.filter_map(|view| Element::view(keyspace, view));
        let indexes = by_name(table.indexes.iter().map(Arc::as_ref), |index| &index.name).into_iter();
        let indexes = indexes.map(|index| Element::Index(index, table));
        [Element::Table(table)].into_iter().chain(indexes).chain(views)
    }

    pub fn view(keyspace: &'a KeyspaceMetadata, view: &'a ViewMetadata) -> Option<Element<'a>> {
        Some(Element::View(view, keyspace.tables.get(&view.name)?))
    }

    pub fn types(keyspace: &'a KeyspaceMetadata) -> impl Iterator<Item = Element<'a>> {
        by_name(keyspace.types.values().map(Arc::as_ref), |user_type| {
            &user_type.name
        })
        .into_iter()
        .map(Element::Type)
    }

    /// The keyspace with everything in it, in an order in which it could be created.
    pub fn whole_keyspace(keyspace: &'a KeyspaceMetadata) -> impl Iterator<Item = Element<'a>> {
        [Element::Keyspace(keyspace)]
            .into_iter()
            .chain(types_in_creation_order(keyspace))
            .chain(
                by_name(tables_of_their_own(keyspace), |table| &table.name)
                    .into_iter()
                    .flat_map(|table| Self::with_parts(keyspace, table)),
            )
    }
}

/// Tables that are made by a statement of their own: logs in use come with their tables.
fn tables_of_their_own(keyspace: &KeyspaceMetadata) -> impl Iterator<Item = &TableMetadata> {
    let tables = keyspace.base_tables().map(Arc::as_ref);
    tables.filter(|table| keyspace.base_of_log(table).is_none())
}

/// Sorts as Cassandra compares names: ignoring case.
fn by_name<'a, T: ?Sized>(items: impl Iterator<Item = &'a T>, name: impl Fn(&T) -> &str) -> Vec<&'a T> {
    let mut items: Vec<&T> = items.collect();
    items.sort_by_key(|item| name(item).to_lowercase());
    items
}

/// Types behind those they are made of, otherwise by name.
fn types_in_creation_order(keyspace: &KeyspaceMetadata) -> impl Iterator<Item = Element<'_>> {
    let mut ordered: Vec<&UserType> = Vec::new();
    for user_type in keyspace.types.values() {
        add_with_parts(keyspace, user_type, &mut ordered);
    }
    ordered.into_iter().map(Element::Type)
}

/// Types cannot refer to themselves, so this ends.
fn add_with_parts<'a>(
    keyspace: &'a KeyspaceMetadata,
    user_type: &'a UserType,
    ordered: &mut Vec<&'a UserType>,
) {
    if ordered.iter().any(|earlier| earlier.name == user_type.name) {
        return;
    }
    for (_, field) in &user_type.fields {
        add_named_types(keyspace, field, ordered);
    }
    ordered.push(user_type);
}

fn add_named_types<'a>(keyspace: &'a KeyspaceMetadata, cql_type: &CqlType, ordered: &mut Vec<&'a UserType>) {
    if let CqlType::UserDefined { definition, .. } = cql_type {
        if let Some(user_type) = keyspace.types.get(&definition.name) {
            add_with_parts(keyspace, user_type, ordered);
        }
        return;
    }
    cql_type
        .sub_types()
        .for_each(|part| add_named_types(keyspace, part, ordered));
}
