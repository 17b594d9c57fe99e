//! System tables that tools read to see how a node is used, in Cassandra's shape.

use std::sync::Arc;
use std::time::Duration;

use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{ManualClock, MemoryDisk};

const PARTITIONS: i32 = 50;

fn text(value: &Option<Vec<u8>>) -> String {
    String::from_utf8(value.clone().unwrap_or_default()).unwrap()
}

fn number(value: &Option<Vec<u8>>) -> i64 {
    let bytes = value.as_deref().expect("a number");
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | i64::from(*byte))
}

/// They were empty, and whoever read them took the node for one without tables, snapshots or settings.
#[test]
fn what_the_node_knows_of_itself_is_in_its_tables() {
    let clock = ManualClock::starting_at(1_000_000_000_000_000);
    let mut options = options(2, Arc::new(MemoryDisk::new()), Arc::new(clock));
    options.auto_snapshot = true;
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    for p in 0..PARTITIONS {
        node.run(&format!("INSERT INTO k.t (p, v) VALUES ({p}, 'value')"));
    }
    node.operator().flush(None).unwrap();
    let estimates = "SELECT partitions_count, mean_partition_size, range_start, range_end FROM system.size_estimates \
         WHERE keyspace_name = 'k' AND table_name = 't'";
    let rows = node.rows(estimates);
    assert_eq!(number(&rows[0][0]), i64::from(PARTITIONS));
    assert!((10..100).contains(&number(&rows[0][1])), "{rows:?}");
    assert_eq!(
        (text(&rows[0][2]), text(&rows[0][3])),
        (i64::MIN.to_string(), i64::MIN.to_string())
    );
    let rows = node
        .rows("SELECT range_type FROM system.table_estimates WHERE keyspace_name = 'k' AND table_name = 't'");
    let types: Vec<String> = rows.iter().map(|row| text(&row[0])).collect();
    assert_eq!(types, ["local_primary", "primary"]);
    let usage =
        "SELECT mebibytes FROM system_views.disk_usage WHERE keyspace_name = 'k' AND table_name = 't'";
    assert_eq!(number(&node.rows(usage)[0][0]), 0);

    node.run("TRUNCATE k.t");
    let rows = node.rows(
        "SELECT keyspace_name, table_name, toUnixTimestamp(created_at), true_size FROM system_views.snapshots",
    );
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (text(&rows[0][0]), text(&rows[0][1])),
        ("k".to_owned(), "t".to_owned())
    );
    assert_eq!(number(&rows[0][2]), 1_000_000_000_000);
    assert!(number(&rows[0][3]) > 0);

    for (table, names) in [
        ("caches", vec!["chunks", "rows"]),
        (
            "thread_pools",
            vec!["CompactionExecutor", "Native-Transport-Requests"],
        ),
    ] {
        let rows = node.rows(&format!("SELECT name FROM system_views.{table}"));
        let mut found: Vec<String> = rows.iter().map(|row| text(&row[0])).collect();
        found.sort();
        assert_eq!(found, names);
    }
    let setting = |name: &str| {
        let rows = node.rows(&format!(
            "SELECT value FROM system_views.settings WHERE name = '{name}'"
        ));
        text(&rows[0][0])
    };
    assert_eq!(setting("read_request_timeout"), "60000ms");
    assert_eq!(setting("slow_query_log_timeout"), "500ms");
    assert_eq!(setting("auto_snapshot"), "true");
    assert!(matches!(
        node.execute("SELECT * FROM system_views.settings"),
        Answer::Rows(_)
    ));
}

/// The table was empty, whatever had been executed.
#[test]
fn statements_are_counted_by_whether_they_were_prepared() {
    let clock = ManualClock::starting_at(1_000_000_000_000_000);
    let node = TestNode::start(options(2, Arc::new(MemoryDisk::new()), Arc::new(clock))).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    let Answer::Prepared { id, .. } = node.prepare("SELECT v FROM k.t WHERE p = ?") else {
        panic!("not prepared");
    };
    for p in 0..9_i32 {
        let execution = Execution {
            values: vec![Some(p.to_be_bytes().to_vec())],
            ..Execution::default()
        };
        assert!(matches!(node.execute_prepared(&id, &execution), Answer::Rows(_)));
    }
    // With the one that reads them.
    let rows = node.rows("SELECT name, value FROM system_views.cql_metrics");
    let mut found: Vec<(String, f64)> = rows
        .iter()
        .map(|row| (text(&row[0]), f64::from_bits(number(&row[1]).cast_unsigned())))
        .collect();
    found.sort_by(|left, right| left.0.cmp(&right.0));
    let wanted = [
        ("prepared_statements_count", 1.0),
        ("prepared_statements_evicted", 0.0),
        ("prepared_statements_executed", 9.0),
        ("prepared_statements_ratio", 0.75),
        ("regular_statements_executed", 3.0),
    ];
    assert_eq!(found, wanted.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn latencies_are_counted_by_kind_from_the_arrival() {
    let clock = ManualClock::starting_at(1_000_000_000_000_000);
    clock.advance_s(1_000);
    let node = TestNode::start(options(2, Arc::new(MemoryDisk::new()), Arc::new(clock))).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    let metric = |name: &str, labels: &str| -> Option<f64> {
        let rows = node.rows("SELECT name, labels, value FROM system_views.node_metrics");
        let row = rows
            .iter()
            .find(|row| text(&row[0]) == name && text(&row[1]) == labels)?;
        Some(f64::from_bits(number(&row[2]).cast_unsigned()))
    };
    let duration = |suffix: &str, labels: &str| {
        metric(&format!("helenus_cql_request_duration_seconds_{suffix}"), labels)
    };
    assert_eq!(duration("count", "kind=\"write\""), None);
    let after_3_ms = Execution {
        waited: Duration::from_millis(3),
        ..Execution::default()
    };
    for p in 0..5 {
        let insert = format!("INSERT INTO k.t (p, v) VALUES ({p}, 'value')");
        assert_eq!(node.execute_with(&insert, &after_3_ms), Answer::Void);
    }
    // Many that came at the same time are counted by a few of them.
    assert_eq!(duration("count", "kind=\"write\""), Some(5.0));
    assert_eq!(duration("sum", "kind=\"write\""), Some(0.015));
    let bucket = |bound: &str| duration("bucket", &format!("kind=\"write\",le=\"{bound}\""));
    assert_eq!(bucket("0.002048"), Some(0.0));
    assert_eq!(bucket("0.003072"), Some(5.0));
    assert_eq!(bucket("+Inf"), Some(5.0));
    assert_eq!(duration("count", "kind=\"batch\""), None);
}

/// The table was empty, whatever had been compacted.
#[test]
fn a_compaction_is_in_the_history_with_what_it_merged() {
    let clock = ManualClock::starting_at(1_000_000_000_000_000);
    let node = TestNode::start(options(1, Arc::new(MemoryDisk::new()), Arc::new(clock))).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    for partitions in [0..3, 2..7] {
        for p in partitions {
            node.run(&format!("INSERT INTO k.t (p, v) VALUES ({p}, 'value')"));
        }
        node.operator().flush(None).unwrap();
    }
    let operator = node.operator();
    let table = operator.schema().unwrap().table("k", "t").unwrap().id;
    let kind = CompactionKind::Major { split_output: false };
    operator.compact(CompactionRequest { table, kind }).unwrap();
    let rows = node.rows(
        "SELECT keyspace_name, columnfamily_name, bytes_in, bytes_out, toUnixTimestamp(compacted_at), \
         rows_merged[1], rows_merged[2], compaction_properties['compaction_type'] FROM system.compaction_history",
    );
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((text(&row[0]), text(&row[1])), ("k".to_owned(), "t".to_owned()));
    assert!(
        number(&row[2]) > number(&row[3]) && number(&row[3]) > 0,
        "{row:?}"
    );
    assert_eq!(number(&row[4]), 1_000_000_000_000);
    assert_eq!((number(&row[5]), number(&row[6])), (6, 1));
    assert_eq!(text(&row[7]), "Major compaction");
}
