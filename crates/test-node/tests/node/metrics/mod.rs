//! The page for Prometheus, and `system_views.node_metrics` beside it, of a node that has done something of everything.

mod exposition;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use exposition::{Page, label_names, parse};
use helenus_node::metrics::{MetricKind, MetricsSnapshot, all, render};
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{ManualClock, MemoryDisk};

const SHARDS: u16 = 2;

fn node() -> TestNode {
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    clock.advance_s(1_000);
    let node = TestNode::start(options(SHARDS, Arc::new(MemoryDisk::new()), clock)).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (a text PRIMARY KEY, v int)");
    node
}

fn page(node: &TestNode) -> String {
    let snapshots: Vec<MetricsSnapshot> = (0..SHARDS)
        .map(|shard| node.on_shard(shard, |shard| shard.metrics_snapshot()))
        .collect();
    render(&snapshots)
}

fn parsed(node: &TestNode) -> Page {
    let page = page(node);
    parse(&page).unwrap_or_else(|error| panic!("{error}\n{page}"))
}

fn text(value: &Option<Vec<u8>>) -> String {
    String::from_utf8(value.clone().unwrap()).unwrap()
}

fn ask_for(node: &TestNode, key: &str) {
    let key = key.replace('\'', "''");
    for index in 0..20 {
        let execution = Execution {
            shard: index % SHARDS,
            ..Execution::default()
        };
        node.execute_with(&format!("INSERT INTO k.t (a, v) VALUES ('{key}', 1)"), &execution);
        node.execute_with(&format!("SELECT v FROM k.t WHERE a = '{key}'"), &execution);
    }
}

#[test]
fn the_page_is_what_prometheus_takes_and_has_every_metric() {
    let node = node();
    for key in [
        "plain",
        "a \"quoted\" \\ one\nof two lines",
        "it's",
        "{x=\"1\"} 5",
    ] {
        ask_for(&node, key);
    }
    assert!(matches!(
        node.execute("SELECT nothing FROM k.t"),
        Answer::Error { .. }
    ));
    let page = parsed(&node);
    let declared: BTreeSet<&str> = all().map(|metric| metric.name).collect();
    assert_eq!(page.keys().map(String::as_str).collect::<BTreeSet<_>>(), declared);
    for metric in all() {
        let family = &page[metric.name];
        assert_eq!(family.kind, metric.kind.name(), "{}", metric.name);
        assert_eq!(family.help, metric.help, "{}", metric.name);
        let names: BTreeSet<String> = metric.labels().iter().map(|name| (*name).to_owned()).collect();
        for found in label_names(family) {
            assert_eq!(found, names, "{}", metric.name);
        }
        let is_counted = family.series.values().all(|value| *value >= 0.0);
        assert!(is_counted || metric.kind == MetricKind::Gauge, "{}", metric.name);
    }
    let keys = page["helenus_hot_partition_requests_per_second"].series.keys();
    let keys: BTreeSet<&str> = keys.map(|labels| labels["partition_key"].as_str()).collect();
    assert!(keys.contains("'a \"quoted\" \\ one\nof two lines'"), "{keys:?}");
    assert!(!page["helenus_cql_errors_total"].series.is_empty());
}

#[test]
fn node_metrics_has_the_series_of_the_page() {
    let node = node();
    ask_for(&node, "key");
    let page = parsed(&node);
    let mut of_page = BTreeMap::new();
    for (name, family) in &page {
        of_page.insert(name.clone(), family.series.len());
    }
    let mut of_table: BTreeMap<String, usize> = page.keys().map(|name| (name.clone(), 0)).collect();
    for row in node.rows("SELECT name, labels FROM system_views.node_metrics") {
        let name = text(&row[0]);
        let histogram = ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| {
            name.strip_suffix(suffix)
                .filter(|family| page.contains_key(*family))
        });
        let family = histogram.unwrap_or(&name).to_owned();
        *of_table.entry(family).or_default() += 1;
    }
    assert_eq!(of_page, of_table);
}

/// A table that was dropped and made again was on the page twice under its name, and Prometheus took no page of the node.
#[test]
fn a_table_that_was_made_again_is_on_the_page_once() {
    let node = node();
    ask_for(&node, "key");
    node.run("DROP TABLE k.t");
    node.run("CREATE TABLE k.t (a text PRIMARY KEY, v int)");
    ask_for(&node, "key");
    let page = parsed(&node);
    let tables = page["helenus_table_requests_per_second"].series.keys();
    let found = tables.filter(|labels| labels["keyspace"] == "k" && labels["table"] == "t");
    assert!(found.count() > 0);
}
