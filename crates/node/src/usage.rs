//! Usage of the node's tables, snapshots, caches and queues, and its configuration, for the system tables that show them.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use helenus_catalog::system::{
    CacheUsage, ClientConnection, NodeUsage, PARTITIONER, PastCompaction, QueueUsage, SlowQuery,
    SnapshotUsage, StatementUsage, TableUsage,
};
use helenus_schema::{IndexId, TableKind, TableMetadata};
use helenus_storage::store::{CompactionRecord, IndexStatus};
use helenus_tools::host::TableChoice;
use helenus_tools::snapshot::{SnapshotInfo, list};
use helenus_tools::times::us_of_instant;

use crate::compaction::job_id;
use crate::metrics::MetricsSnapshot;
use crate::node::concurrent_compactors;
use crate::options::{CommitlogSync, NodeOptions};
use crate::schema_change::SCHEMA_OWNER;
use crate::shard::Shard;
use crate::slow_queries;

/// Every shard has the same prepared statements.
fn statement_usage(shards: &[MetricsSnapshot]) -> StatementUsage {
    let of_one = |of: fn(&MetricsSnapshot) -> u64| shards.iter().map(of).max().unwrap_or(0);
    let of_all = |of: fn(&MetricsSnapshot) -> u64| shards.iter().map(of).sum();
    StatementUsage {
        prepared: of_one(|shard| shard.prepared_statements),
        evicted: of_one(|shard| shard.prepared_statements_evicted),
        prepared_executed: of_all(|shard| shard.prepared_executed),
        texts_executed: of_all(|shard| shard.texts_executed),
    }
}

impl Shard {
    /// Collects the usage that one table shows, and nothing besides: each fact costs a question to every shard, or the disk.
    pub(crate) async fn usage_for(
        self: &Rc<Self>,
        table: &TableMetadata,
        shards: &[MetricsSnapshot],
    ) -> NodeUsage {
        let mut usage = NodeUsage::default();
        match &*table.name {
            "size_estimates" | "table_estimates" | "disk_usage" => usage.tables = self.tables_usage().await,
            "IndexInfo" | "sai_column_indexes" => usage.building_indexes = self.building_indexes().await,
            "snapshots" => usage.snapshots = self.snapshots_usage().await,
            "clients" => usage.clients = self.client_connections().await,
            "slow_queries" => usage.slow_queries = self.slow_queries().await,
            "compaction_history" => usage.compactions = self.past_compactions().await,
            "caches" => usage.caches = self.caches_usage(shards),
            "cql_metrics" => usage.statements = Some(statement_usage(shards)),
            "thread_pools" => usage.queues = self.queues_usage(shards),
            _ => {}
        }
        usage
    }

    async fn tables_usage(self: &Rc<Self>) -> Vec<TableUsage> {
        let schema = self.schema();
        let stored = schema.tables().filter(|table| table.kind == TableKind::Regular);
        let mut all: Vec<_> = stored
            .map(|table| {
                let usage = TableUsage {
                    keyspace: table.keyspace.clone(),
                    table: table.name.clone(),
                    disk_bytes: 0,
                    data_bytes: 0,
                    partitions: 0,
                };
                (table.id, usage)
            })
            .collect();
        let ids: Vec<_> = all.iter().map(|(id, _)| *id).collect();
        let of_shards = self.on_all_shards(move |shard| {
            let store = shard.store.borrow();
            ids.iter().map(|id| store.sstables(*id)).collect::<Vec<_>>()
        });
        // One that has stopped has nothing to tell.
        for sstables in of_shards.await.into_iter().flatten() {
            for ((_, usage), sstables) in all.iter_mut().zip(sstables) {
                for sstable in sstables {
                    usage.disk_bytes += sstable.disk_bytes();
                    usage.data_bytes += sstable.data_bytes();
                    usage.partitions += sstable.statistics().partition_count();
                }
            }
        }
        all.into_iter().map(|(_, usage)| usage).collect()
    }

    async fn building_indexes(self: &Rc<Self>) -> HashSet<IndexId> {
        let of_shards = self.on_all_shards(|shard| {
            let (schema, mut store) = (shard.schema(), shard.store.borrow_mut());
            let indexes = schema
                .tables()
                .flat_map(|table| table.indexes.iter().map(|index| (table.id, index.id)));
            let building = indexes
                .filter(|(table, index)| store.index_status(*table, *index) == Some(IndexStatus::Building));
            building.map(|(_, index)| index).collect::<Vec<_>>()
        });
        of_shards.await.into_iter().flatten().flatten().collect()
    }

    async fn client_connections(self: &Rc<Self>) -> Vec<ClientConnection> {
        let of_shards = self.on_all_shards(|shard| {
            shard
                .clients
                .list(shard.context.options.authenticator.class().is_some())
        });
        of_shards.await.into_iter().flatten().flatten().collect()
    }

    async fn slow_queries(self: &Rc<Self>) -> Vec<SlowQuery> {
        let listed = self.on_all_shards(|shard| shard.context.slow_queries.list());
        slow_queries::of_shards(listed.await.into_iter().flatten())
    }

    async fn past_compactions(self: &Rc<Self>) -> Vec<PastCompaction> {
        let of_shards = self.on_all_shards(|shard| {
            let store = shard.store.borrow();
            let records = store.compaction_history().records();
            records.map(past_compaction).collect::<Vec<_>>()
        });
        of_shards.await.into_iter().flatten().flatten().collect()
    }

    async fn snapshots_usage(self: &Rc<Self>) -> Vec<SnapshotUsage> {
        let found = self.call_async(SCHEMA_OWNER, |owner| async move { owner.list_snapshots().await });
        let found = found.await.unwrap_or_default();
        found.into_iter().map(snapshot_usage).collect()
    }

    /// Empty where there are none, or where they cannot be listed just now.
    async fn list_snapshots(&self) -> Vec<SnapshotInfo> {
        let data = self.store.borrow().data_folder().cloned();
        let (Some(worker), Some(data)) = (self.snapshots(), data) else {
            return Vec::new();
        };
        let listed =
            worker.run(move || list(&**data.disk(), &data.data_folder(), &TableChoice::default(), None));
        match listed.await {
            Ok(Some(Ok(found))) => found,
            _ => Vec::new(),
        }
    }

    fn caches_usage(&self, shards: &[MetricsSnapshot]) -> Vec<CacheUsage> {
        let sum = |of: fn(&MetricsSnapshot) -> u64| shards.iter().map(of).sum::<u64>();
        let chunk_hits = sum(|shard| shard.read_cost.index_hits + shard.read_cost.cache_hits);
        let chunk_misses = sum(|shard| shard.read_cost.index_misses + shard.read_cost.cache_misses);
        let row_hits = sum(|shard| shard.row_cache.hits);
        vec![
            CacheUsage {
                name: "chunks",
                capacity_bytes: sum(|shard| shard.page_cache_bytes_max),
                size_bytes: sum(|shard| shard.page_cache_bytes + shard.packed_page_cache_bytes),
                hits: chunk_hits,
                requests: chunk_hits + chunk_misses,
            },
            CacheUsage {
                name: "rows",
                capacity_bytes: sum(|shard| shard.row_cache_bytes_max),
                size_bytes: sum(|shard| shard.row_cache_bytes),
                hits: row_hits,
                requests: row_hits + sum(|shard| shard.row_cache.misses),
            },
        ]
    }

    /// Shards have no pools of threads; these have the work that Cassandra's pools of these names have.
    fn queues_usage(&self, shards: &[MetricsSnapshot]) -> Vec<QueueUsage> {
        let sum = |of: fn(&MetricsSnapshot) -> u64| shards.iter().map(of).sum::<u64>();
        vec![
            QueueUsage {
                name: "CompactionExecutor",
                active: sum(|shard| shard.compactions.running.len() as u64),
                active_max: concurrent_compactors(&self.context.options) as u64,
                pending: sum(|shard| {
                    let tables = shard.compactions.pending.iter();
                    tables.map(|table| (table.requested + table.tasks) as u64).sum()
                }),
                completed: sum(|shard| shard.compactions.totals.completed),
            },
            QueueUsage {
                name: "Native-Transport-Requests",
                // A shard does one thing at a time; this request is what one of them does.
                active: 1,
                active_max: u64::from(self.context.options.shard_count),
                pending: 0,
                completed: sum(|shard| shard.requests.iter().sum()),
            },
        ]
    }

    /// The configuration in force, by cassandra.yaml's names.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let options = &*self.context.options;
        let ms = |duration: Duration| format!("{}ms", duration.as_millis());
        let authenticator = options
            .authenticator
            .class()
            .unwrap_or("org.apache.cassandra.auth.AllowAllAuthenticator");
        let address = options.advertised_address;
        let mut settings = vec![
            ("authenticator", authenticator.to_owned()),
            (
                "authorizer",
                "org.apache.cassandra.auth.AllowAllAuthorizer".to_owned(),
            ),
            ("auto_snapshot", options.auto_snapshot.to_string()),
            ("cluster_name", options.cluster_name.clone()),
            (
                "column_index_size",
                format!("{}KiB", options.column_index_bytes >> 10),
            ),
            (
                "compaction_throughput",
                format!("{}MiB/s", options.compaction.bytes_per_s_max >> 20),
            ),
            (
                "concurrent_compactors",
                concurrent_compactors(options).to_string(),
            ),
            (
                "data_file_directories",
                format!("[{}]", options.data_folder.display()),
            ),
            ("native_transport_port", address.port().to_string()),
            ("num_tokens", "1".to_owned()),
            ("partitioner", PARTITIONER.to_owned()),
            ("range_request_timeout", ms(options.range_request_timeout)),
            ("read_request_timeout", ms(options.read_request_timeout)),
            (
                "role_manager",
                "org.apache.cassandra.auth.CassandraRoleManager".to_owned(),
            ),
            ("rpc_address", address.ip().to_string()),
            (
                "slow_query_log_timeout",
                whole_duration(options.slow_query_log_timeout.unwrap_or_default()),
            ),
            ("tombstone_failure_threshold", options.tombstones.fail.to_string()),
            ("tombstone_warn_threshold", options.tombstones.warn.to_string()),
            ("truncate_request_timeout", ms(options.truncate_request_timeout)),
            ("write_request_timeout", ms(options.write_request_timeout)),
        ];
        settings.extend(log_settings(options));
        settings.extend(
            options
                .auto_snapshot_ttl
                .map(|ttl| ("auto_snapshot_ttl", ms(ttl))),
        );
        settings
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

fn log_settings(options: &NodeOptions) -> Vec<(&'static str, String)> {
    let (sync, period) = match options.commitlog_sync {
        CommitlogSync::Group => ("group", None),
        CommitlogSync::Batch => ("batch", None),
        CommitlogSync::Periodic { period } => ("periodic", Some(format!("{}ms", period.as_millis()))),
    };
    let kib = options.commitlog_segment_bytes >> 10;
    let segment = match kib.is_multiple_of(1024) {
        true => format!("{}MiB", kib >> 10),
        false => format!("{kib}KiB"),
    };
    let mut settings = vec![
        ("commitlog_segment_size", segment),
        ("commitlog_sync", sync.to_owned()),
    ];
    settings.extend(period.map(|period| ("commitlog_sync_period", period)));
    settings
}

/// A duration in the largest unit, as the configuration file knows them, that tells all of it.
fn whole_duration(duration: Duration) -> String {
    match duration.subsec_micros().is_multiple_of(1_000) {
        true => format!("{}ms", duration.as_millis()),
        false => format!("{}us", duration.as_micros()),
    }
}

fn past_compaction(record: &CompactionRecord) -> PastCompaction {
    PastCompaction {
        id: job_id(record.number, record.started_at_us),
        keyspace: record.keyspace.clone(),
        table: record.table.clone(),
        ended_ms: record.ended_at_us / 1_000,
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        partitions: record.partitions.clone(),
        kind: record.kind,
    }
}

fn snapshot_usage(snapshot: SnapshotInfo) -> SnapshotUsage {
    let ms = |instant: Option<String>| Some(us_of_instant(&instant?)? / 1_000);
    SnapshotUsage {
        name: snapshot.name,
        keyspace: snapshot.keyspace,
        table: snapshot.table,
        created_ms: ms(snapshot.created_at),
        expires_ms: ms(snapshot.expires_at),
        bytes: snapshot.bytes,
        true_bytes: snapshot.true_bytes,
    }
}
