//! A client that is made of bytes.

use std::collections::HashMap;

use helenus_http2::{Connection, ErrorCode, Event, Limits};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const HAS_PRIORITY: u8 = 0x20;

pub const LIMITS: Limits = Limits {
    streams_max: 4,
    stream_window_bytes: 100_000,
    connection_window_bytes: 150_000,
    headers_bytes_max: 1_000,
    resets_max: 8,
    unsent_bytes_max: 40_000,
};

/// A frame as it is sent.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// The preface, and settings that change nothing.
pub fn beginning() -> Vec<u8> {
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    out.extend(frame(SETTINGS, 0, 0, &[]));
    out
}

/// Fields that no table keeps.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        assert!(name.len() < 127 && value.len() < 127);
        out.extend([0, name.len() as u8]);
        out.extend(name.as_bytes());
        out.push(value.len() as u8);
        out.extend(value.as_bytes());
    }
    out
}

/// The fields of a `POST /`.
pub const POST: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "localhost"),
];

pub fn request(stream: u32, flags: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, &block(&POST))
}

/// A frame as it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// All frames that are in `bytes`, which end with one.
pub fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut out = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        out.push(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload: rest[..length].to_vec(),
        });
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty());
    out
}

/// Takes all of the output that may be taken, as a socket that is never full.
pub fn take(connection: &mut Connection<u32>) -> Vec<u8> {
    let mut taken = Vec::new();
    loop {
        connection.pump();
        let output = connection.output();
        let mut slices = [std::io::IoSlice::new(&[]); 5];
        let count = output.slices(&mut slices);
        if count == 0 {
            return taken;
        }
        let before = taken.len();
        slices[..count]
            .iter()
            .for_each(|slice| taken.extend_from_slice(slice));
        output.advance(taken.len() - before);
    }
}

/// Everything that the server has heard of its clients' requests.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Heard {
    /// In their order; bodies that come in pieces are one.
    pub events: Vec<String>,
    pub bodies: HashMap<u32, Vec<u8>>,
    pub failed: Option<ErrorCode>,
}

/// Has the connection read `input`, whose rest is kept in `rest`, and consumes all bodies at once.
pub fn receive(connection: &mut Connection<u32>, rest: &mut Vec<u8>, input: &[u8], heard: &mut Heard) {
    rest.extend_from_slice(input);
    let kept = std::mem::take(rest);
    let mut input = &kept[..];
    while heard.failed.is_none() {
        match connection.next(&mut input) {
            Ok(None) => break,
            Err(code) => heard.failed = Some(code),
            Ok(Some(Event::Begun {
                stream,
                head,
                is_whole,
                body_bytes,
            })) => {
                *connection.state(stream).unwrap() = stream;
                let fields = head
                    .headers
                    .iter()
                    .map(|(name, value)| format!(" {name}={value:?}"));
                let fields: String = fields.collect();
                let (method, uri) = (&head.method, &head.uri);
                heard.events.push(format!(
                    "{stream} {method} {uri}{fields} {is_whole} {body_bytes:?}"
                ));
                heard.bodies.insert(stream, Vec::new());
            }
            Ok(Some(Event::Data {
                stream,
                bytes,
                is_last,
            })) => {
                heard.bodies.get_mut(&stream).unwrap().extend_from_slice(bytes);
                let length = bytes.len();
                connection.consumed(stream, length);
                if is_last {
                    heard.events.push(format!("{stream} ended"));
                }
            }
            Ok(Some(Event::Reset { stream, state })) => {
                assert_eq!(stream, state);
                heard.events.push(format!("{stream} reset"));
            }
        }
    }
    *rest = input.to_vec();
}

/// A server that has heard `bytes` after the beginning; with what it has said to them.
pub fn heard(bytes: &[u8]) -> (Connection<u32>, Heard, Vec<Frame>) {
    let mut connection = Connection::new(LIMITS);
    let (mut rest, mut heard) = (Vec::new(), Heard::default());
    receive(&mut connection, &mut rest, &beginning(), &mut heard);
    let said = frames(&take(&mut connection));
    assert_eq!(
        said.iter().map(|frame| frame.kind).collect::<Vec<_>>(),
        [SETTINGS, WINDOW_UPDATE, SETTINGS]
    );
    receive(&mut connection, &mut rest, bytes, &mut heard);
    let said = frames(&take(&mut connection));
    (connection, heard, said)
}
