//! `cargo xtask mutate-doors`: valid frames of HTTP/2 with calls of gRPC in them, and requests of HTTP/1.1, with random damage, at the
//! door of a live node.
//!
//! Nothing may panic or hang, each connection is closed, a polite client is served in between, and the node's memory stays where it was.
//! What the damage was is a function of the seed, and of how many senders there are.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use helenus_vfs::{Random, SeededRandom};

use crate::TaskError;
use crate::mutate_frames::damage;
use crate::node::{Node, Target, free_address, resident_bytes};
use crate::program::Tally;
use crate::wire::is_closed;

#[derive(clap::Args)]
pub struct Arguments {
    /// Frames to damage; the long run is 10000000
    #[arg(long, default_value_t = 100_000)]
    mutations: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Senders at a time, each with a seed and a part of the mutations of its own
    #[arg(long, default_value_t = 16)]
    senders: u64,
}

/// Arguments of the test command: a second or two.
const SHORT: Arguments = Arguments {
    mutations: 5_000,
    seed: 1,
    senders: 8,
};

/// Calls of one connection: the first frame whose boundaries are lost ends it.
const PER_CONNECTION_MAX: u64 = 16;

/// After this many mutations memory is looked at for the first time: buffers and the allocator have what they keep.
const WARM_MUTATIONS: u64 = 1_000;

/// Most memory of the doors, in bytes, beside the node's where that is 64 MiB: an eighth, and what the allocator keeps of it.
const GROWTH_BYTES_MAX: u64 = 32 << 20;

/// A door that says nothing for so long hangs: a header has 30 s to come in full, and no connection here waits on purpose.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// After which a door that has more to say would have said it; a read of one row takes a tenth of that.
const SILENCE: Duration = Duration::from_millis(2);

/// Connections between two of a polite client.
const POLITE_EVERY: u64 = 64;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Kinds of frames (RFC 9113, section 6), and flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Result of the mutations: counts, answers, memory growth.
#[derive(Debug, Default)]
struct Outcome {
    mutations: u64,
    connections: u64,
    /// The door's frames by kind, with the code of those that say that something was wrong.
    answers: BTreeMap<String, u64>,
    /// Resident memory beyond what it was once warm, at its highest.
    growth_bytes: u64,
}

impl Outcome {
    fn and(mut self, other: Outcome) -> Outcome {
        self.mutations += other.mutations;
        self.connections += other.connections;
        self.growth_bytes = self.growth_bytes.max(other.growth_bytes);
        for (kind, count) in other.answers {
            *self.answers.entry(kind).or_default() += count;
        }
        self
    }
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let outcome = mutate(arguments)?;
    println!(
        "{} damaged frames (seed {}) over {} connections; no panic, the door serves, resident memory grew by {} KiB",
        outcome.mutations,
        arguments.seed,
        outcome.connections,
        outcome.growth_bytes >> 10
    );
    for (kind, count) in &outcome.answers {
        println!("{count:>10} {kind}");
    }
    Ok(())
}

/// The part of the test command.
pub fn short() -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    let outcome = mutate(&SHORT).map_err(|error| error.to_string());
    tally.check("damaged frames harm nobody", outcome.map(drop));
    Ok(tally)
}

fn mutate(arguments: &Arguments) -> Result<Outcome, TaskError> {
    let door = free_address()?;
    let at = door.to_string();
    let options = ["--shards", "1", "--memory", "64MiB", "--grpc", &at];
    let node = Node::start(&Target::Helenus, "mutate-doors", &options)?;
    let senders = arguments.senders.max(1);
    let share = arguments.mutations.div_ceil(senders);
    let sent = thread::scope(|scope| {
        let node = &node;
        let seeds = (0..senders).map(|sender| arguments.seed + sender);
        let running: Vec<_> = seeds
            .map(|seed| scope.spawn(move || send(door, node, seed, share)))
            .collect();
        let panicked = || Err(io::Error::other("a sender panicked"));
        let ended = running
            .into_iter()
            .map(|sender| sender.join().unwrap_or_else(|_| panicked()));
        ended.collect::<io::Result<Vec<Outcome>>>()
    });
    let sent = sent.map_err(|error| TaskError::Report {
        text: format!(
            "mutations of seed {} and {senders} senders: {error}",
            arguments.seed
        ),
    })?;
    node.check_panics()?;
    node.stop()?;
    Ok(sent.into_iter().fold(Outcome::default(), Outcome::and))
}

/// One sender's mutations, one connection after the other.
fn send(door: SocketAddr, node: &Node, seed: u64, mutations: u64) -> io::Result<Outcome> {
    let random = SeededRandom::new(seed);
    let mut outcome = Outcome::default();
    let mut warm_bytes = None;
    while outcome.mutations < mutations {
        let (bytes, damaged) = connection(&random);
        exchange(door, &bytes, &mut outcome.answers)?;
        outcome.mutations += damaged;
        outcome.connections += 1;
        if outcome.connections % POLITE_EVERY != 0 {
            continue;
        }
        polite(door)?;
        if outcome.mutations < WARM_MUTATIONS.min(mutations / 2) {
            continue;
        }
        let now_bytes = resident_bytes(node);
        let grown = now_bytes.saturating_sub(*warm_bytes.get_or_insert(now_bytes));
        outcome.growth_bytes = outcome.growth_bytes.max(grown);
        if grown > GROWTH_BYTES_MAX {
            return Err(io::Error::other(format!("memory grew by {grown} bytes")));
        }
    }
    Ok(outcome)
}

/// Makes the bytes that a connection sends; also returns how many of its frames are damaged.
fn connection(random: &SeededRandom) -> (Vec<u8>, u64) {
    if random.below(8) == 0 {
        return (damage(request_of_http1(random), random), 1);
    }
    let mut bytes = PREFACE.to_vec();
    let calls = 1 + random.below(PER_CONNECTION_MAX);
    let mut frames = vec![frame(SETTINGS, 0, 0, &[])];
    for call in 0..calls {
        frames.extend(call_frames(random, 1 + 2 * call as u32));
    }
    let mut damaged = 0;
    for frame in frames {
        let is_damaged = random.below(8) == 0;
        damaged += u64::from(is_damaged);
        match is_damaged {
            true => bytes.extend(damage(frame, random)),
            false => bytes.extend(frame),
        }
    }
    (bytes, damaged)
}

fn request_of_http1(random: &SeededRandom) -> Vec<u8> {
    let body =
        r#"{"query": "SELECT key FROM system.local WHERE key = ?", "values": ["local"], "tracing": false}"#;
    let (path, body) = match random.below(3) {
        0 => ("/v1/query", body),
        1 => (
            "/v1/batch",
            r#"{"statements": [{"query": "INSERT INTO k.t (k) VALUES (1)"}]}"#,
        ),
        _ => ("/v1/auth", r#"{"username": "u", "password": "p"}"#),
    };
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
         Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// A call, now and then with something between its frames, or its headers in two.
fn call_frames(random: &SeededRandom, stream: u32) -> Vec<Vec<u8>> {
    let services = [
        ("/stargate.Stargate/ExecuteQuery", QUERY),
        (
            "/stargate.Stargate/ExecuteBatch",
            b"\x12\x06\x0a\x04SELE".as_slice(),
        ),
        ("/stargate.Stargate/ExecuteQueryStream", QUERY),
        ("/grpc.health.v1.Health/Check", b"".as_slice()),
        (
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            b"\x3a\x00".as_slice(),
        ),
    ];
    let (path, message) = services[random.below(services.len() as u64) as usize];
    let encoding = ["identity", "gzip", "zstd"][random.below(3) as usize];
    let headers = header_block(path, encoding);
    let is_flagged = u8::from(encoding != "identity" && random.below(2) == 0);
    let mut data = vec![is_flagged];
    data.extend((message.len() as u32).to_be_bytes());
    data.extend(message);
    let mut frames = Vec::new();
    if random.below(4) == 0 {
        let (first, rest) = headers.split_at(headers.len() / 2);
        frames.push(frame(HEADERS, 0, stream, first));
        frames.push(frame(CONTINUATION, END_HEADERS, stream, rest));
    } else {
        frames.push(frame(HEADERS, END_HEADERS, stream, &headers));
    }
    match random.below(6) {
        0 => frames.push(frame(PING, 0, 0, &[7; 8])),
        1 => frames.push(frame(WINDOW_UPDATE, 0, stream, &[0, 0, 1, 0])),
        2 => frames.push(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255])),
        _ => {}
    }
    frames.push(frame(DATA, END_STREAM, stream, &data));
    if random.below(8) == 0 {
        frames.push(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    frames
}

/// `SELECT key FROM system.local WHERE key = ?`, and a value.
const QUERY: &[u8] = b"\x0a\x2aSELECT key FROM system.local WHERE key = ?\x12\x09\x0a\x07\x3a\x05local";

/// Literal fields without indexing (RFC 7541, section 6.2.2).
fn header_block(path: &str, encoding: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "5S"),
        ("grpc-encoding", encoding),
        ("grpc-accept-encoding", "gzip, zstd"),
    ];
    let mut out = Vec::new();
    for (name, value) in fields {
        out.extend([0, name.len() as u8]);
        out.extend(name.as_bytes());
        out.push(value.len() as u8);
        out.extend(value.as_bytes());
    }
    out
}

/// Sends it and takes what is answered. Once nothing comes any more it says that there is no more, and waits until the door has closed:
/// said at once, it would end calls before they are answered.
fn exchange(door: SocketAddr, bytes: &[u8], answers: &mut BTreeMap<String, u64>) -> io::Result<()> {
    let mut stream = TcpStream::connect(door)?;
    // The door may have closed after the first of them.
    let sent = stream.write_all(bytes);
    let mut taken = Vec::new();
    stream.set_read_timeout(Some(SILENCE))?;
    match stream.read_to_end(&mut taken) {
        Err(error) if !is_closed(&error) && error.kind() != io::ErrorKind::WouldBlock => return Err(error),
        _ => {}
    }
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let ended = stream.shutdown(Shutdown::Write);
    if sent
        .and(ended)
        .is_err_and(|error| !is_closed(&error) && error.kind() != io::ErrorKind::NotConnected)
    {
        return Err(io::Error::other("a connection that cannot be written to"));
    }
    match stream.read_to_end(&mut taken) {
        Err(error) if !is_closed(&error) => return Err(error),
        _ => {}
    }
    count_answers(&taken, answers);
    Ok(())
}

fn count_answers(mut bytes: &[u8], answers: &mut BTreeMap<String, u64>) {
    let mut count = |kind: String| *answers.entry(kind).or_default() += 1;
    if bytes.is_empty() {
        return count("closed without a word".to_owned());
    }
    if let Some(head) = bytes.strip_prefix(b"HTTP/1.1 ") {
        let status = head.get(..3).unwrap_or_default();
        return count(format!("HTTP/1.1 {}", String::from_utf8_lossy(status)));
    }
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload = rest.get(..length).unwrap_or_default();
        let code = |at: usize| payload.get(at + 3).copied().unwrap_or_default();
        count(match head[3] {
            DATA => "DATA".to_owned(),
            HEADERS => "HEADERS".to_owned(),
            RST_STREAM => format!("RST_STREAM {}", code(0)),
            GOAWAY => format!("GOAWAY {}", code(4)),
            _ => "others".to_owned(),
        });
        bytes = rest.get(length..).unwrap_or_default();
    }
}

/// A client that asks for nothing odd is answered.
fn polite(door: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(door)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.starts_with("HTTP/1.1 200") {
        true => Ok(()),
        false => Err(io::Error::other(format!("a polite client got {answer}"))),
    }
}
