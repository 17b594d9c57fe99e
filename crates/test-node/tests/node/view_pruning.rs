//! `PRUNE MATERIALIZED VIEW`: rows that no base row stands for go, all others stay, and what is written later comes.

use std::time::{Duration, Instant};

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode};
use helenus_tools::host::{Incumbents, TableChoice};
use helenus_tools::progress::Silent;
use helenus_tools::snapshot;

type Row = Vec<Option<Vec<u8>>>;

/// With a column of the base row in its key, and without one.
const VIEWS: [(&str, &str); 2] = [
    (
        "by_a",
        "a IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (a, p, c)",
    ),
    ("by_c", "p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, p)"),
];

const ROWS: usize = 300;

fn node_with_views(shards: u16) -> TestNode {
    let node = TestNode::with_shards(shards);
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int, c int, a int, b text, PRIMARY KEY (p, c))");
    for (name, definition) in VIEWS {
        node.run(&format!(
            "CREATE MATERIALIZED VIEW k.{name} AS SELECT * FROM k.t WHERE {definition}"
        ));
        let built = format!(
            "SELECT view_name FROM system.built_views WHERE keyspace_name = 'k' AND view_name = '{name}'"
        );
        let began = Instant::now();
        while node.rows(&built).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(20), "{name} is not built");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    for row in 0..ROWS {
        insert(&node, row);
    }
    node
}

fn insert(node: &TestNode, row: usize) {
    let (p, c, a) = (row % 40, row, row % 7);
    node.run(&format!(
        "INSERT INTO k.t (p, c, a, b) VALUES ({p}, {c}, {a}, 'b{row}')"
    ));
}

fn rows(node: &TestNode, table: &str) -> Vec<Row> {
    let mut rows = node.rows(&format!("SELECT p, c, a, b FROM k.{table}"));
    rows.sort();
    rows
}

/// Runs a statement; returns how many rows it has checked and removed.
fn prune(node: &TestNode, statement: &str) -> (i64, i64) {
    let counts = node.rows(statement);
    let count = |place: usize| i64::from_be_bytes(counts[0][place].as_deref().unwrap().try_into().unwrap());
    (count(0), count(1))
}

/// Gives the views rows that the base table has had, and has no more.
fn make_ghosts(node: &TestNode) {
    for (name, _) in VIEWS {
        let view = TableChoice::of(Some("k"), Some(name));
        snapshot::create(&node.operator(), &view, "before", None, &Silent).unwrap();
    }
    // Moved, deleted by row and by partition.
    for row in (0..ROWS).step_by(10) {
        node.run(&format!(
            "UPDATE k.t SET a = 9 WHERE p = {} AND c = {row}",
            row % 40
        ));
    }
    for row in (1..ROWS).step_by(10) {
        node.run(&format!("DELETE FROM k.t WHERE p = {} AND c = {row}", row % 40));
    }
    node.run("DELETE FROM k.t WHERE p = 7");
    for (name, _) in VIEWS {
        let view = TableChoice::of(Some("k"), Some(name));
        snapshot::restore(&node.operator(), &view, "before", Incumbents::Go, &Silent).unwrap();
        assert_eq!(rows(node, name).len(), ROWS, "the rows that were are back");
    }
}

#[test]
fn rows_without_a_base_row_go_and_all_others_stay() {
    for (shards, using) in [(1, ""), (3, ""), (3, " USING CONCURRENCY 5 AND TIMEOUT 50s")] {
        let node = node_with_views(shards);
        for (name, _) in VIEWS {
            let statement = format!("PRUNE MATERIALIZED VIEW k.{name}{using}");
            assert_eq!(prune(&node, &statement), (ROWS as i64, 0), "{name} is exact");
        }
        make_ghosts(&node);
        let base = rows(&node, "t");
        for (name, _) in VIEWS {
            let is_ghost = |row: &&Row| match name {
                // What has moved has another row there now, which the restore took.
                "by_a" => !base.contains(row),
                _ => !base.iter().any(|base| base[..2] == row[..2]),
            };
            let before = rows(&node, name);
            let ghosts = before.iter().filter(is_ghost).count();
            assert!((20..ROWS / 2).contains(&ghosts), "{name}: {ghosts}");
            let statement = format!("PRUNE MATERIALIZED VIEW k.{name}{using}");
            assert_eq!(prune(&node, &statement), (ROWS as i64, ghosts as i64), "{name}");
            let kept: Vec<Row> = before.iter().filter(|row| !is_ghost(row)).cloned().collect();
            assert_eq!(rows(&node, name), kept, "{name}");
            assert_eq!(prune(&node, &statement), (kept.len() as i64, 0), "{name}");
        }
        // As they were before. What has moved away comes back with cells that are as old as the removals.
        for row in 0..ROWS {
            match row % 10 {
                0 => node.run(&format!(
                    "UPDATE k.t SET a = {} WHERE p = {} AND c = {row}",
                    row % 7,
                    row % 40
                )),
                _ => insert(&node, row),
            }
        }
        for (name, _) in VIEWS {
            assert_eq!(rows(&node, name), rows(&node, "t"), "{name}");
        }
    }
}

#[test]
fn a_part_of_a_view_is_pruned_alone() {
    let node = node_with_views(2);
    make_ghosts(&node);
    let (checked, removed) = prune(&node, "PRUNE MATERIALIZED VIEW k.by_a WHERE a = 3");
    assert_eq!(checked, node_count(3));
    assert!((1..checked).contains(&removed), "{removed} of {checked}");
    let (_, removed) = prune(&node, "PRUNE MATERIALIZED VIEW k.by_a WHERE a = 3 AND p > 0");
    assert_eq!(removed, 0);
    let by_token = ["<= 0", "> 0"].map(|part| {
        prune(
            &node,
            &format!("PRUNE MATERIALIZED VIEW k.by_a WHERE token(a) {part}"),
        )
    });
    assert!(by_token.iter().all(|(checked, _)| *checked > 0), "{by_token:?}");
    assert_eq!(prune(&node, "PRUNE MATERIALIZED VIEW k.by_a").1, 0);
    assert_eq!(
        prune(&node, "PRUNE MATERIALIZED VIEW k.by_a WHERE a = 12"),
        (0, 0)
    );
}

/// Rows that were written with this value.
fn node_count(a: usize) -> i64 {
    (0..ROWS).filter(|row| row % 7 == a).count() as i64
}

#[test]
fn what_is_no_view_and_what_would_filter_is_refused() {
    let node = node_with_views(1);
    let refused = |statement: &str| match node.execute(statement) {
        Answer::Error { code, message } => {
            assert_eq!(code, ErrorCode::Invalid, "{statement}: {message}");
            message
        }
        other => panic!("{statement}: {other:?}"),
    };
    assert_eq!(
        refused("PRUNE MATERIALIZED VIEW k.t"),
        "Cannot use PRUNE MATERIALIZED VIEW on Table"
    );
    assert_eq!(
        refused("PRUNE MATERIALIZED VIEW k.none"),
        "table none does not exist"
    );
    assert!(refused("PRUNE MATERIALIZED VIEW k.by_a WHERE b = 'x'").contains("ALLOW FILTERING"));
    assert!(refused("PRUNE MATERIALIZED VIEW k.by_a WHERE p = 1").contains("ALLOW FILTERING"));
    for concurrency in [0, -4] {
        assert_eq!(
            refused(&format!(
                "PRUNE MATERIALIZED VIEW k.by_a USING CONCURRENCY {concurrency}"
            )),
            "CONCURRENCY must be strictly positive"
        );
    }
    let bound = Execution {
        values: vec![
            Some(3_i32.to_be_bytes().to_vec()),
            Some(2_i32.to_be_bytes().to_vec()),
        ],
        ..Execution::default()
    };
    let answer = node.execute_with(
        "PRUNE MATERIALIZED VIEW k.by_a WHERE a = ? USING CONCURRENCY ?",
        &bound,
    );
    assert!(matches!(answer, Answer::Rows(_)), "{answer:?}");
}
