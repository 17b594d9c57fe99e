//! `helenus serve`: settings from the command line, then the configuration file, then the defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::log::{Log, LogFormat};
use clap::{Args, ValueEnum};
use helenus_events::Events;
use helenus_node::guardrails::{Guardrails, PartitionGuardrails, Threshold, ValueGuardrails};
use helenus_node::{
    Authenticator, CommitlogSync, CompactionSettings, CopyRule, NodeOptions, SsTableFormat, Stalls,
    TombstoneLimits,
};
use helenus_protocol::frame::FrameLimits;
use helenus_schema::IndexKind;
use helenus_server::config::{
    AdmissionSwitch, CommitlogSyncName, ConfigError, ConfigFile, DataSize, DefaultIndexName, DoorAddress,
    RowCacheSwitch,
};
use helenus_server::{DoorSettings, ServeError, ServeOptions, Server};
use helenus_transport::ConnectionLimits;
use helenus_vfs::{Clock, DiskIo, RealDisk, SystemClock, SystemRandom, SystemThreads};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Args, Default)]
pub struct ServeArguments {
    /// Settings by cassandra.yaml's names; an unknown key is an error.
    #[arg(long, value_name = "FILE.yaml")]
    config: Option<PathBuf>,
    /// Where everything is kept [default: ./helenus-data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Keep nothing: no commit log, no SSTables.
    #[arg(long)]
    in_memory: bool,
    /// Address and port for CQL; port 0 picks a free one [default: 127.0.0.1:9042].
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<SocketAddr>,
    /// Threads that own data [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    shards: Option<u16>,
    /// Budget of memtables and caches, for example 512MiB or 4GiB [default: a quarter of the machine's memory].
    #[arg(long, value_name = "SIZE")]
    memory: Option<DataSize>,
    /// Whether rows that were read from files are kept in memory [default: on].
    #[arg(long, value_name = "on|off")]
    row_cache: Option<RowCacheArgument>,
    /// Whether requests that have waited too long are refused early, so that others are in time [default: on].
    #[arg(long, value_name = "SWITCH")]
    admission: Option<AdmissionArgument>,
    /// When a write is acknowledged [default: group].
    #[arg(long, value_name = "MODE")]
    commitlog_sync: Option<CommitlogSyncArgument>,
    /// How clients prove who they are; a new node knows the user `cassandra` with the password `cassandra`
    /// [default: allow-all].
    #[arg(long, value_name = "WAY")]
    authenticator: Option<AuthenticatorArgument>,
    /// How SSTables are read [default: auto].
    #[arg(long, value_name = "WAY")]
    disk_io: Option<DiskIoArgument>,
    /// How lines of the log look [default: text].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormatArgument>,
    /// Address and port for /metrics; port 0 picks a free one [default: 127.0.0.1:9180].
    #[arg(long, value_name = "IP:PORT")]
    metrics: Option<SocketAddr>,
    /// Address and port for HTTP, gRPC and the console, or `off`; port 0 picks a free one [default: 127.0.0.1:8090].
    #[arg(long, value_name = "IP:PORT|off")]
    grpc: Option<DoorAddress>,
    /// Takes only statements that read through HTTP and gRPC.
    #[arg(long)]
    grpc_read_only: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum CommitlogSyncArgument {
    /// On disk before it is acknowledged; waiting writes share one sync.
    Group,
    /// As Cassandra's batch mode.
    Batch,
    /// At once; the log is synced every commitlog_sync_period.
    Periodic,
}

#[derive(Clone, Copy, ValueEnum)]
enum RowCacheArgument {
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AdmissionArgument {
    On,
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
enum AuthenticatorArgument {
    /// Nobody is asked.
    AllowAll,
    /// User and password, as Cassandra's PasswordAuthenticator.
    Password,
}

impl From<AuthenticatorArgument> for Authenticator {
    fn from(argument: AuthenticatorArgument) -> Self {
        match argument {
            AuthenticatorArgument::AllowAll => Authenticator::AllowAll,
            AuthenticatorArgument::Password => Authenticator::Password,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormatArgument {
    /// For people.
    Text,
    /// One object a line, for programs.
    Json,
}

impl From<LogFormatArgument> for LogFormat {
    fn from(argument: LogFormatArgument) -> Self {
        match argument {
            LogFormatArgument::Text => LogFormat::Text,
            LogFormatArgument::Json => LogFormat::Json,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum DiskIoArgument {
    /// io_uring where the kernel allows it, else threads.
    Auto,
    #[value(name = "io_uring")]
    IoUring,
    Threads,
}

impl From<DiskIoArgument> for DiskIo {
    fn from(argument: DiskIoArgument) -> Self {
        match argument {
            DiskIoArgument::Auto => DiskIo::Auto,
            DiskIoArgument::IoUring => DiskIo::IoUring,
            DiskIoArgument::Threads => DiskIo::Threads,
        }
    }
}

/// Cassandra's `commitlog_sync_period`.
const COMMITLOG_SYNC_PERIOD: Duration = Duration::from_secs(10);

/// Cassandra's `read_request_timeout`.
const READ_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Cassandra's `range_request_timeout`.
const RANGE_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Cassandra's `truncate_request_timeout`.
const TRUNCATE_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Cassandra's `write_request_timeout`.
const WRITE_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Cassandra's `column_index_size` default in 5.0, in bytes.
const COLUMN_INDEX_BYTES: u32 = 64 * 1024;

/// ScyllaDB's default shard-aware port.
const SHARD_AWARE_PORT: u16 = 19042;

/// Stargate's port for gRPC.
const DOORS_PORT: u16 = 8090;

const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

pub fn run(arguments: &ServeArguments) -> ExitCode {
    let started = Instant::now();
    match start(arguments) {
        Ok((server, data)) => serve(server, &data, started),
        Err(error) => {
            eprintln!("helenus: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum StartupError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

fn start(arguments: &ServeArguments) -> Result<(Server, Summary), StartupError> {
    let config = match &arguments.config {
        Some(path) => ConfigFile::load(path)?,
        None => ConfigFile::default(),
    };
    let options = options(arguments, &config);
    let summary = Summary {
        shards: options.node.shard_count,
        data: if options.node.in_memory {
            "in memory".to_owned()
        } else {
            format!("data {}", options.node.data_folder.display())
        },
    };
    Ok((Server::start(options)?, summary))
}

struct Summary {
    shards: u16,
    data: String,
}

fn serve(server: Server, summary: &Summary, started: Instant) -> ExitCode {
    let stopping = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let stopping = stopping.and_then(|runtime| {
        let _entered = runtime.enter();
        // Before anybody is told that the node is ready: who is may end it at once.
        let signals = StopSignals::listen()?;
        Ok((runtime, signals))
    });
    let (runtime, signals) = match stopping {
        Ok(stopping) => stopping,
        Err(error) => {
            eprintln!("helenus: cannot wait for signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    say_ready(&server, summary, started);
    // All that this thread has left to do is to end the process: what that frees, nobody waits for.
    helenus_scheduling::give_way();
    runtime.block_on(async {
        signals.wait().await;
        server.stop().await;
    });
    ExitCode::SUCCESS
}

fn say_ready(server: &Server, summary: &Summary, started: Instant) {
    let shard_aware = server
        .shard_aware_address
        .map_or(String::new(), |address| format!(" (shard-aware {address})"));
    let metrics = server
        .metrics_address
        .map_or(String::new(), |address| format!(", metrics {address}"));
    let doors = server
        .doors_address
        .map_or(String::new(), |address| format!(", http and grpc {address}"));
    println!(
        "helenus ready: cql {}{shard_aware}, {} shards, {}{metrics}{doors}, {} ms",
        server.address,
        summary.shards,
        summary.data,
        started.elapsed().as_millis()
    );
}

/// SIGTERM and SIGINT, which stop the node.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From now on they end the process no more. Called within a runtime.
    fn listen() -> std::io::Result<Self> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn options(arguments: &ServeArguments, config: &ConfigFile) -> ServeOptions {
    let listen = arguments.listen.unwrap_or_else(|| {
        let address = config.rpc_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        SocketAddr::new(address, config.native_transport_port.unwrap_or(9042))
    });
    let metrics = arguments.metrics.or(config.metrics_address).unwrap_or_else(|| {
        SocketAddr::from((Ipv4Addr::LOCALHOST, if listen.port() == 0 { 0 } else { 9180 }))
    });
    let shard_aware_port = config
        .native_shard_aware_transport_port
        .unwrap_or(if listen.port() == 9042 {
            SHARD_AWARE_PORT
        } else {
            0
        });
    let mut frame_limits = FrameLimits::default();
    if let Some(size) = config.native_transport_max_frame_size {
        frame_limits.envelope_bytes_max = u32::try_from(size.0).unwrap_or(u32::MAX);
    }
    let shards = arguments.shards.or(config.shards);
    let memory = arguments.memory.or(config.memory);
    let folder = config
        .data_file_directories
        .as_ref()
        .and_then(|folders| folders.first().cloned());
    let log_format = arguments.log_format.map(LogFormat::from).unwrap_or_default();
    let events: Events = Arc::new(Log::new(log_format));
    let node = NodeOptions {
        shard_count: shards.unwrap_or_else(core_count),
        data_folder: arguments
            .data
            .clone()
            .or(folder)
            .unwrap_or_else(|| PathBuf::from("./helenus-data")),
        in_memory: arguments.in_memory || config.in_memory.unwrap_or(false),
        memory_bytes: memory.map_or_else(|| memory_of_machine() / 4, |size| size.0),
        row_cache: row_cache(arguments, config),
        copy_rule: match config.strict_consistency {
            Some(true) => CopyRule::OneReplica,
            _ => CopyRule::AllReplicas,
        },
        admission: admission(arguments, config),
        buffer_pool: true,
        commitlog_sync: commitlog_sync(arguments, config),
        column_index_bytes: config.column_index_size.map_or(COLUMN_INDEX_BYTES, |size| {
            u32::try_from(size.0).unwrap_or(u32::MAX)
        }),
        sstable_format: config.sstable_format().unwrap_or(SsTableFormat::DEFAULT),
        compaction: compaction_settings(config),
        cluster_name: config
            .cluster_name
            .clone()
            .unwrap_or_else(|| "Test Cluster".to_owned()),
        advertised_address: listen,
        read_request_timeout: config
            .read_request_timeout
            .map_or(READ_REQUEST_TIMEOUT, |timeout| timeout.0),
        range_request_timeout: config
            .range_request_timeout
            .map_or(RANGE_REQUEST_TIMEOUT, |timeout| timeout.0),
        truncate_request_timeout: config
            .truncate_request_timeout
            .map_or(TRUNCATE_REQUEST_TIMEOUT, |timeout| timeout.0),
        write_request_timeout: config
            .write_request_timeout
            .map_or(WRITE_REQUEST_TIMEOUT, |timeout| timeout.0),
        started_at_s: SystemClock::new().wall_s(),
        disk_io: arguments
            .disk_io
            .map(DiskIo::from)
            .or(config.disk_io.map(DiskIo::from))
            .unwrap_or_default(),
        tombstones: TombstoneLimits {
            warn: config
                .tombstone_warn_threshold
                .unwrap_or(TombstoneLimits::default().warn),
            fail: config
                .tombstone_failure_threshold
                .unwrap_or(TombstoneLimits::default().fail),
        },
        guardrails: guardrails(config),
        auto_snapshot: config.auto_snapshot.unwrap_or(true),
        auto_snapshot_ttl: config.auto_snapshot_ttl.map(|ttl| ttl.0),
        default_secondary_index: match config.default_secondary_index {
            None | Some(DefaultIndexName::LegacyLocalTable) => IndexKind::Legacy,
            Some(DefaultIndexName::Sai) => IndexKind::StorageAttached,
        },
        materialized_views: config.materialized_views_enabled.unwrap_or(true),
        authenticator: arguments
            .authenticator
            .map(Authenticator::from)
            .or(config.authenticator.map(|name| name.0))
            .unwrap_or_default(),
        disk: Arc::new(RealDisk::new()),
        clock: Arc::new(SystemClock::new()),
        threads: Arc::new(SystemThreads),
        random: Arc::new(SystemRandom::new()),
        stalls: Stalls::from_environment(&events),
        events,
    };
    ServeOptions {
        node,
        listen,
        shard_aware: Some(SocketAddr::new(listen.ip(), shard_aware_port)),
        metrics: Some(metrics),
        doors: doors(arguments, config, listen),
        frame_limits,
        connection_limits: connection_limits(config),
        drain_timeout: DRAIN_TIMEOUT,
    }
}

/// A node that is served on any free port has its doors on one, too.
fn doors(arguments: &ServeArguments, config: &ConfigFile, listen: SocketAddr) -> Option<DoorSettings> {
    let asked_for = arguments.grpc.or(config.grpc_address);
    let port = if listen.port() == 0 { 0 } else { DOORS_PORT };
    let address = match asked_for {
        Some(DoorAddress::Off) => return None,
        Some(DoorAddress::At(address)) => address,
        None => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
    };
    Some(DoorSettings {
        address,
        is_asked_for: asked_for.is_some(),
        is_read_only: arguments.grpc_read_only || config.grpc_read_only.unwrap_or(false),
    })
}

fn connection_limits(config: &ConfigFile) -> ConnectionLimits {
    // As in Cassandra, what is not positive turns a limit off.
    let limit = |setting: Option<i64>| {
        setting
            .and_then(|count| usize::try_from(count).ok())
            .filter(|&count| count > 0)
    };
    let default = ConnectionLimits::default();
    ConnectionLimits {
        connections_max: limit(config.native_transport_max_concurrent_connections),
        connections_per_address_max: limit(config.native_transport_max_concurrent_connections_per_ip),
        handshake_timeout: config
            .native_transport_handshake_timeout
            .map_or(default.handshake_timeout, |timeout| timeout.0),
        answer_timeout: default.answer_timeout,
    }
}

fn compaction_settings(config: &ConfigFile) -> CompactionSettings {
    let default = CompactionSettings::default();
    CompactionSettings {
        bytes_per_s_max: config
            .compaction_throughput
            .map_or(default.bytes_per_s_max, |rate| rate.0),
        concurrent_compactors: config.concurrent_compactors.map(usize::from),
    }
}

fn guardrails(config: &ConfigFile) -> Guardrails {
    let defaults = Guardrails::default();
    Guardrails {
        batch_size: sizes(
            (config.batch_size_warn_threshold, config.batch_size_fail_threshold),
            defaults.batch_size,
        ),
        page_size: counts(
            (config.page_size_warn_threshold, config.page_size_fail_threshold),
            defaults.page_size,
        ),
        partition_keys_in_select: counts(
            (
                config.partition_keys_in_select_warn_threshold,
                config.partition_keys_in_select_fail_threshold,
            ),
            defaults.partition_keys_in_select,
        ),
        in_select_cartesian_product: counts(
            (
                config.in_select_cartesian_product_warn_threshold,
                config.in_select_cartesian_product_fail_threshold,
            ),
            defaults.in_select_cartesian_product,
        ),
        keyspaces: counts(
            (config.keyspaces_warn_threshold, config.keyspaces_fail_threshold),
            defaults.keyspaces,
        ),
        tables: counts(
            (config.tables_warn_threshold, config.tables_fail_threshold),
            defaults.tables,
        ),
        columns_per_table: counts(
            (
                config.columns_per_table_warn_threshold,
                config.columns_per_table_fail_threshold,
            ),
            defaults.columns_per_table,
        ),
        secondary_indexes_per_table: counts(
            (
                config.secondary_indexes_per_table_warn_threshold,
                config.secondary_indexes_per_table_fail_threshold,
            ),
            defaults.secondary_indexes_per_table,
        ),
        fields_per_udt: counts(
            (
                config.fields_per_udt_warn_threshold,
                config.fields_per_udt_fail_threshold,
            ),
            defaults.fields_per_udt,
        ),
        values: value_guardrails(config, defaults.values),
        partition: partition_guardrails(config, defaults.partition),
    }
}

fn value_guardrails(config: &ConfigFile, defaults: ValueGuardrails) -> ValueGuardrails {
    ValueGuardrails {
        column_value_size: sizes(
            (
                config.column_value_size_warn_threshold,
                config.column_value_size_fail_threshold,
            ),
            defaults.column_value_size,
        ),
        collection_size: sizes(
            (
                config.collection_size_warn_threshold,
                config.collection_size_fail_threshold,
            ),
            defaults.collection_size,
        ),
        items_per_collection: counts(
            (
                config.items_per_collection_warn_threshold,
                config.items_per_collection_fail_threshold,
            ),
            defaults.items_per_collection,
        ),
    }
}

fn partition_guardrails(config: &ConfigFile, defaults: PartitionGuardrails) -> PartitionGuardrails {
    PartitionGuardrails {
        size: sizes(
            (
                config.partition_size_warn_threshold,
                config.partition_size_fail_threshold,
            ),
            defaults.size,
        ),
        tombstones: counts(
            (
                config.partition_tombstones_warn_threshold,
                config.partition_tombstones_fail_threshold,
            ),
            defaults.tombstones,
        ),
        // Those on collections are the same as on written values; the node hands them on.
        ..defaults
    }
}

fn sizes((warn, fail): (Option<DataSize>, Option<DataSize>), default: Threshold) -> Threshold {
    Threshold {
        warn: warn.map_or(default.warn, |size| size.0),
        fail: fail.map_or(default.fail, |size| size.0),
    }
}

/// As in Cassandra, what is not positive turns a threshold off.
fn counts((warn, fail): (Option<i64>, Option<i64>), default: Threshold) -> Threshold {
    let count = |count: Option<i64>, default| match count.map(u64::try_from) {
        None => default,
        Some(Ok(count @ 1..)) => count,
        Some(_) => u64::MAX,
    };
    Threshold {
        warn: count(warn, default.warn),
        fail: count(fail, default.fail),
    }
}

fn commitlog_sync(arguments: &ServeArguments, config: &ConfigFile) -> CommitlogSync {
    let mode = match arguments.commitlog_sync {
        Some(CommitlogSyncArgument::Group) => CommitlogSyncName::Group,
        Some(CommitlogSyncArgument::Batch) => CommitlogSyncName::Batch,
        Some(CommitlogSyncArgument::Periodic) => CommitlogSyncName::Periodic,
        None => config.commitlog_sync.unwrap_or(CommitlogSyncName::Group),
    };
    match mode {
        CommitlogSyncName::Group => CommitlogSync::Group,
        CommitlogSyncName::Batch => CommitlogSync::Batch,
        CommitlogSyncName::Periodic => CommitlogSync::Periodic {
            period: config
                .commitlog_sync_period
                .map_or(COMMITLOG_SYNC_PERIOD, |period| period.0),
        },
    }
}

fn row_cache(arguments: &ServeArguments, config: &ConfigFile) -> bool {
    match (arguments.row_cache, config.row_cache) {
        (Some(RowCacheArgument::On), _) | (None, Some(RowCacheSwitch::On) | None) => true,
        (Some(RowCacheArgument::Off), _) | (None, Some(RowCacheSwitch::Off)) => false,
    }
}

fn admission(arguments: &ServeArguments, config: &ConfigFile) -> bool {
    match arguments.admission {
        Some(argument) => argument == AdmissionArgument::On,
        None => config.admission != Some(AdmissionSwitch::Off),
    }
}

fn core_count() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| u16::try_from(cores.get()).unwrap_or(u16::MAX))
}

/// Bytes, as `/proc/meminfo` tells; 4 GiB where there is no such file.
fn memory_of_machine() -> u64 {
    const UNKNOWN_BYTES: u64 = 4 << 30;
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else {
        return UNKNOWN_BYTES;
    };
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()
    });
    kib.map_or(UNKNOWN_BYTES, |kib| kib * 1024)
}
