//! `WITH included_indexes = {..} AND excluded_indexes = {..}`: what is refused, and that the rows are the same whichever indexes a
//! statement is read by.

use std::sync::Arc;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{ManualClock, MemoryDisk};

const NOT_USABLE: &str = "It's not possible to use all the specified included indexes with this query.";
const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have \
                               unpredictable performance. If you want to execute this query despite the performance \
                               unpredictability, use ALLOW FILTERING";

fn node() -> TestNode {
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    let node = TestNode::start(options(2, Arc::new(MemoryDisk::new()), clock)).unwrap();
    for keyspace in ["k", "other"] {
        node.run(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ));
    }
    node.run("CREATE TABLE k.t (p int, c int, v int, w int, x text, n vector<float, 2>, PRIMARY KEY (p, c))");
    for index in [
        "v_legacy ON k.t (v)",
        "w_legacy ON k.t (w)",
        "v_sai ON k.t (v) USING 'sai'",
        "w_sai ON k.t (w) USING 'sai'",
        "\"X\" ON k.t (x) USING 'sai'",
        "n_sai ON k.t (n) USING 'sai'",
    ] {
        node.run(&format!("CREATE INDEX {index}"));
    }
    for number in 0..200 {
        node.run(&format!(
            "INSERT INTO k.t (p, c, v, w, x, n) VALUES ({}, {number}, {}, {}, 'x{}', [{number}, 1])",
            number % 40,
            number % 7,
            number % 5,
            number % 3
        ));
    }
    node
}

#[test]
fn what_hints_cannot_be_is_said_in_the_words_of_cassandra_6() {
    let node = node();
    let refused = [
        (
            "v = 1 WITH included_indexes = {i}",
            "Table t doesn't have an index named i",
        ),
        (
            "v = 1 WITH excluded_indexes = {*, x}",
            "Table t doesn't have an index named x",
        ),
        (
            "v = 1 WITH included_indexes = {other.v_sai}",
            "Index other.v_sai is not in the same keyspace as the queried table.",
        ),
        (
            "v = 1 WITH included_indexes = {*}",
            "The wildcard '*' is not allowed in included_indexes.",
        ),
        (
            "v = 1 WITH included_indexes = {v_sai, w_sai} AND excluded_indexes = {w_sai, k.v_sai}",
            "Indexes cannot be both included and excluded: v_sai,w_sai",
        ),
        (
            "v = 1 WITH included_indexes = {v_sai} AND excluded_indexes = {*}",
            "Indexes cannot be both included and excluded: v_sai",
        ),
        ("v = 1 WITH included_indexes = {w_sai}", NOT_USABLE),
        (
            "v = 1 AND w = 1 ALLOW FILTERING WITH included_indexes = {v_legacy, w_sai}",
            NOT_USABLE,
        ),
        (
            "v = 1 AND w = 1 ALLOW FILTERING WITH included_indexes = {v_legacy, w_legacy}",
            NOT_USABLE,
        ),
        ("p = 1 WITH included_indexes = {v_sai}", NOT_USABLE),
        ("v = 1 WITH excluded_indexes = {*}", NEEDS_FILTERING),
        (
            "v > 1 ALLOW FILTERING WITH included_indexes = {v_legacy}",
            NOT_USABLE,
        ),
        ("v > 1 WITH excluded_indexes = {v_sai}", NEEDS_FILTERING),
        (
            "v = 1 AND w = 1 WITH included_indexes = {v_legacy}",
            NEEDS_FILTERING,
        ),
        (
            "v = 1 ORDER BY n ANN OF [1, 1] LIMIT 2 WITH excluded_indexes = {n_sai}",
            "ANN ordering by vector requires the column to be indexed",
        ),
    ];
    for (condition, expected) in refused {
        let answer = node.execute(&format!("SELECT * FROM k.t WHERE {condition}"));
        let Answer::Error { code, message } = answer else {
            panic!("{condition}: {answer:?}");
        };
        assert_eq!((code, &*message), (ErrorCode::Invalid, expected), "{condition}");
    }
}

#[test]
fn rows_are_the_same_by_whichever_indexes() {
    let node = node();
    let hints = [
        "excluded_indexes = {}",
        "excluded_indexes = {*}",
        "excluded_indexes = {v_legacy, w_legacy}",
        "excluded_indexes = {v_sai, w_sai}",
        "excluded_indexes = {v_legacy, v_sai}",
        "included_indexes = {v_legacy}",
        "included_indexes = {v_sai}",
        "included_indexes = {k.v_sai} AND excluded_indexes = {w_sai, w_legacy, \"X\"}",
        "included_indexes = {v_sai, w_sai}",
        "included_indexes = {w_legacy} AND excluded_indexes = {v_legacy, v_sai}",
    ];
    for condition in [
        "v = 3 AND w = 2",
        "v = 3 AND w = 2 AND x = 'x1'",
        "v = 9 AND w = 2",
        "p = 4 AND v = 3 AND w = 4",
    ] {
        let expected = node.rows(&format!("SELECT c FROM k.t WHERE {condition} ALLOW FILTERING"));
        for hint in hints {
            let text = format!("SELECT c FROM k.t WHERE {condition} ALLOW FILTERING WITH {hint}");
            assert_eq!(node.rows(&text), expected, "{text}");
        }
    }
    let nearest = |hints: &str| {
        node.rows(&format!(
            "SELECT c FROM k.t WHERE v = 3 ORDER BY n ANN OF [50, 1] LIMIT 3{hints}"
        ))
    };
    assert_eq!(nearest(" WITH included_indexes = {n_sai}"), nearest(""));
    assert_eq!(
        nearest(" WITH included_indexes = {n_sai, v_sai} AND excluded_indexes = {v_legacy}"),
        nearest("")
    );
}

/// A statement with hints is planned for another view of its table, and is prepared like any other all the same.
#[test]
fn a_statement_with_hints_stays_prepared_until_its_table_changes() {
    let node = node();
    let text = "SELECT c FROM k.t WHERE v = 3 WITH included_indexes = {v_sai}";
    let Answer::Prepared { id, .. } = node.prepare(text) else {
        panic!("not prepared");
    };
    let execution = Execution::default();
    for _ in 0..3 {
        let answer = node.execute_prepared(&id, &execution);
        assert!(matches!(answer, Answer::Rows(_)), "{answer:?}");
    }
    node.run("DROP INDEX k.v_sai");
    let answer = node.execute_prepared(&id, &execution);
    assert!(matches!(answer, Answer::Error { .. }), "{answer:?}");
}
