//! A connection's bytes, in pieces of any size, in any version and compression: envelopes come out or errors, the
//! reader never goes round without consuming, and what comes out is written back to something that reads the same.

#![no_main]

use helenus_protocol::frame::{
    Compression, EnvelopeHeader, FrameLimits, FrameReader, FrameWriter, ReceiveBuffer, Recovery,
};
use helenus_protocol::{Direction, ProtocolVersion};
use libfuzzer_sys::fuzz_target;

/// Small, so that the fuzzer reaches what lies behind them.
const LIMITS: FrameLimits = FrameLimits {
    envelope_bytes_max: 1 << 16,
    message_bytes_max: 1 << 18,
    errors_in_a_row_max: 1,
};

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (setting, piece_bytes, bytes) = input;
    let version = ProtocolVersion::ALL[usize::from(setting & 3)];
    let compression = match setting >> 2 & 3 {
        0 | 1 => None,
        2 => Some(Compression::Lz4),
        _ => Some(Compression::Snappy).filter(|_| version < ProtocolVersion::V5),
    };
    let is_started = setting & 0x10 != 0;
    let open = |limits| {
        let mut reader = FrameReader::new(Direction::Request, limits);
        if is_started {
            reader.startup_answered(version, compression);
            reader.ready();
        }
        reader
    };
    let mut reader = open(LIMITS);
    let mut buffer = ReceiveBuffer::new();
    let mut envelopes: Vec<(EnvelopeHeader, Vec<u8>)> = Vec::new();
    let mut steps_left = bytes.len() + 1;
    'connection: for piece in bytes.chunks(usize::from(piece_bytes).max(1)) {
        buffer.feed(piece);
        loop {
            match reader.next_envelope(&mut buffer) {
                Ok(None) => break,
                Ok(Some(envelope)) => envelopes.push((envelope.header, envelope.body.to_vec())),
                Err(error) if error.recovery() == Recovery::Continue => {}
                Err(_) => break 'connection,
            }
            steps_left = steps_left
                .checked_sub(1)
                .expect("each step consumes a byte or ends the piece");
        }
    }

    let mut writer = FrameWriter::new();
    if is_started {
        writer.startup_answered(version, compression);
    }
    let mut out = Vec::new();
    for (header, body) in &envelopes {
        let flags = header
            .flags
            .without(helenus_protocol::frame::EnvelopeFlags::COMPRESSED);
        let mark = writer.begin(&mut out, header.version, flags, header.stream, header.opcode);
        out.extend_from_slice(body);
        writer.finish(&mut out, mark).unwrap();
    }
    writer.flush(&mut out);
    // Written plainly, an envelope may be longer than it came.
    let mut reader = open(FrameLimits::default());
    let mut buffer = ReceiveBuffer::new();
    buffer.feed(&out);
    for (header, body) in &envelopes {
        let again = reader.next_envelope(&mut buffer).unwrap().unwrap();
        assert_eq!(
            (again.header.stream, again.header.opcode, again.body),
            (header.stream, header.opcode, &body[..])
        );
    }
});
