//! Space that SSTables take beside each other, for what they hold.

use std::time::{Duration, Instant};

use helenus_test_node::TestNode;
use helenus_tools::host::Host as _;
use helenus_vfs::{Random as _, SeededRandom};

/// Only a compaction that does not come takes so long.
const NEVER: Duration = Duration::from_secs(60);

fn node(columns: &str, compaction: &str) -> TestNode {
    let node = TestNode::with_shards(1);
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    let compaction =
        format!("{{'class': 'SizeTieredCompactionStrategy', 'min_sstable_size': '0', {compaction}}}");
    node.run(&format!(
        "CREATE TABLE k.t ({columns}) WITH compaction = {compaction}"
    ));
    node
}

/// Flushes and waits until nothing is compacted or wants to be. Returns how many SSTables there are, and how many
/// compactions there were.
fn flush(node: &TestNode) -> (usize, usize) {
    let operator = node.operator();
    let schema = operator.schema().unwrap();
    let table = schema.table("k", "t").unwrap();
    operator.flush(Some(table.id)).unwrap();
    let deadline = Instant::now() + NEVER;
    loop {
        let shards = operator.compactions().unwrap();
        let is_of_table = |keyspace: &str| keyspace == "k";
        let is_idle = shards.iter().all(|shard| {
            !shard.running.iter().any(|job| is_of_table(&job.keyspace))
                && !shard.pending.iter().any(|pending| is_of_table(&pending.keyspace))
        });
        if is_idle {
            let history = node.rows("SELECT keyspace_name FROM system.compaction_history");
            let compactions = history.iter().filter(|row| row[0].as_deref() == Some(b"k"));
            return (operator.sstables(table).unwrap().len(), compactions.count());
        }
        assert!(Instant::now() < deadline, "{shards:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A table whose rows were written again and again took as many times their space as there were SSTables, up to four for
/// each tier of sizes.
#[test]
fn rows_that_are_written_again_are_merged_before_their_sstables_are_alike_in_number() {
    let node = node("p int PRIMARY KEY, v text", "'min_threshold': '32'");
    for round in 0..6 {
        for key in 0..100 {
            node.run(&format!("INSERT INTO k.t (p, v) VALUES ({key}, 'value {round}')"));
        }
        assert_eq!(flush(&node), (1, round), "round {round}");
    }
    // Other rows are no reason.
    for round in 0..3 {
        for key in 0..100 {
            node.run(&format!(
                "INSERT INTO k.t (p, v) VALUES ({key}, 'value {round}')",
                key = 1_000 * (round + 1) + key
            ));
        }
        assert_eq!(flush(&node), (2 + round, 5), "round {round}");
    }
}

/// Partitions that get new rows are in every SSTable, and merging those saves nothing.
#[test]
fn partitions_that_grow_are_merged_by_size_alone() {
    let node = node("p int, c int, v text, PRIMARY KEY (p, c)", "'min_threshold': '3'");
    let mut found = Vec::new();
    let random = SeededRandom::new(9);
    for round in 0..9 {
        for row in 0..200 {
            let (key, clustering) = (row % 4, round * 200 + row);
            // So much more than what each file has besides that their sizes tell how many rows they have.
            let value: String = (0..20).map(|_| format!("{:016x}", random.next_u64())).collect();
            node.run(&format!(
                "INSERT INTO k.t (p, c, v) VALUES ({key}, {clustering}, '{value}')"
            ));
        }
        found.push(flush(&node));
    }
    let expected = [
        (1, 0),
        (2, 0),
        (1, 1),
        (2, 1),
        (3, 1),
        (2, 2),
        (3, 2),
        (4, 2),
        (1, 4),
    ];
    assert_eq!(found, expected);
}
