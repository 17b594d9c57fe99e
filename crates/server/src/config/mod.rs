//! The configuration file: cassandra.yaml's names where it has one for the thing.
//!
//! Every key is optional, and a key that is not listed here is an error: a setting that is silently ignored is worse
//! than one that is missing.

mod door_address;
mod units;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use helenus_node::{Authenticator, SsTableFormat};
use helenus_vfs::DiskIo;
use serde::Deserialize;

pub use door_address::{DoorAddress, DoorAddressError};
pub use units::{DataRate, DataSize, DurationSetting, SegmentSize, SnapshotTtl, UnitError};

/// The file's keys. `None` means the default; all are in docs/operating/configuration.md.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    pub cluster_name: Option<String>,
    pub rpc_address: Option<IpAddr>,
    pub native_transport_port: Option<u16>,
    /// ScyllaDB's name for the port on which the client's source port chooses the shard.
    pub native_shard_aware_transport_port: Option<u16>,
    pub native_transport_max_frame_size: Option<DataSize>,
    /// -1 for no bound, as in Cassandra.
    pub native_transport_max_concurrent_connections: Option<i64>,
    /// As above, of each address.
    pub native_transport_max_concurrent_connections_per_ip: Option<i64>,
    /// Ours: from a client's connect to its answered STARTUP.
    pub native_transport_handshake_timeout: Option<DurationSetting>,
    /// Exactly one folder.
    pub data_file_directories: Option<Vec<PathBuf>>,
    pub commitlog_sync: Option<CommitlogSyncName>,
    pub commitlog_sync_period: Option<DurationSetting>,
    /// A write takes half of it at most.
    pub commitlog_segment_size: Option<SegmentSize>,
    pub column_index_size: Option<DataSize>,
    pub sstable: Option<SsTableSection>,
    /// Ours: the version of the SSTables that are written; says more than `sstable.selected_format`.
    pub sstable_format: Option<SsTableVersionName>,
    /// Throughput of all compactions together; `0MiB/s` is no bound.
    pub compaction_throughput: Option<DataRate>,
    pub concurrent_compactors: Option<u16>,
    pub read_request_timeout: Option<DurationSetting>,
    pub range_request_timeout: Option<DurationSetting>,
    pub write_request_timeout: Option<DurationSetting>,
    pub truncate_request_timeout: Option<DurationSetting>,
    /// `0ms` for none.
    pub slow_query_log_timeout: Option<DurationSetting>,
    /// True if TRUNCATE and DROP leave a snapshot of what they take; true by default, as in Cassandra.
    pub auto_snapshot: Option<bool>,
    /// True if materialized views may be made; true by default, unlike in Cassandra.
    pub materialized_views_enabled: Option<bool>,
    /// How long the snapshots of `auto_snapshot` are kept, 60 s at least; by default until somebody removes them.
    pub auto_snapshot_ttl: Option<SnapshotTtl>,
    /// A class's name, with or without its package, or a section with `class_name`, as in cassandra.yaml.
    pub authenticator: Option<AuthenticatorName>,
    /// The only one there is is `AllowAllAuthorizer`.
    pub authorizer: Option<AuthorizerName>,
    /// The only one there is is `CassandraRoleManager`.
    pub role_manager: Option<RoleManagerName>,
    pub tombstone_warn_threshold: Option<u64>,
    pub tombstone_failure_threshold: Option<u64>,
    pub batch_size_warn_threshold: Option<DataSize>,
    pub batch_size_fail_threshold: Option<DataSize>,
    /// In rows; -1 for none, as in all thresholds that count.
    pub page_size_warn_threshold: Option<i64>,
    pub page_size_fail_threshold: Option<i64>,
    pub partition_keys_in_select_warn_threshold: Option<i64>,
    pub partition_keys_in_select_fail_threshold: Option<i64>,
    pub in_select_cartesian_product_warn_threshold: Option<i64>,
    pub in_select_cartesian_product_fail_threshold: Option<i64>,
    pub keyspaces_warn_threshold: Option<i64>,
    pub keyspaces_fail_threshold: Option<i64>,
    pub tables_warn_threshold: Option<i64>,
    pub tables_fail_threshold: Option<i64>,
    pub columns_per_table_warn_threshold: Option<i64>,
    pub columns_per_table_fail_threshold: Option<i64>,
    pub fields_per_udt_warn_threshold: Option<i64>,
    pub fields_per_udt_fail_threshold: Option<i64>,
    pub secondary_indexes_per_table_warn_threshold: Option<i64>,
    pub secondary_indexes_per_table_fail_threshold: Option<i64>,
    /// Kind of index that CREATE INDEX without USING makes.
    pub default_secondary_index: Option<DefaultIndexName>,
    pub column_value_size_warn_threshold: Option<DataSize>,
    pub column_value_size_fail_threshold: Option<DataSize>,
    pub collection_size_warn_threshold: Option<DataSize>,
    pub collection_size_fail_threshold: Option<DataSize>,
    pub items_per_collection_warn_threshold: Option<i64>,
    pub items_per_collection_fail_threshold: Option<i64>,
    pub partition_size_warn_threshold: Option<DataSize>,
    pub partition_size_fail_threshold: Option<DataSize>,
    pub partition_tombstones_warn_threshold: Option<i64>,
    pub partition_tombstones_fail_threshold: Option<i64>,
    /// Ours: how SSTables are read.
    pub disk_io: Option<DiskIoName>,
    /// Ours: threads that own data.
    pub shards: Option<u16>,
    /// Ours: the budget of memtables and caches.
    pub memory: Option<DataSize>,
    /// Ours: whether rows that were read from files are kept in memory.
    pub row_cache: Option<RowCacheSwitch>,
    /// Ours: whether requests that have waited too long are refused early.
    pub admission: Option<AdmissionSwitch>,
    /// Ours: whether the one copy counts for one replica only, the keyspace's others being down, and not for all.
    pub strict_consistency: Option<bool>,
    /// Ours: no files at all.
    pub in_memory: Option<bool>,
    /// Ours: where `/metrics` is served.
    pub metrics_address: Option<std::net::SocketAddr>,
    /// Ours: where HTTP, gRPC and the console are served; `off` for nowhere.
    pub grpc_address: Option<DoorAddress>,
    /// Ours: whether HTTP and gRPC take only statements that read.
    pub grpc_read_only: Option<bool>,
}

/// Cassandra 5.0's section of that name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SsTableSection {
    pub selected_format: Option<SelectedFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultIndexName {
    LegacyLocalTable,
    Sai,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectedFormat {
    Big,
    Bti,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SsTableVersionName {
    Me,
    Nb,
    Oa,
    Da,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommitlogSyncName {
    Group,
    Batch,
    Periodic,
}

/// YAML 1.1 reads `on` and `off` as booleans, YAML 1.2 as they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowCacheSwitch {
    #[serde(alias = "true")]
    On,
    #[serde(alias = "false")]
    Off,
}

/// As [`RowCacheSwitch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdmissionSwitch {
    #[serde(alias = "true")]
    On,
    #[serde(alias = "false")]
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskIoName {
    Auto,
    IoUring,
    Threads,
}

impl From<DiskIoName> for DiskIo {
    fn from(name: DiskIoName) -> Self {
        match name {
            DiskIoName::Auto => DiskIo::Auto,
            DiskIoName::IoUring => DiskIo::IoUring,
            DiskIoName::Threads => DiskIo::Threads,
        }
    }
}

/// A class of Cassandra's by its name, as a string or in a section of its own.
#[derive(Deserialize)]
#[serde(untagged)]
enum ClassName {
    Plain(String),
    Section { class_name: String },
}

impl ClassName {
    fn into_simple(self) -> String {
        let (ClassName::Plain(name) | ClassName::Section { class_name: name }) = self;
        let simple = name.strip_prefix("org.apache.cassandra.auth.").map(str::to_owned);
        simple.unwrap_or(name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ClassName")]
pub struct AuthenticatorName(pub Authenticator);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ClassName")]
pub struct AuthorizerName;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ClassName")]
pub struct RoleManagerName;

impl TryFrom<ClassName> for AuthenticatorName {
    type Error = String;

    fn try_from(name: ClassName) -> Result<Self, String> {
        match name.into_simple().as_str() {
            "AllowAllAuthenticator" => Ok(AuthenticatorName(Authenticator::AllowAll)),
            "PasswordAuthenticator" => Ok(AuthenticatorName(Authenticator::Password)),
            other => Err(format!(
                "there is no authenticator {other} here, only AllowAllAuthenticator and PasswordAuthenticator"
            )),
        }
    }
}

impl TryFrom<ClassName> for AuthorizerName {
    type Error = String;

    fn try_from(name: ClassName) -> Result<Self, String> {
        match name.into_simple().as_str() {
            "AllowAllAuthorizer" => Ok(AuthorizerName),
            other => Err(format!(
                "there is no authorizer {other} here, only AllowAllAuthorizer"
            )),
        }
    }
}

impl TryFrom<ClassName> for RoleManagerName {
    type Error = String;

    fn try_from(name: ClassName) -> Result<Self, String> {
        match name.into_simple().as_str() {
            "CassandraRoleManager" => Ok(RoleManagerName),
            other => Err(format!(
                "there is no role manager {other} here, only CassandraRoleManager"
            )),
        }
    }
}

/// The configuration file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The text names line and column.
    #[error("{}: {text}", path.display())]
    Malformed { path: PathBuf, text: String },
    #[error("{}: sstable.selected_format and sstable_format contradict each other: only da is of the bti format", path.display())]
    SsTableFormats { path: PathBuf },
    #[error("{}: data_file_directories must name exactly one folder, not {count}", path.display())]
    DataFolders { path: PathBuf, count: usize },
}

impl ConfigFile {
    pub fn load(path: &Path) -> Result<ConfigFile, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &text)
    }

    /// The version to write, if the file says; both keys may, if they agree.
    pub fn sstable_format(&self) -> Option<SsTableFormat> {
        let named = self.sstable_format.map(|name| match name {
            SsTableVersionName::Me => SsTableFormat::Me,
            SsTableVersionName::Nb => SsTableFormat::Nb,
            SsTableVersionName::Oa => SsTableFormat::Oa,
            SsTableVersionName::Da => SsTableFormat::Da,
        });
        let selected = self.sstable.and_then(|section| section.selected_format);
        named.or(selected.map(|selected| match selected {
            SelectedFormat::Big => SsTableFormat::Nb,
            SelectedFormat::Bti => SsTableFormat::Da,
        }))
    }

    fn check_sstable_format(&self, path: &Path) -> Result<(), ConfigError> {
        let selected = self.sstable.and_then(|section| section.selected_format);
        let (Some(selected), Some(version)) = (selected, self.sstable_format) else {
            return Ok(());
        };
        let is_trie = version == SsTableVersionName::Da;
        if (selected == SelectedFormat::Bti) == is_trie {
            Ok(())
        } else {
            Err(ConfigError::SsTableFormats {
                path: path.to_owned(),
            })
        }
    }

    fn parse(path: &Path, text: &str) -> Result<ConfigFile, ConfigError> {
        if text
            .lines()
            .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        {
            return Ok(ConfigFile::default());
        }
        let config: ConfigFile = serde_saphyr::from_str(text).map_err(|error| ConfigError::Malformed {
            path: path.to_owned(),
            text: error.to_string(),
        })?;
        config.check_sstable_format(path)?;
        match &config.data_file_directories {
            Some(folders) if folders.len() != 1 => Err(ConfigError::DataFolders {
                path: path.to_owned(),
                count: folders.len(),
            }),
            _ => Ok(config),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(Path::new("helenus.yaml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_units_are_those_of_cassandra_yaml() {
        let config = parse(
            "native_transport_port: 9142\ncommitlog_sync: periodic\ncommitlog_sync_period: 10000ms\ncommitlog_segment_size: 4MiB\n\
             column_index_size: 4KiB\ncompaction_throughput: 16MiB/s\nread_request_timeout: 5s\nrow_cache: off\ndata_file_directories:\n  - /tmp/x\n",
        )
        .unwrap();
        assert_eq!(config.native_transport_port, Some(9142));
        assert_eq!(config.commitlog_sync, Some(CommitlogSyncName::Periodic));
        assert_eq!(
            config.commitlog_sync_period.map(|period| period.0.as_millis()),
            Some(10_000)
        );
        assert_eq!(config.commitlog_segment_size, Some(SegmentSize(4 << 20)));
        assert_eq!(config.row_cache, Some(RowCacheSwitch::Off));
        assert_eq!(config.column_index_size.map(|size| size.0), Some(4096));
        assert_eq!(config.compaction_throughput.map(|rate| rate.0), Some(16 << 20));
        assert_eq!(
            config.read_request_timeout.map(|timeout| timeout.0.as_secs()),
            Some(5)
        );
    }

    #[test]
    fn the_version_of_sstables_is_named_or_follows_from_the_format() {
        let format = |text: &str| parse(text).map(|config| config.sstable_format());
        assert_eq!(format("sstable_format: oa\n"), Ok(Some(SsTableFormat::Oa)));
        assert_eq!(
            format("sstable:\n  selected_format: bti\n"),
            Ok(Some(SsTableFormat::Da))
        );
        assert_eq!(
            format("sstable: {selected_format: big}\nsstable_format: me\n"),
            Ok(Some(SsTableFormat::Me))
        );
        let error = format("sstable: {selected_format: big}\nsstable_format: da\n").unwrap_err();
        assert!(error.contains("contradict"), "{error}");
        assert!(format("sstable_format: na\n").is_err());
    }

    #[test]
    fn authenticators_are_named_as_in_cassandra_yaml_and_unknown_ones_refused() {
        for text in [
            "authenticator: PasswordAuthenticator\nauthorizer: AllowAllAuthorizer\n",
            "authenticator: org.apache.cassandra.auth.PasswordAuthenticator\nrole_manager: CassandraRoleManager\n",
            "authenticator:\n  class_name: org.apache.cassandra.auth.PasswordAuthenticator\n",
        ] {
            let config = parse(text).unwrap();
            assert_eq!(
                config.authenticator,
                Some(AuthenticatorName(Authenticator::Password))
            );
        }
        for text in [
            "authenticator: MutualTlsAuthenticator\n",
            "authorizer: CassandraAuthorizer\n",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("only AllowAll"), "{error}");
        }
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_line() {
        let error = parse("cluster_name: x\nnative_transport_prot: 9042\n").unwrap_err();
        assert!(error.contains("native_transport_prot"), "{error}");
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn an_ill_typed_value_is_an_error_that_names_the_line() {
        for text in [
            "cluster_name: x\nnative_transport_port: often\n",
            "cluster_name: x\ncolumn_index_size: 4 apples\n",
            "cluster_name: x\ncompaction_throughput: 4MiB\n",
            "cluster_name: x\ncommitlog_segment_size: 1023KiB\n",
            "cluster_name: x\ncommitlog_segment_size: 2GiB\n",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("line 2"), "{error}");
        }
    }

    #[test]
    fn an_empty_file_is_all_defaults() {
        assert!(parse("# nothing here\n\n").unwrap().cluster_name.is_none());
    }
}
