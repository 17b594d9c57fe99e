//! The table that the model tests write to: two clustering columns, one of them descending, a static, a collection.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_rows::clustering::push_component;
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, IndexId, IndexKind, IndexMetadata, IndexTarget,
    KeyspaceMetadata, Replication, Schema, TableId, TableKind, TableMetadata, TableParams,
};
use helenus_types::CqlType;
use uuid::Uuid;

pub const PARTITION_KEY: ColumnId = ColumnId(0);
pub const C1: ColumnId = ColumnId(1);
pub const STATIC: ColumnId = ColumnId(3);
pub const NUMBER: ColumnId = ColumnId(4);
pub const MAP: ColumnId = ColumnId(5);
pub const TEXT: ColumnId = ColumnId(6);

/// A clustering key in table order: the second column is negated, because it descends.
pub type Key = (i32, i32);

pub fn schema(params: TableParams) -> Schema {
    schema_of(table(params))
}

/// The same without the static and the collection, whose rows can be known to be complete.
pub fn plain_schema(params: TableParams) -> Schema {
    let mut table = table(params);
    table
        .columns
        .retain(|column| column.id != STATIC && column.id != MAP);
    table.static_count = 0;
    schema_of(table)
}

/// With an index on everything that can have one.
pub fn indexed_schema(params: TableParams) -> Schema {
    let mut table = table(params);
    let indexes = [
        ("pk_idx", PARTITION_KEY, IndexTarget::Simple),
        ("c1_idx", C1, IndexTarget::Simple),
        ("s_idx", STATIC, IndexTarget::Simple),
        ("a_idx", NUMBER, IndexTarget::Simple),
        ("t_idx", TEXT, IndexTarget::Simple),
        ("m_keys", MAP, IndexTarget::Keys),
        ("m_values", MAP, IndexTarget::Values),
        ("m_entries", MAP, IndexTarget::Entries),
    ];
    for (number, (name, column, target)) in (1..).zip(indexes) {
        table.add_index(index(number, name, column, target));
    }
    schema_of(table)
}

pub fn index(number: u128, name: &str, column: ColumnId, target: IndexTarget) -> IndexMetadata {
    IndexMetadata {
        id: IndexId(Uuid::from_u128(number)),
        name: name.into(),
        kind: IndexKind::StorageAttached,
        column,
        target,
        class_name: None,
        options: BTreeMap::new(),
    }
}

pub fn schema_of(table: TableMetadata) -> Schema {
    let table = Arc::new(table);
    let keyspace = KeyspaceMetadata {
        name: "ks".into(),
        durable_writes: true,
        replication: Replication {
            class: "SimpleStrategy".into(),
            options: BTreeMap::new(),
        },
        tables: BTreeMap::from([(Arc::clone(&table.name), table)]),
        types: BTreeMap::new(),
        views: BTreeMap::new(),
        is_virtual: false,
    };
    Schema {
        version: 1,
        keyspaces: BTreeMap::from([(Arc::clone(&keyspace.name), Arc::new(keyspace))]),
    }
}

pub fn table(params: TableParams) -> TableMetadata {
    let map = CqlType::Map {
        key: Arc::new(CqlType::Int),
        value: Arc::new(CqlType::Text),
        frozen: false,
    };
    let columns = [
        (
            "pk",
            ColumnKind::PartitionKey,
            0,
            CqlType::Blob,
            ClusteringOrder::Ascending,
        ),
        (
            "c1",
            ColumnKind::Clustering,
            0,
            CqlType::Int,
            ClusteringOrder::Ascending,
        ),
        (
            "c2",
            ColumnKind::Clustering,
            1,
            CqlType::Int,
            ClusteringOrder::Descending,
        ),
        (
            "s",
            ColumnKind::Static,
            0,
            CqlType::Text,
            ClusteringOrder::Ascending,
        ),
        (
            "a",
            ColumnKind::Regular,
            0,
            CqlType::Int,
            ClusteringOrder::Ascending,
        ),
        ("m", ColumnKind::Regular, 0, map, ClusteringOrder::Ascending),
        (
            "t",
            ColumnKind::Regular,
            0,
            CqlType::Text,
            ClusteringOrder::Ascending,
        ),
    ];
    let columns = columns.into_iter().enumerate();
    TableMetadata {
        keyspace: "ks".into(),
        name: "t".into(),
        id: TableId(Uuid::from_u128(0x1234_5678_0000_1000_8000_0000_0000_0001)),
        kind: TableKind::Regular,
        columns: columns
            .map(|(id, (name, kind, position, cql_type, order))| ColumnMetadata {
                id: ColumnId(id as u16),
                name: name.into(),
                kind,
                position,
                cql_type,
                order,
            })
            .collect(),
        partition_key_count: 1,
        clustering_count: 2,
        static_count: 1,
        next_column_id: ColumnId(7),
        dropped_columns: Vec::new(),
        indexes: Vec::new(),
        expiration_column: None,
        params,
    }
}

/// A complete key has two components, a prefix fewer.
pub fn packed(components: &[i32]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (index, component) in components.iter().enumerate() {
        let component = if index == 1 { -component } else { *component };
        push_component(&mut packed, &component.to_be_bytes());
    }
    packed
}
