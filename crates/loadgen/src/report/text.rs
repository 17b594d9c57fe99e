//! The report as a page of text.

use std::fmt::Write as _;

use super::Report;
use crate::chart::short_number;

pub fn to_text(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _infallible = writeln!(text, "{name:<22}{value}");
    };
    let rate = report.rate_per_s.map_or(String::new(), |rate| {
        format!(", {} offered/s", short_number(rate))
    });
    line(
        "workload",
        format!(
            "{}, {}, {} workers on {} threads{rate}",
            report.workload, report.mode, report.workers, report.threads
        ),
    );
    line("elapsed", format!("{:.2} s", report.elapsed_s));
    line(
        "throughput",
        format!("{} ops/s ({} ops)", short_number(report.ops_per_s), report.ops),
    );
    line("latency", latency(report));
    if let Some(late) = &report.sent_late_us {
        line(
            "sent late",
            format!(
                "p50 {}  p99 {}  (part of the latency)",
                duration(late.p50),
                duration(late.p99)
            ),
        );
    }
    if report.unsent > 0 {
        line(
            "never sent",
            format!("{}: all workers were waiting", report.unsent),
        );
    }
    line("errors", report.errors.to_string());
    for (kind, count) in &report.errors_by_kind {
        let sample = report.error_samples.get(kind).map_or("", String::as_str);
        line(&format!("  {kind}"), format!("{count}  e.g. {sample}"));
    }
    if report.refused + report.sent_again + report.retried > 0 {
        line(
            "unseen by callers",
            format!(
                "{} refused, {} sent again, {} retried",
                report.refused, report.sent_again, report.retried
            ),
        );
    }
    line(
        "client",
        format!(
            "{:.2} us of CPU per request ({:.2} of it the generator), {:.0} MiB",
            report.client_cpu_us_per_op,
            report.generator_us_per_op,
            report.client_resident_bytes_max as f64 / f64::from(1 << 20)
        ),
    );
    text
}

fn latency(report: &Report) -> String {
    let latency = &report.latency_us;
    format!(
        "p50 {}  p90 {}  p99 {}  p99.9 {}  max {}",
        duration(latency.p50),
        duration(latency.p90),
        duration(latency.p99),
        duration(latency.p999),
        duration(latency.max)
    )
}

/// Microseconds as people say them.
pub(crate) fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}
