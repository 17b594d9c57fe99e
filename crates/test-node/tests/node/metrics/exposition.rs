//! Prometheus' text exposition format 0.0.4, read strictly: what a server might let pass is an error here.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct Family {
    pub kind: String,
    pub help: String,
    /// By their labels in the order of the names. Of histograms, [`SUFFIX`] tells buckets, sum and count apart.
    pub series: BTreeMap<BTreeMap<String, String>, f64>,
}

/// No label's name.
const SUFFIX: &str = "";

const HISTOGRAM_SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

pub type Page = BTreeMap<String, Family>;

/// Families with exactly one HELP, then one TYPE, then all of their samples; none is met again later.
pub fn parse(text: &str) -> Result<Page, String> {
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    let mut page = Page::new();
    let mut current: Option<String> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or_else(|| format!("no help: {line:?}"))?;
            let kind = type_line(lines.next().unwrap_or_default(), name)?;
            let family = Family {
                kind: kind.to_owned(),
                help: help.to_owned(),
                series: BTreeMap::new(),
            };
            if !is_name(name) || page.insert(name.to_owned(), family).is_some() {
                return Err(format!("a second family, or no name: {line:?}"));
            }
            current = Some(name.to_owned());
        } else {
            let name = current
                .as_ref()
                .ok_or_else(|| format!("before any family: {line:?}"))?;
            let family = page.get_mut(name).ok_or("no family")?;
            let suffixes = HISTOGRAM_SUFFIXES
                .into_iter()
                .filter(|_| family.kind == "histogram");
            let is_of = |suffix: &&str| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(suffix))
            };
            let suffix = suffixes.rev().find(is_of).unwrap_or_default();
            let (mut labels, value) = sample(line, &format!("{name}{suffix}"))?;
            if family.kind == "histogram" {
                labels.insert(SUFFIX.to_owned(), suffix.to_owned());
            }
            if family.series.insert(labels, value).is_some() {
                return Err(format!("twice: {line:?}"));
            }
        }
    }
    for family in page.values().filter(|family| family.kind == "histogram") {
        check_histogram(family)?;
    }
    Ok(page)
}

/// Buckets are cumulative and end with that of everything, which is the count; there is a sum.
fn check_histogram(family: &Family) -> Result<(), String> {
    let mut buckets: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    for (labels, value) in &family.series {
        let mut labels = labels.clone();
        let bound = labels.remove("le").map(|bound| bound.parse::<f64>());
        match (labels.remove(SUFFIX).as_deref(), bound) {
            (Some("_bucket"), Some(Ok(bound))) => buckets.entry(labels).or_default().push((bound, *value)),
            (Some("_sum" | "_count"), None) => {}
            _ => return Err(format!("no part of a histogram: {labels:?}")),
        }
    }
    for (labels, mut buckets) in buckets {
        buckets.sort_by(|left, right| left.0.total_cmp(&right.0));
        let of = |suffix: &str| {
            let mut labels = labels.clone();
            labels.insert(SUFFIX.to_owned(), suffix.to_owned());
            family.series.get(&labels).copied()
        };
        let everything = buckets.last().filter(|(bound, _)| *bound == f64::INFINITY);
        let is_whole = everything.is_some_and(|(_, count)| of("_count") == Some(*count));
        if !is_whole || of("_sum").is_none() || !buckets.is_sorted_by_key(|(_, count)| *count) {
            return Err(format!("no histogram: {labels:?}"));
        }
    }
    Ok(())
}

fn type_line<'l>(line: &'l str, name: &str) -> Result<&'l str, String> {
    let rest = line
        .strip_prefix("# TYPE ")
        .and_then(|rest| rest.strip_prefix(name)?.strip_prefix(' '));
    match rest {
        Some(kind @ ("counter" | "gauge" | "histogram")) => Ok(kind),
        _ => Err(format!("no type of {name}: {line:?}")),
    }
}

fn sample(line: &str, name: &str) -> Result<(BTreeMap<String, String>, f64), String> {
    let wrong = |what: &str| format!("{what}: {line:?}");
    let rest = line
        .strip_prefix(name)
        .ok_or_else(|| wrong("of another family"))?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest).map_err(|what| wrong(&what))?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.strip_prefix(' ').ok_or_else(|| wrong("no space"))?;
    let is_number = value
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".-e".contains(&byte));
    let value: f64 = value.parse().map_err(|_| wrong("no number"))?;
    if !is_number || !value.is_finite() {
        return Err(wrong("no number"));
    }
    Ok((labels, value))
}

/// `name="value",...}`, and what stands behind.
fn labels(mut rest: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let mut labels = BTreeMap::new();
    loop {
        let (name, behind) = rest.split_once("=\"").ok_or("no label")?;
        let (value, behind) = quoted(behind)?;
        if !is_name(name) || name.starts_with("__") || labels.insert(name.to_owned(), value).is_some() {
            return Err(format!("label {name:?}"));
        }
        match behind.split_at_checked(1) {
            Some((",", behind)) => rest = behind,
            Some(("}", behind)) => return Ok((labels, behind)),
            _ => return Err("labels do not end".to_owned()),
        }
    }
}

fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match characters.next() {
                Some((_, 'n')) => '\n',
                Some((_, plain @ ('"' | '\\'))) => plain,
                other => return Err(format!("escape {other:?}")),
            }),
            other => value.push(other),
        }
    }
    Err("no closing quote".to_owned())
}

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let mut bytes = text.bytes();
    bytes.next().is_some_and(is_letter) && bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

/// The labels' names of a family's series, which must be the same in each; without those that all histograms have.
pub fn label_names(family: &Family) -> BTreeSet<BTreeSet<String>> {
    let names = |labels: &BTreeMap<String, String>| {
        let names = labels
            .keys()
            .filter(|name| !["le", SUFFIX].contains(&name.as_str()));
        names.cloned().collect()
    };
    family.series.keys().map(names).collect()
}

#[test]
fn what_breaks_the_format_is_an_error() {
    let head = "# HELP a_total Things.\n# TYPE a_total counter\n";
    let good = format!("{head}a_total{{x=\"1\",y=\"a\\\"b\\\\c\\nd\"}} 1\na_total{{x=\"2\",y=\"\"}} 0.5\n");
    let page = parse(&good).unwrap();
    let labels = page["a_total"].series.keys().next().unwrap();
    assert_eq!(labels["y"], "a\"b\\c\nd");
    for bad in [
        "a_total 1\n",
        "# HELP a_total Things.\na_total 1\n",
        "# TYPE a_total counter\n# HELP a_total Things.\na_total 1\n",
        "# HELP a_total Things.\n# TYPE b_total counter\n",
        "# HELP a_total Things.\n# TYPE a_total number\n",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
    for bad in [
        "a_total 1\na_total 2\n",
        "a_total{x=\"1\"} 1\na_total{x=\"1\"} 1\n",
        "b_total 1\n",
        "a_total{x=\"1} 1\n",
        "a_total{x=\"\\t\"} 1\n",
        "a_total{x=\"1\",x=\"2\"} 1\n",
        "a_total{x=\"1\"}1\n",
        "a_total NaN\n",
        "a_total inf\n",
        "a_total 1",
        "\n",
        "# HELP a_total Things.\n# TYPE a_total counter\n",
    ] {
        let page = format!("{head}{bad}");
        assert!(parse(&page).is_err(), "{bad}");
    }
}

#[test]
fn what_is_no_histogram_is_an_error() {
    let head = "# HELP h_seconds Waits.\n# TYPE h_seconds histogram\n";
    let bucket = |bound: &str, count: u64| format!("h_seconds_bucket{{kind=\"a\",le=\"{bound}\"}} {count}\n");
    let rest = |count: u64| format!("h_seconds_sum{{kind=\"a\"}} 7\nh_seconds_count{{kind=\"a\"}} {count}\n");
    let (first, second, all) = (bucket("0.5", 1), bucket("1", 3), bucket("+Inf", 4));
    let good = format!("{head}{first}{second}{all}{}", rest(4));
    assert_eq!(parse(&good).unwrap()["h_seconds"].series.len(), 5);
    for bad in [
        format!("{first}{second}{}", rest(3)),
        format!("{first}{second}{all}{}", rest(5)),
        format!("{first}{}{all}{}", bucket("1", 0), rest(4)),
        format!("{all}h_seconds_count{{kind=\"a\"}} 4\n"),
        "h_seconds{kind=\"a\"} 4\n".to_owned(),
        "h_seconds_bucket{kind=\"a\"} 4\n".to_owned(),
    ] {
        assert!(parse(&format!("{head}{bad}")).is_err(), "{bad}");
    }
}
