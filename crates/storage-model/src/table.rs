//! Random tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, DroppedColumn, TableId, TableKind, TableMetadata,
    TableParams,
};
use helenus_types::{CqlType, UserType};
use uuid::Uuid;

use crate::chance::Chance;

/// The keyspace of every random table.
const KEYSPACE: &str = "interchange";
/// How deep types nest, counted from the outside in.
const DEPTH_MAX: u32 = 3;
/// Twenty years, so that nothing deleted is purged while it is compared.
const GC_GRACE_SECONDS: u32 = 630_720_000;

const KEY_NATIVES: [CqlType; 18] = [
    CqlType::Ascii,
    CqlType::Bigint,
    CqlType::Blob,
    CqlType::Boolean,
    CqlType::Date,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Float,
    CqlType::Inet,
    CqlType::Int,
    CqlType::Smallint,
    CqlType::Text,
    CqlType::Time,
    CqlType::Timestamp,
    CqlType::Timeuuid,
    CqlType::Tinyint,
    CqlType::Uuid,
    CqlType::Varint,
];

/// A table and the user types it needs, each after those it uses.
#[derive(Clone, Debug)]
pub struct RandomTable {
    pub user_types: Vec<Arc<UserType>>,
    pub metadata: TableMetadata,
}

/// Demands on a random table beyond chance.
#[derive(Clone, Copy, Debug)]
pub struct TableWish {
    pub partition_key_max: usize,
    /// The fewest and the most columns.
    pub clustering: (usize, usize),
    pub regular_max: usize,
    pub counters: bool,
    /// One blob column is the whole partition key.
    pub blob_key: bool,
}

impl Default for TableWish {
    fn default() -> Self {
        TableWish {
            partition_key_max: 3,
            clustering: (0, 4),
            regular_max: 7,
            counters: false,
            blob_key: false,
        }
    }
}

/// A table of any shape.
pub fn random_table(chance: &Chance, name: &str) -> RandomTable {
    wished_table(chance, name, TableWish::default())
}

/// A table of any shape that the wish allows.
pub fn wished_table(chance: &Chance, name: &str, wish: TableWish) -> RandomTable {
    let user_types = user_types(chance, name);
    let (clustering_min, clustering_max) = wish.clustering;
    let clustering = clustering_min + chance.count(clustering_max - clustering_min + 1);
    let mut columns = Vec::new();
    let partition_key = if wish.blob_key {
        1
    } else {
        1 + chance.count(wish.partition_key_max)
    };
    for position in 0..partition_key {
        let cql_type = if wish.blob_key {
            CqlType::Blob
        } else {
            key_type(chance, &user_types)
        };
        columns.push(column(
            format!("p{position}"),
            ColumnKind::PartitionKey,
            position,
            cql_type,
        ));
    }
    for position in 0..clustering {
        let cql_type = key_type(chance, &user_types);
        let mut column = column(format!("c{position}"), ColumnKind::Clustering, position, cql_type);
        if chance.one_in(3) {
            column.order = ClusteringOrder::Descending;
        }
        columns.push(column);
    }
    let value_type = || {
        if wish.counters {
            CqlType::Counter
        } else {
            cell_type(chance, &user_types)
        }
    };
    if clustering > 0 && chance.one_in(2) {
        for number in 0..1 + chance.count(3) {
            columns.push(column(format!("s{number}"), ColumnKind::Static, 0, value_type()));
        }
    }
    let regular_min = usize::from(wish.counters);
    for number in 0..regular_min + chance.count(wish.regular_max + 1 - regular_min) {
        let name = if chance.one_in(6) {
            format!("Mixed {number}")
        } else {
            format!("v{number}")
        };
        columns.push(column(name, ColumnKind::Regular, 0, value_type()));
    }
    shuffle_ids(chance, &mut columns);
    RandomTable {
        user_types,
        metadata: metadata(chance, name, columns),
    }
}

impl RandomTable {
    /// The same table after one regular column of it was dropped; `None` if it has none that can be.
    pub(crate) fn with_column_dropped(&self, chance: &Chance, dropped_at_us: i64) -> Option<RandomTable> {
        // Cassandra drops no column of a user type that has a cell per field.
        let regulars = self.metadata.regulars().iter();
        let droppable: Vec<_> = regulars
            .filter(|column| !(column.cql_type.is_user_defined() && column.cql_type.is_multi_cell()))
            .collect();
        if droppable.is_empty() {
            return None;
        }
        let gone = (*chance.pick::<&ColumnMetadata>(&droppable)).clone();
        let mut table = self.clone();
        let columns = self.metadata.columns.iter().filter(|column| column.id != gone.id);
        table.metadata.set_columns(columns.cloned().collect());
        table.metadata.dropped_columns.push(DroppedColumn {
            id: gone.id,
            name: gone.name,
            kind: gone.kind,
            cql_type: gone.cql_type.expand_user_types(),
            dropped_at_us,
        });
        Some(table)
    }
}

fn column(name: String, kind: ColumnKind, position: usize, cql_type: CqlType) -> ColumnMetadata {
    ColumnMetadata {
        id: ColumnId(0),
        name: name.into(),
        kind,
        position: position as u16,
        cql_type,
        order: ClusteringOrder::Ascending,
    }
}

/// The order of ids is never that of names by rule.
fn shuffle_ids(chance: &Chance, columns: &mut [ColumnMetadata]) {
    let mut ids: Vec<u16> = (0..columns.len() as u16).collect();
    for last in (1..ids.len()).rev() {
        ids.swap(last, chance.count(last + 1));
    }
    for (column, id) in columns.iter_mut().zip(ids) {
        column.id = ColumnId(id);
    }
}

fn metadata(chance: &Chance, name: &str, columns: Vec<ColumnMetadata>) -> TableMetadata {
    let mut id = [0; 16];
    id.copy_from_slice(&chance.bytes(16));
    let params = TableParams {
        bloom_filter_fp_chance: *chance.pick(&[0.01, 0.01, 0.1, 1.0]),
        compression: compression(chance),
        gc_grace_seconds: GC_GRACE_SECONDS,
        min_index_interval: *chance.pick(&[128, 128, 16, 1]),
        ..TableParams::default()
    };
    metadata_of(name, TableId(Uuid::from_bytes(id)), columns, params)
}

/// A table of the proofs' keyspace; the columns' ids are 0 and up.
pub(crate) fn metadata_of(
    name: &str,
    id: TableId,
    columns: Vec<ColumnMetadata>,
    params: TableParams,
) -> TableMetadata {
    let mut table = TableMetadata {
        keyspace: KEYSPACE.into(),
        name: name.into(),
        id,
        kind: TableKind::Regular,
        columns: Vec::new(),
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        next_column_id: ColumnId(columns.len() as u16),
        dropped_columns: Vec::new(),
        indexes: Vec::new(),
        expiration_column: None,
        params,
    };
    table.set_columns(columns);
    table
}

/// The table option: none, or one of Cassandra's compressors with a chunk length.
fn compression(chance: &Chance) -> BTreeMap<String, String> {
    let compressors = [
        "LZ4Compressor",
        "SnappyCompressor",
        "DeflateCompressor",
        "ZstdCompressor",
    ];
    if chance.one_in(5) {
        return BTreeMap::new();
    }
    let class = format!("org.apache.cassandra.io.compress.{}", chance.pick(&compressors));
    let chunk_kib = chance.pick(&["4", "16", "64"]).to_string();
    let mut options = BTreeMap::from([
        ("class".to_owned(), class),
        ("chunk_length_in_kb".to_owned(), chunk_kib),
    ]);
    if chance.one_in(4) {
        options.insert("min_compress_ratio".to_owned(), "1.5".to_owned());
    }
    options
}

fn user_types(chance: &Chance, table: &str) -> Vec<Arc<UserType>> {
    let mut types: Vec<Arc<UserType>> = Vec::new();
    for number in 0..chance.count(3) {
        let fields = (0..1 + chance.count(4))
            .map(|field| (format!("f{field}").into(), frozen_type(chance, &types, 2, true)))
            .collect();
        types.push(Arc::new(UserType {
            keyspace: KEYSPACE.into(),
            name: format!("{table}_u{number}").into(),
            fields,
        }));
    }
    types
}

/// A type that has an order.
fn key_type(chance: &Chance, user_types: &[Arc<UserType>]) -> CqlType {
    if chance.one_in(6) {
        loop {
            let cql_type = frozen_type(chance, user_types, DEPTH_MAX, false);
            if !cql_type.references_duration() {
                return cql_type;
            }
        }
    }
    chance.pick(&KEY_NATIVES).clone()
}

/// A type of a static or regular column: native, frozen, or with a cell per element.
fn cell_type(chance: &Chance, user_types: &[Arc<UserType>]) -> CqlType {
    let part = |ordered: bool| loop {
        let cql_type = frozen_type(chance, user_types, 1, true);
        if !ordered || !cql_type.references_duration() {
            return cql_type;
        }
    };
    match chance.below(10) {
        0..4 => chance.pick(&KEY_NATIVES).clone(),
        4 => CqlType::Duration,
        5 => CqlType::list(part(false), false),
        6 => CqlType::set(part(true), false),
        7 => CqlType::map(part(true), part(false), false),
        8 if !user_types.is_empty() => CqlType::user_defined(Arc::clone(chance.pick(user_types)), false),
        _ => frozen_type(chance, user_types, DEPTH_MAX, true),
    }
}

/// A type stored as one cell.
fn frozen_type(chance: &Chance, user_types: &[Arc<UserType>], depth: u32, durations: bool) -> CqlType {
    if depth == 0 || chance.one_in(3) {
        return if durations && chance.one_in(12) {
            CqlType::Duration
        } else {
            chance.pick(&KEY_NATIVES).clone()
        };
    }
    let part = |ordered: bool| frozen_type(chance, user_types, depth - 1, durations && !ordered);
    let cql_type = match chance.below(6) {
        0 => CqlType::list(part(false), true),
        1 => CqlType::set(part(true), true),
        2 => CqlType::map(part(true), part(false), true),
        3 => CqlType::tuple((0..1 + chance.count(3)).map(|_| part(false))),
        4 => CqlType::vector(part(false), 1 + chance.below(3) as u32),
        _ => match user_types {
            [] => part(false),
            _ => CqlType::user_defined(Arc::clone(chance.pick(user_types)), true),
        },
    };
    // A user type may hold durations, which sets and map keys cannot.
    if !durations && cql_type.references_duration() {
        return chance.pick(&KEY_NATIVES).clone();
    }
    cql_type
}
