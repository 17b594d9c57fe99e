//! The two tables that are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_rows::clustering::push_component;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Liveness};
use helenus_rows::update::UpdateBuilder;
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, KeyspaceMetadata, Replication, Schema, TableId,
    TableKind, TableMetadata, TableParams,
};
use helenus_types::CqlType;
use uuid::Uuid;

use super::options::Population;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSet {
    /// One partition of all rows: `pk int, ck int, value blob`.
    LargePartition,
    /// Partitions of one row: `pk int, value blob`.
    SmallPartitions,
}

/// The partition of [`DataSet::LargePartition`].
pub const LARGE_PARTITION_KEY: [u8; 4] = 0_i32.to_be_bytes();

/// All rows are written at the same time: what the files' headers make of timestamps is not measured here.
const WRITTEN_AT_US: i64 = 1_700_000_000_000_000;

impl DataSet {
    pub const ALL: [DataSet; 2] = [DataSet::LargePartition, DataSet::SmallPartitions];

    pub fn name(self) -> &'static str {
        match self {
            DataSet::LargePartition => "large-part-ds1",
            DataSet::SmallPartitions => "small-part",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        DataSet::ALL.into_iter().find(|data_set| data_set.name() == name)
    }

    pub fn table(self, population: &Population) -> TableMetadata {
        let int = |name, kind| (name, kind, CqlType::Int);
        let value = ("value", ColumnKind::Regular, CqlType::Blob);
        let (name, id, columns) = match self {
            DataSet::LargePartition => {
                let keys = [
                    int("pk", ColumnKind::PartitionKey),
                    int("ck", ColumnKind::Clustering),
                ];
                ("large_part", 1, [keys.as_slice(), &[value]].concat())
            }
            DataSet::SmallPartitions => ("small_part", 2, vec![int("pk", ColumnKind::PartitionKey), value]),
        };
        let column_count = columns.len();
        let columns = columns.into_iter().enumerate();
        TableMetadata {
            keyspace: KEYSPACE.into(),
            name: name.into(),
            id: TableId(Uuid::from_u128(0x7065_7266_0000_4000_8000_0000_0000_0000 | id)),
            kind: TableKind::Regular,
            columns: columns
                .map(|(id, (name, kind, cql_type))| ColumnMetadata {
                    id: ColumnId(id as u16),
                    name: name.into(),
                    kind,
                    position: 0,
                    cql_type,
                    order: ClusteringOrder::Ascending,
                })
                .collect(),
            partition_key_count: 1,
            clustering_count: (column_count - 2) as u16,
            static_count: 0,
            next_column_id: ColumnId(column_count as u16),
            dropped_columns: Vec::new(),
            indexes: Vec::new(),
            expiration_column: None,
            params: params(population),
        }
    }

    /// The packed write of one row.
    pub fn encode(self, table: &TableMetadata, number: u32, value: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let mut clustering = Vec::new();
        let key = match self {
            DataSet::LargePartition => {
                clustering = clustering_of(i64::from(number));
                LARGE_PARTITION_KEY
            }
            DataSet::SmallPartitions => number.to_be_bytes(),
        };
        let liveness = Liveness {
            timestamp_us: WRITTEN_AT_US,
            ttl_s: 0,
            expires_at_s: NEVER_S,
        };
        let column = ColumnId(table.next_column_id.0 - 1);
        let mut update = UpdateBuilder::new(out, table.id, &key, DeletionTime::LIVE);
        update.row(&clustering, liveness, DeletionTime::LIVE, |row| {
            row.cell(CellRef {
                column,
                timestamp_us: WRITTEN_AT_US,
                ttl_s: 0,
                local_deletion_s: NEVER_S,
                path: None,
                value,
            });
        });
    }
}

const KEYSPACE: &str = "perf";

/// The packed clustering key of a row by its number.
pub fn clustering_of(number: i64) -> Vec<u8> {
    packed(number.saturating_mul(2))
}

/// A key where no row is, right behind the row of that number or where it would be.
pub fn missing_clustering_of(number: i64) -> Vec<u8> {
    packed(number.saturating_mul(2).saturating_add(1))
}

fn packed(key: i64) -> Vec<u8> {
    let mut packed = Vec::new();
    let key = i32::try_from(key).unwrap_or(i32::MAX);
    push_component(&mut packed, &key.to_be_bytes());
    packed
}

/// Both tables, in a keyspace whose writes need no log.
pub fn schema(population: &Population) -> Schema {
    let tables = DataSet::ALL.map(|data_set| Arc::new(data_set.table(population)));
    let keyspace = KeyspaceMetadata {
        name: KEYSPACE.into(),
        durable_writes: false,
        replication: Replication {
            class: "SimpleStrategy".into(),
            options: BTreeMap::new(),
        },
        tables: tables
            .into_iter()
            .map(|table| (Arc::clone(&table.name), table))
            .collect(),
        types: BTreeMap::new(),
        views: BTreeMap::new(),
        is_virtual: false,
    };
    Schema {
        version: 1,
        keyspaces: BTreeMap::from([(Arc::clone(&keyspace.name), Arc::new(keyspace))]),
    }
}

fn params(population: &Population) -> TableParams {
    let mut params = TableParams {
        sstable_format: population.format(),
        ..TableParams::default()
    };
    if !population.with_compression {
        params.compression = BTreeMap::from([("enabled".to_owned(), "false".to_owned())]);
    }
    params
}
