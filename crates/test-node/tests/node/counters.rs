//! Counters: every increment counts once, whatever shards, files, crashes and deletions do.

use std::sync::Arc;
use std::time::Duration;

use helenus_node::{CommitlogSync, NodeOptions};
use helenus_protocol::ErrorCode;
use helenus_protocol::request::BatchKind;
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{Answer, BatchMember, Execution, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{Disk, MemoryDisk, SimulatedDisk, SystemClock};

fn make_tables(node: &TestNode) {
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, n counter, m counter)");
    node.run("CREATE TABLE k.w (p int, c int, s counter STATIC, n counter, PRIMARY KEY (p, c))");
}

fn options_on(disk: &Arc<SimulatedDisk>, shard_count: u16) -> NodeOptions {
    options(
        shard_count,
        disk.clone() as Arc<dyn Disk>,
        Arc::new(SystemClock::new()),
    )
}

fn long(value: &Option<Vec<u8>>) -> Option<i64> {
    let bytes = value.as_ref()?;
    Some(i64::from_be_bytes(bytes.as_slice().try_into().unwrap()))
}

/// The one value that a SELECT answers with, if there is a row.
fn value(node: &TestNode, select: &str) -> Option<i64> {
    let rows = node.rows(select);
    assert!(rows.len() < 2, "{select}: {} rows", rows.len());
    rows.first().and_then(|row| long(&row[0]))
}

fn totals(node: &TestNode, keys: i32) -> Vec<i64> {
    (0..keys)
        .map(|p| value(node, &format!("SELECT n FROM k.t WHERE p = {p}")).unwrap_or(0))
        .collect()
}

fn flush(node: &TestNode) {
    node.operator().flush(None).unwrap();
}

fn on_shard(shard: u16) -> Execution {
    Execution {
        shard,
        ..Execution::default()
    }
}

fn error_of(answer: Answer) -> (ErrorCode, String) {
    match answer {
        Answer::Error { code, message } => (code, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn increments_from_all_shards_at_once_add_up() {
    const SHARDS: u16 = 3;
    const ROUNDS: usize = 40;
    let node = TestNode::with_shards(SHARDS);
    make_tables(&node);
    let mut pending = Vec::new();
    for round in 0..ROUNDS {
        for shard in 0..SHARDS {
            let p = round % 4;
            pending.push(node.submit(
                &format!("UPDATE k.t SET n = n + 3, m = m - 1 WHERE p = {p}"),
                &on_shard(shard),
            ));
            pending.push(node.submit(
                &format!("UPDATE k.w SET n = n + 1, s = s + 2 WHERE p = {p} AND c IN (1, 2)"),
                &on_shard(shard),
            ));
            pending.push(node.submit(
                "BEGIN COUNTER BATCH UPDATE k.t SET n = n + 1 WHERE p = 0; UPDATE k.t SET n = n + 1 WHERE p = 1; UPDATE \
                 k.t SET n = n + 1 WHERE p = 0; APPLY BATCH",
                &on_shard(shard),
            ));
        }
    }
    for answer in pending {
        assert_eq!(answer.wait(), Some(Answer::Void));
    }
    let times = (ROUNDS / 4) as i64 * i64::from(SHARDS);
    let batches = 4 * times;
    let expected = [3 * times + 2 * batches, 3 * times + batches, 3 * times, 3 * times];
    assert_eq!(totals(&node, 4), expected);
    for p in 0..4 {
        assert_eq!(
            value(&node, &format!("SELECT m FROM k.t WHERE p = {p}")),
            Some(-times)
        );
        assert_eq!(
            value(&node, &format!("SELECT s FROM k.w WHERE p = {p} LIMIT 1")),
            Some(4 * times),
            "as in Cassandra, once for each row that is named"
        );
        assert_eq!(
            value(&node, &format!("SELECT n FROM k.w WHERE p = {p} AND c = 2")),
            Some(times)
        );
    }
}

#[test]
fn flushes_compactions_and_restarts_change_no_counter() {
    let disk = Arc::new(SimulatedDisk::new(1));
    let mut expected = vec![0; 6];
    for (life, shards) in [1, 3, 2, 4].into_iter().enumerate() {
        let node = TestNode::start(options_on(&disk, shards)).unwrap();
        if life == 0 {
            make_tables(&node);
        }
        assert_eq!(totals(&node, 6), expected, "{shards} shards");
        for round in 0..5 {
            for (p, total) in expected.iter_mut().enumerate() {
                let increment = (p as i64 + 1) * (round + 1) - 7;
                node.run(&format!("UPDATE k.t SET n = n + {increment} WHERE p = {p}"));
                *total += increment;
            }
            if round % 2 == life as i64 % 2 {
                flush(&node);
            }
        }
        if life == 1 {
            let table = node.schema().table("k", "t").unwrap().id;
            let kind = CompactionKind::Major { split_output: false };
            node.operator()
                .compact(CompactionRequest { table, kind })
                .unwrap();
        }
        assert_eq!(totals(&node, 6), expected, "{shards} shards");
        drop(node);
    }
    let node = TestNode::start(options_on(&disk, 2)).unwrap();
    assert_eq!(totals(&node, 6), expected);
}

/// Acknowledged increments are there, and none is there twice.
#[test]
fn a_crash_takes_no_acknowledged_increment_and_adds_none() {
    const KEYS: i32 = 3;
    let disk = Arc::new(SimulatedDisk::new(7));
    let mut at_least = vec![0; KEYS as usize];
    let mut node = TestNode::start(options_on(&disk, 2)).unwrap();
    make_tables(&node);
    for round in 0..12_u64 {
        let before = totals(&node, KEYS);
        assert!(before.iter().zip(&at_least).all(|(found, acked)| found >= acked));
        disk.fail_power(1 + 2 * round);
        let mut sent = before.clone();
        let mut acknowledged = before;
        let mut is_on = true;
        while is_on {
            let mut pending = Vec::new();
            for index in 0..7 {
                let p = index % KEYS;
                sent[p as usize] += 1;
                let update = format!("UPDATE k.t SET n = n + 1 WHERE p = {p}");
                let shard = on_shard(index as u16 % node.shard_count());
                pending.push((p, node.submit(&update, &shard)));
            }
            for (p, answer) in pending {
                let is_acknowledged = answer.wait_for(Duration::from_secs(3)) == Some(Answer::Void);
                acknowledged[p as usize] += i64::from(is_acknowledged);
                is_on &= is_acknowledged;
            }
        }
        node.crash();
        disk.fail_power(0);
        disk.crash();
        node = TestNode::start(options_on(&disk, 1 + (round % 3) as u16)).unwrap();
        for (p, found) in totals(&node, KEYS).into_iter().enumerate() {
            let (least, most) = (acknowledged[p], sent[p]);
            assert!(
                (least..=most).contains(&found),
                "round {round}, counter {p}: {found} of {least}..={most}"
            );
        }
        at_least = acknowledged;
    }
    let total: i64 = at_least.iter().sum();
    assert!(total > 30, "{total} acknowledged in all");
}

#[test]
fn a_deleted_counter_stays_deleted_whatever_was_flushed() {
    for flushes in [false, true] {
        let node = TestNode::with_shards(2);
        make_tables(&node);
        let step = |statement: &str| {
            node.run(statement);
            if flushes {
                flush(&node);
            }
        };
        step("UPDATE k.t SET n = n + 5, m = m + 5 WHERE p = 1");
        step("DELETE n FROM k.t WHERE p = 1");
        step("UPDATE k.t SET n = n + 1, m = m + 1 WHERE p = 1");
        let row = &node.rows("SELECT n, m FROM k.t WHERE p = 1")[0];
        assert_eq!(
            (long(&row[0]), long(&row[1])),
            (None, Some(6)),
            "a tombstone always wins"
        );

        step("UPDATE k.t SET n = n + 5 WHERE p = 2");
        step("DELETE FROM k.t WHERE p = 2");
        step("UPDATE k.t SET n = n + 1 WHERE p = 2");
        step("UPDATE k.t SET n = n + 1 WHERE p = 2");
        assert_eq!(value(&node, "SELECT n FROM k.t WHERE p = 2"), Some(2));

        step("UPDATE k.w SET n = n + 5, s = s + 5 WHERE p = 1 AND c = 1");
        step("DELETE FROM k.w WHERE p = 1 AND c >= 1");
        step("UPDATE k.w SET n = n + 2 WHERE p = 1 AND c = 1");
        assert_eq!(value(&node, "SELECT n FROM k.w WHERE p = 1 AND c = 1"), Some(2));
        assert_eq!(value(&node, "SELECT s FROM k.w WHERE p = 1 LIMIT 1"), Some(5));

        // A row's deletion takes the tombstone with it.
        step("DELETE n FROM k.t WHERE p = 3");
        step("DELETE FROM k.t WHERE p = 3");
        step("UPDATE k.t SET n = n + 4 WHERE p = 3");
        assert_eq!(value(&node, "SELECT n FROM k.t WHERE p = 3"), Some(4));
        step("DELETE n FROM k.w WHERE p = 3 AND c = 3");
        step("DELETE FROM k.w WHERE p = 3 AND c = 3");
        step("UPDATE k.w SET n = n + 4 WHERE p = 3 AND c = 3");
        assert_eq!(value(&node, "SELECT n FROM k.w WHERE p = 3 AND c = 3"), Some(4));
    }
}

/// An update of more counters than one step of a read passes, part of them in files, beside others of the same partition.
#[test]
fn an_update_of_many_counters_of_a_partition_counts_each_once() {
    const ROWS: i32 = 2_000;
    let node = TestNode::with_shards(2);
    make_tables(&node);
    let keys: Vec<String> = (0..ROWS).map(|c| c.to_string()).collect();
    let many = format!(
        "UPDATE k.w SET n = n + 1 WHERE p = 1 AND c IN ({})",
        keys.join(", ")
    );
    node.run(&many);
    flush(&node);
    let mut pending = Vec::new();
    for round in 0..6 {
        pending.push(node.submit(&many, &on_shard(round % 2)));
        for c in [0, ROWS / 2, ROWS - 1] {
            let one = format!("UPDATE k.w SET n = n + 10 WHERE p = 1 AND c = {c}");
            pending.push(node.submit(&one, &on_shard(round % 2)));
        }
    }
    for answer in pending {
        assert_eq!(answer.wait(), Some(Answer::Void));
    }
    let rows = node.rows("SELECT c, n FROM k.w WHERE p = 1");
    assert_eq!(rows.len(), ROWS as usize);
    for (c, row) in (0..).zip(&rows) {
        let singles = i64::from([0, ROWS / 2, ROWS - 1].contains(&c)) * 60;
        assert_eq!(long(&row[1]), Some(7 + singles), "c = {c}");
    }
}

/// The first to come brings the pages; the others count on what it has written.
#[test]
fn increments_of_counters_that_are_not_in_memory_add_up() {
    const KEYS: i32 = 40;
    const ROUNDS: u16 = 12;
    let disk = Arc::new(SimulatedDisk::new(3));
    let mut node = TestNode::start(options_on(&disk, 2)).unwrap();
    make_tables(&node);
    for p in 0..KEYS {
        node.run(&format!("UPDATE k.t SET n = n + {p} WHERE p = {p}"));
    }
    for life in 1..3 {
        node.restart().unwrap();
        let mut pending = Vec::new();
        for p in 0..KEYS {
            for round in 0..ROUNDS {
                let update = format!("UPDATE k.t SET n = n + 1 WHERE p = {p}");
                pending.push(node.submit(&update, &on_shard(round % 2)));
            }
        }
        for answer in pending {
            assert_eq!(answer.wait(), Some(Answer::Void));
        }
        let expected: Vec<i64> = (0..KEYS)
            .map(|p| i64::from(p) + life * i64::from(ROUNDS))
            .collect();
        assert_eq!(totals(&node, KEYS), expected);
    }
}

#[test]
fn batch_messages_of_counters_are_as_batches_in_cql() {
    let node = TestNode::with_shards(2);
    make_tables(&node);
    node.run("CREATE TABLE k.plain (p int PRIMARY KEY, v int)");
    let text = |text: &str| BatchMember::Text(text.to_owned(), Vec::new());
    let send = |kind, members: &[&str]| {
        let members = members.iter().map(|member| text(member)).collect();
        let sent = node.submit_batch(kind, members, &Execution::default());
        sent.wait().unwrap()
    };
    let (one, two) = (
        "UPDATE k.t SET n = n + 1 WHERE p = 1",
        "UPDATE k.t SET n = n + 2 WHERE p = 2",
    );
    let plain = "INSERT INTO k.plain (p, v) VALUES (1, 1)";
    assert_eq!(send(BatchKind::Counter, &[one, two, one]), Answer::Void);
    assert_eq!(send(BatchKind::Unlogged, &[two, two]), Answer::Void);
    assert_eq!(totals(&node, 3), [0, 2, 6]);
    for (kind, members, text) in [
        (
            BatchKind::Logged,
            &[one][..],
            "Cannot include a counter statement in a logged batch",
        ),
        (
            BatchKind::Counter,
            &[one, plain],
            "Cannot include non-counter statement in a counter batch",
        ),
        (
            BatchKind::Unlogged,
            &[plain, one],
            "Counter and non-counter mutations cannot exist in the same batch",
        ),
    ] {
        let (code, message) = error_of(send(kind, members));
        assert_eq!((code, message.as_str()), (ErrorCode::Invalid, text));
    }
    assert_eq!(totals(&node, 3), [0, 2, 6]);
}

/// In memory there is no room without a flush: an increment is refused whole.
#[test]
fn an_increment_that_finds_no_memory_is_refused() {
    let mut options = options(2, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.in_memory = true;
    options.memory_bytes = 2 << 20;
    options.write_request_timeout = Duration::from_millis(50);
    options.commitlog_sync = CommitlogSync::Group;
    let node = TestNode::start(options).unwrap();
    make_tables(&node);
    let refused = (0..100_000).find_map(|c| {
        let update = format!("UPDATE k.w SET n = n + 1 WHERE p = 1 AND c = {c}");
        match node.execute(&update) {
            Answer::Void => None,
            refused => Some((c, refused)),
        }
    });
    let (c, refused) = refused.unwrap();
    let (code, message) = error_of(refused);
    assert!(
        matches!(code, ErrorCode::Overloaded | ErrorCode::WriteTimeout),
        "{message}"
    );
    assert_eq!(
        value(&node, &format!("SELECT n FROM k.w WHERE p = 1 AND c = {c}")),
        None
    );
    assert_eq!(value(&node, "SELECT n FROM k.w WHERE p = 1 AND c = 0"), Some(1));
}
