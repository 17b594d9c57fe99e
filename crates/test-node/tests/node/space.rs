//! Space that SSTables take beside each other, for what they hold.

use std::time::{Duration, Instant};

use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::TestNode;
use helenus_tools::host::Host as _;
use helenus_vfs::{Random as _, SeededRandom};

/// Only a compaction that does not come takes so long.
const NEVER: Duration = Duration::from_secs(60);

/// `min_sstable_size`, and what it makes of the tables here: SSTables are merged for a few KiB that they share..
const MERGED_AS_A_WHOLE: u32 = 32 << 10;
/// ..and all are large enough to be cut into eighths.
const MERGED_BY_PARTS: u32 = 0;

fn node(columns: &str, min_sstable_bytes: u32, compaction: &str) -> TestNode {
    let node = TestNode::with_shards(1);
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    let compaction = format!(
        "{{'class': 'SizeTieredCompactionStrategy', 'min_sstable_size': '{min_sstable_bytes}', {compaction}}}"
    );
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
    let node = node(
        "p int PRIMARY KEY, v text",
        MERGED_AS_A_WHOLE,
        "'min_threshold': '32'",
    );
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

/// While a table of which all was written again was merged there were two of it on the disk, and before that one and a half.
#[test]
fn a_large_table_is_merged_part_by_part() {
    let node = node(
        "p int PRIMARY KEY, v text",
        MERGED_BY_PARTS,
        "'min_threshold': '32'",
    );
    let random = SeededRandom::new(17);
    let write = |key: u64| {
        // So much that what each file has besides hardly counts.
        let value: String = (0..512).map(|_| format!("{:016x}", random.next_u64())).collect();
        node.run(&format!("INSERT INTO k.t (p, v) VALUES ({key}, '{value}')"));
    };
    (0..400).for_each(write);
    flush(&node);
    for _ in 0..12 {
        for _ in 0..60 {
            write(random.next_u64() % 400);
        }
        flush(&node);
    }
    let merges = merges(&node);
    let table_bytes = merges.iter().map(|(_, bytes_out)| *bytes_out).max().unwrap();
    let is_large = |(bytes_in, _): &&(i64, i64)| *bytes_in > table_bytes / 2;
    // The one that cut it first.
    assert_eq!(merges.iter().filter(is_large).count(), 1, "{merges:?}");
    assert!(merges.len() > 10, "{merges:?}");

    let operator = node.operator();
    let table = operator.schema().unwrap().table("k", "t").unwrap().id;
    let kind = CompactionKind::Major { split_output: false };
    operator.compact(CompactionRequest { table, kind }).unwrap();
    let all = self::merges(&node);
    let (bytes_in, bytes_out) = all.iter().find(|merge| !merges.contains(merge)).unwrap();
    assert!(
        bytes_in * 100 < bytes_out * 130,
        "{bytes_in} bytes of {bytes_out}"
    );
}

/// Bytes that compactions of the table have read and written.
fn merges(node: &TestNode) -> Vec<(i64, i64)> {
    let rows = node.rows("SELECT keyspace_name, bytes_in, bytes_out FROM system.compaction_history");
    let of_table = rows.iter().filter(|row| row[0].as_deref() == Some(b"k"));
    let number = |cell: &Option<Vec<u8>>| i64::from_be_bytes(cell.as_deref().unwrap().try_into().unwrap());
    of_table.map(|row| (number(&row[1]), number(&row[2]))).collect()
}

/// Partitions that get new rows are in every SSTable, and merging those saves nothing.
#[test]
fn partitions_that_grow_are_merged_by_size_alone() {
    let node = node(
        "p int, c int, v text, PRIMARY KEY (p, c)",
        MERGED_BY_PARTS,
        "'min_threshold': '3'",
    );
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
    // What three flushes become lies in two parts, and of each three are merged.
    let expected = [
        (1, 0),
        (2, 0),
        (2, 1),
        (3, 1),
        (4, 1),
        (4, 2),
        (5, 2),
        (6, 2),
        (2, 5),
    ];
    assert_eq!(found, expected);
}
