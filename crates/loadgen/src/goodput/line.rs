//! One connection of a load: encodes requests, scans answers by their headers, allocates nothing.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use helenus_protocol::{ErrorCode, Opcode};

use super::workload::Requests;

/// Kind of an answer, by its header and the code of an error.
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

/// Streams of a connection (v4): the protocol has room for no more requests in flight.
pub const STREAMS: usize = 32_768;

/// Room for what is encoded, to begin with.
const OUT_BYTES: usize = 64 * 1024;

/// Bytes that the socket has taken, from which on they are removed from the front; they must be half of all, too.
const TAKEN_BYTES_MIN: usize = 256 * 1024;

/// Read at once.
const READ_BYTES: usize = 256 * 1024;

const HEADER_BYTES: usize = 9;

/// A request without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waiting {
    /// When it was to be sent, in microseconds of the load's clock; 0 for a free stream.
    due_us: u32,
    /// Index of the load's part.
    part: u8,
}

pub struct Line {
    stream: TcpStream,
    waiting: Box<[Waiting]>,
    /// The last one to become free is the next to be used: it is still in the cache.
    free: Vec<u16>,
    in_flight_max: usize,
    out: Vec<u8>,
    taken: usize,
    input: Box<[u8]>,
    filled: usize,
    /// Bytes not read yet of an answer whose header was seen.
    body_left: usize,
    random: Random,
}

impl Line {
    /// At most `in_flight_max` requests are without an answer, [`STREAMS`] at most.
    pub fn new(stream: TcpStream, seed: u64, in_flight_max: usize) -> Self {
        let in_flight_max = in_flight_max.clamp(1, STREAMS);
        Line {
            stream,
            waiting: vec![Waiting::default(); in_flight_max].into(),
            free: (0..in_flight_max as u16).rev().collect(),
            in_flight_max,
            out: Vec::with_capacity(OUT_BYTES),
            taken: 0,
            input: vec![0; READ_BYTES].into(),
            filled: 0,
            body_left: 0,
            random: Random::new(seed),
        }
    }

    /// Requests without an answer.
    pub fn outstanding(&self) -> usize {
        self.in_flight_max - self.free.len()
    }

    /// Part and due time of each request without an answer.
    pub fn unanswered(&self) -> impl Iterator<Item = (u8, u32)> {
        let waiting = self.waiting.iter().filter(|waiting| waiting.due_us != 0);
        waiting.map(|waiting| (waiting.part, waiting.due_us))
    }

    /// Encodes one of the requests; `false` if as many as may be are in flight.
    #[inline]
    pub fn push(&mut self, requests: &Requests, part: u8, due_us: u32) -> bool {
        let (template, key) = requests.choose(self.random.next());
        let Some(at) = self.push_frame(&template.frame, part, due_us) else {
            return false;
        };
        if let Some(key_at) = template.key_at {
            let at = at + key_at;
            self.out[at..at + 8].copy_from_slice(&key.to_be_bytes());
        }
        true
    }

    /// Encodes a frame with a stream of its own; where it begins in the output. It waits there until the socket takes it, whatever that
    /// lasts: what a driver was given it sends.
    #[inline]
    pub(crate) fn push_frame(&mut self, frame: &[u8], part: u8, due_us: u32) -> Option<usize> {
        let stream = self.free.pop()?;
        self.waiting[usize::from(stream)] = Waiting {
            due_us: due_us.max(1),
            part,
        };
        let at = self.out.len();
        self.out.extend_from_slice(frame);
        self.out[at + 2..at + 4].copy_from_slice(&stream.to_be_bytes());
        Some(at)
    }

    /// Gives the socket what it takes.
    pub fn send(&mut self) -> io::Result<()> {
        while self.taken < self.out.len() {
            match self.stream.write(&self.out[self.taken..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.taken += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.taken >= TAKEN_BYTES_MIN && self.taken >= self.out.len() / 2 {
                        self.out.drain(..self.taken);
                        self.taken = 0;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.taken = 0;
        Ok(())
    }

    /// Reads once; for each answer, its part, when its request was to be sent and what came of it. How many answers there were.
    pub fn receive(&mut self, mut answered: impl FnMut(u8, u32, AnswerKind)) -> io::Result<usize> {
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
            let stream = u16::from_be_bytes([header[2], header[3]]);
            let end = at + HEADER_BYTES + body;
            let waiting = self.waiting.get_mut(usize::from(stream));
            // Every answer to these requests has a body of four bytes and more.
            let asked = waiting.filter(|waiting| body >= 4 && waiting.due_us != 0);
            let Some(Waiting { due_us, part }) = asked.map(std::mem::take) else {
                let opcode = header[4];
                return Err(io::Error::other(format!(
                    "an answer that was not asked for: opcode {opcode:#04x} on stream {stream}, {body} bytes"
                )));
            };
            answers += 1;
            self.free.push(stream);
            answered(part, due_us, kind);
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
    use std::time::Duration;

    use super::super::wire::frame;
    use super::*;

    fn line(in_flight_max: usize) -> (Line, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let (peer, _) = listener.accept().unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        (Line::new(stream, 1, in_flight_max), peer)
    }

    fn answer(stream: u16, opcode: Opcode, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x84, 0];
        bytes.extend_from_slice(&stream.to_be_bytes());
        bytes.push(opcode as u8);
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn receive_all(line: &mut Line, wanted: usize) -> Vec<(u8, u32, AnswerKind)> {
        let mut answers = Vec::new();
        while answers.len() < wanted {
            line.receive(|part, due_us, kind| answers.push((part, due_us, kind)))
                .unwrap();
        }
        answers
    }

    #[test]
    fn no_more_requests_are_in_flight_than_may_be() {
        let options = frame(Opcode::Options, |_| {}).unwrap();
        for (in_flight_max, wanted) in [(3, 3), (STREAMS + 1, STREAMS)] {
            let (mut line, _peer) = line(in_flight_max);
            assert!((0..wanted).all(|_| line.push_frame(&options, 0, 1).is_some()));
            assert!(line.push_frame(&options, 0, 1).is_none());
            assert_eq!(line.outstanding(), wanted);
        }
    }

    #[test]
    fn an_answer_counts_for_its_request_whatever_the_order_and_however_it_is_cut() {
        let (mut line, mut peer) = line(8);
        let options = frame(Opcode::Options, |_| {}).unwrap();
        for (part, due_us) in [(0, 100), (1, 200), (0, 300)] {
            assert!(line.push_frame(&options, part, due_us).is_some());
        }
        line.send().unwrap();
        let overloaded = (ErrorCode::Overloaded as i32).to_be_bytes();
        let bytes = [
            answer(2, Opcode::Result, &[0; 40]),
            answer(0, Opcode::Error, &overloaded),
            answer(1, Opcode::Error, &[0, 0, 0, 0, 0, 0]),
        ]
        .concat();
        let mut answers = Vec::new();
        for piece in bytes.chunks(7) {
            peer.write_all(piece).unwrap();
            std::thread::sleep(Duration::from_millis(1));
            line.receive(|part, due_us, kind| answers.push((part, due_us, kind)))
                .unwrap();
        }
        if answers.len() < 3 {
            answers.extend(receive_all(&mut line, 3 - answers.len()));
        }
        let wanted = [
            (0, 300, AnswerKind::Done),
            (0, 100, AnswerKind::Refused),
            (1, 200, AnswerKind::Failed),
        ];
        assert_eq!(answers, wanted);
        assert_eq!(line.outstanding(), 0);
    }

    #[test]
    fn an_answer_that_nobody_asked_for_is_an_error() {
        let (mut line, mut peer) = line(8);
        peer.write_all(&answer(3, Opcode::Result, &[0; 4])).unwrap();
        let error = loop {
            match line.receive(|_, _, _| {}) {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("on stream 3"), "{error}");
    }

    /// Output that a full socket does not take is sent once it does, whole and in order; the streams bound its memory.
    #[test]
    fn what_a_full_socket_did_not_take_is_sent_later() {
        let (mut line, mut peer) = line(STREAMS);
        let request = frame(Opcode::Query, |body| body.resize(1_000, 7)).unwrap();
        while line.push_frame(&request, 0, 1).is_some() {
            line.send().unwrap();
        }
        assert!(!line.out.is_empty(), "the socket took 32 MB");
        let mut bytes = vec![0; STREAMS * request.len()];
        let mut read = 0;
        while read < bytes.len() {
            read += peer.read(&mut bytes[read..]).unwrap();
            line.send().unwrap();
        }
        assert!(line.out.is_empty());
        for (index, frame) in bytes.chunks(request.len()).enumerate() {
            let stream = u16::from_be_bytes([frame[2], frame[3]]);
            assert_eq!(usize::from(stream), index);
        }
    }
}
