//! Many TRUNCATEs at once, with a snapshot of what each takes.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, Pending, TestNode, options};
use helenus_tools::host::{Host, TableChoice};
use helenus_tools::snapshot;
use helenus_vfs::{Disk, ManualClock, MemoryDisk, SystemClock};

const TRUNCATIONS: i32 = 300;

const TABLES: i32 = 3;

/// In this process, of which each has one thread for snapshots.
const NODES: usize = 2;

/// Counts the threads for snapshots of this process.
fn snapshot_threads() -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
        let task = task.unwrap().path();
        // It may have ended since.
        fs::read_to_string(task.join("comm")).ok()
    });
    names.filter(|name| name.starts_with("snapshot")).count()
}

fn insert(node: &TestNode) {
    for table in 0..TABLES {
        node.run(&format!("INSERT INTO k.t{table} (p) VALUES (1)"));
    }
}

/// A thread for each TRUNCATE under way: 1,564 threads and 1 GB from one connection. Those of one table failed on each
/// other's snapshots.
#[test]
fn truncations_wait_for_each_other_and_not_in_threads() {
    let disk = Arc::new(MemoryDisk::new());
    let mut options = options(2, disk, Arc::new(SystemClock::new()));
    options.auto_snapshot = true;
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    for table in 0..TABLES {
        node.run(&format!("CREATE TABLE k.t{table} (p int PRIMARY KEY)"));
    }
    let mut most_threads = 0;
    let pending: Vec<Pending> = (0..TRUNCATIONS)
        .map(|number| {
            insert(&node);
            most_threads = most_threads.max(snapshot_threads());
            let on_either = Execution {
                shard: (number % 2) as u16,
                ..Execution::default()
            };
            node.submit(&format!("TRUNCATE k.t{}", number % TABLES), &on_either)
        })
        .collect();
    let mut truncated = 0;
    for pending in pending {
        most_threads = most_threads.max(snapshot_threads());
        match pending.wait() {
            Some(Answer::Void) => truncated += 1,
            Some(Answer::Error {
                code: ErrorCode::Overloaded,
                ..
            }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(truncated > 0);
    assert!((1..=NODES).contains(&most_threads), "{most_threads}");
}

/// They stayed until somebody removed them.
#[test]
fn the_snapshots_of_truncations_are_kept_as_long_as_they_should_be() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let clock = ManualClock::starting_at(1_000_000_000_000_000);
    let mut options = options(1, disk.clone(), Arc::new(clock));
    options.auto_snapshot = true;
    options.auto_snapshot_ttl = Some(Duration::from_secs(3_600));
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t0 (p int PRIMARY KEY)");
    node.run("INSERT INTO k.t0 (p) VALUES (1)");
    node.run("TRUNCATE k.t0");
    let data = node.operator().data_folder().unwrap();
    let found = snapshot::list(&*disk, &data.data_folder(), &TableChoice::default(), None).unwrap();
    let expires: Vec<_> = found.iter().map(|found| found.expires_at.as_deref()).collect();
    assert_eq!(expires, [Some("2001-09-09T02:46:40Z")]);
}
