//! Activity of a node between two readings.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reading::{HotPartition, Reading};

/// A node over one interval. Rates are per second.
#[derive(Debug, Default, Serialize)]
pub struct Snapshot {
    pub node: String,
    pub interval_s: f64,
    pub shards: usize,
    pub connections: u64,
    /// By kind: read, write, batch, prepare, other.
    pub requests_per_second: Vec<(String, f64)>,
    /// Kinds of which there were none are not among them.
    pub latencies: Vec<Latency>,
    /// By type, without those that did not happen.
    pub errors_per_second: Vec<(String, f64)>,
    /// Refused before they were looked at.
    pub refused_per_second: f64,
    /// Queue delay of the shard where it is longest.
    pub queue_delay_us: f64,
    pub request_bytes: f64,
    /// From 0 to 1; `None` where nothing was asked for.
    pub row_cache_hit_ratio: Option<f64>,
    pub index_page_hit_ratio: Option<f64>,
    pub data_page_hit_ratio: Option<f64>,
    pub disk_reads_per_second: f64,
    pub memtable_bytes: f64,
    pub row_cache_bytes: f64,
    pub sstables: u64,
    pub compactions_running: u64,
    pub compactions_pending: u64,
    pub compaction_written_bytes_per_second: f64,
    /// Those with the most requests first.
    pub tables: Vec<TableRate>,
    /// Those with the most requests first.
    pub partitions: Vec<HotPartition>,
}

/// How long the statements of one kind took, from their arrival to their answers' way to the client.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    pub kind: String,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct TableRate {
    pub keyspace: String,
    pub table: String,
    pub reads_per_second: f64,
    pub writes_per_second: f64,
}

struct Interval<'r> {
    before: &'r Reading,
    after: &'r Reading,
    seconds: f64,
}

impl Interval<'_> {
    /// A counter's rate by the values of one of its labels. A counter that was not there before was zero, one that
    /// went back began anew with the process.
    fn rates_by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let before: BTreeMap<&str, f64> = self
            .before
            .of(name)
            .map(|sample| (sample.labels.as_str(), sample.value))
            .collect();
        let mut rates = BTreeMap::new();
        for sample in self.after.of(name) {
            let earlier = before.get(sample.labels.as_str()).copied().unwrap_or(0.0);
            let counted = if sample.value < earlier {
                sample.value
            } else {
                sample.value - earlier
            };
            *rates.entry(sample.label(label).to_owned()).or_insert(0.0) += counted / self.seconds;
        }
        rates
    }

    fn rate(&self, name: &str) -> f64 {
        self.rates_by(name, "").values().sum()
    }

    fn latency(&self, kind: &str) -> Option<Latency> {
        let name = "helenus_cql_request_duration_seconds_bucket";
        let cumulative = |reading: &Reading| -> Vec<(f64, f64)> {
            reading
                .of(name)
                .filter(|sample| sample.label("kind") == kind)
                .map(|sample| (sample.label("le").parse().unwrap_or(f64::INFINITY), sample.value))
                .collect()
        };
        let mut buckets = cumulative(self.after);
        let before = cumulative(self.before);
        // A process that began anew counts from zero.
        let is_continued = before.last().map(|last| last.1) <= buckets.last().map(|last| last.1);
        if is_continued && before.len() == buckets.len() {
            for (bucket, earlier) in buckets.iter_mut().zip(&before) {
                bucket.1 -= earlier.1;
            }
        }
        buckets.sort_by(|left, right| left.0.total_cmp(&right.0));
        Some(Latency {
            kind: kind.to_owned(),
            p50_ms: quantile(&buckets, 0.5)? * 1e3,
            p99_ms: quantile(&buckets, 0.99)? * 1e3,
        })
    }

    fn hit_ratio(&self, cache: &str) -> Option<f64> {
        let hits = self.rate(&format!("helenus_{cache}_hits_total"));
        let all = hits + self.rate(&format!("helenus_{cache}_misses_total"));
        (all > 0.0).then(|| hits / all)
    }
}

impl Snapshot {
    pub fn between(node: &str, before: &Reading, after: &Reading) -> Self {
        let interval = Interval {
            before,
            after,
            seconds: (after.at_s - before.at_s).max(1e-3),
        };
        let mut requests: Vec<_> = interval
            .rates_by("helenus_cql_requests_total", "kind")
            .into_iter()
            .collect();
        let places = ["read", "write", "batch", "prepare", "other"];
        requests.sort_by_key(|(kind, _)| places.iter().position(|place| place == kind));
        let latencies = requests
            .iter()
            .filter_map(|(kind, _)| interval.latency(kind))
            .collect();
        let mut errors: Vec<_> = interval
            .rates_by("helenus_cql_errors_total", "type")
            .into_iter()
            .filter(|(_, rate)| *rate > 0.0)
            .collect();
        errors.sort_by(|left, right| right.1.total_cmp(&left.1));
        let delays = after.of("helenus_queue_delay_seconds");
        let mut partitions = after.partitions.clone();
        partitions.sort_by(|left, right| requests_of(right).total_cmp(&requests_of(left)));
        Snapshot {
            node: node.to_owned(),
            interval_s: interval.seconds,
            shards: after.of("helenus_connections").count(),
            connections: after.sum("helenus_connections") as u64,
            requests_per_second: requests,
            latencies,
            errors_per_second: errors,
            refused_per_second: interval.rate("helenus_cql_requests_refused_total"),
            queue_delay_us: delays.map(|sample| sample.value * 1e6).fold(0.0, f64::max),
            request_bytes: after.sum("helenus_request_bytes"),
            row_cache_hit_ratio: interval.hit_ratio("row_cache"),
            index_page_hit_ratio: interval.hit_ratio("index_page"),
            data_page_hit_ratio: interval.hit_ratio("data_page"),
            disk_reads_per_second: interval.rate("helenus_disk_reads_total"),
            memtable_bytes: after.sum("helenus_memtable_bytes"),
            row_cache_bytes: after.sum("helenus_row_cache_bytes"),
            sstables: after.sum("helenus_sstables") as u64,
            compactions_running: after.sum("helenus_compaction_running") as u64,
            compactions_pending: after.sum("helenus_compaction_pending_tasks") as u64,
            compaction_written_bytes_per_second: interval.rate("helenus_compaction_written_bytes_total"),
            tables: tables(after),
            partitions,
        }
    }
}

/// Where such a part of all lies, of cumulative counts by their upper bounds: evenly spread within its bucket, as Prometheus has it.
fn quantile(buckets: &[(f64, f64)], part: f64) -> Option<f64> {
    let wanted = part * buckets.last()?.1;
    let at = buckets
        .iter()
        .position(|(_, count)| *count >= wanted && *count > 0.0)?;
    let (from, below) = match at {
        0 => (0.0, 0.0),
        _ => buckets[at - 1],
    };
    let (to, count) = buckets[at];
    Some(match to.is_finite() {
        true => from + (to - from) * (wanted - below) / (count - below),
        false => from,
    })
}

fn requests_of(partition: &HotPartition) -> f64 {
    partition.reads_per_second + partition.writes_per_second
}

fn tables(after: &Reading) -> Vec<TableRate> {
    let mut tables: BTreeMap<(String, String), TableRate> = BTreeMap::new();
    for sample in after.of("helenus_table_requests_per_second") {
        let name = (
            sample.label("keyspace").to_owned(),
            sample.label("table").to_owned(),
        );
        let table = tables.entry(name.clone()).or_insert_with(|| TableRate {
            keyspace: name.0,
            table: name.1,
            ..TableRate::default()
        });
        match sample.label("kind") {
            "read" => table.reads_per_second += sample.value,
            _ => table.writes_per_second += sample.value,
        }
    }
    let mut tables: Vec<TableRate> = tables.into_values().collect();
    let requests = |table: &TableRate| table.reads_per_second + table.writes_per_second;
    tables.sort_by(|left, right| requests(right).total_cmp(&requests(left)));
    tables
}
