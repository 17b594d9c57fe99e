//! The client of a node in the same process: what it is answered, how it is bounded, and that nothing of it stays.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use helenus_node::handle::{
    Batch, ClientOptions, Handle, Login, Outcome, REQUESTS_UNDER_WAY_MAX, RequestError, RequestOptions,
    SchemaChangeTarget, SchemaEvent,
};
use helenus_node::{Authenticator, Node, NodeOptions, block_on};
use helenus_protocol::ErrorCode;
use helenus_protocol::request::BatchKind;
use helenus_protocol::response::ErrorBody;
use helenus_types::ShardId;
use helenus_vfs::{Clock, MemoryDisk, SystemClock};

const SHARDS: u16 = 3;

fn options() -> NodeOptions {
    NodeOptions {
        shard_count: SHARDS,
        disk: Arc::new(MemoryDisk::new()),
        ..NodeOptions::new(PathBuf::from("/data"))
    }
}

fn run(handle: &Handle, text: &str) {
    block_on(handle.query(text, ())).unwrap_or_else(|error| panic!("{text}: {error}"));
}

fn with_table() -> (Node, Handle) {
    with_table_on(options())
}

fn with_table_on(options: NodeOptions) -> (Node, Handle) {
    let node = Node::start(options, Arc::new(|_| {})).expect("an empty disk in memory can be opened");
    let handle = node.handle();
    run(
        &handle,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(
        &handle,
        "CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))",
    );
    (node, handle)
}

#[test]
fn rows_come_back_typed_from_whichever_shard_owns_them() {
    let (node, handle) = with_table();
    let insert = block_on(handle.prepare("INSERT INTO k.t (p, c, v) VALUES (?, ?, ?)")).unwrap();
    for p in 0..20_i32 {
        block_on(handle.execute(&insert, (p, 1_i32, format!("value {p}")))).unwrap();
    }
    let select = block_on(handle.prepare("SELECT p, v FROM k.t WHERE p = ?")).unwrap();
    for p in 0..20_i32 {
        let answer = block_on(handle.execute(&select, (p,))).unwrap();
        assert_eq!(
            answer.read::<(i32, String)>().unwrap(),
            [(p, format!("value {p}"))]
        );
        let rows = answer.rows().expect("a SELECT has rows");
        assert_eq!((rows.len(), rows.columns()[1].name.as_str()), (1, "v"));
        assert_eq!(rows.iter().next().unwrap()[0], Some(&p.to_be_bytes()[..]));
    }
    let wrong = block_on(handle.execute(&select, ("text",)));
    assert!(matches!(wrong, Err(RequestError::Bind(_))), "{wrong:?}");
    node.stop();
}

#[test]
fn pages_come_one_by_one_until_the_last() {
    let (node, handle) = with_table();
    let mut batch = Batch::new(BatchKind::Unlogged);
    for c in 0..10_i32 {
        batch
            .push_text("INSERT INTO k.t (p, c, v) VALUES (1, ?, 'v')", (c,))
            .unwrap();
    }
    block_on(handle.batch(&batch)).unwrap();
    let select = block_on(handle.prepare("SELECT c FROM k.t WHERE p = ?")).unwrap();
    let options = RequestOptions {
        page_size: Some(4),
        ..RequestOptions::default()
    };
    let mut pages = handle.pages(&select, (1_i32,), &options).unwrap();
    let mut found = Vec::new();
    while let Some(page) = block_on(pages.next()).unwrap() {
        let rows = page.read::<(i32,)>().unwrap();
        assert!(rows.len() <= 4);
        found.extend(rows.into_iter().map(|(c,)| c));
    }
    assert_eq!(found, (0..10).collect::<Vec<_>>());
    node.stop();
}

#[test]
fn a_batch_has_the_time_and_the_keyspace_of_its_options() {
    let (node, handle) = with_table();
    let options = RequestOptions {
        keyspace: Some("k".to_owned()),
        timestamp_us: Some(1_234_567),
        ..RequestOptions::default()
    };
    let mut batch = Batch::new(BatchKind::Unlogged);
    batch
        .push_text("INSERT INTO t (p, c, v) VALUES (1, 2, 'v')", ())
        .unwrap();
    block_on(handle.batch_with(&batch, &options)).unwrap();
    let written = block_on(handle.query("SELECT writetime(v) FROM k.t WHERE p = 1", ())).unwrap();
    assert_eq!(written.read::<(i64,)>().unwrap(), [(1_234_567,)]);
    node.stop();
}

#[test]
fn errors_are_the_protocol_s_with_all_that_they_carry() {
    let (node, handle) = with_table();
    let exists = block_on(handle.query("CREATE TABLE k.t (p int PRIMARY KEY)", ())).unwrap_err();
    assert_eq!(exists.code(), Some(ErrorCode::AlreadyExists));
    let RequestError::Server(error) = &exists else {
        panic!("{exists:?}");
    };
    let wanted = ErrorBody::AlreadyExists {
        keyspace: "k",
        table: "t",
    };
    assert_eq!(error.details(), Some(wanted));
    let syntax = block_on(handle.query("SELEKT", ())).unwrap_err();
    assert_eq!(syntax.code(), Some(ErrorCode::SyntaxError));
    node.stop();
}

/// A statement that the node has dropped from its cache is prepared again, as a driver does it for its caller.
#[test]
fn a_statement_that_the_node_has_forgotten_is_prepared_again() {
    let (node, handle) = with_table();
    let select = block_on(handle.prepare("SELECT * FROM k.t WHERE p = ?")).unwrap();
    run(&handle, "INSERT INTO k.t (p, c, v) VALUES (1, 2, 'v')");
    run(&handle, "ALTER TABLE k.t ADD w int");
    let answer = block_on(handle.execute(&select, (1_i32,))).unwrap();
    assert_eq!(answer.read::<(i32, i32, String, Option<i32>)>().unwrap().len(), 1);
    let mut batch = Batch::new(BatchKind::Logged);
    let insert = block_on(handle.prepare("INSERT INTO k.t (p, c) VALUES (?, ?)")).unwrap();
    batch.push(&insert, (1_i32, 3_i32)).unwrap();
    run(&handle, "ALTER TABLE k.t DROP w");
    block_on(handle.batch(&batch)).unwrap();
    assert_eq!(
        block_on(handle.execute(&select, (1_i32,)))
            .unwrap()
            .rows()
            .unwrap()
            .len(),
        2
    );
    node.stop();
}

#[test]
fn a_client_keeps_its_keyspace_and_another_does_not_know_it() {
    let (node, handle) = with_table();
    let used = block_on(handle.query("USE k", ())).unwrap();
    assert!(matches!(used.outcome, Outcome::SetKeyspace(name) if name == "k"));
    run(&handle.clone(), "INSERT INTO t (p, c, v) VALUES (1, 1, 'v')");
    let other = handle.client(&ClientOptions::default());
    let unknown = block_on(other.query("SELECT * FROM t", ())).unwrap_err();
    assert_eq!(unknown.code(), Some(ErrorCode::Invalid));
    let options = RequestOptions {
        keyspace: Some("k".to_owned()),
        ..RequestOptions::default()
    };
    assert!(block_on(other.query_with("SELECT * FROM t", (), &options)).is_ok());
    node.stop();
}

#[test]
fn clients_are_listed_while_they_are_there_and_their_lanes_go_with_them() {
    let (node, handle) = with_table();
    let clients = "SELECT driver_name, request_count FROM system_views.clients";
    let peer = "10.1.2.3:4567".parse().unwrap();
    let other = handle.client(&ClientOptions {
        peer: Some(peer),
        driver_name: "a door".to_owned(),
        ..ClientOptions::default()
    });
    run(&other, "SELECT * FROM k.t");
    let listed = |handle: &Handle| {
        let answer = block_on(handle.query(clients, ())).unwrap();
        let mut names: Vec<String> = answer
            .read::<(String, i64)>()
            .unwrap()
            .into_iter()
            .map(|(name, requests)| {
                assert!(requests > 0);
                name
            })
            .collect();
        names.sort();
        names
    };
    assert_eq!(listed(&handle), ["a door", "helenus in process"]);
    drop(other);
    // The message that the client has gone may still be on its way to its shard.
    let gone = (0..1_000).any(|_| listed(&handle).len() == 1);
    assert!(gone);
    node.stop();
}

#[test]
fn who_must_log_in_is_understood_only_then() {
    let options = NodeOptions {
        authenticator: Authenticator::Password,
        ..options()
    };
    let node = Node::start(options, Arc::new(|_| {})).unwrap();
    let door = node.handle().client(&ClientOptions::default());
    let refused = block_on(door.query("SELECT * FROM system.local", ())).unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::ProtocolError));
    let wrong = block_on(door.log_in("cassandra", "wrong")).unwrap_err();
    assert_eq!(wrong.code(), Some(ErrorCode::BadCredentials));
    block_on(door.log_in("cassandra", "cassandra")).unwrap();
    run(&door, "CREATE ROLE r WITH LOGIN = true AND PASSWORD = 'p'");
    let trusted = node.handle();
    run(&trusted, "SELECT * FROM system.local");
    let nobody = block_on(trusted.query("CREATE ROLE s", ())).unwrap_err();
    assert_eq!(nobody.code(), Some(ErrorCode::Unauthorized));
    let known = trusted.client(&ClientOptions {
        login: Login::As("cassandra".into()),
        ..ClientOptions::default()
    });
    run(&known, "CREATE ROLE s");
    node.stop();
}

#[test]
fn changes_of_the_schema_are_told_until_the_node_stops() {
    let (node, handle) = with_table();
    let mut events = handle.schema_events();
    run(&handle, "CREATE TABLE k.u (p int PRIMARY KEY)");
    // A change that was answered before the subscription may be told after it.
    let made = SchemaChangeTarget::Table("u".into());
    while let Some(event) = block_on(events.next()) {
        let SchemaEvent::Changed(change) = event else {
            panic!("{event:?}");
        };
        assert_eq!(&*change.keyspace, "k");
        if change.target == made {
            break;
        }
    }
    node.stop();
    assert_eq!(block_on(events.next()), None);
    let stopped = block_on(handle.query("SELECT * FROM k.u", ())).unwrap_err();
    assert_eq!(stopped, RequestError::Stopped);
}

#[test]
fn a_traced_request_names_its_trace() {
    let (node, handle) = with_table();
    let options = RequestOptions {
        is_traced: true,
        ..RequestOptions::default()
    };
    let answer = block_on(handle.query_with("SELECT * FROM k.t WHERE p = 1", (), &options)).unwrap();
    let id = uuid::Uuid::from_bytes(answer.tracing_id.expect("it was traced"));
    let text = format!("SELECT request FROM system_traces.sessions WHERE session_id = {id}");
    let traced = block_on(handle.query(&text, ())).unwrap();
    assert_eq!(traced.rows().unwrap().len(), 1);
    node.stop();
}

/// Holds a shard until the returned sender is dropped or used.
fn hold(node: &Node, shard: u16) -> std::sync::mpsc::Sender<()> {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let (begun, is_held) = std::sync::mpsc::channel();
    node.mailbox(ShardId(shard)).run(move |_| {
        begun.send(()).expect("the test waits");
        let _released = gate.recv_timeout(Duration::from_secs(60));
    });
    is_held.recv().expect("the shard runs");
    release
}

fn poll_once(future: std::pin::Pin<&mut impl Future>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn callers_beyond_the_bound_wait_and_a_dropped_future_frees_its_place() {
    let (node, handle) = with_table();
    let home = handle.client(&ClientOptions {
        shard: Some(1),
        ..ClientOptions::default()
    });
    run(&home, "USE k");
    let release = hold(&node, 1);
    let mut waiting: Vec<_> = (0..REQUESTS_UNDER_WAY_MAX)
        .map(|p| {
            let text = format!("INSERT INTO k.t (p, c, v) VALUES ({p}, 0, 'abandoned')");
            let home = home.clone();
            Box::pin(async move { home.query(&text, ()).await })
        })
        .collect();
    for future in &mut waiting {
        assert!(!poll_once(future.as_mut()));
    }
    let mut one_more = pin!(home.query("INSERT INTO k.t (p, c, v) VALUES (-1, 0, 'wanted')", ()));
    assert!(!poll_once(one_more.as_mut()));
    // The place of one is enough; what the shard has not begun it never does.
    drop(waiting);
    assert!(!poll_once(one_more.as_mut()), "it is with the shard");
    release.send(()).unwrap();
    block_on(one_more).unwrap();
    let written = block_on(home.query("SELECT v FROM k.t", ())).unwrap();
    assert_eq!(written.read::<(String,)>().unwrap(), [("wanted".to_owned(),)]);
    node.stop();
}

/// A machine that has run for an hour: nobody can have waited longer than his clock.
#[derive(Debug)]
struct OldClock(SystemClock);

impl Clock for OldClock {
    fn wall_us(&self) -> i64 {
        self.0.wall_us()
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns() + 3_600 * 1_000_000_000
    }
}

#[test]
fn what_waited_longer_than_its_caller_would_is_refused_undone() {
    let (node, home) = with_table_on(NodeOptions {
        clock: Arc::new(OldClock(SystemClock::new())),
        ..options()
    });
    let options = RequestOptions {
        timeout: Some(Duration::from_millis(50)),
        waited: Duration::from_millis(51),
        ..RequestOptions::default()
    };
    let write = "INSERT INTO k.t (p, c, v) VALUES (1, 1, 'late')";
    let late = block_on(home.query_with(write, (), &options)).unwrap_err();
    assert_eq!(late.code(), Some(ErrorCode::Overloaded));
    // Admission: half of the shortest timeout is for waiting.
    let options = RequestOptions {
        waited: Duration::from_millis(1_100),
        ..RequestOptions::default()
    };
    let late = block_on(home.query_with(write, (), &options)).unwrap_err();
    assert_eq!(late.code(), Some(ErrorCode::Overloaded));
    assert!(
        block_on(home.query("SELECT * FROM k.t", ()))
            .unwrap()
            .rows()
            .unwrap()
            .is_empty()
    );
    node.stop();
}

#[test]
fn a_request_beyond_a_message_or_the_memory_is_refused_before_it_is_sent() {
    let (node, handle) = with_table();
    let long = vec![0_u8; 17 << 20];
    let options = RequestOptions::default();
    let text = String::from_utf8(long).unwrap();
    let refused = block_on(handle.query_with(&text, (), &options)).unwrap_err();
    assert!(matches!(refused, RequestError::TooLong { .. }), "{refused}");
    node.stop();
}

#[test]
fn handles_are_for_any_thread() {
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    fn is_sent<T: Send>(_: &T) {}
    is_shared::<Handle>();
    let (node, handle) = with_table();
    let request = handle.query("SELECT * FROM k.t", ());
    is_sent(&request);
    let threads: Vec<_> = (0..4_i32)
        .map(|p| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                for c in 0..50_i32 {
                    let text = "INSERT INTO k.t (p, c, v) VALUES (?, ?, 'v')";
                    block_on(handle.query(text, (p, c))).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let count = block_on(handle.query("SELECT count(*) FROM k.t", ())).unwrap();
    assert_eq!(count.read::<(i64,)>().unwrap(), [(200,)]);
    node.stop();
}

/// Statements are known by the time that they take: with this, none does, or each look at the clock takes a tenth of a millisecond.
#[derive(Debug)]
struct StandingClock {
    system: SystemClock,
    looks_take: AtomicBool,
    now_ns: AtomicU64,
}

impl StandingClock {
    fn new() -> Self {
        StandingClock {
            system: SystemClock::new(),
            looks_take: AtomicBool::new(false),
            now_ns: AtomicU64::new(0),
        }
    }
}

impl Clock for StandingClock {
    fn wall_us(&self) -> i64 {
        self.system.wall_us()
    }

    fn monotonic_ns(&self) -> u64 {
        let step_ns = match self.looks_take.load(Ordering::Relaxed) {
            true => 100_000,
            false => 0,
        };
        self.now_ns.fetch_add(step_ns, Ordering::Relaxed)
    }
}

fn selects_at_once(handle: &Handle) -> f64 {
    let text = "SELECT value FROM system_views.node_metrics WHERE name = 'helenus_selects_at_once_total'";
    let answer = block_on(handle.query(text, ())).unwrap();
    answer
        .read::<(f64,)>()
        .unwrap()
        .iter()
        .map(|(value,)| value)
        .sum()
}

/// A row that is found by an index took the queue, the task and the memory of a long read, and three times the instructions.
#[test]
fn a_select_that_has_been_short_is_answered_in_the_turn_that_it_arrives_in() {
    let clock = Arc::new(StandingClock::new());
    let (node, handle) = with_table_on(NodeOptions {
        shard_count: 1,
        clock: Arc::clone(&clock) as _,
        ..options()
    });
    run(&handle, "CREATE INDEX ON k.t (v) USING 'sai'");
    let insert = block_on(handle.prepare("INSERT INTO k.t (p, c, v) VALUES (?, ?, ?)")).unwrap();
    for p in 0..3_000_i32 {
        block_on(handle.execute(&insert, (p, 1_i32, format!("value {p}")))).unwrap();
    }
    let by_index = block_on(handle.prepare("SELECT p FROM k.t WHERE v = ?")).unwrap();
    for p in 0..40_i32 {
        let answer = block_on(handle.execute(&by_index, (format!("value {p}"),))).unwrap();
        assert_eq!(answer.read::<(i32,)>().unwrap(), [(p,)]);
    }
    let short = selects_at_once(&handle);
    assert!(short >= 39.0, "{short} of 40");
    let all = block_on(handle.prepare("SELECT p FROM k.t")).unwrap();
    for _ in 0..40 {
        let answer = block_on(handle.execute(&all, ())).unwrap();
        assert_eq!(answer.read::<(i32,)>().unwrap().len(), 3_000);
    }
    assert_eq!(selects_at_once(&handle), short, "a scan of several steps");
    run(&handle, "CREATE TABLE k.long (p int PRIMARY KEY, v text)");
    let insert = block_on(handle.prepare("INSERT INTO k.long (p, v) VALUES (?, ?)")).unwrap();
    for p in 0..30_i32 {
        block_on(handle.execute(&insert, (p, "long ".repeat(200)))).unwrap();
    }
    let json = block_on(handle.prepare("SELECT JSON v FROM k.long")).unwrap();
    for _ in 0..40 {
        let answer = block_on(handle.execute(&json, ())).unwrap();
        assert_eq!(answer.rows().map(|rows| rows.len()), Some(30));
    }
    assert_eq!(
        selects_at_once(&handle),
        short,
        "many reads, each of which is short"
    );
    clock.looks_take.store(true, Ordering::Relaxed);
    for p in 0..40_i32 {
        block_on(handle.execute(&by_index, (format!("value {p}"),))).unwrap();
    }
    let since = selects_at_once(&handle) - short;
    assert!(
        (1.0..8.0).contains(&since),
        "{since} of 40 though each takes long by now"
    );
    node.stop();
}
