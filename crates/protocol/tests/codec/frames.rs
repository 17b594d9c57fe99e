//! Envelopes through a writer, any cut of the bytes between, and a reader: what goes in comes out, and what was
//! damaged or too large is refused with the right recovery.

use crate::support::{COMPRESSIONS, Message, Random, Wire, envelope, read_all};
use helenus_protocol::frame::{
    Compression, EnvelopeFlags, EnvelopeHeader, FrameError, FrameLimits, FrameReader, FrameWriter,
    ReceiveBuffer, Recovery, SEGMENT_PAYLOAD_BYTES_MAX,
};
use helenus_protocol::{Direction, ErrorCode, Opcode, ProtocolVersion};

const REQUEST: EnvelopeHeader = EnvelopeHeader {
    version: ProtocolVersion::V4,
    flags: EnvelopeFlags::NONE,
    stream: 7,
    opcode: Opcode::Query,
    body_bytes: 0,
};

fn messages(random: &mut Random) -> Vec<Message> {
    let opcodes = [Opcode::Query, Opcode::Execute, Opcode::Batch, Opcode::Options];
    (0..1 + random.below(12))
        .map(|_| {
            let length = match random.below(10) {
                0 => 0,
                1 => 60_000 + random.below(90_000),
                2 => SEGMENT_PAYLOAD_BYTES_MAX - 12 + random.below(24),
                3 => random.below(400_000),
                _ => random.below(600),
            };
            Message {
                stream: random.next() as i16,
                opcode: random.pick(&opcodes),
                body: random.bytes(length),
            }
        })
        .collect()
}

#[test]
fn envelopes_round_trip_in_every_version_and_compression() {
    let mut random = Random(0xC0DEC);
    for round in 0..12 {
        for (version, compression) in COMPRESSIONS {
            let sent = messages(&mut random);
            let mut wire = Wire::new(Direction::Request, version, compression);
            let mut bytes = Vec::new();
            for message in &sent {
                wire.send(message);
                if random.chance(3) {
                    bytes.extend(wire.flush());
                }
            }
            bytes.extend(wire.flush());
            let piece = match round % 4 {
                0 => bytes.len(),
                1 => 1 + random.below(64),
                2 => 1 + random.below(5_000),
                _ => 1 + random.below(200_000),
            };
            let received = read_all(&mut wire.reader, &bytes, piece.max(bytes.len() / 5_000)).unwrap();
            assert!(received == sent, "{version} {compression:?} in pieces of {piece}");
        }
    }
}

#[test]
fn envelopes_of_one_flush_share_a_segment() {
    let mut wire = Wire::new(Direction::Request, ProtocolVersion::V5, None);
    let message = Message {
        stream: 1,
        opcode: Opcode::Options,
        body: Vec::new(),
    };
    wire.send(&message);
    wire.send(&message);
    assert_eq!(wire.flush().len(), 6 + 2 * 9 + 4);
    assert!(
        wire.flush().is_empty(),
        "a flush without envelopes writes nothing"
    );
}

#[test]
fn a_segment_is_filled_to_its_last_byte_and_not_beyond() {
    for (excess, segments) in [(0, 1), (1, 2)] {
        let mut wire = Wire::new(Direction::Request, ProtocolVersion::V5, None);
        let first = Message {
            stream: 1,
            opcode: Opcode::Query,
            body: vec![1; 1_000],
        };
        let second_bytes = SEGMENT_PAYLOAD_BYTES_MAX - 9 - 1_000 - 9 + excess;
        let second = Message {
            stream: 2,
            opcode: Opcode::Query,
            body: vec![2; second_bytes],
        };
        wire.send(&first);
        wire.send(&second);
        let bytes = wire.flush();
        assert_eq!(bytes.len(), 9 + 1_000 + 9 + second_bytes + segments * 10);
        assert_eq!(
            read_all(&mut wire.reader, &bytes, bytes.len()).unwrap(),
            [first, second]
        );
    }
}

#[test]
fn an_abandoned_envelope_leaves_no_trace() {
    for (version, compression) in COMPRESSIONS {
        let mut wire = Wire::new(Direction::Request, version, compression);
        let mark = wire
            .writer
            .begin(&mut wire.out, version, EnvelopeFlags::NONE, 1, Opcode::Query);
        wire.out.extend_from_slice(b"half a body");
        wire.writer.abandon(&mut wire.out, mark);
        assert!(wire.flush().is_empty(), "{version} {compression:?}");
    }
}

#[test]
fn templates_are_sent_with_the_requests_stream() {
    let template = envelope(
        EnvelopeHeader {
            opcode: Opcode::Result,
            ..REQUEST
        },
        &[0, 0, 0, 1],
    );
    for (version, compression) in [
        (ProtocolVersion::V4, None),
        (ProtocolVersion::V4, Some(Compression::Lz4)),
    ] {
        let mut wire = Wire::new(Direction::Response, version, compression);
        wire.writer
            .append_template(&mut wire.out, &template, -300)
            .unwrap();
        wire.writer.append(&mut wire.out, &template).unwrap();
        let bytes = wire.flush();
        let received = read_all(&mut wire.reader, &bytes, bytes.len()).unwrap();
        assert_eq!(
            received.iter().map(|message| message.stream).collect::<Vec<_>>(),
            [-300, 7]
        );
        assert!(received.iter().all(|message| message.body == [0, 0, 0, 1]));
    }
}

/// The first bytes of a connection: STARTUP and its answer travel outside segments whatever the version.
#[test]
fn framing_starts_after_the_answer_to_startup() {
    let version = ProtocolVersion::V5;
    let mut server = FrameReader::new(Direction::Request, FrameLimits::default());
    let (mut client, mut answers) = (FrameWriter::new(), FrameWriter::new());
    let mut buffer = ReceiveBuffer::new();
    let (mut sent, mut answered) = (Vec::new(), Vec::new());

    for (stream, opcode) in [(0, Opcode::Options), (1, Opcode::Startup)] {
        let mark = client.begin(&mut sent, version, EnvelopeFlags::NONE, stream, opcode);
        client.finish(&mut sent, mark).unwrap();
    }
    client.flush(&mut sent);
    assert_eq!(sent.len(), 18);
    buffer.feed(&sent);
    for stream in [0, 1] {
        assert_eq!(
            server.next_envelope(&mut buffer).unwrap().unwrap().header.stream,
            stream
        );
    }
    let mark = answers.begin(&mut answered, version, EnvelopeFlags::NONE, 1, Opcode::Ready);
    answers.finish(&mut answered, mark).unwrap();
    answers.flush(&mut answered);
    assert_eq!(answered, [0x85, 0, 0, 1, 2, 0, 0, 0, 0]);

    client.startup_answered(version, None);
    server.startup_answered(version, None);
    sent.clear();
    let mark = client.begin(&mut sent, version, EnvelopeFlags::NONE, 2, Opcode::Options);
    client.finish(&mut sent, mark).unwrap();
    client.flush(&mut sent);
    buffer.feed(&sent);
    assert_eq!(
        server.next_envelope(&mut buffer).unwrap().unwrap().header.stream,
        2
    );
    assert!(server.next_envelope(&mut buffer).unwrap().is_none());
}

#[test]
fn a_flipped_bit_in_a_segment_closes_the_connection() {
    for compression in [None, Some(Compression::Lz4)] {
        let mut wire = Wire::new(Direction::Request, ProtocolVersion::V5, compression);
        wire.send(&Message {
            stream: 1,
            opcode: Opcode::Query,
            body: vec![b'x'; 300],
        });
        let bytes = wire.flush();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mut reader = Wire::new(Direction::Request, ProtocolVersion::V5, compression).reader;
            let error = read_all(&mut reader, &damaged, damaged.len()).unwrap_err();
            assert!(
                matches!(
                    error,
                    FrameError::HeaderChecksum { .. } | FrameError::PayloadChecksum { .. }
                ),
                "bit {bit}: {error}"
            );
            assert_eq!(error.recovery(), Recovery::Close);
        }
    }
}

#[test]
fn an_envelope_over_the_limit_is_skipped_and_its_stream_told() {
    let limits = FrameLimits {
        envelope_bytes_max: 1_000,
        ..FrameLimits::default()
    };
    let mut bytes = envelope(REQUEST, &vec![0; 50_000]);
    bytes.extend(envelope(EnvelopeHeader { stream: 8, ..REQUEST }, b"small"));
    for piece in [1, 9, 100, bytes.len()] {
        let mut reader = FrameReader::new(Direction::Request, limits);
        let mut buffer = ReceiveBuffer::new();
        let (mut errors, mut streams) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            buffer.feed(piece);
            loop {
                match reader.next_envelope(&mut buffer) {
                    Ok(Some(envelope)) => streams.push(envelope.header.stream),
                    Ok(None) => break,
                    Err(error) => errors.push(error),
                }
            }
            assert!(buffer.unread().len() < 1_000);
        }
        let [error] = &errors[..] else {
            panic!("{errors:?}")
        };
        assert_eq!(
            (error.stream(), error.code(), error.recovery()),
            (7, ErrorCode::Invalid, Recovery::Continue)
        );
        assert_eq!(
            error.to_string(),
            "Request is too big: length 50009 exceeds maximum allowed length 1000."
        );
        assert_eq!(streams, [8]);
    }
}

#[test]
fn a_large_message_over_the_limit_is_skipped_and_its_stream_told() {
    for compression in [None, Some(Compression::Lz4)] {
        let limits = FrameLimits {
            message_bytes_max: 200_000,
            ..FrameLimits::default()
        };
        let mut wire = Wire::with_limits(Direction::Request, ProtocolVersion::V5, compression, limits);
        wire.send(&Message {
            stream: 7,
            opcode: Opcode::Query,
            body: Random(1).bytes(500_000),
        });
        let small = Message {
            stream: 8,
            opcode: Opcode::Query,
            body: b"small".to_vec(),
        };
        wire.send(&small);
        let bytes = wire.flush();
        let mut buffer = ReceiveBuffer::new();
        buffer.feed(&bytes);
        let error = wire.reader.next_envelope(&mut buffer).unwrap_err();
        assert_eq!(
            (error.stream(), error.code(), error.recovery()),
            (7, ErrorCode::Invalid, Recovery::Continue)
        );
        assert_eq!(
            error.to_string(),
            "CQL Message of size 500000 bytes exceeds allowed maximum of 200000 bytes"
        );
        assert_eq!(
            wire.reader
                .next_envelope(&mut buffer)
                .unwrap()
                .unwrap()
                .header
                .stream,
            8
        );
    }
}

#[test]
fn large_messages_wait_for_authentication() {
    let mut wire = Wire::new(Direction::Request, ProtocolVersion::V5, None);
    wire.reader = FrameReader::new(Direction::Request, FrameLimits::default());
    wire.reader.startup_answered(ProtocolVersion::V5, None);
    wire.send(&Message {
        stream: 7,
        opcode: Opcode::AuthResponse,
        body: vec![0; 200_000],
    });
    let bytes = wire.flush();
    let error = read_all(&mut wire.reader, &bytes, bytes.len()).unwrap_err();
    assert_eq!(
        error,
        FrameError::LargeMessageBeforeReady {
            opcode: Opcode::AuthResponse,
            length: 200_000
        }
    );
    assert_eq!(error.recovery(), Recovery::CloseAfterReply);
}

#[test]
fn an_unknown_version_is_refused_from_its_first_byte() {
    for (first, stepped_down) in [(1, 1), (2, 2), (7, 5), (65, 5), (66, 5), (b'G', 5), (0, 5)] {
        let mut reader = FrameReader::new(Direction::Request, FrameLimits::default());
        let error = read_all(&mut reader, &[first], 1).unwrap_err();
        assert_eq!(
            error,
            FrameError::UnsupportedVersion {
                number: first,
                stream: 0
            }
        );
        assert_eq!(ProtocolVersion::reply_number_for_unsupported(first), stepped_down);
        assert_eq!(
            (error.code(), error.recovery()),
            (ErrorCode::ProtocolError, Recovery::CloseAfterReply)
        );
    }
}

#[test]
fn a_beta_version_needs_the_beta_flag() {
    let options = EnvelopeHeader {
        version: ProtocolVersion::V6,
        opcode: Opcode::Options,
        ..REQUEST
    };
    let mut reader = FrameReader::new(Direction::Request, FrameLimits::default());
    let error = read_all(&mut reader, &envelope(options, &[]), 9).unwrap_err();
    assert_eq!(
        error,
        FrameError::BetaVersion {
            version: ProtocolVersion::V6
        }
    );

    let options = EnvelopeHeader {
        flags: EnvelopeFlags::USE_BETA,
        ..options
    };
    let mut reader = FrameReader::new(Direction::Request, FrameLimits::default());
    assert_eq!(
        read_all(&mut reader, &envelope(options, &[]), 9).unwrap().len(),
        1
    );
}

#[test]
fn a_connection_keeps_its_version() {
    let mut reader = FrameReader::new(Direction::Request, FrameLimits::default());
    reader.startup_answered(ProtocolVersion::V4, None);
    let error = read_all(
        &mut reader,
        &envelope(
            EnvelopeHeader {
                version: ProtocolVersion::V3,
                ..REQUEST
            },
            &[],
        ),
        99,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Invalid message version. Got 3/v3 but previous messages on this connection had version 4/v4"
    );
    assert_eq!((error.stream(), error.recovery()), (7, Recovery::Continue));
}

/// Packs envelopes, whatever they are, into one uncompressed segment.
fn segment(envelopes: &[u8]) -> Vec<u8> {
    let mut writer = FrameWriter::new();
    writer.startup_answered(ProtocolVersion::V5, None);
    let mut out = Vec::new();
    writer.append(&mut out, envelopes).unwrap();
    // `append` patches the first envelope's length for the whole: put it back.
    out[6..6 + envelopes.len()].copy_from_slice(envelopes);
    writer.flush(&mut out);
    out
}

#[test]
fn one_broken_envelope_in_a_segment_is_forgiven_and_the_next_is_not() {
    let good = envelope(
        EnvelopeHeader {
            version: ProtocolVersion::V5,
            ..REQUEST
        },
        b"body",
    );
    let mut bad = good.clone();
    bad[4] = 99;
    let read = |envelopes: &[&[u8]]| {
        let mut reader = Wire::new(Direction::Request, ProtocolVersion::V5, None).reader;
        let mut buffer = ReceiveBuffer::new();
        buffer.feed(&segment(&envelopes.concat()));
        let mut outcomes = Vec::new();
        loop {
            match reader.next_envelope(&mut buffer) {
                Ok(None) => return outcomes,
                Ok(Some(_)) => outcomes.push(None),
                Err(error) => {
                    outcomes.push(Some(error.recovery()));
                    if error.recovery() != Recovery::Continue {
                        return outcomes;
                    }
                }
            }
        }
    };
    assert_eq!(read(&[&bad, &good]), [Some(Recovery::Continue), None]);
    assert_eq!(
        read(&[&bad, &good, &bad, &good]),
        [Some(Recovery::Continue), None, Some(Recovery::Continue), None]
    );
    assert_eq!(
        read(&[&bad, &bad, &good]),
        [Some(Recovery::Continue), Some(Recovery::CloseAfterReply)]
    );
    assert_eq!(
        read(&[&good, &good[..11]]),
        [None, Some(Recovery::CloseAfterReply)]
    );
}

#[test]
fn bodies_that_fail_to_decode_are_counted_by_the_segment() {
    let good = envelope(
        EnvelopeHeader {
            version: ProtocolVersion::V5,
            ..REQUEST
        },
        b"body",
    );
    let mut reader = Wire::new(Direction::Request, ProtocolVersion::V5, None).reader;
    let mut buffer = ReceiveBuffer::new();
    buffer.feed(&segment(&good.repeat(4)));
    let mut failures = Vec::new();
    for fails in [true, false, true, true] {
        assert!(reader.next_envelope(&mut buffer).unwrap().is_some());
        if fails {
            failures.push(reader.message_failed());
        }
    }
    assert_eq!(
        failures,
        [Recovery::Continue, Recovery::Continue, Recovery::CloseAfterReply]
    );
}

#[test]
fn compressed_bodies_that_are_not_are_refused_on_their_stream() {
    for compression in [Compression::Lz4, Compression::Snappy] {
        let mut reader = FrameReader::new(Direction::Request, FrameLimits::default());
        reader.startup_answered(ProtocolVersion::V4, Some(compression));
        let mut bytes = envelope(
            EnvelopeHeader {
                flags: EnvelopeFlags::COMPRESSED,
                ..REQUEST
            },
            &[0xFF, 0, 0, 9, 0xF0],
        );
        bytes.extend(envelope(EnvelopeHeader { stream: 8, ..REQUEST }, b"plain"));
        let mut buffer = ReceiveBuffer::new();
        buffer.feed(&bytes);
        let error = reader.next_envelope(&mut buffer).unwrap_err();
        assert_eq!((error.stream(), error.recovery()), (7, Recovery::Continue));
        assert_eq!(reader.next_envelope(&mut buffer).unwrap().unwrap().body, b"plain");
    }
}

#[test]
fn a_large_message_may_not_be_interrupted() {
    let mut wire = Wire::new(Direction::Request, ProtocolVersion::V5, None);
    wire.send(&Message {
        stream: 7,
        opcode: Opcode::Query,
        body: vec![0; 200_000],
    });
    let mut bytes = wire.flush();
    bytes.truncate(SEGMENT_PAYLOAD_BYTES_MAX + 10);
    wire.send(&Message {
        stream: 8,
        opcode: Opcode::Query,
        body: Vec::new(),
    });
    bytes.extend(wire.flush());
    let error = read_all(&mut wire.reader, &bytes, bytes.len()).unwrap_err();
    assert_eq!(error, FrameError::LargeMessageInterrupted);
}

/// A message that is announced and for which there is no memory is thrown away as it comes, and the stream is told.
#[test]
fn a_begun_message_can_be_refused_and_the_next_is_read() {
    let large = Message {
        stream: 7,
        opcode: Opcode::Query,
        body: Random(1).bytes(500_000),
    };
    let small = Message {
        stream: 8,
        opcode: Opcode::Query,
        body: b"small".to_vec(),
    };
    for (version, compression) in COMPRESSIONS {
        for piece in [10_000, 200_000] {
            let mut wire = Wire::new(Direction::Request, version, compression);
            wire.send(&large);
            wire.send(&small);
            let bytes = wire.flush();
            let mut buffer = ReceiveBuffer::new();
            let (mut refused, mut streams, mut begun_bytes) = (Vec::new(), Vec::new(), 0);
            for piece in bytes.chunks(piece) {
                buffer.feed(piece);
                loop {
                    match wire.reader.next_envelope(&mut buffer) {
                        Ok(Some(envelope)) => streams.push(envelope.header.stream),
                        Ok(None) => match wire.reader.begun(&buffer) {
                            Some(header) => {
                                assert_eq!((header.stream, header.opcode), (7, Opcode::Query));
                                begun_bytes = wire.reader.begun_bytes_left(&buffer);
                                wire.reader.skip_begun(&buffer);
                            }
                            None => break,
                        },
                        Err(error) => refused.push((error.stream(), error.code(), error.recovery())),
                    }
                }
            }
            let case = format!("{version} {compression:?} in pieces of {piece}");
            assert!((1..500_000).contains(&begun_bytes), "{case}: {begun_bytes}");
            assert_eq!(
                refused,
                [(7, ErrorCode::Overloaded, Recovery::Continue)],
                "{case}"
            );
            assert_eq!(streams, [8], "{case}");
        }
    }
}
