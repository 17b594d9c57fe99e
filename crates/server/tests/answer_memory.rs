//! Memory cost of a client that asks and takes nothing.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use helenus_node::Authenticator;
use helenus_protocol::request::Value;
use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_server::Server;
use helenus_test_heap::{of_process, process_peak_bytes_of};
use helenus_transport::ConnectionLimits;
use support::{Client, Reply, node_options, serve_node, stop};

const VALUE_BYTES: usize = 1 << 20;

/// Their owners are both shards, so that half of the requests of any connection go to the other one.
const KEYS: i32 = 8;

const REQUESTS: usize = 400;

/// A shard's memory of requests (2 MiB), its kernel's buffers, and one answer that each shard is at; doubled, as answers
/// grow. All answers together are 400 MiB.
const HELD_BYTES_MAX: i64 = 64 << 20;

/// Rows that the polite clients wrote, pools, and what the others are at.
const LEFT_BYTES_MAX: i64 = 8 << 20;

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

/// Rows of one partition: more than a step reads, and with the others half of what one answer may take.
const ROWS: i32 = 64;

const ROW_BYTES: usize = 64 << 10;

/// Beside one that is polite.
const GREEDY_CLIENTS: usize = 8;

/// A partition that each shard has.
fn fill_partitions(client: &mut Client) {
    client.ask("CREATE TABLE k.wide (p int, c int, v blob, PRIMARY KEY (p, c))");
    let insert = client.prepare("INSERT INTO k.wide (p, c, v) VALUES (?, ?, ?)");
    let value = vec![7; ROW_BYTES];
    for (p, c) in (0..KEYS).flat_map(|p| (0..ROWS).map(move |c| (p, c))) {
        let (p, c) = (p.to_be_bytes(), c.to_be_bytes());
        let values = [Value::Bytes(&p), Value::Bytes(&c), Value::Bytes(&value)];
        let insert = client.execute(&insert, &values);
        client.send(&insert);
        assert_eq!(client.reply(), Reply::Message(Opcode::Result));
    }
}

/// Sends many requests for partitions and takes none.
fn greedy_of_partitions(address: SocketAddr, version: ProtocolVersion) -> Client {
    let mut client = Client::open(address, version);
    let mut requests = Vec::new();
    for key in (0..KEYS).cycle().take(REQUESTS) {
        requests.extend(client.query(&format!("SELECT v FROM k.wide WHERE p = {key}")));
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
    who_takes_his_answers_is_served_beside_those_who_take_none();
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

/// Eight connections asked for 8 MB again and again: everybody else's statements were refused until they were closed, and the
/// node took 718 MiB of the 192 that it had.
fn who_takes_his_answers_is_served_beside_those_who_take_none() {
    let server = serve(ConnectionLimits::default());
    fill_partitions(&mut Client::open(server.address, ProtocolVersion::V4));
    let before = of_process().live_bytes;
    let address = server.address;
    // Of both shards, as they come.
    let mut polite: Vec<Client> = (0..4)
        .map(|_| Client::open(address, ProtocolVersion::V4))
        .collect();
    let (greedy, most) = process_peak_bytes_of(|| {
        let versions = [ProtocolVersion::V4, ProtocolVersion::V5].into_iter().cycle();
        let greedy: Vec<Client> = versions
            .take(GREEDY_CLIENTS)
            .map(|version| greedy_of_partitions(address, version))
            .collect();
        for round in 0..50 {
            for client in &mut polite {
                for statement in [
                    "SELECT key FROM system.local".to_owned(),
                    format!(
                        "SELECT p, c FROM k.wide WHERE p = {} AND c = {round}",
                        round % KEYS
                    ),
                    format!("SELECT c FROM k.wide WHERE p IN (0, 1, 2, 3) AND c = {round}"),
                    format!("INSERT INTO k.wide (p, c) VALUES ({}, 1000)", round % KEYS),
                ] {
                    assert_eq!(
                        client.ask(&statement),
                        Reply::Message(Opcode::Result),
                        "{statement}"
                    );
                }
            }
        }
        greedy
    });
    assert!((most as i64) < HELD_BYTES_MAX, "{most} bytes");
    drop(greedy);
    // What was made for them has gone with them.
    while connections(&server) > polite.len() as u64 || of_process().live_bytes - before > LEFT_BYTES_MAX {
        std::thread::yield_now();
    }
    stop(server);
}

/// Its answers stayed for as long as the client did, and the shard refused everybody else's statements meanwhile.
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
