//! Options that a node is given at its start.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use helenus_engine::TombstoneLimits;
use helenus_engine::replicas::CopyRule;
use helenus_events::Events;
use helenus_schema::{IndexKind, SsTableFormat};
use helenus_storage::commitlog::SEGMENT_BYTES_DEFAULT;
use helenus_storage::read_state::STEP_UNITS_MAX;
use helenus_vfs::{Clock, Disk, DiskIo, Random, RealDisk, SystemClock, SystemRandom, SystemThreads, Threads};

use crate::guardrails::Guardrails;
use crate::roles::authenticator::Authenticator;
use crate::stall::Stalls;

/// How a node is laid out and how far it may go. The command line and the configuration file fill it in; tests
/// build it directly.
#[derive(Clone)]
pub struct NodeOptions {
    /// Threads that own data; may exceed the cores.
    pub shard_count: u16,
    /// Where everything durable lives. Unused by an in-memory node.
    pub data_folder: PathBuf,
    /// No commit log and no SSTables: everything is gone with the process.
    pub in_memory: bool,
    /// The budget of memtables and caches of all shards together, in bytes.
    pub memory_bytes: u64,
    /// True if rows that were read from SSTables are kept in memory, apart from the files' own pages.
    pub row_cache: bool,
    /// True if a search for the nearest vectors goes over the links of their graph however small it is: for tests, which have
    /// few.
    pub walks_small_graphs: bool,
    /// True if SELECTs of many partitions are tried in the turn that they arrive in though nobody knows them as short: for tests, which
    /// make most statements once.
    pub tries_all_at_once: bool,
    /// Units of work after which a read lets others have their turn: for tests, which have small tables.
    pub read_step_units_max: u32,
    /// True if requests that have waited too long are refused before their time is over, so that others are in time.
    pub admission: bool,
    /// True if buffers of requests and answers are kept for the next; without, each comes from the allocator.
    pub buffer_pool: bool,
    pub commitlog_sync: CommitlogSync,
    /// Size of a file of the log, of which one write takes at most half: Cassandra's `commitlog_segment_size`.
    pub commitlog_segment_bytes: u32,
    /// Granularity of the index inside a partition, in bytes: Cassandra's `column_index_size`.
    pub column_index_bytes: u32,
    /// The version of SSTables that is written for tables that do not name one.
    pub sstable_format: SsTableFormat,
    pub compaction: CompactionSettings,
    pub cluster_name: String,
    /// Address and port that `system.local` tells drivers.
    pub advertised_address: SocketAddr,
    /// Cassandra's `read_request_timeout`: for reads of partitions by their keys.
    pub read_request_timeout: Duration,
    /// Cassandra's `range_request_timeout`: for a page of a scan.
    pub range_request_timeout: Duration,
    /// Cassandra's `truncate_request_timeout`.
    pub truncate_request_timeout: Duration,
    /// How long a write may wait for its shard's memtables to be flushed: Cassandra's `write_request_timeout`.
    pub write_request_timeout: Duration,
    /// Cassandra's `slow_query_log_timeout`: SELECTs that take longer are in `system_views.slow_queries`; `None` for none of them.
    pub slow_query_log_timeout: Option<Duration>,
    /// Seconds since the Unix epoch; drivers tell two runs of a node apart by it.
    pub started_at_s: u32,
    /// How SSTables are read.
    pub disk_io: DiskIo,
    /// Cassandra's `tombstone_warn_threshold` and `tombstone_failure_threshold`.
    pub tombstones: TombstoneLimits,
    pub guardrails: Guardrails,
    /// Rule for what the one copy of everything counts for where a consistency level asks for more.
    pub copy_rule: CopyRule,
    /// Cassandra's `auto_snapshot`: whether TRUNCATE and DROP leave a snapshot of what they take.
    pub auto_snapshot: bool,
    /// Cassandra's `auto_snapshot_ttl`: how long those snapshots are kept; `None` until somebody removes them.
    pub auto_snapshot_ttl: Option<Duration>,
    /// Cassandra's `default_secondary_index`: what CREATE INDEX without USING makes.
    pub default_secondary_index: IndexKind,
    /// Cassandra's `materialized_views_enabled`: whether views may be made. Those that are there go on.
    pub materialized_views: bool,
    /// How clients prove who they are.
    pub authenticator: Authenticator,
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    /// Where logs are written, memtables flushed and SSTables compacted.
    pub threads: Arc<dyn Threads>,
    /// For identifiers and samples.
    pub random: Arc<dyn Random>,
    /// Recipient of the node's events.
    pub events: Events,
    /// True if clients wait for the start, in connections that another process has given up.
    pub is_awaited: bool,
    /// Where shards say what held them; without, nobody measures it.
    pub stalls: Option<Arc<Stalls>>,
}

/// Cassandra's `column_index_size` in 5.0, in bytes.
const COLUMN_INDEX_BYTES_DEFAULT: u32 = 64 * 1024;

/// Cassandra's default.
const SLOW_QUERY_LOG_TIMEOUT_DEFAULT: Duration = Duration::from_millis(500);

/// A node that shares its machine: what a process that embeds one can spare.
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;

impl NodeOptions {
    /// One shard on the machine's own disk and clock, with Cassandra's defaults, and group commit; nobody is told what
    /// happens.
    pub fn new(data_folder: PathBuf) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        NodeOptions {
            shard_count: 1,
            data_folder,
            in_memory: false,
            memory_bytes: MEMORY_BYTES_DEFAULT,
            row_cache: true,
            walks_small_graphs: false,
            tries_all_at_once: false,
            read_step_units_max: STEP_UNITS_MAX,
            admission: true,
            buffer_pool: true,
            commitlog_sync: CommitlogSync::Group,
            commitlog_segment_bytes: SEGMENT_BYTES_DEFAULT,
            column_index_bytes: COLUMN_INDEX_BYTES_DEFAULT,
            sstable_format: SsTableFormat::DEFAULT,
            compaction: CompactionSettings::default(),
            cluster_name: "Test Cluster".to_owned(),
            advertised_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9042)),
            read_request_timeout: Duration::from_secs(5),
            range_request_timeout: Duration::from_secs(10),
            truncate_request_timeout: Duration::from_secs(60),
            write_request_timeout: Duration::from_secs(2),
            slow_query_log_timeout: Some(SLOW_QUERY_LOG_TIMEOUT_DEFAULT),
            started_at_s: clock.wall_s(),
            disk_io: DiskIo::default(),
            tombstones: TombstoneLimits::default(),
            guardrails: Guardrails::default(),
            copy_rule: CopyRule::default(),
            auto_snapshot: true,
            auto_snapshot_ttl: None,
            default_secondary_index: IndexKind::Legacy,
            materialized_views: true,
            authenticator: Authenticator::default(),
            disk: Arc::new(RealDisk::new()),
            clock,
            threads: Arc::new(SystemThreads),
            random: Arc::new(SystemRandom::new()),
            events: helenus_events::silent(),
            is_awaited: false,
            stalls: None,
        }
    }
}

/// How fast and how many compactions run, over all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionSettings {
    /// Cassandra's `compaction_throughput`; 0 leaves the pace to what requests feel.
    pub bytes_per_s_max: u64,
    /// Cassandra's `concurrent_compactors`: by default as many as there are shards, from two to eight.
    pub concurrent_compactors: Option<usize>,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        CompactionSettings {
            bytes_per_s_max: 64 << 20,
            concurrent_compactors: None,
        }
    }
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitlogSync {
    /// After its bytes are on disk; all writes that wait while one sync runs share the next.
    Group,
    /// As `Group`: with one log writer per shard that syncs as soon as the last sync ends, Cassandra's `batch` mode
    /// and its `group` mode meet.
    Batch,
    /// At once; the log is synced every `period`, so that a power cut can lose that much.
    Periodic { period: Duration },
}
