//! Blocks.db and Checksums.db, which are ours and nothing needs: an SSTable without them, or with damaged ones.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_node::SsTableFormat;
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{HookedDisk, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{Disk, MemoryDisk, Operation, SystemClock};

const ROWS: usize = 400;

/// A table with a partition that is large enough for Blocks.db.
fn filled(format: SsTableFormat, disk: Arc<dyn Disk>) -> TestNode {
    let mut options = options(1, disk, Arc::new(SystemClock::new()));
    options.sstable_format = format;
    options.column_index_bytes = 4096;
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))");
    for row in 0..ROWS {
        let value = value(row);
        node.run(&format!("INSERT INTO k.t (p, c, v) VALUES (1, {row}, '{value}')"));
    }
    node.operator().flush(None).unwrap();
    node
}

fn value(row: usize) -> String {
    format!("{row:0400}")
}

/// Rows in the middle of the partition, and all of it, in both directions.
fn check(node: &TestNode) {
    let values = |from: usize, to: usize| (from..to).map(|row| vec![Some(value(row).into_bytes())]);
    for (from, to) in [(250, 251), (100, 300), (0, ROWS)] {
        let selected = format!("SELECT v FROM k.t WHERE p = 1 AND c >= {from} AND c < {to}");
        assert_eq!(
            node.rows(&format!("{selected} ORDER BY c DESC")),
            values(from, to).rev().collect::<Vec<_>>(),
            "{from} to {to}"
        );
        assert_eq!(
            node.rows(&selected),
            values(from, to).collect::<Vec<_>>(),
            "{from} to {to}"
        );
    }
}

fn compact(node: &TestNode) {
    let operator = node.operator();
    let table = operator.schema().unwrap().table("k", "t").unwrap().id;
    let kind = CompactionKind::Major { split_output: false };
    operator.compact(CompactionRequest { table, kind }).unwrap();
}

/// The files of the table that end so.
fn files(node: &TestNode, disk: &dyn Disk, suffix: &str) -> Vec<PathBuf> {
    let operator = node.operator();
    let schema = operator.schema().unwrap();
    let folder = operator
        .data_folder()
        .unwrap()
        .table_folder(schema.table("k", "t").unwrap());
    let entries = disk.list(&folder).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    names
        .filter(|name| name.ends_with(suffix))
        .map(|name| folder.join(name))
        .collect()
}

fn damage(disk: &dyn Disk, file: &Path, offset: u64) {
    let file = disk.open_writable(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(offset, &mut byte).unwrap();
    file.write_at(offset, &[byte[0] ^ 4]).unwrap();
}

/// As the metrics page has it.
fn lost(node: &TestNode) -> f64 {
    let rows = node.rows(
        "SELECT value FROM system_views.node_metrics WHERE name = 'helenus_sstable_sidecars_lost' ALLOW FILTERING",
    );
    let value = rows[0][0].as_deref().unwrap();
    f64::from_be_bytes(value.try_into().unwrap())
}

fn is_sidecar(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with("-Blocks.db") || name.ends_with("-Checksums.db")
}

/// A component that only we need failed the flush of its whole table, and with it the next start.
#[test]
fn sstables_are_written_without_what_cannot_be_written() {
    for fails in [Operation::Create, Operation::Write, Operation::Sync] {
        let memory = Arc::new(MemoryDisk::new());
        let disk =
            HookedDisk::new(
                Arc::clone(&memory) as Arc<dyn Disk>,
                move |operation, path| match operation == fails && is_sidecar(path) {
                    true => Err(io::Error::other("injected")),
                    false => Ok(()),
                },
            );
        let mut node = filled(SsTableFormat::Da, Arc::new(disk));
        check(&node);
        assert!(files(&node, &*memory, "-Blocks.db").is_empty(), "{fails:?}");
        node.restart().unwrap();
        check(&node);
        compact(&node);
        check(&node);
    }
}

/// An SSTable was refused, its rows were gone, for a component that only we need.
#[test]
fn damaged_sidecars_are_done_without() {
    for format in [SsTableFormat::Nb, SsTableFormat::Da] {
        let disk = Arc::new(MemoryDisk::new());
        let mut node = filled(format, Arc::clone(&disk) as Arc<dyn Disk>);
        for suffix in ["-Blocks.db", "-Checksums.db"] {
            let file = files(&node, &*disk, suffix).remove(0);
            let length = disk.open(&file).unwrap().length().unwrap();
            node.stop();
            damage(&*disk, &file, length - 20);
            node.restart().unwrap();
            check(&node);
        }
        let refused = node.operator().data_folder().unwrap().refused_sstables();
        assert!(refused.is_empty(), "{refused:?}");
        compact(&node);
        check(&node);
        node.restart().unwrap();
        let file = files(&node, &*disk, "-Blocks.db").remove(0);
        let length = disk.open(&file).unwrap().length().unwrap();
        assert_eq!(lost(&node), 0.0);
        // Each page in front of the directory, before any of it was read.
        for page in 0..length / 4096 {
            damage(&*disk, &file, page * 4096 + 20);
        }
        check(&node);
        assert_eq!(lost(&node), 1.0, "a read does not fail, and it is told");
    }
}
