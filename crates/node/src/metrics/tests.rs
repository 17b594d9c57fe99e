//! Prometheus' conventions, and the document for operators, are kept by every declaration.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::histogram::Distributions;
use super::{Metric, MetricKind, Series, Unit, all};

fn is_name(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
    text.split('_').all(is_part)
}

fn unit_of(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    let units = [
        "_bytes",
        "_seconds",
        "_ratio",
        "_per_second",
        // Prometheus has base units only.
        "_kilobytes",
        "_mebibytes",
        "_microseconds",
        "_milliseconds",
        "_nanoseconds",
        "_us",
        "_ms",
        "_ns",
        "_percent",
        "_permille",
    ];
    units
        .into_iter()
        .find(|unit| name.ends_with(unit))
        .unwrap_or_default()
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    let mut names = BTreeSet::new();
    for metric in all() {
        let name = metric.name;
        assert!(names.insert(name), "{name} is declared twice");
        assert!(name.starts_with("helenus_") && is_name(name), "{name}");
        assert_eq!(
            name.ends_with("_total"),
            metric.kind == MetricKind::Counter,
            "{name}: counters, and only they, end in _total"
        );
        assert_eq!(
            unit_of(name),
            metric.unit.suffix(),
            "{name}: the unit ends the name"
        );
    }
}

#[test]
fn helps_are_one_line_and_labels_are_names() {
    for metric in all() {
        let (name, help) = (metric.name, metric.help);
        assert!(
            help.ends_with('.') && !help.contains(['\n', '\\']),
            "{name}: {help}"
        );
        let labels: BTreeSet<_> = metric.labels().iter().collect();
        assert_eq!(labels.len(), metric.labels().len(), "{name}");
        assert!(labels.iter().all(|label| is_name(label)), "{name}");
    }
}

fn unit_text(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "",
        Unit::Bytes => "bytes",
        Unit::Seconds => "seconds",
        Unit::Ratio => "0 to 1",
        Unit::PerSecond => "per second",
    }
}

fn line(metric: &Metric) -> String {
    let labels: Vec<String> = metric.labels().iter().map(|label| format!("`{label}`")).collect();
    format!(
        "| `{}` | {} | {} | {} | {} |",
        metric.name,
        metric.kind.name(),
        unit_text(metric.unit),
        labels.join(", "),
        metric.help
    )
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

const DOCUMENT: &str = "docs/operating/metrics.md";

#[test]
fn the_document_has_the_declarations_and_nothing_else() {
    let document = read(DOCUMENT);
    let (_, table) = document.split_once("## All of them").unwrap();
    let documented: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| `helenus_"))
        .collect();
    let declared: Vec<String> = all().map(line).collect();
    assert_eq!(
        documented,
        declared,
        "the table of {DOCUMENT} should be:\n{}\n",
        declared.join("\n")
    );
}

/// A metric got another name, and the console showed zeros.
#[test]
fn whoever_names_a_metric_names_a_declared_one() {
    let declared: BTreeSet<&str> = all().map(|metric| metric.name).collect();
    let is_histogram =
        |name: &str| all().any(|metric| metric.name == name && metric.kind == MetricKind::Histogram);
    for path in [
        DOCUMENT,
        "docs/coding/errors.md",
        "crates/doors/src/console/console.js",
        "crates/helenus/src/top/snapshot.rs",
        "crates/helenus/src/top/screen.rs",
        "xtask/src/compare/goodput/memory.rs",
        "xtask/src/node.rs",
    ] {
        let text = read(path);
        let quoted = text.split(['"', '`']);
        let names: Vec<&str> = quoted
            .filter(|word| word.starts_with("helenus_") && is_name(word))
            .collect();
        assert!(!names.is_empty(), "{path}");
        for name in names {
            let is_declared =
                declared.contains(name) || name.strip_suffix("_bucket").is_some_and(is_histogram);
            assert!(is_declared, "{path} names {name}");
        }
    }
}

#[test]
fn a_distribution_is_the_sum_of_all_shards_in_cumulative_buckets() {
    let mut distributions = Distributions::new(&["kind"]);
    let bounds = || [0.001, 0.5].into_iter();
    distributions.add(&[&"read"], bounds(), &[3, 2, 1], 7.5);
    distributions.add(&[&"write"], bounds(), &[0, 0, 0], 0.0);
    distributions.add(&[&"read"], bounds(), &[0, 0, 4], 8.0);
    let samples = distributions.into_samples("m");
    let lines: Vec<String> = samples
        .iter()
        .map(|sample| format!("{}{{{}}} {}", sample.name, sample.labels, sample.value))
        .collect();
    let expected = [
        r#"m_bucket{kind="read",le="0.001"} 3"#,
        r#"m_bucket{kind="read",le="0.5"} 5"#,
        r#"m_bucket{kind="read",le="+Inf"} 10"#,
        r#"m_sum{kind="read"} 15.5"#,
        r#"m_count{kind="read"} 10"#,
    ];
    assert_eq!(lines, expected);
}

#[test]
fn two_things_with_the_same_labels_are_one_series() {
    let mut series = Series::new(&["table", "key"]);
    series.add(&[&"t", &"a\"b\\c\nd"], 2.0);
    series.add(&[&"t", &"other"], 1.0);
    series.add(&[&"t", &"a\"b\\c\nd"], 3.0);
    let expected = [
        (r#"table="t",key="a\"b\\c\nd""#.to_owned(), 5.0),
        (r#"table="t",key="other""#.to_owned(), 1.0),
    ];
    assert_eq!(series.into_values(), expected);
}
