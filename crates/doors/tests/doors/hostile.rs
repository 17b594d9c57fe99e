//! Clients that want the doors to fall over, hang or fill the memory: each is answered or closed, and the next polite one is served.

use std::io::{Read, Write};
use std::net::TcpStream;

use helenus_doors::proto::health::HealthCheckRequest;

use crate::support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, call_headers, frame, http2,
};
use crate::support::grpc::framed;
use crate::support::{Answer, Served, Serving};

const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// `POST / HTTP/2` by HPACK's static table: `:method`, `:scheme`, `:path`, and an authority of one letter.
const REQUEST: &[u8] = &[0x83, 0x86, 0x84, 0x01, 0x01, b'x'];

/// Sends for as long as the server takes it, and waits until it has closed the connection.
fn until_closed(stream: &mut TcpStream, mut next: impl FnMut(u32) -> Vec<u8>, count_max: u32) {
    let mut reading = stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut taken = [0; 16 * 1024];
        loop {
            match reading.read(&mut taken) {
                Ok(1..) => {}
                Ok(0) => return true,
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    });
    for count in 0..count_max {
        if stream.write_all(&next(count)).is_err() {
            break;
        }
    }
    assert!(reader.join().unwrap(), "the connection is still open");
}

fn is_well(served: &Served) {
    let answer = served.query("SELECT key FROM system.local", "");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn rapid_resets_end_their_connection() {
    let served = Served::start();
    let mut stream = http2(&served);
    let reset = |count: u32| {
        let id = 2 * count + 1;
        let mut both = frame(HEADERS, END_HEADERS, id, REQUEST);
        both.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
        // Many at once, so that none of them is accepted before it is reset.
        both
    };
    let many = |count: u32| (0..2_000).flat_map(|at| reset(count * 2_000 + at)).collect();
    until_closed(&mut stream, many, 1_000);
    is_well(&served);
}

#[test]
fn headers_without_end_end_their_connection() {
    let served = Served::start();
    let mut stream = http2(&served);
    stream.write_all(&frame(HEADERS, END_STREAM, 1, REQUEST)).unwrap();
    // A literal header of 200 bytes, again and again.
    let mut header = vec![0x00, 0x01, b'a', 0x7f, 0x49];
    header.extend([b'b'; 200]);
    until_closed(
        &mut stream,
        |_| frame(CONTINUATION, 0, 1, &header.repeat(50)),
        100_000,
    );
    is_well(&served);
}

/// One header in the table, referred to a thousand times.
#[test]
fn an_hpack_bomb_is_refused() {
    let served = Served::start();
    let mut stream = http2(&served);
    let mut block = REQUEST.to_vec();
    block.extend([0x40, 0x01, b'a', 0x7f, 0x81, 0x1e]);
    block.extend([b'b'; 127 + 129 + 30 * 128 - 128]);
    block.extend([0xbe; 12_000]);
    stream
        .write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block))
        .unwrap();
    stream.write_all(&frame(PING, 0, 0, &[7; 8])).unwrap();
    let mut seen: Vec<u8> = Vec::new();
    let mut taken = [0; 4_096];
    // Either the stream is refused and the ping answered, or the connection ends.
    while !seen.windows(8).any(|window| window == [7; 8]) {
        match stream.read(&mut taken) {
            Ok(0) | Err(_) => break,
            Ok(count) => seen.extend(&taken[..count]),
        }
    }
    is_well(&served);
}

/// Bytes that nobody reads of a call held memory for as long as the call took, 256 KiB a connection.
#[test]
fn what_comes_behind_the_only_message_of_a_call_is_let_go_of() {
    let served = Served::start();
    let mut stream = http2(&served);
    let watched = framed(&HealthCheckRequest {
        service: String::new(),
    });
    stream
        .write_all(&frame(HEADERS, END_HEADERS, 1, &call_headers(WATCH)))
        .unwrap();
    stream.write_all(&frame(DATA, 0, 1, &watched)).unwrap();
    // The first window of a stream has room for four, and they are never more than four before more was let in.
    let mut opened = 4 * 16_384;
    for sent in 1..=40 {
        while opened < sent * 16_384 {
            let frame = Frame::read(&mut stream).expect("the call goes on");
            if (frame.kind, frame.stream) == (WINDOW_UPDATE, 1) {
                opened += u32::from_be_bytes(frame.payload.try_into().unwrap());
            }
        }
        stream.write_all(&frame(DATA, 0, 1, &[0; 16_384])).unwrap();
    }
    is_well(&served);
}

#[test]
fn storms_of_settings_and_pings_and_windows_that_overflow_hurt_nobody() {
    let served = Served::start();
    let storm: Vec<u8> = (0..500)
        .flat_map(|_| [frame(SETTINGS, 0, 0, &[]), frame(PING, 0, 0, &[1; 8])].concat())
        .collect();
    let mut stream = http2(&served);
    let overflow = frame(WINDOW_UPDATE, 0, 0, &i32::MAX.to_be_bytes());
    until_closed(
        &mut stream,
        |count| match count {
            0..20 => storm.clone(),
            _ => overflow.clone(),
        },
        30,
    );
    is_well(&served);
}

#[test]
fn frames_that_are_none_end_their_connection() {
    let served = Served::start();
    for broken in [
        frame(HEADERS, END_HEADERS, 0, REQUEST),
        frame(HEADERS, END_HEADERS, 2, REQUEST),
        frame(SETTINGS, 0, 1, &[]),
        frame(SETTINGS, 0, 0, &[0; 5]),
        frame(CONTINUATION, 0, 1, &[]),
        frame(HEADERS, END_HEADERS, 1, &[0xff; 20]),
        vec![0xff; 9],
    ] {
        let mut stream = http2(&served);
        until_closed(&mut stream, |_| broken.clone(), 3);
    }
    is_well(&served);
}

#[test]
fn giant_bodies_are_refused_without_being_read() {
    let served = Served::start();
    let mut stream = served.connect();
    let head = format!(
        "POST /v1/query HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        1_u64 << 30
    );
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut stream).status, 413);

    // Nobody says how much there will be.
    let mut stream = served.connect();
    let head = "POST /v1/query HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"10000\r\n".to_vec(), vec![b' '; 0x10000], b"\r\n".to_vec()].concat();
    for _ in 0..65 {
        if stream.write_all(&chunk).is_err() {
            break;
        }
    }
    let mut answer = [0; 12];
    let read = stream.read(&mut answer);
    assert!(
        read.is_err() || answer.starts_with(b"HTTP/1.1 413"),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );
    is_well(&served);
}

/// Clients of HTTP could take 128 MiB of a node that was given 64.
#[test]
fn a_small_node_takes_smaller_bodies_and_says_so() {
    let served = Served::start_as(Serving {
        node_memory_bytes: Some(64 << 20),
        ..Serving::default()
    });
    let body = |bytes: usize| {
        let statement = "SELECT key FROM system.local";
        format!("{{\"query\":\"{statement}{}\"}}", " ".repeat(bytes))
    };
    assert_eq!(served.post("/v1/query", &body(200 << 10)).status, 200);
    let refused = served.post("/v1/query", &body(256 << 10));
    assert_eq!(refused.status, 413);
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.contains("256 KiB") && detail.contains("`memory`"),
        "{detail}"
    );
}

#[test]
fn heads_beyond_the_bounds_are_refused() {
    let served = Served::start();
    let many: Vec<(String, String)> = (0..200).map(|at| (format!("h{at}"), "x".to_owned())).collect();
    let many: Vec<(&str, &str)> = many
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(served.ask("GET", "/healthz", &many, "").status, 431);
    let long = "x".repeat(200_000);
    assert_eq!(served.ask("GET", "/healthz", &[("h", &long)], "").status, 431);
    is_well(&served);
}

#[test]
fn json_that_is_deep_long_or_none_is_a_problem_document() {
    let served = Served::start();
    let deep = "[".repeat(100_000);
    let cases = [
        deep.clone(),
        format!("{{\"query\":{deep}"),
        format!(
            "{{\"query\":\"SELECT ?\",\"values\":[{}]}}",
            "[".repeat(50_000) + &"]".repeat(50_000)
        ),
        format!("{{\"query\":\"x\",\"values\":[{}1]}}", "1,".repeat(1_000_000)),
        "{\"query\":\"\\ud800\"}".to_owned(),
        "\u{0}".to_owned(),
        String::new(),
    ];
    for body in cases {
        let answer = served.post("/v1/query", &body);
        let shown = &body[..body.len().min(40)];
        assert_eq!(
            (answer.status, answer.json()["status"].as_u64()),
            (400, Some(400)),
            "{shown}"
        );
    }
    is_well(&served);
}

/// A fixed seed: requests of both protocols with bytes changed.
#[test]
fn mutated_requests_are_answered_or_closed() {
    let served = Served::start();
    let http1 = format!(
        "POST /v1/query HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 40\r\n\r\n{:<40}",
        "{\"query\":\"SELECT key FROM system.local\"}"
    );
    let mut http2 = PREFACE.to_vec();
    http2.extend(frame(SETTINGS, 0, 0, &[]));
    http2.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, REQUEST));
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let mut damaged = |round: usize| {
        let mut bytes = match round % 2 {
            0 => http1.clone().into_bytes(),
            _ => http2.clone(),
        };
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        bytes.truncate(bytes.len() - random(4));
        bytes
    };
    let requests: Vec<Vec<u8>> = (0..300).map(&mut damaged).collect();
    // Many at once: a request that stays half is closed after seconds only.
    std::thread::scope(|scope| {
        for some in requests.chunks(10) {
            scope.spawn(|| some.iter().for_each(|bytes| ask(&served, bytes)));
        }
    });
    is_well(&served);
}

/// Says all that it has to say, and hears whatever is answered until the end.
fn ask(served: &Served, bytes: &[u8]) {
    let mut stream = served.connect();
    let _closed = stream.write_all(bytes);
    let _half = stream.shutdown(std::net::Shutdown::Write);
    let mut taken = Vec::new();
    let _reset = stream.read_to_end(&mut taken);
}
