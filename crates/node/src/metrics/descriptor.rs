//! The declaration of one metric.

use super::histogram::Distributions;
use super::series::{Sample, Series};
use super::snapshot::MetricsSnapshot;

/// One metric as it is declared. Names follow Prometheus' conventions: `helenus_`, what is measured, the unit, and `_total`
/// for what only grows.
pub struct Metric {
    pub name: &'static str,
    pub kind: MetricKind,
    pub unit: Unit,
    /// One sentence.
    pub help: &'static str,
    pub source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows while the process lives.
    Counter,
    /// Value of the moment.
    Gauge,
    /// Counts of values by their size, as cumulative buckets, with their number and sum.
    Histogram,
}

/// Unit of a value. Those that have a suffix are told by the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things, as the name calls them.
    Count,
    Bytes,
    Seconds,
    /// A part of a whole, from 0 to 1.
    Ratio,
    PerSecond,
}

/// Where the values of a metric come from.
#[derive(Clone, Copy)]
pub enum Source {
    /// One value for the process.
    Process(fn() -> f64),
    /// One value for each shard.
    Shards(fn(&MetricsSnapshot) -> f64),
    /// As many values of a shard as it has, told apart by these labels.
    Labelled {
        labels: &'static [&'static str],
        collect: fn(&MetricsSnapshot, &mut Series),
    },
    /// Distributions told apart by these labels, each the sum of those of all shards.
    Distributions {
        labels: &'static [&'static str],
        collect: fn(&MetricsSnapshot, &mut Distributions),
    },
}

impl MetricKind {
    /// As Prometheus calls it.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

impl Unit {
    /// With which names end, before `_total`.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::Bytes => "_bytes",
            Unit::Seconds => "_seconds",
            Unit::Ratio => "_ratio",
            Unit::PerSecond => "_per_second",
        }
    }
}

impl Metric {
    pub fn labels(&self) -> &'static [&'static str] {
        match self.source {
            Source::Process(_) => &[],
            Source::Shards(_) => &["shard"],
            Source::Labelled { labels, .. } | Source::Distributions { labels, .. } => labels,
        }
    }

    pub fn samples(&self, snapshots: &[MetricsSnapshot]) -> Vec<Sample> {
        let mut series = Series::new(self.labels());
        match self.source {
            Source::Process(value) => series.add(&[], value()),
            Source::Shards(value) => {
                for snapshot in snapshots {
                    series.add(&[&snapshot.shard], value(snapshot));
                }
            }
            Source::Labelled { collect, .. } => {
                for snapshot in snapshots {
                    collect(snapshot, &mut series);
                }
            }
            Source::Distributions { labels, collect } => {
                let mut distributions = Distributions::new(labels);
                for snapshot in snapshots {
                    collect(snapshot, &mut distributions);
                }
                return distributions.into_samples(self.name);
            }
        }
        let sample = |(labels, value)| Sample {
            name: self.name.to_owned(),
            labels,
            value,
        };
        series.into_values().into_iter().map(sample).collect()
    }
}
