//! Savings of pooling the buffers of requests and answers: allocations and bytes of requests and answers of 8 KiB.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use helenus_node::Authenticator;
use helenus_protocol::ProtocolVersion;
use helenus_protocol::request::Value;
use helenus_test_heap::of_process;
use helenus_transport::ConnectionLimits;
use support::{Client, PATIENCE, node_options, serve_node, stop};

const VALUE_BYTES: usize = 8 * 1024;
const OPERATIONS: u64 = 4_000;

/// Cost of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    allocations: f64,
    bytes: f64,
}

fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let startup = Client::connect(address, ProtocolVersion::V4).startup();
    stream.write_all(&startup).unwrap();
    let mut ready = [0; 9];
    stream.read_exact(&mut ready).unwrap();
    stream
}

/// Asks `request` again and again, `at_once` of them in a write, and reads the answers. The client allocates nothing.
fn cost(address: SocketAddr, request: &[u8], at_once: u64) -> Cost {
    let mut stream = connect(address);
    let requests = request.repeat(at_once as usize);
    let mut answer = vec![0; 2 * VALUE_BYTES];
    let mut ask = |times: u64| {
        for _ in 0..times / at_once {
            stream.write_all(&requests).unwrap();
            for _ in 0..at_once {
                let (header, body) = answer.split_at_mut(9);
                stream.read_exact(header).unwrap();
                assert_eq!(header[4], 8, "a RESULT");
                let bytes = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
                stream.read_exact(&mut body[..bytes]).unwrap();
            }
        }
    };
    ask(OPERATIONS / 10);
    let before = of_process();
    ask(OPERATIONS);
    let after = of_process();
    Cost {
        allocations: (after.allocations - before.allocations) as f64 / OPERATIONS as f64,
        bytes: (after.allocated_bytes - before.allocated_bytes) as f64 / OPERATIONS as f64,
    }
}

/// Reads and writes, one at a time and sixteen.
fn costs(has_pool: bool) -> [Cost; 4] {
    let mut options = node_options(Authenticator::AllowAll);
    options.shard_count = 1;
    options.in_memory = true;
    options.buffer_pool = has_pool;
    let server = serve_node(options, ConnectionLimits::default(), false);
    let mut client = Client::open(server.address, ProtocolVersion::V4);
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (p int PRIMARY KEY, v blob)",
    ] {
        client.ask(statement);
    }
    let (key, value) = (1_i32.to_be_bytes(), vec![0xa5; VALUE_BYTES]);
    let write = client.prepare("INSERT INTO k.t (p, v) VALUES (?, ?)");
    let write = client.execute(&write, &[Value::Bytes(&key), Value::Bytes(&value)]);
    let read = client.prepare("SELECT v FROM k.t WHERE p = ?");
    let read = client.execute(&read, &[Value::Bytes(&key)]);
    let cases = [(&write, 1), (&write, 16), (&read, 1), (&read, 16)];
    let costs = cases.map(|(request, at_once)| cost(server.address, request, at_once));
    drop(client);
    stop(server);
    costs
}

/// One test, because the counters are the process's.
#[test]
fn with_the_pool_requests_and_answers_of_eight_kibibytes_take_no_memory_of_their_own() {
    let (with, without) = (costs(true), costs(false));
    let names = ["write", "write, 16 at once", "read", "read, 16 at once"];
    println!("| | allocations/op, with and without the pool | bytes/op |\n|---|---|---|");
    for ((name, with), without) in names.iter().zip(&with).zip(&without) {
        println!(
            "| {name} | {:.2}, {:.2} | {:.0}, {:.0} |",
            with.allocations, without.allocations, with.bytes, without.bytes
        );
    }
    for (with, without) in with.iter().zip(&without) {
        assert!(with.bytes < without.bytes, "{with:?}, without a pool {without:?}");
    }
    // A read's rows are written where they are sent from.
    for read in &with[2..] {
        assert!(read.allocations < 0.5 && read.bytes < 1_024.0, "{read:?}");
    }
}
