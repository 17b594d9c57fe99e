//! Prepared statements on shards: plans of the schema that is in force, and not too many.

use std::sync::mpsc;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn on_shard(shard: u16) -> Execution {
    Execution {
        shard,
        ..Execution::default()
    }
}

fn prepared_id(answer: Answer) -> Vec<u8> {
    match answer {
        Answer::Prepared { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

/// A PREPARE that met an ALTER left a plan of the old schema on the other shards: `SELECT *` had a column less on them, until
/// the next change of the schema.
#[test]
fn a_plan_of_an_older_schema_is_kept_nowhere() {
    let node = TestNode::with_shards(3);
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, a int)");
    let (opener, gate) = mpsc::channel();
    let prepared = node.prepare_behind(2, gate, "SELECT * FROM k.t");
    // Decided on the first shard, while the last does not hear of it.
    let altered = node.submit("ALTER TABLE k.t ADD b int", &Execution::default());
    let columns =
        "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'k' AND table_name = 't'";
    while node.rows(columns).len() < 3 {}
    opener.send(()).unwrap();
    let id = prepared_id(prepared.wait().unwrap());
    assert_eq!(altered.wait(), Some(Answer::SchemaChange));
    for shard in 0..3 {
        let Answer::Rows(rows) = node.execute_prepared(&id, &on_shard(shard)) else {
            panic!("shard {shard} has no plan");
        };
        assert_eq!(rows.columns.len(), 3, "shard {shard}");
    }
}

/// The table is gone when the plan is to be handed on.
#[test]
fn a_statement_on_a_table_that_is_dropped_meanwhile_is_refused() {
    let node = TestNode::with_shards(2);
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, a int)");
    let (opener, gate) = mpsc::channel();
    let prepared = node.prepare_behind(1, gate, "SELECT * FROM k.t");
    let dropped = node.submit("DROP TABLE k.t", &Execution::default());
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'k'";
    while !node.rows(tables).is_empty() {}
    opener.send(()).unwrap();
    let Some(Answer::Error { code, message }) = prepared.wait() else {
        panic!("prepared for a table that is gone");
    };
    assert_eq!(code, ErrorCode::Invalid, "{message}");
    assert_eq!(dropped.wait(), Some(Answer::SchemaChange));
}

/// 36 statements of 2 MB each, of which plans are many times as large: 3.4 GB that no budget saw, on a node with 256 MiB.
#[test]
fn the_plans_of_long_statements_are_refused_or_make_room() {
    let node = TestNode::with_shards(2);
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, a int)");
    let long = |first: usize, count: usize| {
        let values: Vec<String> = (first..first + count).map(|value| value.to_string()).collect();
        format!("SELECT a FROM k.t WHERE p IN ({})", values.join(", "))
    };
    let Answer::Error { code, message } = node.prepare(&long(0, 60_000)) else {
        panic!("prepared");
    };
    assert_eq!(code, ErrorCode::Invalid);
    assert!(message.starts_with("Prepared statement of size "), "{message}");
    assert!(message.ends_with("..."), "{message}");
    assert!(message.len() < 400, "{message}");

    // Each takes a tenth of what all may.
    let ids: Vec<Vec<u8>> = (0..14)
        .map(|number| prepared_id(node.prepare(&long(number, 10_000))))
        .collect();
    for shard in 0..2 {
        let is_known = |id: &&Vec<u8>| {
            let answer = node.execute_prepared(id, &on_shard(shard));
            !matches!(
                answer,
                Answer::Error {
                    code: ErrorCode::Unprepared,
                    ..
                }
            )
        };
        let known = ids.iter().filter(is_known).count();
        assert!((1..14).contains(&known), "{known}");
        assert!(is_known(&&ids[13]), "the last was just prepared");
    }
}
