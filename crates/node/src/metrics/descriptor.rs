//! The declaration of one metric, and its samples.

use std::collections::HashMap;
use std::fmt::{Display, Write};

use super::histogram::Distributions;
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

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    /// As the exposition format writes them: `shard="0",kind="read"`.
    pub labels: String,
    pub value: f64,
}

/// The values of one metric by their labels.
pub struct Series {
    names: &'static [&'static str],
    values: Vec<(String, f64)>,
    places: HashMap<String, usize>,
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

impl Series {
    pub(super) fn new(names: &'static [&'static str]) -> Self {
        Series {
            names,
            values: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Adds to the series with these values of the labels, in the order in which the metric declares them. Two things may have
    /// the same labels, as a table has that was dropped and made again: their sum is shown, since Prometheus takes no page on
    /// which a series is twice.
    pub fn add(&mut self, labels: &[&dyn Display], value: f64) {
        let labels = labels_text(self.names, labels);
        match self.places.get(&labels) {
            Some(&place) => self.values[place].1 += value,
            None => {
                self.places.insert(labels.clone(), self.values.len());
                self.values.push((labels, value));
            }
        }
    }

    /// Labels as text with their values, in the order of their first [`Series::add`].
    pub(super) fn into_values(self) -> Vec<(String, f64)> {
        self.values
    }
}

/// Labels with their values, as the exposition format has them.
pub(super) fn labels_text(names: &[&str], values: &[&dyn Display]) -> String {
    let mut text = String::new();
    for (name, value) in names.iter().zip(values) {
        let separator = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{separator}{name}=\"{}\"", escaped(&value.to_string()));
    }
    text
}

/// A label's value as the exposition format has it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
