//! Attacks by sockets: silence, half messages, messages nobody asked for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use helenus_protocol::Opcode;

use super::arena::Arena;
use super::{Attack, Progress};
use crate::wire::query;

/// More than the node may have open.
const CONNECTIONS: usize = 700;

/// The version of a request in v4.
const V4: u8 = 0x04;

/// Bytes of messages before and after login that are no statements, and of those that only a header announces.
const LARGE_BYTES: usize = 15 << 20;

pub const SILENT: Attack = Attack {
    name: "silent-connections",
    about: "as many connections as there are descriptors, and not a word",
    run: |arena, progress| hold(arena, progress, CONNECTIONS, |_| true),
};

pub const STORM: Attack = Attack {
    name: "connection-storm",
    about: "connects, says a wrong word or none, leaves",
    run: |arena, progress| {
        let words: [&[u8]; 4] = [
            b"",
            b"GET / HTTP/1.1\r\n\r\n",
            &[0x42; 32],
            &[V4, 0, 0, 0, 5, 0, 0, 0, 0],
        ];
        while progress.goes_on() {
            for word in words {
                if let Ok(mut stream) = arena.connect_raw() {
                    let _refused = stream.write_all(word);
                    progress.attempted();
                }
            }
        }
    },
};

pub const HALF_MESSAGES: Attack = Attack {
    name: "half-messages",
    about: "a header that promises 16 MiB, a hundred bytes, then nothing",
    run: |arena, progress| {
        let mut held = Vec::new();
        while progress.goes_on() && held.len() < 300 {
            let Ok(mut client) = arena.connect() else {
                progress.rest(Duration::from_millis(20));
                continue;
            };
            let mut message = envelope(Opcode::Query, LARGE_BYTES);
            message.extend([b'x'; 100]);
            if client.stream.write_all(&message).is_ok() {
                progress.attempted();
            }
            held.push(client);
        }
        progress.rest(Duration::MAX);
    },
};

pub const TRICKLE: Attack = Attack {
    name: "trickle",
    about: "STARTUP, a byte at a time",
    run: |arena, progress| {
        let mut streams: Vec<TcpStream> = (0..100).filter_map(|_| arena.connect_raw().ok()).collect();
        let startup = startup();
        for at in (0..startup.len()).cycle() {
            if !progress.goes_on() {
                return;
            }
            for stream in &mut streams {
                if stream.write_all(&startup[at..=at]).is_ok() {
                    progress.attempted();
                }
            }
            progress.rest(Duration::from_millis(50));
        }
    },
};

pub const LARGE_BEFORE_LOGIN: Attack = Attack {
    name: "large-before-login",
    about: "OPTIONS, REGISTER and AUTH_RESPONSE of 15 MiB without a login",
    run: |arena, progress| {
        let opcodes = [
            Opcode::Options,
            Opcode::Register,
            Opcode::AuthResponse,
            Opcode::Startup,
        ];
        let body = vec![0x20; 1 << 20];
        for opcode in opcodes.into_iter().cycle() {
            if !progress.goes_on() {
                return;
            }
            let Ok(mut stream) = arena.connect_raw() else {
                progress.rest(Duration::from_millis(20));
                continue;
            };
            send_large(&mut stream, opcode, &body, progress);
        }
    },
};

pub const LARGE_THAT_ARE_NO_STATEMENTS: Attack = Attack {
    name: "large-no-statements",
    about: "OPTIONS, REGISTER and AUTH_RESPONSE of 15 MiB after the login",
    run: |arena, progress| {
        let opcodes = [Opcode::Options, Opcode::Register, Opcode::AuthResponse];
        let body = vec![0x20; 1 << 20];
        let mut held = Vec::new();
        for opcode in opcodes.into_iter().cycle() {
            if !progress.goes_on() {
                return;
            }
            let Ok(mut client) = arena.connect() else {
                progress.rest(Duration::from_millis(20));
                continue;
            };
            send_large(&mut client.stream, opcode, &body, progress);
            held.push(client);
            if held.len() > 60 {
                held.clear();
            }
        }
    },
};

pub const BOMBS: Attack = Attack {
    name: "compression-bombs",
    about: "compressed envelopes that claim 2 GiB, or unpack to far more than they are",
    run: |arena, progress| {
        for compression in ["lz4", "snappy"].into_iter().cycle() {
            if !progress.goes_on() {
                return;
            }
            let Ok(mut stream) = arena.connect_raw() else {
                progress.rest(Duration::from_millis(20));
                continue;
            };
            let mut bytes = startup_with(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", compression)]);
            // A claimed length of 2 GiB (LZ4: 4 bytes; snappy: a varint), then zeros.
            let mut body = match compression {
                "lz4" => vec![0x7f, 0xff, 0xff, 0xff],
                _ => vec![0xff, 0xff, 0xff, 0xff, 0x07],
            };
            body.resize(64 << 10, 0);
            bytes.extend([V4, 1, 0, 1, Opcode::Query as u8]);
            bytes.extend((body.len() as u32).to_be_bytes());
            bytes.extend(body);
            if stream.write_all(&bytes).is_ok() {
                progress.attempted();
            }
            let _closed = stream.read(&mut [0; 1024]);
        }
    },
};

pub const SLOW_READERS: Attack = Attack {
    name: "slow-readers",
    about: "asks for 8 MB again and again and reads nothing",
    run: |arena, progress| {
        let mut clients: Vec<_> = (0..8).filter_map(|_| arena.connect().ok()).collect();
        let mut body = Vec::new();
        query(
            &mut body,
            helenus_protocol::ProtocolVersion::V4,
            "SELECT * FROM attack.large WHERE p = 1",
        );
        for client in &mut clients {
            let _short = client.stream.set_write_timeout(Some(Duration::from_millis(50)));
        }
        while progress.goes_on() {
            for client in &mut clients {
                if client.send(Opcode::Query, &body).is_ok() {
                    progress.attempted();
                }
            }
            progress.rest(Duration::from_millis(1));
        }
    },
};

pub const REGISTRATIONS: Attack = Attack {
    name: "registrations",
    about: "registers for events thousands of times, and reads none of the answers",
    run: |arena, progress| {
        let mut body = vec![0, 3];
        for event in ["SCHEMA_CHANGE", "STATUS_CHANGE", "TOPOLOGY_CHANGE"] {
            body.extend((event.len() as u16).to_be_bytes());
            body.extend(event.as_bytes());
        }
        while progress.goes_on() {
            let Ok(mut client) = arena.connect() else {
                progress.rest(Duration::from_millis(20));
                continue;
            };
            let _short = client.stream.set_write_timeout(Some(Duration::from_millis(50)));
            while progress.goes_on() && client.send(Opcode::Register, &body).is_ok() {
                progress.attempted();
            }
        }
    },
};

pub const METRICS_PAGE: Attack = Attack {
    name: "metrics-page",
    about: "half requests to the metrics page, on as many connections as there are",
    run: |arena, progress| hold_half_requests(arena.metrics, progress),
};

pub const DOORS: Attack = Attack {
    name: "doors",
    about: "half requests to HTTP and gRPC, on as many connections as there are",
    run: |arena, progress| {
        let Ok(mut client) = arena.connect() else { return };
        std::thread::scope(|scope| {
            scope.spawn(|| hold_half_requests(arena.doors, progress));
            while progress.goes_on() {
                progress.rest(Duration::from_millis(100));
                // Takes descriptors: of the schema, of a log, of an SSTable.
                for text in [
                    "CREATE TABLE IF NOT EXISTS attack.beside_doors (p int PRIMARY KEY)",
                    "DROP TABLE attack.beside_doors",
                ] {
                    match client.query(text) {
                        Ok(_) => {}
                        Err(error) => progress.owes(format!("{text}: {error}")),
                    }
                }
            }
        });
    },
};

pub const CONTROL_SOCKET: Attack = Attack {
    name: "control-socket",
    about: "half requests to the operator's socket",
    run: |arena, progress| {
        let mut held = Vec::new();
        while progress.goes_on() {
            if held.len() < 64
                && let Ok(mut stream) = UnixStream::connect(&arena.control_socket)
            {
                let _refused = stream.write_all(b"{");
                progress.attempted();
                held.push(stream);
            } else {
                progress.rest(Duration::from_millis(5));
            }
        }
    },
};

/// Opens connections and keeps them until the end.
fn hold(arena: &Arena, progress: &Progress, count: usize, mut begin: impl FnMut(&mut TcpStream) -> bool) {
    let mut held = Vec::new();
    while progress.goes_on() {
        if held.len() < count
            && let Ok(mut stream) = arena.connect_raw()
        {
            if begin(&mut stream) {
                progress.attempted();
            }
            held.push(stream);
        } else {
            progress.rest(Duration::from_millis(5));
        }
    }
}

/// Holds connections with half an HTTP request each.
fn hold_half_requests(address: SocketAddr, progress: &Progress) {
    let mut held = Vec::new();
    while progress.goes_on() {
        if held.len() < CONNECTIONS
            && let Ok(mut stream) = TcpStream::connect(address)
        {
            let _refused = stream.write_all(b"GET /metr");
            progress.attempted();
            held.push(stream);
        } else {
            progress.rest(Duration::from_millis(5));
        }
    }
}

fn send_large(stream: &mut TcpStream, opcode: Opcode, chunk: &[u8], progress: &Progress) {
    let _short = stream.set_write_timeout(Some(Duration::from_millis(100)));
    let mut sent = stream.write_all(&envelope(opcode, LARGE_BYTES));
    for _ in 0..LARGE_BYTES / chunk.len() {
        if sent.is_err() || !progress.goes_on() {
            break;
        }
        sent = stream.write_all(chunk);
    }
    progress.attempted();
}

/// The header of a v4 message.
fn envelope(opcode: Opcode, body_bytes: usize) -> Vec<u8> {
    let mut header = vec![V4, 0, 0, 1, opcode as u8];
    header.extend((body_bytes as u32).to_be_bytes());
    header
}

fn startup() -> Vec<u8> {
    startup_with(&[("CQL_VERSION", "3.0.0")])
}

fn startup_with(options: &[(&str, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    helenus_protocol::request::write_startup(&mut body, options);
    let mut message = envelope(Opcode::Startup, body.len());
    message.extend(body);
    message
}
