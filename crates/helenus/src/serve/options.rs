//! Options of a node and its server: the command line before the configuration file, that before the defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use helenus_events::Events;
use helenus_node::{
    Authenticator, CommitlogSync, CompactionSettings, CopyRule, NodeOptions, Stalls, TombstoneLimits,
};
use helenus_protocol::frame::FrameLimits;
use helenus_schema::IndexKind;
use helenus_server::config::{
    AdmissionSwitch, CommitlogSyncName, ConfigFile, DataSize, DefaultIndexName, DoorAddress, DurationSetting,
    RowCacheSwitch,
};
use helenus_server::{DoorSettings, MetricsSettings, ServeOptions};
use helenus_transport::ConnectionLimits;
use helenus_vfs::DiskIo;

use super::arguments::{AdmissionArgument, CommitlogSyncArgument, RowCacheArgument, ServeArguments};
use super::guardrails::guardrails;
use crate::log::{Log, LogFormat};

/// Cassandra's `commitlog_sync_period`.
const COMMITLOG_SYNC_PERIOD: Duration = Duration::from_secs(10);

/// Cassandra's `native_transport_port`.
const CQL_PORT: u16 = 9042;

/// ScyllaDB's default shard-aware port.
const SHARD_AWARE_PORT: u16 = 19042;

const METRICS_PORT: u16 = 9180;

/// Stargate's port for gRPC.
const DOORS_PORT: u16 = 8090;

const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

pub fn options(arguments: &ServeArguments, config: &ConfigFile) -> ServeOptions {
    let listen = listen_address(arguments, config);
    let log_format = arguments.log_format.map(LogFormat::from).unwrap_or_default();
    let events: Events = Arc::new(Log::new(log_format));
    let mut node = NodeOptions {
        advertised_address: listen,
        stalls: Stalls::from_environment(&events),
        events,
        ..NodeOptions::new(data_folder(arguments, config))
    };
    set_resources(&mut node, arguments, config);
    set_storage(&mut node, arguments, config);
    set_answers(&mut node, arguments, config);
    ServeOptions {
        node,
        listen,
        shard_aware: Some(shard_aware_address(config, listen)),
        metrics: Some(metrics(arguments, config, listen)),
        doors: doors(arguments, config, listen),
        frame_limits: frame_limits(config),
        connection_limits: connection_limits(config),
        drain_timeout: DRAIN_TIMEOUT,
    }
}

fn listen_address(arguments: &ServeArguments, config: &ConfigFile) -> SocketAddr {
    arguments.listen.unwrap_or_else(|| {
        let address = config.rpc_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        SocketAddr::new(address, config.native_transport_port.unwrap_or(CQL_PORT))
    })
}

/// A node that is served on another port than Cassandra's leaves this one to others, too.
fn shard_aware_address(config: &ConfigFile, listen: SocketAddr) -> SocketAddr {
    let usual = if listen.port() == CQL_PORT {
        SHARD_AWARE_PORT
    } else {
        0
    };
    let port = config.native_shard_aware_transport_port.unwrap_or(usual);
    SocketAddr::new(listen.ip(), port)
}

fn metrics(arguments: &ServeArguments, config: &ConfigFile, listen: SocketAddr) -> MetricsSettings {
    let usual = if listen.port() == 0 { 0 } else { METRICS_PORT };
    let asked_for = arguments.metrics.or(config.metrics_address);
    MetricsSettings {
        address: asked_for.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, usual))),
        is_asked_for: asked_for.is_some(),
    }
}

fn frame_limits(config: &ConfigFile) -> FrameLimits {
    let mut limits = FrameLimits::default();
    if let Some(size) = config.native_transport_max_frame_size {
        limits.envelope_bytes_max = bytes_u32(size);
    }
    limits
}

fn data_folder(arguments: &ServeArguments, config: &ConfigFile) -> PathBuf {
    let folders = config.data_file_directories.as_ref();
    let configured = || folders.and_then(|folders| folders.first().cloned());
    let folder = arguments.data.clone().or_else(configured);
    folder.unwrap_or_else(|| PathBuf::from("./helenus-data"))
}

/// Sets the resources that the node may take of its machine.
fn set_resources(node: &mut NodeOptions, arguments: &ServeArguments, config: &ConfigFile) {
    let memory = arguments.memory.or(config.memory);
    node.shard_count = arguments.shards.or(config.shards).unwrap_or_else(core_count);
    node.memory_bytes = memory.map_or_else(|| memory_of_machine() / 4, |size| size.0);
    node.row_cache = row_cache(arguments, config);
    node.compaction = compaction_settings(config);
    let disk_io = arguments.disk_io.map(DiskIo::from);
    node.disk_io = disk_io.or(config.disk_io.map(DiskIo::from)).unwrap_or_default();
}

/// Sets what is kept, and how.
fn set_storage(node: &mut NodeOptions, arguments: &ServeArguments, config: &ConfigFile) {
    node.in_memory = arguments.in_memory || config.in_memory.unwrap_or(false);
    node.commitlog_sync = commitlog_sync(arguments, config);
    set(
        &mut node.commitlog_segment_bytes,
        config.commitlog_segment_size.map(|size| size.0),
    );
    set(
        &mut node.column_index_bytes,
        config.column_index_size.map(bytes_u32),
    );
    set(&mut node.sstable_format, config.sstable_format());
    set(&mut node.auto_snapshot, config.auto_snapshot);
    node.auto_snapshot_ttl = config.auto_snapshot_ttl.map(|ttl| ttl.0);
    set(&mut node.materialized_views, config.materialized_views_enabled);
    node.default_secondary_index = match config.default_secondary_index {
        None | Some(DefaultIndexName::LegacyLocalTable) => IndexKind::Legacy,
        Some(DefaultIndexName::Sai) => IndexKind::StorageAttached,
    };
}

/// Sets what clients are told, when, and who may ask.
fn set_answers(node: &mut NodeOptions, arguments: &ServeArguments, config: &ConfigFile) {
    set(&mut node.cluster_name, config.cluster_name.clone());
    let timeout = |setting: Option<DurationSetting>| setting.map(|setting| setting.0);
    set(
        &mut node.read_request_timeout,
        timeout(config.read_request_timeout),
    );
    set(
        &mut node.range_request_timeout,
        timeout(config.range_request_timeout),
    );
    set(
        &mut node.truncate_request_timeout,
        timeout(config.truncate_request_timeout),
    );
    set(
        &mut node.write_request_timeout,
        timeout(config.write_request_timeout),
    );
    if let Some(DurationSetting(timeout)) = config.slow_query_log_timeout {
        node.slow_query_log_timeout = (!timeout.is_zero()).then_some(timeout);
    }
    node.admission = admission(arguments, config);
    node.copy_rule = match config.strict_consistency {
        Some(true) => CopyRule::OneReplica,
        _ => CopyRule::AllReplicas,
    };
    node.tombstones = tombstones(config);
    node.guardrails = guardrails(config);
    let authenticator = arguments.authenticator.map(Authenticator::from);
    node.authenticator = authenticator
        .or(config.authenticator.map(|name| name.0))
        .unwrap_or_default();
}

/// Sets an option; without a setting it stays as the node has it.
fn set<T>(option: &mut T, setting: Option<T>) {
    if let Some(setting) = setting {
        *option = setting;
    }
}

fn bytes_u32(size: DataSize) -> u32 {
    u32::try_from(size.0).unwrap_or(u32::MAX)
}

fn tombstones(config: &ConfigFile) -> TombstoneLimits {
    let mut limits = TombstoneLimits::default();
    set(&mut limits.warn, config.tombstone_warn_threshold);
    set(&mut limits.fail, config.tombstone_failure_threshold);
    limits
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
        serves_tests: arguments.grpc_test_service,
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

#[cfg(test)]
mod tests {
    use helenus_server::config::SegmentSize;
    use std::fs;

    use super::*;

    const PAGE: &str = include_str!("../../../../docs/operating/configuration.md");

    /// `key: default` for each key whose documented default is something that a file may say.
    fn documented_defaults() -> Vec<String> {
        let quoted =
            |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let mut lines = Vec::new();
        for row in PAGE.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split(" | ").collect();
            let (keys, defaults) = (quoted(cells[0]), quoted(cells[2]));
            if keys.len() == defaults.len() {
                lines.extend(
                    keys.iter()
                        .zip(&defaults)
                        .map(|(key, default)| format!("{key}: {default}")),
                );
            }
        }
        lines
    }

    /// Returns the options that a file can change, as text.
    fn seen(options: &ServeOptions) -> Vec<String> {
        let node = &options.node;
        vec![
            format!(
                "{} {} {:?}",
                options.listen, node.advertised_address, options.shard_aware
            ),
            format!(
                "{:?} {:?}",
                options.metrics.map(|metrics| metrics.address),
                options.doors.map(|doors| (doors.address, doors.is_read_only))
            ),
            format!("{:?} {:?}", options.frame_limits, options.connection_limits),
            format!("{} {:?} {}", node.cluster_name, node.data_folder, node.in_memory),
            format!(
                "{} {} {} {:?}",
                node.shard_count, node.memory_bytes, node.row_cache, node.disk_io
            ),
            format!(
                "{:?} {} {} {:?}",
                node.commitlog_sync,
                node.commitlog_segment_bytes,
                node.column_index_bytes,
                node.sstable_format
            ),
            format!("{:?} {:?}", node.compaction, node.default_secondary_index),
            format!(
                "{} {:?} {}",
                node.auto_snapshot, node.auto_snapshot_ttl, node.materialized_views
            ),
            format!("{:?} {:?}", node.read_request_timeout, node.range_request_timeout),
            format!(
                "{:?} {:?} {:?}",
                node.write_request_timeout, node.truncate_request_timeout, node.slow_query_log_timeout
            ),
            format!("{} {:?} {:?}", node.admission, node.copy_rule, node.authenticator),
            format!("{:?} {:?}", node.tombstones, node.guardrails),
        ]
    }

    #[test]
    fn a_file_that_says_the_documented_defaults_changes_nothing() {
        let lines = documented_defaults();
        assert!(lines.len() >= 30, "{lines:?}");
        let path = std::env::temp_dir().join(format!("helenus-defaults-{}.yaml", std::process::id()));
        fs::write(&path, lines.join("\n")).unwrap();
        let config = ConfigFile::load(&path);
        fs::remove_file(&path).unwrap();
        let config = config.unwrap_or_else(|error| panic!("{error}\n{}", lines.join("\n")));
        let arguments = ServeArguments::default();
        assert_eq!(
            seen(&options(&arguments, &config)),
            seen(&options(&arguments, &ConfigFile::default()))
        );
    }

    #[test]
    fn a_segment_of_the_log_is_as_large_as_the_file_says() {
        let config = ConfigFile {
            commitlog_segment_size: Some(SegmentSize(4 << 20)),
            ..ConfigFile::default()
        };
        let options = options(&ServeArguments::default(), &config);
        assert_eq!(options.node.commitlog_segment_bytes, 4 << 20);
    }

    #[test]
    fn no_query_is_slow_where_the_timeout_is_nothing() {
        let timeout = |setting: Duration| {
            let config = ConfigFile {
                slow_query_log_timeout: Some(DurationSetting(setting)),
                ..ConfigFile::default()
            };
            let options = options(&ServeArguments::default(), &config);
            options.node.slow_query_log_timeout
        };
        assert_eq!(timeout(Duration::ZERO), None);
        assert_eq!(timeout(Duration::from_secs(1)), Some(Duration::from_secs(1)));
    }
}
