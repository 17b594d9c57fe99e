//! Table options as they are stored: each may be missing, and then has the default of the release that reads it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use helenus_schema::{ChangeLogOptions, PerPartitionRateLimit, SsTableFormat, TableParams};
use serde::{Deserialize, Serialize};

use crate::ddl::read_change_log;

#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StoredParams {
    additional_write_policy: String,
    allow_auto_snapshot: bool,
    /// Fractions are text, so that they come back to the last bit.
    bloom_filter_fp_chance: String,
    caching: BTreeMap<String, String>,
    cdc: bool,
    /// Only where it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    change_log: Option<StoredChangeLog>,
    comment: String,
    compaction: BTreeMap<String, String>,
    compression: BTreeMap<String, String>,
    crc_check_chance: String,
    default_time_to_live: u32,
    extensions: BTreeMap<String, Vec<u8>>,
    gc_grace_seconds: u32,
    incremental_backups: bool,
    max_index_interval: u32,
    memtable: String,
    memtable_flush_period_in_ms: u32,
    min_index_interval: u32,
    /// Only where it is set, as the SSTables' format.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_partition_rate_limit: Option<StoredRateLimit>,
    read_repair: String,
    speculative_retry: String,
    /// Only where it is set, so that a release without the option can read what does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    sstable_format: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StoredRateLimit {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_reads_per_second: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_writes_per_second: Option<NonZeroU32>,
}

/// The option as CQL has it.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct StoredChangeLog {
    options: BTreeMap<String, String>,
}

impl StoredChangeLog {
    fn read(self) -> Result<ChangeLogOptions, String> {
        let options: Vec<(String, String)> = self.options.into_iter().collect();
        let read = read_change_log(&options).map_err(|error| error.to_string())?;
        read.ok_or_else(|| "a change log is not enabled".to_owned())
    }
}

impl StoredParams {
    pub fn of(params: &TableParams) -> Self {
        let params = params.clone();
        StoredParams {
            additional_write_policy: params.additional_write_policy,
            allow_auto_snapshot: params.allow_auto_snapshot,
            bloom_filter_fp_chance: params.bloom_filter_fp_chance.to_string(),
            caching: params.caching,
            cdc: params.cdc,
            change_log: params.change_log.map(|options| StoredChangeLog {
                options: options.options(),
            }),
            comment: params.comment,
            compaction: params.compaction,
            compression: params.compression,
            crc_check_chance: params.crc_check_chance.to_string(),
            default_time_to_live: params.default_time_to_live,
            extensions: params.extensions,
            gc_grace_seconds: params.gc_grace_seconds,
            incremental_backups: params.incremental_backups,
            max_index_interval: params.max_index_interval,
            memtable: params.memtable,
            memtable_flush_period_in_ms: params.memtable_flush_period_in_ms,
            min_index_interval: params.min_index_interval,
            per_partition_rate_limit: params.per_partition_rate_limit.map(|limit| StoredRateLimit {
                max_reads_per_second: limit.max_reads_per_second,
                max_writes_per_second: limit.max_writes_per_second,
            }),
            read_repair: params.read_repair,
            speculative_retry: params.speculative_retry,
            sstable_format: params.sstable_format.map(|format| format.name().to_owned()),
        }
    }

    /// The error says what does not add up.
    pub fn params(self) -> Result<TableParams, String> {
        let fraction = |text: &str| text.parse::<f64>().map_err(|_| format!("{text} is not a number"));
        let format =
            |name: &str| SsTableFormat::parse(name).ok_or_else(|| format!("{name} is not an SSTable format"));
        Ok(TableParams {
            bloom_filter_fp_chance: fraction(&self.bloom_filter_fp_chance)?,
            crc_check_chance: fraction(&self.crc_check_chance)?,
            additional_write_policy: self.additional_write_policy,
            allow_auto_snapshot: self.allow_auto_snapshot,
            caching: self.caching,
            cdc: self.cdc,
            change_log: self.change_log.map(StoredChangeLog::read).transpose()?,
            comment: self.comment,
            compaction: self.compaction,
            compression: self.compression,
            default_time_to_live: self.default_time_to_live,
            extensions: self.extensions,
            gc_grace_seconds: self.gc_grace_seconds,
            incremental_backups: self.incremental_backups,
            max_index_interval: self.max_index_interval,
            memtable: self.memtable,
            memtable_flush_period_in_ms: self.memtable_flush_period_in_ms,
            min_index_interval: self.min_index_interval,
            per_partition_rate_limit: self.per_partition_rate_limit.map(|limit| PerPartitionRateLimit {
                max_reads_per_second: limit.max_reads_per_second,
                max_writes_per_second: limit.max_writes_per_second,
            }),
            read_repair: self.read_repair,
            speculative_retry: self.speculative_retry,
            sstable_format: self.sstable_format.as_deref().map(format).transpose()?,
        })
    }
}

impl Default for StoredParams {
    fn default() -> Self {
        StoredParams::of(&TableParams::default())
    }
}
