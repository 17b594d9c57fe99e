//! Counts and latencies.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use helenus_client::RequestError;

use super::trace::{TRACED_MAX, TracedRequest};

/// The longest latency that is told apart, in µs: an hour. Longer ones count as that.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// Significant digits of a latency: errors below a hundredth.
const DIGITS: u8 = 2;

/// Outcomes of some requests.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Requests answered without an error.
    pub ops: u64,
    pub errors_by_kind: BTreeMap<String, u64>,
    /// One message of each kind.
    pub samples: BTreeMap<String, String>,
    /// Latencies of answered requests, in µs.
    pub histogram: Histogram<u64>,
    /// Open loop: how late requests were sent, in µs. The generator's own share of the latencies.
    pub lateness: Histogram<u64>,
    /// Requests that a trace tells of, since it last did.
    pub(super) traced: Vec<TracedRequest>,
}

/// Latencies in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latencies {
    pub mean: f64,
    pub p50: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

fn histogram() -> Histogram<u64> {
    // The bounds are valid by their values: 1 < 2 * 1 <= max, at most five digits.
    Histogram::new_with_bounds(1, LATENCY_US_MAX, DIGITS).unwrap_or_else(|_| unreachable!("valid bounds"))
}

impl Recorder {
    pub fn new() -> Self {
        Recorder {
            ops: 0,
            errors_by_kind: BTreeMap::new(),
            samples: BTreeMap::new(),
            histogram: histogram(),
            lateness: histogram(),
            traced: Vec::new(),
        }
    }

    pub fn answered(&mut self, latency: Duration) {
        self.ops += 1;
        self.histogram.saturating_record(latency.as_micros() as u64);
    }

    pub fn failed(&mut self, error: &RequestError) {
        let kind = kind_of(error);
        if let Some(count) = self.errors_by_kind.get_mut(kind) {
            *count += 1;
            return;
        }
        self.errors_by_kind.insert(kind.to_owned(), 1);
        self.samples.insert(kind.to_owned(), error.to_string());
    }

    pub fn sent_late(&mut self, lateness: Duration) {
        self.lateness.saturating_record(lateness.as_micros() as u64);
    }

    pub(super) fn trace(&mut self, request: TracedRequest) {
        if self.traced.len() < TRACED_MAX {
            self.traced.push(request);
        }
    }

    pub fn errors(&self) -> u64 {
        self.errors_by_kind.values().sum()
    }

    pub fn count(&self) -> u64 {
        self.ops + self.errors()
    }

    pub fn add(&mut self, other: &Recorder) {
        self.ops += other.ops;
        for (kind, count) in &other.errors_by_kind {
            *self.errors_by_kind.entry(kind.clone()).or_default() += count;
        }
        for (kind, sample) in &other.samples {
            self.samples.entry(kind.clone()).or_insert_with(|| sample.clone());
        }
        // Histograms of equal bounds always add.
        let _fits = self.histogram.add(&other.histogram);
        let _fits = self.lateness.add(&other.lateness);
    }

    pub fn clear(&mut self) {
        self.ops = 0;
        self.errors_by_kind.clear();
        self.samples.clear();
        self.histogram.reset();
        self.lateness.reset();
        self.traced.clear();
    }

    pub fn latencies(&self) -> Latencies {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        Latencies {
            mean: self.histogram.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: self.histogram.max(),
        }
    }
}

/// The word under which an error is counted.
fn kind_of(error: &RequestError) -> &'static str {
    match error {
        RequestError::Server(error) => error.code.map_or("unknown server error", |code| code.name()),
        RequestError::DeadlinePassed { .. } => "no answer in time",
        RequestError::ConnectionLost { .. } => "connection lost",
        RequestError::Unreachable(_) => "unreachable",
        RequestError::QueueFull { .. } => "queue full",
        RequestError::Bind(_) => "values do not fit",
        _ => "unreadable answer",
    }
}
