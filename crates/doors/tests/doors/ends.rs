//! Ends of connections: nobody loses an answer by them, whichever side begins.

use std::io::Write;
use std::net::{Shutdown, TcpStream};

use helenus_doors::proto::health::{HealthCheckRequest, HealthCheckResponse};

use crate::support::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, SETTINGS, WINDOW_UPDATE, call,
    call_headers, frame, http2,
};
use crate::support::grpc::{framed, query};
use crate::support::{Answer, Served};

const QUERY: &str = "/stargate.Stargate/ExecuteQuery";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// One after another, where one of them may be lucky.
const CLIENTS: usize = 200;

/// The connection ended with the client's last byte, and the answers were lost.
#[test]
fn a_client_of_http2_that_sends_no_more_gets_all_its_answers() {
    const CALLS: u32 = 100;
    let served = Served::start();
    let message = framed(&query("SELECT key FROM system.local", vec![]));
    let mut stream = http2(&served);
    let mut calls = Vec::new();
    for number in 0..CALLS {
        calls.extend(call(2 * number + 1, QUERY, &message));
    }
    stream.write_all(&calls).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let frames: Vec<Frame> = std::iter::from_fn(|| Frame::read(&mut stream)).collect();
    let messages = frames.iter().filter(|frame| frame.kind == DATA);
    let ends = frames.iter().filter(|frame| frame.ends_stream());
    assert_eq!((messages.count(), ends.count()), (CALLS as usize, CALLS as usize));
}

/// A call that came together with the end began after all before it had been written, and its answer was lost.
#[test]
fn a_call_that_comes_together_with_the_end_is_answered() {
    let served = Served::start();
    let message = framed(&query("SELECT key FROM system.local", vec![]));
    let mut answered = 0;
    for _ in 0..CLIENTS {
        let mut stream = http2(&served);
        stream.write_all(&call(1, QUERY, &message)).unwrap();
        while !Frame::read(&mut stream).expect("an answer").ends_stream() {}
        stream.write_all(&call(3, QUERY, &message)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let frames = std::iter::from_fn(|| Frame::read(&mut stream));
        answered += frames.filter(|frame| frame.ends_stream()).count();
    }
    assert_eq!(answered, CLIENTS);
}

/// A client that ends within its call got no answer, and held its place for five seconds.
#[test]
fn a_call_whose_message_will_not_come_is_told_so() {
    let served = Served::start();
    let message = framed(&query("SELECT key FROM system.local", vec![]));
    let beginnings = [0, 3, message.len() - 1];
    for sent in beginnings {
        let mut stream = http2(&served);
        let mut begun = frame(HEADERS, END_HEADERS, 1, &call_headers(QUERY));
        begun.extend(frame(DATA, 0, 1, &message[..sent]));
        stream.write_all(&begun).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut frames = std::iter::from_fn(|| Frame::read(&mut stream));
        assert!(frames.any(|frame| frame.ends_stream()), "{sent}");
    }
}

/// The same of HTTP/1.1: `nc -N` got nothing.
#[test]
fn a_client_of_http1_that_sends_no_more_gets_its_answer() {
    let served = Served::start();
    let body = r#"{"query": "SELECT key FROM system.local"}"#;
    let length = body.len();
    let head = "POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    let request = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
    for _ in 0..CLIENTS {
        let mut stream = served.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(Answer::read(&mut stream).status, 200);
    }
}

/// A client that has gone without having asked anything is not waited for: one that has asked, and went before, is still there.
#[test]
fn a_client_that_goes_at_rest_is_gone_before_one_that_waits_for_an_answer() {
    let served = Served::start();
    let (mut waiting, mut at_rest) = (http2(&served), http2(&served));
    // It ends with the node.
    let health = HealthCheckRequest {
        service: String::new(),
    };
    waiting.write_all(&call(1, WATCH, &framed(&health))).unwrap();
    waiting.shutdown(Shutdown::Write).unwrap();
    at_rest.shutdown(Shutdown::Write).unwrap();
    while Frame::read(&mut at_rest).is_some() {}
    waiting.set_nonblocking(true).unwrap();
    let mut left = Vec::new();
    let ended = std::io::Read::read_to_end(&mut waiting, &mut left).map_err(|error| error.kind());
    assert_eq!(ended, Err(std::io::ErrorKind::WouldBlock));
}

/// Balancers hear of it before transports end; what a client sends before it has heard is answered; the last that it hears is which
/// call was the last; and the socket is the client's to close.
#[test]
fn a_drain_says_in_this_order_not_serving_goaway_ping_goaway_the_last_answers_and_the_end() {
    let served = Served::start();
    let mut stream = http2(&served);
    let health = HealthCheckRequest {
        service: "stargate.Stargate".to_owned(),
    };
    let message = framed(&query("SELECT key FROM system.local", vec![]));
    let [watched, begun, unaware] = [1, 3, 5];
    stream.write_all(&call(watched, WATCH, &framed(&health))).unwrap();
    stream
        .write_all(&frame(HEADERS, END_HEADERS, begun, &call_headers(QUERY)))
        .unwrap();
    assert_eq!(next_of(&mut stream, DATA, watched).payload, framed(&serving(1)));
    served.doors().begin_drain();

    // Everything else of this connection comes in this order.
    assert_eq!(next_of(&mut stream, DATA, watched).payload, framed(&serving(2)));
    let goaway = next_of(&mut stream, GOAWAY, 0);
    assert_eq!(
        last_stream(&goaway),
        i32::MAX as u32,
        "of all that the client can have begun"
    );
    let ping = next_of(&mut stream, PING, 0);
    // Sent before it has heard.
    stream.write_all(&call(unaware, QUERY, &message)).unwrap();
    stream.write_all(&frame(PING, ACK, 0, &ping.payload)).unwrap();
    let goaway = next_of(&mut stream, GOAWAY, 0);
    assert_eq!(last_stream(&goaway), unaware);
    stream
        .write_all(&frame(DATA, END_STREAM, begun, &message))
        .unwrap();
    let mut ended = Vec::new();
    while let Some(frame) = Frame::read(&mut stream) {
        ended.extend(frame.ends_stream().then_some(frame.stream));
    }
    assert!(ended.contains(&begun), "{ended:?}");
    // What the client still sends is no reason for a reset, which would take away what it has not read.
    stream.write_all(&frame(PING, 0, 0, &[0; 8])).unwrap();
    assert_eq!(stream.take_error().unwrap().map(|error| error.kind()), None);
    drop(stream);
    helenus_node::block_on(served.doors().drained());
}

fn serving(status: i32) -> HealthCheckResponse {
    HealthCheckResponse { status }
}

fn last_stream(goaway: &Frame) -> u32 {
    u32::from_be_bytes(goaway.payload[..4].try_into().unwrap())
}

/// The next frame of this kind; before it may come headers, and what belongs to no stream and says nothing of the end. An answer to
/// `unaware` may come at any time after it was asked.
fn next_of(stream: &mut TcpStream, kind: u8, of: u32) -> Frame {
    loop {
        let frame = Frame::read(stream).expect("the connection is open");
        if (frame.kind, frame.stream) == (kind, of) && (kind, frame.flags) != (PING, ACK) {
            return frame;
        }
        let says_nothing = matches!(frame.kind, SETTINGS | WINDOW_UPDATE | HEADERS);
        assert!(
            says_nothing || frame.stream == 5,
            "{frame:?} before {kind} of {of}"
        );
    }
}
