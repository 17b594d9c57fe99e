//! Metrics of a node. Each metric is declared once, as a [`Metric`] with its name, kind, unit, help and labels; Prometheus'
//! page and `system_views.node_metrics` both read the declarations, `docs/operating/metrics.md` is held to them.

mod compaction;
mod counters;
mod descriptor;
mod histogram;
mod latencies;
mod memory;
mod page;
mod reads;
mod request_kind;
mod requests;
mod series;
mod snapshot;
mod tables;

use std::sync::atomic::AtomicU64;

pub(crate) use counters::ShardMetrics;
pub use descriptor::{Metric, MetricKind, Source, Unit};
pub use page::render;
pub use request_kind::RequestKind;
pub use series::{Sample, Series};
pub use snapshot::{Gauges, MetricsSnapshot, RefusedCount};

/// Panics caught at a request's boundary or in a shard's task, over the life of the process. Each one is a bug.
pub static PANICS: AtomicU64 = AtomicU64::new(0);

/// Open connections of HTTP and gRPC, which stand outside of the shards; whoever serves them counts.
pub static DOOR_CONNECTIONS: AtomicU64 = AtomicU64::new(0);

const MICROSECONDS_PER_SECOND: f64 = 1e6;

/// Every metric, in the order of the page.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    [
        requests::METRICS,
        reads::METRICS,
        memory::METRICS,
        tables::METRICS,
        compaction::METRICS,
    ]
    .into_iter()
    .flatten()
}

/// The samples of all metrics, for `system_views.node_metrics`.
pub fn samples(snapshots: &[MetricsSnapshot]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for metric in all() {
        samples.extend(metric.samples(snapshots));
    }
    samples
}

#[cfg(test)]
mod tests;
