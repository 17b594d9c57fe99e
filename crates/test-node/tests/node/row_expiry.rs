//! Tables with a TTL column: a row is gone once the time has come that the column says, wherever it is stored and however it is
//! read; what is written later is a new row, and what nobody reads any more is deleted behind that.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use helenus_protocol::ErrorCode;
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{Answer, Execution, HookedDisk, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{Disk, ManualClock, MemoryDisk};

/// Where the clock begins.
const START_S: i64 = 1_700_000_000;

/// The job has a pass every minute.
const PASS_S: u64 = 61;

/// Rows that tell when a pass is over: enough for each shard to have some.
const ROWS_OF_PASS: i64 = 40;

/// Longer than the job takes on a slow machine, by the system's clock.
const PATIENCE: Duration = Duration::from_secs(30);

type Row = Vec<Option<i32>>;

#[derive(Clone, Copy, Debug)]
enum Event {
    Nothing,
    Flush,
    Compact,
    Restart,
    Crash,
}

const EVENTS: [Event; 5] = [
    Event::Nothing,
    Event::Flush,
    Event::Compact,
    Event::Restart,
    Event::Crash,
];

struct Expiring {
    node: TestNode,
    clock: Arc<ManualClock>,
}

impl Expiring {
    /// A node with `k.t`, whose rows expire by `e`.
    fn new(shards: u16, expiration_type: &str) -> Expiring {
        Expiring::on(Arc::new(MemoryDisk::new()), shards, expiration_type)
    }

    fn on(disk: Arc<dyn Disk>, shards: u16, expiration_type: &str) -> Expiring {
        let clock = Arc::new(ManualClock::starting_at(START_S * 1_000_000));
        let node = TestNode::start(options(shards, disk, clock.clone())).unwrap();
        node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        node.run(&format!(
            "CREATE TABLE k.t (p int, c int, s int static, v int, w int, m map<int, int>, e {expiration_type} TTL, \
             PRIMARY KEY (p, c))"
        ));
        Expiring { node, clock }
    }

    fn run(&self, text: &str) {
        self.node.run(text);
    }

    /// The values, all of them ints.
    fn ints(&self, text: &str) -> Vec<Row> {
        let int = |value: Option<Vec<u8>>| {
            value.map(|bytes| i32::from_be_bytes(bytes.as_slice().try_into().unwrap()))
        };
        let rows = self.node.rows(text).into_iter();
        let mut rows: Vec<Row> = rows.map(|row| row.into_iter().map(int).collect()).collect();
        rows.sort();
        rows
    }

    fn count(&self, table: &str) -> i64 {
        let rows = self.node.rows(&format!("SELECT count(*) FROM k.{table}"));
        i64::from_be_bytes(rows[0][0].as_deref().unwrap().try_into().unwrap())
    }

    fn is_applied(&self, text: &str) -> bool {
        self.node.rows(text)[0][0].as_deref() == Some(&[1])
    }

    fn happen(&mut self, event: Event) {
        let node = &mut self.node;
        // A node that starts again at the same moment gives the same timestamps out again.
        self.clock.advance_ns(1_000_000);
        match event {
            Event::Nothing => {}
            Event::Flush => node.operator().flush(None).unwrap(),
            Event::Compact => {
                let table = node.operator().schema().unwrap().table("k", "t").unwrap().id;
                node.operator().flush(None).unwrap();
                let kind = CompactionKind::Major { split_output: false };
                node.operator()
                    .compact(CompactionRequest { table, kind })
                    .unwrap();
            }
            Event::Restart => node.restart().unwrap(),
            Event::Crash => {
                node.crash();
                node.start_again().unwrap();
            }
        }
    }

    fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn with_view(&self, definition: &str) {
        self.run(&format!(
            "CREATE MATERIALIZED VIEW k.by_v AS SELECT p, c, v, w, e FROM k.t WHERE {definition}"
        ));
        self.wait_until("the view is not built", || {
            let built =
                "SELECT view_name FROM system.built_views WHERE keyspace_name = 'k' AND view_name = 'by_v'";
            !self.node.rows(built).is_empty()
        });
    }

    /// Goes to the next pass of the job and waits until it has deleted the last of a row that is inserted for this.
    fn pass(&self) {
        self.run("CREATE TABLE IF NOT EXISTS k.zz (p int PRIMARY KEY, v int, e bigint TTL)");
        self.run("CREATE MATERIALIZED VIEW IF NOT EXISTS k.zz_by_v AS SELECT * FROM k.zz WHERE v IS NOT NULL AND p IS NOT NULL \
                  PRIMARY KEY (v, p)");
        for p in 0..ROWS_OF_PASS {
            self.run(&format!("INSERT INTO k.zz (p, v, e) VALUES ({p}, 1, 1)"));
        }
        assert_eq!(self.count("zz_by_v"), ROWS_OF_PASS);
        self.clock.advance_s(PASS_S);
        self.wait_until("the job has not come by", || self.count("zz_by_v") == 0);
    }
}

fn rows(keys: &[(i32, i32)]) -> Vec<Row> {
    keys.iter().map(|&(p, c)| vec![Some(p), Some(c)]).collect()
}

/// A value of the column that many seconds behind the start.
fn at(expiration_type: &str, seconds: i64) -> i64 {
    match expiration_type {
        "timestamp" => (START_S + seconds) * 1_000,
        _ => START_S + seconds,
    }
}

/// Every way of reading agrees on which rows there are.
fn check_reads(expiring: &Expiring, expected: &[(i32, i32)]) {
    assert_eq!(expiring.ints("SELECT p, c FROM k.t"), rows(expected));
    assert_eq!(expiring.count("t"), expected.len() as i64);
    for p in 0..5 {
        for c in 0..4 {
            let is_there = expected.contains(&(p, c));
            let point = format!("SELECT p, c FROM k.t WHERE p = {p} AND c = {c}");
            assert_eq!(
                expiring.ints(&point),
                rows(&[(p, c)][..usize::from(is_there)]),
                "{point}"
            );
        }
        let of_partition: Vec<_> = expected.iter().copied().filter(|(of, _)| *of == p).collect();
        let last = format!("SELECT p, c FROM k.t WHERE p = {p} ORDER BY c DESC LIMIT 1");
        assert_eq!(
            expiring.ints(&last),
            rows(&of_partition[of_partition.len().saturating_sub(1)..])
        );
    }
    let filtered = "SELECT p, c FROM k.t WHERE v >= 0 ALLOW FILTERING";
    assert_eq!(expiring.ints(filtered), rows(expected));
    let mut paged = Vec::new();
    let mut execution = Execution {
        page_size: Some(1),
        ..Execution::default()
    };
    loop {
        let Answer::Rows(page) = expiring.node.execute_with("SELECT p, c FROM k.t", &execution) else {
            panic!("a page")
        };
        assert!(page.rows.len() <= 1);
        paged.extend(page.rows);
        execution.paging_state = page.paging_state;
        if execution.paging_state.is_none() {
            break;
        }
    }
    assert_eq!(paged.len(), expected.len());
}

#[test]
fn rows_are_gone_when_their_time_has_come() {
    for expiration_type in ["timestamp", "bigint", "int"] {
        for (index, event) in EVENTS.into_iter().enumerate() {
            let mut expiring = Expiring::new(1 + index as u16 % 3, expiration_type);
            let last = match expiration_type {
                "int" => i64::from(i32::MAX),
                _ => i64::MAX,
            };
            let first = match expiration_type {
                "int" => i64::from(i32::MIN),
                _ => i64::MIN,
            };
            let values = [
                (1, 1, at(expiration_type, 20).to_string()),
                (1, 2, at(expiration_type, 40).to_string()),
                (1, 3, "null".to_owned()),
                (2, 1, first.to_string()),
                (2, 2, last.to_string()),
                (3, 0, at(expiration_type, 0).to_string()),
                (4, 3, at(expiration_type, 20).to_string()),
            ];
            for (p, c, e) in values {
                expiring.run(&format!("INSERT INTO k.t (p, c, v, e) VALUES ({p}, {c}, 7, {e})"));
            }
            expiring.happen(event);
            check_reads(&expiring, &[(1, 1), (1, 2), (1, 3), (2, 2), (4, 3)][..]);
            expiring.clock.advance_s(19);
            check_reads(&expiring, &[(1, 1), (1, 2), (1, 3), (2, 2), (4, 3)][..]);
            expiring.clock.advance_s(1);
            check_reads(&expiring, &[(1, 2), (1, 3), (2, 2)][..]);
            expiring.clock.advance_s(20);
            expiring.happen(event);
            check_reads(&expiring, &[(1, 3), (2, 2)][..]);
        }
    }
}

#[test]
fn static_columns_stay() {
    for event in EVENTS {
        let mut expiring = Expiring::new(1, "bigint");
        expiring.run(&format!(
            "INSERT INTO k.t (p, c, s, v, e) VALUES (1, 1, 5, 7, {})",
            START_S + 20
        ));
        expiring.happen(event);
        assert_eq!(
            expiring.ints("SELECT p, c, s FROM k.t"),
            vec![vec![Some(1), Some(1), Some(5)]]
        );
        expiring.clock.advance_s(20);
        let alone = vec![vec![Some(1), None, Some(5)]];
        assert_eq!(expiring.ints("SELECT p, c, s FROM k.t"), alone);
        assert_eq!(expiring.ints("SELECT p, c, s FROM k.t WHERE p = 1"), alone);
        assert_eq!(
            expiring.ints("SELECT p, c, s FROM k.t WHERE p = 1 AND c = 1"),
            Vec::<Row>::new()
        );
        expiring.pass();
        expiring.run("ALTER TABLE k.t TTL NULL");
        assert_eq!(expiring.ints("SELECT p, c, s FROM k.t"), alone);
    }
}

/// The last second but one that a timestamp counts in thousandths.
#[test]
fn a_timestamp_within_a_second_is_over_with_the_next() {
    let expiring = Expiring::new(1, "timestamp");
    expiring.run(&format!(
        "INSERT INTO k.t (p, c, e) VALUES (1, 1, {})",
        at("timestamp", 5) - 1
    ));
    expiring.run(&format!(
        "INSERT INTO k.t (p, c, e) VALUES (1, 2, {})",
        at("timestamp", 5) + 1
    ));
    expiring.clock.advance_s(4);
    assert_eq!(expiring.count("t"), 2);
    expiring.clock.advance_s(1);
    assert_eq!(expiring.ints("SELECT p, c FROM k.t"), rows(&[(1, 2)]));
    expiring.clock.advance_s(1);
    assert_eq!(expiring.count("t"), 0);
}

#[test]
fn what_is_written_after_a_row_expired_is_a_new_row() {
    for event in EVENTS {
        let mut expiring = Expiring::new(1, "bigint");
        for c in 1..6 {
            expiring.run(&format!(
                "INSERT INTO k.t (p, c, v, w, m, e) VALUES (1, {c}, 1, 2, {{1: 1}}, {})",
                START_S + 20
            ));
        }
        expiring.happen(event);
        expiring.clock.advance_s(25);
        // Nothing, another value, another element, as old as the expiration, and a little newer.
        expiring.run("UPDATE k.t SET v = 5 WHERE p = 1 AND c = 2");
        expiring.run("UPDATE k.t SET m[2] = 2 WHERE p = 1 AND c = 3");
        let expired_us = (START_S + 20) * 1_000_000;
        expiring.run(&format!(
            "UPDATE k.t USING TIMESTAMP {expired_us} SET v = 6 WHERE p = 1 AND c = 4"
        ));
        let newer_us = expired_us + 1;
        expiring.run(&format!(
            "UPDATE k.t USING TIMESTAMP {newer_us} SET v = 7 WHERE p = 1 AND c = 5"
        ));
        expiring.happen(event);
        let new = |c, v, element: Option<i32>| vec![Some(c), v, None, None, element];
        let expected = vec![
            new(2, Some(5), None),
            new(3, None, Some(2)),
            new(5, Some(7), None),
        ];
        let seen = "SELECT c, v, w, m[1], m[2] FROM k.t";
        assert_eq!(expiring.ints(seen), expected);
        // They have no time of their own any more, and the job only takes away what nobody sees.
        expiring.pass();
        assert_eq!(expiring.ints(seen), expected);
        assert_eq!(
            expiring.ints("SELECT c FROM k.t WHERE e = 0 ALLOW FILTERING"),
            Vec::<Row>::new()
        );
        expiring.run("ALTER TABLE k.t TTL NULL");
        assert_eq!(expiring.ints(seen), expected);
    }
}

#[test]
fn a_later_or_no_expiration_keeps_a_row() {
    for event in EVENTS {
        let mut expiring = Expiring::new(2, "timestamp");
        for c in 1..5 {
            expiring.run(&format!(
                "INSERT INTO k.t (p, c, v, e) VALUES (1, {c}, 1, {})",
                at("timestamp", 20)
            ));
        }
        expiring.happen(event);
        expiring.run(&format!(
            "UPDATE k.t SET e = {} WHERE p = 1 AND c = 1",
            at("timestamp", 300)
        ));
        expiring.run("UPDATE k.t SET e = null WHERE p = 1 AND c = 2");
        expiring.run(&format!(
            "UPDATE k.t USING TTL 10 SET e = {} WHERE p = 1 AND c = 3",
            at("timestamp", 15)
        ));
        expiring.happen(event);
        expiring.clock.advance_s(11);
        // The expiration of the third is gone itself, before its time.
        assert_eq!(expiring.count("t"), 4);
        expiring.pass();
        assert_eq!(
            expiring.ints("SELECT c, v FROM k.t"),
            (1..4).map(|c| vec![Some(c), Some(1)]).collect::<Vec<_>>()
        );
        expiring.clock.advance_s(300);
        assert_eq!(
            expiring.ints("SELECT c FROM k.t"),
            vec![vec![Some(2)], vec![Some(3)]]
        );
    }
}

/// An expiration that expires itself after its row did.
#[test]
fn a_row_does_not_come_back_with_the_end_of_its_expiration() {
    for event in EVENTS {
        let mut expiring = Expiring::new(1, "bigint");
        expiring.run("INSERT INTO k.t (p, c, v) VALUES (1, 1, 1)");
        expiring.run(&format!(
            "UPDATE k.t USING TTL 20 SET e = {} WHERE p = 1 AND c = 1",
            START_S + 10
        ));
        assert_eq!(expiring.count("t"), 1);
        expiring.clock.advance_s(10);
        assert_eq!(expiring.count("t"), 0);
        expiring.clock.advance_s(15);
        expiring.happen(event);
        assert_eq!(expiring.count("t"), 0, "{event:?}");
    }
}

#[test]
fn conditions_see_no_expired_row() {
    let expiring = Expiring::new(2, "bigint");
    for c in 1..6 {
        expiring.run(&format!(
            "INSERT INTO k.t (p, c, v, w, e) VALUES (1, {c}, 1, 2, {})",
            START_S + 20
        ));
    }
    assert!(!expiring.is_applied("INSERT INTO k.t (p, c, v) VALUES (1, 1, 9) IF NOT EXISTS"));
    expiring.clock.advance_s(21);
    assert!(!expiring.is_applied("UPDATE k.t SET v = 8 WHERE p = 1 AND c = 2 IF EXISTS"));
    assert!(!expiring.is_applied("UPDATE k.t SET v = 8 WHERE p = 1 AND c = 2 IF v = 1"));
    assert!(expiring.is_applied("INSERT INTO k.t (p, c, v) VALUES (1, 1, 9) IF NOT EXISTS"));
    assert!(expiring.is_applied("UPDATE k.t SET v = 8 WHERE p = 1 AND c = 3 IF v = null"));
    expiring.run(
        "BEGIN TRANSACTION LET a = (SELECT v FROM k.t WHERE p = 1 AND c = 4); \
         IF a IS NULL THEN INSERT INTO k.t (p, c, v) VALUES (1, 4, 7); END IF COMMIT TRANSACTION",
    );
    let new = |c, v| vec![Some(c), Some(v), None];
    let expected = [new(1, 9), new(3, 8), new(4, 7)];
    assert_eq!(expiring.ints("SELECT c, v, w FROM k.t"), expected);
    expiring.pass();
    assert_eq!(expiring.ints("SELECT c, v, w FROM k.t"), expected);
}

#[test]
fn indexes_find_no_expired_row() {
    for (using, event) in [
        ("", Event::Flush),
        (" USING 'sai'", Event::Flush),
        ("", Event::Nothing),
        (" USING 'sai'", Event::Nothing),
    ] {
        let mut expiring = Expiring::new(2, "int");
        expiring.run(&format!("CREATE INDEX ON k.t (v){using}"));
        expiring.run("ALTER TABLE k.t ADD near vector<float, 2>");
        expiring.run("CREATE INDEX ON k.t (near) USING 'sai'");
        for c in 0..20 {
            expiring.run(&format!(
                "INSERT INTO k.t (p, c, v, near, e) VALUES ({}, {c}, {}, [1, {c}], {})",
                c % 3,
                c % 2,
                START_S + if c < 10 { 20 } else { 200 }
            ));
        }
        expiring.happen(event);
        let (by_index, nearest) = (
            "SELECT c FROM k.t WHERE v = 1",
            "SELECT c FROM k.t ORDER BY near ANN OF [1, 0] LIMIT 4",
        );
        let expected = |cs: &[i32]| cs.iter().map(|&c| vec![Some(c)]).collect::<Vec<Row>>();
        assert_eq!(
            expiring.ints(by_index),
            expected(&[1, 3, 5, 7, 9, 11, 13, 15, 17, 19])
        );
        assert_eq!(expiring.ints(nearest), expected(&[0, 1, 2, 3]));
        expiring.clock.advance_s(20);
        for _ in 0..2 {
            assert_eq!(expiring.ints(by_index), expected(&[11, 13, 15, 17, 19]));
            assert_eq!(expiring.ints(nearest), expected(&[10, 11, 12, 13]));
        }
        // What a search did not find is not forgotten: it is there again.
        expiring.run("ALTER TABLE k.t TTL NULL");
        assert_eq!(expiring.ints(nearest), expected(&[0, 1, 2, 3]));
        expiring.run("ALTER TABLE k.t TTL e");
        expiring.pass();
        assert_eq!(expiring.ints(by_index), expected(&[11, 13, 15, 17, 19]));
        assert_eq!(expiring.ints(nearest), expected(&[10, 11, 12, 13]));
    }
}

/// Rows that the job deleted do not come back when the table has no TTL column any more; those that it has not seen do.
#[test]
fn the_job_deletes_what_has_expired_and_nothing_else() {
    for (shards, event) in [
        (1, Event::Nothing),
        (1, Event::Flush),
        (3, Event::Restart),
        (2, Event::Compact),
    ] {
        let mut expiring = Expiring::new(shards, "bigint");
        let mut kept = 0;
        for p in 0..30 {
            // Partitions of one row, and of more than one turn takes.
            let count = if p % 10 == 0 { 150 } else { 1 };
            for c in 0..count {
                let is_kept = (p + c) % 3 == 0;
                kept += i64::from(is_kept);
                let e = START_S + if is_kept { 1_000 } else { 30 };
                expiring.run(&format!(
                    "INSERT INTO k.t (p, c, v, e) VALUES ({p}, {c}, {c}, {e})"
                ));
            }
        }
        expiring.happen(event);
        expiring.clock.advance_s(40);
        assert_eq!(expiring.count("t"), kept, "{event:?}");
        expiring.run("ALTER TABLE k.t TTL NULL");
        assert_eq!(expiring.count("t"), 3 * 150 + 27);
        expiring.run("ALTER TABLE k.t TTL e");
        expiring.pass();
        expiring.happen(event);
        expiring.run("ALTER TABLE k.t TTL NULL");
        let live = expiring.ints("SELECT p, c, v FROM k.t WHERE v >= 0 ALLOW FILTERING");
        assert_eq!(live.len() as i64, kept);
        assert!(
            live.iter()
                .all(|row| (row[0].unwrap() + row[1].unwrap()) % 3 == 0 && row[1] == row[2])
        );
    }
}

/// Rows with large values, from the disk.
#[test]
fn the_job_takes_large_rows_in_several_turns() {
    let mut expiring = Expiring::new(1, "bigint");
    expiring.run("ALTER TABLE k.t ADD large text");
    let large = "x".repeat(40_000);
    for c in 0..40 {
        let e = START_S + i64::from(c % 2) * 500;
        expiring.run(&format!(
            "INSERT INTO k.t (p, c, v, large, e) VALUES (1, {c}, 1, '{large}', {e})"
        ));
    }
    expiring.happen(Event::Restart);
    expiring.pass();
    expiring.run("ALTER TABLE k.t TTL NULL");
    assert_eq!(expiring.count("t"), 20);
}

#[test]
fn views_follow_when_the_job_deletes() {
    let definitions = [
        "v IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, p, c)",
        "p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, p)",
    ];
    for definition in definitions {
        for shards in [1, 3] {
            let expiring = Expiring::new(shards, "timestamp");
            expiring.with_view(definition);
            for c in 0..20 {
                let e = at("timestamp", if c % 2 == 0 { 30 } else { 1_000 });
                expiring.run(&format!(
                    "INSERT INTO k.t (p, c, v, w, e) VALUES ({c}, {c}, {c}, 1, {e})"
                ));
            }
            expiring.clock.advance_s(35);
            // One that is written anew before the job comes.
            expiring.run("UPDATE k.t SET v = 99 WHERE p = 4 AND c = 4");
            // Views are not late, but for this.
            assert_eq!((expiring.count("t"), expiring.count("by_v")), (11, 20));
            expiring.pass();
            let seen = |table: &str| expiring.ints(&format!("SELECT p, c, v, w FROM k.{table}"));
            assert_eq!(seen("by_v"), seen("t"));
            assert_eq!(expiring.count("by_v"), 11);
            assert!(seen("by_v").contains(&vec![Some(4), Some(4), Some(99), None]));
        }
    }
}

/// Followers of a log are told of rows that went because their time was over, and that nobody deleted them.
#[test]
fn a_log_of_changes_tells_which_rows_expired() {
    for cdc in ["", ", 'preimage': 'full', 'postimage': 'true'"] {
        for shards in [1, 3] {
            let expiring = Expiring::new(shards, "bigint");
            expiring.run(&format!(
                "ALTER TABLE k.t WITH cdc = {{'enabled': 'true', 'ttl': '0'{cdc}}}"
            ));
            for c in 0..4 {
                let e = at("bigint", if c % 2 == 0 { 30 } else { 1_000 });
                expiring.run(&format!("INSERT INTO k.t (p, c, v, e) VALUES (1, {c}, 1, {e})"));
            }
            expiring.run("DELETE FROM k.t WHERE p = 1 AND c = 1");
            expiring.clock.advance_s(35);
            expiring.pass();
            let deleted = || -> Vec<(i32, Option<i32>)> {
                let rows = expiring
                    .node
                    .rows(r#"SELECT "cdc$operation", c FROM k.t_scylla_cdc_log"#);
                let told = rows.into_iter().map(|row| {
                    let operation = i8::from_be_bytes([row[0].as_deref().unwrap()[0]]);
                    let c = row[1].clone().map(|c| i32::from_be_bytes(c.try_into().unwrap()));
                    (i32::from(operation), c)
                });
                let mut told: Vec<_> = told
                    .filter(|(operation, _)| *operation == 3 || *operation < 0)
                    .collect();
                told.sort();
                told
            };
            expiring.wait_until("the log has not all rows", || deleted().len() == 3);
            assert_eq!(deleted(), [(-3, Some(0)), (-3, Some(2)), (3, Some(1))]);
            // Nothing is left to be told of.
            expiring.pass();
            assert_eq!(deleted().len(), 3);
        }
    }
}

/// Rows of a view that stand for a row that has expired and is not deleted are no ghosts: the row may have a later time.
#[test]
fn pruning_leaves_what_expired_rows_stand_for() {
    for definition in [
        "v IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, p, c)",
        "p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, p)",
    ] {
        let expiring = Expiring::new(2, "bigint");
        expiring.with_view(definition);
        for c in 0..10 {
            let e = START_S + 20;
            expiring.run(&format!(
                "INSERT INTO k.t (p, c, v, w, e) VALUES ({c}, {c}, 1, 2, {e})"
            ));
        }
        expiring.clock.advance_s(20);
        assert_eq!((expiring.count("t"), expiring.count("by_v")), (0, 10));
        expiring.run("PRUNE MATERIALIZED VIEW k.by_v");
        expiring.run(&format!(
            "UPDATE k.t SET e = {} WHERE p = 3 AND c = 3",
            START_S + 500
        ));
        expiring.pass();
        let seen = |table: &str| expiring.ints(&format!("SELECT p, c, v, w FROM k.{table}"));
        assert_eq!(seen("t"), vec![vec![Some(3), Some(3), Some(1), Some(2)]]);
        assert_eq!(seen("by_v"), seen("t"));
    }
}

#[test]
fn a_view_has_no_expiration_of_its_own() {
    let expiring = Expiring::new(1, "timestamp");
    expiring.with_view("e IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (e, p, c)");
    match expiring.node.execute("ALTER MATERIALIZED VIEW k.by_v TTL v") {
        Answer::Error { code, .. } => assert_eq!(code, ErrorCode::SyntaxError),
        other => panic!("{other:?}"),
    }
}

/// The job waits for the log after the first rows that it deletes. Rows that are extended meanwhile, with timestamps that its
/// deletion would hide, had been found expired like the first.
#[test]
fn the_job_looks_again_before_it_deletes() {
    const ROWS: i32 = 500;
    const DELETED_AT_ONCE: i64 = 64;
    for with_view in [false, true] {
        let (gate, asked) = (Arc::new(Mutex::new(())), Arc::new(AtomicU32::new(0)));
        let (closed, counted) = (gate.clone(), asked.clone());
        let disk = HookedDisk::new(Arc::new(MemoryDisk::new()), move |_, path: &Path| {
            if path.components().any(|part| part.as_os_str() == "commitlog") {
                counted.fetch_add(1, Ordering::Relaxed);
                drop(closed.lock().unwrap());
            }
            Ok(())
        });
        let expiring = Expiring::on(Arc::new(disk), 1, "bigint");
        if with_view {
            expiring.with_view("p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, p)");
        }
        for c in 0..ROWS {
            let e = START_S + 20;
            expiring.run(&format!(
                "INSERT INTO k.t (p, c, v, e) VALUES (1, {c}, 1, {e}) USING TIMESTAMP 1"
            ));
        }
        let asked_before = asked.load(Ordering::Relaxed);
        let hanging = gate.lock().unwrap();
        expiring.clock.advance_s(PASS_S);
        expiring.wait_until("the job does not begin", || {
            asked.load(Ordering::Relaxed) > asked_before
        });
        assert_eq!(expiring.count("t"), 0);
        let extend = |c: i32| {
            let later = START_S + 100_000;
            let statement = format!("UPDATE k.t USING TIMESTAMP 2 SET e = {later} WHERE p = 1 AND c = {c}");
            expiring.node.submit(&statement, &Execution::default())
        };
        let pending: Vec<_> = (0..ROWS).map(extend).collect();
        let left = i64::from(ROWS) - DELETED_AT_ONCE;
        expiring.wait_until("not all are extended", || expiring.count("t") == left);
        drop(hanging);
        for extended in pending {
            assert_eq!(extended.wait(), Some(Answer::Void));
        }
        expiring.pass();
        assert_eq!(expiring.count("t"), left);
        if with_view {
            assert_eq!(expiring.count("by_v"), left);
        }
        let deleted = expiring
            .node
            .on_shard(0, |shard| shard.metrics_snapshot().expired_rows_deleted);
        assert_eq!(deleted as i64, DELETED_AT_ONCE + ROWS_OF_PASS);
    }
}
