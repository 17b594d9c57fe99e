//! Segments that a node's log makes ahead and removes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use helenus_test_node::{HookedDisk, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{Disk, MemoryDisk, Operation, SystemClock};

const SEGMENT_BYTES: u32 = 64 << 10;

const WRITES_MAX: usize = 50_000;

/// A minute, many times what it takes.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS_MAX: usize = 3_000;

#[test]
fn a_node_makes_its_segments_ahead_and_removes_them() {
    write_and_flush(false);
}

#[test]
fn a_panic_of_who_makes_segments_keeps_nobody_from_writing_and_no_segment_from_being_removed() {
    write_and_flush(true);
}

fn write_and_flush(panics: bool) {
    let memory = Arc::new(MemoryDisk::new());
    let made = Arc::new(AtomicUsize::new(0));
    let (counted, may_panic) = (made.clone(), AtomicBool::new(panics));
    let disk = HookedDisk::new(memory.clone(), move |operation, path| {
        let is_segment = is_segment(path);
        if operation == Operation::Rename && is_segment {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        let is_zeros = path.ends_with("segment.zeros");
        assert!(
            !(operation == Operation::Create && is_zeros && may_panic.swap(false, Ordering::Relaxed)),
            "injected by a test"
        );
        Ok(())
    });
    let mut options = options(1, Arc::new(disk), Arc::new(SystemClock::new()));
    options.commitlog_segment_bytes = SEGMENT_BYTES;
    let folder = options.data_folder.join("commitlog/shard-00000");
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    // Some six segments; where the thread that makes them is late, the log goes on without.
    let enough = (0..WRITES_MAX).find(|p| {
        node.run(&format!("INSERT INTO k.t (p, v) VALUES ({p}, '{p:01000}')"));
        *p >= 400 && made.load(Ordering::Relaxed) >= 2
    });
    assert!(enough.is_some(), "{made:?} made");
    node.operator().flush(None).unwrap();
    let segments = || {
        let entries = memory.list(&folder).unwrap();
        entries
            .iter()
            .filter(|entry| is_segment(Path::new(&entry.name)))
            .count()
    };
    let mut looks = (0..LOOKS_MAX).inspect(|_| std::thread::sleep(LOOK));
    assert!(looks.any(|_| segments() <= 2), "{} segments", segments());
    drop(node);
    for entry in memory.list(&folder).unwrap() {
        let file = memory.open(&folder.join(&entry.name)).unwrap();
        let mut first = [0];
        file.read_exact_at(0, &mut first).unwrap();
        assert_ne!(first, [0], "{} is left", entry.name);
    }
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}
