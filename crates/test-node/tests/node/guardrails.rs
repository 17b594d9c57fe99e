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

#[test]
fn ins_multiply_to_a_largest_product() {
    let mut options = options(2, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.guardrails.in_select_cartesian_product = Threshold { warn: 3, fail: 4 };
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int, q int, c int, d int, PRIMARY KEY ((p, q), c, d))");
    node.run("INSERT INTO k.t (p, q, c, d) VALUES (1, 1, 1, 1)");
    let warnings = |condition: &str| {
        let text = format!("SELECT d FROM k.t WHERE {condition}");
        match node.execute(&text) {
            Answer::Rows(rows) => {
                assert_eq!(rows.rows.len(), 1, "{text}");
                rows.warnings.clone()
            }
            other => panic!("{text}: {other:?}"),
        }
    };
    let none: [String; 0] = [];
    assert_eq!(warnings("p = 1 AND q = 1 AND c IN (1, 2, 3)"), none);
    assert_eq!(
        warnings("p = 1 AND q = 1 AND c IN (1, 2) AND d IN (1, 2)"),
        [
            "Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on clustering \
          key produces 4 values, this exceeds warning threshold of 3."
        ]
    );
    assert_eq!(
        warnings("p IN (1, 2) AND q IN (1, 2)"),
        [
            "Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on partition \
          key produces 4 values, this exceeds warning threshold of 3."
        ]
    );
    let Answer::Error { code, message } =
        node.execute("SELECT d FROM k.t WHERE p = 1 AND q = 1 AND c IN (1, 2) AND d IN (1, 2, 3)")
    else {
        panic!("6 combinations were taken");
    };
    assert_eq!(
        (code, message.as_str()),
        (
            ErrorCode::Invalid,
            "Guardrail in_select_cartesian_product violated: Aborting query because the cartesian product of the IN \
             restrictions on clustering key produces 6 values, this exceeds fail threshold of 4."
        )
    );
}

#[test]
fn the_schema_is_warned_of_before_it_is_refused() {
    let mut options = options(2, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.guardrails.keyspaces = Threshold { warn: 1, fail: 2 };
    options.guardrails.tables = Threshold { warn: 1, fail: 2 };
    options.guardrails.columns_per_table = Threshold { warn: 2, fail: 3 };
    options.guardrails.fields_per_udt = Threshold { warn: 1, fail: 2 };
    let node = TestNode::start(options).unwrap();
    let replication = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    let refused = |text: &str, wanted: &str| match node.execute(text) {
        Answer::Error { code, message } => assert_eq!((code, message.as_str()), (ErrorCode::Invalid, wanted)),
        other => panic!("{text}: {other:?}"),
    };
    node.run(&format!("CREATE KEYSPACE a {replication}"));
    node.run(&format!("CREATE KEYSPACE b {replication}"));
    refused(
        &format!("CREATE KEYSPACE c {replication}"),
        "Guardrail keyspaces violated: Cannot have more than 2 keyspaces, aborting the creation of keyspace c",
    );
    node.run("CREATE TABLE a.t (p int PRIMARY KEY, v int)");
    refused(
        "CREATE TABLE a.w (p int PRIMARY KEY, v int, w int, x int)",
        "Guardrail columns_per_table violated: Tables cannot have more than 3 columns, but 4 provided for table w",
    );
    node.run("ALTER TABLE a.t ADD w int");
    refused(
        "ALTER TABLE a.t ADD x int",
        "Guardrail columns_per_table violated: Tables cannot have more than 3 columns, but 4 provided for table t",
    );
    node.run("ALTER TABLE a.t DROP w");
    node.run("CREATE TABLE b.t (p int PRIMARY KEY)");
    refused(
        "CREATE TABLE b.w (p int PRIMARY KEY)",
        "Guardrail tables violated: Cannot have more than 2 tables, aborting the creation of table w",
    );
    node.run("CREATE TYPE a.u (x int, y int)");
    refused(
        "ALTER TYPE a.u ADD z int",
        "Guardrail fields_per_udt violated: User types cannot have more than 2 columns, but 3 provided for user type u.",
    );
}

#[test]
fn values_have_a_largest_size_and_collections_a_largest_count() {
    let mut options = options(1, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.guardrails.values.column_value_size = Threshold { warn: 3, fail: 5 };
    options.guardrails.values.items_per_collection = Threshold { warn: 2, fail: 3 };
    options.guardrails.values.collection_size = Threshold { warn: 90, fail: 99 };
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text, s set<int>, f frozen<list<int>>)");
    node.run("INSERT INTO k.t (p, v, s) VALUES (1, '12345', {1, 2, 3})");
    let cases = [
        (
            "INSERT INTO k.t (p, v) VALUES (1, '123456')",
            "Guardrail column_value_size violated: Value of column 'v' has size 6, this exceeds the failure threshold of 5.",
        ),
        (
            "UPDATE k.t SET s = s + {4, 5, 6, 7} WHERE p = 1",
            "Guardrail items_per_collection violated: Detected collection s with 4 items, this exceeds the failure \
             threshold of 3.",
        ),
    ];
    for (text, wanted) in cases {
        let Answer::Error { code, message } = node.execute(text) else {
            panic!("{text} was taken");
        };
        assert_eq!((code, message.as_str()), (ErrorCode::Invalid, wanted));
    }
    assert_eq!(node.rows("SELECT s FROM k.t WHERE p = 1").len(), 1);
}

/// Bytes that batches of a row of 6,000 bytes and of these statements take, as Cassandra 5.0 says, without the row.
const SIZES: &[(&str, u64)] = &[
    ("INSERT INTO k.n (p, w) VALUES (1, 5)", 74),
    ("INSERT INTO k.n (p, w) VALUES (1, 5) USING TTL 100", 86),
    ("UPDATE k.n SET w = 5 WHERE p = 1", 74),
    ("UPDATE k.n USING TTL 100 SET w = 5 WHERE p = 1", 74),
    ("UPDATE k.n SET w = null WHERE p = 1", 70),
    ("DELETE FROM k.n WHERE p = 1", 29),
    ("INSERT INTO k.r (p, c1, c2) VALUES (1, 'abc', 2)", 57),
    ("INSERT INTO k.r (p, c1, c2, v) VALUES (1, 'abc', 2, 'vvvv')", 81),
    ("INSERT INTO k.r (p, s) VALUES (1, 'ss')", 51),
    (
        "UPDATE k.r SET l = [1, 2] WHERE p = 1 AND c1 = 'a' AND c2 = 1",
        147,
    ),
    (
        "UPDATE k.r SET l = l + [1, 2] WHERE p = 1 AND c1 = 'a' AND c2 = 1",
        147,
    ),
    (
        "UPDATE k.r SET m = {'kk': 1} WHERE p = 1 AND c1 = 'a' AND c2 = 1",
        93,
    ),
    (
        "UPDATE k.r SET m['kk'] = 1 WHERE p = 1 AND c1 = 'a' AND c2 = 1",
        93,
    ),
    ("UPDATE k.r SET m = null WHERE p = 1 AND c1 = 'a' AND c2 = 1", 67),
    (
        "UPDATE k.r SET st = {1, 2} WHERE p = 1 AND c1 = 'a' AND c2 = 1",
        115,
    ),
    (
        "UPDATE k.r SET st = st - {1} WHERE p = 1 AND c1 = 'a' AND c2 = 1",
        91,
    ),
    (
        "UPDATE k.r SET f = [1, 2] WHERE p = 1 AND c1 = 'a' AND c2 = 1",
        95,
    ),
    ("DELETE FROM k.r WHERE p = 1 AND c1 = 'abc'", 51),
    ("DELETE FROM k.r WHERE p = 1 AND c1 = 'abc' AND c2 = 2", 57),
    ("DELETE FROM k.r WHERE p = 1 AND c1 > 'abc'", 48),
    (
        "DELETE FROM k.r WHERE p = 1 AND c1 = 'abc' AND c2 > 2 AND c2 <= 7",
        59,
    ),
    ("DELETE s FROM k.r WHERE p = 1", 49),
    (
        "INSERT INTO k.r (p, c1, c2, v) VALUES (1, 'abc', 3, 'vvvv'); INSERT INTO k.r (p, c1, c2, v) VALUES (1, 'abc', 3, 'vvvvvv')",
        83,
    ),
    (
        "INSERT INTO k.r (p, c1, c2, v) VALUES (1, 'abc', 3, 'vvvv'); UPDATE k.r SET w = 1 WHERE p = 1 AND c1 = 'abc' AND c2 = 3",
        105,
    ),
    (
        "DELETE FROM k.r WHERE p = 1 AND c1 > 'abc'; DELETE FROM k.r WHERE p = 1 AND c1 < 'aa'",
        62,
    ),
    (
        "DELETE FROM k.r WHERE p = 1; INSERT INTO k.r (p, c1, c2, v) VALUES (1, 'abc', 3, 'vvvv')",
        81,
    ),
];
const ROW_OF_6_000_BYTES: u64 = 6_070;

fn warned_size(node: &TestNode, batch: &str) -> u64 {
    let warnings = node.submit(batch, &Execution::default()).warnings();
    let warning = warnings.first().map(String::as_str).unwrap_or_default();
    let (_, size) = warning
        .split_once("is of size ")
        .unwrap_or_else(|| panic!("{batch}: {warnings:?}"));
    size.split(',')
        .next()
        .and_then(|size| size.parse().ok())
        .expect("a size")
}

/// Packed updates were added up: batches that Cassandra takes were too large here, and the other way round.
#[test]
fn a_batch_is_as_large_as_cassandra_takes_it() {
    let node = node();
    node.run(
        "CREATE TABLE k.r (p int, c1 text, c2 int, s text static, v text, w int, l list<int>, m map<text, int>, \
         st set<int>, f frozen<list<int>>, PRIMARY KEY (p, c1, c2))",
    );
    node.run("CREATE TABLE k.n (p int PRIMARY KEY, v text, w int)");
    node.run("CREATE TABLE k.c (p int, c int, n counter, PRIMARY KEY (p, c))");
    let value = "x".repeat(6_000);
    for (statements, size) in SIZES {
        let batch = format!(
            "BEGIN UNLOGGED BATCH INSERT INTO k.n (p, v) VALUES (1000, '{value}'); {statements}; APPLY BATCH"
        );
        assert_eq!(
            warned_size(&node, &batch),
            ROW_OF_6_000_BYTES + size,
            "{statements}"
        );
    }
    let counters: Vec<String> = (0..150)
        .map(|p| format!("UPDATE k.c SET n = n + 1 WHERE p = {p} AND c = 1;"))
        .collect();
    let batch = format!("BEGIN COUNTER BATCH {} APPLY BATCH", counters.join(" "));
    assert_eq!(warned_size(&node, &batch), 150 * 110);
}
