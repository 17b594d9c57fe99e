//! A log that is behind: what its buffer cannot take is refused with nothing done.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, HookedDisk, TestNode, options};
use helenus_types::{shard_of, token_of};
use helenus_vfs::{ManualClock, MemoryDisk, Operation, SystemClock};

/// Error number of the operating system (EMFILE).
const TOO_MANY_OPEN_FILES: i32 = 24;

/// How often a test looks whether a node has stopped, and how many times: for a minute, many times what it takes.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS_MAX: u32 = 1_200;

/// A disk on which no log is written or synced while somebody holds the gate.
fn gated_disk(gate: &Arc<Mutex<()>>) -> Arc<HookedDisk> {
    let gate = gate.clone();
    let pass = move |_, path: &Path| {
        if path.components().any(|part| part.as_os_str() == "commitlog") {
            drop(gate.lock().unwrap());
        }
        Ok(())
    };
    Arc::new(HookedDisk::new(Arc::new(MemoryDisk::new()), pass))
}

/// Four of them fit the log's buffer of two segments of 32 MiB, and no fifth.
const VALUE_BYTES: usize = 15 << 20;
const FITTING: i32 = 4;

/// A full buffer was answered as a server error, although nothing was done and the next moment has room.
#[test]
fn a_write_that_the_full_log_buffer_cannot_take_is_overload() {
    let gate = Arc::new(Mutex::new(()));
    // A clock that stands still: nobody's time is over while the log hangs.
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    let node = TestNode::start(options(1, gated_disk(&gate), clock)).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v blob)");
    let write = |p: i32| Execution {
        values: vec![Some(p.to_be_bytes().to_vec()), Some(vec![7; VALUE_BYTES])],
        // More than the shard has memory for requests.
        past_admission: true,
        ..Execution::default()
    };
    let insert = "INSERT INTO k.t (p, v) VALUES (?, ?)";

    let hanging = gate.lock().unwrap();
    let waiting: Vec<_> = (0..FITTING).map(|p| node.submit(insert, &write(p))).collect();
    let answer = node.execute_with(insert, &write(FITTING));
    let Answer::Error { code, message } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(code, ErrorCode::Overloaded, "{message}");
    drop(hanging);
    for pending in waiting {
        assert_eq!(pending.wait(), Some(Answer::Void));
    }
    assert_eq!(node.rows("SELECT p FROM k.t").len(), FITTING as usize);
    assert_eq!(node.execute_with(insert, &write(FITTING)), Answer::Void);
}

/// A batch that ended in a table of a keyspace without durable writes was acknowledged before the log had the rest.
#[test]
fn a_batch_waits_for_the_log_whichever_table_comes_last() {
    let gate = Arc::new(Mutex::new(()));
    let mut options = options(1, gated_disk(&gate), Arc::new(SystemClock::new()));
    options.write_request_timeout = Duration::from_millis(50);
    let node = TestNode::start(options).unwrap();
    for (keyspace, durable) in [("k", true), ("fast", false)] {
        node.run(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}} AND \
             durable_writes = {durable}"
        ));
        node.run(&format!("CREATE TABLE {keyspace}.t (p int PRIMARY KEY, v int)"));
    }
    let hanging = gate.lock().unwrap();
    let inserts = [
        "INSERT INTO k.t (p, v) VALUES (1, 1);",
        "INSERT INTO fast.t (p, v) VALUES (1, 1);",
    ];
    for kind in ["", "UNLOGGED"] {
        for [first, last] in [[0, 1], [1, 0]] {
            let batch = format!(
                "BEGIN {kind} BATCH {} {} APPLY BATCH",
                inserts[first], inserts[last]
            );
            let answer = node.execute(&batch);
            assert!(
                matches!(
                    &answer,
                    Answer::Error {
                        code: ErrorCode::WriteTimeout,
                        ..
                    }
                ),
                "{batch}: {answer:?}"
            );
        }
    }
    // What is not logged waits for nobody.
    assert_eq!(node.execute(inserts[1]), Answer::Void);
    drop(hanging);
    assert_eq!(node.execute(inserts[0]), Answer::Void);
}

/// Returns whether an operation makes a new segment of a shard's log, which a disk may refuse.
fn is_new_segment(operation: Operation, path: &Path) -> bool {
    operation == Operation::Create && path.to_string_lossy().contains("/segment-")
}

/// The full log's shard ended without its part of a batch. Who had another part waited for it and never ended: the shard
/// that had sent the parts, or one that waited for a sender that was to be stopped behind it.
#[test]
fn a_node_stops_although_a_full_log_has_not_taken_its_part_of_a_batch() {
    for shards in [2, 4] {
        stop_with_half_of_a_batch(shards);
    }
}

/// The last shard sends a batch to the first, whose log is full, and to the second.
fn stop_with_half_of_a_batch(shards: u16) {
    let is_full = Arc::new(AtomicBool::new(false));
    let has_failed = Arc::new(AtomicBool::new(false));
    let (full, failed) = (is_full.clone(), has_failed.clone());
    let disk = HookedDisk::new(Arc::new(MemoryDisk::new()), move |operation, path: &Path| {
        let is_first_log = path.components().any(|part| part.as_os_str() == "shard-00000");
        if full.load(Ordering::SeqCst) && is_first_log && is_new_segment(operation, path) {
            failed.store(true, Ordering::SeqCst);
            return Err(std::io::Error::from_raw_os_error(TOO_MANY_OPEN_FILES));
        }
        Ok(())
    });
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    let mut node = TestNode::start(options(shards, Arc::new(disk), clock.clone())).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    node.restart().unwrap();
    is_full.store(true, Ordering::SeqCst);
    let inserts = [0, 1].map(|shard| {
        let owns = |p: &i32| shard_of(token_of(&p.to_be_bytes()), shards).0 == shard;
        let p = (0..).find(owns).unwrap();
        format!("INSERT INTO k.t (p, v) VALUES ({p}, 'v');")
    });
    let batch = format!("BEGIN BATCH {} APPLY BATCH", inserts.concat());
    let on_last = Execution {
        shard: shards - 1,
        ..Execution::default()
    };
    let _never_answered = node.submit(&batch, &on_last);
    while !has_failed.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut node = stopped(node, &clock);
    is_full.store(false, Ordering::SeqCst);
    node.restart().unwrap();
    assert_eq!(node.rows("SELECT p FROM k.t").len(), 0, "half of a batch is none");
}

/// Stops a node whose shards wait for a while by its clock.
fn stopped(mut node: TestNode, clock: &ManualClock) -> TestNode {
    let (sender, stopped) = mpsc::channel();
    std::thread::spawn(move || {
        node.stop();
        let _given_up = sender.send(node);
    });
    let look = |_| {
        clock.advance_s(10);
        stopped.recv_timeout(LOOK).ok()
    };
    (0..LOOKS_MAX).find_map(look).expect("the node stops")
}

/// Too many open files at the moment of a change of segments: writes were refused until a restart.
#[test]
fn a_log_that_cannot_make_its_next_file_goes_on_when_it_can() {
    let fails = Arc::new(AtomicBool::new(false));
    let failures = Arc::new(AtomicU32::new(0));
    let (fails_now, count) = (fails.clone(), failures.clone());
    let disk = HookedDisk::new(
        Arc::new(MemoryDisk::new()),
        move |operation, path: &Path| match is_new_segment(operation, path)
            && fails_now.load(Ordering::SeqCst)
        {
            true => {
                count.fetch_add(1, Ordering::SeqCst);
                Err(std::io::Error::from_raw_os_error(TOO_MANY_OPEN_FILES))
            }
            false => Ok(()),
        },
    );
    // Nobody's time is over.
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    let mut node = TestNode::start(options(1, Arc::new(disk), clock)).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
    node.restart().unwrap();
    fails.store(true, Ordering::SeqCst);
    let insert = |p: i32| format!("INSERT INTO k.t (p, v) VALUES ({p}, 'v')");
    let waiting = node.submit(&insert(0), &Execution::default());
    // The shard has it tried again once it knows of the first failure.
    while failures.load(Ordering::SeqCst) < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let Answer::Error { code, message } = node.execute(&insert(1)) else {
        panic!("it cannot be durable")
    };
    assert_eq!(code, ErrorCode::Overloaded, "with nothing done: {message}");
    fails.store(false, Ordering::SeqCst);
    assert_eq!(waiting.wait(), Some(Answer::Void), "without a restart");
    assert_eq!(node.execute(&insert(2)), Answer::Void);
    node.crash();
    node.start_again().unwrap();
    assert_eq!(node.rows("SELECT p FROM k.t WHERE p IN (0, 2)").len(), 2);
    assert_eq!(node.rows("SELECT p FROM k.t").len(), 2);
}
