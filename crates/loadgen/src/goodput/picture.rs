//! One SVG of all curves: a row for each workload; goodput, what was not served in time, and p99 beside each other. And one of
//! disturbances: a row for each, who was refused and who was late beside each other.

use super::report::{Curve, Disturbance, DisturbanceKind, DisturbedWindow, GoodputReport, Point};
use super::table::happening;
use super::workload::GoodputWorkload;
use crate::chart::{Chart, Line, side_by_side};

pub fn to_svg(reports: &[GoodputReport]) -> String {
    let workloads: Vec<GoodputWorkload> = GoodputWorkload::ALL
        .into_iter()
        .filter(|workload| curves(reports, *workload).next().is_some())
        .collect();
    let rows: Vec<Vec<Chart>> = workloads
        .into_iter()
        .map(|workload| charts(reports, workload).into())
        .collect();
    side_by_side(&rows)
}

/// Draws the outcomes of requests around each disturbance of these reports, where something happened.
pub fn disturbances_to_svg(reports: &[GoodputReport]) -> String {
    let mut rows: Vec<Vec<Chart>> = Vec::new();
    let mut seen: Vec<(GoodputWorkload, DisturbanceKind)> = Vec::new();
    for disturbance in reports.iter().flat_map(|report| &report.disturbances) {
        let what = (disturbance.workload, disturbance.kind);
        if disturbance.kind != DisturbanceKind::Steady && !seen.contains(&what) {
            seen.push(what);
            rows.push(disturbed(reports, disturbance).into());
        }
    }
    side_by_side(&rows)
}

fn disturbed(reports: &[GoodputReport], first: &Disturbance) -> [Chart; 2] {
    let chart = |what: &str, share: fn(&DisturbedWindow) -> u64| {
        let of_report = |report: &GoodputReport| {
            let same = report
                .disturbances
                .iter()
                .find(|other| (other.workload, other.kind) == (first.workload, first.kind))?;
            let point =
                |window: &DisturbedWindow| (f64::from(window.from_ms), 100.0 * window.share(share(window)));
            let points = same.windows.iter().map(point).collect();
            Some(Line::new(report.label.as_str(), points))
        };
        Chart {
            title: format!("{}, {}: {what}", first.workload.name(), happening(first)),
            x_label: "due, ms from its end".to_owned(),
            y_label: "% of what was due".to_owned(),
            lines: reports.iter().filter_map(of_report).collect(),
            ..Chart::default()
        }
    };
    [
        chart("refused", |window| window.refused),
        chart("late or not sent", |window| window.late + window.unsent),
    ]
}

fn curves(
    reports: &[GoodputReport],
    workload: GoodputWorkload,
) -> impl Iterator<Item = (&GoodputReport, &Curve)> {
    reports.iter().flat_map(move |report| {
        let of_workload = report
            .curves
            .iter()
            .filter(move |curve| curve.workload == workload);
        of_workload.map(move |curve| (report, curve))
    })
}

fn charts(reports: &[GoodputReport], workload: GoodputWorkload) -> [Chart; 3] {
    let lines = |name: &str, value: fn(&Point) -> f64| -> Vec<Line> {
        let line = |(report, curve): (&GoodputReport, &Curve)| {
            let points = curve.points.iter();
            let points = points.map(|point| (point.intended_per_s, value(point))).collect();
            Line::new(format!("{}{name}", report.label), points)
        };
        curves(reports, workload).map(line).collect()
    };
    let chart = |what: &str, y_label: &str, lines: Vec<Line>| Chart {
        title: format!("{}: {what}", workload.name()),
        x_label: "offered, requests/s".to_owned(),
        y_label: y_label.to_owned(),
        lines,
        has_log_x: true,
        ..Chart::default()
    };
    let mut lost = lines(", refused", |point| point.refused_per_s + point.failed_per_s);
    lost.extend(
        lines(", late or unsent", |point| {
            point.late_per_s + point.held_back_per_s + point.not_generated_per_s
        })
        .into_iter()
        .map(|line| Line {
            is_dashed: true,
            ..line
        }),
    );
    [
        chart("goodput", "in time/s", lines("", |point| point.good_per_s)),
        chart("what was not in time", "requests/s", lost),
        Chart {
            has_log_y: true,
            ..chart(
                "p99 of what was served",
                "ms",
                lines("", |point| point.p99_us as f64 / 1e3),
            )
        },
    ]
}
