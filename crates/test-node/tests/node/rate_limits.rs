//! `per_partition_rate_limit`, end to end: which requests count, on whichever shard they come in, and what refused ones leave.

use std::sync::Arc;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{ManualClock, MemoryDisk};

const SHARDS: u16 = 2;

/// Requests that a partition that was idle gets at once: a tenth of a second's worth, and the request that goes beyond it.
const READS_AT_ONCE: usize = 11;
const WRITES_AT_ONCE: usize = 6;

/// A table with 100 reads and 50 writes per second and partition. Time stands still unless the test moves it.
fn node() -> (TestNode, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    clock.advance_s(1_000);
    let node = TestNode::start(options(SHARDS, Arc::new(MemoryDisk::new()), clock.clone())).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run(
        "CREATE TABLE k.t (p int, c int, v int, l list<int>, PRIMARY KEY (p, c)) WITH per_partition_rate_limit = \
         {'max_reads_per_second': 100, 'max_writes_per_second': 50}",
    );
    (node, clock)
}

fn on_shard(shard: u16) -> Execution {
    Execution {
        shard,
        ..Execution::default()
    }
}

fn is_refused(answer: &Answer, kind: &str) -> bool {
    match answer {
        Answer::Error { code, message } => {
            assert_eq!(*code, ErrorCode::ConfigError, "{message}");
            assert!(
                message.contains("k.t reached") && message.ends_with(kind),
                "{message}"
            );
            true
        }
        _ => false,
    }
}

/// How many of `count` executions are not refused, alternating between shards.
fn served(node: &TestNode, statement: &str, kind: &str, count: usize) -> usize {
    (0..count)
        .filter(|index| {
            let answer = node.execute_with(statement, &on_shard((index % usize::from(SHARDS)) as u16));
            !is_refused(&answer, kind)
        })
        .count()
}

const WRITES: &str = "50 writes per second";
const READS: &str = "100 reads per second";

#[test]
fn each_partition_has_its_own_writes() {
    let (node, clock) = node();
    for p in 0..8 {
        let insert = format!("INSERT INTO k.t (p, c, v) VALUES ({p}, 1, 1)");
        assert_eq!(served(&node, &insert, WRITES, 20), WRITES_AT_ONCE);
    }
    clock.advance_s(1);
    let insert = "INSERT INTO k.t (p, c, v) VALUES (1, 1, 1)";
    assert_eq!(served(&node, insert, WRITES, 20), WRITES_AT_ONCE);
    // Reads have their own.
    assert_eq!(
        served(&node, "SELECT v FROM k.t WHERE p = 1 AND c = 1", READS, 20),
        READS_AT_ONCE
    );
}

#[test]
fn reads_count_however_they_are_executed_and_scans_do_not() {
    let (node, clock) = node();
    for p in 0..4 {
        for c in 0..4 {
            node.run(&format!("INSERT INTO k.t (p, c, v) VALUES ({p}, {c}, 1)"));
        }
    }
    for statement in [
        "SELECT v FROM k.t WHERE p = 1 AND c = 1",
        "SELECT v FROM k.t WHERE p = 1",
        "SELECT count(*) FROM k.t WHERE p = 1",
        "SELECT v FROM k.t WHERE p = 1 AND v = 1 ALLOW FILTERING",
        "SELECT v FROM k.t WHERE p IN (1, 2)",
    ] {
        clock.advance_s(1);
        assert_eq!(served(&node, statement, READS, 20), READS_AT_ONCE, "{statement}");
    }
    assert_eq!(served(&node, "SELECT v FROM k.t", READS, 50), 50);
    assert_eq!(
        served(&node, "SELECT v FROM k.t WHERE token(p) >= token(1)", READS, 50),
        50
    );
    // Of all pages of one partition, each counts.
    clock.advance_s(1);
    let paged = Execution {
        page_size: Some(1),
        ..Execution::default()
    };
    let pages = (0..20)
        .filter(|_| !is_refused(&node.execute_with("SELECT v FROM k.t WHERE p = 1", &paged), READS))
        .count();
    assert_eq!(pages, READS_AT_ONCE);
}

#[test]
fn a_batch_counts_each_partition_and_is_refused_as_a_whole() {
    let (node, clock) = node();
    for p in 1..3 {
        let insert = format!("INSERT INTO k.t (p, c, v) VALUES ({p}, 1, 1)");
        assert_eq!(served(&node, &insert, WRITES, 10), WRITES_AT_ONCE);
    }
    // Partitions 1 and 2 have nothing left; nothing is written to the others either.
    let inserts: String = (0..8)
        .map(|p| format!("INSERT INTO k.t (p, c, v) VALUES ({p}, 7, 7); "))
        .collect();
    for kind in ["", "UNLOGGED "] {
        let batch = format!("BEGIN {kind}BATCH {inserts} APPLY BATCH");
        assert_eq!(served(&node, &batch, WRITES, 4), 0);
    }
    assert!(
        node.rows("SELECT p FROM k.t WHERE c = 7 ALLOW FILTERING")
            .is_empty()
    );
    clock.advance_s(1);
    // However many rows a batch writes to a partition, it counts once.
    let rows: String = (0..20)
        .map(|c| format!("INSERT INTO k.t (p, c, v) VALUES (1, {c}, 7); "))
        .collect();
    let batch = format!("BEGIN UNLOGGED BATCH {rows} APPLY BATCH");
    assert_eq!(served(&node, &batch, WRITES, 10), WRITES_AT_ONCE);
}

#[test]
fn a_write_that_reads_a_list_first_counts_as_one_write() {
    let (node, clock) = node();
    node.run("INSERT INTO k.t (p, c, l) VALUES (1, 1, [1, 2, 3])");
    clock.advance_s(1);
    assert_eq!(
        served(&node, "UPDATE k.t SET l[0] = 5 WHERE p = 1 AND c = 1", WRITES, 10),
        WRITES_AT_ONCE
    );
}

#[test]
fn the_limit_can_be_changed_and_taken_back_and_survives_a_restart() {
    let (mut node, clock) = node();
    let insert = "INSERT INTO k.t (p, c, v) VALUES (1, 1, 1)";
    node.run("ALTER TABLE k.t WITH per_partition_rate_limit = {'max_reads_per_second': 100}");
    assert_eq!(served(&node, insert, WRITES, 50), 50);
    node.run("ALTER TABLE k.t WITH per_partition_rate_limit = {'max_writes_per_second': 50}");
    clock.advance_s(1);
    assert_eq!(served(&node, insert, WRITES, 50), WRITES_AT_ONCE);
    node.restart().unwrap();
    clock.advance_s(1);
    assert_eq!(served(&node, insert, WRITES, 50), WRITES_AT_ONCE);
    assert_eq!(served(&node, "SELECT v FROM k.t WHERE p = 1", READS, 50), 50);
    node.run("ALTER TABLE k.t WITH per_partition_rate_limit = {}");
    assert_eq!(served(&node, insert, WRITES, 50), 50);
}

#[test]
fn drivers_find_the_limit_among_the_extensions() {
    let (node, _clock) = node();
    let rows = node.rows("SELECT extensions FROM system_schema.tables WHERE keyspace_name = 'k'");
    let bytes = rows[0][0].as_deref().unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(has(b"per_partition_rate_limit") && has(b"max_writes_per_second") && has(b"50"));
}

/// A statement for several partitions wrote to those in front of the one that was refused.
#[test]
fn a_refused_statement_for_several_partitions_writes_to_none() {
    let (node, _clock) = node();
    let insert = "INSERT INTO k.t (p, c, v) VALUES (3, 1, 1)";
    assert_eq!(served(&node, insert, WRITES, 20), WRITES_AT_ONCE);
    for shard in 0..SHARDS {
        let update = "UPDATE k.t SET v = 9 WHERE p IN (0, 1, 2, 3, 4) AND c = 1";
        assert!(is_refused(&node.execute_with(update, &on_shard(shard)), WRITES));
    }
    assert_eq!(
        node.rows("SELECT p FROM k.t WHERE v = 9 ALLOW FILTERING").len(),
        0
    );
}
