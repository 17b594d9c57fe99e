//! The page that Prometheus reads: text exposition format 0.0.4.

use std::fmt::Write;

use super::all;
use super::descriptor::Metric;
use super::snapshot::MetricsSnapshot;

pub fn render(snapshots: &[MetricsSnapshot]) -> String {
    let mut page = String::with_capacity(16 * 1024);
    for metric in all() {
        append(&mut page, metric, snapshots);
    }
    page
}

fn append(page: &mut String, metric: &Metric, snapshots: &[MetricsSnapshot]) {
    let (name, kind, help) = (metric.name, metric.kind.name(), metric.help);
    // Writing to a String cannot fail.
    let _infallible = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for sample in metric.samples(snapshots) {
        let (name, labels, value) = (&sample.name, &sample.labels, sample.value);
        let _infallible = if labels.is_empty() {
            writeln!(page, "{name} {value}")
        } else {
            writeln!(page, "{name}{{{labels}}} {value}")
        };
    }
}
