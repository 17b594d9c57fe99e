//! A client of HTTP/2 that sends frame by frame (RFC 9113, section 4).

use std::io::{Read, Write};
use std::net::TcpStream;

use super::Served;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
/// Flag of SETTINGS and PING.
pub const ACK: u8 = 1;

/// A frame as it is sent.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// The same as it comes.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// `None` at the end of what comes.
    pub fn read(stream: &mut impl Read) -> Option<Frame> {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).ok()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }

    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }
}

/// The headers of a call of gRPC: `:method: POST`, `:scheme: http` of HPACK's static table, the rest as literals that no table keeps.
pub fn call_headers(path: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    let mut literal = |name: &[u8], value: &str| {
        block.extend(name);
        block.push(value.len() as u8);
        block.extend(value.as_bytes());
    };
    literal(&[0x04], path);
    literal(&[0x01], "localhost");
    // The 31st of the static table.
    literal(&[0x0f, 0x10], "application/grpc");
    literal(b"\0\x02te", "trailers");
    block
}

/// A call with one message.
pub fn call(stream: u32, path: &str, message: &[u8]) -> Vec<u8> {
    let mut out = frame(HEADERS, END_HEADERS, stream, &call_headers(path));
    out.extend(frame(DATA, END_STREAM, stream, message));
    out
}

/// A connection that has said its preface.
pub fn http2(served: &Served) -> TcpStream {
    let mut stream = served.connect();
    stream.write_all(PREFACE).unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}
