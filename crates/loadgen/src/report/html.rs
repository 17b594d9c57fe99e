//! The report as one HTML file that opens without a network.

use std::fmt::Write as _;

use super::{Report, to_text};
use crate::chart::{Chart, Line, escaped};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:800px;margin:2em auto;padding:0 1em;color:#222}\
    pre{background:#f5f5f5;padding:1em;white-space:pre-wrap}svg{max-width:100%;height:auto;margin:.6em 0}";

pub fn to_html(report: &Report) -> String {
    let title = format!("{}: {:.0} ops/s", report.workload, report.ops_per_s);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{}</title><style>{STYLE}</style></head>\n\
         <body><h1>{}</h1>\n<pre>{}</pre>\n",
        escaped(&title),
        escaped(&title),
        escaped(&to_text(report))
    );
    for chart in charts(report) {
        html.push_str(&chart.to_svg());
    }
    let json = serde_json::to_string(report)
        .unwrap_or_default()
        .replace('<', "\\u003c");
    let _infallible = write!(
        html,
        "<script type=\"application/json\" id=\"report\">{json}</script>\n</body></html>\n"
    );
    html
}

fn charts(report: &Report) -> Vec<Chart> {
    let over_time = |value: fn(&super::ReportSecond) -> f64| {
        let seconds = report.seconds.iter();
        seconds
            .map(|second| (second.at_s, value(second)))
            .collect::<Vec<_>>()
    };
    let time = |title: &str, y_label: &str, lines| Chart {
        title: title.to_owned(),
        x_label: "seconds".to_owned(),
        y_label: y_label.to_owned(),
        lines,
        ..Chart::default()
    };
    let mut charts = vec![
        time(
            "Throughput",
            "requests/s",
            vec![
                Line::new("answered", over_time(|second| second.ops_per_s)),
                Line::new("errors", over_time(|second| second.errors as f64)),
            ],
        ),
        Chart {
            has_log_y: true,
            ..time(
                "Latency",
                "us",
                vec![
                    Line::new("p50", over_time(|second| second.p50_us as f64)),
                    Line::new("p99", over_time(|second| second.p99_us as f64)),
                    Line::new("p99.9", over_time(|second| second.p999_us as f64)),
                ],
            )
        },
        spectrum(report),
    ];
    if report
        .seconds
        .iter()
        .any(|second| second.throttle_limit.is_some())
    {
        charts.push(time(
            "Requests under way",
            "requests",
            vec![
                Line::new(
                    "throttle limit",
                    over_time(|second| second.throttle_limit.map_or(f64::NAN, |limit| limit as f64)),
                ),
                Line::new("under way", over_time(|second| second.in_flight as f64)),
            ],
        ));
    }
    charts
}

fn spectrum(report: &Report) -> Chart {
    let slower = report.spectrum.iter().filter(|(share, _)| *share < 1.0);
    let line = slower.map(|(share, us)| (1.0 / (1.0 - share), *us as f64));
    Chart {
        title: "Latency by share of requests".to_owned(),
        x_label: "one request in".to_owned(),
        y_label: "us".to_owned(),
        lines: vec![Line::new("is slower than", line.collect())],
        has_log_x: true,
        has_log_y: true,
    }
}
