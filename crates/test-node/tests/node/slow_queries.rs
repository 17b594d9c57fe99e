//! `system_views.slow_queries`: which SELECTs took long, as an operator is shown them.

use std::sync::Arc;
use std::time::Duration;

use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{ManualClock, MemoryDisk};

const ROWS: i32 = 50;

/// Time of the node's clock, in milliseconds since 1970.
const NOW_MS: i64 = 2_000_000;

fn node_of(shards: u16) -> TestNode {
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    // A request can have waited only where the clock has run.
    clock.advance_s(1_000);
    let node = TestNode::start(options(shards, Arc::new(MemoryDisk::new()), clock)).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    for p in 0..ROWS {
        node.run(&format!("INSERT INTO k.t (p, v) VALUES ({p}, {p})"));
    }
    node
}

/// Executes a statement that is answered `took_ms` after its request came.
fn read(node: &TestNode, text: &str, shard: u16, took_ms: u64) {
    let execution = Execution {
        waited: Duration::from_millis(took_ms),
        past_admission: true,
        shard,
        ..Execution::default()
    };
    let answer = node.execute_with(text, &execution);
    assert!(matches!(answer, Answer::Rows(_)), "{answer:?}");
}

#[derive(Debug, PartialEq, Eq)]
struct Slow {
    query: String,
    times: i32,
    is_cross_node: bool,
    min_avg_max_ms: [i64; 3],
}

fn slow_queries(node: &TestNode) -> Vec<Slow> {
    let rows = node.rows(
        "SELECT query, times_reported, cross_node, min_ms, avg_ms, max_ms, toUnixTimestamp(timestamp) \
         FROM system_views.slow_queries WHERE keyspace_name = 'k' AND table_name = 't'",
    );
    let of_row = |row: &Vec<Option<Vec<u8>>>| {
        let bytes = |index: usize| row[index].clone().unwrap();
        let bigint = |index: usize| i64::from_be_bytes(bytes(index).try_into().unwrap());
        assert_eq!(bigint(6), NOW_MS);
        Slow {
            query: String::from_utf8(bytes(0)).unwrap(),
            times: i32::from_be_bytes(bytes(1).try_into().unwrap()),
            is_cross_node: bytes(2) == [1],
            min_avg_max_ms: [bigint(3), bigint(4), bigint(5)],
        }
    };
    rows.iter().map(of_row).collect()
}

const SCAN: &str = "SELECT count(*) FROM k.t WHERE v = 3 ALLOW FILTERING";

#[test]
fn a_scan_that_takes_longer_than_half_a_second_is_listed_once_with_its_times() {
    let node = node_of(2);
    for (shard, took_ms) in [(0, 700), (1, 500), (1, 600), (1, 1_400)] {
        read(&node, SCAN, shard, took_ms);
    }
    let listed = slow_queries(&node);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&*listed[0].query, listed[0].times), (SCAN, 3));
    assert_eq!(listed[0].min_avg_max_ms, [600, 900, 1_400]);
}

/// The same reads of partitions of the client's own shard are answered at once, which nobody watches.
#[test]
fn a_read_that_went_to_another_shard_is_listed_as_such() {
    let node = node_of(2);
    for p in 0..ROWS {
        read(&node, &format!("SELECT v FROM k.t WHERE p = {p}"), 0, 800);
    }
    let listed = slow_queries(&node);
    assert!((5..ROWS as usize - 5).contains(&listed.len()), "{listed:?}");
    assert!(listed.iter().all(|slow| slow.is_cross_node), "{listed:?}");
}

#[test]
fn a_read_that_waited_for_the_disk_is_listed() {
    let node = node_of(1);
    node.operator().flush(None).unwrap();
    node.on_shard(0, |shard| shard.clear_caches());
    let text = "SELECT v FROM k.t WHERE p = 7";
    read(&node, text, 0, 800);
    let slow = Slow {
        query: text.to_owned(),
        times: 1,
        is_cross_node: false,
        min_avg_max_ms: [800; 3],
    };
    assert_eq!(slow_queries(&node), [slow]);
}
