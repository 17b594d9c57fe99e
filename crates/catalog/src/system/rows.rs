//! Which generator makes the rows of which table.

use helenus_schema::{Schema, TableMetadata};

use super::node_state::NodeState;
use super::row_writer::RowWriter;
use super::{index_rows, local_rows, schema_rows, usage, view_rows};

/// Appends every row of a table that [`is_made_from_code`](helenus_schema::is_made_from_code) as a packed update. Tables that
/// describe what does not exist here (peers, repairs, hints...) have no rows.
pub(crate) fn system_updates(
    table: &TableMetadata,
    schema: &Schema,
    node: &NodeState,
    out: &mut Vec<Vec<u8>>,
) {
    let mut rows = RowWriter::new(table, node.now_us, out);
    match (&*table.keyspace, &*table.name) {
        ("system", "local") => local_rows::local(&mut rows, node),
        ("system_schema", "keyspaces") => schema_rows::keyspaces(&mut rows, schema),
        ("system_schema", "tables") => schema_rows::tables(&mut rows, schema),
        ("system_schema", "columns") => schema_rows::columns(&mut rows, schema),
        ("system_schema", "dropped_columns") => schema_rows::dropped_columns(&mut rows, schema),
        ("system", "IndexInfo") => index_rows::built(&mut rows, schema, node),
        ("system_views", "sai_column_indexes") => index_rows::attached(&mut rows, schema, node),
        ("system_schema", "indexes") => schema_rows::indexes(&mut rows, schema),
        ("system_schema", "views") => schema_rows::views(&mut rows, schema),
        ("system_schema", "types") => schema_rows::types(&mut rows, schema),
        ("system_virtual_schema", "keyspaces") => schema_rows::virtual_keyspaces(&mut rows, schema),
        ("system_virtual_schema", "tables") => schema_rows::virtual_tables(&mut rows, schema),
        ("system_virtual_schema", "columns") => schema_rows::virtual_columns(&mut rows, schema),
        ("system_views", "clients") => view_rows::clients(&mut rows, node),
        ("system_views", "settings") => view_rows::settings(&mut rows, node),
        ("system", "compaction_history") => usage::compaction_history(&mut rows, node),
        ("system", "size_estimates") => usage::size_estimates(&mut rows, node),
        ("system", "table_estimates") => usage::table_estimates(&mut rows, node),
        ("system_views", "caches") => usage::caches(&mut rows, node),
        ("system_views", "cql_metrics") => usage::cql_metrics(&mut rows, node),
        ("system_views", "disk_usage") => usage::disk_usage(&mut rows, node),
        ("system_views", "slow_queries") => usage::slow_queries(&mut rows, node),
        ("system_views", "snapshots") => usage::snapshots(&mut rows, node),
        ("system_views", "thread_pools") => usage::thread_pools(&mut rows, node),
        ("system_views", "sstable_tasks") => view_rows::sstable_tasks(&mut rows, node),
        ("system_views", "hot_partitions") => view_rows::hot_partitions(&mut rows, node),
        ("system_views", "node_metrics") => view_rows::node_metrics(&mut rows, node),
        _ => {}
    }
}

/// Returns whether a table's rows are of all shards of the node, so that whoever reads it has to ask them.
pub fn is_of_all_shards(table: &TableMetadata) -> bool {
    match &*table.keyspace {
        "system" => matches!(
            &*table.name,
            "IndexInfo" | "compaction_history" | "size_estimates" | "table_estimates"
        ),
        "system_views" => matches!(
            &*table.name,
            "caches"
                | "clients"
                | "cql_metrics"
                | "disk_usage"
                | "hot_partitions"
                | "node_metrics"
                | "sai_column_indexes"
                | "slow_queries"
                | "snapshots"
                | "thread_pools"
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use helenus_rows::update::Update;
    use helenus_schema::is_made_from_code;
    use uuid::Uuid;

    use super::*;
    use crate::system::{
        CacheUsage, ClientConnection, HotPartition, NodeMetric, NodeUsage, PastCompaction, QueueUsage,
        SlowQuery, SnapshotUsage, SsTableTask, StatementUsage, TableUsage, add_system_keyspaces,
    };

    fn node() -> NodeState {
        NodeState {
            cluster_name: "c".to_owned(),
            data_center: "datacenter1".to_owned(),
            rack: "rack1".to_owned(),
            host_id: Uuid::from_u128(1),
            address: [127, 0, 0, 1].into(),
            native_port: 9042,
            storage_port: 7000,
            tokens: vec![5, -5],
            release_version: "5.0.5".to_owned(),
            cql_version: "3.4.7".to_owned(),
            schema_version: Uuid::from_u128(2),
            gossip_generation: 1,
            now_us: 1,
            settings: vec![("cluster_name".to_owned(), "c".to_owned())],
            sstable_tasks: vec![SsTableTask {
                keyspace: "k".to_owned(),
                table: "t".to_owned(),
                id: Uuid::from_u128(0x1000_8000_0000_0000_0000),
                kind: "compaction",
                progress: 1,
                total: 4,
                sstables: 2,
                target_directory: "/data".to_owned(),
            }],
            hot_partitions: vec![HotPartition {
                keyspace: "k".into(),
                table: "t".into(),
                shard: 1,
                token: 5,
                key: "'a'".to_owned(),
                reads_per_second: 1.5,
                writes_per_second: 0.0,
                share: 0.25,
            }],
            metrics: vec![NodeMetric {
                name: "m".to_owned(),
                labels: String::new(),
                value: 1.0,
            }],
            usage: usage(),
        }
    }

    fn usage() -> NodeUsage {
        NodeUsage {
            clients: vec![ClientConnection {
                address: [127, 0, 0, 2].into(),
                port: 40_000,
                username: "anonymous".into(),
                stage: "ready",
                keyspace: None,
                protocol_version: 5,
                driver_name: Some("driver".to_owned()),
                driver_version: None,
                options: vec![("CQL_VERSION".to_owned(), "3.4.7".to_owned())],
                request_count: 3,
            }],
            building_indexes: HashSet::new(),
            compactions: vec![PastCompaction {
                id: Uuid::from_u128(0x1000_8000_0000_0000_0000),
                keyspace: "k".into(),
                table: "t".into(),
                ended_ms: 5,
                bytes_in: 10,
                bytes_out: 6,
                partitions: [(1, 3), (2, 1)].into(),
                kind: "Compaction",
            }],
            slow_queries: vec![SlowQuery {
                keyspace: "k".into(),
                table: "t".into(),
                text: "SELECT * FROM k.t".to_owned(),
                reported_ms: 5,
                min: Duration::from_millis(600),
                max: Duration::from_millis(800),
                total: Duration::from_millis(1_400),
                count: 2,
                is_cross_shard: false,
            }],
            tables: vec![TableUsage {
                keyspace: "k".into(),
                table: "t".into(),
                disk_bytes: 3 << 20,
                data_bytes: 100,
                partitions: 10,
            }],
            snapshots: vec![SnapshotUsage {
                name: "s".to_owned(),
                keyspace: "k".to_owned(),
                table: "t".to_owned(),
                created_ms: Some(1),
                expires_ms: None,
                bytes: 2,
                true_bytes: 1,
            }],
            statements: Some(StatementUsage {
                prepared: 1,
                evicted: 2,
                prepared_executed: 3,
                texts_executed: 4,
            }),
            caches: vec![CacheUsage {
                name: "rows",
                capacity_bytes: 10,
                size_bytes: 5,
                hits: 1,
                requests: 2,
            }],
            queues: vec![QueueUsage {
                name: "CompactionExecutor",
                active: 1,
                active_max: 2,
                pending: 3,
                completed: 4,
            }],
        }
    }

    #[test]
    fn every_table_made_from_code_yields_well_formed_updates() {
        let mut schema = Schema::default();
        add_system_keyspaces(&mut schema).unwrap();
        let node = node();
        let rows = |keyspace: &str, table: &str| {
            let table = schema.table(keyspace, table).unwrap();
            let mut out = Vec::new();
            system_updates(table, &schema, &node, &mut out);
            for update in &out {
                let update = Update::decode(update).unwrap();
                assert_eq!(update.table, table.id);
                assert_eq!(update.items().count(), 1);
            }
            out.len()
        };
        let made = schema.tables().filter(|table| is_made_from_code(&table.keyspace));
        let counts: usize = made.map(|table| rows(&table.keyspace, &table.name)).sum();
        assert!(counts > 500, "{counts} rows in all");
        assert_eq!(rows("system", "local"), 1);
        assert_eq!(rows("system", "peers_v2"), 0);
        assert_eq!(rows("system_views", "clients"), 1);
        assert_eq!(rows("system", "compaction_history"), 1);
        assert_eq!(rows("system_views", "settings"), 1);
        for view in [
            "caches",
            "disk_usage",
            "slow_queries",
            "snapshots",
            "thread_pools",
        ] {
            assert_eq!(rows("system_views", view), 1, "{view}");
        }
        assert_eq!(rows("system_views", "cql_metrics"), 5);
        assert_eq!(rows("system", "size_estimates"), 1);
        assert_eq!(rows("system", "table_estimates"), 2);
        assert_eq!(rows("system_schema", "keyspaces"), 5);
        assert_eq!(rows("system_virtual_schema", "keyspaces"), 2);
    }
}
