//! State of a node that system tables show.

use std::net::IpAddr;
use std::sync::Arc;

use uuid::Uuid;

use super::usage::NodeUsage;

/// The only partitioner there is.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// Name of the snitch in Cassandra's DESCRIBE CLUSTER under the default configuration.
pub(crate) const SNITCH: &str = "DynamicEndpointSnitch";

/// A snapshot, taken by the owner of each fact when a system table is read.
#[derive(Clone, Debug)]
pub struct NodeState {
    pub cluster_name: String,
    pub data_center: String,
    pub rack: String,
    /// Chosen once per data folder.
    pub host_id: Uuid,
    /// Where clients and, in a cluster, other nodes find this one.
    pub address: IpAddr,
    pub native_port: u16,
    /// Reported as the port between nodes, although nothing listens there.
    pub storage_port: u16,
    /// Tokens at which this node's data ends in the ring; at least one.
    pub tokens: Vec<i64>,
    /// The release of Cassandra whose behaviour drivers may expect.
    pub release_version: String,
    pub cql_version: String,
    /// As [`schema_version`](super::schema_version) computes it for the schema in force.
    pub schema_version: Uuid,
    /// Seconds since the Unix epoch at which this process started.
    pub gossip_generation: i32,
    /// Microseconds since the Unix epoch; the timestamp of the rows made.
    pub now_us: i64,
    /// The configuration in force, for `system_views.settings`.
    pub settings: Vec<(String, String)>,
    pub sstable_tasks: Vec<SsTableTask>,
    /// Hot partitions of all shards, for `system_views.hot_partitions`.
    pub hot_partitions: Vec<HotPartition>,
    /// For `system_views.node_metrics`.
    pub metrics: Vec<NodeMetric>,
    pub usage: NodeUsage,
}

/// A partition that is asked for more than others, for `system_views.hot_partitions`.
#[derive(Clone, Debug)]
pub struct HotPartition {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub shard: u16,
    pub token: i64,
    /// The key's values as CQL literals.
    pub key: String,
    pub reads_per_second: f64,
    pub writes_per_second: f64,
    /// Share of its shard's requests, from 0 to 1.
    pub share: f64,
}

/// One value of a metric, as Prometheus' page has it, for `system_views.node_metrics`.
#[derive(Clone, Debug)]
pub struct NodeMetric {
    pub name: String,
    pub labels: String,
    pub value: f64,
}

/// A flush or a compaction under way, for `system_views.sstable_tasks`.
#[derive(Clone, Debug)]
pub struct SsTableTask {
    pub keyspace: String,
    pub table: String,
    /// UUID of version 1, with the time at which the task began.
    pub id: Uuid,
    pub kind: &'static str,
    /// In bytes.
    pub progress: u64,
    pub total: u64,
    /// That go in.
    pub sstables: u32,
    pub target_directory: String,
}

/// One connection, for `system_views.clients`.
#[derive(Clone, Debug)]
pub struct ClientConnection {
    pub address: IpAddr,
    pub port: u16,
    /// Cassandra's `anonymous` where nobody has to log in.
    pub username: Arc<str>,
    /// Cassandra's names: `established`, `authenticating`, `ready`.
    pub stage: &'static str,
    pub keyspace: Option<Arc<str>>,
    pub protocol_version: u8,
    pub driver_name: Option<String>,
    pub driver_version: Option<String>,
    /// As STARTUP gave them.
    pub options: Vec<(String, String)>,
    pub request_count: u64,
}
