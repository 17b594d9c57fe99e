//! Decisions on rows that are stored, by many clients at once.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use helenus_protocol::Consistency;
use helenus_protocol::request::BatchKind;
use helenus_test_node::{Answer, BatchMember, Execution, HookedDisk, Pending, TestNode, options};
use helenus_vfs::{MemoryDisk, Operation, SystemClock};

const SHARDS: u16 = 2;

fn node() -> TestNode {
    let node = TestNode::with_shards(SHARDS);
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node
}

fn on_shard(shard: usize) -> Execution {
    Execution {
        shard: shard as u16 % SHARDS,
        ..Execution::default()
    }
}

/// Returns whether a conditional statement was applied, and the values that stand behind that.
fn decided(answer: Option<Answer>) -> (bool, Vec<Option<Vec<u8>>>) {
    let Some(Answer::Rows(rows)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(rows.columns[0].name, "[applied]");
    let mut row = rows.rows.into_iter().next().unwrap();
    let others = row.split_off(1);
    (row[0] == Some(vec![1]), others)
}

fn int(value: &Option<Vec<u8>>) -> i32 {
    i32::from_be_bytes(value.as_deref().unwrap().try_into().unwrap())
}

/// Two deletions of the first element that came together took the same one.
#[test]
fn each_deletion_by_position_takes_another_element() {
    const ELEMENTS: usize = 200;
    let node = node();
    node.run("CREATE TABLE k.lists (p int PRIMARY KEY, l list<int>)");
    for p in 0..4 {
        node.run(&format!(
            "UPDATE k.lists SET l = {:?} WHERE p = {p}",
            vec![7; ELEMENTS]
        ));
    }
    let pending: Vec<_> = (0..4 * ELEMENTS)
        .map(|index| {
            let execution = Execution {
                shard: (index / 4) as u16 % SHARDS,
                ..Execution::default()
            };
            node.submit(
                &format!("DELETE l[0] FROM k.lists WHERE p = {}", index % 4),
                &execution,
            )
        })
        .collect();
    for pending in pending {
        assert!(matches!(pending.wait(), Some(Answer::Void)));
    }
    for p in 0..4 {
        let rows = node.rows(&format!("SELECT l FROM k.lists WHERE p = {p}"));
        assert!(rows.iter().all(|row| row == &vec![None]), "{rows:?}");
    }
}

#[test]
fn of_many_insertions_of_one_row_one_is_applied() {
    const CLIENTS: usize = 300;
    let mut node = node();
    node.run("CREATE TABLE k.names (name text PRIMARY KEY, owner int)");
    let names = ["ada", "grace", "edsger"];
    for name in names {
        let pending: Vec<Pending> = (0..CLIENTS)
            .map(|client| {
                let text =
                    format!("INSERT INTO k.names (name, owner) VALUES ('{name}', {client}) IF NOT EXISTS");
                node.submit(&text, &on_shard(client))
            })
            .collect();
        let answers: Vec<_> = pending
            .into_iter()
            .map(|pending| decided(pending.wait()))
            .collect();
        let winners: Vec<usize> = (0..CLIENTS).filter(|client| answers[*client].0).collect();
        assert_eq!(winners.len(), 1, "{name}");
        // Everybody else is told who it was.
        let losers = answers.iter().filter(|(is_applied, _)| !is_applied);
        for (_, row) in losers {
            assert_eq!(row[0].as_deref(), Some(name.as_bytes()));
            assert_eq!(int(&row[1]) as usize, winners[0]);
        }
        node.restart().unwrap();
        let rows = node.rows(&format!("SELECT owner FROM k.names WHERE name = '{name}'"));
        assert_eq!(int(&rows[0][0]) as usize, winners[0]);
    }
}

/// Counts up by comparing and setting, each client with what it was told last, and through a crash.
#[test]
fn increments_by_comparing_add_up_on_a_hot_row() {
    const CLIENTS: usize = 64;
    const INCREMENTS: i32 = 500;
    let mut node = node();
    node.run("CREATE TABLE k.registers (p int PRIMARY KEY, n int)");
    node.run("INSERT INTO k.registers (p, n) VALUES (1, 0) IF NOT EXISTS");
    let step = |node: &TestNode, client: usize, seen: i32| {
        let text = format!(
            "UPDATE k.registers SET n = {} WHERE p = 1 IF n = {seen}",
            seen + 1
        );
        (client, seen, node.submit(&text, &on_shard(client)))
    };
    let mut under_way: VecDeque<_> = (0..CLIENTS).map(|client| step(&node, client, 0)).collect();
    let mut applied = 0;
    while let Some((client, seen, pending)) = under_way.pop_front() {
        let (is_applied, row) = decided(pending.wait());
        let now = if is_applied { seen + 1 } else { int(&row[0]) };
        applied += i32::from(is_applied);
        if applied + (under_way.len() as i32) < INCREMENTS {
            under_way.push_back(step(&node, client, now));
        }
    }
    node.crash();
    node.start_again().unwrap();
    let rows = node.rows("SELECT n FROM k.registers WHERE p = 1");
    assert_eq!(int(&rows[0][0]), applied);
    assert!(applied > 0);
}

/// Rows in SSTables, of which no page is in memory.
#[test]
fn a_decision_on_rows_on_the_disk_is_the_same() {
    let mut node = node();
    node.run("CREATE TABLE k.cold (p int, c int, s int STATIC, v int, w text, PRIMARY KEY (p, c))");
    for p in 0..50 {
        for c in 0..10 {
            node.run(&format!(
                "INSERT INTO k.cold (p, c, v) VALUES ({p}, {c}, {})",
                p + c
            ));
        }
        node.run(&format!("UPDATE k.cold SET s = {p} WHERE p = {p}"));
    }
    node.restart().unwrap();
    for shard in 0..SHARDS {
        node.on_shard(shard, |shard| shard.clear_caches());
    }
    let pending: Vec<_> = (0..50)
        .map(|p| {
            let text = format!(
                "BEGIN BATCH UPDATE k.cold SET w = 'x' WHERE p = {p} AND c = 3 IF v = {}; UPDATE k.cold SET s = -1 WHERE p = \
                 {p} IF s = {p}; DELETE FROM k.cold WHERE p = {p} AND c > 7; APPLY BATCH",
                p + 3
            );
            node.submit(&text, &on_shard(p))
        })
        .collect();
    for pending in pending {
        assert!(decided(pending.wait()).0);
    }
    for p in 0..50 {
        let update = format!("UPDATE k.cold SET v = 0 WHERE p = {p} AND c = 3 IF w = 'y' AND s = 7");
        let (is_applied, row) = decided(Some(node.execute(&update)));
        assert!(!is_applied);
        assert_eq!((row[0].as_deref(), int(&row[1])), (Some(b"x".as_slice()), -1));
        assert_eq!(node.rows(&format!("SELECT c FROM k.cold WHERE p = {p}")).len(), 8);
    }
}

/// A batch of prepared statements, each with its own values; the columns of the answer change from one to the next.
#[test]
fn a_batch_message_is_decided_as_a_whole() {
    let node = node();
    node.run("CREATE TABLE k.b (p int, c int, v int, PRIMARY KEY (p, c))");
    let prepared = |text: &str| match node.prepare(text) {
        Answer::Prepared { id, columns, .. } => {
            assert!(columns.is_empty());
            id
        }
        other => panic!("{other:?}"),
    };
    let insert = prepared("INSERT INTO k.b (p, c, v) VALUES (?, ?, ?) IF NOT EXISTS");
    let update = prepared("UPDATE k.b SET v = ? WHERE p = ? AND c = ? IF v = ?");
    let values = |values: &[i32]| {
        values
            .iter()
            .map(|value| Some(value.to_be_bytes().to_vec()))
            .collect()
    };
    for p in 0..10 {
        let batch = |first: &[i32], second: &[i32]| {
            let members = vec![
                BatchMember::Prepared(insert.clone(), values(first)),
                BatchMember::Prepared(update.clone(), values(second)),
            ];
            decided(
                node.submit_batch(BatchKind::Logged, members, &on_shard(p as usize))
                    .wait(),
            )
        };
        node.run(&format!("INSERT INTO k.b (p, c, v) VALUES ({p}, 2, 5)"));
        assert!(batch(&[p, 1, 10], &[6, p, 2, 5]).0);
        let (is_applied, row) = batch(&[p, 1, 11], &[7, p, 2, 6]);
        assert!(!is_applied);
        assert_eq!(row.iter().map(int).collect::<Vec<_>>(), [p, 1, 10]);
        let rows = node.rows(&format!("SELECT v FROM k.b WHERE p = {p}"));
        assert_eq!(rows.iter().map(|row| int(&row[0])).collect::<Vec<_>>(), [10, 6]);
    }
}

/// A client's write in the future hid what was answered as applied, as in Cassandra.
#[test]
fn what_was_applied_is_there() {
    let node = node();
    node.run("CREATE TABLE k.f (p int PRIMARY KEY, v int)");
    let next_century_us = "4102444800000000";
    node.run("INSERT INTO k.f (p, v) VALUES (1, 1)");
    let soon = node.rows("SELECT writetime(v) FROM k.f WHERE p = 1")[0][0]
        .clone()
        .unwrap();
    let soon = i64::from_be_bytes(soon.try_into().unwrap()) + 3_600_000_000;
    node.run(&format!(
        "INSERT INTO k.f (p, v) VALUES (1, 2) USING TIMESTAMP {soon}"
    ));
    assert!(decided(Some(node.execute("UPDATE k.f SET v = 3 WHERE p = 1 IF v = 2"))).0);
    assert_eq!(int(&node.rows("SELECT v FROM k.f WHERE p = 1")[0][0]), 3);
    assert!(decided(Some(node.execute("DELETE FROM k.f WHERE p = 1 IF v = 3"))).0);
    assert!(node.rows("SELECT v FROM k.f WHERE p = 1").is_empty());
    // One row from the next century must not drag others after it.
    node.run(&format!(
        "INSERT INTO k.f (p, v) VALUES (2, 2) USING TIMESTAMP {next_century_us}"
    ));
    assert!(matches!(
        node.execute("UPDATE k.f SET v = 3 WHERE p = 2 IF v = 2"),
        Answer::Error { .. }
    ));
    assert_eq!(int(&node.rows("SELECT v FROM k.f WHERE p = 2")[0][0]), 2);
}

/// Gate that lets syncs through, once it is open.
#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let shut = self.is_shut.lock().unwrap();
        let _open = self.opened.wait_while(shut, |shut| *shut).unwrap();
    }

    fn shut(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.opened.notify_all();
    }
}

/// A read that shows what one of several shards has not made durable yet was answered: a crash could take it back.
#[test]
fn what_is_read_of_several_shards_to_decide_on_is_durable_on_each() {
    const ROWS: i32 = 12;
    let lets: Vec<String> = (0..ROWS)
        .map(|p| format!("LET a{p} = (SELECT v FROM k.t WHERE p = {p});"))
        .collect();
    let transaction = format!(
        "BEGIN TRANSACTION {} SELECT a0.v; COMMIT TRANSACTION",
        lets.join(" ")
    );
    let statements = [
        ("SELECT v FROM k.t", Consistency::Serial),
        (&*transaction, Consistency::One),
    ];
    for slow in 0..SHARDS {
        let gate = Arc::new(Gate::default());
        let (held, folder) = (gate.clone(), OsString::from(format!("shard-{slow:05}")));
        let disk = HookedDisk::new(Arc::new(MemoryDisk::new()), move |operation, path| {
            if operation == Operation::Sync && path.components().any(|part| part.as_os_str() == folder) {
                held.pass();
            }
            Ok(())
        });
        let node = TestNode::start(options(SHARDS, Arc::new(disk), Arc::new(SystemClock::new()))).unwrap();
        node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        node.run("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
        let stored = || node.rows("SELECT v FROM k.t");
        let mut value = 0;
        for (statement, consistency) in statements {
            for shard in 0..SHARDS {
                gate.shut(true);
                value += 1;
                let insert = |p| format!("INSERT INTO k.t (p, v) VALUES ({p}, {value})");
                let written: Vec<Pending> = (0..ROWS)
                    .map(|p| node.submit(&insert(p), &Execution::default()))
                    .collect();
                let is_new = |row: &Vec<_>| int(&row[0]) == value;
                while stored().iter().filter(|row| is_new(row)).count() < ROWS as usize {}
                let execution = Execution {
                    consistency: Some(consistency),
                    shard,
                    ..Execution::default()
                };
                let read = node.submit(statement, &execution);
                let is_opened = AtomicBool::new(false);
                thread::scope(|scope| {
                    scope.spawn(|| {
                        let answer = read.wait();
                        assert!(matches!(answer, Some(Answer::Rows(_))), "{answer:?}");
                        let is_opened = is_opened.load(Ordering::SeqCst);
                        assert!(is_opened, "{statement} on {shard}, while {slow} is held up");
                    });
                    // Who does not wait has answered meanwhile.
                    for _ in 0..50 {
                        stored();
                    }
                    is_opened.store(true, Ordering::SeqCst);
                    gate.shut(false);
                });
                for answer in written {
                    assert_eq!(answer.wait(), Some(Answer::Void));
                }
            }
        }
    }
}

/// A key made by `uuid()` was another one each time that it was computed: the row was written under the token of an earlier one, where
/// nobody finds it by its key, and a view over it was built for ever.
#[test]
fn rows_whose_keys_are_made_by_functions_are_found_by_their_keys() {
    let node = TestNode::with_shards(3);
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.made (p uuid, c timeuuid, v int, PRIMARY KEY (p, c))");
    let insert = "INSERT INTO k.made (p, c, v) VALUES (uuid(), now(), 1)";
    let conditional = format!("{insert} IF NOT EXISTS");
    let update = "UPDATE k.made SET v = 1 WHERE p = uuid() AND c = now() IF v = null";
    let batch = BatchMember::Text(conditional.clone(), Vec::new());
    const ROUNDS: usize = 20;
    for round in 0..ROUNDS {
        for text in [insert, &*conditional, update] {
            let execution = on_shard(round);
            assert!(!matches!(
                node.execute_with(text, &execution),
                Answer::Error { .. }
            ));
        }
        node.run(&format!("BEGIN TRANSACTION {insert}; COMMIT TRANSACTION"));
        node.execute(&format!("BEGIN BATCH {conditional}; APPLY BATCH"));
        let answer = node.submit_batch(BatchKind::Unlogged, vec![batch.clone()], &Execution::default());
        assert!(decided(answer.wait()).0);
    }
    let rows = node.rows("SELECT p, c FROM k.made");
    assert_eq!(rows.len(), 6 * ROUNDS);
    let Answer::Prepared { id, .. } = node.prepare("SELECT v FROM k.made WHERE p = ? AND c = ?") else {
        panic!("not prepared");
    };
    for values in rows {
        let execution = Execution {
            values,
            ..Execution::default()
        };
        let Answer::Rows(found) = node.execute_prepared(&id, &execution) else {
            panic!("{execution:?}");
        };
        assert_eq!(found.rows, [[Some(vec![0, 0, 0, 1])]], "{execution:?}");
    }
    node.run(
        "CREATE MATERIALIZED VIEW k.by_v AS SELECT * FROM k.made WHERE v IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL \
         PRIMARY KEY (v, p, c)",
    );
    while node.rows("SELECT p FROM k.by_v WHERE v = 1").len() < 6 * ROUNDS {
        thread::yield_now();
    }
}
