//! Reports as tables.

use std::fmt::Write as _;

use super::report::{
    Curve, Disturbance, DisturbanceKind, DisturbedWindow, Figures, GoodputReport, Mix, MixKind, Point,
    Recovery,
};
use crate::chart::short_number;

const HEAD: &str = "| | offered | a second | sent | in time (its rounds) | of the best | late | of them unanswered | refused | other errors | held back | not generated \
                    | p50 ms | p99 ms | control p99 ms | server CPU | resident MiB | generator's longest pause ms | counted s |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

/// Loads of which a summary tells more than what was in time.
const REFUSALS_AT: f64 = 0.8;
const P99_AT: f64 = 5.0;

/// Windows of a table behind the end of a disturbance.
const WINDOWS_AFTER: usize = 6;

pub fn to_markdown(reports: &[GoodputReport]) -> String {
    let mut text = String::new();
    for report in reports {
        let _infallible = write!(text, "\n{}: {}\n", report.label, conditions(report));
        if !report.curves.is_empty() {
            text.push_str(&summary(report));
        }
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
        for disturbance in &report.disturbances {
            text.push_str(&disturbed(report, disturbance));
        }
        if !report.mixes.is_empty() {
            text.push_str(&mixes(report));
        }
    }
    text
}

/// Every bound and default that a report's figures depend on.
pub fn conditions(report: &GoodputReport) -> String {
    let clients = if report.throws_on_overload {
        "that ask for errors (THROW_ON_OVERLOAD)"
    } else {
        "as every driver opens them (no THROW_ON_OVERLOAD)"
    };
    let cap = match report.in_flight_max {
        super::STREAMS => format!(
            "no bound on requests in flight but the protocol's {} a connection",
            super::STREAMS
        ),
        bound => format!("at most {bound} requests in flight on each"),
    };
    let gather = match report.gather_us {
        0 => "written as soon as they are due".to_owned(),
        us => format!("gathered for {us} us before they are written"),
    };
    let capacity = match report.capacity_in_flight {
        0 => "the best of closed loops with 1, 4, 16 and 64 in flight on each".to_owned(),
        depth => format!("a closed loop of {} x {depth}", report.connections),
    };
    let rounds = match report.rounds {
        0 => String::new(),
        rounds => format!(
            "; {rounds} rounds, of each the first {} s do not count",
            report.warm_up_s
        ),
    };
    format!(
        "{} connections {clients}, {cap}; open loop, requests evenly due, {gather}; in time is {} ms from when a request was due; the capacity is {capacity}{rounds}.",
        report.connections, report.deadline_ms
    )
}

/// One line for each workload.
fn summary(report: &GoodputReport) -> String {
    let mut multiples: Vec<f64> = report
        .curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(|point| point.multiple))
        .collect();
    multiples.sort_by(f64::total_cmp);
    multiples.dedup();
    let mut text = "\n| in time a second | capacity |".to_owned();
    for multiple in &multiples {
        let _infallible = write!(text, " {multiple}x |");
    }
    let refusals = multiples
        .contains(&REFUSALS_AT)
        .then(|| format!(" refused at {REFUSALS_AT}x |"));
    let p99 = multiples
        .contains(&P99_AT)
        .then(|| format!(" p99 ms at {P99_AT}x |"));
    let columns = multiples.len() + usize::from(refusals.is_some()) + usize::from(p99.is_some());
    text.extend(refusals.clone());
    text.extend(p99.clone());
    text.push_str("\n|---|---|");
    text.push_str(&"---|".repeat(columns));
    text.push('\n');
    for curve in &report.curves {
        let _infallible = write!(
            text,
            "| {} | {} |",
            curve.workload.name(),
            short_number(curve.capacity_per_s)
        );
        for multiple in &multiples {
            let cell = curve
                .point(*multiple)
                .map_or(String::new(), |point| in_time(curve, point));
            let _infallible = write!(text, " {cell} |");
        }
        let at = |multiple: f64, value: fn(&Point) -> f64| {
            let value = curve.point(multiple).map(value);
            format!(" {} |", value.map_or(String::new(), short_number))
        };
        text.extend(
            refusals
                .as_ref()
                .map(|_| at(REFUSALS_AT, |point| point.refused_per_s)),
        );
        text.extend(
            p99.as_ref()
                .map(|_| at(P99_AT, |point| point.p99_us as f64 / 1e3)),
        );
        text.push('\n');
    }
    text
}

/// Above the capacity also as a share of the best below it; marked where this process could not send nine tenths of it in time.
fn in_time(curve: &Curve, point: &Point) -> String {
    let share = match point.of_best {
        Some(share) if point.multiple > 1.0 => format!(" ({:.0} %)", 100.0 * share),
        _ => String::new(),
    };
    let intended_per_s = point.multiple * curve.capacity_per_s;
    let mark = if point.not_generated_per_s > 0.1 * intended_per_s {
        "*"
    } else {
        ""
    };
    format!("{}{mark}{share}", short_number(point.good_per_s))
}

fn within(ms: Option<u32>) -> String {
    ms.map_or("not within a second".to_owned(), |ms| format!("within {ms} ms"))
}

fn recovered(recovery: &Recovery) -> String {
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
    // Not in reports of before it was measured.
    let pause = match point.pause_us_max {
        0 => String::new(),
        us => format!("{:.1}", f64::from(us) / 1e3),
    };
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
        "| | {}x | {} | {} | {}{rounds} | {:.1} % | {} | {} | {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {cpu} | {resident} | {pause} | {:.1}{stolen} |\n",
        point.multiple,
        short_number(point.intended_per_s),
        short_number(point.sent_per_s),
        short_number(point.good_per_s),
        100.0 * of_best,
        short_number(point.late_per_s),
        short_number(point.unanswered_per_s),
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

/// Returns the disturbance as a clause.
pub fn happening(disturbance: &Disturbance) -> String {
    let Disturbance {
        load,
        meanwhile,
        length_ms,
        ..
    } = disturbance;
    match disturbance.kind {
        DisturbanceKind::Steady => format!("{load}x and nothing else"),
        DisturbanceKind::Stall => format!("stopped for {length_ms} ms at {load}x"),
        DisturbanceKind::Burst => format!("{meanwhile}x for {length_ms} ms at {load}x"),
    }
}

fn disturbed(report: &GoodputReport, disturbance: &Disturbance) -> String {
    let mut text = format!(
        "\n### {}, {}: {}\n\n",
        report.label,
        disturbance.workload.name(),
        happening(disturbance)
    );
    let stolen = match disturbance.looks_stolen {
        0 => String::new(),
        looks => format!("; the hypervisor took a processor away in {looks} others"),
    };
    let _infallible = writeln!(
        text,
        "{} a second in a closed loop; {} looks{stolen}. 100 ms without a refusal began {}; in the whole time that was looked at the last that was refused was due {}, the last that was not in time {}.\n",
        short_number(disturbance.capacity_per_s),
        disturbance.refused_until_ms.len(),
        until(&disturbance.unrefused_from_ms, "at no time"),
        until(&disturbance.refused_until_ms, "when that was over"),
        until(&disturbance.bad_until_ms, "when that was over")
    );
    text.push_str("| ms from its end | due | in time | late | refused | other errors | not sent |\n|---|---|---|---|---|---|---|\n");
    if disturbance.kind == DisturbanceKind::Steady {
        let mut whole = DisturbedWindow::default();
        for window in &disturbance.windows {
            whole.good += window.good;
            whole.late += window.late;
            whole.refused += window.refused;
            whole.failed += window.failed;
            whole.unsent += window.unsent;
        }
        let length_ms = disturbance.windows.len() as u32 * disturbance.window_ms;
        text.push_str(&window_row(&format!("all {length_ms}"), &whole));
        return text;
    }
    let end = disturbance.windows.iter().position(|window| window.from_ms >= 0);
    let end = end.unwrap_or(disturbance.windows.len());
    let during = usize::try_from(disturbance.length_ms / disturbance.window_ms.max(1)).unwrap_or(0);
    let first = end.saturating_sub(during + 1);
    for window in disturbance
        .windows
        .iter()
        .skip(first)
        .take(end - first + WINDOWS_AFTER)
    {
        text.push_str(&window_row(&window.from_ms.to_string(), window));
    }
    text
}

/// The middle and the worst of some looks, and what is said of those that have no such moment.
fn until(all_ms: &[Option<u32>], never: &str) -> String {
    let told = |ms: Option<Option<u32>>| match ms.flatten() {
        Some(0) => "by its end".to_owned(),
        Some(ms) => format!("{ms} ms after it"),
        None => never.to_owned(),
    };
    format!(
        "{} (the worst: {})",
        told(all_ms.get(all_ms.len() / 2).copied()),
        told(all_ms.last().copied())
    )
}

fn window_row(from: &str, window: &DisturbedWindow) -> String {
    let percent = |count: u64| match count {
        0 => "0".to_owned(),
        _ => format!("{:.2} %", 100.0 * window.share(count)),
    };
    format!(
        "| {from} | {} | {} | {} | {} | {} | {} |\n",
        window.due(),
        percent(window.good),
        percent(window.late),
        percent(window.refused),
        percent(window.failed),
        percent(window.unsent)
    )
}

fn mixes(report: &GoodputReport) -> String {
    let mut text = "\n| who behaves, who does not | offered | in time | late | refused | not sent | p50 ms | p99 ms | kept |\n\
         |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for mix in &report.mixes {
        let (name, behaves, greedy) = names(mix);
        text.push_str(&figures_row(
            &format!("**{name}**: {behaves}, alone"),
            &mix.alone,
            "",
        ));
        let kept = format!("**{:.1} %**", 100.0 * mix.kept);
        text.push_str(&figures_row(
            &format!("{behaves}, beside {greedy}"),
            &mix.beside,
            &kept,
        ));
        text.push_str(&figures_row(&greedy, &mix.other, ""));
    }
    text
}

fn names(mix: &Mix) -> (&'static str, String, String) {
    let (workload, other) = (mix.workload.name(), mix.other_workload.name());
    let multiple = mix.other.intended_per_s / mix.other_capacity_per_s.max(1.0);
    match mix.kind {
        MixKind::Aggregates => (
            "nine point reads for each aggregate",
            workload.to_owned(),
            format!("{other} at {multiple:.0}x of its capacity"),
        ),
        MixKind::GreedyConnection => (
            "a greedy connection",
            format!("{workload}, 15 shares"),
            format!("one connection that sends 100 shares ({multiple:.0}x)"),
        ),
        MixKind::GreedyTable => (
            "a greedy table",
            format!("{workload}, 15 tables with a share each"),
            format!("100 shares to another table ({multiple:.0}x)"),
        ),
        MixKind::GreedyUser => (
            "a greedy user",
            format!("{workload}, 15 users with a share each"),
            format!("another user with 100 shares over 16 connections ({multiple:.0}x)"),
        ),
    }
}

fn figures_row(name: &str, figures: &Figures, kept: &str) -> String {
    format!(
        "| {name} | {} | {} | {} | {} | {} | {:.2} | {:.2} | {kept} |\n",
        short_number(figures.intended_per_s),
        short_number(figures.good_per_s),
        short_number(figures.late_per_s),
        short_number(figures.refused_per_s + figures.failed_per_s),
        short_number(figures.unsent_per_s),
        figures.p50_us as f64 / 1e3,
        figures.p99_us as f64 / 1e3
    )
}
