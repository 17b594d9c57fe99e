//! Metadata of an SSTable, as Cassandra's `sstablemetadata` shows it.

use std::fmt;

use helenus_rows::clustering::{ClusteringBound, Components};
use helenus_rows::deletion::NEVER_S;
use helenus_sstable::Component;
use helenus_types::value::blob::to_hex;
use helenus_vfs::Disk;
use serde::Serialize;

use crate::dump::key_text;
use crate::target::{Target, TargetError};
use crate::times::CivilTime;

/// Names of fields follow Cassandra's tool, in lower case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metadata {
    pub sstable: String,
    pub version: String,
    pub partitioner: &'static str,
    pub bloom_filter_fp_chance: f64,
    pub minimum_timestamp: i64,
    pub maximum_timestamp: i64,
    /// Seconds since the Unix epoch; absent for "never".
    pub min_local_deletion_time: Option<u32>,
    pub max_local_deletion_time: Option<u32>,
    pub is_compressed: bool,
    pub compression_ratio: f64,
    pub ttl_min: u32,
    pub ttl_max: u32,
    pub first_token: Option<i64>,
    pub first_key: Option<String>,
    pub last_token: Option<i64>,
    pub last_key: Option<String>,
    pub covered_clusterings: String,
    pub estimated_droppable_tombstones: f64,
    pub level: u32,
    pub repaired_at: u64,
    pub originating_host_id: Option<String>,
    pub total_columns_set: u64,
    pub total_rows: u64,
    pub total_partitions: u64,
    /// Seconds since the Unix epoch, and how many.
    pub tombstone_drop_times: Vec<(u32, u64)>,
    /// Largest value of a bucket, and how many.
    pub partition_sizes: Vec<(u64, u64)>,
    pub cell_counts: Vec<(u64, u64)>,
    pub encoding_min_ttl: u32,
    pub encoding_min_local_deletion_time: u32,
    pub encoding_min_timestamp: i64,
    pub key_type: String,
    pub clustering_types: Vec<String>,
    pub static_columns: Vec<(String, String)>,
    pub regular_columns: Vec<(String, String)>,
    /// The sizes of the files, in bytes.
    pub components: Vec<(String, u64)>,
}

const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// Cassandra's tool counts what could be dropped now with a grace period of 0.
pub fn metadata(disk: &dyn Disk, target: &Target, now_s: u32) -> Result<Metadata, TargetError> {
    let stored = target.metadata(disk)?;
    let table = stored.table("", "")?;
    let statistics = &stored.statistics;
    // Statistics can be read where other files cannot.
    let sstable = target.open(disk, &table).ok();
    let time = |seconds: u32| (seconds != NEVER_S).then_some(seconds);
    let components = target
        .files
        .iter()
        .filter_map(|(suffix, path)| Some((suffix.clone(), disk.open(path).ok()?.length().ok()?)));
    Ok(Metadata {
        sstable: target
            .folder
            .join(target.descriptor.to_string())
            .display()
            .to_string(),
        version: target.descriptor.version.name().to_owned(),
        partitioner: PARTITIONER,
        bloom_filter_fp_chance: stored.bloom_filter_fp_chance,
        minimum_timestamp: statistics.timestamp_us_min,
        maximum_timestamp: statistics.timestamp_us_max,
        min_local_deletion_time: time(statistics.local_deletion_s_min),
        max_local_deletion_time: time(statistics.local_deletion_s_max),
        is_compressed: target.has(Component::CompressionInfo),
        compression_ratio: statistics.compression_ratio,
        ttl_min: statistics.ttl_s_min,
        ttl_max: statistics.ttl_s_max,
        first_token: sstable.as_ref().map(|sstable| sstable.first_token().0),
        first_key: sstable
            .as_ref()
            .map(|sstable| key_text(&table, sstable.first_key())),
        last_token: sstable.as_ref().map(|sstable| sstable.last_token().0),
        last_key: sstable
            .as_ref()
            .map(|sstable| key_text(&table, sstable.last_key())),
        covered_clusterings: format!(
            "{} to {}",
            bound_text(&statistics.covered.start),
            bound_text(&statistics.covered.end)
        ),
        estimated_droppable_tombstones: statistics.droppable_tombstone_ratio(now_s),
        level: statistics.level,
        repaired_at: statistics.repaired_at_ms,
        originating_host_id: statistics.originating_host.map(|host| host.to_string()),
        total_columns_set: statistics.columns,
        total_rows: statistics.rows,
        total_partitions: statistics.partition_count(),
        tombstone_drop_times: statistics.tombstone_drop_times.bins().collect(),
        partition_sizes: statistics.partition_bytes.buckets().collect(),
        cell_counts: statistics.partition_cells.buckets().collect(),
        encoding_min_ttl: stored.encoding_stats.ttl_s_min,
        encoding_min_local_deletion_time: stored.encoding_stats.local_deletion_s_min,
        encoding_min_timestamp: stored.encoding_stats.timestamp_us_min,
        components: components.collect(),
        key_type: stored.key_class,
        clustering_types: stored.clustering_classes,
        static_columns: stored.static_columns,
        regular_columns: stored.regular_columns,
    })
}

fn bound_text(bound: &ClusteringBound) -> String {
    let parts: Vec<String> = Components::new(&bound.prefix)
        .map(|part| format!("0x{}", to_hex(part)))
        .collect();
    if parts.is_empty() {
        "open".to_owned()
    } else {
        format!("({})", parts.join(", "))
    }
}

/// `11/14/2023 22:13:20`
fn date(seconds: i64) -> String {
    let time = CivilTime::of(seconds);
    format!(
        "{:02}/{:02}/{:04} {:02}:{:02}:{:02}",
        time.month, time.day, time.year, time.hour, time.minute, time.second
    )
}

fn deletion(time: Option<u32>) -> String {
    match time {
        None => "no tombstones (9223372036854775807)".to_owned(),
        Some(seconds) => format!("{} ({seconds})", date(i64::from(seconds))),
    }
}

fn columns(columns: &[(String, String)]) -> String {
    let texts: Vec<String> = columns
        .iter()
        .map(|(name, class)| format!("{name}:{class}"))
        .collect();
    texts.join(", ")
}

impl fmt::Display for Metadata {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dash = || "--".to_owned();
        writeln!(out, "SSTable: {}", self.sstable)?;
        writeln!(out, "Partitioner: {}", self.partitioner)?;
        writeln!(out, "Bloom Filter FP chance: {}", self.bloom_filter_fp_chance)?;
        writeln!(out, "Minimum timestamp: {}", micros(self.minimum_timestamp))?;
        writeln!(out, "Maximum timestamp: {}", micros(self.maximum_timestamp))?;
        writeln!(
            out,
            "SSTable min local deletion time: {}",
            deletion(self.min_local_deletion_time)
        )?;
        writeln!(
            out,
            "SSTable max local deletion time: {}",
            deletion(self.max_local_deletion_time)
        )?;
        if self.is_compressed {
            writeln!(out, "Compression ratio: {}", self.compression_ratio)?;
        } else {
            writeln!(out, "Compressor: -")?;
        }
        writeln!(out, "TTL min: {}\nTTL max: {}", self.ttl_min, self.ttl_max)?;
        for (which, token, key) in [
            ("First", self.first_token, &self.first_key),
            ("Last", self.last_token, &self.last_key),
        ] {
            if let (Some(token), Some(key)) = (token, key) {
                writeln!(out, "{which} token: {token} ({key})")?;
            }
        }
        writeln!(out, "Covered clusterings: {}", self.covered_clusterings)?;
        writeln!(
            out,
            "Estimated droppable tombstones: {}",
            self.estimated_droppable_tombstones
        )?;
        writeln!(
            out,
            "SSTable Level: {}\nRepaired at: {}",
            self.level, self.repaired_at
        )?;
        let host = self.originating_host_id.clone().unwrap_or_else(dash);
        writeln!(out, "Originating host id: {host}")?;
        writeln!(out, "totalColumnsSet: {}", self.total_columns_set)?;
        writeln!(out, "totalRows: {}", self.total_rows)?;
        let drop_times = self.tombstone_drop_times.iter();
        let drop_times =
            drop_times.map(|&(time, count)| (format!("{time} ({})", date(i64::from(time))), count));
        histogram(out, "Estimated tombstone drop times", drop_times)?;
        let named = |buckets: &[(u64, u64)]| -> Vec<(String, u64)> {
            buckets
                .iter()
                .map(|(bound, count)| (bound.to_string(), *count))
                .collect()
        };
        histogram(out, "Partition Size", named(&self.partition_sizes).into_iter())?;
        histogram(out, "Column Count", named(&self.cell_counts).into_iter())?;
        self.write_encoding(out)?;
        writeln!(out, "KeyType: {}", self.key_type)?;
        writeln!(out, "ClusteringTypes: [{}]", self.clustering_types.join(", "))?;
        writeln!(out, "StaticColumns: {}", columns(&self.static_columns))?;
        write!(out, "RegularColumns: {}", columns(&self.regular_columns))
    }
}

impl Metadata {
    fn write_encoding(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "EncodingStats minTTL: {}", self.encoding_min_ttl)?;
        writeln!(
            out,
            "EncodingStats minLocalDeletionTime: {}",
            deletion(Some(self.encoding_min_local_deletion_time))
        )?;
        writeln!(
            out,
            "EncodingStats minTimestamp: {}",
            micros(self.encoding_min_timestamp)
        )
    }
}

fn micros(us: i64) -> String {
    format!("{} ({us})", date(us.div_euclid(1_000_000)))
}

fn histogram(
    out: &mut fmt::Formatter<'_>,
    title: &str,
    buckets: impl Iterator<Item = (String, u64)>,
) -> fmt::Result {
    writeln!(out, "{title}:")?;
    let buckets: Vec<(String, u64)> = buckets.collect();
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    for (bound, count) in buckets {
        writeln!(
            out,
            "   {bound:<32} | {count:>8} ({:>3})",
            count * 100 / total.max(1)
        )?;
    }
    Ok(())
}
