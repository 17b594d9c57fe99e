//! The report as JSON; also the form that the other reports and comparisons are made from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::run::{Latencies, Load, Measurement, Recorder, Undisturbed};

/// A run's report. Field names are the JSON's keys and stay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub workload: String,
    pub mode: String,
    pub workers: usize,
    /// Open loop: requests offered a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    pub threads: usize,
    /// Threads among them to which the kernel gives short slices of the processor (Linux 6.12 and later).
    #[serde(default)]
    pub threads_with_short_slices: usize,
    pub elapsed_s: f64,
    pub ops: u64,
    pub errors: u64,
    pub errors_by_kind: BTreeMap<String, u64>,
    pub error_samples: BTreeMap<String, String>,
    /// Open loop: requests whose time had come and that were never sent.
    pub unsent: u64,
    pub ops_per_s: f64,
    pub latency_us: ReportLatencies,
    /// The same of the time in which the hypervisor took no processor away.
    #[serde(default)]
    pub undisturbed: ReportUndisturbed,
    /// Open loop: how late the generator itself was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_late_us: Option<ReportLatencies>,
    /// Latency in µs at each share of the requests, for a chart.
    pub spectrum: Vec<(f64, u64)>,
    pub client_cpu_s: f64,
    pub client_cpu_us_per_op: f64,
    /// Part of that for choosing statements and making values.
    pub generator_us_per_op: f64,
    pub client_resident_bytes_max: u64,
    pub sent_again: u64,
    pub retried: u64,
    pub refused: u64,
    pub seconds: Vec<ReportSecond>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ReportUndisturbed {
    pub elapsed_s: f64,
    pub ops: u64,
    pub ops_per_s: f64,
    pub latency_us: ReportLatencies,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ReportLatencies {
    pub mean: f64,
    pub p50: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ReportSecond {
    pub at_s: f64,
    pub ops_per_s: f64,
    pub errors: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_limit: Option<usize>,
    pub in_flight: usize,
    pub waiting: usize,
    #[serde(default)]
    pub is_disturbed: bool,
}

impl From<Latencies> for ReportLatencies {
    fn from(latencies: Latencies) -> Self {
        ReportLatencies {
            mean: latencies.mean,
            p50: latencies.p50,
            p90: latencies.p90,
            p95: latencies.p95,
            p99: latencies.p99,
            p999: latencies.p999,
            max: latencies.max,
        }
    }
}

/// The shares of requests at which the spectrum is sampled.
const SPECTRUM: [f64; 14] = [
    0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1.0,
];

impl Report {
    pub fn of(measured: &Measurement) -> Report {
        let Recorder {
            ops,
            errors_by_kind,
            samples,
            histogram,
            ..
        } = &measured.totals;
        let elapsed_s = measured.elapsed.as_secs_f64();
        let cpu_s = measured.usage.cpu.as_secs_f64();
        let (mode, rate_per_s) = match measured.load {
            Load::Closed { .. } => ("closed loop", None),
            Load::Open { per_second, .. } => ("open loop", Some(per_second)),
        };
        Report {
            workload: measured.workload.clone(),
            mode: mode.to_owned(),
            workers: measured.load.workers(),
            rate_per_s,
            threads: measured.threads,
            threads_with_short_slices: helenus_scheduling::short_slices(),
            elapsed_s,
            ops: *ops,
            errors: measured.totals.errors(),
            errors_by_kind: errors_by_kind.clone(),
            error_samples: samples.clone(),
            unsent: measured.unsent,
            ops_per_s: *ops as f64 / elapsed_s.max(1e-9),
            latency_us: measured.totals.latencies().into(),
            undisturbed: undisturbed(&measured.undisturbed),
            sent_late_us: rate_per_s.map(|_| lateness(&measured.totals)),
            spectrum: SPECTRUM
                .map(|share| (share, histogram.value_at_quantile(share)))
                .to_vec(),
            client_cpu_s: cpu_s,
            client_cpu_us_per_op: cpu_s * 1e6 / measured.totals.count().max(1) as f64,
            generator_us_per_op: measured.generator_ns / 1e3,
            client_resident_bytes_max: measured.usage.resident_bytes_max,
            sent_again: measured.sent_again,
            retried: measured.retried,
            refused: measured.refused,
            seconds: measured.seconds.iter().map(second).collect(),
        }
    }
}

fn undisturbed(undisturbed: &Undisturbed) -> ReportUndisturbed {
    let elapsed_s = undisturbed.length.as_secs_f64();
    ReportUndisturbed {
        elapsed_s,
        ops: undisturbed.totals.ops,
        ops_per_s: undisturbed.totals.ops as f64 / elapsed_s.max(1e-9),
        latency_us: undisturbed.totals.latencies().into(),
    }
}

fn lateness(totals: &Recorder) -> ReportLatencies {
    let at = |quantile| totals.lateness.value_at_quantile(quantile);
    ReportLatencies {
        mean: totals.lateness.mean(),
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: totals.lateness.max(),
    }
}

fn second(second: &crate::run::Second) -> ReportSecond {
    ReportSecond {
        at_s: second.at_s,
        ops_per_s: second.ops as f64 / second.length_s.max(1e-9),
        errors: second.errors,
        p50_us: second.latencies.p50,
        p99_us: second.latencies.p99,
        p999_us: second.latencies.p999,
        throttle_limit: second.throttle_limit,
        in_flight: second.in_flight,
        waiting: second.waiting,
        is_disturbed: second.is_disturbed,
    }
}
