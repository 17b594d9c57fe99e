//! Statements end to end on a whole node, on one shard and on several: the answers must not depend on the number.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{Disk, EntryKind, MemoryDisk, SystemClock};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn int(value: i32) -> Option<Vec<u8>> {
    Some(value.to_be_bytes().to_vec())
}

fn node(shard_count: u16) -> TestNode {
    let node = TestNode::with_shards(shard_count);
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.t (p int, c int, v text, s int static, PRIMARY KEY (p, c))");
    node
}

#[test]
fn every_row_is_paged_through_once_whatever_the_shards_and_the_page_size() {
    for shard_count in [1, 3] {
        let node = node(shard_count);
        let mut wanted = BTreeSet::new();
        for partition in 0..40 {
            for row in 0..partition % 7 {
                node.run(&format!(
                    "INSERT INTO k.t (p, c, v) VALUES ({partition}, {row}, 'v{row}')"
                ));
                wanted.insert((int(partition), int(row)));
            }
        }
        for page_size in [1, 7, 1000] {
            let mut found = BTreeSet::new();
            let mut paging_state = None;
            loop {
                let execution = Execution {
                    page_size: Some(page_size),
                    paging_state,
                    ..Execution::default()
                };
                let Answer::Rows(page) = node.execute_with("SELECT p, c FROM k.t", &execution) else {
                    panic!("no rows");
                };
                assert!(page.rows.len() <= page_size as usize);
                for row in &page.rows {
                    assert!(
                        found.insert((row[0].clone(), row[1].clone())),
                        "row {row:?} came twice"
                    );
                }
                paging_state = page.paging_state;
                if paging_state.is_none() {
                    break;
                }
            }
            assert_eq!(found, wanted, "{shard_count} shards, pages of {page_size}");
        }
        let count = node.rows("SELECT count(*) FROM k.t");
        assert_eq!(
            count,
            vec![vec![Some((wanted.len() as i64).to_be_bytes().to_vec())]]
        );
    }
}

#[test]
fn a_statement_answers_the_same_on_a_connection_of_any_shard() {
    let node = node(3);
    for shard in 0..3 {
        let execution = Execution {
            shard,
            ..Execution::default()
        };
        for partition in 0..20 {
            let insert = format!("INSERT INTO k.t (p, c, v) VALUES ({partition}, {shard}, 'x')");
            assert_eq!(node.execute_with(&insert, &execution), Answer::Void);
        }
    }
    for shard in 0..3 {
        let execution = Execution {
            shard,
            ..Execution::default()
        };
        for partition in 0..20 {
            let select = format!("SELECT c FROM k.t WHERE p = {partition}");
            let Answer::Rows(rows) = node.execute_with(&select, &execution) else {
                panic!("{select} has no rows")
            };
            assert_eq!(rows.rows, vec![vec![int(0)], vec![int(1)], vec![int(2)]]);
        }
    }
}

#[test]
fn what_one_shard_prepared_every_shard_executes() {
    let node = node(3);
    let Answer::Prepared { id, markers, .. } = node.prepare("INSERT INTO k.t (p, c, v) VALUES (?, ?, ?)")
    else {
        panic!("not prepared");
    };
    assert_eq!(
        markers.iter().map(|marker| &*marker.name).collect::<Vec<_>>(),
        ["p", "c", "v"]
    );
    for shard in 0..3 {
        let values = vec![int(7), int(i32::from(shard)), Some(b"x".to_vec())];
        let execution = Execution {
            shard,
            values,
            ..Execution::default()
        };
        assert_eq!(node.execute_prepared(&id, &execution), Answer::Void);
    }
    assert_eq!(node.rows("SELECT c FROM k.t WHERE p = 7").len(), 3);
}

#[test]
fn a_batch_over_many_partitions_is_applied_on_every_shard() {
    let node = node(4);
    let inserts: Vec<String> = (0..30)
        .map(|partition| format!("INSERT INTO k.t (p, c, v) VALUES ({partition}, 0, 'b');"))
        .collect();
    node.run(&format!("BEGIN BATCH {} APPLY BATCH", inserts.join(" ")));
    assert_eq!(node.rows("SELECT p FROM k.t").len(), 30);
}

#[test]
fn rows_and_schema_are_there_after_a_clean_restart() {
    let mut node = node(2);
    for partition in 0..20 {
        node.run(&format!(
            "INSERT INTO k.t (p, c, v, s) VALUES ({partition}, 1, 'kept', {partition})"
        ));
    }
    node.run("DELETE FROM k.t WHERE p = 3");
    let before = node.rows("SELECT p, c, v, s FROM k.t");
    node.restart().unwrap();
    assert_eq!(node.rows("SELECT p, c, v, s FROM k.t"), before);
    assert_eq!(before.len(), 19);
}

#[test]
fn prepared_statements_are_unknown_after_a_restart_and_after_their_table_changed() {
    let mut node = node(2);
    let prepare = |node: &TestNode| match node.prepare("SELECT v FROM k.t WHERE p = ? AND c = ?") {
        Answer::Prepared { id, .. } => id,
        other => panic!("{other:?}"),
    };
    let execution = Execution {
        values: vec![int(1), int(1)],
        ..Execution::default()
    };
    let is_unprepared = |answer: Answer| {
        matches!(
            answer,
            Answer::Error {
                code: ErrorCode::Unprepared,
                ..
            }
        )
    };
    let id = prepare(&node);
    assert!(!is_unprepared(node.execute_prepared(&id, &execution)));
    node.run("ALTER TABLE k.t ADD w int");
    assert!(is_unprepared(node.execute_prepared(&id, &execution)));
    let id = prepare(&node);
    node.restart().unwrap();
    assert!(is_unprepared(node.execute_prepared(&id, &execution)));
}

#[test]
fn the_number_of_shards_may_change_between_starts() {
    use std::sync::Arc;

    use helenus_vfs::{MemoryDisk, SystemClock};

    let mut options =
        helenus_test_node::options(1, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    let mut wanted = BTreeSet::new();
    for (round, shard_count) in [1, 4, 2].into_iter().enumerate() {
        options.shard_count = shard_count;
        let mut node = TestNode::start(options.clone()).unwrap();
        if round == 0 {
            node.run(KEYSPACE);
            node.run("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
        }
        for partition in 0..25 {
            let partition = round as i32 * 100 + partition;
            node.run(&format!("INSERT INTO k.t (p, v) VALUES ({partition}, 1)"));
            wanted.insert(int(partition));
        }
        let found: BTreeSet<_> = node
            .rows("SELECT p FROM k.t")
            .into_iter()
            .map(|row| row[0].clone())
            .collect();
        assert_eq!(found, wanted, "with {shard_count} shards");
        // Once through SSTables, once through the log alone.
        if round == 0 {
            node.restart().unwrap();
        }
        node.crash();
    }
}

#[test]
fn errors_have_the_codes_of_their_kind() {
    let node = node(2);
    for (statement, wanted) in [
        ("SELEC * FROM k.t", ErrorCode::SyntaxError),
        ("SELECT * FROM k.missing", ErrorCode::Invalid),
        ("CREATE TABLE k.t (p int PRIMARY KEY)", ErrorCode::AlreadyExists),
        ("INSERT INTO k.t (p, nope) VALUES (1, 1)", ErrorCode::Invalid),
    ] {
        match node.execute(statement) {
            Answer::Error { code, message } => assert_eq!(code, wanted, "{statement}: {message}"),
            other => panic!("{statement}: {other:?}"),
        }
    }
}

#[test]
fn a_traced_request_is_answered_as_ever_and_leaves_its_trace() {
    let node = node(2);
    node.run("INSERT INTO k.t (p, c, v) VALUES (1, 1, 'x')");
    let (answer, trace_id) = node.execute_traced("SELECT v FROM k.t WHERE p = 1");
    let Answer::Rows(rows) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(rows.rows, vec![vec![Some(b"x".to_vec())]]);
    let id = trace_name(trace_id);
    let sessions = node.rows(&format!(
        "SELECT request, duration FROM system_traces.sessions WHERE session_id = {id}"
    ));
    assert_eq!(sessions[0][0], Some(b"Execute CQL3 query".to_vec()));
    assert!(sessions[0][1].is_some());
    let events = node.rows(&format!(
        "SELECT activity FROM system_traces.events WHERE session_id = {id}"
    ));
    let activities: Vec<String> = events
        .into_iter()
        .map(|event| String::from_utf8(event[0].clone().unwrap()).unwrap())
        .collect();
    assert_eq!(activities[0], "Execute CQL3 query");
    assert_eq!(activities[1], "Parsing SELECT v FROM k.t WHERE p = 1");
    assert_eq!(activities[2], "Preparing statement");
    assert!(
        activities[3].starts_with("Executing single-partition query on t"),
        "{activities:?}"
    );
    assert!(activities[4].starts_with("Answered with"), "{activities:?}");
}

/// The id of a trace as CQL has it.
fn trace_name(trace_id: Option<[u8; 16]>) -> String {
    let id = trace_id.expect("the answer names its trace");
    let id = id.map(|byte| format!("{byte:02x}")).concat();
    [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-")
}

fn number(value: &Option<Vec<u8>>) -> i64 {
    let bytes = value.as_deref().unwrap();
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | i64::from(*byte))
}

/// A trace had two lines, one of them from behind its end, and nothing of what the statement was sent with.
#[test]
fn a_trace_says_what_a_request_was_sent_with_and_when_what_happened() {
    let node = node(2);
    let Answer::Prepared { id, .. } = node.prepare("SELECT v FROM k.t WHERE p = ? AND c = ?") else {
        panic!("cannot be prepared");
    };
    let execution = Execution {
        values: vec![
            Some(1_i32.to_be_bytes().to_vec()),
            Some(2_i32.to_be_bytes().to_vec()),
        ],
        page_size: Some(77),
        ..Execution::default()
    };
    let (_, trace_id) = node.execute_prepared_traced(&id, &execution);
    let id = trace_name(trace_id);
    let wanted = [
        ("bound_var_0_p", "1"),
        ("bound_var_1_c", "2"),
        ("consistency_level", "ONE"),
        ("page_size", "77"),
        ("query", "SELECT v FROM k.t WHERE p = ? AND c = ?"),
        ("serial_consistency_level", "SERIAL"),
    ];
    for (name, value) in wanted {
        let found = node.rows(&format!(
            "SELECT parameters['{name}'] FROM system_traces.sessions WHERE session_id = {id}"
        ));
        assert_eq!(found[0][0].as_deref(), Some(value.as_bytes()), "{name}");
    }
    let session = node.rows(&format!(
        "SELECT started_at, duration FROM system_traces.sessions WHERE session_id = {id}"
    ));
    let (started_ms, duration_us) = (number(&session[0][0]), number(&session[0][1]));
    let events = node.rows(&format!(
        "SELECT toUnixTimestamp(event_id), source_elapsed FROM system_traces.events WHERE session_id = {id}"
    ));
    assert!(events.len() >= 3);
    for event in &events {
        let (at_ms, elapsed_us) = (number(&event[0]), number(&event[1]));
        assert!(elapsed_us <= duration_us);
        assert!((started_ms..=started_ms + duration_us / 1_000 + 1).contains(&at_ms));
    }
}

/// How many SSTables a stopped node has of the tables in a folder.
fn sstables_below(disk: &dyn Disk, folder: &Path) -> usize {
    let entries = disk.list(folder).expect("a folder of the node");
    let counts = entries.iter().map(|entry| {
        let path = folder.join(&entry.name);
        if entry.kind == EntryKind::Directory {
            sstables_below(disk, &path)
        } else {
            usize::from(entry.name.ends_with("-TOC.txt"))
        }
    });
    counts.sum()
}

/// Symptom: every fourth stop of a node took a second, and the nodes beside it answered late: the flush at its end made
/// the fourth SSTable of a table, and the node compacted the four before it left.
#[test]
fn a_node_that_stops_flushes_and_begins_no_compaction() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let options = options(1, disk.clone(), Arc::new(SystemClock::new()));
    let folder = options.data_folder.join("data/k");
    let mut node = TestNode::start(options).expect("an empty disk in memory can be opened");
    node.run(KEYSPACE);
    node.run("CREATE TABLE k.t (p int PRIMARY KEY)");
    for stops in 1..=4 {
        for row in 0..100 {
            node.run(&format!("INSERT INTO k.t (p) VALUES ({})", 100 * stops + row));
        }
        node.stop();
        assert_eq!(sstables_below(&*disk, &folder), stops);
        if stops < 4 {
            node.restart().expect("the disk in memory can be opened again");
        }
    }
}
