//! Writes to several partitions: what a refusal leaves, and what a LOGGED batch leaves when a log fails.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helenus_node::CommitlogSync;
use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, HookedDisk, TestNode, options};
use helenus_tools::host::Host;
use helenus_types::{shard_of, token_of};
use helenus_vfs::{MemoryDisk, Operation, SystemClock};

const SHARDS: u16 = 2;

/// Longer than reading 40 MB takes on a slow machine, unoptimised.
const SLOW_MACHINE_TIMEOUT: Duration = Duration::from_secs(120);

/// A partition key that the shard owns.
fn key_of(shard: u16) -> i32 {
    let owns = |p: &i32| shard_of(token_of(&p.to_be_bytes()), SHARDS).0 == shard;
    (0..).find(owns).unwrap()
}

fn make_table(node: &TestNode) {
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int, c int, v blob, l list<int>, PRIMARY KEY (p, c))");
}

fn error_of(answer: Answer) -> (ErrorCode, String) {
    match answer {
        Answer::Error { code, message } => (code, message),
        other => panic!("{other:?}"),
    }
}

/// A node in memory, of which the last shard takes no more writes.
fn node_with_full_shard() -> TestNode {
    let mut options = options(SHARDS, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.in_memory = true;
    options.memory_bytes = 2 << 20;
    options.write_request_timeout = Duration::from_millis(50);
    let node = TestNode::start(options).unwrap();
    make_table(&node);
    let write = |c: i32| Execution {
        values: vec![Some(c.to_be_bytes().to_vec()), Some(vec![7; 100_000])],
        ..Execution::default()
    };
    let full = key_of(1);
    let insert = format!("INSERT INTO k.t (p, c, v) VALUES ({full}, ?, ?)");
    let refused = (0..100).find_map(|c| match node.execute_with(&insert, &write(c)) {
        Answer::Void => None,
        refused => Some(refused),
    });
    // Its own time may be over before the owner has given up.
    let (code, message) = error_of(refused.unwrap());
    assert!(
        matches!(code, ErrorCode::Overloaded | ErrorCode::WriteTimeout),
        "{message}"
    );
    node
}

/// OVERLOADED means that nothing was done, so that drivers and our client send the statement again: appends ran twice.
#[test]
fn a_batch_that_one_shard_refuses_leaves_nothing_on_another() {
    let node = node_with_full_shard();
    let (free, full) = (key_of(0), key_of(1));
    let batch = format!(
        "BEGIN BATCH UPDATE k.t SET l = l + [1] WHERE p = {free} AND c = 1; UPDATE k.t SET l = l + [1] WHERE p = {full} \
         AND c = 1; APPLY BATCH"
    );
    for shard in 0..SHARDS {
        let execution = Execution {
            shard,
            ..Execution::default()
        };
        let (code, message) = error_of(node.execute_with(&batch, &execution));
        assert_eq!(code, ErrorCode::Overloaded, "{message}");
    }
    let rows = node.rows(&format!("SELECT l FROM k.t WHERE p = {free} AND c = 1"));
    assert_eq!(rows, Vec::<Vec<Option<Vec<u8>>>>::new());
    assert_eq!(
        node.execute(&format!("INSERT INTO k.t (p, c) VALUES ({free}, 2)")),
        Answer::Void
    );
}

/// Statements that are not atomic may be done by half; then nobody may be told that nothing was done.
#[test]
fn a_statement_that_one_shard_refuses_and_another_does_is_no_overload() {
    let node = node_with_full_shard();
    let (free, full) = (key_of(0), key_of(1));
    let batch = format!(
        "BEGIN UNLOGGED BATCH INSERT INTO k.t (p, c) VALUES ({free}, 1); INSERT INTO k.t (p, c) VALUES ({full}, 1); \
         APPLY BATCH"
    );
    let update = format!("UPDATE k.t SET l = [1] WHERE p IN ({free}, {full}) AND c = 2");
    for statement in [batch, update] {
        let (code, message) = error_of(node.execute(&statement));
        assert_eq!(code, ErrorCode::WriteTimeout, "{statement}: {message}");
    }
    let rows = node.rows(&format!("SELECT c FROM k.t WHERE p = {free}"));
    assert_eq!(rows.len(), 2);
}

/// One half would be visible for good while the other could never be written: the node takes no more writes, and its next
/// start undoes the half that the sound log has.
#[test]
fn a_log_that_fails_with_half_of_a_batch_stops_all_writes_until_a_restart() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = fails.clone();
    let disk = HookedDisk::new(Arc::new(MemoryDisk::new()), move |operation, path: &Path| {
        let is_second_log = path.components().any(|part| part.as_os_str() == "shard-00001");
        let fails = operation == Operation::Write && is_second_log && failing.load(Ordering::SeqCst);
        if fails {
            Err(io::Error::other("injected"))
        } else {
            Ok(())
        }
    });
    let mut node = TestNode::start(options(SHARDS, Arc::new(disk), Arc::new(SystemClock::new()))).unwrap();
    make_table(&node);
    let keys = [key_of(0), key_of(1)];
    let batch = |c: i32| {
        format!(
            "BEGIN BATCH INSERT INTO k.t (p, c) VALUES ({}, {c}); INSERT INTO k.t (p, c) VALUES ({}, {c}); APPLY BATCH",
            keys[0], keys[1]
        )
    };
    node.run(&batch(1));
    fails.store(true, Ordering::SeqCst);
    let (code, message) = error_of(node.execute(&batch(2)));
    assert_eq!(code, ErrorCode::ServerError, "{message}");
    for key in keys {
        let (code, message) = error_of(node.execute(&format!("INSERT INTO k.t (p, c) VALUES ({key}, 3)")));
        assert_eq!(code, ErrorCode::ServerError, "{message}");
        assert!(
            message.contains("refused until the node is restarted"),
            "{message}"
        );
    }
    fails.store(false, Ordering::SeqCst);
    node.restart().unwrap();
    for key in keys {
        let rows = node.rows(&format!("SELECT c FROM k.t WHERE p = {key}"));
        assert_eq!(rows, [[Some(1_i32.to_be_bytes().to_vec())]], "partition {key}");
    }
    node.run(&batch(4));
}

/// A flush may have to wait for another shard's part to be durable, which is news to nobody but the coordinator.
#[test]
fn flushes_do_not_wait_for_ever_for_the_parts_of_others() {
    for sync in [
        CommitlogSync::Group,
        CommitlogSync::Periodic {
            period: Duration::from_secs(3_600),
        },
    ] {
        let mut options = options(SHARDS, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
        options.commitlog_sync = sync;
        let mut node = TestNode::start(options).unwrap();
        make_table(&node);
        let statements: Vec<String> = (0..200)
            .map(|c| {
                let inserts = (0..4).map(|p| format!("INSERT INTO k.t (p, c) VALUES ({p}, {c});"));
                format!("BEGIN BATCH {} APPLY BATCH", inserts.collect::<String>())
            })
            .collect();
        for (_, answer) in node.execute_together(&statements) {
            assert_eq!(answer, Answer::Void);
        }
        // List operations read, and so decide on what batches have written.
        node.run("INSERT INTO k.t (p, c, l) VALUES (1, 1, [1, 2])");
        node.run("BEGIN BATCH UPDATE k.t SET l = l + [3] WHERE p = 1 AND c = 1; INSERT INTO k.t (p, c) VALUES (2, 1000); APPLY BATCH");
        node.run("DELETE l[0] FROM k.t WHERE p = 1 AND c = 1");
        node.operator().flush(None).unwrap();
        node.restart().unwrap();
        assert_eq!(node.rows("SELECT c FROM k.t").len(), 801);
    }
}

/// A node with rows of a megabyte and a list each, in partitions of their own, all of them on the disk.
fn node_with_long_rows(rows: i32) -> TestNode {
    let mut options = options(1, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    // What is refused for its memory must not be refused for its time first.
    options.read_request_timeout = SLOW_MACHINE_TIMEOUT;
    options.write_request_timeout = SLOW_MACHINE_TIMEOUT;
    let mut node = TestNode::start(options).unwrap();
    make_table(&node);
    let mut state = 1_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    for c in 0..rows {
        let execution = Execution {
            values: vec![Some((0..1_000_000).map(|_| byte()).collect())],
            ..Execution::default()
        };
        let insert = format!("INSERT INTO k.t (p, c, l, v) VALUES ({c}, {c}, [1, 2, 3], ?)");
        assert_eq!(node.execute_with(&insert, &execution), Answer::Void);
    }
    node.operator().flush(None).unwrap();
    node.restart().unwrap();
    node
}

fn change_lists(node: &TestNode, rows: i32) -> Answer {
    let members: String = (0..rows)
        .map(|c| format!("UPDATE k.t SET l[1] = {c} WHERE p = {c} AND c = {c}; "))
        .collect();
    node.execute(&format!("BEGIN BATCH {members} APPLY BATCH"))
}

/// Where two long rows were on the disk, each run of the batch lost the pages of one while it read the other: it never ended,
/// and held its shard until its time was over.
#[test]
fn a_batch_that_reads_lists_of_long_rows_from_the_disk_comes_to_its_end() {
    let node = node_with_long_rows(5);
    assert_eq!(change_lists(&node, 5), Answer::Void);
}

/// As the batch: a transaction reads its rows one after the other, in one turn.
#[test]
fn a_transaction_that_reads_long_rows_from_the_disk_comes_to_its_end() {
    let node = node_with_long_rows(5);
    let lets: String = (0..5)
        .map(|c| format!("LET r{c} = (SELECT l FROM k.t WHERE p = {c} AND c = {c}); "))
        .collect();
    let transaction = format!("BEGIN TRANSACTION {lets} SELECT r0.l, r4.l; COMMIT TRANSACTION");
    assert_eq!(node.rows(&transaction).len(), 1);
}

#[test]
fn lists_of_more_than_can_be_read_in_one_turn_are_refused_by_name() {
    let node = node_with_long_rows(40);
    let (code, message) = error_of(change_lists(&node, 40));
    assert_eq!(code, ErrorCode::Invalid);
    assert!(
        message.contains("32 MiB") && message.contains("send fewer"),
        "{message}"
    );
    assert_eq!(change_lists(&node, 10), Answer::Void);
}
