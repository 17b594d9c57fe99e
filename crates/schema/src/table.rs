//! Tables, columns and table options.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use helenus_types::CqlType;
use uuid::Uuid;

use crate::{ChangeLogOptions, IndexMetadata, SsTableFormat};

/// Identifies a table for its whole life, through renames of columns and restarts; a dropped and re-created table
/// has another one. Part of the data folder's name, as in Cassandra.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub Uuid);

/// Names a column inside stored rows. Given out once per name in a table, so that a row written before an `ALTER TABLE` means the
/// same after it: a column that is dropped and added again is the same, and sees what is newer than its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ColumnKind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusteringOrder {
    Ascending,
    Descending,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMetadata {
    pub id: ColumnId,
    pub name: Arc<str>,
    pub kind: ColumnKind,
    /// Index within the partition key or the clustering key; 0 for static and regular columns.
    pub position: u16,
    pub cql_type: CqlType,
    /// `Ascending` for everything but clustering columns.
    pub order: ClusteringOrder,
}

/// A column that `ALTER TABLE ... DROP` removed. Cells of it that are not newer than `dropped_at_us` are to be
/// ignored, also when the column is there again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    pub id: ColumnId,
    pub name: Arc<str>,
    pub kind: ColumnKind,
    pub cql_type: CqlType,
    /// Microseconds since the Unix epoch.
    pub dropped_at_us: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    Regular,
    Virtual,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableMetadata {
    pub keyspace: Arc<str>,
    pub name: Arc<str>,
    pub id: TableId,
    pub kind: TableKind,
    /// Partition key in key order, then clustering in key order, then statics and regulars, each sorted by name:
    /// the order of `SELECT *`.
    pub columns: Vec<ColumnMetadata>,
    pub partition_key_count: u16,
    pub clustering_count: u16,
    pub static_count: u16,
    /// The id that the next added column gets.
    pub next_column_id: ColumnId,
    pub dropped_columns: Vec<DroppedColumn>,
    /// In the order of their names.
    pub indexes: Vec<Arc<IndexMetadata>>,
    /// A regular column that says when its row expires.
    pub expiration_column: Option<ColumnId>,
    pub params: TableParams,
}

/// How many requests a second one partition is served at most, by kind; a kind without a number is not limited. Applies
/// to what names its partitions, not to range scans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerPartitionRateLimit {
    pub max_reads_per_second: Option<NonZeroU32>,
    pub max_writes_per_second: Option<NonZeroU32>,
}

/// Table options, under Cassandra's names; [`Default`] gives Cassandra 5.0's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct TableParams {
    pub additional_write_policy: String,
    pub allow_auto_snapshot: bool,
    pub bloom_filter_fp_chance: f64,
    pub caching: BTreeMap<String, String>,
    /// Cassandra's `cdc = true`, which nothing comes of on this node.
    pub cdc: bool,
    /// ScyllaDB's `cdc = {...}`: the table has a log; none if `None`.
    pub change_log: Option<ChangeLogOptions>,
    pub comment: String,
    pub compaction: BTreeMap<String, String>,
    pub compression: BTreeMap<String, String>,
    pub crc_check_chance: f64,
    /// Seconds; 0 is none.
    pub default_time_to_live: u32,
    pub extensions: BTreeMap<String, Vec<u8>>,
    pub gc_grace_seconds: u32,
    pub incremental_backups: bool,
    pub max_index_interval: u32,
    pub memtable: String,
    pub memtable_flush_period_in_ms: u32,
    pub min_index_interval: u32,
    /// ScyllaDB's; none if `None`.
    pub per_partition_rate_limit: Option<PerPartitionRateLimit>,
    pub read_repair: String,
    pub speculative_retry: String,
    /// Ours: the version that this table's SSTables are written in; the node's if `None`.
    pub sstable_format: Option<SsTableFormat>,
}

impl PerPartitionRateLimit {
    pub const MAX_READS: &str = "max_reads_per_second";
    pub const MAX_WRITES: &str = "max_writes_per_second";

    /// The option as CQL has it.
    pub fn options(&self) -> BTreeMap<String, String> {
        let numbers = [
            (Self::MAX_READS, self.max_reads_per_second),
            (Self::MAX_WRITES, self.max_writes_per_second),
        ];
        numbers
            .into_iter()
            .filter_map(|(name, number)| Some((name.to_owned(), number?.to_string())))
            .collect()
    }
}

impl TableMetadata {
    pub fn partition_key(&self) -> &[ColumnMetadata] {
        &self.columns[..usize::from(self.partition_key_count)]
    }

    pub fn clustering(&self) -> &[ColumnMetadata] {
        let start = usize::from(self.partition_key_count);
        &self.columns[start..start + usize::from(self.clustering_count)]
    }

    pub fn statics(&self) -> &[ColumnMetadata] {
        let start = usize::from(self.partition_key_count) + usize::from(self.clustering_count);
        &self.columns[start..start + usize::from(self.static_count)]
    }

    pub fn regulars(&self) -> &[ColumnMetadata] {
        let start = usize::from(self.partition_key_count)
            + usize::from(self.clustering_count)
            + usize::from(self.static_count);
        &self.columns[start..]
    }

    pub fn column(&self, name: &str) -> Option<&ColumnMetadata> {
        let key_columns = usize::from(self.partition_key_count) + usize::from(self.clustering_count);
        let of_key = self.columns[..key_columns]
            .iter()
            .find(|column| &*column.name == name);
        // The others are in the order of their names, static ones and regular ones.
        of_key.or_else(|| {
            [self.statics(), self.regulars()].into_iter().find_map(|columns| {
                let found = columns.binary_search_by(|column| (*column.name).cmp(name));
                Some(&columns[found.ok()?])
            })
        })
    }

    pub fn column_by_id(&self, id: ColumnId) -> Option<&ColumnMetadata> {
        self.columns.iter().find(|column| column.id == id)
    }

    /// Replaces the columns, restoring the order and the counts that the fields promise. Positions within the keys
    /// must be right already.
    pub fn set_columns(&mut self, mut columns: Vec<ColumnMetadata>) {
        columns.sort_by(|left, right| {
            (left.kind, left.position, &left.name).cmp(&(right.kind, right.position, &right.name))
        });
        let count = |kind: ColumnKind| columns.iter().filter(|column| column.kind == kind).count() as u16;
        self.partition_key_count = count(ColumnKind::PartitionKey);
        self.clustering_count = count(ColumnKind::Clustering);
        self.static_count = count(ColumnKind::Static);
        self.columns = columns;
    }

    /// Returns whether this is a table of counters. It stays one when its last counter is dropped.
    pub fn is_counter(&self) -> bool {
        let present = self.columns.iter().map(|column| &column.cql_type);
        let dropped = self.dropped_columns.iter().map(|column| &column.cql_type);
        present
            .chain(dropped)
            .any(|cql_type| *cql_type == CqlType::Counter)
    }
}

impl Default for TableParams {
    fn default() -> Self {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()))
                .collect()
        };
        TableParams {
            additional_write_policy: "99p".to_owned(),
            allow_auto_snapshot: true,
            bloom_filter_fp_chance: 0.01,
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            cdc: false,
            change_log: None,
            comment: String::new(),
            compaction: map(&[
                (
                    "class",
                    "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
                ),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
            compression: map(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
            crc_check_chance: 1.0,
            default_time_to_live: 0,
            extensions: BTreeMap::new(),
            gc_grace_seconds: 864_000,
            incremental_backups: true,
            max_index_interval: 2048,
            memtable: "default".to_owned(),
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            per_partition_rate_limit: None,
            read_repair: "BLOCKING".to_owned(),
            speculative_retry: "99p".to_owned(),
            sstable_format: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_kept_in_the_order_of_select_star() {
        let column = |id: u16, name: &str, kind: ColumnKind, position: u16| ColumnMetadata {
            id: ColumnId(id),
            name: name.into(),
            kind,
            position,
            cql_type: CqlType::Int,
            order: ClusteringOrder::Ascending,
        };
        let mut table = TableMetadata {
            keyspace: "ks".into(),
            name: "t".into(),
            id: TableId(Uuid::nil()),
            kind: TableKind::Regular,
            columns: Vec::new(),
            partition_key_count: 0,
            clustering_count: 0,
            static_count: 0,
            next_column_id: ColumnId(6),
            dropped_columns: Vec::new(),
            indexes: Vec::new(),
            expiration_column: None,
            params: TableParams::default(),
        };
        table.set_columns(vec![
            column(0, "b", ColumnKind::Regular, 0),
            column(1, "a", ColumnKind::Regular, 0),
            column(2, "s", ColumnKind::Static, 0),
            column(3, "a_second", ColumnKind::PartitionKey, 1),
            column(4, "z_first", ColumnKind::PartitionKey, 0),
            column(5, "c", ColumnKind::Clustering, 0),
        ]);
        let names = |columns: &[ColumnMetadata]| {
            columns
                .iter()
                .map(|column| column.name.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(names(table.partition_key()), "z_first a_second");
        assert_eq!(names(table.clustering()), "c");
        assert_eq!(names(table.statics()), "s");
        assert_eq!(names(table.regulars()), "a b");
    }
}
