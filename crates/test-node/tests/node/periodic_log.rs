//! A log that is synced now and then: nobody waits for it, so its thread is woken for what is worth it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use helenus_node::CommitlogSync;
use helenus_test_node::{HookedDisk, TestNode, options};
use helenus_vfs::{Disk, Operation, SimulatedDisk, SystemClock};

/// How often a periodic log is written where little is.
const INTERVAL: Duration = Duration::from_millis(10);

fn is_of_log(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "commitlog")
}

/// A node of one shard with a log that is never due to be synced, and the count of its log's writes.
fn node() -> (TestNode, Arc<AtomicU64>) {
    let writes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&writes);
    let hook = move |operation: Operation, path: &Path| {
        if operation == Operation::Write && is_of_log(path) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    };
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let mut options = options(
        1,
        Arc::new(HookedDisk::new(disk, hook)),
        Arc::new(SystemClock::new()),
    );
    options.commitlog_sync = CommitlogSync::Periodic {
        period: Duration::from_secs(3_600),
    };
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    (node, writes)
}

/// Symptom: with `commitlog_sync: periodic`, the log's thread was woken a thousand times a second by 60,000 small writes: whatever had
/// come while it wrote was handed over as soon as it was done, as to one that clients wait for.
#[test]
fn small_writes_do_not_wake_the_log_all_the_time() {
    let (node, writes) = node();
    let (begun, before) = (Instant::now(), writes.load(Ordering::SeqCst));
    for round in 0..1_000 {
        let statements: Vec<String> = (0..4)
            .map(|key| format!("INSERT INTO k.t (p, v) VALUES ({key}, '{round}')"))
            .collect();
        node.execute_together(&statements);
    }
    let woken = writes.load(Ordering::SeqCst) - before;
    let due = begun.elapsed().as_nanos() / INTERVAL.as_nanos() + 2;
    assert!(u128::from(woken) <= due, "{woken} writes, {due} were due");
}
