//! Opening a data folder waits for the disk as often as durability needs, whatever the schema and the number of shards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_node::{Node, NodeOptions, block_on};
use helenus_vfs::{Disk, MemoryDisk, SimulatedDisk};

fn start(disk: &Arc<dyn Disk>, shard_count: u16) -> Node {
    let options = NodeOptions {
        shard_count,
        disk: disk.clone(),
        ..NodeOptions::new(PathBuf::from("/node"))
    };
    Node::start(options, Arc::new(|_| {})).expect("the folder opens")
}

fn run(node: &Node, text: &str) {
    block_on(node.handle().query(text, ())).unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// Each table of the system keyspaces had its folder made and synced twice, each shard's log synced once: 46 syncs, 100 ms.
#[test]
fn an_empty_folder_is_opened_with_four_syncs() {
    for shard_count in [1, 4] {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let node = start(&disk, shard_count);
        // The name of the folder; the version and the identity in it; their names.
        assert_eq!(disk.usage().syncs, 4, "{shard_count} shards");
        node.abandon();
    }
}

#[test]
fn a_folder_with_tables_is_opened_with_one_sync() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let node = start(&disk, 2);
    run(
        &node,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    for table in 0..5 {
        run(
            &node,
            &format!("CREATE TABLE k.t{table} (p int PRIMARY KEY, v int)"),
        );
    }
    node.stop();
    let before = disk.usage().syncs;
    let node = start(&disk, 2);
    assert_eq!(disk.usage().syncs - before, 1);
    node.abandon();
}

/// The folders of a log are made durable with their first file and no earlier: an acknowledged write must not depend on more.
#[test]
fn the_first_write_to_a_new_folder_survives_the_power() {
    for seed in 0..32 {
        let simulated = Arc::new(SimulatedDisk::new(seed));
        let disk: Arc<dyn Disk> = simulated.clone();
        let node = start(&disk, 2);
        run(
            &node,
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        run(&node, "CREATE TABLE k.t (p int PRIMARY KEY, v int)");
        for p in 0..8 {
            run(&node, &format!("INSERT INTO k.t (p, v) VALUES ({p}, 1)"));
        }
        simulated.fail_power(0);
        node.abandon();
        simulated.crash();
        let node = start(&disk, 2);
        let rows = block_on(node.handle().query("SELECT p FROM k.t", ())).expect("it is read");
        let rows: Vec<(i32,)> = rows.read().expect("numbers");
        assert_eq!(rows.len(), 8, "seed {seed}");
        node.abandon();
    }
}

/// The power failed after the identity's file was made and before it had its name: the next start could not make it.
#[test]
fn an_identity_that_was_begun_is_made_anew() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    start(&disk, 1).abandon();
    disk.remove(Path::new("/node/host-id")).expect("it is there");
    disk.create(Path::new("/node/host-id.tmp"))
        .expect("it is not there");
    start(&disk, 1).abandon();
    assert!(disk.exists(Path::new("/node/host-id")).expect("it is looked up"));
}

/// Symptom: "the node's identity in /node: failed to parse a UUID", or "/node/commitlog/shard-00000: invalid data", and nothing of
/// what to do about it.
#[test]
fn a_start_that_fails_for_a_damaged_file_names_it_and_says_what_to_do() {
    let simulated = Arc::new(SimulatedDisk::new(1));
    let disk: Arc<dyn Disk> = simulated.clone();
    let node = start(&disk, 1);
    run(
        &node,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(&node, "CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    run(&node, "INSERT INTO k.t (p, v) VALUES (1, 1)");
    node.stop();
    for (file, advice) in [
        ("helenus-data-version", "start the version that wrote it"),
        ("host-id", "restore it from a copy"),
        ("commitlog/shard-00000/flushed", "restore it from a copy"),
    ] {
        let path = Path::new("/node").join(file);
        // Of the first byte, the one that makes no digit of a digit.
        simulated.flip_bit(&path, 6).unwrap();
        let options = NodeOptions {
            shard_count: 1,
            disk: disk.clone(),
            ..NodeOptions::new(PathBuf::from("/node"))
        };
        let started = Node::start(options, Arc::new(|_| {}));
        let error = started.err().expect("a damaged file").to_string();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        assert!(error.contains(name) && error.contains(advice), "{file}: {error}");
        simulated.flip_bit(&path, 6).unwrap();
    }
    start(&disk, 1).abandon();
}
