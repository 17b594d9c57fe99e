//! A whole node on a disk that fails: nothing acknowledged is lost, no wrong row is served, and the messages say what
//! to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use helenus_node::NodeOptions;
use helenus_protocol::ErrorCode;
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{Answer, Complaints, Execution, HookedDisk, TestNode, options};
use helenus_tools::host::Host as _;
use helenus_vfs::{
    Disk, EntryKind, Fault, FaultKind, ManualClock, MemoryDisk, Operation, SimulatedDisk, SystemClock,
};

/// One shard, so that it is known whose file an injected fault hits.
struct Node {
    node: TestNode,
    disk: Arc<SimulatedDisk>,
}

const ROWS: i32 = 20;

impl Node {
    fn start() -> Node {
        let disk = Arc::new(SimulatedDisk::new(1));
        let node = TestNode::start(options(1, disk.clone(), Arc::new(SystemClock::new()))).unwrap();
        node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
        Node { node, disk }
    }

    /// With rows in SSTables that no cache knows.
    fn with_sstables() -> Node {
        let mut node = Node::start();
        for p in 0..ROWS {
            node.node.run(&insert(p));
        }
        node.node.restart().unwrap();
        node
    }

    fn inject(&self, operation: Operation, kind: FaultKind) {
        self.disk.inject(Fault {
            operation,
            after: 0,
            kind,
        });
    }

    /// As the kernel and the power would leave it: what was not synced may be gone.
    fn crash_and_start(&mut self) -> Result<(), String> {
        self.node.crash();
        self.disk.crash();
        self.node.start_again().map_err(|error| error.to_string())
    }

    fn count(&self) -> usize {
        self.node.rows("SELECT p FROM k.t").len()
    }

    fn files(&self, folder: &Path, wanted: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in self.disk.list(folder).unwrap() {
            let path = folder.join(&entry.name);
            match entry.kind {
                EntryKind::Directory => found.extend(self.files(&path, wanted)),
                EntryKind::File if wanted(&entry.name) => found.push(path),
                EntryKind::File => {}
            }
        }
        found
    }

    fn log_segments(&self) -> Vec<PathBuf> {
        self.files(&self.node.data_folder().join("commitlog"), &|name| {
            name.starts_with("segment-")
        })
    }
}

fn insert(p: i32) -> String {
    format!("INSERT INTO k.t (p, v) VALUES ({p}, 'value {p}')")
}

fn refusal(answer: Answer) -> String {
    match answer {
        Answer::Error {
            code: ErrorCode::ServerError,
            message,
        } => message,
        other => panic!("wanted a server error, got {other:?}"),
    }
}

#[test]
fn after_a_failed_sync_writes_are_refused_reads_go_on_and_a_restart_heals() {
    let mut node = Node::start();
    node.node.run(&insert(0));
    node.inject(Operation::Sync, FaultKind::Error);
    let first = refusal(node.node.execute(&insert(1)));
    assert!(first.contains("check the disk and restart the node"), "{first}");
    for p in 2..5 {
        let later = refusal(node.node.execute(&insert(p)));
        assert!(
            later.starts_with("writes are refused until the node is restarted: "),
            "{later}"
        );
    }
    assert!(node.count() >= 1, "reads go on");
    node.crash_and_start().unwrap();
    assert_eq!(node.node.rows("SELECT v FROM k.t WHERE p = 0").len(), 1);
    assert_eq!(
        node.node.rows("SELECT v FROM k.t WHERE p = 2").len(),
        0,
        "it was refused"
    );
    node.node.run(&insert(9));
}

#[test]
fn a_full_disk_under_the_log_refuses_writes_and_says_what_to_do() {
    let mut node = Node::start();
    node.node.run(&insert(0));
    node.disk.set_free_bytes(Some(0));
    let message = refusal(node.node.execute(&insert(1)));
    assert!(
        message.ends_with("no space left on the disk; make room and restart the node"),
        "{message}"
    );
    assert!(node.count() >= 1, "reads go on");
    node.disk.set_free_bytes(None);
    node.crash_and_start().unwrap();
    assert_eq!(node.node.rows("SELECT v FROM k.t WHERE p = 0").len(), 1);
    node.node.run(&insert(1));
}

/// Symptom: a DROP that failed after its rename stayed on the disk, and a crash took the table with all that was
/// written to it since.
#[test]
fn a_drop_that_was_refused_leaves_the_table_after_a_crash() {
    for failures in [1, 2] {
        let mut node = Node::start();
        for _ in 0..failures {
            node.inject(Operation::SyncDirectory, FaultKind::Error);
        }
        refusal(node.node.execute("DROP TABLE k.t"));
        match node.node.execute(&insert(0)) {
            // The old schema is on the disk again: the table goes on.
            Answer::Void => {
                assert_eq!(failures, 1);
                node.crash_and_start().unwrap();
                assert_eq!(node.count(), 1);
            }
            // The disk may have either schema: nothing more is taken until a restart tells.
            answer => {
                assert_eq!(failures, 2);
                let message = refusal(answer);
                assert!(message.contains("the schema could not be stored"), "{message}");
            }
        }
    }
}

#[test]
fn a_flush_that_finds_the_disk_full_loses_nothing() {
    let mut node = Node::start();
    for p in 0..ROWS {
        node.node.run(&insert(p));
    }
    // Of the flush when the node stops: its first new file.
    node.inject(Operation::Create, FaultKind::NoSpace);
    node.node.restart().unwrap();
    assert_eq!(node.count(), ROWS as usize);
    node.crash_and_start().unwrap();
    assert_eq!(node.count(), ROWS as usize);
}

#[test]
fn a_failed_read_fails_its_query_and_no_other() {
    let node = Node::with_sstables();
    node.inject(Operation::Read, FaultKind::Error);
    let answer = node.node.execute("SELECT v FROM k.t WHERE p = 1");
    let Answer::Error { code, message } = answer else {
        panic!("a failed read was answered with {answer:?}");
    };
    assert!(
        matches!(code, ErrorCode::ReadFailure | ErrorCode::ServerError),
        "{code:?}: {message}"
    );
    assert_eq!(node.node.rows("SELECT v FROM k.t WHERE p = 1").len(), 1);
    assert_eq!(node.count(), ROWS as usize);
}

#[test]
fn a_flipped_bit_is_an_error_and_never_a_wrong_row() {
    let mut node = Node::with_sstables();
    let wanted = node.node.rows("SELECT p, v FROM k.t");
    let data = node.files(&node.node.data_folder().join("data").join("k"), &|name| {
        name.ends_with("-Data.db")
    });
    let length = node.disk.open(&data[0]).unwrap().length().unwrap();
    let mut failed = 0;
    for bit in (0..length * 8).step_by(97) {
        node.node.crash();
        node.disk.flip_bit(&data[0], bit).unwrap();
        match node.node.start_again() {
            Ok(()) => match node.node.execute("SELECT p, v FROM k.t") {
                Answer::Rows(rows) => assert_eq!(rows.rows, wanted, "bit {bit}"),
                Answer::Error { message, .. } => {
                    failed += 1;
                    assert!(message.contains("-Data.db"), "bit {bit}: {message}");
                }
                other => panic!("bit {bit}: {other:?}"),
            },
            Err(error) => {
                failed += 1;
                assert!(error.to_string().contains("-Data.db"), "bit {bit}: {error}");
            }
        }
        node.node.crash();
        node.disk.flip_bit(&data[0], bit).unwrap();
    }
    assert!(failed > 0, "some flipped bit must have been read");
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_with_what_to_do() {
    let mut node = Node::start();
    let options = || options(1, node.disk.clone(), Arc::new(SystemClock::new()));
    let start = || {
        TestNode::start(options())
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let in_use = start();
    assert!(
        in_use.ends_with("is in use by another process; stop it, or choose another data folder"),
        "{in_use}"
    );
    node.node.crash();
    node.disk.set_read_only(true);
    let read_only = start();
    assert!(
        read_only.ends_with("check its owner, its permissions and how it is mounted"),
        "{read_only}"
    );
    node.disk.set_read_only(false);
    let version = node.node.data_folder().join("helenus-data-version");
    let file = node.disk.open_writable(&version).unwrap();
    file.set_length(0).unwrap();
    file.append(b"2\n").unwrap();
    let newer = start();
    assert!(
        newer.contains("has data version 2") && newer.ends_with("start the version that wrote it"),
        "{newer}"
    );
    file.set_length(0).unwrap();
    file.append(b"1\n").unwrap();
    drop(file);
    node.node.start_again().unwrap();
}

#[test]
fn a_corrupt_log_stops_the_start_by_name_and_a_torn_end_does_not() {
    let mut node = Node::start();
    for p in 0..ROWS {
        node.node.run(&insert(p));
    }
    node.node.crash();
    let segment = node.log_segments().pop().unwrap();
    let length = node.disk.open(&segment).unwrap().length().unwrap();
    let bit = length / 2 * 8;
    node.disk.flip_bit(&segment, bit).unwrap();
    let error = node.node.start_again().unwrap_err().to_string();
    let name = segment.file_name().unwrap().to_string_lossy().into_owned();
    assert!(
        error.contains(&name) && error.contains("is corrupt at byte"),
        "{error}"
    );
    node.disk.flip_bit(&segment, bit).unwrap();
    // What a power cut in the middle of an append leaves.
    node.disk
        .open_writable(&segment)
        .unwrap()
        .append(&[0xff; 7])
        .unwrap();
    node.node.start_again().unwrap();
    assert_eq!(node.count(), ROWS as usize);
}

#[test]
fn what_was_refused_at_the_start_is_on_the_metrics_page_until_its_table_goes() {
    let mut node = Node::with_sstables();
    let value = |node: &Node, series: &str| {
        let rows = node
            .node
            .rows("SELECT name, labels, value FROM system_views.node_metrics");
        rows.iter().find_map(|row| {
            let text = |index: usize| String::from_utf8(row[index].clone().unwrap()).unwrap();
            let is_it = format!("{}{{{}}}", text(0), text(1)) == series;
            let value = <[u8; 8]>::try_from(row[2].clone().unwrap()).unwrap();
            is_it.then(|| f64::from_be_bytes(value))
        })
    };
    let refused = "helenus_sstables_refused{keyspace=\"k\",table=\"t\"}";
    let page_cache = "helenus_page_cache_bytes{shard=\"0\"}";
    assert_eq!(
        (value(&node, refused), value(&node, page_cache)),
        (None, Some(0.0))
    );
    node.node.run("SELECT v FROM k.t WHERE p = 1");
    assert!(value(&node, page_cache) > Some(0.0));

    node.node.crash();
    let statistics = node.files(node.node.data_folder(), &|name| name.ends_with("-Statistics.db"));
    let of_table = statistics
        .iter()
        .find(|path| path.to_string_lossy().contains("/t-"));
    node.disk.remove(of_table.unwrap()).unwrap();
    node.node.start_again().unwrap();
    assert_eq!(value(&node, refused), Some(1.0));
    node.node.run("DROP TABLE k.t");
    assert_eq!(value(&node, refused), None);
}

const TABLE_WITH_ID: &str =
    "CREATE TABLE k.made_again (p int PRIMARY KEY) WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c18";
/// More than a drop has files to remove.
const FAULTS: u64 = 40;

/// Symptom: CREATE TABLE under the id of a table that was dropped waited for ever, and with it every change of the schema, where the
/// disk had no room for the commit log (simulated life, seed 2141016).
#[test]
fn a_table_is_refused_in_time_where_the_log_cannot_forget_the_one_that_was_dropped() {
    let is_full = Arc::new(AtomicBool::new(false));
    let hook = {
        let is_full = is_full.clone();
        move |operation, path: &Path| match operation {
            Operation::Create
                if is_full.load(Ordering::Relaxed) && path.starts_with("/helenus-data/commitlog") =>
            {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    };
    let disk = Arc::new(HookedDisk::new(Arc::new(MemoryDisk::new()), hook));
    let clock = Arc::new(ManualClock::starting_at(0));
    let node = TestNode::start(options(1, disk, clock.clone())).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run(TABLE_WITH_ID);
    is_full.store(true, Ordering::Relaxed);
    node.run("DROP TABLE k.made_again");
    let made_again = node.submit(TABLE_WITH_ID, &Execution::default());
    let is_answered = AtomicBool::new(false);
    let refused = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_answered.load(Ordering::Relaxed) {
                clock.advance_s(1);
                thread::sleep(Duration::from_millis(10));
            }
        });
        let answer = made_again.wait();
        is_answered.store(true, Ordering::Relaxed);
        refusal(answer.unwrap())
    });
    assert!(
        refused.contains("no file can be made for the commit log"),
        "{refused}"
    );
    is_full.store(false, Ordering::Relaxed);
    node.run(TABLE_WITH_ID);
}

/// Symptom: "Compaction of interchange.t1: ../da-26-bti-Data.db: No such file or directory" (histories, seed 38091), where the folder of
/// a dropped table had gone before the compaction made its file there.
#[test]
fn a_compaction_that_loses_its_folder_to_a_drop_was_stopped_and_has_not_failed() {
    let memory = Arc::new(MemoryDisk::new());
    let (is_armed, has_begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let hook = {
        let (memory, is_armed, has_begun) = (memory.clone(), is_armed.clone(), has_begun.clone());
        move |operation, path: &Path| {
            let is_output = operation == Operation::Create && path.to_string_lossy().ends_with("-Data.db");
            if is_output && is_armed.swap(false, Ordering::Relaxed) {
                has_begun.store(true, Ordering::Relaxed);
                while memory.exists(path.parent().unwrap())? {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Ok(())
        }
    };
    let complaints = Arc::new(Complaints::default());
    let disk = Arc::new(HookedDisk::new(memory, hook));
    let node = TestNode::start(NodeOptions {
        events: complaints.clone(),
        ..options(1, disk, Arc::new(SystemClock::new()))
    })
    .unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    for p in 0..2 {
        node.run(&insert(p));
        node.operator().flush(None).unwrap();
    }
    let table = node.schema().table("k", "t").unwrap().id;
    let operator = node.operator();
    is_armed.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        let kind = CompactionKind::Major { split_output: false };
        let compacted = scope.spawn(move || operator.compact(CompactionRequest { table, kind }));
        while !has_begun.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        node.run("DROP TABLE k.t");
        let _ended = compacted.join().unwrap();
    });
    assert_eq!(complaints.take(), None);
}

/// A table made at once under the id of one that was dropped, as restoring a snapshot does, had the dropped rows again
/// after a crash: their files were still to be removed.
#[test]
fn a_table_is_made_again_once_nothing_is_left_of_the_one_that_was_dropped() {
    let disk = Arc::new(SimulatedDisk::new(1));
    let clock = Arc::new(ManualClock::starting_at(0));
    let mut node = TestNode::start(options(1, disk.clone(), clock.clone())).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run(TABLE_WITH_ID);
    node.run("INSERT INTO k.made_again (p) VALUES (1)");
    node.operator().flush(None).unwrap();
    for after in 0..FAULTS {
        disk.inject(Fault {
            operation: Operation::Remove,
            after,
            kind: FaultKind::Error,
        });
    }
    node.run("DROP TABLE k.made_again");
    let refused = refusal(node.execute(TABLE_WITH_ID));
    assert!(refused.contains("cannot be removed"), "{refused}");

    disk.clear_faults();
    clock.advance_s(60);
    node.run(TABLE_WITH_ID);
    for _ in 0..2 {
        assert!(node.rows("SELECT p FROM k.made_again").is_empty());
        node.crash();
        disk.crash();
        node.start_again().unwrap();
    }
}

#[test]
fn a_table_is_not_made_over_the_files_of_another() {
    let node = Node::start();
    node.node.run(TABLE_WITH_ID);
    node.node.run("INSERT INTO k.made_again (p) VALUES (1)");
    node.node.operator().flush(None).unwrap();
    let is_component = |name: &str| name.contains("-big-") || name.contains("-bti-");
    let components = node.files(node.node.data_folder(), &|name| is_component(name));
    let kept = |path: &Path| Path::new("/kept").join(path.file_name().unwrap());
    node.disk.create_dir_all(Path::new("/kept")).unwrap();
    let of_table = |path: &&PathBuf| path.to_string_lossy().contains("made_again-");
    let components: Vec<&PathBuf> = components.iter().filter(of_table).collect();
    assert!(!components.is_empty());
    for path in &components {
        node.disk.hard_link(path, &kept(path)).unwrap();
    }
    node.node.run("DROP TABLE k.made_again");
    node.node.run(TABLE_WITH_ID);
    node.node.run("DROP TABLE k.made_again");

    // The folder goes in the background.
    let folder = components[0].parent().unwrap();
    while node.disk.exists(folder).unwrap() {
        thread::yield_now();
    }
    node.disk.create_dir_all(folder).unwrap();
    for path in &components {
        node.disk.hard_link(&kept(path), path).unwrap();
    }
    let Answer::Error { code, message } = node.node.execute(TABLE_WITH_ID) else {
        panic!("the files would have become the table's")
    };
    assert_eq!(code, ErrorCode::Invalid);
    assert!(
        message.contains("made_again-") && message.contains("Data.db"),
        "{message}"
    );
    for path in &components {
        node.disk.remove(path).unwrap();
    }
    node.node.run(TABLE_WITH_ID);
}
