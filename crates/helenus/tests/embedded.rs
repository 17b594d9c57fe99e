//! A node in this process leaves nothing behind: no thread, no open file, no hook. Counted in a process of its own, in one test.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use helenus::{Authenticator, Handle, Node, block_on};

/// Nodes side by side in one process.
const NODES: usize = 100;

/// The kernel lists a thread for a moment after it was joined, and its own of a ring after the ring was closed. One that runs is
/// there for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// This process's threads by name.
fn threads() -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        if let Ok(name) = fs::read_to_string(task.path().join("comm")) {
            *names.entry(name.trim().to_owned()).or_default() += 1;
        }
    }
    names
}

/// Counts the files that this process has open, but for those of /proc.
fn files() -> usize {
    let open = fs::read_dir("/proc/self/fd").expect("Linux").flatten();
    open.filter(|file| fs::read_link(file.path()).is_ok_and(|target| !target.starts_with("/proc")))
        .count()
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("helenus-embedded-{name}-{}", std::process::id()));
        let _none = fs::remove_dir_all(&folder);
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left = fs::remove_dir_all(&self.0);
    }
}

fn run(handle: &Handle, text: &str) {
    block_on(handle.query(text, ())).unwrap_or_else(|error| panic!("{text}: {error}"));
}

fn make_table(handle: &Handle) {
    run(
        handle,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(handle, "CREATE TABLE k.t (p int PRIMARY KEY, v int)");
}

fn write(handle: &Handle, value: i32) {
    let text = "INSERT INTO k.t (p, v) VALUES (1, ?)";
    block_on(handle.query(text, (value,))).expect("it is written");
}

fn read(handle: &Handle) -> Vec<(i32,)> {
    let answer = block_on(handle.query("SELECT v FROM k.t WHERE p = 1", ()));
    answer.and_then(|answer| answer.read()).expect("it is read")
}

fn one_after_the_other(before: &BTreeMap<String, usize>) {
    let folder = Folder::new("again");
    for value in 0..3 {
        let builder = Node::builder(&folder.0).authenticator(Authenticator::Password);
        let node = builder.shards(1 + value as u16 % 2).open().expect("it opens");
        let handle = node.handle();
        if value == 0 {
            make_table(&handle);
        } else {
            assert_eq!(read(&handle), [(value - 1,)]);
        }
        write(&handle, value);
        drop(node);
        let stopped = block_on(handle.query("SELECT v FROM k.t", ()));
        assert_eq!(stopped.map(drop), Err(helenus::RequestError::Stopped));
        nothing_is_left(before);
    }
}

fn side_by_side(before: &BTreeMap<String, usize>) {
    let nodes: Vec<Node> = (0..NODES)
        .map(|_| Node::in_memory().memory_bytes(4 << 20).open().expect("it opens"))
        .collect();
    for (value, node) in (0..).zip(&nodes) {
        make_table(&node.handle());
        write(&node.handle(), value);
    }
    for (value, node) in (0..).zip(&nodes) {
        assert_eq!(read(&node.handle()), [(value,)]);
    }
    drop(nodes);
    nothing_is_left(before);
}

fn nothing_is_left(before: &BTreeMap<String, usize>) {
    let begun = Instant::now();
    while threads() != *before {
        assert!(begun.elapsed() < PATIENCE, "{:?} left of {before:?}", threads());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nodes_leave_no_thread_and_no_file_behind() {
    // What the process itself makes once: the runtime's pipe for signals.
    drop(Node::in_memory().open().expect("it opens"));
    let (threads_before, files_before) = (threads(), files());
    one_after_the_other(&threads_before);
    side_by_side(&threads_before);
    assert_eq!(files(), files_before);
}
