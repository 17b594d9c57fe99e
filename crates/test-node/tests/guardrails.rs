//! Statements that ask for much: warned of or refused as Cassandra does.

use std::sync::Arc;

use helenus_node::guardrails::Threshold;
use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{MemoryDisk, SystemClock};

fn node() -> TestNode {
    let mut options = options(2, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.guardrails.page_size = Threshold { warn: 10, fail: 20 };
    options.guardrails.partition_keys_in_select = Threshold { warn: 2, fail: 3 };
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    node
}

fn batch(rows: usize, partitions: usize) -> String {
    let value = "v".repeat(1_000);
    let inserts: Vec<String> = (0..rows)
        .map(|row| format!("INSERT INTO k.t (p, v) VALUES ({}, '{value}');", row % partitions))
        .collect();
    format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", inserts.join(" "))
}

#[test]
fn a_batch_over_several_partitions_has_a_largest_size() {
    let node = node();
    node.run(&batch(40, 40));
    assert_eq!(node.rows("SELECT p FROM k.t").len(), 40);
    let Answer::Error { code, message } = node.execute(&batch(60, 60)) else {
        panic!("60 KB were taken");
    };
    assert_eq!((code, message.as_str()), (ErrorCode::Invalid, "Batch too large"));
    assert_eq!(node.rows("SELECT p FROM k.t").len(), 40, "nothing of it is there");
    // One partition is one mutation, however large.
    node.run(&batch(60, 1));
}

#[test]
fn selects_are_warned_of_before_they_are_refused() {
    let node = node();
    let page = |page_size| Execution {
        page_size: Some(page_size),
        ..Execution::default()
    };
    let cases = [
        ("SELECT v FROM k.t WHERE p = 1", 10, None),
        (
            "SELECT v FROM k.t WHERE p = 1",
            11,
            Some("Guardrail page_size violated: "),
        ),
        (
            "SELECT v FROM k.t WHERE p IN (1, 2, 3)",
            10,
            Some("Guardrail partition_keys_in_select violated: "),
        ),
    ];
    for (text, page_size, warning) in cases {
        let Answer::Rows(rows) = node.execute_with(text, &page(page_size)) else {
            panic!("{text} is refused");
        };
        let found = rows.warnings.first().map(String::as_str);
        assert!(
            match warning {
                None => found.is_none(),
                Some(start) => found.is_some_and(|found| found.starts_with(start)),
            },
            "{text}: {found:?}"
        );
    }
    let refused = [
        ("SELECT v FROM k.t WHERE p = 1", 21),
        ("SELECT v FROM k.t WHERE p IN (1, 2, 3, 4)", 10),
    ];
    for (text, page_size) in refused {
        let Answer::Error { code, message } = node.execute_with(text, &page(page_size)) else {
            panic!("{text} was answered");
        };
        assert_eq!(code, ErrorCode::Invalid);
        assert!(message.contains("fail threshold"), "{message}");
    }
}
