//! Serving a system table like a stored one.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_rows::update::Update;
use helenus_schema::{KeyspaceMetadata, Replication, Schema, TableKind, TableMetadata};
use helenus_sstable::error::ReadError;
use helenus_storage::ShardStore;
use helenus_storage::read::{ReadCommand, ReadSink};
use helenus_storage::store::StoreOptions;

use super::node_state::NodeState;
use super::rows::system_updates;

/// Answers a read of a table that [`is_made_from_code`](helenus_schema::is_made_from_code): its rows are made, put into a store of
/// their own, read by the ordinary path and forgotten. System tables are read when a driver connects or the schema
/// changes, so nothing is kept for the next time.
pub fn read_system_table<S: ReadSink>(
    command: &ReadCommand<'_>,
    schema: &Schema,
    node: &NodeState,
    sink: &mut S,
) -> Result<(), ReadError> {
    let mut updates = Vec::new();
    system_updates(command.table, schema, node, &mut updates);
    let table = Arc::new(TableMetadata {
        kind: TableKind::Regular,
        ..TableMetadata::clone(command.table)
    });
    // The rows exist already; a bound could only lose some of them.
    let options = StoreOptions {
        memtable_bytes_max: usize::MAX,
        ..StoreOptions::default()
    };
    let mut store = ShardStore::in_memory(options, &schema_of(&table));
    for update in &updates {
        // Built above by this process, for a table the store has.
        if let Some(update) = Update::decode_trusted(update) {
            let is_taken = store.apply(&update).is_ok();
            debug_assert!(is_taken, "a store without bounds takes every update of its table");
        }
    }
    let command = ReadCommand {
        table: &table,
        ..command.clone()
    };
    store.read(&command, sink).map(drop)
}

/// A schema of one table.
fn schema_of(table: &Arc<TableMetadata>) -> Schema {
    let keyspace = KeyspaceMetadata {
        name: Arc::clone(&table.keyspace),
        durable_writes: false,
        replication: Replication {
            class: "".into(),
            options: BTreeMap::new(),
        },
        tables: BTreeMap::from([(Arc::clone(&table.name), Arc::clone(table))]),
        types: BTreeMap::new(),
        views: BTreeMap::new(),
        is_virtual: false,
    };
    Schema {
        version: 0,
        keyspaces: BTreeMap::from([(Arc::clone(&keyspace.name), Arc::new(keyspace))]),
    }
}
