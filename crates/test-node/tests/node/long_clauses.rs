//! Statements whose INs list many values: what they come to is worked out beside the shards, and once.

use std::sync::Arc;

use helenus_node::guardrails::Threshold;
use helenus_test_heap::of_thread;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{MemoryDisk, SystemClock};

/// Far beyond what is bound where a statement arrives.
const VALUES: usize = 20_000;

/// Most allocations of a shard from the heap for a statement that is not long: a read, its answer, and what the test's client
/// takes there.
const ALLOCATIONS_MAX: u64 = 1_000;

fn node_with_table(shard_count: u16) -> TestNode {
    let mut options = options(
        shard_count,
        Arc::new(MemoryDisk::new()),
        Arc::new(SystemClock::new()),
    );
    options.guardrails.batch_size = Threshold {
        warn: u64::MAX,
        fail: u64::MAX,
    };
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (k int, c int, v int, PRIMARY KEY (k, c))");
    for key in 0..10 {
        node.run(&format!("INSERT INTO k.t (k, c, v) VALUES ({key}, {key}, {key})"));
    }
    node
}

fn numbers(count: usize) -> String {
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    numbers.join(", ")
}

/// A list<int>, as a marker is bound to.
fn list(count: usize) -> Vec<u8> {
    let mut list = (count as i32).to_be_bytes().to_vec();
    for number in 0..count as i32 {
        list.extend_from_slice(&4_i32.to_be_bytes());
        list.extend_from_slice(&number.to_be_bytes());
    }
    list
}

/// How often the shard's thread takes from the heap while the statement is executed, and the rows.
fn allocations_of(node: &TestNode, text: &str, values: Vec<Option<Vec<u8>>>) -> (u64, usize) {
    let Answer::Prepared { id, .. } = node.prepare(text) else {
        panic!("{text} is not prepared");
    };
    let execution = Execution {
        values,
        ..Execution::default()
    };
    let before = node.on_shard(0, |_| of_thread().allocations);
    let answer = node.execute_prepared(&id, &execution);
    let after = node.on_shard(0, |_| of_thread().allocations);
    let rows = match answer {
        Answer::Rows(rows) => rows.rows.len(),
        Answer::Void => 0,
        other => panic!("{text}: {other:?}"),
    };
    (after - before, rows)
}

/// A hundred thousand keys were bound and sorted on the shard, for up to 57 ms.
#[test]
fn many_keys_of_a_read_are_worked_out_beside_the_shard() {
    let node = node_with_table(1);
    let text = "SELECT * FROM k.t WHERE k IN ? LIMIT 5";
    let (allocations, rows) = allocations_of(&node, text, vec![Some(list(VALUES))]);
    assert_eq!(rows, 5);
    assert!(allocations <= ALLOCATIONS_MAX, "{allocations}");
}

#[test]
fn many_rows_of_a_partition_are_worked_out_beside_the_shard() {
    let node = node_with_table(1);
    let text = "SELECT * FROM k.t WHERE k = 3 AND c IN ?";
    let (allocations, rows) = allocations_of(&node, text, vec![Some(list(VALUES))]);
    assert_eq!(rows, 1);
    assert!(allocations <= ALLOCATIONS_MAX, "{allocations}");
}

/// The values of a filter were bound again for each read of a scan, on the shard that read.
#[test]
fn many_values_of_a_filter_are_bound_beside_the_shards() {
    let node = node_with_table(3);
    let text = "SELECT * FROM k.t WHERE v IN ? ALLOW FILTERING";
    let (allocations, rows) = allocations_of(&node, text, vec![Some(list(VALUES))]);
    assert_eq!(rows, 10);
    assert!(allocations <= ALLOCATIONS_MAX, "{allocations}");
}

/// Most allocations of the shard's thread for each partition that is written: the memtable's.
const ALLOCATIONS_PER_PARTITION_MAX: u64 = 3;

/// All updates were built and applied in one go.
#[test]
fn many_keys_of_a_write_are_worked_out_beside_the_shard() {
    let node = node_with_table(1);
    for text in [
        "UPDATE k.t SET v = 7 WHERE k IN ? AND c = 1",
        "DELETE FROM k.t WHERE k IN ? AND c = 1",
        "DELETE FROM k.t WHERE k IN ?",
    ] {
        let (allocations, _) = allocations_of(&node, text, vec![Some(list(VALUES))]);
        assert!(
            allocations <= ALLOCATIONS_PER_PARTITION_MAX * VALUES as u64,
            "{text}: {allocations}"
        );
    }
}

/// A list of 9,000 elements, written out, held a shard for more than a millisecond each time that it was executed.
#[test]
fn many_values_that_are_written_out_are_built_beside_the_shard() {
    let node = node_with_table(1);
    node.run("CREATE TABLE k.l (k int PRIMARY KEY, v list<int>, s set<int>)");
    let numbers = numbers(VALUES);
    for (key, column) in [format!("v = [{numbers}]"), format!("s = {{{numbers}}}")]
        .iter()
        .enumerate()
    {
        let text = format!("UPDATE k.l SET {column} WHERE k = {key}");
        let (allocations, _) = allocations_of(&node, &text, Vec::new());
        assert!(
            allocations <= ALLOCATIONS_MAX,
            "{allocations} for {}",
            &column[..5]
        );
    }
    assert_eq!(node.rows("SELECT k FROM k.l").len(), 2);
}

#[test]
fn long_writes_do_what_short_ones_do() {
    for shard_count in [1, 3] {
        let node = node_with_table(shard_count);
        let long = numbers(VALUES);
        node.run(&format!("UPDATE k.t SET v = 7 WHERE k IN ({long}) AND c = 1"));
        let count = |text: &str| node.rows(text).len();
        assert_eq!(count("SELECT k FROM k.t WHERE v = 7 ALLOW FILTERING"), VALUES + 1);
        node.run(&format!("UPDATE k.t SET v = 8 WHERE k = 3 AND c IN ({long})"));
        assert_eq!(count("SELECT k FROM k.t WHERE k = 3"), VALUES);
        node.run(&format!("DELETE FROM k.t WHERE k = 3 AND c IN ({long})"));
        assert_eq!(count("SELECT k FROM k.t WHERE k = 3"), 0);
        node.run(&format!(
            "BEGIN UNLOGGED BATCH DELETE FROM k.t WHERE k IN ({long}); APPLY BATCH"
        ));
        assert_eq!(count("SELECT k FROM k.t"), 0);
        let error = node.execute(&format!("DELETE FROM k.t WHERE k IN ({long}, null)"));
        assert_eq!(error, node.execute("DELETE FROM k.t WHERE k IN (1, null)"));
        assert!(matches!(error, Answer::Error { .. }), "{error:?}");
    }
}

#[test]
fn long_clauses_give_the_rows_and_errors_of_short_ones() {
    let node = node_with_table(3);
    for clause in ["k IN", "k = 3 AND c IN", "v IN"] {
        let (short, long) = (numbers(100), numbers(VALUES));
        let text = |values: &str| format!("SELECT * FROM k.t WHERE {clause} ({values}) ALLOW FILTERING");
        let rows = node.rows(&text(&short));
        assert!(!rows.is_empty());
        assert_eq!(node.rows(&text(&long)), rows, "{clause}");
        let with_null = |values: &str| node.execute(&text(&format!("{values}, null")));
        let error = with_null(&short);
        assert!(matches!(error, Answer::Error { .. }), "{error:?}");
        assert_eq!(with_null(&long), error);
    }
}

/// A row is made of each column that there is: more than a millisecond's work on a new node.
#[test]
fn rows_of_the_schema_s_columns_are_made_beside_the_shard() {
    let node = node_with_table(1);
    for text in [
        "SELECT count(*), position FROM system_virtual_schema.columns",
        "SELECT count(*) FROM system_schema.columns",
    ] {
        let (allocations, rows) = allocations_of(&node, text, Vec::new());
        assert!(rows > 0, "{text}");
        assert!(allocations <= ALLOCATIONS_MAX, "{text}: {allocations}");
    }
}
