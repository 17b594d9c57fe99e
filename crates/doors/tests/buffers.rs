//! Heap use of a gRPC call, everything in the process counted: the door's thread, the shard's, and a client that takes nothing.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use helenus_doors::proto::stargate::value::Inner;
use helenus_doors::proto::stargate::{Query, QueryParameters};
use helenus_test_heap::of_process;
use support::frames::{ACK, DATA, END_STREAM, HEADERS, PING, SETTINGS, WINDOW_UPDATE, call, frame, http2};
use support::grpc::{framed, int, query, value};
use support::{Served, Serving};

const QUERY: &str = "/stargate.Stargate/ExecuteQuery";
const ECHO: &str = "/grpc.testing.TestService/UnaryCall";
const VALUE_BYTES: usize = 8 * 1024;
const CALLS: u32 = 1_600;

/// Heap use of one call.
#[derive(Clone, Copy, Debug)]
struct Cost {
    allocations: f64,
    bytes: f64,
}

/// A client of one connection that allocates nothing while it calls.
struct Caller {
    stream: TcpStream,
    received: Vec<u8>,
    filled: usize,
    next_stream: u32,
}

impl Caller {
    fn connect(served: &Served) -> Caller {
        let mut stream = http2(served);
        // Windows that no test fills.
        stream
            .write_all(&frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]))
            .unwrap();
        stream
            .write_all(&frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes()))
            .unwrap();
        Caller {
            stream,
            received: vec![0; 1 << 20],
            filled: 0,
            next_stream: 1,
        }
    }

    /// The same call again and again, `at_once` of them in a write.
    fn call(&mut self, calls: &mut [u8], places: &[usize], times: u32) {
        for _ in 0..times / places.len() as u32 {
            for place in places {
                let stream = self.next_stream.to_be_bytes();
                self.next_stream += 2;
                // Both frames of a call.
                let headers = u32::from_be_bytes([0, calls[*place], calls[place + 1], calls[place + 2]]);
                calls[place + 5..place + 9].copy_from_slice(&stream);
                let data = place + 9 + headers as usize;
                calls[data + 5..data + 9].copy_from_slice(&stream);
            }
            self.stream.write_all(calls).unwrap();
            self.read_ends(places.len());
        }
    }

    fn read_ends(&mut self, mut count: usize) {
        while count > 0 {
            let read = self.stream.read(&mut self.received[self.filled..]).unwrap();
            assert!(read > 0, "the server has closed");
            self.filled += read;
            let mut at = 0;
            while let Some(head) = self.received.get(at..at + 9).filter(|_| at + 9 <= self.filled) {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if at + 9 + length > self.filled {
                    break;
                }
                let (kind, flags) = (head[3], head[4]);
                match kind {
                    DATA | HEADERS => count -= usize::from(flags & END_STREAM),
                    SETTINGS | PING if flags & ACK == 0 => {
                        let payload = &self.received[at + 9..at + 9 + length];
                        let mut answer = [0; 17];
                        let answered = if kind == PING { length } else { 0 };
                        answer[2] = answered as u8;
                        answer[3] = kind;
                        answer[4] = ACK;
                        answer[9..9 + answered].copy_from_slice(&payload[..answered]);
                        self.stream.write_all(&answer[..9 + answered]).unwrap();
                    }
                    SETTINGS | PING | WINDOW_UPDATE => {}
                    other => panic!("a frame of kind {other}"),
                }
                at += 9 + length;
            }
            self.received.copy_within(at..self.filled, 0);
            self.filled -= at;
        }
    }
}

/// Measures a call, `at_once` of them under way.
fn cost(served: &Served, path: &str, message: &Bytes, at_once: usize) -> Cost {
    let one = call(1, path, message);
    let mut calls = one.repeat(at_once);
    let places: Vec<usize> = (0..at_once).map(|number| number * one.len()).collect();
    let mut caller = Caller::connect(served);
    caller.call(&mut calls, &places, CALLS / 4);
    let before = of_process();
    caller.call(&mut calls, &places, CALLS);
    let after = of_process();
    Cost {
        allocations: (after.allocations - before.allocations) as f64 / f64::from(CALLS),
        bytes: (after.allocated_bytes - before.allocated_bytes) as f64 / f64::from(CALLS),
    }
}

fn read(key: i64) -> Query {
    Query {
        parameters: Some(QueryParameters {
            skip_metadata: true,
            ..QueryParameters::default()
        }),
        ..query("SELECT v FROM k.t WHERE k = ?", vec![int(key)])
    }
}

/// `SimpleRequest` of gRPC's test service with a payload, whose answer has one as long.
fn echo(bytes: u16) -> Bytes {
    let length = [0x80 | bytes as u8 & 0x7f, (bytes >> 7) as u8];
    let body = [&[0x12][..], &length, &vec![7; usize::from(bytes)]].concat();
    let payload_bytes = body.len() as u16;
    let payload_length = [0x80 | payload_bytes as u8 & 0x7f, (payload_bytes >> 7) as u8];
    let message = [&[0x10][..], &length, &[0x1a], &payload_length, &body].concat();
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    framed.into()
}

/// Measures the cases, each with how many calls are under way at once.
fn costs(has_pool: bool) -> Vec<(&'static str, usize, Cost)> {
    let served = Served::start_as(Serving {
        lacks_buffer_pool: !has_pool,
        serves_tests: true,
        ..Serving::default()
    });
    served
        .execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    served.execute("CREATE TABLE k.t (k int PRIMARY KEY, v blob)");
    let write = |key: i64, bytes: usize| {
        let bytes = value(Inner::Bytes(vec![7; bytes]));
        framed(&query(
            "INSERT INTO k.t (k, v) VALUES (?, ?)",
            vec![int(key), bytes],
        ))
    };
    let cases = [
        ("write 1 B", write(1, 1), 6),
        ("write 8 KiB", write(2, VALUE_BYTES), 6),
        ("read 1 B", framed(&read(1)), 1),
        ("read 1 B", framed(&read(1)), 16),
        ("read 8 KiB", framed(&read(2)), 6),
        ("8 KiB both ways", echo(VALUE_BYTES as u16), 6),
    ];
    let of_case = |(name, message, at_once): &(&'static str, Bytes, usize)| {
        let path = if *name == "8 KiB both ways" { ECHO } else { QUERY };
        (*name, *at_once, cost(&served, path, message, *at_once))
    };
    cases.iter().map(of_case).collect()
}

/// One test, because the counters are the process's.
#[test]
fn the_buffers_of_large_requests_and_answers_are_used_again() {
    let (with, without) = (costs(true), costs(false));
    println!("| call | at once | allocations with the pool | without | bytes with the pool | without |");
    println!("|---|---|---|---|---|---|");
    for ((name, at_once, with), (_, _, without)) in with.iter().zip(&without) {
        println!(
            "| {name} | {at_once} | {:.1} | {:.1} | {:.0} | {:.0} |",
            with.allocations, without.allocations, with.bytes, without.bytes
        );
    }
    for ((name, _, with), (_, _, without)) in with.iter().zip(&without) {
        match *name {
            // A request comes in a buffer of its own length, and an answer is made in one.
            "read 8 KiB" | "write 8 KiB" | "8 KiB both ways" => {
                let directions = if *name == "8 KiB both ways" { 2.0 } else { 1.0 };
                assert!(
                    without.bytes - with.bytes > VALUE_BYTES as f64 * 0.9 * directions,
                    "{name}: {with:?}, {without:?}"
                );
            }
            // Which turns the calls of a write share with each other differs a little from run to run.
            _ => assert!(
                (with.bytes / without.bytes - 1.0).abs() < 0.05,
                "{name}: {with:?}, {without:?}"
            ),
        }
    }
}
