//! Keyspaces, and the snapshot of everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_types::UserType;

use crate::{ColumnKind, TableId, TableMetadata, ViewMetadata};

/// Everything that `CREATE` made, as of one version. Immutable; a change makes a new one.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Counts the changes since the data folder was made; a prepared statement of an older version re-checks itself.
    pub version: u64,
    pub keyspaces: BTreeMap<Arc<str>, Arc<KeyspaceMetadata>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeyspaceMetadata {
    pub name: Arc<str>,
    pub durable_writes: bool,
    pub replication: Replication,
    pub tables: BTreeMap<Arc<str>, Arc<TableMetadata>>,
    pub types: BTreeMap<Arc<str>, Arc<UserType>>,
    /// By name; each has a table of that name.
    pub views: BTreeMap<Arc<str>, Arc<ViewMetadata>>,
    /// Served from code, not from storage: `system_views`, `system_virtual_schema`, and here also `system` and
    /// `system_schema`, whose rows are made from the schema and the node's state when they are asked for.
    pub is_virtual: bool,
}

/// The `replication` map as written, `class` included with its full Java name. One node keeps one copy of
/// everything whatever it says; drivers and DESCRIBE need it as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    pub class: Arc<str>,
    pub options: BTreeMap<Arc<str>, Arc<str>>,
}

impl KeyspaceMetadata {
    /// The views of one table, by name.
    pub fn views_of(&self, base: TableId) -> impl Iterator<Item = &Arc<ViewMetadata>> {
        self.views.values().filter(move |view| view.base_id == base)
    }

    /// The table that has the index.
    pub fn table_of_index(&self, index: &str) -> Option<&Arc<TableMetadata>> {
        self.tables.values().find(|table| table.index(index).is_some())
    }

    /// Without the tables of views.
    pub fn base_tables(&self) -> impl Iterator<Item = &Arc<TableMetadata>> {
        self.tables
            .values()
            .filter(|table| !self.views.contains_key(&table.name))
    }
}

impl Schema {
    pub fn view(&self, keyspace: &str, view: &str) -> Option<&Arc<ViewMetadata>> {
        self.keyspaces.get(keyspace)?.views.get(view)
    }

    /// Returns whether the table is a view with a column in its key that is none of its base table's key: then a row of it is
    /// there only as long as that column is.
    pub fn has_strict_liveness(&self, table: &TableMetadata) -> bool {
        let Some(keyspace) = self.keyspaces.get(&table.keyspace) else {
            return false;
        };
        let view = keyspace.views.get(&table.name);
        let Some(base) = view.and_then(|view| keyspace.tables.get(&view.base)) else {
            return false;
        };
        let mut key = table.partition_key().iter().chain(table.clustering());
        key.any(|column| {
            base.column(&column.name)
                .is_some_and(|of_base| of_base.kind == ColumnKind::Regular)
        })
    }

    pub fn keyspace(&self, name: &str) -> Option<&Arc<KeyspaceMetadata>> {
        self.keyspaces.get(name)
    }

    pub fn table(&self, keyspace: &str, table: &str) -> Option<&Arc<TableMetadata>> {
        self.keyspaces.get(keyspace)?.tables.get(table)
    }

    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableMetadata>> {
        self.keyspaces
            .values()
            .flat_map(|keyspace| keyspace.tables.values())
            .find(|table| table.id == id)
    }

    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableMetadata>> {
        self.keyspaces
            .values()
            .flat_map(|keyspace| keyspace.tables.values())
    }

    /// Tables that `other` does not have, by id. Between two versions nearly all keyspaces are the same object and are not
    /// looked into; in the others a table has nearly always kept its name.
    pub fn tables_not_in<'a>(&'a self, other: &'a Schema) -> impl Iterator<Item = &'a Arc<TableMetadata>> {
        let changed = self.keyspaces.iter().filter_map(|(name, keyspace)| {
            let theirs = other.keyspaces.get(name);
            let is_same = theirs.is_some_and(|theirs| Arc::ptr_eq(theirs, keyspace));
            (!is_same).then_some((keyspace, theirs))
        });
        changed.flat_map(move |(keyspace, theirs)| {
            keyspace.tables.values().filter(move |table| {
                let of_name = theirs.and_then(|theirs| theirs.tables.get(&table.name));
                of_name.is_none_or(|of_name| of_name.id != table.id) && other.table_by_id(table.id).is_none()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{ColumnId, TableKind, TableParams};

    fn table(name: &str, id: u128) -> TableMetadata {
        TableMetadata {
            keyspace: "k".into(),
            name: name.into(),
            id: TableId(Uuid::from_u128(id)),
            kind: TableKind::Regular,
            columns: Vec::new(),
            partition_key_count: 0,
            clustering_count: 0,
            static_count: 0,
            next_column_id: ColumnId(0),
            dropped_columns: Vec::new(),
            indexes: Vec::new(),
            expiration_column: None,
            params: TableParams::default(),
        }
    }

    fn keyspace(name: &str, tables: &[(&str, u128)]) -> Arc<KeyspaceMetadata> {
        let tables = tables
            .iter()
            .map(|&(name, id)| (name.into(), Arc::new(table(name, id))));
        Arc::new(KeyspaceMetadata {
            name: name.into(),
            durable_writes: true,
            replication: Replication {
                class: "SimpleStrategy".into(),
                options: BTreeMap::new(),
            },
            tables: tables.collect(),
            types: BTreeMap::new(),
            views: BTreeMap::new(),
            is_virtual: false,
        })
    }

    fn schema(keyspaces: &[&Arc<KeyspaceMetadata>]) -> Schema {
        let keyspaces = keyspaces
            .iter()
            .map(|keyspace| (keyspace.name.clone(), Arc::clone(keyspace)));
        Schema {
            version: 0,
            keyspaces: keyspaces.collect(),
        }
    }

    #[test]
    fn tables_that_another_version_does_not_have_are_told_by_their_ids() {
        let same = keyspace("same", &[("t", 1)]);
        let before = schema(&[
            &same,
            &keyspace("k", &[("kept", 2), ("dropped", 3), ("remade", 4), ("renamed", 5)]),
        ]);
        let after = schema(&[
            &same,
            &keyspace("k", &[("kept", 2), ("remade", 6), ("other_name", 5)]),
        ]);
        let names = |schema: &Schema, other: &Schema| -> Vec<String> {
            schema
                .tables_not_in(other)
                .map(|table| table.name.to_string())
                .collect()
        };
        assert_eq!(names(&before, &after), ["dropped", "remade"]);
        assert_eq!(names(&after, &before), ["remade"]);
        assert_eq!(
            names(&before, &schema(&[])),
            ["dropped", "kept", "remade", "renamed", "t"]
        );
        assert!(names(&before, &before).is_empty());
    }
}
