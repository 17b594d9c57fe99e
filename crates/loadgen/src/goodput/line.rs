//! One connection of a load: encodes requests, scans answers by their headers, allocates nothing.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use helenus_protocol::{ErrorCode, Opcode};

use super::workload::{Requests, Template};

/// What an answer is, by its header and the code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    Done,
    Refused,
    Failed,
}

/// xorshift64*: some five instructions a number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Streams of a connection (v4).
const STREAMS: usize = 32_768;

/// Encoded before it is given to the socket: a large write amortises the system call and stays in the cache.
const OUT_BYTES_MAX: usize = 64 * 1024;

/// Read at once.
const READ_BYTES: usize = 256 * 1024;

const HEADER_BYTES: usize = 9;

pub struct Line {
    stream: TcpStream,
    /// When the request on a stream was to be sent, in microseconds of the load's clock; 0 for a free stream.
    intended_us: Box<[u32]>,
    next_stream: usize,
    outstanding: usize,
    in_flight_max: usize,
    out: Vec<u8>,
    sent: usize,
    input: Box<[u8]>,
    filled: usize,
    /// Of an answer whose header was seen, what is not read yet.
    body_left: usize,
    random: Random,
}

impl Line {
    /// At most `in_flight_max` requests are without an answer.
    pub fn new(stream: TcpStream, seed: u64, in_flight_max: usize) -> Self {
        Line {
            in_flight_max: in_flight_max.min(STREAMS),
            stream,
            intended_us: vec![0; STREAMS].into(),
            next_stream: 0,
            outstanding: 0,
            out: Vec::with_capacity(2 * OUT_BYTES_MAX),
            sent: 0,
            input: vec![0; READ_BYTES].into(),
            filled: 0,
            body_left: 0,
            random: Random::new(seed),
        }
    }

    /// Requests without an answer.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether the socket has taken all that was encoded.
    pub fn is_flushed(&self) -> bool {
        self.sent == self.out.len()
    }

    pub fn has_room(&self) -> bool {
        self.out.len() < OUT_BYTES_MAX
    }

    /// Encodes one of the requests; `false` if as many as may be are in flight.
    #[inline]
    pub fn push(&mut self, requests: &Requests, intended_us: u32) -> bool {
        let (template, key) = requests.choose(self.random.next());
        self.push_frame(&template.frame, intended_us)
            .is_some_and(|at| self.set_key(at, template, key))
    }

    #[inline]
    fn set_key(&mut self, at: usize, template: &Template, key: u64) -> bool {
        let at = at + template.key_at;
        self.out[at..at + 8].copy_from_slice(&key.to_be_bytes());
        true
    }

    /// Encodes a frame with a stream of its own; where it begins in the output.
    #[inline]
    pub fn push_frame(&mut self, frame: &[u8], intended_us: u32) -> Option<usize> {
        let stream = self.next_stream;
        if self.intended_us[stream] != 0 || self.outstanding >= self.in_flight_max {
            return None;
        }
        self.next_stream = (stream + 1) % STREAMS;
        self.intended_us[stream] = intended_us.max(1);
        self.outstanding += 1;
        let at = self.out.len();
        self.out.extend_from_slice(frame);
        self.out[at + 2..at + 4].copy_from_slice(&(stream as u16).to_be_bytes());
        Some(at)
    }

    /// Gives the socket what it takes.
    pub fn send(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Takes back the requests of which the socket has taken nothing, and says how many: they are not too late yet to be
    /// given up.
    pub fn take_back_unsent(&mut self) -> u32 {
        let (mut at, mut kept, mut count) = (0, 0, 0);
        while let Some(header) = self.out[at..].first_chunk::<HEADER_BYTES>() {
            let body = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
            let end = at + HEADER_BYTES + body;
            if at < self.sent {
                kept = end;
            } else {
                let stream = usize::from(u16::from_be_bytes([header[2], header[3]]));
                if count == 0 {
                    self.next_stream = stream;
                }
                self.intended_us[stream] = 0;
                self.outstanding -= 1;
                count += 1;
            }
            at = end;
        }
        self.out.truncate(kept);
        count
    }

    /// Reads once; for each answer, when its request was to be sent and what came of it. How many answers there were.
    pub fn receive(&mut self, mut answered: impl FnMut(u32, AnswerKind)) -> io::Result<usize> {
        let count = match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        };
        let filled = self.filled + count;
        let mut at = self.body_left.min(filled);
        self.body_left -= at;
        let mut answers = 0;
        while let Some(header) = self.input[at..filled].first_chunk::<{ HEADER_BYTES + 4 }>() {
            let body = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
            let kind = kind_of(header[4], [header[9], header[10], header[11], header[12]]);
            let stream = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let end = at + HEADER_BYTES + body;
            // Every answer to these requests has a body of four bytes and more.
            if body < 4 || stream >= STREAMS || self.intended_us[stream] == 0 {
                let kind = self.input[at + 4];
                return Err(io::Error::other(format!(
                    "an answer that was not asked for: opcode {kind:#04x} on stream {stream}, {body} bytes"
                )));
            }
            answers += 1;
            self.outstanding -= 1;
            answered(std::mem::take(&mut self.intended_us[stream]), kind);
            at = end.min(filled);
            self.body_left = end - at;
        }
        self.input.copy_within(at..filled, 0);
        self.filled = filled - at;
        Ok(answers)
    }
}

fn kind_of(opcode: u8, code: [u8; 4]) -> AnswerKind {
    if opcode != Opcode::Error as u8 {
        return AnswerKind::Done;
    }
    if i32::from_be_bytes(code) == ErrorCode::Overloaded as i32 {
        AnswerKind::Refused
    } else {
        AnswerKind::Failed
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::super::wire::frame;
    use super::*;

    fn line(in_flight_max: usize) -> (Line, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let (peer, _) = listener.accept().unwrap();
        (Line::new(stream, 1, in_flight_max), peer)
    }

    #[test]
    fn no_more_requests_are_in_flight_than_may_be() {
        let (mut line, _peer) = line(3);
        let options = frame(Opcode::Options, |_| {}).unwrap();
        assert!((0..3).all(|_| line.push_frame(&options, 1).is_some()));
        assert!(line.push_frame(&options, 1).is_none());
    }

    /// A client whose server does not read knows by its clock that a request is too late, and does not send it then.
    #[test]
    fn what_a_full_socket_did_not_take_is_taken_back() {
        let (mut line, mut peer) = line(STREAMS);
        let request = frame(Opcode::Query, |body| body.resize(1_000, 7)).unwrap();
        let mut sent = 0;
        let taken_back = loop {
            while line.has_room() && line.push_frame(&request, 1).is_some() {
                sent += 1;
            }
            line.send().unwrap();
            if !line.is_flushed() {
                break line.take_back_unsent() as usize;
            }
        };
        assert!(taken_back > 0);
        assert_eq!(line.outstanding(), sent - taken_back);
        // What is left is the rest of one frame, and the streams are in order.
        assert!(line.out.len() - line.sent < request.len());
        assert_eq!(line.next_stream, sent - taken_back);
        let mut bytes = vec![0; (sent - taken_back) * request.len()];
        peer.set_read_timeout(Some(std::time::Duration::from_secs(5)))
            .unwrap();
        let mut read = 0;
        while read < bytes.len() {
            read += peer.read(&mut bytes[read..]).unwrap();
            line.send().unwrap();
        }
        let last = &bytes[bytes.len() - request.len()..];
        assert_eq!(
            u16::from_be_bytes([last[2], last[3]]) as usize,
            sent - taken_back - 1
        );
    }
}
