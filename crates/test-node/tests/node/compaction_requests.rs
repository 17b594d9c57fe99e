//! Compactions that an operator asks for, on a whole node.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use helenus_sstable::Component;
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{TestNode, options};
use helenus_tools::control::{Answer, Request, execute};
use helenus_tools::host::{Host as _, TableChoice};
use helenus_tools::progress::Silent;
use helenus_vfs::{Disk, MemoryDisk, SystemClock};

/// Only a request that never ends takes so long.
const NEVER: Duration = Duration::from_secs(60);

/// `helenus compaction major` hung for ever, and the control door with it, where a shard had no SSTable of the table: one
/// just made, one whose rows are all in memory, one with rows of few partitions.
#[test]
fn a_compaction_of_nothing_ends() {
    let node = TestNode::with_shards(3);
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    for table in ["fresh", "unflushed", "flushed"] {
        node.run(&format!("CREATE TABLE k.{table} (p int PRIMARY KEY, v int)"));
    }
    let operator = node.operator();
    let schema = operator.schema().unwrap();
    let id = |table: &str| schema.table("k", table).unwrap().id;
    node.run("INSERT INTO k.flushed (p, v) VALUES (1, 1)");
    operator.flush(Some(id("flushed"))).unwrap();
    node.run("INSERT INTO k.unflushed (p, v) VALUES (1, 1)");
    let tables = [id("fresh"), id("unflushed"), id("flushed")];
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for table in tables.iter().cycle().take(30) {
            let kind = CompactionKind::Major { split_output: false };
            operator
                .compact(CompactionRequest { table: *table, kind })
                .unwrap();
        }
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(NEVER).expect("every request ends");
}

fn major(node: &TestNode) -> Result<Answer, String> {
    let tables = TableChoice {
        keyspace: Some("k".to_owned()),
        table: Some("t".to_owned()),
    };
    let request = Request::CompactionMajor {
        tables,
        split_output: false,
    };
    execute(&node.operator(), &request, &Silent).map_err(|error| error.to_string())
}

/// `helenus compaction major` said that the table was compacted where that had failed, and left what was in memory.
#[test]
fn a_major_compaction_flushes_first_and_tells_a_failure() {
    let disk = Arc::new(MemoryDisk::new());
    let node = TestNode::start(options(
        1,
        Arc::clone(&disk) as Arc<dyn Disk>,
        Arc::new(SystemClock::new()),
    ))
    .unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    let operator = node.operator();
    let schema = operator.schema().unwrap();
    let table = schema.table("k", "t").unwrap();
    for key in 0..2 {
        node.run(&format!("INSERT INTO k.t (p, v) VALUES ({key}, 'v')"));
        if key == 0 {
            operator.flush(Some(table.id)).unwrap();
        }
    }
    major(&node).unwrap();
    let merged = operator.sstables(table).unwrap();
    assert_eq!(merged.len(), 1, "with what was in memory");

    let folder = operator.data_folder().unwrap().table_folder(table);
    node.run("INSERT INTO k.t (p, v) VALUES (3, 'v')");
    let data = disk
        .open_writable(&merged[0].path(&folder, Component::Data))
        .unwrap();
    let mut byte = [0];
    data.read_exact_at(10, &mut byte).unwrap();
    data.write_at(10, &[byte[0] ^ 4]).unwrap();
    let error = major(&node).unwrap_err();
    assert!(error.contains("the compaction failed on shard 0"), "{error}");
    assert!(error.contains("Data.db"), "{error}");
    // The damaged one is left out from then on.
    major(&node).unwrap();
}
