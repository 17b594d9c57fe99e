//! Statements that are too long to be planned on their shard's thread.

use std::sync::Arc;
use std::time::Duration;

use helenus_protocol::ErrorCode;
use helenus_protocol::request::BatchKind;
use helenus_test_heap::of_thread;
use helenus_test_node::{Answer, BatchMember, Execution, TestNode, options};
use helenus_vfs::{ManualClock, MemoryDisk};

/// As long as a prepared statement may be.
const PREPARED_COLUMNS: usize = 2_500;

/// Beyond what is planned where it arrives, and far below what is refused.
const COLUMNS: usize = 20_000;

fn node_with_table(shard_count: u16) -> TestNode {
    let node = TestNode::with_shards(shard_count);
    make_table(&node);
    node
}

fn make_table(node: &TestNode) {
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (k int PRIMARY KEY, v text)");
    node.run("INSERT INTO k.t (k, v) VALUES (1, 'a')");
}

fn long_select(columns: usize) -> String {
    format!("SELECT {} FROM k.t WHERE k = 1", vec!["v"; columns].join(", "))
}

fn in_keyspace(keyspace: &str) -> Execution {
    Execution {
        keyspace: Some(keyspace.to_owned()),
        ..Execution::default()
    }
}

/// The longest statement that is accepted was planned for a tenth of a second, and nobody else was answered meanwhile.
#[test]
fn who_comes_behind_a_long_statement_does_not_wait_for_it() {
    let node = node_with_table(1);
    // Refused by the planner: nothing but planning it takes time.
    let texts = [
        long_select(COLUMNS) + " LIMIT 'x'",
        "SELECT k FROM k.t".to_owned(),
    ];
    let answers = node.execute_together(&texts);
    let [(1, Answer::Rows(rows)), (0, Answer::Error { .. })] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    assert_eq!(rows.rows.len(), 1);
}

#[test]
fn long_statements_are_prepared_executed_and_traced_like_others() {
    let node = node_with_table(3);
    let Answer::Prepared { id, columns, .. } = node.prepare(&long_select(PREPARED_COLUMNS)) else {
        panic!("it is not prepared");
    };
    assert_eq!(columns.len(), PREPARED_COLUMNS);
    for shard in 0..3 {
        let execution = Execution {
            shard,
            ..Execution::default()
        };
        let answer = node.execute_prepared(&id, &execution);
        assert!(matches!(answer, Answer::Rows(rows) if rows.rows.len() == 1));
    }
    let (answer, trace) = node.execute_traced(&long_select(PREPARED_COLUMNS));
    assert!(matches!(answer, Answer::Rows(_)) && trace.is_some());
}

/// One BATCH message of statements with and without text: its values belong to the statement that they came with.
#[test]
fn long_texts_of_a_batch_are_planned_beside_its_prepared_statements() {
    let node = node_with_table(2);
    let Answer::Prepared { id, .. } = node.prepare("INSERT INTO k.t (k, v) VALUES (?, 'prepared')") else {
        panic!("it is not prepared");
    };
    let bound = |key: i32| vec![Some(key.to_be_bytes().to_vec())];
    let long = "x".repeat(10_000);
    let text = |text: String, key| BatchMember::Text(text, bound(key));
    let members = vec![
        text(format!("INSERT INTO t (k, v) VALUES (?, '{long}')"), 10),
        BatchMember::Prepared(id, bound(11)),
        text("INSERT INTO t (k, v) VALUES (?, 'short')".to_owned(), 12),
    ];
    let answer = node
        .submit_batch(BatchKind::Logged, members, &in_keyspace("k"))
        .wait();
    assert_eq!(answer, Some(Answer::Void));
    for (key, wanted) in [(10, long.as_str()), (11, "prepared"), (12, "short")] {
        let rows = node.rows(&format!("SELECT v FROM k.t WHERE k = {key}"));
        assert_eq!(rows, [[Some(wanted.as_bytes().to_vec())]]);
    }
    // The first that fails gives the error, and nothing of the others is done.
    let members = vec![
        text("INSERT INTO t (k, v) VALUES (?, 'unwanted')".to_owned(), 13),
        text(format!("INSERT INTO t (k, w) VALUES (?, '{long}')"), 14),
        BatchMember::Prepared(vec![7; 16], bound(15)),
    ];
    let answer = node
        .submit_batch(BatchKind::Logged, members, &in_keyspace("k"))
        .wait();
    assert!(
        matches!(
            answer,
            Some(Answer::Error {
                code: ErrorCode::Invalid,
                ..
            })
        ),
        "{answer:?}"
    );
    assert!(node.rows("SELECT v FROM k.t WHERE k = 13").is_empty());
}

#[test]
fn errors_of_long_statements_are_those_of_short_ones() {
    let node = node_with_table(1);
    let long = " ".repeat(10_000);
    for (text, wanted) in [
        ("SELECT FROM", ErrorCode::SyntaxError),
        ("SELECT w FROM k.t", ErrorCode::Invalid),
        ("SELECT k FROM k.u", ErrorCode::Invalid),
    ] {
        let short = node.execute(text);
        let answer = node.execute(&format!("{text}{long}"));
        assert!(
            matches!(&answer, Answer::Error { code, .. } if *code == wanted),
            "{answer:?}"
        );
        if wanted == ErrorCode::Invalid {
            assert_eq!(answer, short);
        }
    }
}

/// A long statement whose time is over is refused with nothing done, as a short one is.
#[test]
fn a_long_statement_that_waited_too_long_is_not_begun() {
    let clock = Arc::new(ManualClock::starting_at(0));
    let patience = Duration::from_secs(3_600);
    clock.advance_s(patience.as_secs());
    let node = TestNode::start(options(1, Arc::new(MemoryDisk::new()), clock)).unwrap();
    make_table(&node);
    let execution = Execution {
        waited: patience,
        ..Execution::default()
    };
    let text = format!("INSERT INTO k.t (k, v) VALUES (7, '{}')", "x".repeat(10_000));
    let answer = node.execute_with(&text, &execution);
    assert!(
        matches!(
            answer,
            Answer::Error {
                code: ErrorCode::Overloaded,
                ..
            }
        ),
        "{answer:?}"
    );
    assert!(node.rows("SELECT v FROM k.t WHERE k = 7").is_empty());
}

/// Long statements planned while the schema changes are answered with rows of one schema or the other.
#[test]
fn long_statements_go_on_while_the_schema_changes() {
    let node = node_with_table(2);
    let text = long_select(COLUMNS);
    for round in 0..5 {
        let pending: Vec<_> = (0..4)
            .map(|shard| {
                let execution = Execution {
                    shard: shard % 2,
                    ..Execution::default()
                };
                node.submit(&text, &execution)
            })
            .collect();
        node.run(&format!("ALTER TABLE k.t ADD c{round} int"));
        for answer in pending {
            let answer = answer.wait();
            assert!(matches!(&answer, Some(Answer::Rows(rows)) if rows.columns.len() == COLUMNS));
        }
    }
}

/// The output of DESCRIBE takes time in proportion to the schema, and whoever came behind it waited.
#[test]
fn who_comes_behind_a_describe_does_not_wait_for_it() {
    let node = node_with_table(1);
    // Answered where it arrives, in one go.
    let texts = ["DESCRIBE FULL SCHEMA", "SELECT k FROM k.t WHERE k = 1"].map(str::to_owned);
    let answers = node.execute_together(&texts);
    let order: Vec<usize> = answers.iter().map(|(index, _)| *index).collect();
    assert_eq!(order, [1, 0]);
    assert!(
        answers
            .iter()
            .all(|(_, answer)| matches!(answer, Answer::Rows(_)))
    );
}

/// 23,000 casts of one row held its shard for 2.6 ms.
#[test]
fn many_values_of_a_row_are_computed_beside_the_shard() {
    let node = node_with_table(1);
    let allocations_of = |text: &str| {
        let before = node.on_shard(0, |_| of_thread().allocations);
        let rows = node.rows(text);
        let after = node.on_shard(0, |_| of_thread().allocations);
        assert_eq!(rows, [vec![Some(b"1".to_vec()); PREPARED_COLUMNS]], "{text:.40}");
        after - before
    };
    let casts = vec!["CAST(k AS text)"; PREPARED_COLUMNS].join(", ");
    node.run("INSERT INTO k.t (k, v) VALUES (1, '1')");
    // The test's client takes memory for each value on the shard's thread; so does each cast where it is computed.
    let read = allocations_of(&long_select(PREPARED_COLUMNS));
    for clause in ["", " GROUP BY k"] {
        let computed = allocations_of(&format!("SELECT {casts} FROM k.t WHERE k = 1{clause}"));
        assert!(
            computed < read + PREPARED_COLUMNS as u64 / 2,
            "{computed} after {read}"
        );
    }
}
