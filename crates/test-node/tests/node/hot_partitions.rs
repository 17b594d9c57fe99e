//! Hot partitions, seen without configuration on whichever shard they are.

use std::sync::Arc;

use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{ManualClock, MemoryDisk};

const SHARDS: u16 = 2;

fn node() -> TestNode {
    node_of(SHARDS).0
}

fn node_of(shards: u16) -> (TestNode, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    clock.advance_s(1_000);
    let node = TestNode::start(options(shards, Arc::new(MemoryDisk::new()), clock.clone())).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (a text, b int, v int, PRIMARY KEY ((a, b)))");
    (node, clock)
}

fn text(value: &Option<Vec<u8>>) -> String {
    String::from_utf8(value.clone().unwrap()).unwrap()
}

fn double(value: &Option<Vec<u8>>) -> f64 {
    f64::from_be_bytes(value.as_deref().unwrap().try_into().unwrap())
}

#[test]
fn hot_partitions_are_a_table_whichever_way_they_were_asked_for() {
    let node = node();
    for index in 0..60 {
        let execution = Execution {
            shard: index % SHARDS,
            ..Execution::default()
        };
        // By the short way, the long way and in a batch.
        node.execute_with("SELECT v FROM k.t WHERE a = 'it''s' AND b = 1", &execution);
        node.execute_with("SELECT count(*) FROM k.t WHERE a = 'it''s' AND b = 1", &execution);
        if index % 3 == 0 {
            node.execute_with("INSERT INTO k.t (a, b, v) VALUES ('w', 2, 1)", &execution);
            let batch = "BEGIN UNLOGGED BATCH INSERT INTO k.t (a, b, v) VALUES ('w', 2, 1); APPLY BATCH";
            node.execute_with(batch, &execution);
        }
    }
    let mut rows = node.rows(
        "SELECT partition_key, reads_per_second, writes_per_second, share FROM system_views.hot_partitions \
         WHERE keyspace_name = 'k' AND table_name = 't'",
    );
    rows.sort_by_key(|row| text(&row[0]));
    let keys: Vec<String> = rows.iter().map(|row| text(&row[0])).collect();
    assert_eq!(keys, ["'it''s', 1", "'w', 2"]);
    let (read, written) = (&rows[0], &rows[1]);
    assert!(double(&read[1]) > 0.0 && double(&read[2]) == 0.0, "{read:?}");
    assert!(
        double(&written[2]) > 0.0 && double(&written[1]) == 0.0,
        "{written:?}"
    );
    // Time stands still: 120 reads and 40 writes are as many times the same rate.
    let ratio = double(&read[1]) / double(&written[2]);
    assert!((2.9..3.1).contains(&ratio), "{ratio}");
}

#[test]
fn metrics_are_a_table_too_and_name_tables_and_the_hottest_partitions() {
    let node = node();
    for _ in 0..50 {
        node.execute("SELECT v FROM k.t WHERE a = 'say \"x\"' AND b = 1");
    }
    let rows = node.rows("SELECT name, labels, value FROM system_views.node_metrics");
    let value_of = |name: &str, part: &str| -> f64 {
        let of_name = rows.iter().filter(|row| text(&row[0]) == name);
        of_name
            .filter(|row| text(&row[1]).contains(part))
            .map(|row| double(&row[2]))
            .sum()
    };
    assert!(value_of("helenus_cql_requests_total", "kind=\"read\"") >= 50.0);
    assert!(
        value_of(
            "helenus_table_requests_per_second",
            "keyspace=\"k\",table=\"t\",kind=\"read\""
        ) > 10.0
    );
    let hot = value_of(
        "helenus_hot_partition_requests_per_second",
        "partition_key=\"'say \\\"x\\\"', 1\"",
    );
    assert!(hot > 10.0, "{rows:?}");
}

#[test]
fn under_overload_a_request_is_known_to_be_for_the_heaviest_partition_by_its_values() {
    let (node, clock) = node_of(1);
    let prepared = |text: &str| match node.prepare(text) {
        Answer::Prepared { id, .. } => id,
        other => panic!("{text}: {other:?}"),
    };
    // The values of the key are not the first ones, and not in its order.
    let insert = prepared("INSERT INTO k.t (v, b, a) VALUES (?, ?, ?)");
    let select = prepared("SELECT v FROM k.t WHERE a = ? AND b = ?");
    // A key that is written out was not known, whoever asked for it how often.
    let written_out = prepared("SELECT v FROM k.t WHERE a = 'celebrity' AND b = 7");
    let cold_written_out = prepared("SELECT v FROM k.t WHERE a = 'celebrity' AND b = 8");
    let values = |values: &[&[u8]]| Execution {
        values: values.iter().map(|value| Some(value.to_vec())).collect(),
        ..Execution::default()
    };
    let (one, hot) = (1_i32.to_be_bytes(), 7_i32.to_be_bytes());
    let hot_insert = values(&[&one, &hot, b"celebrity"]);
    let hot_select = values(&[b"celebrity", &hot]);
    assert!(!node.sheds_prepared(&insert, &hot_insert), "nothing is hot yet");
    for index in 0..100_i32 {
        let cold_insert = values(&[&one, &index.to_be_bytes(), b"cold"]);
        let insertion = if index % 5 == 0 { &cold_insert } else { &hot_insert };
        assert_eq!(node.execute_prepared(&insert, insertion), Answer::Void);
    }
    clock.advance_ns(150_000_000);
    node.execute_prepared(&select, &hot_select);
    // The first time by decoding them, then by how they begin.
    for _ in 0..3 {
        assert!(node.sheds_prepared(&insert, &hot_insert));
        assert!(node.sheds_prepared(&select, &hot_select));
        assert!(node.sheds_prepared(&written_out, &Execution::default()));
        assert!(!node.sheds_prepared(&cold_written_out, &Execution::default()));
        assert!(!node.sheds_prepared(&insert, &values(&[&one, &one, b"celebrity"])));
        assert!(!node.sheds_prepared(&select, &values(&[b"celebrity", &one])));
        assert!(
            !node.sheds_prepared(&[0; 16], &hot_select),
            "an unknown statement"
        );
    }
}

/// A write to a table with a view was counted twice, so that its partition seemed to be twice as hot as it was.
#[test]
fn a_write_that_changes_a_view_is_one_write() {
    let (node, _clock) = node_of(1);
    node.run(
        "CREATE MATERIALIZED VIEW k.by_v AS SELECT * FROM k.t WHERE v IS NOT NULL AND a IS NOT NULL AND b IS NOT NULL \
         PRIMARY KEY (v, a, b)",
    );
    let rate = |table: &str, column: &str, key: &str| -> f64 {
        let rows = node.rows(&format!(
            "SELECT partition_key, {column} FROM system_views.hot_partitions \
             WHERE keyspace_name = 'k' AND table_name = '{table}'"
        ));
        let of_key = rows.iter().filter(|row| text(&row[0]) == key);
        of_key.map(|row| double(&row[1])).sum()
    };
    for _ in 0..40 {
        // By the short way, by the one that reads, and as a batch.
        for write in [
            "INSERT INTO k.t (a, b, v) VALUES ('p', 0, 7)",
            "DELETE FROM k.t WHERE a = 'p' AND b = 0",
            "BEGIN UNLOGGED BATCH INSERT INTO k.t (a, b, v) VALUES ('p', 0, 7); APPLY BATCH",
        ] {
            node.run(write);
            node.run("SELECT v FROM k.t WHERE a = 'p' AND b = 0");
        }
    }
    let (reads, writes) = (
        rate("t", "reads_per_second", "'p', 0"),
        rate("t", "writes_per_second", "'p', 0"),
    );
    assert!(reads > 0.0, "{reads}");
    assert!((0.9..1.1).contains(&(writes / reads)), "{writes} of {reads}");
    let of_view = rate("by_v", "writes_per_second", "7");
    assert!(of_view > 0.0, "{of_view}");
}
