//! What an operator asks to be compacted, on a whole node.

use std::sync::mpsc;
use std::time::Duration;

use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::TestNode;
use helenus_tools::host::Host as _;

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
