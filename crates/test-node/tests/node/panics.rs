//! A panic is a bug, and it stays where it happened: the request is answered, the node goes on.

use std::sync::Arc;

use helenus_node::metrics::PANICS;
use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{Fault, FaultKind, Operation, SimulatedDisk, SystemClock};

const SHARDS: u16 = 2;

/// Partitions enough that each shard has some.
const PARTITIONS: i32 = 10;

struct Node {
    node: TestNode,
    disk: Arc<SimulatedDisk>,
}

impl Node {
    /// With rows in SSTables that no cache knows.
    fn start() -> Node {
        let disk = Arc::new(SimulatedDisk::new(1));
        let mut node = TestNode::start(options(SHARDS, disk.clone(), Arc::new(SystemClock::new()))).unwrap();
        node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        node.run("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
        for p in 0..PARTITIONS {
            node.run(&format!("INSERT INTO k.t (p, v) VALUES ({p}, {p})"));
        }
        node.restart().unwrap();
        Node { node, disk }
    }

    fn panic_at(&self, operation: Operation) {
        self.disk.inject(Fault {
            operation,
            after: 0,
            kind: FaultKind::Panic,
        });
    }

    fn on_shard(&self, shard: u16, text: &str) -> Answer {
        let execution = Execution {
            shard,
            ..Execution::default()
        };
        self.node.execute_with(text, &execution)
    }
}

fn assert_internal_error(answer: &Answer) {
    let Answer::Error { code, message } = answer else {
        panic!("a panic was answered with {answer:?}");
    };
    assert_eq!(*code, ErrorCode::ServerError);
    assert!(message.starts_with("Internal error: "), "{message}");
}

fn panics() -> u64 {
    PANICS.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn a_read_that_panics_is_answered_whichever_shard_it_happens_on() {
    let node = Node::start();
    let before = panics();
    // From both shards, so that one of them asks the other.
    for shard in 0..SHARDS {
        node.panic_at(Operation::Read);
        assert_internal_error(&node.on_shard(shard, "SELECT v FROM k.t WHERE p = 1"));
    }
    assert!(panics() >= before + u64::from(SHARDS));
    for shard in 0..SHARDS {
        let Answer::Rows(rows) = node.on_shard(shard, "SELECT v FROM k.t WHERE p = 1") else {
            panic!("the row can be read again");
        };
        assert_eq!(rows.rows, [[Some(1_i32.to_be_bytes().to_vec())]]);
    }
}

#[test]
fn a_scan_that_panics_is_answered_whichever_shard_it_happens_on() {
    for after in 0..3 {
        let node = Node::start();
        node.disk.inject(Fault {
            operation: Operation::Read,
            after,
            kind: FaultKind::Panic,
        });
        assert_internal_error(&node.on_shard(0, "SELECT * FROM k.t"));
        assert_eq!(node.node.rows("SELECT * FROM k.t").len(), PARTITIONS as usize);
    }
}

#[test]
fn a_schema_change_that_panics_is_answered_and_leaves_the_next_one_alone() {
    let node = Node::start();
    node.panic_at(Operation::Rename);
    assert_internal_error(&node.node.execute("CREATE TABLE k.u (p int PRIMARY KEY)"));
    node.node.run("CREATE TABLE k.u (p int PRIMARY KEY)");
}

#[test]
fn a_log_thread_that_panics_refuses_writes_and_reads_go_on() {
    let mut node = Node::start();
    node.panic_at(Operation::Sync);
    for p in 0..PARTITIONS {
        let answer = node.node.execute(&format!("UPDATE k.t SET v = 7 WHERE p = {p}"));
        if let Answer::Error { code, message } = answer {
            assert_eq!(code, ErrorCode::ServerError);
            assert!(message.contains("restart"), "{message}");
        }
    }
    assert_eq!(node.node.rows("SELECT * FROM k.t").len(), PARTITIONS as usize);
    node.node.crash();
    node.node.start_again().unwrap();
    for p in 0..PARTITIONS {
        node.node.run(&format!("UPDATE k.t SET v = 8 WHERE p = {p}"));
    }
}

#[test]
fn a_flush_that_panics_is_given_up_and_the_node_stops_and_starts() {
    let mut node = Node::start();
    node.node.run("INSERT INTO k.t (p, v) VALUES (100, 100)");
    // Of the flush that the restart makes: its first new file.
    node.panic_at(Operation::Create);
    node.node.restart().unwrap();
    assert_eq!(node.node.rows("SELECT v FROM k.t WHERE p = 100").len(), 1);
}
