//! Reads that are long: over many tombstones, or of what is not in memory. They let others go first and end in pages.

use std::sync::Arc;

use helenus_node::TombstoneLimits;
use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, Rows, TestNode, options};
use helenus_vfs::{ManualClock, SimulatedDisk, SystemClock};

/// Row tombstones of the partition; `HELENUS_LONG_READ_TOMBSTONES=1000000` for the figure of the design.
const TOMBSTONES: u32 = 6_000;

const LIMITS: TombstoneLimits = TombstoneLimits {
    warn: 1_000,
    fail: 2_500,
};

fn tombstone_count() -> u32 {
    let count = std::env::var("HELENUS_LONG_READ_TOMBSTONES").ok();
    count.and_then(|text| text.parse().ok()).unwrap_or(TOMBSTONES)
}

/// One partition with deleted rows, every tenth by a range, and one row behind them; and one with a row.
fn node(limits: TombstoneLimits) -> TestNode {
    let disk = Arc::new(SimulatedDisk::new(1));
    let mut options = options(1, disk, Arc::new(SystemClock::new()));
    options.tombstones = limits;
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int, c int, v int, PRIMARY KEY (p, c))");
    let mut batch = Vec::new();
    for c in 0..tombstone_count() {
        batch.push(match c % 10 {
            0 => format!("DELETE FROM k.t WHERE p = 1 AND c >= {c} AND c < {};", c + 1),
            _ => format!("DELETE FROM k.t WHERE p = 1 AND c = {c};"),
        });
        if batch.len() == 50 || c + 1 == tombstone_count() {
            node.run(&format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", batch.join(" ")));
            batch.clear();
        }
    }
    node.run("INSERT INTO k.t (p, c, v) VALUES (1, 2000000000, 7)");
    node.run("INSERT INTO k.t (p, c, v) VALUES (2, 1, 8)");
    node
}

fn page(node: &TestNode, text: &str, paging_state: Option<Vec<u8>>) -> Rows {
    let execution = Execution {
        page_size: Some(100),
        paging_state,
        ..Execution::default()
    };
    match node.execute_with(text, &execution) {
        Answer::Rows(rows) => rows,
        other => panic!("{text}: {other:?}"),
    }
}

/// Symptom: a read over deletions that gc_grace had passed by was warned of, or failed, where Cassandra's is not.
#[test]
fn tombstones_past_gc_grace_are_passed_over_uncounted() {
    let clock = Arc::new(ManualClock::starting_at(1_700_000_000_000_000));
    let mut options = options(1, Arc::new(SimulatedDisk::new(1)), clock.clone());
    options.tombstones = TombstoneLimits { warn: 3, fail: 10 };
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int, c int, v int, PRIMARY KEY (p, c)) WITH gc_grace_seconds = 100");
    node.run("INSERT INTO k.t (p, c, v) VALUES (1, 100, 1)");
    for c in 0..4 {
        node.run(&format!("DELETE FROM k.t WHERE p = 1 AND c = {c}"));
        node.run(&format!("DELETE v FROM k.t WHERE p = 1 AND c = {}", c + 10));
        node.run(&format!(
            "DELETE FROM k.t WHERE p = 1 AND c > {} AND c < {}",
            10 * c + 20,
            10 * c + 30
        ));
        node.run(&format!(
            "UPDATE k.t USING TTL 20 SET v = 1 WHERE p = 1 AND c = {}",
            c + 60
        ));
    }
    let warnings = |node: &TestNode| match node.execute("SELECT v FROM k.t WHERE p = 1") {
        Answer::Rows(rows) => {
            assert_eq!(rows.rows.len(), 1);
            Some(rows.warnings.len())
        }
        _ => None,
    };
    clock.advance_s(99);
    assert_eq!(
        warnings(&node),
        None,
        "12 and 4 expired cells that count from when they were written"
    );
    clock.advance_s(3);
    assert_eq!(warnings(&node), Some(0));
}

#[test]
fn a_scan_over_tombstones_ends_in_short_pages_and_warns() {
    let mut node = node(LIMITS);
    for is_in_memory in [true, false] {
        if !is_in_memory {
            node.restart().unwrap();
        }
        let statements = [
            ("SELECT v FROM k.t WHERE p = 1", 1),
            ("SELECT v FROM k.t WHERE p = 1 ORDER BY c DESC", 1),
            ("SELECT v FROM k.t", 2),
            ("SELECT v FROM k.t WHERE v > 0 ALLOW FILTERING", 2),
        ];
        for (text, rows_wanted) in statements {
            let (mut pages, mut rows, mut state) = (0, 0, None);
            loop {
                let page = page(&node, text, state);
                pages += 1;
                rows += page.rows.len();
                if page.paging_state.is_some() {
                    assert!(page.warnings[0].starts_with("Read "), "{:?}", page.warnings);
                    assert!(page.warnings[0].contains(" tombstone cells for query SELECT * FROM k.t"));
                    assert!(page.warnings[0].ends_with(" (see tombstone_warn_threshold)"));
                }
                state = page.paging_state;
                if state.is_none() {
                    break;
                }
            }
            assert_eq!(rows, rows_wanted, "{text}, in memory: {is_in_memory}");
            // A step may count some hundred more than the budget.
            let pages_max = u64::from(tombstone_count()) * 11 / 10 / LIMITS.fail + 1;
            assert!((2..=pages_max + 1).contains(&pages), "{text}: {pages} pages");
        }
    }
}

#[test]
fn what_is_not_paged_fails_over_too_many_tombstones() {
    let node = node(LIMITS);
    for text in ["SELECT v FROM k.t WHERE p = 1", "SELECT count(*) FROM k.t"] {
        let Answer::Error { code, message } = node.execute(text) else {
            panic!("{text} was answered");
        };
        assert_eq!(code, ErrorCode::ReadFailure);
        assert!(message.contains("READ_TOO_MANY_TOMBSTONES"), "{message}");
    }
    assert_eq!(node.rows("SELECT v FROM k.t WHERE p = 2").len(), 1);
    assert_eq!(
        node.rows("SELECT v FROM k.t WHERE p = 1 AND c = 2000000000")
            .len(),
        1
    );
}

#[test]
fn others_are_served_while_a_scan_passes_over_tombstones() {
    let mut node = node(TombstoneLimits::NONE);
    for is_in_memory in [true, false] {
        if !is_in_memory {
            node.restart().unwrap();
        }
        let scans = [
            "SELECT v FROM k.t WHERE p = 1",
            "SELECT v FROM k.t",
            "SELECT count(v) FROM k.t",
        ];
        for scan in scans {
            let mut texts = vec![scan.to_owned()];
            texts.extend((0..20).map(|_| "SELECT v FROM k.t WHERE p = 2 AND c = 1".to_owned()));
            let answers = node.execute_together(&texts);
            let order: Vec<usize> = answers.iter().map(|(index, _)| *index).collect();
            assert_eq!(
                order.last(),
                Some(&0),
                "{scan}, in memory: {is_in_memory}: {order:?}"
            );
            for (index, answer) in answers {
                let Answer::Rows(rows) = answer else {
                    panic!("{}: {answer:?}", texts[index]);
                };
                assert!(!rows.rows.is_empty());
            }
        }
    }
}

/// Statements on each shard, several times as many as it begins at once.
const READS_OF_BOTH: usize = 400;

/// As many reads as may be begun waited on each shard for what the other one should read for them, which had no place for it: all of
/// them ended with a timeout after 5 s, and so did those behind them.
#[test]
fn reads_of_two_shards_that_need_each_other_are_all_answered() {
    let disk = Arc::new(SimulatedDisk::new(1));
    let node = TestNode::start(options(2, disk, Arc::new(ManualClock::starting_at(1_000_000)))).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    for p in 0..9 {
        node.run(&format!("INSERT INTO k.t (p, v) VALUES ({p}, {p})"));
    }
    let submit = |place: usize| {
        let execution = Execution {
            shard: (place % 2) as u16,
            ..Execution::default()
        };
        node.submit(
            "SELECT v FROM k.t WHERE p IN (0, 1, 2, 3, 4, 5, 6, 7, 8)",
            &execution,
        )
    };
    let submitted: Vec<_> = (0..2 * READS_OF_BOTH).map(submit).collect();
    for pending in submitted {
        match pending.wait() {
            Some(Answer::Rows(rows)) => assert_eq!(rows.rows.len(), 9),
            other => panic!("{other:?}"),
        }
    }
}
