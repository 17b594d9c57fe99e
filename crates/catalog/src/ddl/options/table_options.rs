//! The options of a table.

use helenus_cql::ast::{Property, PropertyValue};
use helenus_engine::CqlError;
use helenus_schema::{SsTableFormat, TableParams};
use helenus_types::value::floating::format_double;

use super::{PropertyReader, caching, change_log, compaction, compression, rate_limit, retry_policy};

/// Every name that may follow `WITH` on a table.
pub(crate) const TABLE_PROPERTIES: [&str; 22] = [
    "additional_write_policy",
    "allow_auto_snapshot",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    "extensions",
    "gc_grace_seconds",
    "id",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "per_partition_rate_limit",
    "read_repair",
    "speculative_retry",
    "sstable_format",
];

/// The memtables a node knows by name; Cassandra takes them from its configuration.
const MEMTABLES: [&str; 3] = ["default", "skiplist", "trie"];

/// No filter can be asked to be better than this (`BloomCalculations.minSupportedBloomFilterFpChance`).
const FP_CHANCE_MIN: f64 = 6.71e-5;

/// Twenty years of 365 days, in seconds (`Attributes.MAX_TTL`).
const TIME_TO_LIVE_MAX_S: i32 = 20 * 365 * 24 * 60 * 60;

/// Options that could be read, not yet checked against their bounds. Reading and checking are apart because Cassandra
/// looks whether keyspace and table exist in between.
pub(crate) struct TableOptions {
    params: TableParams,
    default_time_to_live: i32,
    gc_grace_seconds: i32,
    max_index_interval: i32,
    memtable_flush_period_in_ms: i32,
    min_index_interval: i32,
}

impl TableOptions {
    /// For a new table: whatever is not given has its default.
    pub fn read_new(properties: &[Property]) -> Result<Self, CqlError> {
        let mut options = Self::read_altered(&TableParams::default(), properties)?;
        let chance = PropertyReader(properties).double("bloom_filter_fp_chance")?;
        if chance.is_none_or(|chance| chance == -1.0) {
            options.params.bloom_filter_fp_chance = compaction::default_fp_chance(&options.params.compaction);
        }
        Ok(options)
    }

    /// For an existing table: whatever is not given stays.
    pub fn read_altered(previous: &TableParams, properties: &[Property]) -> Result<Self, CqlError> {
        let reader = PropertyReader(properties);
        let mut params = previous.clone();
        replace(
            &mut params.allow_auto_snapshot,
            reader.boolean("allow_auto_snapshot")?,
        );
        replace(
            &mut params.bloom_filter_fp_chance,
            reader.double("bloom_filter_fp_chance")?,
        );
        replace(
            &mut params.caching,
            reader.map("caching")?.map(caching::read).transpose()?,
        );
        replace(&mut params.comment, reader.text("comment")?.map(str::to_owned));
        replace(
            &mut params.compaction,
            reader.map("compaction")?.map(compaction::read).transpose()?,
        );
        replace(
            &mut params.compression,
            reader.map("compression")?.map(compression::read).transpose()?,
        );
        replace(
            &mut params.memtable,
            reader.text("memtable")?.map(memtable).transpose()?,
        );
        let default_time_to_live = reader.integer("default_time_to_live")?;
        let gc_grace_seconds = reader.integer("gc_grace_seconds")?;
        replace(
            &mut params.incremental_backups,
            reader.boolean("incremental_backups")?,
        );
        let max_index_interval = reader.integer("max_index_interval")?;
        let memtable_flush_period_in_ms = reader.integer("memtable_flush_period_in_ms")?;
        let min_index_interval = reader.integer("min_index_interval")?;
        let retry = |property| reader.text(property)?.map(retry_policy::normalized).transpose();
        replace(&mut params.speculative_retry, retry("speculative_retry")?);
        replace(
            &mut params.additional_write_policy,
            retry("additional_write_policy")?,
        );
        replace(&mut params.crc_check_chance, reader.double("crc_check_chance")?);
        change_log_options(&mut params, reader)?;
        replace(
            &mut params.read_repair,
            reader.text("read_repair")?.map(read_repair).transpose()?,
        );
        if let Some(entries) = reader.map("per_partition_rate_limit")? {
            params.per_partition_rate_limit = rate_limit::read(entries)?;
        }
        if let Some(name) = reader.text("sstable_format")? {
            params.sstable_format = sstable_format(name)?;
        }
        // What was valid once fits an i32.
        let or_previous = |value: Option<i32>, previous: u32| value.unwrap_or(previous.cast_signed());
        Ok(TableOptions {
            default_time_to_live: or_previous(default_time_to_live, params.default_time_to_live),
            gc_grace_seconds: or_previous(gc_grace_seconds, params.gc_grace_seconds),
            max_index_interval: or_previous(max_index_interval, params.max_index_interval),
            memtable_flush_period_in_ms: or_previous(
                memtable_flush_period_in_ms,
                params.memtable_flush_period_in_ms,
            ),
            min_index_interval: or_previous(min_index_interval, params.min_index_interval),
            params,
        })
    }

    /// Checks every bound, in Cassandra's order.
    pub fn validate(self) -> Result<TableParams, CqlError> {
        let TableOptions { mut params, .. } = self;
        compaction::validate(&params.compaction)?;
        let chance = params.bloom_filter_fp_chance;
        // A NaN fails neither comparison, there as here.
        if chance <= FP_CHANCE_MIN || chance > 1.0 {
            return Err(CqlError::config(format_args!(
                "bloom_filter_fp_chance must be larger than {} and less than or equal to 1.0 (got {})",
                format_double(FP_CHANCE_MIN),
                format_double(chance)
            )));
        }
        let chance = params.crc_check_chance;
        if !(0.0..=1.0).contains(&chance) && !chance.is_nan() {
            return Err(CqlError::config(format_args!(
                "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {})",
                format_double(chance)
            )));
        }
        params.default_time_to_live = at_least("default_time_to_live", self.default_time_to_live, 0)?;
        if self.default_time_to_live > TIME_TO_LIVE_MAX_S {
            return Err(CqlError::config(format_args!(
                "default_time_to_live must be less than or equal to {TIME_TO_LIVE_MAX_S} (got {})",
                self.default_time_to_live
            )));
        }
        params.gc_grace_seconds = at_least("gc_grace_seconds", self.gc_grace_seconds, 0)?;
        params.min_index_interval = at_least("min_index_interval", self.min_index_interval, 1)?;
        if self.max_index_interval < self.min_index_interval {
            return Err(CqlError::config(format_args!(
                "max_index_interval must be greater than or equal to min_index_interval ({}) (got {})",
                self.min_index_interval, self.max_index_interval
            )));
        }
        params.max_index_interval = self.max_index_interval.cast_unsigned();
        params.memtable_flush_period_in_ms =
            at_least("memtable_flush_period_in_ms", self.memtable_flush_period_in_ms, 0)?;
        Ok(params)
    }
}

/// `cdc = true` is Cassandra's, a map ScyllaDB's, and `false` the end of both.
fn change_log_options(params: &mut TableParams, reader: PropertyReader<'_>) -> Result<(), CqlError> {
    if let Some(PropertyValue::Map(entries)) = reader.find("cdc") {
        params.change_log = change_log::read(entries)?;
        return Ok(());
    }
    if let Some(is_on) = reader.boolean("cdc")? {
        params.cdc = is_on;
        params.change_log = params.change_log.filter(|_| is_on);
    }
    Ok(())
}

fn replace<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// `minimum` is not negative, so what passes fits a u32.
fn at_least(name: &str, value: i32, minimum: i32) -> Result<u32, CqlError> {
    if value < minimum {
        return Err(CqlError::config(format_args!(
            "{name} must be greater than or equal to {minimum} (got {value})"
        )));
    }
    Ok(value.cast_unsigned())
}

fn memtable(name: &str) -> Result<String, CqlError> {
    if MEMTABLES.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(CqlError::config(format_args!(
        "Memtable configuration \"{name}\" not found."
    )))
}

/// Ours; an empty name takes the option back.
fn sstable_format(name: &str) -> Result<Option<SsTableFormat>, CqlError> {
    if name.is_empty() {
        return Ok(None);
    }
    let format = SsTableFormat::parse(name).ok_or_else(|| {
        CqlError::config(format_args!(
            "Invalid value {name} for 'sstable_format': it can be {}, or '' for the node's",
            SsTableFormat::names()
        ))
    })?;
    Ok(Some(format))
}

fn read_repair(text: &str) -> Result<String, CqlError> {
    let upper = text.to_ascii_uppercase();
    match upper.as_str() {
        "NONE" | "BLOCKING" => Ok(upper),
        // Cassandra does not expect this error and answers with the exception itself.
        _ => Err(CqlError::server(format_args!(
            "java.lang.IllegalArgumentException: No enum constant \
             org.apache.cassandra.service.reads.repair.ReadRepairStrategy.{upper}"
        ))),
    }
}
