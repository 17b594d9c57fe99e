//! JSON in statements: what is long is decoded beside the shard, and what is short comes to the same.

use std::sync::Arc;

use helenus_node::guardrails::Threshold;
use helenus_protocol::request::BatchKind;
use helenus_test_heap::of_thread;
use helenus_test_node::{Answer, BatchMember, Execution, TestNode, options};
use helenus_vfs::{MemoryDisk, SystemClock};

/// Elements of a text far beyond what is decoded where a statement arrives.
const ELEMENTS: usize = 20_000;

/// Most allocations of the shard's thread, for a text that it does not decode: the update, and what the test's client takes
/// there. Each element decoded takes one.
const ALLOCATIONS_MAX: u64 = 2_000;

fn node(shard_count: u16) -> TestNode {
    let disk = Arc::new(MemoryDisk::new());
    let mut options = options(shard_count, disk, Arc::new(SystemClock::new()));
    options.guardrails.batch_size = Threshold {
        warn: u64::MAX,
        fail: u64::MAX,
    };
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (k int, c int, s text STATIC, l frozen<list<int>>, m map<text, int>, PRIMARY KEY (k, c))");
    node
}

fn execute(node: &TestNode, text: &str, values: &[&[u8]]) -> Answer {
    let Answer::Prepared { id, .. } = node.prepare(text) else {
        panic!("{text} is not prepared");
    };
    let execution = Execution {
        values: values.iter().map(|value| Some(value.to_vec())).collect(),
        ..Execution::default()
    };
    node.execute_prepared(&id, &execution)
}

fn array(count: usize) -> String {
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(", "))
}

fn json_of(node: &TestNode, select: &str) -> Vec<String> {
    let rows = node.rows(select).into_iter();
    rows.map(|row| String::from_utf8(row[0].clone().unwrap()).unwrap())
        .collect()
}

#[test]
fn long_texts_are_decoded_beside_the_shard() {
    let node = node(1);
    let (array, text) = (array(ELEMENTS), |key: i32| {
        format!("{{\"k\": {key}, \"c\": 1, \"l\": {}}}", array(ELEMENTS))
    });
    for (statement, values) in [
        ("INSERT INTO k.t JSON ?", vec![text(1).into_bytes()]),
        (
            "UPDATE k.t SET l = from_json(?) WHERE k = 2 AND c = 1",
            vec![array.clone().into_bytes()],
        ),
    ] {
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let before = node.on_shard(0, |_| of_thread().allocations);
        assert_eq!(execute(&node, statement, &values), Answer::Void);
        let after = node.on_shard(0, |_| of_thread().allocations);
        assert!(
            after - before <= ALLOCATIONS_MAX,
            "{statement}: {}",
            after - before
        );
    }
    node.run(&format!("INSERT INTO k.t JSON '{}'", text(3)));
    node.run(&format!(
        "INSERT INTO k.t (k, c, l) VALUES (4, 1, from_json('{array}'))"
    ));
    let wanted = vec![format!("{{\"l\": {array}}}"); 4];
    assert_eq!(json_of(&node, "SELECT JSON l FROM k.t"), wanted);
}

/// The statements of a BATCH message were built on the shard, however long their values were.
#[test]
fn long_texts_of_a_batch_message_are_decoded_beside_the_shard() {
    let node = node(1);
    let Answer::Prepared { id, .. } = node.prepare("INSERT INTO k.t JSON ?") else {
        panic!("not prepared");
    };
    let member = |key: i32| {
        let text = format!("{{\"k\": {key}, \"c\": 1, \"l\": {}}}", array(ELEMENTS));
        BatchMember::Prepared(id.clone(), vec![Some(text.into_bytes())])
    };
    for kind in [BatchKind::Logged, BatchKind::Unlogged] {
        let members = vec![member(1), member(2)];
        let before = node.on_shard(0, |_| of_thread().allocations);
        let answer = node.submit_batch(kind, members, &Execution::default()).wait();
        let after = node.on_shard(0, |_| of_thread().allocations);
        assert_eq!(answer, Some(Answer::Void));
        assert!(after - before <= ALLOCATIONS_MAX, "{}", after - before);
    }
    assert_eq!(json_of(&node, "SELECT JSON c FROM k.t"), ["{\"c\": 1}"; 2]);
}

#[test]
fn rows_come_back_from_what_they_are_as_json() {
    for shard_count in [1, 3] {
        let node = node(shard_count);
        for key in 0..50 {
            let json = format!(
                "{{\"k\": {key}, \"c\": {key}, \"s\": \"é \\\"{key}\\\"\", \"l\": [{key}], \"m\": {{\"a\": {key}}}}}"
            );
            assert_eq!(
                execute(&node, "INSERT INTO k.t JSON ?", &[json.as_bytes()]),
                Answer::Void
            );
        }
        let rows = json_of(&node, "SELECT JSON * FROM k.t");
        assert_eq!(rows.len(), 50);
        node.run("TRUNCATE k.t");
        for row in &rows {
            node.run(&format!("INSERT INTO k.t JSON '{row}'"));
        }
        assert_eq!(json_of(&node, "SELECT JSON * FROM k.t"), rows);
    }
}

/// A conditional statement holds its shard while it decodes a text.
#[test]
fn long_texts_are_refused_beside_conditions() {
    let node = node(1);
    let text = |count| format!("{{\"k\": 1, \"c\": 1, \"l\": {}}}", array(count)).into_bytes();
    let insert = "INSERT INTO k.t JSON ? IF NOT EXISTS";
    let refused = execute(&node, insert, &[&text(ELEMENTS)]);
    assert!(matches!(refused, Answer::Error { .. }), "{refused:?}");
    assert!(matches!(execute(&node, insert, &[&text(1_000)]), Answer::Rows(_)));
    assert_eq!(json_of(&node, "SELECT JSON c FROM k.t"), ["{\"c\": 1}"]);
}

#[test]
fn a_batch_takes_texts_and_fails_as_a_whole() {
    let node = node(2);
    let batch = "BEGIN BATCH INSERT INTO k.t JSON ?; INSERT INTO k.t JSON ? DEFAULT UNSET; APPLY BATCH";
    let texts: [&[u8]; 2] = [b"{\"k\": 1, \"c\": 1, \"s\": \"x\"}", b"{\"k\": 2, \"c\": 1}"];
    assert_eq!(execute(&node, batch, &texts), Answer::Void);
    let refused = execute(&node, batch, &[b"{\"k\": 3, \"c\": 1}", b"{\"k\": 4}"]);
    assert!(matches!(refused, Answer::Error { .. }), "{refused:?}");
    assert_eq!(
        json_of(&node, "SELECT JSON k, s FROM k.t"),
        ["{\"k\": 1, \"s\": \"x\"}", "{\"k\": 2, \"s\": null}"]
    );
}

/// A row of 8,193 floating-point numbers held its shard for 4 ms, whenever it was read as JSON.
#[test]
fn large_values_become_json_beside_the_shard() {
    let node = node(1);
    node.run("CREATE TABLE k.d (k int, c int, l frozen<list<double>>, PRIMARY KEY (k, c))");
    let numbers: Vec<String> = (0..ELEMENTS).map(|number| format!("{number}.5")).collect();
    let numbers = format!("[{}]", numbers.join(", "));
    // As Java prints numbers beyond ten million; these are below.
    for key in 1..3 {
        node.run(&format!(
            "INSERT INTO k.d (k, c, l) VALUES ({key}, {key}, {numbers})"
        ));
    }
    let row = format!("{{\"l\": {numbers}}}");
    for (statement, wanted) in [
        ("SELECT JSON l FROM k.d WHERE k = 1 AND c = 1", vec![&row]),
        ("SELECT JSON l FROM k.d", vec![&row; 2]),
        ("SELECT to_json(l) FROM k.d WHERE k = 1", vec![&numbers]),
        ("SELECT JSON l FROM k.d GROUP BY k", vec![&row; 2]),
        (
            "SELECT JSON l FROM k.d WHERE k IN (1, 2) ORDER BY c DESC",
            vec![&row; 2],
        ),
    ] {
        let before = node.on_shard(0, |_| of_thread().allocations);
        let rows = json_of(&node, statement);
        let after = node.on_shard(0, |_| of_thread().allocations);
        assert!(rows.iter().eq(wanted), "{statement}");
        assert!(
            after - before <= ALLOCATIONS_MAX,
            "{statement}: {}",
            after - before
        );
    }
}

/// Short rows and long ones follow each other in one answer.
#[test]
fn rows_of_all_sizes_become_json_in_their_order() {
    let node = node(1);
    let mut wanted = Vec::new();
    for row in 0..60 {
        let count = [1, 300, 3_000][row % 3];
        let array = array(count);
        node.run(&format!("INSERT INTO k.t (k, c, l) VALUES (1, {row}, {array})"));
        wanted.push(format!("{{\"c\": {row}, \"l\": {array}}}"));
    }
    assert_eq!(json_of(&node, "SELECT JSON c, l FROM k.t WHERE k = 1"), wanted);
    assert_eq!(
        json_of(&node, "SELECT JSON c, l FROM k.t WHERE k = 1 GROUP BY k, c"),
        wanted
    );
    wanted.reverse();
    let reversed = "SELECT JSON c, l FROM k.t WHERE k IN (1, 2) ORDER BY c DESC LIMIT 1000";
    assert_eq!(json_of(&node, reversed), wanted);
}
