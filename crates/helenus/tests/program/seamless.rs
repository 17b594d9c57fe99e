//! Replacements of which clients see nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use helenus_protocol::wire::put_string;
use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_test_service::{Client, PATIENCE, Reply};

use crate::node::{Folder, Program, any_ports, create_table};

const VERSIONS: [ProtocolVersion; 3] = [ProtocolVersion::V3, ProtocolVersion::V4, ProtocolVersion::V5];

/// Enough for every moment of a replacement to be met by some request.
const REPLACEMENTS: usize = 6;

/// Counters of what the writers were acknowledged, and the signal to end.
#[derive(Default)]
struct Load {
    ends: AtomicBool,
    acknowledged: AtomicU64,
    by_http: AtomicU64,
    connected: AtomicU64,
}

/// The load ends with the closure that has it, also where that panics: nobody waits for its threads in vain.
struct Ending<'a>(&'a Load);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Relaxed);
    }
}

/// A counter is added to by one connection for as long as the load runs: an increment that is lost or done twice is seen. Ends with as many
/// as were acknowledged.
fn count_up(load: &Load, address: SocketAddr, version: ProtocolVersion, id: usize) -> u64 {
    let mut client = Client::open(address, version);
    // What was chosen stays chosen.
    assert_eq!(client.ask("USE k"), Reply::Message(Opcode::Result));
    let statement = format!("UPDATE counts SET count = count + 1 WHERE id = {id}");
    let mut count = 0;
    while !load.ends.load(Ordering::Relaxed) {
        assert_eq!(client.ask(&statement), Reply::Message(Opcode::Result));
        count += 1;
        load.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    count
}

/// More than a node answers while requests are served in the order of their arrival: the others are kept raw.
const UNDER_WAY: u64 = 500;

/// Half of what a replacement waits for answers.
const ANSWERED_WITHIN: Duration = Duration::from_millis(500);

/// The same by a client that never waits for an answer before it asks again. What a slow machine refuses was not done.
fn count_up_without_waiting(load: &Load, address: SocketAddr, id: usize) -> u64 {
    let mut client = Client::open(address, ProtocolVersion::V4);
    let increment = client.query(&format!("UPDATE k.counts SET count = count + 1 WHERE id = {id}"));
    client.send(&increment.repeat(UNDER_WAY as usize));
    let mut count = 0;
    let mut answer = |client: &mut Client| match client.reply() {
        Reply::Message(Opcode::Result) => count += 1,
        Reply::Error(ErrorCode::Overloaded, _) => {}
        other => panic!("{other:?}"),
    };
    while !load.ends.load(Ordering::Relaxed) {
        answer(&mut client);
        client.send(&increment);
        load.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    (0..UNDER_WAY).for_each(|_| answer(&mut client));
    count
}

/// The same over HTTP/1.1, all on one connection.
fn count_up_by_http(load: &Load, address: SocketAddr, id: usize) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = format!("{{\"query\": \"UPDATE k.counts SET count = count + 1 WHERE id = {id}\"}}");
    let request = format!(
        "POST /v1/query HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut count = 0;
    while !load.ends.load(Ordering::Relaxed) {
        // In two pieces, so that a replacement also meets halves of requests.
        let (first, rest) = request.split_at(request.len() / 3);
        stream.write_all(first.as_bytes()).unwrap();
        stream.write_all(rest.as_bytes()).unwrap();
        let answer = http_answer(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        count += 1;
        load.by_http.fetch_add(1, Ordering::Relaxed);
    }
    count
}

/// Head and body of an answer that says its length.
fn http_answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).unwrap();
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes);
        assert!(count > 0, "closed behind {text:?}");
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if length == Some(body.len()) {
                return text.into_owned();
            }
        }
    }
}

/// A client that connects for each of its requests: none is refused, and none waits in vain.
fn connect_anew(load: &Load, address: SocketAddr) {
    while !load.ends.load(Ordering::Relaxed) {
        let mut client = Client::open(address, ProtocolVersion::V5);
        let reply = client.ask("SELECT key FROM system.local");
        assert_eq!(reply, Reply::Message(Opcode::Result));
        load.connected.fetch_add(1, Ordering::Relaxed);
    }
}

/// Until so much more was done.
fn wait_for(count: &AtomicU64, more: u64) {
    let goal = count.load(Ordering::Relaxed) + more;
    let begun = Instant::now();
    while count.load(Ordering::Relaxed) < goal {
        assert!(begun.elapsed() < 2 * PATIENCE, "nothing more is done");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn no_connection_is_refused_or_lost_and_nothing_is_done_twice_or_not_at_all() {
    let folder = Folder::new("seamless");
    let mut node = Program::start(&folder.0, any_ports(), &[]);
    let addresses = node.addresses();
    create_table(node.cql);
    let mut asking = Client::open(node.cql, ProtocolVersion::V4);
    asking.ask("CREATE TABLE k.counts (id int PRIMARY KEY, count counter)");
    let load = Load::default();
    let counted: Vec<u64> = thread::scope(|scope| {
        let counting: Vec<_> = VERSIONS
            .iter()
            .cycle()
            .take(9)
            .enumerate()
            .map(|(id, version)| {
                let (load, address) = (&load, node.cql);
                scope.spawn(move || count_up(load, address, *version, id))
            })
            .chain((9..12).map(|id| {
                let (load, address) = (&load, addresses[2]);
                scope.spawn(move || count_up_by_http(load, address, id))
            }))
            .collect();
        scope.spawn(|| connect_anew(&load, addresses[0]));
        let ending = Ending(&load);
        for _ in 0..REPLACEMENTS {
            wait_for(&load.acknowledged, 200);
            wait_for(&load.by_http, 50);
            wait_for(&load.connected, 5);
            let successor = Program::start(&folder.0, addresses, &["--replace"]);
            assert_eq!(successor.addresses(), addresses);
            let log = std::mem::replace(&mut node, successor).end();
            assert!(log.contains("serves in place of this one"), "{log}");
            assert!(!log.contains("not answered"), "{log}");
        }
        wait_for(&load.acknowledged, 200);
        drop(ending);
        counting
            .into_iter()
            .map(|counting| counting.join().unwrap())
            .collect()
    });
    for (id, count) in counted.iter().enumerate() {
        let rows = asking.ask_rows(&format!("SELECT JSON count FROM k.counts WHERE id = {id}"));
        assert_eq!(rows, [[format!("{{\"count\": {count}}}")]]);
    }
    node.terminate();
    node.end();
}

/// A client with 500 requests under way lost its connection, two times of three, and did not learn what had become of them: as long as
/// some were kept, more were read, though nobody could be handed over before all were answered. Who is answered too slowly may lose it.
#[test]
fn requests_that_are_kept_when_a_node_is_replaced_are_done_once_and_answered() {
    let folder = Folder::alone("kept");
    let mut node = Program::start(&folder.0, any_ports(), &[]);
    let addresses = node.addresses();
    create_table(node.cql);
    let mut asking = Client::open(node.cql, ProtocolVersion::V4);
    asking.ask("CREATE TABLE k.counts (id int PRIMARY KEY, count counter)");
    let (mut fast, mut kept) = (0, 0);
    for id in 0..REPLACEMENTS {
        let load = Load::default();
        let (count, log) = thread::scope(|scope| {
            let counting = scope.spawn(|| count_up_without_waiting(&load, addresses[0], id));
            let ending = Ending(&load);
            let begun = Instant::now();
            wait_for(&load.acknowledged, 4 * UNDER_WAY);
            fast += usize::from(begun.elapsed() / 4 < ANSWERED_WITHIN);
            let successor = Program::start(&folder.0, addresses, &["--replace"]);
            let log = std::mem::replace(&mut node, successor).end();
            let is_lost = log.contains("not answered");
            if !is_lost {
                wait_for(&load.acknowledged, 2 * UNDER_WAY);
            }
            drop(ending);
            let counted = counting.join();
            ((!is_lost).then(|| counted.expect("no answer is lost")), log)
        });
        let Some(count) = count else {
            println!("{log}");
            continue;
        };
        let rows = asking.ask_rows(&format!("SELECT JSON count FROM k.counts WHERE id = {id}"));
        assert_eq!(rows, [[format!("{{\"count\": {count}}}")]]);
        kept += 1;
    }
    assert!(
        4 * kept >= 3 * fast,
        "of {fast} clients {kept} kept their connection"
    );
    node.terminate();
    node.end();
}

/// Not even a client that is silent the whole time, or has sent half of a message.
#[test]
fn connections_that_say_nothing_or_half_of_a_message_go_on() {
    let folder = Folder::new("silent");
    let node = Program::start(&folder.0, any_ports(), &[]);
    let addresses = node.addresses();
    create_table(node.cql);
    let mut silent = Client::connect(node.cql, ProtocolVersion::V4);
    let mut half_said = Client::connect(node.cql, ProtocolVersion::V5);
    let startup = half_said.startup();
    half_said.send(&startup[..5]);
    let mut resting = VERSIONS.map(|version| Client::open(node.cql, version));
    let mut half_asked = Client::open(node.cql, ProtocolVersion::V4);
    let question = half_asked.query("SELECT key FROM system.local");
    // Seen by the node before it is replaced.
    assert_eq!(
        half_asked.ask("SELECT key FROM system.local"),
        Reply::Message(Opcode::Result)
    );
    let successor = Program::start(&folder.0, addresses, &["--replace"]);
    node.end();
    half_asked.send(&question);
    assert_eq!(half_asked.reply(), Reply::Message(Opcode::Result));
    for client in &mut resting {
        let reply = client.ask("SELECT id FROM k.rows");
        assert_eq!(reply, Reply::Message(Opcode::Result));
    }
    for (client, said) in [(&mut silent, 0), (&mut half_said, 5)] {
        let startup = client.startup();
        client.send(&startup[said..]);
        assert_eq!(client.reply(), Reply::Message(Opcode::Ready));
    }
    successor.terminate();
    successor.end();
}

/// A driver whose control connection moved would have gone on with the schema of before.
#[test]
fn who_asked_for_events_is_told_by_the_process_that_replaces_the_node() {
    let folder = Folder::new("events");
    let node = Program::start(&folder.0, any_ports(), &[]);
    let addresses = node.addresses();
    let mut listening = Client::open(node.cql, ProtocolVersion::V4);
    let mut others = Client::open(node.cql, ProtocolVersion::V4);
    let register = listening.message(Opcode::Register, |out| {
        out.extend(1_u16.to_be_bytes());
        put_string(out, "SCHEMA_CHANGE");
    });
    listening.send(&register);
    assert_eq!(listening.reply(), Reply::Message(Opcode::Ready));
    let successor = Program::start(&folder.0, addresses, &["--replace"]);
    node.end();
    let created = others
        .ask("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    assert_eq!(created, Reply::Message(Opcode::Result));
    assert_eq!(listening.reply(), Reply::Message(Opcode::Event));
    successor.terminate();
    successor.end();
}

#[test]
fn who_has_logged_in_stays_logged_in_and_who_has_not_still_can() {
    let folder = Folder::new("login");
    let options = ["--authenticator", "password"];
    let node = Program::start(&folder.0, any_ports(), &options);
    let addresses = node.addresses();
    let mut client = Client::log_in_as(node.cql, "cassandra", "cassandra");
    let mut undecided = Client::start(node.cql, ProtocolVersion::V5);
    let successor = Program::start(&folder.0, addresses, &[&options[..], &["--replace"]].concat());
    node.end();
    let users = client.ask_rows("SELECT username, connection_stage FROM system_views.clients");
    let mut stages: Vec<String> = users.into_iter().map(|row| row.join(" ")).collect();
    stages.sort();
    assert_eq!(stages, ["anonymous authenticating", "cassandra ready"]);
    let reply = undecided.log_in("cassandra", "cassandra");
    assert_eq!(reply, Reply::Message(Opcode::AuthSuccess));
    successor.terminate();
    successor.end();
}

/// Clients of HTTP and gRPC had to log in again, and were told so by an error.
#[test]
fn tokens_are_good_at_the_process_that_replaces_the_node_until_their_role_has_another_password() {
    let folder = Folder::new("tokens");
    let options = ["--authenticator", "password"];
    let node = Program::start(&folder.0, any_ports(), &options);
    let addresses = node.addresses();
    let post = |path: &str, token: &str, body: &str| {
        let mut stream = TcpStream::connect(addresses[2]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: node\r\nContent-Type: application/json");
        let request =
            format!("{head}\r\nX-Cassandra-Token: {token}\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        http_answer(&mut stream)
    };
    let answer = post(
        "/v1/auth",
        "",
        r#"{"username": "cassandra", "password": "cassandra"}"#,
    );
    let token = answer.split('"').nth(3).expect("a token").to_owned();
    let asks = || {
        post(
            "/v1/query",
            &token,
            r#"{"query": "SELECT key FROM system.local"}"#,
        )
    };
    assert!(asks().starts_with("HTTP/1.1 200"), "{}", asks());
    let successor = Program::start(&folder.0, addresses, &[&options[..], &["--replace"]].concat());
    node.end();
    assert!(asks().starts_with("HTTP/1.1 200"), "{}", asks());
    let mut client = Client::log_in_as(successor.cql, "cassandra", "cassandra");
    let changed = client.ask("ALTER ROLE cassandra WITH PASSWORD = 'another'");
    assert_eq!(changed, Reply::Message(Opcode::Result));
    let last = Program::start(&folder.0, addresses, &[&options[..], &["--replace"]].concat());
    successor.end();
    assert!(asks().starts_with("HTTP/1.1 401"), "{}", asks());
    last.terminate();
    last.end();
}
