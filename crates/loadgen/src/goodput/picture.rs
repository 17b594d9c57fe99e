//! One SVG of all curves: a row for each workload; goodput, what was not served in time, and p99 beside each other.

use std::fmt::Write as _;

use super::{Curve, GoodputReport, GoodputWorkload, Point};
use crate::chart::{Chart, Line};

/// Of one chart, in pixels.
const WIDTH: usize = 760;
const HEIGHT: usize = 340;

pub fn to_svg(reports: &[GoodputReport]) -> String {
    let workloads: Vec<GoodputWorkload> = GoodputWorkload::ALL
        .into_iter()
        .filter(|workload| curves(reports, *workload).next().is_some())
        .collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\">\n",
        3 * WIDTH,
        workloads.len() * HEIGHT
    );
    for (row, workload) in workloads.into_iter().enumerate() {
        for (column, chart) in charts(reports, workload).iter().enumerate() {
            let _infallible = writeln!(
                svg,
                "<g transform=\"translate({} {})\">\n{}</g>",
                column * WIDTH,
                row * HEIGHT,
                chart.to_svg()
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
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

#[cfg(test)]
mod tests {
    use super::super::RequestSize;
    use super::*;

    #[test]
    fn every_workload_has_its_row_and_every_server_its_line() {
        let curve = |workload| Curve {
            workload,
            capacity_per_s: 1_000.0,
            points: [0.5, 1.0, 2.0]
                .map(|multiple| Point {
                    multiple,
                    intended_per_s: multiple * 1_000.0,
                    good_per_s: 900.0,
                    p99_us: 1_500,
                    ..Point::default()
                })
                .to_vec(),
            recoveries: Vec::new(),
            resident: Vec::new(),
        };
        let report = |label: &str, workloads: &[GoodputWorkload]| GoodputReport {
            label: label.to_owned(),
            deadline_ms: 10.0,
            in_flight_max: 1_024,
            connections: 16,
            size: RequestSize::Small,
            curves: workloads.iter().copied().map(curve).collect(),
        };
        let reports = [
            report("one", &GoodputWorkload::ALL),
            report("another", &[GoodputWorkload::UniformReads]),
        ];
        let svg = to_svg(&reports);
        assert_eq!(svg.matches("<svg ").count(), 1 + 4 * 3);
        assert_eq!(svg.matches(">another<").count(), 2);
        assert!(svg.contains("uniform cached reads: goodput") && !svg.contains("NaN"));
    }
}
