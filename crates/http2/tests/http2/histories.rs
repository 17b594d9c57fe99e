//! Random clients: polite ones, whose requests and answers have to come whole through any windows and in any pieces, and damaged ones.

use std::collections::HashMap;

use crate::support::*;
use bytes::Bytes;
use helenus_http2::{Connection, Trailers};
use http::{HeaderMap, HeaderValue, StatusCode};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn bytes(&mut self, length_max: usize) -> Vec<u8> {
        let length = self.below(length_max + 1);
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}

/// A client that opens windows a little at a time, and counts.
#[derive(Default)]
struct Client {
    connection_window: i64,
    windows: HashMap<u32, i64>,
    answers: HashMap<u32, Vec<u8>>,
    ended: HashMap<u32, bool>,
    /// Bytes that it may send, of all streams and of each.
    may_send: i64,
    may_send_of: HashMap<u32, i64>,
}

impl Client {
    fn take(&mut self, said: &[Frame]) {
        for frame in said {
            match frame.kind {
                DATA => {
                    let length = frame.payload.len() as i64;
                    let window = self.windows.get_mut(&frame.stream).unwrap();
                    *window -= length;
                    self.connection_window -= length;
                    // An end without bytes needs no window.
                    assert!(length == 0 || (*window >= 0 && self.connection_window >= 0));
                    assert!(length <= 16_384);
                    assert!(!self.ended.contains_key(&frame.stream));
                    self.answers
                        .entry(frame.stream)
                        .or_default()
                        .extend(&frame.payload);
                }
                HEADERS if frame.flags & END_STREAM == 0 => {
                    assert!(self.answers.insert(frame.stream, Vec::new()).is_none());
                }
                HEADERS => assert!(frame.payload.ends_with(b"\x04last\x03yes")),
                RST_STREAM => panic!("{frame:?}"),
                WINDOW_UPDATE => {
                    let more = i64::from(u32::from_be_bytes(frame.payload[..].try_into().unwrap()));
                    match frame.stream {
                        0 => self.may_send += more,
                        stream => *self.may_send_of.get_mut(&stream).unwrap() += more,
                    }
                }
                _ => {}
            }
            if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
                let has_trailers = frame.kind == HEADERS;
                assert!(self.ended.insert(frame.stream, has_trailers).is_none());
            }
        }
    }

    /// A client that keeps to the rules waits for its windows; where everything is consumed at once they are never in its way.
    fn send(&mut self, frame: &[u8]) {
        let stream = u32::from_be_bytes(frame[5..9].try_into().unwrap());
        match frame[3] {
            DATA => {
                let length = frame.len() as i64 - 9;
                let of_stream = self.may_send_of.get_mut(&stream).unwrap();
                *of_stream -= length;
                self.may_send -= length;
                assert!(*of_stream >= 0 && self.may_send >= 0);
            }
            _ => drop(
                self.may_send_of
                    .insert(stream, i64::from(LIMITS.stream_window_bytes)),
            ),
        }
    }
}

/// The frames of `count` requests with bodies, and the bodies.
fn requests(random: &mut Random, from: u32, count: u32) -> (Vec<Vec<u8>>, HashMap<u32, Vec<u8>>) {
    let mut bodies = HashMap::new();
    let mut frames = Vec::new();
    for at in 0..count {
        let stream = from + 2 * at;
        frames.push(request(stream, 0));
        // Now and then more than all windows together.
        let longest = if random.below(12) == 0 { 250_000 } else { 20_000 };
        let body = random.bytes(longest);
        let mut rest = &body[..];
        loop {
            let (piece, behind) = rest.split_at(rest.len().min(1 + random.below(9_000)));
            rest = behind;
            let flags = if rest.is_empty() { END_STREAM } else { 0 };
            match random.below(3) {
                0 => {
                    let padding = random.below(200);
                    let payload = [&[padding as u8][..], piece, &vec![0; padding]].concat();
                    frames.push(frame(DATA, flags | PADDED, stream, &payload));
                }
                _ => frames.push(frame(DATA, flags, stream, piece)),
            }
            if rest.is_empty() {
                break;
            }
        }
        bodies.insert(stream, body);
    }
    (frames, bodies)
}

#[test]
fn requests_and_answers_come_whole_through_any_windows_in_any_pieces() {
    for seed in 1..=100 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let (mut connection, mut heard, _) = heard(&[]);
        let mut client = Client {
            connection_window: 65_535,
            may_send: i64::from(LIMITS.connection_window_bytes),
            ..Client::default()
        };
        let mut first_window = 65_535_i64;
        let mut rest = Vec::new();
        let mut wanted_answers: HashMap<u32, Vec<u8>> = HashMap::new();
        let mut wanted_trailers: HashMap<u32, bool> = HashMap::new();
        for round in 0..5 {
            let count = 1 + random.below(4) as u32;
            let from = 1 + 8 * round;
            let (asked, bodies) = requests(&mut random, from, count);
            if random.below(3) == 0 {
                first_window = random.below(30_000) as i64;
                let setting = first_window_setting(first_window);
                receive(&mut connection, &mut rest, &setting, &mut heard);
            }
            for frame in asked {
                client.take(&frames(&take(&mut connection)));
                client.send(&frame);
                let mut input = &frame[..];
                while !input.is_empty() {
                    let (piece, behind) = input.split_at(input.len().min(1 + random.below(5_000)));
                    receive(&mut connection, &mut rest, piece, &mut heard);
                    input = behind;
                }
            }
            assert_eq!(heard.failed, None);
            let mut waiting = HashMap::new();
            for (stream, body) in bodies {
                assert!(heard.bodies[&stream] == body, "seed {seed}, stream {stream}");
                client.windows.insert(stream, first_window);
                let (pieces, trailers) = answer(&mut random);
                connection.respond(stream, StatusCode::OK, &HeaderMap::new(), false);
                for piece in &pieces {
                    connection.send(stream, piece.clone());
                }
                wanted_answers.insert(stream, pieces.concat());
                wanted_trailers.insert(stream, trailers.is_some());
                // The end follows at once, or once there is room.
                match random.below(2) == 0 || connection.has_room(stream) {
                    true => connection.finish(stream, trailers),
                    false => drop(waiting.insert(stream, trailers)),
                }
            }
            for turn in 0.. {
                while let Some(stream) = connection.next_with_room() {
                    let trailers = waiting.remove(&stream).expect("somebody waits for it");
                    connection.finish(stream, trailers);
                }
                client.take(&frames(&take(&mut connection)));
                if connection.is_idle() {
                    break;
                }
                assert!(turn < 10_000, "seed {seed}: windows open, and nothing comes");
                open_windows(&mut random, &mut client, &mut connection, &mut heard);
                // Windows that open by themselves have to do, too.
                if seed % 2 == 0 && random.below(6) == 0 {
                    let bytes = random.below(30_000) as i64;
                    let more = bytes - std::mem::replace(&mut first_window, bytes);
                    client.windows.values_mut().for_each(|window| *window += more);
                    let setting = first_window_setting(first_window);
                    receive(&mut connection, &mut Vec::new(), &setting, &mut heard);
                }
            }
            assert!(waiting.is_empty(), "seed {seed}: {waiting:?} wait for ever");
        }
        assert!(
            client.answers == wanted_answers && client.ended == wanted_trailers,
            "seed {seed}"
        );
        assert!(connection.output().is_empty());
    }
}

fn first_window_setting(bytes: i64) -> Vec<u8> {
    frame(
        SETTINGS,
        0,
        0,
        &[&[0, 4][..], &(bytes as u32).to_be_bytes()].concat(),
    )
}

fn answer(random: &mut Random) -> (Vec<Bytes>, Option<Trailers>) {
    let count = random.below(4);
    let pieces = (0..count).map(|_| Bytes::from(random.bytes(40_000))).collect();
    let last = HeaderMap::from_iter([("last".parse().unwrap(), HeaderValue::from_static("yes"))]);
    let has_trailers = random.below(2) == 0;
    (pieces, has_trailers.then(|| Trailers::Own(Box::new(last))))
}

fn open_windows(
    random: &mut Random,
    client: &mut Client,
    connection: &mut Connection<u32>,
    heard: &mut Heard,
) {
    let mut open = |stream: u32, bytes: u32| {
        receive(
            connection,
            &mut Vec::new(),
            &frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()),
            heard,
        );
    };
    if random.below(2) == 0 {
        let bytes = 1 + random.below(30_000);
        client.connection_window += bytes as i64;
        open(0, bytes as u32);
    }
    for (stream, window) in &mut client.windows {
        // Whose answer has ended hears of no windows any more.
        if random.below(2) == 0 && !client.ended.contains_key(stream) {
            let bytes = 1 + random.below(20_000);
            *window += bytes as i64;
            open(*stream, bytes as u32);
        }
    }
}

/// A session as clients of gRPC have them, some of whose bytes are damaged.
fn damaged(random: &mut Random) -> Vec<u8> {
    let mut bytes = beginning();
    for at in 0..1 + random.below(6) as u32 {
        let stream = 2 * at + 1;
        bytes.extend(match random.below(8) {
            0 => frame(PING, 0, 0, &[7; 8]),
            1 => frame(SETTINGS, 0, 0, &[0, 4, 0, 0, random.below(256) as u8, 255]),
            2 => frame(WINDOW_UPDATE, 0, stream.saturating_sub(2), &[0, 0, 1, 0]),
            _ => Vec::new(),
        });
        bytes.extend(request(stream, if random.below(2) == 0 { END_STREAM } else { 0 }));
        bytes.extend(frame(DATA, END_STREAM, stream, &random.bytes(60)));
        if random.below(8) == 0 {
            bytes.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
        }
    }
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len());
        match random.below(3) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            _ => drop(bytes.drain(at..(at + random.below(12)).min(bytes.len()))),
        }
    }
    bytes
}

/// Whatever comes, it means the same in one piece as in many, costs no more than it is worth, and ends.
#[test]
fn damaged_sessions_mean_the_same_in_any_pieces_and_are_answered_within_bounds() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for round in 0..8_000 {
        let bytes = damaged(&mut random);
        let run = |pieces: &mut dyn FnMut(usize) -> usize| {
            let (mut connection, mut rest, mut heard) =
                (Connection::new(LIMITS), Vec::new(), Heard::default());
            let mut input = &bytes[..];
            while !input.is_empty() && heard.failed.is_none() {
                let (piece, behind) = input.split_at(pieces(input.len()));
                receive(&mut connection, &mut rest, piece, &mut heard);
                input = behind;
            }
            for stream in [1, 3, 5, 7, 9, 11] {
                connection.respond(stream, StatusCode::OK, &HeaderMap::new(), false);
                connection.send(stream, Bytes::from_static(&[1; 2_000]));
                connection.finish(stream, None);
            }
            let said = take(&mut connection);
            assert!(
                said.len() < 4 * bytes.len() + 16_000,
                "round {round}: {} bytes for {}",
                said.len(),
                bytes.len()
            );
            frames(&said);
            (heard, said)
        };
        let whole = run(&mut |length| length);
        let parts = run(&mut |length| length.min(1 + random.below(40)));
        assert_eq!(whole.0.events, parts.0.events, "round {round}: {bytes:02x?}");
        assert!(whole == parts, "round {round}: {bytes:02x?}");
    }
}
