//! Materialized views: a view is what its base table's rows make it, whatever was written, in which order, on which shards.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use helenus_node::NodeOptions;
use helenus_protocol::ErrorCode;
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{Answer, Execution, HookedDisk, TestNode, options};
use helenus_tools::control;
use helenus_tools::host::{Host, Incumbents, TableChoice};
use helenus_tools::progress::Silent;
use helenus_tools::snapshot;
use helenus_vfs::{
    Clock, Disk, ManualClock, MemoryDisk, Operation, Random, SeededRandom, SimulatedDisk, SystemClock,
};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

type Row = Vec<Option<Vec<u8>>>;

/// A view, and which rows of its base table it has.
struct View {
    name: &'static str,
    definition: &'static str,
    columns: &'static str,
    has: fn(&Row) -> bool,
}

const COLUMNS: &str = "p, c, a, b, m";

/// Views of a table whose rows are as `COLUMNS` are.
const VIEWS: [View; 4] = [
    View {
        name: "by_a",
        definition: "SELECT * FROM k.t WHERE a IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (a, p, c)",
        columns: COLUMNS,
        has: |row| row[2].is_some(),
    },
    View {
        name: "by_c",
        definition: "SELECT * FROM k.t WHERE p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, p)",
        columns: COLUMNS,
        has: |_| true,
    },
    View {
        name: "by_p_and_a",
        definition: "SELECT p, c, a, b FROM k.t WHERE a IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL \
                     PRIMARY KEY (p, a, c) WITH CLUSTERING ORDER BY (a DESC, c ASC)",
        columns: "p, c, a, b",
        has: |row| row[2].is_some(),
    },
    View {
        name: "of_some",
        definition: "SELECT * FROM k.t WHERE p IN (1, 2) AND c > 0 AND a IS NOT NULL PRIMARY KEY ((a, c), p)",
        columns: COLUMNS,
        has: |row| row[2].is_some() && [1, 2].contains(&int(&row[0])) && int(&row[1]) > 0,
    },
];

/// Exact as long as what is written is newer than what was.
const PARTIAL: View = View {
    name: "partial",
    definition: "SELECT p, c, b FROM k.t WHERE p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, p)",
    columns: "p, c, b",
    has: |_| true,
};

fn int(value: &Option<Vec<u8>>) -> i32 {
    i32::from_be_bytes(value.as_deref().unwrap().try_into().unwrap())
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows
}

fn make_table(node: &TestNode) {
    make_table_with(node, "m map<int, int>");
}

fn make_table_with(node: &TestNode, m: &str) {
    node.run(KEYSPACE);
    node.run(&format!(
        "CREATE TABLE k.t (p int, c int, a int, b text, {m}, x int, PRIMARY KEY (p, c))"
    ));
}

fn make_view(node: &TestNode, view: &View) {
    node.run(&format!(
        "CREATE MATERIALIZED VIEW k.{} AS {}",
        view.name, view.definition
    ));
}

/// Waits until the node says that it has built a view.
fn wait_built(node: &TestNode, view: &str) {
    let select = format!(
        "SELECT view_name FROM system.built_views WHERE keyspace_name = 'k' AND view_name = '{view}'"
    );
    let began = Instant::now();
    while node.rows(&select).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "{view} is not built");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Compares views with what their base table makes of them.
fn check(node: &TestNode, views: &[&View], said: &str) {
    let base = node.rows(&format!("SELECT {COLUMNS} FROM k.t"));
    // A partition with nothing but a static row is one without clustering.
    let base: Vec<Row> = base.into_iter().filter(|row| row[1].is_some()).collect();
    for view in views {
        let count = view.columns.split(", ").count();
        let place = |name: &str| COLUMNS.split(", ").position(|column| column == name).unwrap();
        let expected = base.iter().filter(|row| (view.has)(row));
        let expected = expected.map(|row| {
            let columns = view.columns.split(", ");
            columns.map(|name| row[place(name)].clone()).collect::<Row>()
        });
        let expected = sorted(expected.collect());
        let rows = node.rows(&format!("SELECT {} FROM k.{}", view.columns, view.name));
        assert!(rows.iter().all(|row| row.len() == count));
        assert_eq!(sorted(rows), expected, "{} {said}", view.name);
    }
}

/// Statements on few rows, so that they meet.
struct Statements {
    random: SeededRandom,
    has_old_timestamps: bool,
    has_ttls: bool,
    /// `m` is an int.
    is_plain: bool,
}

impl Statements {
    fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn using(&self, takes_ttl: bool) -> String {
        let mut parts = Vec::new();
        if self.has_old_timestamps && self.below(4) > 0 {
            parts.push(format!("TIMESTAMP {}", 1 + self.below(40)));
        }
        if self.has_ttls && takes_ttl && self.below(3) == 0 {
            parts.push(format!("TTL {}", 1 + self.below(20)));
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!(" USING {}", parts.join(" AND ")),
        }
    }

    fn value(&self, bound: u64) -> String {
        match self.below(5) {
            0 => "null".to_owned(),
            _ => self.below(bound).to_string(),
        }
    }

    fn change(&self) -> String {
        match self.below(6) {
            3 | 4 if self.is_plain => format!("m = {}", self.value(3)),
            0 | 1 => format!("a = {}", self.value(3)),
            2 => format!("b = '{}'", self.below(4)),
            3 => format!("m = {{{}: {}}}", self.below(3), self.below(3)),
            4 => format!("m[{}] = {}", self.below(3), self.value(3)),
            _ => format!("a = {}, b = '{}'", self.value(3), self.below(3)),
        }
    }

    fn single(&self) -> String {
        let (p, c) = (self.below(4), self.below(4));
        match self.below(20) {
            // Later than all that is stored elsewhere, and nothing of the row is left out.
            0..3 if self.is_plain => format!(
                "INSERT INTO k.t (p, c, a, b, m, x) VALUES ({p}, {c}, {}, '{}', {}, {}){}",
                self.value(3),
                self.below(3),
                self.value(3),
                self.value(3),
                self.using(true)
            ),
            0..6 => format!(
                "INSERT INTO k.t (p, c, a, b) VALUES ({p}, {c}, {}, '{}'){}",
                self.value(3),
                self.below(3),
                self.using(true)
            ),
            6 => format!("INSERT INTO k.t (p, c) VALUES ({p}, {c}){}", self.using(true)),
            7..13 => format!(
                "UPDATE k.t{} SET {} WHERE p = {p} AND c = {c}",
                self.using(true),
                self.change()
            ),
            13 => format!(
                "UPDATE k.t{} SET x = {} WHERE p = {p} AND c = {c}",
                self.using(true),
                self.value(2)
            ),
            14 => format!("DELETE a FROM k.t{} WHERE p = {p} AND c = {c}", self.using(false)),
            15 => format!(
                "DELETE b, m FROM k.t{} WHERE p = {p} AND c = {c}",
                self.using(false)
            ),
            16 | 17 => format!("DELETE FROM k.t{} WHERE p = {p} AND c = {c}", self.using(false)),
            18 => format!("DELETE FROM k.t{} WHERE p = {p} AND c > {c}", self.using(false)),
            _ => format!("DELETE FROM k.t{} WHERE p = {p}", self.using(false)),
        }
    }

    fn next(&self) -> String {
        let (p, c) = (self.below(4), self.below(4));
        match self.below(14) {
            0 | 1 => {
                let kind = if self.below(2) == 0 { "" } else { "UNLOGGED " };
                let members: Vec<String> = (0..2 + self.below(4)).map(|_| self.single() + ";").collect();
                format!("BEGIN {kind}BATCH {} APPLY BATCH", members.join(" "))
            }
            2 => format!(
                "UPDATE k.t SET {} WHERE p = {p} AND c = {c} IF EXISTS",
                self.change()
            ),
            3 => format!(
                "INSERT INTO k.t (p, c, a) VALUES ({p}, {c}, {}) IF NOT EXISTS",
                self.below(3)
            ),
            4 => format!(
                "UPDATE k.t SET a = {} WHERE p = {p} AND c = {c} IF a = {}",
                self.value(3),
                self.below(3)
            ),
            _ => self.single(),
        }
    }
}

fn node_on(shards: u16, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> TestNode {
    TestNode::start(options(shards, disk, clock)).unwrap()
}

fn on_any_shard(random: &SeededRandom, shards: u16) -> Execution {
    Execution {
        shard: random.below(u64::from(shards)) as u16,
        ..Execution::default()
    }
}

fn all_views(has_old_timestamps: bool) -> Vec<&'static View> {
    let mut views: Vec<&View> = VIEWS.iter().collect();
    if !has_old_timestamps {
        views.push(&PARTIAL);
    }
    views
}

/// The last of several views is made of what is there by then.
fn run_history(seed: u64, shards: u16, has_old_timestamps: bool, views: &[&View]) {
    let mut node = node_on(shards, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    make_table(&node);
    let statements = Statements {
        random: SeededRandom::new(seed),
        has_old_timestamps,
        has_ttls: false,
        is_plain: false,
    };
    let (last, first) = match views {
        [only] => (*only, views),
        _ => views.split_last().map(|(last, first)| (*last, first)).unwrap(),
    };
    first.iter().for_each(|view| make_view(&node, view));
    let mut history = Vec::new();
    for step in 0..240 {
        if step == 120 && views.len() > 1 {
            make_view(&node, last);
            views.iter().for_each(|view| wait_built(&node, view.name));
            check(
                &node,
                views,
                &format!("after being built, seed {seed}: {history:#?}"),
            );
        }
        let statement = statements.next();
        history.push(statement.clone());
        let execution = on_any_shard(&statements.random, shards);
        let answer = node.execute_with(&statement, &execution);
        assert!(!matches!(answer, Answer::Error { .. }), "{statement}: {answer:?}");
        match statements.below(60) {
            0 => {
                node.operator().flush(None).unwrap();
            }
            1 => {
                node.restart().unwrap();
            }
            _ => {}
        }
        let known = if step < 120 { first } else { views };
        if step % 8 == 0 || step > 220 {
            check(
                &node,
                known,
                &format!("seed {seed} on {shards} shards: {history:#?}"),
            );
        }
    }
}

#[test]
fn views_are_what_their_base_makes_them() {
    for seed in 0..6 {
        run_history(seed, 1 + (seed % 3) as u16, false, &all_views(false));
    }
}

#[test]
fn views_are_what_their_base_makes_them_with_timestamps_in_any_order() {
    for seed in 100..106 {
        run_history(seed, 1 + (seed % 3) as u16, true, &all_views(true));
    }
}

/// All the views of a table decide whether a base row has to be read at all.
#[test]
fn views_that_are_alone_are_what_their_base_makes_them() {
    for (place, view) in VIEWS.iter().enumerate() {
        for seed in 0..4 {
            let (shards, has_old_timestamps) = (1 + (seed % 2) as u16, seed < 2);
            run_history(
                200 + 10 * place as u64 + seed,
                shards,
                has_old_timestamps,
                &[view],
            );
        }
    }
}

/// Rows of which memory has each column, above files that have older ones: what is in the files decides nothing then, and does
/// where a timestamp, a tombstone or a column that is not there lets it.
#[test]
fn views_are_what_their_base_makes_them_above_files() {
    let mut alone: Vec<Vec<&View>> = VIEWS.iter().map(|view| vec![view]).collect();
    alone.push(VIEWS.iter().collect());
    for seed in 400..410 {
        let clock = Arc::new(ManualClock::starting_at(1_700_000_000_000_000));
        let shards = 1 + (seed % 2) as u16;
        let node = node_on(shards, Arc::new(MemoryDisk::new()), clock.clone());
        make_table_with(&node, "m int");
        let views = &alone[(seed % 5) as usize];
        views.iter().for_each(|view| make_view(&node, view));
        let statements = Statements {
            random: SeededRandom::new(seed),
            has_old_timestamps: seed % 3 == 0,
            has_ttls: seed % 3 == 1,
            is_plain: true,
        };
        let mut history = Vec::new();
        for _ in 0..240 {
            let statement = statements.next();
            let seconds = statements.below(3);
            history.push(format!("{statement}, {seconds} s later"));
            node.run(&statement);
            clock.advance_s(seconds);
            if statements.below(12) == 0 {
                history.push("flush".to_owned());
                node.operator().flush(None).unwrap();
            }
            check(&node, views, &format!("seed {seed}: {history:#?}"));
        }
    }
}

#[test]
fn a_view_is_built_of_what_was_there_and_kept_up_to_date_meanwhile() {
    let node = node_on(3, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    make_table(&node);
    for p in 0..600 {
        node.run(&format!(
            "INSERT INTO k.t (p, c, a, b) VALUES ({p}, 1, {}, 'b')",
            p % 7
        ));
    }
    make_view(&node, &VIEWS[0]);
    for p in 0..200 {
        node.run(&format!("UPDATE k.t SET a = {} WHERE p = {p} AND c = 1", p % 5));
        node.run(&format!("DELETE FROM k.t WHERE p = {} AND c = 1", p + 300));
    }
    wait_built(&node, "by_a");
    check(&node, &[&VIEWS[0]], "built");
    assert!(
        node.rows("SELECT * FROM system.view_builds_in_progress")
            .is_empty()
    );
    let status = node.rows("SELECT status FROM system_distributed.view_build_status");
    assert_eq!(status, [[Some(b"SUCCESS".to_vec())]]);
    // Another view of that name is another view.
    node.run("DROP MATERIALIZED VIEW k.by_a");
    make_view(&node, &VIEWS[0]);
    wait_built(&node, "by_a");
    check(&node, &[&VIEWS[0]], "built again");
}

/// Entries that the builders of a dropped view wrote of its name were taken for progress of the next view of that name, which
/// lacked rows and was said to be built.
#[test]
fn a_view_made_in_the_place_of_one_that_is_being_built_is_whole() {
    let slow = HookedDisk::new(Arc::new(MemoryDisk::new()), |operation, path| {
        if operation == Operation::Sync && path.components().any(|part| part.as_os_str() == "commitlog") {
            std::thread::sleep(Duration::from_millis(4));
        }
        Ok(())
    });
    let node = node_on(3, Arc::new(slow), Arc::new(SystemClock::new()));
    make_table(&node);
    for p in 0..60 {
        node.run(&format!(
            "INSERT INTO k.t (p, c, a, b) VALUES ({p}, 1, {}, 'b')",
            p % 7
        ));
    }
    for round in 0..30 {
        make_view(&node, &VIEWS[0]);
        std::thread::sleep(Duration::from_millis(2 * round));
        node.run("DROP MATERIALIZED VIEW k.by_a");
        make_view(&node, &VIEWS[0]);
        wait_built(&node, "by_a");
        check(&node, &[&VIEWS[0]], &format!("round {round}"));
        node.run("DROP MATERIALIZED VIEW k.by_a");
    }
}

#[test]
fn what_is_truncated_leaves_nothing_in_its_views() {
    let mut node = node_on(2, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    make_table(&node);
    let views = [&VIEWS[0], &VIEWS[1]];
    views.iter().for_each(|view| make_view(&node, view));
    views.iter().for_each(|view| wait_built(&node, view.name));
    for p in 0..20 {
        node.run(&format!("INSERT INTO k.t (p, c, a) VALUES ({p}, 1, 1)"));
    }
    node.run("TRUNCATE k.t");
    assert!(node.rows("SELECT p FROM k.by_a").is_empty());
    check(&node, &views, "truncated");
    views.iter().for_each(|view| wait_built(&node, view.name));
    node.run("INSERT INTO k.t (p, c, a) VALUES (1, 1, 1)");
    node.restart().unwrap();
    assert_eq!(node.rows("SELECT p FROM k.by_a").len(), 1);
    check(&node, &views, "after a restart");
}

/// Is what a truncation of the views' base table writes first: the list of the files that go.
fn is_list_of_base(operation: Operation, path: &Path) -> bool {
    let path = path.to_string_lossy();
    operation == Operation::Create && path.contains("/t-") && path.contains("/removal-")
}

/// A view that was made after a truncation had timed out was built from rows that went afterwards, and those that there were
/// already were not said to be built before the next start.
#[test]
fn a_truncation_that_ends_late_leaves_nothing_in_views() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let disk = HookedDisk::new(Arc::new(MemoryDisk::new()), move |operation, path| {
        if is_list_of_base(operation, path) {
            let _opened = gate.lock().unwrap().recv();
        }
        Ok(())
    });
    let mut options = options(2, Arc::new(disk), Arc::new(SystemClock::new()));
    options.truncate_request_timeout = Duration::from_millis(200);
    let node = TestNode::start(options).unwrap();
    make_table(&node);
    make_view(&node, &VIEWS[0]);
    wait_built(&node, VIEWS[0].name);
    for p in 0..20 {
        node.run(&format!("INSERT INTO k.t (p, c, a) VALUES ({p}, 1, 1)"));
    }
    node.operator().flush(None).unwrap();
    assert!(matches!(node.execute("TRUNCATE k.t"), Answer::Error { .. }));
    let create = format!("CREATE MATERIALIZED VIEW k.by_c AS {}", VIEWS[1].definition);
    let made = node.submit(&create, &Execution::default());
    std::thread::sleep(Duration::from_millis(300));
    drop(open);
    assert!(matches!(made.wait(), Some(Answer::SchemaChange)));
    let views = [&VIEWS[0], &VIEWS[1]];
    views.iter().for_each(|view| wait_built(&node, view.name));
    check(&node, &views, "truncated late");
    node.run("INSERT INTO k.t (p, c, a) VALUES (1, 1, 1)");
    assert_eq!(node.rows("SELECT p FROM k.by_c").len(), 1);
    check(&node, &views, "written to");
}

/// A truncation that was given up before all shards were held for it left them with different numbers of it: no view of the table was
/// built any more before the next start.
#[test]
fn a_truncation_that_is_given_up_keeps_no_view_from_being_built() {
    let gate = Arc::new(Mutex::new(()));
    let at_gate = gate.clone();
    let disk = HookedDisk::new(Arc::new(MemoryDisk::new()), move |operation, path| {
        if operation == Operation::Sync && path.to_string_lossy().contains("commitlog/shard-00000") {
            drop(at_gate.lock().unwrap());
        }
        Ok(())
    });
    let mut options = options(3, Arc::new(disk), Arc::new(SystemClock::new()));
    options.truncate_request_timeout = Duration::from_millis(200);
    let node = TestNode::start(options).unwrap();
    make_table(&node);
    make_view(&node, &VIEWS[0]);
    wait_built(&node, VIEWS[0].name);
    let hanging = gate.lock().unwrap();
    // Some of them have their partition on the shard whose log hangs.
    let writes: Vec<_> = (0..20)
        .map(|p| {
            let insert = format!("INSERT INTO k.t (p, c, a) VALUES ({p}, 1, 1)");
            node.submit(&insert, &Execution::default())
        })
        .collect();
    assert!(matches!(node.execute("TRUNCATE k.t"), Answer::Error { .. }));
    drop(hanging);
    writes.into_iter().for_each(|write| drop(write.wait()));
    make_view(&node, &VIEWS[1]);
    let views = [&VIEWS[0], &VIEWS[1]];
    views.iter().for_each(|view| wait_built(&node, view.name));
    check(&node, &views, "not truncated");
}

/// The views of a table that could not be truncated stayed empty until the next start.
#[test]
fn a_truncation_that_fails_leaves_views_as_their_base_makes_them() {
    let fails = Arc::new(AtomicBool::new(true));
    let until_mended = fails.clone();
    let disk = HookedDisk::new(Arc::new(MemoryDisk::new()), move |operation, path| {
        match is_list_of_base(operation, path) && until_mended.load(Ordering::Relaxed) {
            true => Err(io::Error::other("no")),
            false => Ok(()),
        }
    });
    let node = node_on(2, Arc::new(disk), Arc::new(SystemClock::new()));
    make_table(&node);
    let views = [&VIEWS[0], &VIEWS[1]];
    views.iter().for_each(|view| make_view(&node, view));
    views.iter().for_each(|view| wait_built(&node, view.name));
    for p in 0..20 {
        node.run(&format!("INSERT INTO k.t (p, c, a) VALUES ({p}, 1, 1)"));
    }
    node.operator().flush(None).unwrap();
    assert!(matches!(
        node.execute("TRUNCATE k.t"),
        Answer::Error {
            code: ErrorCode::TruncateError,
            ..
        }
    ));
    views.iter().for_each(|view| wait_built(&node, view.name));
    check(&node, &views, "not truncated");
    assert_eq!(node.rows("SELECT p FROM k.by_c").len(), 20);
    fails.store(false, Ordering::Relaxed);
    node.run("TRUNCATE k.t");
    check(&node, &views, "truncated");
    views.iter().for_each(|view| wait_built(&node, view.name));
}

#[test]
fn rows_of_views_expire_with_what_keeps_them() {
    let clock = Arc::new(ManualClock::starting_at(1_700_000_000_000_000));
    for seed in 200..206 {
        let node = node_on(2, Arc::new(MemoryDisk::new()), clock.clone());
        make_table(&node);
        let mut views: Vec<&View> = VIEWS.iter().collect();
        views.push(&PARTIAL);
        views.iter().for_each(|view| make_view(&node, view));
        let statements = Statements {
            random: SeededRandom::new(seed),
            has_old_timestamps: false,
            has_ttls: true,
            is_plain: false,
        };
        let mut history = Vec::new();
        for _ in 0..200 {
            let statement = statements.next();
            history.push(statement.clone());
            node.run(&statement);
            let seconds = statements.below(4);
            history.push(format!("{seconds} s later"));
            clock.advance_s(seconds);
            check(&node, &views, &format!("seed {seed}: {history:#?}"));
        }
    }
}

fn crashing_options(disk: &Arc<SimulatedDisk>, shards: u16) -> NodeOptions {
    options(
        shards,
        disk.clone() as Arc<dyn Disk>,
        Arc::new(SystemClock::new()),
    )
}

#[test]
fn a_crash_leaves_views_as_their_base_makes_them() {
    for seed in 300..306 {
        let disk = Arc::new(SimulatedDisk::new(seed));
        let shards = 2 + (seed % 2) as u16;
        let mut node = TestNode::start(crashing_options(&disk, shards)).unwrap();
        make_table(&node);
        let views: Vec<&View> = VIEWS.iter().collect();
        views[..2].iter().for_each(|view| make_view(&node, view));
        let statements = Statements {
            random: SeededRandom::new(seed),
            has_old_timestamps: true,
            has_ttls: false,
            is_plain: false,
        };
        for round in 0..6 {
            if round == 3 {
                // A crash in the middle of their building.
                views[2..].iter().for_each(|view| make_view(&node, view));
            } else {
                for _ in 0..30 {
                    node.run(&statements.next());
                }
            }
            let pending: Vec<_> = (0..8)
                .map(|_| node.submit(&statements.next(), &on_any_shard(&statements.random, shards)))
                .collect();
            node.crash();
            drop(pending);
            disk.crash();
            node.start_again().unwrap();
            let known = if round < 3 { &views[..2] } else { &views[..] };
            known.iter().for_each(|view| wait_built(&node, view.name));
            check(&node, known, &format!("seed {seed}, round {round}"));
        }
    }
}

#[test]
fn a_deletion_of_many_rows_reaches_the_view() {
    let node = node_on(2, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    make_table(&node);
    make_view(&node, &VIEWS[0]);
    for first in (0..3_000).step_by(100) {
        let rows = (first..first + 100)
            .map(|c| format!("INSERT INTO k.t (p, c, a, b) VALUES (1, {c}, {}, 'b');", c % 9));
        let rows: String = rows.collect();
        node.run(&format!("BEGIN UNLOGGED BATCH {rows} APPLY BATCH"));
    }
    check(&node, &[&VIEWS[0]], "before");
    node.run("DELETE FROM k.t WHERE p = 1 AND c >= 1000 AND c < 2000");
    check(&node, &[&VIEWS[0]], "a range");
    assert_eq!(node.rows("SELECT p FROM k.by_a").len(), 2_000);
    node.run("DELETE FROM k.t WHERE p = 1");
    assert!(node.rows("SELECT p FROM k.by_a").is_empty());
}

/// The larger of two values of the same time stays, wherever it lies: what memory has of a row is not all of it where a file
/// has something as old.
#[test]
fn a_file_as_old_as_the_row_in_memory_counts() {
    let node = node_on(1, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    make_table_with(&node, "m int");
    let views = [&VIEWS[0]];
    views.iter().for_each(|view| make_view(&node, view));
    insert_as_old(&node, 2);
    node.operator().flush(None).unwrap();
    insert_as_old(&node, 1);
    check(&node, &views, "the larger one is in the file");
    node.run("UPDATE k.t USING TIMESTAMP 11 SET a = 0 WHERE p = 0 AND c = 0");
    check(&node, &views, "it has moved from where the file had it");
}

/// As above, for a memtable whose flush has begun and hangs.
#[test]
fn a_sealed_memtable_as_old_as_the_row_in_memory_counts() {
    let (began, begun) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let held = Mutex::new(Some((began, gate)));
    let disk = HookedDisk::new(Arc::new(MemoryDisk::new()), move |operation, path| {
        let is_file = path.to_string_lossy().ends_with("-Data.db");
        let is_of_base = path.to_string_lossy().contains("/t-");
        if operation == Operation::Create && is_file && is_of_base {
            // The first one only: nothing else waits at the gate.
            if let Some((began, gate)) = held.lock().unwrap().take() {
                began.send(()).unwrap();
                let _opened = gate.recv();
            }
        }
        Ok(())
    });
    let node = node_on(1, Arc::new(disk), Arc::new(SystemClock::new()));
    make_table_with(&node, "m int");
    let views = [&VIEWS[0]];
    views.iter().for_each(|view| make_view(&node, view));
    insert_as_old(&node, 2);
    std::thread::scope(|scope| {
        let operator = node.operator();
        let flush = scope.spawn(move || operator.flush(None));
        begun.recv_timeout(Duration::from_secs(20)).unwrap();
        insert_as_old(&node, 1);
        check(&node, &views, "the larger one is in the sealed memtable");
        node.run("UPDATE k.t USING TIMESTAMP 11 SET a = 0 WHERE p = 0 AND c = 0");
        check(
            &node,
            &views,
            "it has moved from where the sealed memtable had it",
        );
        // A panic before drops it, which opens the gate as well.
        drop(open);
        flush.join().unwrap().unwrap();
    });
    check(&node, &views, "flushed");
}

fn insert_as_old(node: &TestNode, a: i32) {
    node.run(&format!(
        "INSERT INTO k.t (p, c, a, b, m, x) VALUES (0, 0, {a}, 'b', 1, 1) USING TIMESTAMP 10"
    ));
}

/// The one of two markers of the same time that expires stays, in the view as in the base row, whose cells stay.
#[test]
fn a_marker_that_takes_the_place_of_one_as_old_does_so_in_the_view() {
    for columns in ["", ", b"] {
        let clock = Arc::new(ManualClock::starting_at(1_700_000_000_000_000));
        let node = node_on(1, Arc::new(MemoryDisk::new()), clock.clone());
        make_table_with(&node, "m int");
        let views = [&VIEWS[1]];
        views.iter().for_each(|view| make_view(&node, view));
        let value = if columns.is_empty() { "" } else { ", 'b'" };
        node.run(&format!(
            "INSERT INTO k.t (p, c{columns}) VALUES (0, 0{value}) USING TIMESTAMP 5"
        ));
        node.run("INSERT INTO k.t (p, c) VALUES (0, 0) USING TIMESTAMP 5 AND TTL 100");
        check(&node, &views, "before its time is over");
        clock.advance_s(101);
        check(&node, &views, "after it");
        let left = usize::from(!columns.is_empty());
        assert_eq!(node.rows("SELECT p FROM k.by_c").len(), left, "{columns}");
    }
}

/// A value that a row lost as it left its place in a view was back when the row came back there, where a compaction of the base
/// table had dropped the tombstone meanwhile.
#[test]
fn what_a_row_lost_as_it_left_a_view_stays_lost() {
    for leaves in [
        "UPDATE k.t SET a = 2, b = null WHERE p = 0 AND c = 0",
        "DELETE a, b FROM k.t WHERE p = 0 AND c = 0",
        "DELETE FROM k.t WHERE p = 0 AND c = 0",
        "DELETE FROM k.t WHERE p = 0",
        "UPDATE k.t USING TTL 1 SET a = 2, b = 'z' WHERE p = 0 AND c = 0",
    ] {
        for is_flushed in [false, true] {
            let clock = Arc::new(ManualClock::starting_at(1_700_000_000_000_000));
            let node = node_on(1, Arc::new(MemoryDisk::new()), clock.clone());
            make_table_with(&node, "m int");
            node.run("ALTER TABLE k.t WITH gc_grace_seconds = 1");
            let views = [&VIEWS[0], &VIEWS[2]];
            views.iter().for_each(|view| make_view(&node, view));
            node.run("INSERT INTO k.t (p, c, a, b, m, x) VALUES (0, 0, 1, 'x', 1, 1)");
            if is_flushed {
                node.operator().flush(None).unwrap();
            }
            clock.advance_s(5);
            node.run(leaves);
            clock.advance_s(5);
            let operator = node.operator();
            let table = operator.schema().unwrap().table("k", "t").unwrap().id;
            operator.flush(Some(table)).unwrap();
            let kind = CompactionKind::Major { split_output: false };
            operator.compact(CompactionRequest { table, kind }).unwrap();
            node.run("UPDATE k.t SET a = 1 WHERE p = 0 AND c = 0");
            check(&node, &views, &format!("{leaves}, flushed: {is_flushed}"));
        }
    }
}

#[test]
fn nobody_writes_to_a_view() {
    let node = TestNode::with_shards(1);
    make_table(&node);
    make_view(&node, &VIEWS[0]);
    for statement in [
        "INSERT INTO k.by_a (a, p, c) VALUES (1, 1, 1)",
        "UPDATE k.by_a SET b = 'b' WHERE a = 1 AND p = 1 AND c = 1",
        "DELETE FROM k.by_a WHERE a = 1",
        "TRUNCATE k.by_a",
        "INSERT INTO system.built_views (keyspace_name, view_name) VALUES ('k', 'by_a')",
        "TRUNCATE system.built_views",
    ] {
        match node.execute(statement) {
            Answer::Error { code, .. } => assert_eq!(code, ErrorCode::Invalid, "{statement}"),
            other => panic!("{statement}: {other:?}"),
        }
    }
}

/// A view that was made again after the clock had been set back was never said to be built, nor one whose base was truncated.
#[test]
fn a_view_is_built_whatever_the_clock_was_set_to() {
    const LATER_US: i64 = 1_700_000_000_000_000;
    const EARLIER_US: i64 = LATER_US - 86_400_000_000;
    let disk = Arc::new(MemoryDisk::new());
    let mut node = node_on(2, disk.clone(), Arc::new(ManualClock::starting_at(LATER_US)));
    make_table(&node);
    for view in &VIEWS[..2] {
        make_view(&node, view);
        wait_built(&node, view.name);
    }
    node.run("TRUNCATE k.t");
    node.run("DROP MATERIALIZED VIEW k.by_c");
    node.stop();
    let node = node_on(2, disk, Arc::new(ManualClock::starting_at(EARLIER_US)));
    make_view(&node, &VIEWS[1]);
    wait_built(&node, "by_c");
    node.run("TRUNCATE k.t");
    wait_built(&node, "by_a");
    let status = node.rows(
        "SELECT status FROM system_distributed.view_build_status WHERE keyspace_name = 'k' AND view_name = 'by_c'",
    );
    assert_eq!(status, [[Some(b"SUCCESS".to_vec())]]);
}

/// "schema.cql makes no table": a snapshot of a keyspace with a view was restored up to the view, and no further.
#[test]
fn a_snapshot_of_a_keyspace_with_a_view_is_restored() {
    let node = node_on(2, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    make_table(&node);
    make_view(&node, &VIEWS[0]);
    wait_built(&node, VIEWS[0].name);
    for p in 0..10 {
        node.run(&format!(
            "INSERT INTO k.t (p, c, a, b) VALUES ({p}, 0, {}, 'x')",
            p % 3
        ));
    }
    let tables = TableChoice::of(Some("k"), None);
    snapshot::create(&node.operator(), &tables, "before", None, &Silent).unwrap();
    node.run("UPDATE k.t SET a = 7 WHERE p = 1 AND c = 0");
    let restored = snapshot::restore(&node.operator(), &tables, "before", Incumbents::Go, &Silent).unwrap();
    assert_eq!(restored.len(), 2);
    assert_eq!(node.rows("SELECT p FROM k.t").len(), 10);
    assert!(node.rows("SELECT p FROM k.by_a WHERE a = 7").is_empty());
    check(&node, &VIEWS[..1].iter().collect::<Vec<_>>(), "restored");
}

#[test]
fn an_operator_is_told_how_far_views_are_built() {
    let node = node_on(2, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    make_table(&node);
    assert_eq!(node.operator().view_builds().unwrap(), []);
    for view in &VIEWS[..2] {
        make_view(&node, view);
    }
    let builds = node.operator().view_builds().unwrap();
    let names: Vec<(&str, &str, &str)> = builds
        .iter()
        .map(|build| (&*build.keyspace, &*build.view, &*build.base))
        .collect();
    assert_eq!(names, [("k", "by_a", "t"), ("k", "by_c", "t")]);
    for view in &VIEWS[..2] {
        wait_built(&node, view.name);
    }
    let builds = node.operator().view_builds().unwrap();
    assert!(
        builds
            .iter()
            .all(|build| build.is_built && build.per_mille == 1_000)
    );
    // One that is not there is told of; a table is no view.
    let views = |table: &str| {
        let tables = TableChoice::of(Some("k"), Some(table));
        control::execute(
            &node.operator(),
            &control::Request::ViewStatus { tables },
            &Silent,
        )
    };
    assert!(matches!(views("by_c"), Ok(control::Answer::Views(views)) if views.len() == 1));
    assert!(matches!(views("t"), Ok(control::Answer::Views(views)) if views.is_empty()));
    assert!(views("none").is_err());
}
