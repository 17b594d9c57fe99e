//! Reads that wait for their turn: where those of a client wait that asks for more than is served.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use helenus_node::Authenticator;
use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_transport::ConnectionLimits;

use crate::support::{Client, Reply, node_options, serve_node, stop};

const ROWS: u32 = 1_000;

/// Each takes some hundred microseconds.
const READS: usize = 3_000;

/// Requests of one connection that a shard decodes and has in its queue.
const QUEUED_MAX: u64 = 1_024;

/// Long reads that wait in their shard's queue.
fn waiting(metrics: SocketAddr) -> u64 {
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let value = page
        .lines()
        .find(|line| line.starts_with("helenus_long_reads_waiting{"))
        .and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.expect("the gauge of the only shard")
}

/// A client with 32,768 scans under way had all of them decoded and queued: no more of its socket was read, and what came last,
/// which could still be served, waited in the kernel behind what was late. Of INs of partitions at five times what can be served
/// nothing was answered in time.
#[test]
fn reads_beyond_those_that_a_shard_queues_wait_in_the_backlog_of_their_connection() {
    let mut options = node_options(Authenticator::AllowAll);
    options.shard_count = 1;
    options.in_memory = true;
    let server = serve_node(options, ConnectionLimits::default(), true);
    let metrics = server.metrics_address.unwrap();
    let mut client = Client::open(server.address, ProtocolVersion::V4);
    client.ask("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.ask("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    for p in 0..ROWS {
        client.ask(&format!("INSERT INTO k.t (p, v) VALUES ({p}, {p})"));
    }
    let scan = client.prepare("SELECT p FROM k.t WHERE v = 7 ALLOW FILTERING");
    let execute = client.execute(&scan, &[]);
    client.send(&execute);
    assert_eq!(client.reply(), Reply::Message(Opcode::Result));

    let all: Vec<u8> = (0..READS).flat_map(|_| client.execute(&scan, &[])).collect();
    client.send(&all);
    let (mut answered, mut served, mut most) = (0, 0, 0);
    while answered < READS {
        most = most.max(waiting(metrics));
        for _ in 0..(READS - answered).min(50) {
            match client.reply() {
                Reply::Message(Opcode::Result) => served += 1,
                // Half of a read's time may pass where the machine is slow.
                Reply::Error(ErrorCode::Overloaded, _) => {}
                other => panic!("{other:?}"),
            }
            answered += 1;
        }
    }
    assert!(served > 0, "none was ever served");
    assert!(most > 0, "none was ever seen waiting");
    assert!(most <= QUEUED_MAX, "{most} were decoded and queued");
    stop(server);
}
