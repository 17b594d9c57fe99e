//! Rules of RFC 9113 that a client breaks, or keeps in an odd way: each with what it is told.

use crate::support::*;
use bytes::Bytes;
use helenus_http2::ErrorCode::{self, *};
use http::{HeaderMap, StatusCode};

#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// The connection ends.
    Goaway(ErrorCode),
    /// A stream ends.
    Reset(u32, ErrorCode),
    /// Nothing is wrong.
    Fine,
}

fn told(bytes: &[u8]) -> Told {
    let (_, heard, said) = heard(bytes);
    if let Some(code) = heard.failed {
        let goaway = said
            .iter()
            .find(|frame| frame.kind == GOAWAY)
            .expect("the client is told");
        assert_eq!(goaway.payload[4..], (code as u32).to_be_bytes());
        return Told::Goaway(code);
    }
    let reset = said.iter().find(|frame| frame.kind == RST_STREAM);
    reset.map_or(Told::Fine, |reset| {
        let known = [
            ProtocolError,
            FlowControlError,
            StreamClosed,
            FrameSizeError,
            RefusedStream,
            NoError,
        ];
        let code = known
            .into_iter()
            .find(|code| reset.payload == (*code as u32).to_be_bytes());
        Told::Reset(reset.stream, code.expect("a code that is known"))
    })
}

fn check(cases: Vec<(&str, Vec<u8>, Told)>) {
    for (name, bytes, wanted) in cases {
        assert_eq!(told(&bytes), wanted, "{name}");
    }
}

/// A request with these fields beside or instead of those of a POST.
fn with(fields: &[(&str, &str)], flags: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, 1, &block(fields))
}

fn and(mut first: Vec<u8>, second: Vec<u8>) -> Vec<u8> {
    first.extend(second);
    first
}

fn setting(name: u16, value: u32) -> Vec<u8> {
    frame(
        SETTINGS,
        0,
        0,
        &[&name.to_be_bytes()[..], &value.to_be_bytes()].concat(),
    )
}

#[test]
fn frames_that_are_none_or_of_the_wrong_length() {
    check(vec![
        (
            "a frame longer than announced",
            vec![0, 0x40, 1, 0, 0, 0, 0, 0, 1],
            Told::Goaway(FrameSizeError),
        ),
        (
            "SETTINGS of a stream",
            frame(SETTINGS, 0, 1, &[]),
            Told::Goaway(ProtocolError),
        ),
        (
            "SETTINGS that are cut off",
            frame(SETTINGS, 0, 0, &[0; 5]),
            Told::Goaway(FrameSizeError),
        ),
        (
            "an acknowledgement with settings",
            frame(SETTINGS, ACK, 0, &[0; 6]),
            Told::Goaway(FrameSizeError),
        ),
        ("an acknowledgement", frame(SETTINGS, ACK, 0, &[]), Told::Fine),
        ("PUSH of two", setting(2, 2), Told::Goaway(ProtocolError)),
        (
            "a window of 2^31",
            setting(4, 1 << 31),
            Told::Goaway(FlowControlError),
        ),
        (
            "frames too short",
            setting(5, 16_383),
            Told::Goaway(ProtocolError),
        ),
        (
            "frames too long",
            setting(5, 1 << 24),
            Told::Goaway(ProtocolError),
        ),
        ("an unknown setting", setting(99, 99), Told::Fine),
        (
            "a PING of a stream",
            frame(PING, 0, 1, &[0; 8]),
            Told::Goaway(ProtocolError),
        ),
        (
            "a PING of seven bytes",
            frame(PING, 0, 0, &[0; 7]),
            Told::Goaway(FrameSizeError),
        ),
        (
            "a PING that nobody waits for",
            frame(PING, ACK, 0, &[0; 8]),
            Told::Fine,
        ),
        (
            "GOAWAY of a stream",
            frame(GOAWAY, 0, 1, &[0; 8]),
            Told::Goaway(ProtocolError),
        ),
        (
            "GOAWAY without a reason",
            frame(GOAWAY, 0, 0, &[0; 7]),
            Told::Goaway(FrameSizeError),
        ),
        ("GOAWAY", frame(GOAWAY, 0, 0, &[0; 9]), Told::Fine),
        (
            "a push",
            frame(PUSH_PROMISE, 4, 1, &[0; 9]),
            Told::Goaway(ProtocolError),
        ),
        ("an unknown frame", frame(99, 0xff, 1, &[1; 99]), Told::Fine),
        (
            "a window of three bytes",
            frame(WINDOW_UPDATE, 0, 0, &[0; 3]),
            Told::Goaway(FrameSizeError),
        ),
        (
            "a reset of three bytes",
            and(request(1, 0), frame(RST_STREAM, 0, 1, &[0; 3])),
            Told::Goaway(FrameSizeError),
        ),
        (
            "a priority of four bytes",
            frame(PRIORITY, 0, 1, &[0; 4]),
            Told::Reset(1, FrameSizeError),
        ),
        (
            "a priority of itself",
            frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0]),
            Told::Reset(1, ProtocolError),
        ),
        ("a priority", frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0]), Told::Fine),
        (
            "a priority of no stream",
            frame(PRIORITY, 0, 0, &[0; 5]),
            Told::Goaway(ProtocolError),
        ),
    ]);
}

#[test]
fn streams_in_their_order() {
    let data = |stream: u32, flags: u8| frame(DATA, flags, stream, b"x");
    check(vec![
        (
            "a stream of the server's",
            request(2, 0),
            Told::Goaway(ProtocolError),
        ),
        ("no stream", request(0, 0), Told::Goaway(ProtocolError)),
        (
            "an earlier stream",
            and(request(5, 0), request(3, 0)),
            Told::Goaway(ProtocolError),
        ),
        ("data of no stream", data(0, 0), Told::Goaway(ProtocolError)),
        ("data before headers", data(1, 0), Told::Goaway(ProtocolError)),
        (
            "a reset before headers",
            frame(RST_STREAM, 0, 1, &[0; 4]),
            Told::Goaway(ProtocolError),
        ),
        (
            "a window before headers",
            frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
            Told::Goaway(ProtocolError),
        ),
        (
            "data after the end",
            and(request(1, END_STREAM), data(1, 0)),
            Told::Reset(1, StreamClosed),
        ),
        (
            "headers after the end",
            and(request(1, END_STREAM), request(1, END_STREAM)),
            Told::Reset(1, StreamClosed),
        ),
        (
            "headers that are no trailers",
            and(request(1, 0), request(1, END_STREAM)),
            Told::Reset(1, ProtocolError),
        ),
        (
            "trailers without an end",
            and(
                request(1, 0),
                frame(HEADERS, END_HEADERS, 1, &block(&[("a", "b")])),
            ),
            Told::Reset(1, ProtocolError),
        ),
        (
            "trailers",
            and(
                request(1, 0),
                frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("a", "b")])),
            ),
            Told::Fine,
        ),
        (
            "what was on its way when the client took the request back",
            and(
                and(request(1, 0), frame(RST_STREAM, 0, 1, &[0; 4])),
                data(1, END_STREAM),
            ),
            Told::Fine,
        ),
        (
            "a fifth of four",
            (0..5).flat_map(|at| request(2 * at + 1, 0)).collect(),
            Told::Reset(9, RefusedStream),
        ),
    ]);
}

#[test]
fn header_blocks_in_pieces() {
    let whole = block(&POST);
    let (first, rest) = whole.split_at(9);
    let begun = |flags: u8| frame(HEADERS, flags, 1, first);
    let ended = frame(CONTINUATION, END_HEADERS, 1, rest);
    check(vec![
        ("two pieces", and(begun(0), ended.clone()), Told::Fine),
        (
            "an empty one between",
            and(and(begun(0), frame(CONTINUATION, 0, 1, &[])), ended.clone()),
            Told::Fine,
        ),
        (
            "something between",
            and(and(begun(0), frame(PING, 0, 0, &[0; 8])), ended.clone()),
            Told::Goaway(ProtocolError),
        ),
        (
            "another stream's",
            and(begun(0), frame(CONTINUATION, END_HEADERS, 3, rest)),
            Told::Goaway(ProtocolError),
        ),
        ("no beginning", ended.clone(), Told::Goaway(ProtocolError)),
        (
            "empty ones without end",
            and(begun(0), frame(CONTINUATION, 0, 1, &[]).repeat(1_000)),
            Told::Goaway(EnhanceYourCalm),
        ),
        (
            "long ones without end",
            and(
                begun(0),
                frame(CONTINUATION, 0, 1, &block(&[("a", "b")]).repeat(200)).repeat(10),
            ),
            Told::Goaway(EnhanceYourCalm),
        ),
        (
            "no HPACK",
            frame(HEADERS, END_HEADERS, 1, &[0xff; 20]),
            Told::Goaway(CompressionError),
        ),
        (
            "padding and priority",
            frame(
                HEADERS,
                END_HEADERS | PADDED | HAS_PRIORITY,
                1,
                &[&[3, 0, 0, 0, 0, 16][..], &whole, &[0; 3]].concat(),
            ),
            Told::Fine,
        ),
        (
            "more padding than there is",
            frame(HEADERS, END_HEADERS | PADDED, 1, &[&[200][..], &whole].concat()),
            Told::Goaway(ProtocolError),
        ),
        (
            "padding without a length",
            frame(DATA, PADDED, 1, &[]),
            Told::Goaway(FrameSizeError),
        ),
        (
            "a priority that is cut off",
            frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, &[0; 4]),
            Told::Goaway(FrameSizeError),
        ),
        (
            "a priority of itself",
            frame(
                HEADERS,
                END_HEADERS | HAS_PRIORITY,
                1,
                &[&[0, 0, 0, 1, 0][..], &whole].concat(),
            ),
            Told::Reset(1, ProtocolError),
        ),
    ]);
}

#[test]
fn requests_that_are_malformed() {
    let [method, scheme, path, authority] = POST;
    let malformed: Vec<Vec<(&str, &str)>> = vec![
        vec![],
        vec![method, scheme],
        vec![method, path],
        vec![scheme, path],
        vec![method, method, scheme, path],
        vec![method, scheme, path, (":path", "/b")],
        vec![method, scheme, ("a", "b"), path],
        vec![method, scheme, path, (":status", "200")],
        vec![method, scheme, path, (":unknown", "x")],
        vec![method, scheme, (":path", "")],
        vec![method, scheme, (":path", "no-slash")],
        vec![method, scheme, path, ("Capital", "x")],
        vec![method, scheme, path, ("connection", "close")],
        vec![method, scheme, path, ("keep-alive", "x")],
        vec![method, scheme, path, ("proxy-connection", "x")],
        vec![method, scheme, path, ("transfer-encoding", "chunked")],
        vec![method, scheme, path, ("upgrade", "x")],
        vec![method, scheme, path, ("te", "gzip")],
        vec![method, scheme, path, ("content-length", "x")],
        vec![method, scheme, path, ("content-length", "+1")],
        vec![
            method,
            scheme,
            path,
            ("content-length", "1"),
            ("content-length", "2"),
        ],
        vec![(":method", "CONNECT"), scheme, path, authority],
        vec![(":method", "CONNECT")],
        vec![(":method", "a b"), scheme, path],
    ];
    for fields in malformed {
        assert_eq!(
            told(&with(&fields, 0)),
            Told::Reset(1, ProtocolError),
            "{fields:?}"
        );
    }
    let fine: Vec<Vec<(&str, &str)>> = vec![
        vec![method, scheme, path],
        vec![authority, path, scheme, method, ("te", "trailers"), ("host", "x")],
        vec![
            method,
            scheme,
            path,
            ("content-length", "1"),
            ("content-length", "1"),
        ],
        vec![(":method", "CONNECT"), authority],
        vec![(":method", "OPTIONS"), scheme, (":path", "*")],
    ];
    for fields in fine {
        assert_eq!(told(&with(&fields, 0)), Told::Fine, "{fields:?}");
    }
}

#[test]
fn bodies_have_the_length_that_was_named() {
    let [method, scheme, path, _] = POST;
    let named = |flags: u8| with(&[method, scheme, path, ("content-length", "3")], flags);
    let data = |bytes: &[u8], flags: u8| frame(DATA, flags, 1, bytes);
    let trailers = || frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("a", "b")]));
    let malformed = || Told::Reset(1, ProtocolError);
    check(vec![
        (
            "in two pieces",
            and(and(named(0), data(b"ab", 0)), data(b"c", END_STREAM)),
            Told::Fine,
        ),
        (
            "with an empty end",
            and(and(named(0), data(b"abc", 0)), data(b"", END_STREAM)),
            Told::Fine,
        ),
        (
            "with trailers",
            and(and(named(0), data(b"abc", 0)), trailers()),
            Told::Fine,
        ),
        ("more", and(named(0), data(b"abcd", END_STREAM)), malformed()),
        ("less", and(named(0), data(b"ab", END_STREAM)), malformed()),
        (
            "less, with trailers",
            and(and(named(0), data(b"ab", 0)), trailers()),
            malformed(),
        ),
        ("none", named(END_STREAM), malformed()),
    ]);
}

#[test]
fn windows_that_the_client_may_not_exceed_or_open_too_far() {
    let full = |stream: u32| frame(DATA, 0, stream, &[0; 16_384]);
    let opened = |stream: u32, bytes: u32| frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    check(vec![
        ("nothing", opened(0, 0), Told::Goaway(ProtocolError)),
        (
            "nothing for a stream",
            and(request(1, 0), opened(1, 0)),
            Told::Reset(1, ProtocolError),
        ),
        ("too far", opened(0, 0x7fff_ffff), Told::Goaway(FlowControlError)),
        (
            "too far for a stream",
            and(request(1, 0), opened(1, 0x7fff_ffff)),
            Told::Reset(1, FlowControlError),
        ),
        (
            "too far by a setting",
            and(
                and(request(1, 0), opened(1, 0x7fff_ff00 - 65_535)),
                setting(4, 65_535 + 0x200),
            ),
            Told::Goaway(FlowControlError),
        ),
    ]);
    // Nobody consumes them here.
    let unread = |bytes: Vec<u8>| {
        let (mut connection, mut heard, _) = heard(&[]);
        let mut input = &bytes[..];
        let mut resets = Vec::new();
        loop {
            match connection.next(&mut input) {
                Ok(None) => return (resets, heard.failed),
                Ok(Some(helenus_http2::Event::Reset { stream, .. })) => resets.push(stream),
                Ok(Some(_)) => {}
                Err(code) => {
                    heard.failed = Some(code);
                    return (resets, heard.failed);
                }
            }
        }
    };
    assert_eq!(unread(and(request(1, 0), full(1).repeat(6))), (vec![], None));
    assert_eq!(unread(and(request(1, 0), full(1).repeat(7))), (vec![1], None));
    let two = and(request(1, 0), request(3, 0));
    let both = and(full(1).repeat(5), full(3).repeat(4));
    assert_eq!(unread(and(two.clone(), both.clone())), (vec![], None));
    assert_eq!(
        unread(and(two, and(both, full(3)))),
        (vec![], Some(FlowControlError))
    );
}

/// A stream that was reset keeps nothing of the connection's window, whether its bytes were consumed or not.
#[test]
fn what_is_given_up_is_given_back() {
    let (mut connection, mut heard, _) = heard(&[]);
    let mut opened = 0;
    for at in 0..200 {
        let stream = 2 * at + 1;
        let bytes = and(request(stream, 0), frame(DATA, 0, stream, &[0; 16_000]));
        let mut input = &bytes[..];
        while connection.next(&mut input).unwrap().is_some() {}
        connection.reset(stream, Cancel);
        // On its way when the client heard of it.
        let late = frame(DATA, PADDED, stream, &[99; 1_000]);
        receive(&mut connection, &mut Vec::new(), &late, &mut heard);
        for frame in frames(&take(&mut connection)) {
            if frame.kind == WINDOW_UPDATE && frame.stream == 0 {
                opened += u32::from_be_bytes(frame.payload.try_into().unwrap());
            }
        }
    }
    let sent = 200 * 17_000;
    assert!(
        opened > sent - LIMITS.connection_window_bytes && opened <= sent,
        "{opened} of {sent}"
    );
    assert_eq!(heard.failed, None);
}

/// Padding is of the window, and nobody consumes it.
#[test]
fn a_body_of_padding_does_not_close_its_window() {
    let (mut connection, mut heard, _) = heard(&request(1, 0));
    let padded = frame(DATA, PADDED, 1, &[&[255][..], &[0; 255]].concat());
    for _ in 0..2 * LIMITS.stream_window_bytes as usize / 256 {
        receive(&mut connection, &mut Vec::new(), &padded, &mut heard);
        take(&mut connection);
    }
    assert_eq!((heard.failed, heard.events.len()), (None, 1));
}

#[test]
fn headers_that_are_too_long_are_told_so_and_the_next_request_is_served() {
    let long = "x".repeat(120);
    let [method, scheme, path, _] = POST;
    let many: Vec<(&str, &str)> = [method, scheme, path]
        .into_iter()
        .chain([("a", &*long); 9])
        .collect();
    for flags in [0, END_STREAM] {
        let (_, heard, said) = heard(&and(with(&many, flags), request(3, END_STREAM)));
        assert_eq!(heard.events.len(), 1, "{heard:?}");
        // `:status 431` and the end.
        assert_eq!((said[0].kind, said[0].flags), (HEADERS, END_HEADERS | END_STREAM));
        assert_eq!(said[0].payload, b"\x08\x03431");
        assert_eq!(said.len(), if flags == 0 { 2 } else { 1 });
    }
}

#[test]
fn requests_that_are_begun_and_taken_back_without_end_are_a_flood() {
    let both = |at: u32| {
        and(
            request(2 * at + 1, 0),
            frame(RST_STREAM, 0, 2 * at + 1, &[0, 0, 0, 8]),
        )
    };
    let many = |from: u32, count: u32| (from..from + count).flat_map(both).collect::<Vec<u8>>();
    let (mut connection, mut heard, _) = heard(&[]);
    for round in 0..50 {
        receive(&mut connection, &mut Vec::new(), &many(8 * round, 8), &mut heard);
    }
    assert_eq!((heard.failed, heard.events.len()), (None, 800));
    // One that was looked at does not count.
    receive(&mut connection, &mut Vec::new(), &request(1_001, 0), &mut heard);
    let looked_at = frame(RST_STREAM, 0, 1_001, &[0; 4]);
    receive(
        &mut connection,
        &mut Vec::new(),
        &and(looked_at, many(501, 8)),
        &mut heard,
    );
    assert_eq!(heard.failed, None);
    receive(&mut connection, &mut Vec::new(), &many(600, 9), &mut heard);
    assert_eq!(heard.failed, Some(EnhanceYourCalm));
}

/// Also a request that the client has not ended is over with its answer: the client is told that nobody listens.
#[test]
fn an_answer_ends_its_stream() {
    let (mut connection, mut heard, _) = heard(&and(request(1, 0), request(3, END_STREAM)));
    for stream in [1, 3] {
        connection.respond(stream, StatusCode::OK, &HeaderMap::new(), false);
        connection.send(stream, Bytes::from_static(b"hello"));
        connection.finish(stream, None);
    }
    assert!(connection.is_idle());
    let said: Vec<(u8, u8, u32)> = frames(&take(&mut connection))
        .into_iter()
        .map(|frame| (frame.kind, frame.flags, frame.stream))
        .collect();
    let wanted = [
        (HEADERS, END_HEADERS, 1),
        (DATA, 0, 1),
        (DATA, END_STREAM, 1),
        (RST_STREAM, 0, 1),
        (HEADERS, END_HEADERS, 3),
        (DATA, 0, 3),
        (DATA, END_STREAM, 3),
    ];
    assert_eq!(said, wanted);
    // What the client had sent of the first meanwhile is nothing wrong; a third beginning of the second is.
    receive(
        &mut connection,
        &mut Vec::new(),
        &frame(DATA, END_STREAM, 1, b"more"),
        &mut heard,
    );
    assert_eq!(heard.failed, None);
    receive(
        &mut connection,
        &mut Vec::new(),
        &request(3, END_STREAM),
        &mut heard,
    );
    assert_eq!(heard.failed, Some(StreamClosed));
}

#[test]
fn a_drain_serves_what_was_begun_before_the_client_heard_and_nothing_after() {
    let (mut connection, mut heard, _) = heard(&request(1, 0));
    connection.begin_drain();
    let said = frames(&take(&mut connection));
    assert_eq!(
        (said[0].kind, &said[0].payload[..4], said[1].kind),
        (GOAWAY, &[0x7f, 0xff, 0xff, 0xff][..], PING)
    );
    let bytes = and(request(3, END_STREAM), frame(PING, ACK, 0, &said[1].payload));
    receive(
        &mut connection,
        &mut Vec::new(),
        &and(bytes, request(5, 0)),
        &mut heard,
    );
    let late = and(frame(DATA, END_STREAM, 5, b"x"), frame(RST_STREAM, 0, 5, &[0; 4]));
    receive(&mut connection, &mut Vec::new(), &late, &mut heard);
    let said = frames(&take(&mut connection));
    assert_eq!(
        (said[0].kind, &said[0].payload[..4], said.len()),
        (GOAWAY, &[0, 0, 0, 3][..], 1)
    );
    assert_eq!((heard.failed, heard.events.len()), (None, 2));
    for stream in [1, 3] {
        assert!(!connection.is_drained());
        connection.respond(stream, StatusCode::OK, &HeaderMap::new(), true);
    }
    assert!(connection.is_drained());
}

#[test]
fn a_preface_that_is_none_ends_the_connection() {
    for wrong in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    ] {
        let mut connection = helenus_http2::Connection::<u32>::new(LIMITS);
        assert_eq!(connection.next(&mut &wrong[..]).unwrap_err(), ProtocolError);
    }
    let mut bytes = beginning();
    bytes.truncate(24);
    bytes.extend(frame(PING, 0, 0, &[0; 8]));
    let mut connection = helenus_http2::Connection::<u32>::new(LIMITS);
    assert_eq!(connection.next(&mut &bytes[..]).unwrap_err(), ProtocolError);
}
