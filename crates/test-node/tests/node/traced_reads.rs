//! Reads of a traced request, as the parameters of its trace tell them.

use std::sync::Arc;

use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{ManualClock, MemoryDisk};

const ROWS: i32 = 50;

fn node(shards: u16) -> TestNode {
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    let node = TestNode::start(options(shards, Arc::new(MemoryDisk::new()), clock)).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    for p in 0..ROWS {
        node.run(&format!("INSERT INTO k.t (p, v) VALUES ({p}, {})", p % 10));
    }
    node
}

/// Trace of a statement that shard 0 is asked.
struct Trace<'n> {
    node: &'n TestNode,
    id: String,
}

impl Trace<'_> {
    fn of<'n>(node: &'n TestNode, text: &str) -> Trace<'n> {
        let (answer, id) = node.execute_traced(text);
        assert!(matches!(answer, Answer::Rows(_)), "{answer:?}");
        let id = id.unwrap().map(|byte| format!("{byte:02x}")).concat();
        let id = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-");
        Trace { node, id }
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let sessions = self.node.rows(&format!(
            "SELECT parameters['{name}'] FROM system_traces.sessions WHERE session_id = {}",
            self.id
        ));
        let value = sessions[0][0].clone()?;
        Some(String::from_utf8(value).unwrap())
    }

    fn count(&self, name: &str) -> u64 {
        self.parameter(name).unwrap().parse().unwrap()
    }
}

#[test]
fn rows_of_all_shards_are_counted_and_those_of_other_requests_are_not() {
    let node = node(2);
    node.run("DELETE FROM k.t WHERE p = 3");
    let scan = "SELECT count(*) FROM k.t";
    for _ in 0..2 {
        assert!(matches!(node.execute(scan), Answer::Rows(_)));
        let trace = Trace::of(&node, scan);
        assert_eq!(trace.parameter("query").as_deref(), Some(scan));
        assert_eq!(trace.count("rows_read"), ROWS as u64 - 1);
        assert_eq!(trace.count("tombstones_read"), 1);
        assert_eq!(trace.count("sstables_opened"), 0);
        assert_eq!(trace.parameter("indexes"), None);
    }
    // Wherever the partition is.
    for p in 10..20 {
        let trace = Trace::of(&node, &format!("SELECT v FROM k.t WHERE p = {p}"));
        assert_eq!(trace.count("rows_read"), 1, "{p}");
        assert_eq!(trace.count("disk_reads"), 0, "{p}");
    }
}

#[test]
fn reads_of_the_disk_are_counted_and_what_is_in_memory_the_next_time_is_a_hit() {
    let node = node(1);
    node.operator().flush(None).unwrap();
    node.on_shard(0, |shard| shard.clear_caches());
    let text = "SELECT v FROM k.t WHERE p = 7";
    let cold = Trace::of(&node, text);
    assert_eq!(cold.count("rows_read"), 1);
    assert_eq!(cold.count("sstables_opened"), 1);
    assert!(cold.count("disk_reads") > 0 && cold.count("disk_read_bytes") > 0);
    assert!(cold.count("data_page_misses") > 0);
    let warm = Trace::of(&node, text);
    assert_eq!(warm.count("rows_read"), 1);
    assert_eq!(warm.count("disk_reads"), 0);
    assert_eq!(warm.count("row_cache_hits"), 1);
}

#[test]
fn indexes_that_are_asked_are_named() {
    let node = node(2);
    node.run("CREATE INDEX by_v ON k.t (v)");
    let execution = Execution::default();
    let text = "SELECT p FROM k.t WHERE v = 4";
    // The index has all rows once a read by it is allowed.
    for _ in 0..1_000 {
        if matches!(node.execute_with(text, &execution), Answer::Rows(_)) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let trace = Trace::of(&node, text);
    assert_eq!(trace.parameter("indexes").as_deref(), Some("by_v"));
    assert_eq!(trace.count("rows_read"), 5);
    assert!(trace.count("index_reads") > 0);
    assert_eq!(trace.parameter("indexes_left_out"), None);
}

/// One row is looked at sooner than another index is asked about it, unless the statement says so.
#[test]
fn indexes_that_are_left_out_are_named() {
    let node = node(1);
    node.run("CREATE TABLE k.u (p int PRIMARY KEY, v int, w int)");
    node.run("CREATE INDEX by_v ON k.u (v) USING 'sai'");
    node.run("CREATE INDEX by_w ON k.u (w) USING 'sai'");
    for p in 0..ROWS {
        node.run(&format!("INSERT INTO k.u (p, v, w) VALUES ({p}, {p}, {})", p % 2));
    }
    let one = "SELECT p FROM k.u WHERE v = 7 AND w > 0";
    for (hints, asked, left_out) in [
        ("", "by_v", Some("by_w")),
        (" WITH included_indexes = {by_w}", "by_v, by_w", None),
        (" ALLOW FILTERING WITH excluded_indexes = {by_v}", "by_w", None),
        (" WITH included_indexes = {by_v}", "by_v, by_w", None),
    ] {
        let text = format!("{one}{hints}");
        assert_eq!(node.rows(&text).len(), 1, "{text}");
        let trace = Trace::of(&node, &text);
        assert_eq!(trace.parameter("indexes").as_deref(), Some(asked), "{text}");
        assert_eq!(trace.parameter("indexes_left_out").as_deref(), left_out, "{text}");
    }
    // Five rows are worth eighty places of a range.
    for p in ROWS..200 {
        node.run(&format!("INSERT INTO k.u (p, v, w) VALUES ({p}, {p}, {p})"));
    }
    for p in 0..200 {
        node.run(&format!(
            "INSERT INTO k.u (p, v, w) VALUES ({p}, {}, {p})",
            p % 40
        ));
    }
    for (from, asked, left_out) in [(150, "by_v, by_w", None), (50, "by_v", Some("by_w"))] {
        let text = format!("SELECT p FROM k.u WHERE v = 7 AND w >= {from}");
        let trace = Trace::of(&node, &text);
        assert_eq!(trace.parameter("indexes").as_deref(), Some(asked), "{text}");
        assert_eq!(trace.parameter("indexes_left_out").as_deref(), left_out, "{text}");
    }
}

/// An index of vectors that says how many are kept in sight has no more rows read than that. Of the usual 31 rows 496 were counted, for
/// each all before it once more.
#[test]
fn a_named_search_beam_is_kept_to() {
    let node = node(1);
    for (table, options) in [
        ("usual", "'similarity_function': 'cosine'"),
        (
            "narrow",
            "'similarity_function': 'cosine', 'search_beam_width': '22'",
        ),
    ] {
        node.run(&format!(
            "CREATE TABLE k.{table} (p int PRIMARY KEY, v vector<float, 2>)"
        ));
        node.run(&format!(
            "CREATE CUSTOM INDEX ON k.{table} (v) USING 'vector_index' WITH OPTIONS = {{{options}}}"
        ));
        for p in 0..200 {
            node.run(&format!("INSERT INTO k.{table} (p, v) VALUES ({p}, [{p}, 1])"));
        }
    }
    for (table, expected) in [("usual", 31), ("narrow", 22)] {
        let text = format!("SELECT p FROM k.{table} ORDER BY v ANN OF [9, 1] LIMIT 10");
        assert_eq!(node.rows(&text).len(), 10);
        assert_eq!(Trace::of(&node, &text).count("rows_read"), expected, "{table}");
    }
}

#[test]
fn no_index_is_asked_where_all_are_excluded() {
    let node = node(1);
    node.run("CREATE INDEX by_v ON k.t (v) USING 'sai'");
    let none = "SELECT p FROM k.t WHERE v = 7 ALLOW FILTERING WITH excluded_indexes = {*}";
    assert_eq!(node.rows(none).len(), 5);
    let trace = Trace::of(&node, none);
    assert_eq!(trace.parameter("indexes"), None);
    assert_eq!(trace.count("rows_read"), ROWS as u64);
}
