//! File descriptors left to a process however many clients connect.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use helenus_protocol::{Opcode, ProtocolVersion};
use support::{Client, Reply, assert_serves, serve_with_metrics};

const QUERY: &str = "SELECT release_version FROM system.local";

/// Descriptors that the server may open.
const LIMIT: usize = 128;

/// A quarter of a small limit is not for connections.
const RESERVE: usize = LIMIT / 4;

/// Connections to the metrics page at the same time.
const METRICS_CONNECTIONS_MAX: usize = 16;

const CONNECTIONS: usize = 2 * LIMIT;

/// A server in a process of its own: this test program, asked for [`serves_where_it_is_asked_to`] only.
struct Serving {
    process: Child,
    cql: SocketAddr,
    metrics: SocketAddr,
}

const ASKED_TO_SERVE: &str = "HELENUS_TEST_SERVES";

impl Serving {
    fn start() -> Serving {
        let program = std::env::current_exe().unwrap();
        let mut process = Command::new("sh")
            .arg("-c")
            // The soft limit is lower still: a start raises it.
            .arg(format!(
                "ulimit -Sn {} && ulimit -Hn {LIMIT} && exec \"$0\" \"$@\"",
                LIMIT / 2
            ))
            .arg(program)
            .args(["--exact", "serves_where_it_is_asked_to", "--nocapture"])
            .env(ASKED_TO_SERVE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut addresses = lines.map_while(Result::ok).filter_map(|line| {
            line.strip_prefix("serves ")
                .map(|address| address.parse().unwrap())
        });
        let (cql, metrics) = (addresses.next().unwrap(), addresses.next().unwrap());
        Serving {
            process,
            cql,
            metrics,
        }
    }

    fn open_files(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.process.id());
        let numbers = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<usize>().ok());
        // What the test program itself was started with may lie beyond.
        numbers.filter(|number| *number < LIMIT).count()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ended = self.process.wait();
    }
}

/// Not a test of its own: serves until nobody wants it any more.
#[test]
fn serves_where_it_is_asked_to() {
    if std::env::var_os(ASKED_TO_SERVE).is_none() {
        return;
    }
    let server = serve_with_metrics();
    println!("\nserves {}", server.address);
    println!("serves {}", server.metrics_address.unwrap());
    let _end = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

fn get(metrics: SocketAddr) -> String {
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// A hundred idle connections, and the commit log found no descriptor for its next segment: writes were refused until a
/// restart.
#[test]
fn connections_leave_a_reserve_of_descriptors() {
    let serving = Serving::start();
    let mut first = Client::open(serving.cql, ProtocolVersion::V4);
    // They have logged in, so the server cannot show them out for others.
    let mut held = Vec::new();
    while serving.open_files() < LIMIT - RESERVE {
        held.push(Client::open(serving.cql, ProtocolVersion::V4));
        assert!(held.len() < LIMIT, "the reserve is never reached");
    }
    assert!(serving.open_files() > LIMIT / 2, "the limit was raised");
    let waiting: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| TcpStream::connect(serving.cql).unwrap())
        .collect();
    for _ in 0..100 {
        assert_eq!(first.ask(QUERY), Reply::Message(Opcode::Result));
        // The server learns it from one connection, and tries with one descriptor whether there are enough again.
        let open = serving.open_files();
        assert!(open <= LIMIT - RESERVE + 2, "{open}");
    }
    assert!(get(serving.metrics).contains("200 OK"));
    drop((waiting, held));
    assert_serves(serving.cql);
}

/// As many silent connections to the page as there are descriptors, and the log found none either.
#[test]
fn the_metrics_page_holds_a_bounded_number_of_connections() {
    let serving = Serving::start();
    let before = serving.open_files();
    // Fewer than the kernel holds back for a listener.
    let silent: Vec<TcpStream> = (0..4 * METRICS_CONNECTIONS_MAX)
        .map(|_| TcpStream::connect(serving.metrics).unwrap())
        .collect();
    for _ in 0..10 {
        assert_serves(serving.cql);
        let open = serving.open_files();
        // Of the three clients, one may not have been seen to be gone.
        assert!(open <= before + METRICS_CONNECTIONS_MAX + 3, "{open} of {before}");
    }
    drop(silent);
    assert!(get(serving.metrics).contains("200 OK"));
}
