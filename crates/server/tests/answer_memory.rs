//! What a client that asks and takes nothing costs.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use helenus_node::Authenticator;
use helenus_protocol::request::Value;
use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_server::{ConnectionLimits, Server};
use helenus_test_heap::of_process;
use support::{Client, Reply, node_options, serve_node, stop};

const VALUE_BYTES: usize = 1 << 20;

/// Their owners are both shards, so that half of the requests of any connection go to the other one.
const KEYS: i32 = 8;

const REQUESTS: usize = 400;

/// A shard's memory of requests (2 MiB), its kernel's buffers, and one answer that each shard is at; doubled, as answers
/// grow. All answers together are 400 MiB.
const HELD_BYTES_MAX: i64 = 64 << 20;

fn serve(limits: ConnectionLimits) -> Server {
    let mut options = node_options(Authenticator::AllowAll);
    options.in_memory = true;
    let server = serve_node(options, limits, true);
    let mut client = Client::open(server.address, ProtocolVersion::V4);
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (p int PRIMARY KEY, v blob)",
    ] {
        client.ask(statement);
    }
    let insert = client.prepare("INSERT INTO k.t (p, v) VALUES (?, ?)");
    let value = vec![7; VALUE_BYTES];
    for key in 0..KEYS {
        let key = key.to_be_bytes();
        let insert = client.execute(&insert, &[Value::Bytes(&key), Value::Bytes(&value)]);
        client.send(&insert);
        assert_eq!(client.reply(), Reply::Message(Opcode::Result));
    }
    server
}

/// Sends many requests for large answers and takes none.
fn greedy(address: SocketAddr) -> Client {
    let mut client = Client::open(address, ProtocolVersion::V4);
    let mut requests = Vec::new();
    for key in (0..KEYS).cycle().take(REQUESTS) {
        requests.extend(client.query(&format!("SELECT v FROM k.t WHERE p = {key}")));
    }
    client.send(&requests);
    client
}

/// Open CQL connections, of both shards.
fn connections(server: &Server) -> u64 {
    let mut stream = TcpStream::connect(server.metrics_address.unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page.lines()
        .filter(|line| line.starts_with("helenus_connections{"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// One after the other, because the counters are the process's.
#[test]
fn a_client_that_takes_nothing() {
    answers_that_nobody_takes_are_bounded();
    a_client_that_takes_nothing_is_closed();
}

/// One connection asked 3,000 times for 8 MB of the other shard and read nothing: 4.1 GB of answers that nobody counted,
/// kept for as long as it stayed.
fn answers_that_nobody_takes_are_bounded() {
    let server = serve(ConnectionLimits::default());
    let before = of_process().live_bytes;
    let mut greedy = greedy(server.address);
    let mut polite = Client::open(server.address, ProtocolVersion::V4);
    let mut most = 0;
    for _ in 0..200 {
        // Refused while there is no memory, and answered.
        assert_ne!(polite.ask("SELECT key FROM system.local"), Reply::Closed);
        most = most.max(of_process().live_bytes - before);
    }
    assert!(most < HELD_BYTES_MAX, "{most} bytes");
    // All of it is answered in the end, with rows or the word that nothing was done.
    let mut rows = 0;
    for _ in 0..REQUESTS {
        match greedy.reply() {
            Reply::Message(Opcode::Result) => rows += 1,
            Reply::Error(ErrorCode::Overloaded, _) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(rows > 0);
    assert_eq!(
        polite.ask("SELECT key FROM system.local"),
        Reply::Message(Opcode::Result)
    );
    drop(greedy);
    stop(server);
}

/// What it was sent stayed for as long as the client did, and the shard refused everybody else's statements meanwhile.
fn a_client_that_takes_nothing_is_closed() {
    let server = serve(ConnectionLimits {
        answer_timeout: Duration::from_millis(300),
        ..ConnectionLimits::default()
    });
    let mut greedy = greedy(server.address);
    while connections(&server) > 0 {
        std::thread::yield_now();
    }
    let answered = (0..REQUESTS)
        .take_while(|_| greedy.reply() != Reply::Closed)
        .count();
    assert!(answered < REQUESTS, "all answers were kept for it");
    stop(server);
}
