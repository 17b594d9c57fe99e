//! A connection of HTTP/2: any bytes after the beginning mean the same in one piece as in many, each request is begun once and ends once, and
//! what is said to them is no more than they are worth.

#![no_main]

use helenus_http2::{Connection, Event, Limits};
use libfuzzer_sys::fuzz_target;

/// Small, so that the fuzzer reaches what lies behind them.
const LIMITS: Limits = Limits {
    streams_max: 8,
    stream_window_bytes: 65_535,
    connection_window_bytes: 65_535,
    headers_bytes_max: 512,
    // Counted by pieces.
    resets_max: u32::MAX,
    unsent_bytes_max: 1 << 16,
};

const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// What a connection has made of bytes.
#[derive(PartialEq, Eq, Debug)]
struct Made {
    events: Vec<String>,
    said_bytes: usize,
    has_failed: bool,
}

fn made(bytes: &[u8], piece_bytes: usize) -> Made {
    let mut connection = Connection::<u32>::new(LIMITS);
    let mut made = Made { events: Vec::new(), said_bytes: 0, has_failed: false };
    let mut rest = Vec::new();
    for piece in [BEGINNING].into_iter().chain(bytes.chunks(piece_bytes)) {
        rest.extend_from_slice(piece);
        let kept = std::mem::take(&mut rest);
        let mut input = &kept[..];
        while !made.has_failed {
            let event = match connection.next(&mut input) {
                Ok(None) => break,
                Ok(Some(event)) => event,
                Err(_said) => {
                    made.has_failed = true;
                    break;
                }
            };
            match event {
                Event::Begun { stream, head, .. } => {
                    *connection.state(stream).unwrap() = stream;
                    made.events.push(format!("{stream} {head:?}"));
                }
                Event::Data { stream, bytes, is_last } => {
                    assert_eq!(connection.state(stream).map(|state| *state), Some(stream));
                    let length = bytes.len();
                    connection.consumed(stream, length);
                    made.events.push(format!("{stream} {length} {is_last}"));
                }
                Event::Reset { stream, state } => {
                    assert_eq!((stream, connection.state(stream)), (state, None));
                    made.events.push(format!("{stream} reset"));
                }
            }
        }
        rest = input.to_vec();
    }
    made.said_bytes = connection.output().len();
    made
}

fuzz_target!(|input: (u8, &[u8])| {
    let (piece_bytes, bytes) = input;
    let whole = made(bytes, usize::MAX);
    // An answer of 17 bytes to one of 9, and what a connection says first.
    assert!(whole.said_bytes <= 2 * bytes.len() + 256);
    assert_eq!(whole, made(bytes, usize::from(piece_bytes).max(1)));
});
