//! A table whose memtables cannot be flushed: nothing of it is lost, and nothing else suffers.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, HookedDisk, TestNode, options};
use helenus_tools::host::{Host, HostError};
use helenus_vfs::{Disk, Operation, SimulatedDisk, SystemClock};

const LOGS: &str = "/helenus-data/commitlog";

struct Bench {
    disk: Arc<SimulatedDisk>,
    /// No SSTable of `k.bad` can be made.
    fails: Arc<AtomicBool>,
    node: TestNode,
}

impl Bench {
    fn new(shard_count: u16, memory_bytes: u64) -> Bench {
        let disk = Arc::new(SimulatedDisk::new(1));
        let fails = Arc::new(AtomicBool::new(true));
        let fails_now = Arc::clone(&fails);
        let hooked = HookedDisk::new(Arc::clone(&disk) as Arc<dyn Disk>, move |operation, path| {
            let is_bad = operation == Operation::Create && path.to_string_lossy().contains("/bad-");
            match is_bad && fails_now.load(Ordering::SeqCst) {
                true => Err(io::Error::other("injected")),
                false => Ok(()),
            }
        });
        let mut options = options(shard_count, Arc::new(hooked), Arc::new(SystemClock::new()));
        options.memory_bytes = memory_bytes;
        options.auto_snapshot = true;
        let node = TestNode::start(options).unwrap();
        node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        for table in ["bad", "good"] {
            node.run(&format!("CREATE TABLE k.{table} (p int PRIMARY KEY, v text)"));
        }
        Bench { disk, fails, node }
    }

    fn insert(&self, table: &str, key: i32) {
        self.node
            .run(&format!("INSERT INTO k.{table} (p, v) VALUES ({key}, 'v')"));
    }

    fn keys(&self, table: &str) -> Vec<i32> {
        let rows = self.node.rows(&format!("SELECT p FROM k.{table}"));
        let key = |row: &Vec<Option<Vec<u8>>>| {
            let bytes = row[0].as_deref().unwrap();
            i32::from_be_bytes(bytes.try_into().unwrap())
        };
        let mut keys: Vec<i32> = rows.iter().map(key).collect();
        keys.sort_unstable();
        keys
    }

    /// SSTables of the table.
    fn sstables(&self, table: &str) -> usize {
        let operator = self.node.operator();
        let schema = operator.schema().unwrap();
        operator
            .sstables(schema.table("k", table).unwrap())
            .unwrap()
            .len()
    }

    fn unflushed(&self) -> usize {
        let rows = self.node.rows(
            "SELECT value FROM system_views.node_metrics WHERE name = 'helenus_table_unflushed_bytes' ALLOW FILTERING",
        );
        rows.len()
    }

    /// As the power leaves them that fails when a shard has just made its next file.
    fn leave_empty_segments(&self) {
        for shard in self.disk.list(Path::new(LOGS)).unwrap() {
            let folder = Path::new(LOGS).join(shard.name);
            let entries = self.disk.list(&folder).unwrap();
            let number_of = |name: &str| {
                let digits = name.strip_prefix("segment-")?.strip_suffix(".log")?;
                u64::from_str_radix(digits, 16).ok()
            };
            let last = entries.iter().filter_map(|entry| number_of(&entry.name)).max();
            if let Some(last) = last {
                let name = format!("segment-{:016x}.log", last + 1);
                drop(self.disk.create(&folder.join(name)).unwrap());
                self.disk.sync_directory(&folder).unwrap();
            }
        }
    }

    fn crash(&mut self) {
        self.node.crash();
        self.disk.crash();
        self.node.start_again().unwrap();
    }
}

/// One table that could not be flushed ended the start, and kept the node from stopping in good order.
#[test]
fn nothing_is_lost_over_stops_crashes_and_starts() {
    let mut bench = Bench::new(2, 64 << 20);
    let mut keys = Vec::new();
    for round in 0..6 {
        for key in round * 10..round * 10 + 10 {
            bench.insert("bad", key);
            bench.insert("good", key);
            keys.push(key);
        }
        let flushed = bench.node.operator().flush(None);
        assert!(
            matches!(flushed, Err(HostError::NotFlushed { .. })),
            "{flushed:?}"
        );
        assert!(bench.sstables("good") > 0, "others are flushed");
        if round % 2 == 0 {
            bench.node.restart().unwrap();
        } else {
            bench.crash();
        }
        assert_eq!(bench.keys("bad"), keys);
        assert_eq!(bench.keys("good"), keys);
        assert!(bench.unflushed() > 0);
        assert_eq!(bench.sstables("bad"), 0);
    }
    bench.fails.store(false, Ordering::SeqCst);
    bench.node.operator().flush(None).unwrap();
    assert_eq!(bench.unflushed(), 0);
    bench.crash();
    assert!(bench.sstables("bad") > 0);
    assert_eq!(bench.keys("bad"), keys);
    assert_eq!(bench.keys("good"), keys);
}

/// DROP and TRUNCATE were refused, since they take a snapshot first, and that begins with a flush.
#[test]
fn it_can_be_truncated_and_dropped() {
    let mut bench = Bench::new(2, 64 << 20);
    bench.insert("bad", 1);
    bench.node.run("TRUNCATE k.bad");
    assert!(bench.keys("bad").is_empty());
    bench.insert("bad", 2);
    bench.node.operator().flush(None).unwrap_err();
    bench.node.restart().unwrap();
    assert_eq!(bench.keys("bad"), [2]);
    bench.node.run("TRUNCATE k.bad");
    bench.crash();
    assert!(bench.keys("bad").is_empty());
    bench.insert("bad", 3);
    bench.node.run("DROP TABLE k.bad");
    bench.node.run("CREATE TABLE k.bad (p int PRIMARY KEY, v text)");
    assert!(bench.keys("bad").is_empty());
    bench.insert("good", 4);
    bench.node.run("DROP KEYSPACE k");
    bench.crash();
}

/// It filled the memory of all memtables, and all writes of the shard were refused.
#[test]
fn only_its_own_writes_are_refused() {
    let bench = Bench::new(1, 8 << 20);
    let value = "v".repeat(10_000);
    let insert = |table: &str, key: i32| {
        let text = format!("INSERT INTO k.{table} (p, v) VALUES ({key}, '{value}')");
        bench.node.execute(&text)
    };
    let refused = (0..2000).find_map(|key| {
        // A retry is not due within this test but for those who ask.
        let _fails = bench.node.operator().flush(None);
        match insert("bad", key) {
            Answer::Error { code, message } => Some((key, code, message)),
            _ => None,
        }
    });
    let (taken, code, message) = refused.expect("memory is bounded");
    assert_eq!(code, ErrorCode::Overloaded, "{message}");
    assert!(message.contains("k.bad cannot be flushed"), "{message}");
    for key in 0..2000 {
        assert_eq!(insert("good", key), Answer::Void, "{key}");
    }
    bench.fails.store(false, Ordering::SeqCst);
    bench.node.operator().flush(None).unwrap();
    assert_eq!(insert("bad", taken), Answer::Void);
    assert_eq!(bench.keys("bad").len(), taken as usize + 1);
    assert_eq!(bench.keys("good").len(), 2000);
}

/// Parts of atomic batches that lie in the logs of several shards, of which one table keeps its part: whole after any
/// number of starts.
#[test]
fn atomic_batches_stay_whole() {
    let mut bench = Bench::new(3, 64 << 20);
    let mut keys = Vec::new();
    for round in 0..5 {
        for key in round * 20..round * 20 + 20 {
            bench.node.run(&format!(
                "BEGIN BATCH INSERT INTO k.bad (p, v) VALUES ({key}, 'v'); \
                 INSERT INTO k.good (p, v) VALUES ({}, 'v'); \
                 INSERT INTO k.good (p, v) VALUES ({}, 'v'); APPLY BATCH",
                2 * key,
                2 * key + 1
            ));
            keys.push(key);
        }
        if round % 2 == 0 {
            // Those of the other table are flushed, and their segments may go.
            bench.node.operator().flush(None).unwrap_err();
        }
        if round == 3 {
            bench.node.restart().unwrap();
        } else {
            bench.crash();
        }
        assert_eq!(bench.keys("bad"), keys, "round {round}");
        let good: Vec<i32> = (0..2 * keys.len() as i32).collect();
        assert_eq!(bench.keys("good"), good, "round {round}");
    }
    bench.fails.store(false, Ordering::SeqCst);
    bench.node.restart().unwrap();
    bench.crash();
    assert_eq!(bench.keys("bad"), keys);
}

/// A start writes to its log again what it cannot flush, and only then removes the log of the last run: the power may fail
/// anywhere in between.
#[test]
fn a_start_may_be_interrupted_anywhere() {
    let mut bench = Bench::new(2, 64 << 20);
    let keys: Vec<i32> = (0..12).collect();
    for key in &keys {
        bench.node.run(&format!(
            "BEGIN BATCH INSERT INTO k.bad (p, v) VALUES ({key}, 'v'); \
             INSERT INTO k.good (p, v) VALUES ({key}, 'v'); APPLY BATCH"
        ));
    }
    bench.insert("good", 100);
    bench.node.run("TRUNCATE k.good");
    bench.crash();
    let mut interrupted = 0;
    for changes in (0..).step_by(2) {
        bench.node.crash();
        bench.disk.crash();
        bench.leave_empty_segments();
        bench.disk.fail_power(changes);
        let is_started = bench.node.start_again().is_ok();
        let is_interrupted = bench.disk.is_power_off();
        bench.crash();
        assert_eq!(bench.keys("bad"), keys, "after {changes} changes");
        assert!(bench.keys("good").is_empty(), "after {changes} changes");
        if is_started && !is_interrupted {
            break;
        }
        interrupted += 1;
    }
    assert!(interrupted > 10);
}
