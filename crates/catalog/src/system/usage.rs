//! Usage of tables, snapshots, caches and queues: the tables by which tools see how a node is used.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use helenus_schema::IndexId;
use uuid::Uuid;

use super::node_state::{ClientConnection, NodeState};
use super::row_writer::{RowWriter, Value};

/// Usage of all shards. Gathered for the tables that show it, and empty for all others.
#[derive(Clone, Debug, Default)]
pub struct NodeUsage {
    pub tables: Vec<TableUsage>,
    pub snapshots: Vec<SnapshotUsage>,
    pub caches: Vec<CacheUsage>,
    pub queues: Vec<QueueUsage>,
    pub statements: Option<StatementUsage>,
    pub clients: Vec<ClientConnection>,
    pub compactions: Vec<PastCompaction>,
    pub slow_queries: Vec<SlowQuery>,
    /// Indexes that do not have all of their table yet.
    pub building_indexes: HashSet<IndexId>,
}

/// A stored table's SSTables.
#[derive(Clone, Debug)]
pub struct TableUsage {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub disk_bytes: u64,
    /// Bytes of the rows, before compression.
    pub data_bytes: u64,
    /// A partition counts once for each SSTable that has a part of it.
    pub partitions: u64,
}

#[derive(Clone, Debug)]
pub struct SnapshotUsage {
    pub name: String,
    pub keyspace: String,
    pub table: String,
    /// In milliseconds since 1970.
    pub created_ms: Option<i64>,
    pub expires_ms: Option<i64>,
    pub bytes: u64,
    /// Bytes that removing it frees.
    pub true_bytes: u64,
}

#[derive(Clone, Debug)]
pub struct CacheUsage {
    pub name: &'static str,
    pub capacity_bytes: u64,
    pub size_bytes: u64,
    pub hits: u64,
    pub requests: u64,
}

/// Queue for which Cassandra has a pool of threads.
#[derive(Clone, Debug)]
pub struct QueueUsage {
    pub name: &'static str,
    pub active: u64,
    pub active_max: u64,
    pub pending: u64,
    pub completed: u64,
}

/// Numbers of statements, for `system_views.cql_metrics`.
#[derive(Clone, Debug)]
pub struct StatementUsage {
    /// Held at the moment.
    pub prepared: u64,
    /// Made room for others, since the start.
    pub evicted: u64,
    pub prepared_executed: u64,
    /// Came as text.
    pub texts_executed: u64,
}

/// A compaction that has ended, for `system.compaction_history`.
#[derive(Clone, Debug)]
pub struct PastCompaction {
    /// A timeuuid.
    pub id: Uuid,
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    /// In milliseconds since 1970.
    pub ended_ms: i64,
    /// On the disk, before and after.
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// How many partitions were made of how many SSTables' parts, by the number of parts.
    pub partitions: BTreeMap<u32, u64>,
    pub kind: &'static str,
}

/// A SELECT that took longer than others, for `system_views.slow_queries`.
#[derive(Clone, Debug)]
pub struct SlowQuery {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    /// The statement, or its beginning.
    pub text: String,
    /// When it was slow last, in milliseconds since 1970.
    pub reported_ms: i64,
    pub min: Duration,
    pub max: Duration,
    /// Time of all that were slow.
    pub total: Duration,
    pub count: u32,
    /// True if another shard than the client's had to execute it.
    pub is_cross_shard: bool,
}

/// The tokens of a node's only range, as text: it begins and ends at the same place of the ring.
fn ring(node: &NodeState) -> String {
    node.tokens.first().copied().unwrap_or(i64::MIN).to_string()
}

fn mean_bytes(table: &TableUsage) -> i64 {
    (table.data_bytes / table.partitions.max(1)).cast_signed()
}

pub(super) fn size_estimates(rows: &mut RowWriter<'_>, node: &NodeState) {
    let ring = ring(node);
    for table in &node.usage.tables {
        rows.row(&[
            ("keyspace_name", Value::Text(&table.keyspace)),
            ("table_name", Value::Text(&table.table)),
            ("range_start", Value::Text(&ring)),
            ("range_end", Value::Text(&ring)),
            ("mean_partition_size", Value::Bigint(mean_bytes(table))),
            ("partitions_count", Value::Bigint(table.partitions.cast_signed())),
        ]);
    }
}

pub(super) fn table_estimates(rows: &mut RowWriter<'_>, node: &NodeState) {
    let ring = ring(node);
    for table in &node.usage.tables {
        for range_type in ["local_primary", "primary"] {
            rows.row(&[
                ("keyspace_name", Value::Text(&table.keyspace)),
                ("table_name", Value::Text(&table.table)),
                ("range_type", Value::Text(range_type)),
                ("range_start", Value::Text(&ring)),
                ("range_end", Value::Text(&ring)),
                ("mean_partition_size", Value::Bigint(mean_bytes(table))),
                ("partitions_count", Value::Bigint(table.partitions.cast_signed())),
            ]);
        }
    }
}

pub(super) fn disk_usage(rows: &mut RowWriter<'_>, node: &NodeState) {
    for table in &node.usage.tables {
        rows.row(&[
            ("keyspace_name", Value::Text(&table.keyspace)),
            ("table_name", Value::Text(&table.table)),
            ("mebibytes", Value::Bigint((table.disk_bytes >> 20).cast_signed())),
        ]);
    }
}

pub(super) fn snapshots(rows: &mut RowWriter<'_>, node: &NodeState) {
    for snapshot in &node.usage.snapshots {
        let mut row = vec![
            ("name", Value::Text(&snapshot.name)),
            ("keyspace_name", Value::Text(&snapshot.keyspace)),
            ("table_name", Value::Text(&snapshot.table)),
            ("ephemeral", Value::Boolean(false)),
            ("size_on_disk", Value::Bigint(snapshot.bytes.cast_signed())),
            ("true_size", Value::Bigint(snapshot.true_bytes.cast_signed())),
        ];
        let times = [
            ("created_at", snapshot.created_ms),
            ("expires_at", snapshot.expires_ms),
        ];
        row.extend(
            times
                .into_iter()
                .filter_map(|(name, ms)| Some((name, Value::Timestamp(ms?)))),
        );
        rows.row(&row);
    }
}

pub(super) fn caches(rows: &mut RowWriter<'_>, node: &NodeState) {
    for cache in &node.usage.caches {
        let ratio = cache.hits as f64 / cache.requests.max(1) as f64;
        rows.row(&[
            ("name", Value::Text(cache.name)),
            (
                "capacity_bytes",
                Value::Bigint(cache.capacity_bytes.cast_signed()),
            ),
            ("hit_count", Value::Bigint(cache.hits.cast_signed())),
            ("hit_ratio", Value::Double(ratio)),
            ("request_count", Value::Bigint(cache.requests.cast_signed())),
            ("size_bytes", Value::Bigint(cache.size_bytes.cast_signed())),
        ]);
    }
}

pub(super) fn cql_metrics(rows: &mut RowWriter<'_>, node: &NodeState) {
    let Some(statements) = &node.usage.statements else {
        return;
    };
    let executed = statements.prepared_executed + statements.texts_executed;
    let metrics = [
        ("prepared_statements_count", statements.prepared as f64),
        ("prepared_statements_evicted", statements.evicted as f64),
        (
            "prepared_statements_executed",
            statements.prepared_executed as f64,
        ),
        (
            "prepared_statements_ratio",
            statements.prepared_executed as f64 / executed.max(1) as f64,
        ),
        ("regular_statements_executed", statements.texts_executed as f64),
    ];
    for (name, value) in metrics {
        rows.row(&[("name", Value::Text(name)), ("value", Value::Double(value))]);
    }
}

pub(super) fn thread_pools(rows: &mut RowWriter<'_>, node: &NodeState) {
    let int = |count: u64| Value::Int(i32::try_from(count).unwrap_or(i32::MAX));
    for queue in &node.usage.queues {
        rows.row(&[
            ("name", Value::Text(queue.name)),
            ("active_tasks", int(queue.active)),
            ("active_tasks_limit", int(queue.active_max)),
            ("blocked_tasks", Value::Bigint(0)),
            ("blocked_tasks_all_time", Value::Bigint(0)),
            ("completed_tasks", Value::Bigint(queue.completed.cast_signed())),
            ("pending_tasks", int(queue.pending)),
        ]);
    }
}

pub(super) fn compaction_history(rows: &mut RowWriter<'_>, node: &NodeState) {
    for compaction in &node.usage.compactions {
        let properties = BTreeMap::from([("compaction_type".to_owned(), compaction.kind.to_owned())]);
        let merged = compaction.partitions.iter().map(|(sources, partitions)| {
            (
                i32::try_from(*sources).unwrap_or(i32::MAX),
                partitions.cast_signed(),
            )
        });
        let merged: BTreeMap<i32, i64> = merged.collect();
        rows.row(&[
            ("id", Value::Uuid(compaction.id)),
            ("bytes_in", Value::Bigint(compaction.bytes_in.cast_signed())),
            ("bytes_out", Value::Bigint(compaction.bytes_out.cast_signed())),
            ("columnfamily_name", Value::Text(&compaction.table)),
            ("compacted_at", Value::Timestamp(compaction.ended_ms)),
            ("compaction_properties", Value::TextMap(&properties)),
            ("keyspace_name", Value::Text(&compaction.keyspace)),
            ("rows_merged", Value::CountMap(&merged)),
        ]);
    }
}

pub(super) fn slow_queries(rows: &mut RowWriter<'_>, node: &NodeState) {
    let ms = |time: Duration| Value::Bigint(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    for slow in &node.usage.slow_queries {
        rows.row(&[
            ("keyspace_name", Value::Text(&slow.keyspace)),
            ("table_name", Value::Text(&slow.table)),
            ("timestamp", Value::Timestamp(slow.reported_ms)),
            ("query", Value::Text(&slow.text)),
            ("avg_ms", ms(slow.total / slow.count.max(1))),
            ("cross_node", Value::Boolean(slow.is_cross_shard)),
            ("max_ms", ms(slow.max)),
            ("min_ms", ms(slow.min)),
            (
                "times_reported",
                Value::Int(i32::try_from(slow.count).unwrap_or(i32::MAX)),
            ),
        ]);
    }
}
