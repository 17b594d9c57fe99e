//! Requests that the shard which gets them sends to the one that has their rows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use helenus_node::NodeOptions;
use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{Clock, ManualClock, MemoryDisk};

const PARTITIONS: i32 = 16;

/// Many times as many as an owner has time for.
const ASKED: u64 = 20_000;

fn node(shard_count: u16) -> TestNode {
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    clock.advance_s(1_000);
    filled(options(shard_count, Arc::new(MemoryDisk::new()), clock))
}

fn filled(options: NodeOptions) -> TestNode {
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int, c int, v int, PRIMARY KEY (p, c))");
    node.run("CREATE TABLE k.plain (p int PRIMARY KEY, v int)");
    for p in 0..PARTITIONS {
        (0..3).for_each(|c| node.run(&format!("INSERT INTO k.t (p, c, v) VALUES ({p}, {c}, {p})")));
        node.run(&format!("INSERT INTO k.plain (p, v) VALUES ({p}, {p})"));
    }
    node
}

/// Requests that shard 0 has sent to others.
fn forwarded(node: &TestNode) -> u64 {
    node.on_shard(0, |shard| shard.metrics_snapshot().forwarded)
}

fn refused(node: &TestNode) -> u64 {
    let overloaded = ErrorCode::ALL
        .iter()
        .position(|&code| code == ErrorCode::Overloaded);
    node.on_shard(0, move |shard| {
        shard.metrics_snapshot().errors[overloaded.unwrap()]
    })
}

/// Execution for a client that asks to be told of overload, or does not.
fn after(waited_ms: u64, throws_on_overload: bool) -> Execution {
    Execution {
        waited: Duration::from_millis(waited_ms),
        throws_on_overload,
        ..Execution::default()
    }
}

fn is_overloaded(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Error {
            code: ErrorCode::Overloaded,
            ..
        }
    )
}

/// Requests that crossed waited at their owner for as long as their deadlines allowed, however little their clients had asked for: at twice of what
/// can be served nothing that crossed was in time.
#[test]
fn the_owner_refuses_what_has_waited_half_of_what_its_own_clients_may() {
    let node = node(2);
    let statements: [fn(i32) -> String; 4] = [
        |p| format!("SELECT v FROM k.plain WHERE p = {p}"),
        |p| format!("SELECT count(v) FROM k.t WHERE p = {p}"),
        |p| format!("INSERT INTO k.plain (p, v) VALUES ({p}, {p})"),
        |p| format!("UPDATE k.t SET v = {p} WHERE p = {p} AND c = 1"),
    ];
    for statement in statements {
        let refused = |waited_ms: u64, throws: bool| {
            let answer = |p: i32| node.execute_with(&statement(p), &after(waited_ms, throws));
            (0..PARTITIONS).filter(|&p| is_overloaded(&answer(p))).count()
        };
        // No queue stands: what gathers in a pause of 25 ms is served, and half of that where an answer has to come back.
        assert_eq!(refused(12, true), 0, "{}", statement(0));
        let of_other = refused(14, true);
        assert!(
            (1..PARTITIONS as usize).contains(&of_other),
            "{}: {of_other}",
            statement(0)
        );
        assert_eq!(refused(26, true), PARTITIONS as usize, "{}", statement(0));
        assert_eq!(refused(26, false), 0, "{}", statement(0));
    }
}

/// Each look at it takes some time.
#[derive(Debug, Default)]
struct SlowClock(AtomicU64);

impl Clock for SlowClock {
    fn wall_us(&self) -> i64 {
        1_000_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        1_000_000_000_000 + self.0.fetch_add(2_000, Ordering::Relaxed)
    }
}

/// Two messages and what an owner does to refuse were spent on each request that it had no time for.
#[test]
fn what_its_owner_has_no_time_for_is_not_sent_to_it() {
    let node = filled(options(
        2,
        Arc::new(MemoryDisk::new()),
        Arc::new(SlowClock::default()),
    ));
    let of_one = |p: i32| format!("SELECT v FROM k.plain WHERE p = {p}");
    let is_of_other = |p: &i32| {
        let before = forwarded(&node);
        node.run(&of_one(*p));
        forwarded(&node) > before
    };
    let other = (0..PARTITIONS)
        .find(is_of_other)
        .expect("a partition of the other shard");
    // What a request takes is learned.
    (0..200).for_each(|_| node.run(&of_one(other)));
    let (open, gate) = mpsc::channel();
    let held_up = node.prepare_behind(1, gate, &of_one(0));
    let (sent_before, refused_before) = (forwarded(&node), refused(&node));
    let asked: Vec<_> = (0..ASKED)
        .map(|_| node.submit(&of_one(other), &after(0, true)))
        .collect();
    // While the owner does nothing.
    let done = || (forwarded(&node) - sent_before, refused(&node) - refused_before);
    while done().0 + done().1 < ASKED {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (sent, refused) = done();
    assert!(
        (100..ASKED / 2).contains(&sent),
        "{sent} were sent, {refused} refused"
    );
    open.send(()).unwrap();
    assert!(held_up.wait().is_some() && asked.into_iter().all(|asked| asked.wait().is_some()));
}

/// A read of one partition that is more than one step was put together where its client was, and asked the owner as a part of
/// something begun, which it cannot refuse: nobody knew what it would wait for.
#[test]
fn a_read_that_one_shard_does_is_all_done_there() {
    let node = node(2);
    let is_sent = |text: &str| {
        let before = forwarded(&node);
        assert!(matches!(node.execute(text), Answer::Rows(_)), "{text}");
        forwarded(&node) > before
    };
    let count = |p: i32| is_sent(&format!("SELECT count(v) FROM k.t WHERE p = {p}"));
    let sent = (0..PARTITIONS).filter(|&p| count(p)).count();
    assert!((1..PARTITIONS as usize).contains(&sent), "{sent}");
    let beyond = |bound: i64| is_sent(&format!("SELECT v FROM k.t WHERE token(p) > {bound}"));
    assert!(beyond(1 << 62) && !beyond(i64::MIN));
    // Every shard is asked for its part of these: they stay where their client is.
    assert!(!is_sent(&format!(
        "SELECT count(v) FROM k.t WHERE token(p) > {}",
        1_i64 << 62
    )));
}

/// Rows that are read ahead of their turn are those that would be read in turn: with every limit, page and list of keys the
/// pages of several shards are those of one.
#[test]
fn pages_of_rows_read_ahead_are_those_of_one_shard() {
    let (one, several) = (node(1), node(5));
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    for _ in 0..300 {
        let keys: Vec<String> = (0..1 + next(24)).map(|_| next(20).to_string()).collect();
        let keys = keys.join(", ");
        let limit = match next(3) {
            0 => String::new(),
            1 => format!(" LIMIT {}", 1 + next(6)),
            _ => format!(" PER PARTITION LIMIT {}", 1 + next(2)),
        };
        let text = match next(4) {
            0 => format!("SELECT p, v FROM k.plain WHERE p IN ({keys}){limit}"),
            1 => format!("SELECT p, c FROM k.t WHERE p IN ({keys}) AND c = 1{limit}"),
            2 => format!("SELECT p, c FROM k.t WHERE p IN ({keys}) AND c > 0{limit}"),
            _ => format!("SELECT count(v) FROM k.t WHERE p IN ({keys}) AND c = 1"),
        };
        let page_size = (next(2) == 0).then(|| 1 + next(5) as i32);
        let pages = |node: &TestNode, shard: u16| {
            let mut pages = Vec::new();
            let mut paging_state = None;
            loop {
                let execution = Execution {
                    page_size,
                    paging_state: paging_state.take(),
                    shard,
                    ..Execution::default()
                };
                let Answer::Rows(rows) = node.execute_with(&text, &execution) else {
                    panic!("{text}");
                };
                paging_state = rows.paging_state.clone();
                pages.push((rows.rows, paging_state.is_some()));
                if paging_state.is_none() {
                    return pages;
                }
            }
        };
        let shard = next(5) as u16;
        assert_eq!(
            pages(&several, shard),
            pages(&one, 0),
            "{text}, pages of {page_size:?}, shard {shard}"
        );
    }
}
