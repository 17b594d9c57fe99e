//! Reports as tables.

use std::fmt::Write as _;

use super::{GoodputReport, Point, Recovery};
use crate::chart::short_number;

const HEAD: &str = "| | offered | a second | sent | in time (its rounds) | of the best | late | refused | other errors | held back | not generated \
                    | p50 ms | p99 ms | control p99 ms | server CPU | resident MiB | counted s |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

pub fn to_markdown(reports: &[GoodputReport]) -> String {
    let mut text = String::new();
    for report in reports {
        for curve in &report.curves {
            let peak_per_s = curve.peak_per_s();
            let _infallible = write!(
                text,
                "\n### {}, {}: {} a second in a closed loop\n\n{HEAD}",
                report.label,
                curve.workload.name(),
                short_number(curve.capacity_per_s)
            );
            for point in &curve.points {
                text.push_str(&row(point, peak_per_s));
            }
            text.push('\n');
            for recovery in &curve.recoveries {
                text.push_str(&recovered(recovery));
            }
            text.push_str(&memory(&curve.resident));
        }
    }
    text
}

fn recovered(recovery: &Recovery) -> String {
    let within =
        |ms: Option<u32>| ms.map_or("not within a second".to_owned(), |ms| format!("within {ms} ms"));
    let disturbed = if recovery.is_disturbed {
        " (the hypervisor took a processor away meanwhile)"
    } else {
        ""
    };
    let worst = match recovery.all_ms.len() {
        0 | 1 => String::new(),
        looks => format!(
            " (the median of {looks} looks; the worst {}; of the windows before, {:.1} % were not normal either)",
            within(recovery.worst_ms()),
            100.0 * recovery.abnormal_before
        ),
    };
    format!(
        "After {} s of {}x, down to half: normal again {}{worst}{disturbed}.\n",
        recovery.overload_s,
        recovery.multiple,
        within(recovery.recovery_ms)
    )
}

fn row(point: &Point, peak_per_s: f64) -> String {
    let ms = |us: u64| us as f64 / 1e3;
    let cpu = point
        .server_cpu
        .map_or(String::new(), |cpu| format!("{:.0} %", cpu * 100.0));
    let resident = point
        .resident_bytes
        .map_or(String::new(), |bytes| (bytes >> 20).to_string());
    let stolen = if point.stolen > 0.0 {
        format!(", {:.0} % of a core stolen", 100.0 * point.stolen)
    } else {
        String::new()
    };
    let rounds = if point.good_rounds_per_s.is_empty() {
        String::new()
    } else {
        let rounds = point.good_rounds_per_s.iter().copied();
        let (least, most) = (
            rounds.clone().fold(f64::INFINITY, f64::min),
            rounds.fold(0.0, f64::max),
        );
        format!(" ({} to {})", short_number(least), short_number(most))
    };
    let of_best = point
        .of_best
        .unwrap_or_else(|| point.good_per_s / peak_per_s.max(1.0));
    format!(
        "| | {}x | {} | {} | {}{rounds} | {:.1} % | {} | {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {cpu} | {resident} | {:.1}{stolen} |\n",
        point.multiple,
        short_number(point.intended_per_s),
        short_number(point.sent_per_s),
        short_number(point.good_per_s),
        100.0 * of_best,
        short_number(point.late_per_s),
        short_number(point.refused_per_s),
        short_number(point.failed_per_s),
        short_number(point.held_back_per_s),
        short_number(point.not_generated_per_s),
        ms(point.p50_us),
        ms(point.p99_us),
        ms(point.control_p99_us),
        point.counted_s,
    )
}

/// The memory of the server in the last overload, its first two seconds left out.
fn memory(resident: &[(f64, u64)]) -> String {
    let held = resident
        .iter()
        .filter(|(at_s, _)| *at_s >= 2.0)
        .map(|(_, bytes)| bytes >> 20);
    match (held.clone().min(), held.max()) {
        (Some(least), Some(most)) => format!("The server's memory in it: {least} to {most} MiB resident.\n"),
        _ => String::new(),
    }
}
