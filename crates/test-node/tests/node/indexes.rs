//! Secondary indexes of a whole node: what they find through everything that happens to their table, and what is told of one
//! that is being made.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use helenus_node::TombstoneLimits;
use helenus_protocol::ErrorCode;
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{Answer, HookedDisk, TestNode, options};
use helenus_tools::host::{Host, Incumbents, TableChoice};
use helenus_tools::progress::Silent;
use helenus_tools::snapshot;
use helenus_vfs::{Disk, MemoryDisk, Operation, SystemClock};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const COLUMNS: &str = "p int, c int, s int static, v int, w text, l list<int>, m map<text, int>";
const INDEXES: [&str; 7] = [
    "v_legacy ON k.t (v)",
    "v_attached ON k.t (v) USING 'sai'",
    "w_attached ON k.t (w) USING 'sai'",
    "s_legacy ON k.t (s)",
    "l_legacy ON k.t (l)",
    "m_attached ON k.t (entries(m)) USING 'sai'",
    "c_attached ON k.t (c) USING 'sai'",
];
/// Conditions that the indexes serve without leave to filter.
const CONDITIONS: [&str; 12] = [
    "v = 3",
    "v > 20",
    "v >= 5 AND v < 8",
    "w = 'w2'",
    "w = 'w2' AND v > 10",
    "s = 1",
    "l CONTAINS 3",
    "m['a'] = 4",
    "c = 2",
    "c > 1 AND v = 6",
    "p = 4 AND v = 6",
    "token(p) > 0 AND v = 7",
];
/// A build of a few hundred rows takes milliseconds.
const BUILD_PATIENCE: Duration = Duration::from_secs(20);

type Rows = Vec<Vec<Option<Vec<u8>>>>;

fn start(disk: Arc<dyn Disk>, shard_count: u16) -> TestNode {
    TestNode::start(options(shard_count, disk, Arc::new(SystemClock::new()))).unwrap()
}

fn make_tables(node: &TestNode) {
    node.run(KEYSPACE);
    for table in ["t", "plain"] {
        node.run(&format!("CREATE TABLE k.{table} ({COLUMNS}, PRIMARY KEY (p, c))"));
    }
}

fn both(node: &TestNode, statement: impl Fn(&str) -> String) {
    node.run(&statement("k.t"));
    node.run(&statement("k.plain"));
}

fn fill(node: &TestNode, partitions: std::ops::Range<i32>) {
    for p in partitions {
        both(node, |table| {
            format!("INSERT INTO {table} (p, c, s) VALUES ({p}, 0, {})", p % 4)
        });
        for c in 0..4 {
            let v = (p * 7 + c * 3) % 31;
            both(node, |table| {
                format!(
                    "INSERT INTO {table} (p, c, v, w, l, m) VALUES ({p}, {c}, {v}, 'w{}', [{}, {c}], {{'a': {}}})",
                    v % 5,
                    v % 6,
                    v % 9
                )
            });
        }
    }
}

fn make_indexes(node: &TestNode) {
    for index in INDEXES {
        node.run(&format!("CREATE INDEX {index}"));
    }
}

fn built(node: &TestNode) -> BTreeSet<String> {
    let rows = node.rows("SELECT index_name FROM system.\"IndexInfo\" WHERE table_name = 'k'");
    let names = rows.into_iter().filter_map(|mut row| row.remove(0));
    names.map(|name| String::from_utf8(name).unwrap()).collect()
}

fn wait_until_built(node: &TestNode, when: &str) {
    let begun = Instant::now();
    while built(node).len() < INDEXES.len() {
        assert!(
            begun.elapsed() < BUILD_PATIENCE,
            "{when}, built: {:?}",
            built(node)
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn rows_where(node: &TestNode, table: &str, condition: &str) -> Rows {
    let leave = if table == "t" { "" } else { " ALLOW FILTERING" };
    node.rows(&format!("SELECT * FROM k.{table} WHERE {condition}{leave}"))
}

/// The table with indexes answers as the one without.
fn check(node: &TestNode, when: &str) {
    wait_until_built(node, when);
    let mut found = 0;
    for condition in CONDITIONS {
        let rows = rows_where(node, "t", condition);
        assert_eq!(rows, rows_where(node, "plain", condition), "{when}: {condition}");
        found += rows.len();
    }
    assert!(found > 0 || when.contains("empty"), "{when}");
}

fn flush(node: &TestNode) {
    node.operator().flush(None).unwrap();
}

fn compact(node: &TestNode) {
    let operator = node.operator();
    let table = operator.schema().unwrap().table("k", "t").unwrap().id;
    let kind = CompactionKind::Major { split_output: false };
    operator.compact(CompactionRequest { table, kind }).unwrap();
}

fn change(node: &TestNode) {
    for p in 0..10 {
        both(node, |table| {
            format!("UPDATE {table} SET v = 6, w = 'w2' WHERE p = {p} AND c = 1")
        });
        both(node, |table| {
            format!("DELETE v FROM {table} WHERE p = {p} AND c = 2")
        });
        both(node, |table| {
            format!("DELETE FROM {table} WHERE p = {p} AND c = 3")
        });
        both(node, |table| {
            format!("UPDATE {table} SET l = l + [3], m['a'] = 4, s = 1 WHERE p = {p} AND c = 1")
        });
    }
    both(node, |table| format!("DELETE FROM {table} WHERE p = 11"));
}

#[test]
fn indexes_live_through_what_happens_to_their_table() {
    for shard_count in [1, 3] {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let mut node = start(disk.clone(), shard_count);
        make_tables(&node);
        fill(&node, 0..20);
        flush(&node);
        fill(&node, 20..25);
        make_indexes(&node);
        check(&node, "made on an SSTable and a memtable");
        change(&node);
        check(&node, "changed");
        flush(&node);
        check(&node, "flushed");
        node.restart().unwrap();
        check(&node, "restarted");
        fill(&node, 25..30);
        node.crash();
        node.start_again().unwrap();
        check(&node, "replayed");
        compact(&node);
        check(&node, "compacted");
        both(&node, |table| format!("ALTER TABLE {table} RENAME p TO q"));
        both(&node, |table| format!("ALTER TABLE {table} RENAME q TO p"));
        check(&node, "renamed");

        let tables = TableChoice::of(Some("k"), None);
        snapshot::create(&node.operator(), &tables, "before", None, &Silent).unwrap();
        both(&node, |table| format!("TRUNCATE {table}"));
        check(&node, "empty");
        fill(&node, 3..6);
        check(&node, "filled again");
        let restore = Incumbents::Stay;
        snapshot::restore(&node.operator(), &tables, "before", restore, &Silent).unwrap();
        check(&node, "restored");

        node.stop();
        let node = start(disk, shard_count % 3 + 1);
        check(&node, "on another number of shards");
        for index in INDEXES {
            let name = index.split(' ').next().unwrap_or_default();
            node.run(&format!("DROP INDEX k.{name}"));
        }
        assert!(built(&node).is_empty());
        make_indexes(&node);
        check(&node, "made again");
    }
}

/// A snapshot's text says which indexes its table has.
#[test]
fn a_table_that_was_dropped_comes_back_with_its_indexes() {
    let node = start(Arc::new(MemoryDisk::new()), 2);
    make_tables(&node);
    make_indexes(&node);
    fill(&node, 0..5);
    let tables = TableChoice::of(Some("k"), Some("t"));
    snapshot::create(&node.operator(), &tables, "kept", None, &Silent).unwrap();
    node.run("DROP TABLE k.t");
    assert!(built(&node).is_empty());
    snapshot::restore(&node.operator(), &tables, "kept", Incumbents::Stay, &Silent).unwrap();
    check(&node, "dropped and restored");
}

/// Without its index the read would pass all of these tombstones.
#[test]
fn rows_are_looked_for_and_not_filtered_out() {
    let mut options = options(2, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.tombstones = TombstoneLimits { warn: 20, fail: 40 };
    let node = TestNode::start(options).unwrap();
    make_tables(&node);
    make_indexes(&node);
    fill(&node, 0..3);
    for p in 10..60 {
        both(&node, |table| {
            format!("DELETE FROM {table} WHERE p = {p} AND c = 1")
        });
        both(&node, |table| {
            format!("DELETE v FROM {table} WHERE p = {p} AND c = 2")
        });
    }
    for is_flushed in [false, true] {
        if is_flushed {
            flush(&node);
        }
        wait_until_built(&node, if is_flushed { "flushed" } else { "filled" });
        let scan = node.execute("SELECT * FROM k.plain WHERE v = 6 ALLOW FILTERING");
        assert!(
            matches!(
                scan,
                Answer::Error {
                    code: ErrorCode::ReadFailure,
                    ..
                }
            ),
            "{scan:?}"
        );
        for condition in [
            "v = 6",
            "v > 5 AND v < 9",
            "w = 'w1'",
            "m['a'] = 6",
            "l CONTAINS 3",
            "c = 3",
        ] {
            assert!(!rows_where(&node, "t", condition).is_empty(), "{condition}");
        }
    }
}

/// The terms of a list of 65,000 numbers held their shard for 4 ms. A row with more than some thousand may match anything while it is in a
/// memtable: it is found by each of its elements, and by nothing else.
#[test]
fn a_row_with_more_elements_than_a_memtable_has_terms_for_is_found_by_each_of_them() {
    let node = start(Arc::new(MemoryDisk::new()), 1);
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.large (p int, c int, l list<int>, PRIMARY KEY (p, c))");
    node.run("CREATE INDEX ON k.large (l) USING 'sai'");
    let elements = (0..10_000).map(|element| element.to_string());
    let list = elements.collect::<Vec<_>>().join(", ");
    node.run(&format!("INSERT INTO k.large (p, c, l) VALUES (1, 1, [{list}])"));
    node.run("INSERT INTO k.large (p, c, l) VALUES (1, 2, [7, 20000])");
    for when in ["in a memtable", "in a file"] {
        let found = |element: i32| {
            let contained = node.rows(&format!("SELECT c FROM k.large WHERE l CONTAINS {element}"));
            contained.len()
        };
        let counts = [0, 7, 9_999, 10_000, 20_000].map(found);
        assert_eq!(counts, [1, 2, 1, 0, 1], "{when}");
        flush(&node);
    }
}

#[test]
fn an_index_that_is_being_made_is_not_available() {
    let is_stuck = Arc::new(AtomicBool::new(true));
    let memory: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let stuck = Arc::clone(&is_stuck);
    let is_terms = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("index-")
    };
    let disk = HookedDisk::new(Arc::clone(&memory), move |operation, path| {
        match operation == Operation::Create && is_terms(path) && stuck.load(Ordering::Relaxed) {
            true => Err(io::Error::other("injected")),
            false => Ok(()),
        }
    });
    let mut node = start(Arc::new(disk), 1);
    make_tables(&node);
    fill(&node, 0..5);
    flush(&node);
    make_indexes(&node);
    assert!(built(&node).is_empty());
    let building = node.rows(
        "SELECT is_building, is_queryable FROM system_views.sai_column_indexes WHERE keyspace_name = 'k' AND \
         index_name = 'v_attached'",
    );
    assert_eq!(building, [[Some(vec![1]), Some(vec![0])]]);
    for condition in ["v = 3", "v > 20", "c = 2", "p = 4 AND v = 6"] {
        let refused = node.execute(&format!("SELECT * FROM k.t WHERE {condition}"));
        let Answer::Error { code, message } = refused else {
            panic!("{condition}: {refused:?}")
        };
        assert_eq!(code, ErrorCode::ReadFailure);
        let wanted =
            "Operation failed - received 0 responses and 1 failures: INDEX_NOT_AVAILABLE from 127.0.0.1";
        assert_eq!(message, wanted);
        let leave = "ALLOW FILTERING";
        assert_eq!(
            node.rows(&format!("SELECT * FROM k.t WHERE {condition} {leave}")),
            rows_where(&node, "plain", condition)
        );
    }
    is_stuck.store(false, Ordering::Relaxed);
    node.restart().unwrap();
    check(&node, "once it could be made");
}

/// A shard whose index was not made while another one had the only compactor never made it: nothing told it that the
/// compactor was free again, and a node that synchronizes its log in groups looked for work only when it was told.
#[test]
fn an_index_is_made_once_another_shard_gives_its_compactor_back() {
    let is_held = Arc::new(AtomicBool::new(true));
    let held = Arc::clone(&is_held);
    let disk = HookedDisk::new(Arc::new(MemoryDisk::new()), move |operation, path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        while operation == Operation::Create && name.starts_with("index-") && held.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    let mut options = options(2, Arc::new(disk), Arc::new(SystemClock::new()));
    options.compaction.concurrent_compactors = Some(1);
    let node = TestNode::start(options).unwrap();
    make_tables(&node);
    fill(&node, 0..10);
    flush(&node);
    make_indexes(&node);
    // Each shard has looked for work since: one builds, and the other found no compactor.
    for _ in 0..10 {
        for shard in 0..2 {
            node.on_shard(shard, |shard| shard.persistence.schedule_turn());
        }
    }
    assert!(built(&node).is_empty());
    is_held.store(false, Ordering::Relaxed);
    check(&node, "with one compactor for both shards");
}

/// A shard's count of reads by an index, as a check of indexes believes it.
#[test]
fn reads_by_an_index_are_counted_and_scans_are_not() {
    let node = start(Arc::new(MemoryDisk::new()), 1);
    make_tables(&node);
    fill(&node, 0..10);
    make_indexes(&node);
    wait_until_built(&node, "before they are asked");
    let counted = |text: &str| {
        let count = || node.on_shard(0, |shard| shard.metrics_snapshot().index_reads);
        let before = count();
        node.rows(text);
        count() - before
    };
    assert_eq!(counted("SELECT * FROM k.t WHERE v = 3"), 1);
    assert_eq!(counted("SELECT * FROM k.t WHERE v >= 5 AND v < 8"), 1);
    flush(&node);
    assert_eq!(counted("SELECT * FROM k.t WHERE v = 3"), 1);
    for scan in [
        "SELECT * FROM k.t",
        "SELECT * FROM k.t WHERE m CONTAINS KEY 'a' ALLOW FILTERING",
        "SELECT * FROM k.plain WHERE v = 3 ALLOW FILTERING",
        "SELECT * FROM k.t WHERE p = 3 AND c = 1",
    ] {
        assert_eq!(counted(scan), 0, "{scan}");
    }
}
