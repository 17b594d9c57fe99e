//! Rows that a restore replaced or a truncation took stay gone when the power fails; acknowledged rows stay.

use std::sync::Arc;
use std::time::Duration;

use helenus_node::CommitlogSync;
use helenus_test_node::{TestNode, options};
use helenus_tools::host::{Host, Incumbents, TableChoice};
use helenus_tools::progress::Silent;
use helenus_tools::snapshot;
use helenus_vfs::{Disk, SimulatedDisk, SystemClock};

/// Rows that only the snapshot has.
const KEPT: usize = 8;
/// Rows that were written since.
const WRITTEN: usize = 5;

/// Changes of the disk between two tries. A divisor of nothing that a restore does regularly.
const STRIDE: u64 = 7;

fn tables() -> TableChoice {
    TableChoice::of(Some("k"), Some("t"))
}

fn insert(node: &TestNode, keys: std::ops::Range<usize>) {
    for key in keys {
        node.run(&format!("INSERT INTO k.t (p, v) VALUES ({key}, 'v{key}')"));
    }
}

fn count(node: &TestNode) -> usize {
    node.rows("SELECT p FROM k.t").len()
}

/// A node whose table lost [`KEPT`] rows that the snapshot `kept` has, and got [`WRITTEN`] others since.
fn node_with_snapshot(shard_count: u16, seed: u64) -> (Arc<SimulatedDisk>, TestNode) {
    let disk = Arc::new(SimulatedDisk::new(seed));
    let options = options(
        shard_count,
        Arc::clone(&disk) as Arc<dyn Disk>,
        Arc::new(SystemClock::new()),
    );
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    insert(&node, 0..KEPT);
    snapshot::create(&node.operator(), &tables(), "kept", None, &Silent).unwrap();
    node.run("TRUNCATE k.t");
    insert(&node, 100..100 + WRITTEN);
    (disk, node)
}

/// Symptom: after a restore that replaced the table's rows, some of these came back with the next start after a crash, because
/// the log did not know yet that they had been flushed.
#[test]
fn a_restore_that_the_power_ends_brings_all_or_nothing() {
    for (shard_count, incumbents, whole) in [
        (1, Incumbents::Stay, WRITTEN + KEPT),
        (3, Incumbents::Stay, WRITTEN + KEPT),
        (3, Incumbents::Go, KEPT),
    ] {
        let (mut nothing, mut all) = (0, 0);
        for after in (0..).step_by(STRIDE as usize) {
            let (disk, mut node) = node_with_snapshot(shard_count, after);
            disk.fail_power(after);
            let restored = snapshot::restore(&node.operator(), &tables(), "kept", incumbents, &Silent);
            let is_over = !disk.is_power_off();
            disk.fail_power(0);
            node.crash();
            disk.crash();
            node.start_again().unwrap();
            let found = count(&node);
            let case = format!("{shard_count} shards, power off after {after}");
            assert!(found == WRITTEN || found == whole, "{case}: {found} rows");
            if restored.is_ok() {
                assert_eq!(found, whole, "{case}: it was told to be done");
            }
            nothing += usize::from(found == WRITTEN);
            all += usize::from(found == whole);
            insert(&node, 200..201);
            node.restart().unwrap();
            assert_eq!(count(&node), found + 1, "{case}: after another start");
            if is_over {
                assert!(restored.is_ok(), "{case}");
                break;
            }
        }
        assert!(nothing > 3 && all > 1, "{nothing} times nothing, {all} times all");
    }
}

/// Symptom: with `commitlog_sync: periodic`, rows of an acknowledged TRUNCATE came back after a crash.
#[test]
fn truncated_rows_stay_gone_though_nobody_waits_for_the_log() {
    for seed in 0..20 {
        let disk = Arc::new(SimulatedDisk::new(seed));
        let mut options = options(
            2,
            Arc::clone(&disk) as Arc<dyn Disk>,
            Arc::new(SystemClock::new()),
        );
        options.commitlog_sync = CommitlogSync::Periodic {
            period: Duration::from_secs(3_600),
        };
        let mut node = TestNode::start(options).unwrap();
        node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
        insert(&node, 0..KEPT);
        node.operator().flush(None).unwrap();
        node.run("TRUNCATE k.t");
        disk.fail_power(0);
        node.crash();
        disk.crash();
        node.start_again().unwrap();
        assert_eq!(count(&node), 0, "seed {seed}");
    }
}

/// Symptom: a table that was dropped and restored had rows again, after a crash, that were written after the snapshot: the log
/// knows tables by their id, which is the same again.
#[test]
fn rows_of_a_dropped_table_do_not_come_back_with_its_snapshot() {
    for seed in 0..20 {
        let (disk, mut node) = node_with_snapshot(2, seed);
        if seed % 2 == 1 {
            node.operator().flush(None).unwrap();
        }
        node.run("DROP TABLE k.t");
        snapshot::restore(&node.operator(), &tables(), "kept", Incumbents::Stay, &Silent).unwrap();
        assert_eq!(count(&node), KEPT, "seed {seed}");
        insert(&node, 300..301);
        disk.fail_power(0);
        node.crash();
        disk.crash();
        node.start_again().unwrap();
        assert_eq!(count(&node), KEPT + 1, "seed {seed}, after a crash");
    }
}

/// Symptom: after a TRUNCATE that the power ended, a row was there that a deletion had hidden: the deletion was in an SSTable,
/// which was gone, and the row was written after it with an earlier timestamp, and was in the log.
#[test]
fn a_truncation_that_the_power_ends_brings_nothing_back() {
    let mut nothing = 0;
    for after in 0.. {
        let disk = Arc::new(SimulatedDisk::new(after));
        let clock = Arc::new(SystemClock::new());
        let mut node = TestNode::start(options(1, Arc::clone(&disk) as Arc<dyn Disk>, clock)).unwrap();
        node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
        node.run("DELETE FROM k.t USING TIMESTAMP 34 WHERE p = 1");
        node.operator().flush(None).unwrap();
        node.run("INSERT INTO k.t (p, v) VALUES (1, 'hidden') USING TIMESTAMP 33");
        disk.fail_power(after);
        let truncated = node.execute("TRUNCATE k.t");
        let is_over = !disk.is_power_off();
        disk.fail_power(0);
        node.crash();
        disk.crash();
        node.start_again().unwrap();
        assert_eq!(count(&node), 0, "power off after {after}: {truncated:?}");
        nothing += 1;
        if is_over {
            break;
        }
    }
    assert!(nothing > 3, "the power failed in the middle {nothing} times");
}
