//! Keyspaces, and the snapshot of everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_types::UserType;

use crate::{TableId, TableMetadata};

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

impl Schema {
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
}
