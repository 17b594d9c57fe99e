//! Columns that are dropped and come back: what is newer than their deletion is there again, as in Cassandra 5.0.

use std::sync::Arc;

use helenus_node::SsTableFormat;
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{MemoryDisk, SystemClock};

const WRITES: [&str; 7] = [
    "INSERT INTO k.t (p, c, v) VALUES (1, 1, 'old') USING TIMESTAMP 100",
    "INSERT INTO k.t (p, c, v) VALUES (1, 2, 'new') USING TIMESTAMP 1000",
    "UPDATE k.t USING TIMESTAMP 100 SET m = m + {1: 'old'} WHERE p = 1 AND c = 1",
    "UPDATE k.t USING TIMESTAMP 1000 SET m = m + {2: 'new'} WHERE p = 1 AND c = 1",
    "UPDATE k.t USING TIMESTAMP 1000 SET s = 'static' WHERE p = 1",
    "UPDATE k.t USING TIMESTAMP 1000 SET v = 'alone' WHERE p = 2 AND c = 1",
    "UPDATE k.t USING TIMESTAMP 100 SET v = 'never' WHERE p = 3 AND c = 1",
];

const ADDITIONS: [&str; 3] = [
    "ALTER TABLE k.t ADD v text",
    "ALTER TABLE k.t ADD m map<int, text>",
    "ALTER TABLE k.t ADD s text static",
];

const COLUMNS: &str = "p, c, v, m, s";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Nothing,
    Flush,
    FlushAndRestart,
    Compact,
    Crash,
}

const EVENTS: [Event; 5] = [
    Event::Nothing,
    Event::Flush,
    Event::FlushAndRestart,
    Event::Compact,
    Event::Crash,
];

fn node(format: SsTableFormat) -> TestNode {
    let mut options = options(1, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.sstable_format = format;
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    let columns = "p int, c int, v text, m map<int, text>, s text static, w int";
    node.run(&format!("CREATE TABLE k.t ({columns}, PRIMARY KEY (p, c))"));
    node
}

fn happen(node: &mut TestNode, event: Event) {
    let table = node.operator().schema().unwrap().table("k", "t").unwrap().id;
    match event {
        Event::Nothing => {}
        Event::Flush => node.operator().flush(None).unwrap(),
        Event::FlushAndRestart => {
            node.operator().flush(None).unwrap();
            node.restart().unwrap();
        }
        Event::Compact => {
            node.operator().flush(None).unwrap();
            let kind = CompactionKind::Major { split_output: false };
            node.operator()
                .compact(CompactionRequest { table, kind })
                .unwrap();
        }
        Event::Crash => {
            node.crash();
            node.start_again().unwrap();
        }
    }
}

fn rows(node: &TestNode, columns: &str, restrictions: &str) -> Vec<String> {
    let rows = node.rows(&format!("SELECT {columns} FROM k.t{restrictions}"));
    let text = |value: &Option<Vec<u8>>| match value {
        None => "null".to_owned(),
        Some(bytes) => bytes.escape_ascii().to_string(),
    };
    rows.iter()
        .map(|row| row.iter().map(text).collect::<Vec<_>>().join("|"))
        .collect()
}

fn all(node: &TestNode) -> Vec<String> {
    rows(node, COLUMNS, "")
}

/// Symptom: `ALTER TABLE t DROP v USING TIMESTAMP 500`, then ADD v: a value of timestamp 1000 was there or not, depending on
/// whether it was flushed before, compacted in between, or the node was restarted.
#[test]
fn what_is_newer_than_the_deletion_comes_back() {
    let mut formats = [SsTableFormat::Me, SsTableFormat::Oa, SsTableFormat::Da]
        .into_iter()
        .cycle();
    for before in EVENTS {
        for between in EVENTS {
            for after in [Event::Nothing, Event::FlushAndRestart, Event::Crash] {
                let format = formats.next().unwrap();
                check(format, [before, between, after]);
            }
        }
        // So that the formats meet other events.
        formats.next();
    }
}

fn check(format: SsTableFormat, [before, between, after]: [Event; 3]) {
    let mut node = node(format);
    let context = format!("{format:?} {before:?} {between:?} {after:?}");
    WRITES.iter().for_each(|write| node.run(write));
    happen(&mut node, before);
    for column in ["v", "m", "s"] {
        node.run(&format!("ALTER TABLE k.t DROP {column} USING TIMESTAMP 500"));
    }
    node.run("INSERT INTO k.t (p, c, w) VALUES (4, 1, 4) USING TIMESTAMP 2000");
    let visible = |node: &TestNode| rows(node, "c, w", "");
    let without = visible(&node);
    assert_eq!(without.len(), 3, "{context}: {without:?}");
    happen(&mut node, between);
    assert_eq!(visible(&node), without, "{context}");
    ADDITIONS.iter().for_each(|addition| node.run(addition));
    let entry = "\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x04\\x00\\x00\\x00\\x02\\x00\\x00\\x00\\x03new";
    let one = "\\x00\\x00\\x00\\x01";
    let two = "\\x00\\x00\\x00\\x02";
    let wanted = vec![
        format!("{one}|{one}|null|{entry}|static"),
        format!("{one}|{two}|new|null|static"),
        format!("{two}|{one}|alone|null|null"),
        format!("\\x00\\x00\\x00\\x04|{one}|null|null|null"),
    ];
    assert_eq!(all(&node), wanted, "{context}");
    happen(&mut node, after);
    assert_eq!(all(&node), wanted, "{context}");
    // What is written now with a timestamp of then stays hidden, in memory too.
    node.run("UPDATE k.t USING TIMESTAMP 400 SET v = 'late' WHERE p = 4 AND c = 1");
    assert_eq!(all(&node), wanted, "{context}");
    happen(&mut node, Event::Compact);
    assert_eq!(all(&node), wanted, "{context}");
    let points = [(1, 1), (1, 2), (2, 1), (4, 1)];
    let points = points.map(|(p, c)| rows(&node, COLUMNS, &format!(" WHERE p = {p} AND c = {c}")));
    let points: Vec<String> = points.concat();
    assert_eq!(points, wanted, "{context}");
}

/// Symptom: an SSTable was written with partitions of no rows.
#[test]
fn a_flush_of_nothing_but_a_dropped_column_writes_no_sstable() {
    let node = node(SsTableFormat::Nb);
    node.run("UPDATE k.t USING TIMESTAMP 100 SET v = 'gone' WHERE p = 1 AND c = 1");
    node.run("UPDATE k.t USING TIMESTAMP 100 SET s = 'gone' WHERE p = 2");
    node.run("DELETE m FROM k.t USING TIMESTAMP 100 WHERE p = 3 AND c = 1");
    for column in ["v", "s", "m"] {
        node.run(&format!("ALTER TABLE k.t DROP {column} USING TIMESTAMP 200"));
    }
    node.operator().flush(None).unwrap();
    let schema = node.operator().schema().unwrap();
    let sstables = || {
        let table = schema.table("k", "t").unwrap();
        node.operator().sstables(table).unwrap().len()
    };
    assert_eq!(sstables(), 0);
    node.run("UPDATE k.t SET w = 1 WHERE p = 1 AND c = 1");
    node.operator().flush(None).unwrap();
    assert_eq!(sstables(), 1, "of what is left");
}
