//! One reading of a node's virtual tables.

use std::time::Instant;

use helenus_client::{RequestError, Session};
use serde::Serialize;

/// Metrics and hot partitions of the node at one time.
#[derive(Debug, Default)]
pub struct Reading {
    /// Seconds since the process began to look.
    pub at_s: f64,
    pub samples: Vec<Sample>,
    pub partitions: Vec<HotPartition>,
}

/// One line of the metrics page.
#[derive(Debug, Clone)]
pub struct Sample {
    pub name: String,
    /// `name="value",...`
    pub labels: String,
    pub value: f64,
}

/// A row of `system_views.hot_partitions`.
#[derive(Debug, Clone, Serialize)]
pub struct HotPartition {
    pub keyspace: String,
    pub table: String,
    pub key: String,
    pub reads_per_second: f64,
    pub writes_per_second: f64,
    /// Share of its shard's requests, from 0 to 1.
    pub share: f64,
    pub shard: i32,
}

const METRICS: &str = "SELECT name, labels, value FROM system_views.node_metrics";
const PARTITIONS: &str = "SELECT keyspace_name, table_name, partition_key, reads_per_second, writes_per_second, \
                          share, shard FROM system_views.hot_partitions";

impl Reading {
    pub async fn take(session: &Session) -> Result<Self, RequestError> {
        let mut reading = Reading {
            at_s: seconds_since_start(),
            ..Reading::default()
        };
        for row in session
            .query(METRICS, ())
            .await?
            .rows::<(String, String, f64)>()?
        {
            let (name, labels, value) = row?;
            reading.samples.push(Sample { name, labels, value });
        }
        let rows = session.query(PARTITIONS, ()).await?;
        for row in rows.rows::<(String, String, String, f64, f64, f64, i32)>()? {
            let (keyspace, table, key, reads_per_second, writes_per_second, share, shard) = row?;
            reading.partitions.push(HotPartition {
                keyspace,
                table,
                key,
                reads_per_second,
                writes_per_second,
                share,
                shard,
            });
        }
        Ok(reading)
    }

    pub fn of<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r Sample> {
        self.samples.iter().filter(move |sample| sample.name == name)
    }

    pub fn sum(&self, name: &str) -> f64 {
        self.of(name).map(|sample| sample.value).sum()
    }
}

impl Sample {
    /// The value of a label that never holds a quote: shards, kinds, names of tables.
    pub fn label(&self, name: &str) -> &str {
        let values = self.labels.split(',').filter_map(|label| label.split_once('='));
        values
            .filter(|(label, _)| *label == name)
            .map(|(_, value)| value.trim_matches('"'))
            .next()
            .unwrap_or_default()
    }
}

fn seconds_since_start() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}
