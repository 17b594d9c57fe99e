//! `BEGIN TRANSACTION`: what is refused, what is answered, and that nobody sees a part of one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helenus_test_node::{Answer, Column, Execution, Pending, TestNode, options};
use helenus_vfs::{MemoryDisk, SystemClock};

const SHARDS: u16 = 3;

/// Longer than all that a test has sent at once takes on a slow machine: the last of hundreds waits for all before it.
const TIMEOUT: Duration = Duration::from_secs(120);

fn node() -> TestNode {
    let mut options = options(SHARDS, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.read_request_timeout = TIMEOUT;
    options.range_request_timeout = TIMEOUT;
    options.write_request_timeout = TIMEOUT;
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TYPE k.address (street text, number int)");
    node.run(
        "CREATE TABLE k.t (p int, c int, v int, w bigint, s int static, m map<text, int>, l list<int>, \
         u frozen<address>, PRIMARY KEY (p, c))",
    );
    node.run("CREATE TABLE k.accounts (id int PRIMARY KEY, balance int, log text)");
    node.run("CREATE TABLE k.counts (id int PRIMARY KEY, n counter)");
    node
}

fn transaction(body: &str) -> String {
    format!("BEGIN TRANSACTION {body} COMMIT TRANSACTION")
}

fn refusal(node: &TestNode, body: &str) -> String {
    match node.execute(&transaction(body)) {
        Answer::Error { message, .. } => message,
        other => panic!("{body}: {other:?}"),
    }
}

fn int(value: i32) -> Option<Vec<u8>> {
    Some(value.to_be_bytes().to_vec())
}

fn on_shard(shard: usize) -> Execution {
    Execution {
        shard: shard as u16 % SHARDS,
        ..Execution::default()
    }
}

fn number(value: &Option<Vec<u8>>) -> i32 {
    i32::from_be_bytes(value.as_deref().unwrap().try_into().unwrap())
}

#[test]
fn refusals_have_cassandras_words() {
    let node = node();
    let range = "Range queries are not allowed for reads within a transaction; ";
    let many = "SELECT must specify either all primary key elements or all partition key elements and LIMIT 1. In both cases \
                partition key elements must be always specified with equality operators; ";
    let cases = [
        ("", "Transaction contains no reads or writes".to_owned()),
        (
            "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1);",
            "Transaction contains no reads or writes".to_owned(),
        ),
        (
            "LET a = (SELECT * FROM k.accounts WHERE id = 1); LET a = (SELECT * FROM k.accounts WHERE id = 2); SELECT a.id;",
            "The name 'a' has already been used by a LET assignment.".to_owned(),
        ),
        (
            "LET a = (SELECT * FROM k.accounts WHERE id = 1); SELECT a;",
            "SELECT references must specify a column.".to_owned(),
        ),
        ("SELECT b.id;", "Cannot resolve reference to tuple 'b'.".to_owned()),
        (
            "LET a = (SELECT balance FROM k.accounts WHERE id = 1); SELECT a.log;",
            "Column 'log' does not exist in tuple 'a'.".to_owned(),
        ),
        (
            "INSERT INTO k.accounts (id) VALUES (1) IF NOT EXISTS;",
            "Updates within transactions may not specify their own conditions; INSERT statement at [1:19]".to_owned(),
        ),
        (
            "\n UPDATE k.accounts USING TIMESTAMP 5 SET balance = 1 WHERE id = 1;",
            "Updates within transactions may not specify custom timestamps; UPDATE statement at [2:2]".to_owned(),
        ),
        (
            "UPDATE k.accounts USING TTL 5 SET balance = 1 WHERE id = 1;",
            "Updates within transactions may not specify custom ttls; UPDATE statement at [1:19]".to_owned(),
        ),
        (
            "UPDATE k.counts SET n = n + 1 WHERE id = 1;",
            "Counter columns cannot be accessed within a transaction; UPDATE statement at [1:19]".to_owned(),
        ),
        (
            "SELECT * FROM k.counts WHERE id = 1;",
            "Counter columns cannot be accessed within a transaction; SELECT statement at [1:19]".to_owned(),
        ),
        ("SELECT * FROM k.t;", format!("{range}returning select at [1:19]")),
        ("SELECT * FROM k.t WHERE p = 1;", format!("{many}returning select at [1:19]")),
        (
            "SELECT * FROM k.t WHERE p IN (1, 2) LIMIT 1;",
            format!("{many}returning select at [1:19]"),
        ),
        (
            "LET a = (SELECT * FROM k.t WHERE p = 1 LIMIT 2); SELECT a.v;",
            format!("{many}LET assignment a at [1:28]"),
        ),
        (
            "LET a = (SELECT * FROM k.accounts WHERE id = 1); INSERT INTO k.accounts (id) VALUES (a.balance);",
            "Cannot set partition key column 'id' to a LET reference value".to_owned(),
        ),
        (
            "LET a = (SELECT * FROM k.accounts WHERE id = 1); UPDATE k.accounts SET balance = a.log WHERE id = 1;",
            "Invalid reference type text (log) for \"balance\" of type int".to_owned(),
        ),
        (
            "LET a = (SELECT * FROM k.accounts WHERE id = 1); IF a.balance = null THEN DELETE FROM k.accounts WHERE id = 1; END IF",
            "Invalid comparison with null for operator; use IS NULL or IS NOT NULL instead".to_owned(),
        ),
        (
            "LET a = (SELECT * FROM k.accounts WHERE id = 1); IF a = 5 THEN DELETE FROM k.accounts WHERE id = 1; END IF",
            "Row reference (a) can only be used with IS NULL/IS NOT NULL conditions".to_owned(),
        ),
        (
            "SELECT * FROM system.local WHERE key = 'local';",
            "Accord transactions are disabled on table (See transactional_mode in table options); SELECT statement at [1:19]"
                .to_owned(),
        ),
    ];
    for (body, wanted) in cases {
        assert_eq!(refusal(&node, body), wanted, "{body}");
    }
    let statements = "INSERT INTO k.accounts (id) VALUES (1);".repeat(10_000);
    assert_eq!(
        refusal(&node, &statements),
        "A transaction has at most 500 statements, LETs and conditions, this one has 10000"
    );
    assert_eq!(node.rows("SELECT * FROM k.accounts").len(), 0);
}

/// One transaction by itself, on one shard and on several, sent to any.
#[test]
fn reads_decides_and_writes() {
    let node = node();
    node.run("INSERT INTO k.t (p, c, v, w, s, m, l, u) VALUES (1, 1, 5, 7, 9, {'a': 1}, [4, 5], {street: 'x', number: 3})");
    for shard in 0..usize::from(SHARDS) {
        let body = "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1); \
                    SELECT a.v, a.m['a'], a.m['b'], a.l[1], a.u.number, a.p, a.s;";
        let Answer::Rows(rows) = node.execute_with(&transaction(body), &on_shard(shard)) else {
            panic!("{body}");
        };
        let names: Vec<&str> = rows.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "a.v",
                "a.m['a']",
                "a.m['b']",
                "a.l[1]",
                "a.u.number",
                "a.p",
                "a.s"
            ]
        );
        assert_eq!(
            rows.rows,
            [vec![int(5), int(1), None, int(5), int(3), int(1), int(9)]]
        );
    }
    // All conditions have to hold.
    let body = |first: i32, second: i32| {
        format!(
            "LET a = (SELECT * FROM k.t WHERE p = 1 LIMIT 1); LET b = (SELECT v FROM k.t WHERE p = 2 AND c = 2); \
             IF a.v = {first} AND {second} < a.w AND b IS NULL AND b.v IS NULL AND a.m['a'] IS NOT NULL THEN \
             UPDATE k.t SET v = a.v + 1, w -= 2, m['z'] = a.v, l += [6] WHERE p = 1 AND c = 1; \
             INSERT INTO k.t (p, c, v) VALUES (2, 2, a.v); DELETE l[0] FROM k.t WHERE p = 1 AND c = 1; END IF"
        )
    };
    for (first, second) in [(6, 1), (5, 7)] {
        assert!(matches!(
            node.execute(&transaction(&body(first, second))),
            Answer::Void
        ));
    }
    assert_eq!(node.rows("SELECT v FROM k.t WHERE p = 2"), Vec::<Vec<_>>::new());
    assert!(matches!(node.execute(&transaction(&body(5, 6))), Answer::Void));
    assert_eq!(node.rows("SELECT v FROM k.t WHERE p = 2"), [vec![int(5)]]);
    let rows = node.rows("SELECT v, w, m['z'], l FROM k.t WHERE p = 1");
    let list: Vec<u8> = [2, 4, 5, 4, 6]
        .iter()
        .flat_map(|n: &i32| n.to_be_bytes())
        .collect();
    assert_eq!(
        rows,
        [vec![
            int(6),
            Some(5_i64.to_be_bytes().to_vec()),
            int(5),
            Some(list)
        ]]
    );
    // The answer shows what was there before.
    let body = "LET a = (SELECT * FROM k.t WHERE p = 2 AND c = 2); SELECT v FROM k.t WHERE p = 2 AND c = 2; \
                UPDATE k.t SET v = a.v * 2 + a.p WHERE p = 2 AND c = 2;";
    assert_eq!(node.rows(&transaction(body)), [vec![int(5)]]);
    assert_eq!(node.rows("SELECT v FROM k.t WHERE p = 2"), [vec![int(12)]]);
}

#[test]
fn values_are_bound_and_the_answer_has_its_metadata() {
    let node = node();
    node.run("INSERT INTO k.accounts (id, balance) VALUES (1, 10)");
    let text = transaction(
        "LET a = (SELECT balance FROM k.accounts WHERE id = ?); SELECT a.balance; IF a.balance >= :least THEN \
         UPDATE k.accounts SET balance = a.balance + (int) :added WHERE id = ?; END IF",
    );
    let Answer::Prepared { id, markers, columns } = node.prepare(&text) else {
        panic!("{:?}", node.prepare(&text));
    };
    let names = |columns: &[Column]| {
        columns
            .iter()
            .map(|column| column.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&markers), ["id", "least", "added", "id"]);
    assert_eq!(names(&columns), ["a.balance"]);
    let execution = |least: Option<Vec<u8>>| Execution {
        values: vec![int(1), least, int(7), int(1)],
        ..Execution::default()
    };
    for (least, after) in [(1_000, 10), (1, 17)] {
        let Answer::Rows(rows) = node.execute_prepared(&id, &execution(int(least))) else {
            panic!("no rows");
        };
        assert_eq!(rows.rows, [[int(10)]]);
        let balance = node.rows("SELECT balance FROM k.accounts WHERE id = 1");
        assert_eq!(balance, [[int(after)]]);
    }
    let refused = node.execute_prepared(&id, &execution(None));
    let Answer::Error { message, .. } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(
        message,
        "Invalid comparison with null for operator; use IS NULL or IS NOT NULL instead"
    );
}

fn transfer(from: i32, to: i32, amount: i32) -> String {
    transaction(&format!(
        "LET a = (SELECT balance FROM k.accounts WHERE id = {from}); SELECT a.balance; IF a.balance >= {amount} THEN \
         UPDATE k.accounts SET balance -= {amount} WHERE id = {from}; \
         UPDATE k.accounts SET balance += {amount} WHERE id = {to}; END IF"
    ))
}

/// Money moves between accounts on all shards, and through crashes; conditional and plain writers of other columns are about,
/// and atomic batches.
#[test]
fn the_sum_of_all_accounts_is_seen_to_be_constant() {
    const ACCOUNTS: i32 = 6;
    const START: i32 = 100;
    const ROUNDS: usize = 1_500;
    let mut node = node();
    for id in 0..ACCOUNTS {
        node.run(&format!(
            "INSERT INTO k.accounts (id, balance) VALUES ({id}, {START})"
        ));
    }
    let lets: Vec<String> = (0..ACCOUNTS)
        .map(|id| format!("LET a{id} = (SELECT balance FROM k.accounts WHERE id = {id});"))
        .collect();
    let balances: Vec<String> = (0..ACCOUNTS).map(|id| format!("a{id}.balance")).collect();
    let audit = transaction(&format!("{} SELECT {};", lets.join(" "), balances.join(", ")));
    let mut audits = 0;
    for crash in 0..3 {
        let mut pending: VecDeque<(bool, Pending)> = VecDeque::new();
        for round in 0..ROUNDS {
            let step = round as i32 * 7 + crash;
            let (from, to) = (step % ACCOUNTS, (step / 3 + 1) % ACCOUNTS);
            let text = match round % 7 {
                0 => audit.clone(),
                1 => format!("UPDATE k.accounts SET log = 'x' WHERE id = {from}"),
                2 => format!(
                    "BEGIN BATCH UPDATE k.accounts SET log = 'b' WHERE id = {from}; \
                     UPDATE k.accounts SET log = 'b' WHERE id = {to}; APPLY BATCH"
                ),
                3 => format!("UPDATE k.accounts SET balance += 0 WHERE id = {from} IF balance >= 0"),
                _ if from == to => audit.clone(),
                _ => transfer(from, to, 1 + step % 5),
            };
            pending.push_back((text == audit, node.submit(&text, &on_shard(round))));
            while pending.len() > 40 || (round + 1 == ROUNDS && !pending.is_empty()) {
                let (is_audit, answer) = pending.pop_front().unwrap();
                let answer = answer.wait();
                match (&answer, is_audit) {
                    (Some(Answer::Rows(rows)), true) => {
                        let sum: i32 = rows.rows[0].iter().map(number).sum();
                        assert_eq!(sum, ACCOUNTS * START, "{rows:?}");
                        audits += 1;
                    }
                    (Some(Answer::Rows(_) | Answer::Void), _) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        node.crash();
        node.start_again().unwrap();
        let rows = node.rows("SELECT balance FROM k.accounts");
        let sum: i32 = rows.iter().map(|row| number(&row[0])).sum();
        assert_eq!(sum, ACCOUNTS * START, "after crash {crash}");
    }
    assert!(audits > 500, "{audits}");
}

/// Symptom: a transaction that reads 32 accounts was refused after its two seconds, again and again, while others moved money between two
/// of them: it waited for a moment at which nobody had any of a shard's accounts.
#[test]
fn one_for_many_partitions_is_not_overtaken_without_end() {
    const ACCOUNTS: i32 = 32;
    const UNDER_WAY: usize = 100;
    const AUDITS: usize = 5;
    let node = node();
    for id in 0..ACCOUNTS {
        node.run(&format!(
            "INSERT INTO k.accounts (id, balance) VALUES ({id}, 1000)"
        ));
    }
    let lets: Vec<String> = (0..ACCOUNTS)
        .map(|id| format!("LET a{id} = (SELECT balance FROM k.accounts WHERE id = {id});"))
        .collect();
    let audit = transaction(&format!("{} SELECT a0.balance;", lets.join(" ")));
    let mut pending: VecDeque<Pending> = VecDeque::new();
    let mut transfers = 0;
    for round in 0..AUDITS {
        let audited = node.submit(&audit, &on_shard(round));
        let is_over = Arc::new(AtomicBool::new(false));
        let waiting = {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                let answer = audited.wait();
                is_over.store(true, Ordering::SeqCst);
                answer
            })
        };
        while !is_over.load(Ordering::SeqCst) {
            while pending.len() < UNDER_WAY {
                transfers += 1;
                let (from, to) = (transfers * 7 % ACCOUNTS, (transfers * 5 + 1) % ACCOUNTS);
                pending.push_back(node.submit(&transfer(from, to, 1), &on_shard(transfers as usize)));
            }
            pending.pop_front().unwrap().wait();
        }
        assert!(matches!(waiting.join().unwrap(), Some(Answer::Rows(_))));
    }
    // Each of those that were there before, and a few of one shard's accounts that have not been waited for yet.
    let transfers_max = AUDITS * UNDER_WAY * 3 / 2;
    assert!(
        (transfers as usize) < transfers_max,
        "{transfers} have overtaken {AUDITS}"
    );
}

/// A blind batch that came between a transaction's read and its write was lost, or the transaction was.
#[test]
fn atomic_batches_and_transactions_do_not_come_between_each_other() {
    const ROUNDS: usize = 600;
    let node = node();
    // Both columns of both rows are always written together, by whoever writes.
    node.run("INSERT INTO k.accounts (id, balance, log) VALUES (0, 0, '0')");
    node.run("INSERT INTO k.accounts (id, balance, log) VALUES (1, 0, '0')");
    let copy = transaction(
        "LET a = (SELECT * FROM k.accounts WHERE id = 0); LET b = (SELECT * FROM k.accounts WHERE id = 1); \
         SELECT a.balance, b.balance; \
         UPDATE k.accounts SET balance = a.balance + 1 WHERE id = 0; UPDATE k.accounts SET balance = a.balance + 1 WHERE id = 1;",
    );
    let mut pending = VecDeque::new();
    for round in 0..ROUNDS {
        let text = match round % 3 {
            0 => format!(
                "BEGIN BATCH UPDATE k.accounts SET balance = {round} WHERE id = 0; \
                 UPDATE k.accounts SET balance = {round} WHERE id = 1; APPLY BATCH"
            ),
            _ => copy.clone(),
        };
        pending.push_back(node.submit(&text, &on_shard(round)));
    }
    for answer in pending {
        match answer.wait() {
            Some(Answer::Rows(rows)) => assert_eq!(rows.rows[0][0], rows.rows[0][1]),
            Some(Answer::Void) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn views_follow_what_transactions_write() {
    let node = node();
    node.run(
        "CREATE MATERIALIZED VIEW k.by_balance AS SELECT * FROM k.accounts WHERE balance IS NOT NULL AND id IS NOT NULL \
         PRIMARY KEY (balance, id)",
    );
    for id in 0..10 {
        node.run(&format!(
            "INSERT INTO k.accounts (id, balance) VALUES ({id}, 100)"
        ));
    }
    for round in 0..30 {
        node.execute(&transfer(round % 10, (round * 3 + 1) % 10, 7));
    }
    let mut base = node.rows("SELECT id, balance FROM k.accounts");
    let mut view = node.rows("SELECT id, balance FROM k.by_balance");
    base.sort();
    view.sort();
    assert_eq!(base, view);
    assert_eq!(base.iter().map(|row| number(&row[1])).sum::<i32>(), 1_000);
    let refused = refusal(&node, "SELECT * FROM k.by_balance WHERE balance = 1 AND id = 1;");
    assert!(
        refused.starts_with("Accord transactions are disabled on table"),
        "{refused}"
    );
}
