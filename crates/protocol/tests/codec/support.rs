//! Shared parts of the protocol's tests: a seeded generator and a connection's two ends.

use helenus_protocol::frame::{
    Compression, Envelope, EnvelopeFlags, EnvelopeHeader, FrameError, FrameLimits, FrameReader, FrameWriter,
    ReceiveBuffer,
};
use helenus_protocol::{Direction, Opcode, ProtocolVersion};

/// SplitMix64: the same numbers for the same seed, everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Bytes that LZ4 can shrink somewhat: short runs of a few letters.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let byte = if self.chance(3) {
                self.next() as u8
            } else {
                b'a' + self.below(4) as u8
            };
            let run = 1 + self.below(8);
            bytes.extend(std::iter::repeat_n(byte, run.min(length - bytes.len())));
        }
        bytes
    }

    pub fn word(&mut self) -> String {
        let letters: Vec<char> = "abcdefghijklmnopqrstuvwxyz_äß漢🦀".chars().collect();
        (0..self.below(12)).map(|_| self.pick(&letters)).collect()
    }
}

/// One direction of a connection after STARTUP: a writer, the bytes between, and a reader.
pub struct Wire {
    pub version: ProtocolVersion,
    pub writer: FrameWriter,
    pub reader: FrameReader,
    pub out: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub stream: i16,
    pub opcode: Opcode,
    pub body: Vec<u8>,
}

impl Wire {
    pub fn new(direction: Direction, version: ProtocolVersion, compression: Option<Compression>) -> Self {
        Self::with_limits(direction, version, compression, FrameLimits::default())
    }

    pub fn with_limits(
        direction: Direction,
        version: ProtocolVersion,
        compression: Option<Compression>,
        limits: FrameLimits,
    ) -> Self {
        let mut writer = FrameWriter::new();
        let mut reader = FrameReader::new(direction, limits);
        writer.startup_answered(version, compression);
        reader.startup_answered(version, compression);
        reader.ready();
        Wire {
            version,
            writer,
            reader,
            out: Vec::new(),
        }
    }

    pub fn send(&mut self, message: &Message) {
        let mark = self.writer.begin(
            &mut self.out,
            self.version,
            EnvelopeFlags::NONE,
            message.stream,
            message.opcode,
        );
        self.out.extend_from_slice(&message.body);
        self.writer.finish(&mut self.out, mark).unwrap();
    }

    pub fn flush(&mut self) -> Vec<u8> {
        self.writer.flush(&mut self.out);
        std::mem::take(&mut self.out)
    }
}

/// Reads everything `bytes` hold, handed over in pieces of `piece` bytes.
pub fn read_all(reader: &mut FrameReader, bytes: &[u8], piece: usize) -> Result<Vec<Message>, FrameError> {
    let mut buffer = ReceiveBuffer::new();
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        buffer.feed(piece);
        while let Some(Envelope { header, body }) = reader.next_envelope(&mut buffer)? {
            messages.push(Message {
                stream: header.stream,
                opcode: header.opcode,
                body: body.to_vec(),
            });
        }
    }
    Ok(messages)
}

/// An envelope with any header, outside frames.
pub fn envelope(header: EnvelopeHeader, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    EnvelopeHeader {
        body_bytes: body.len() as u32,
        ..header
    }
    .encode(&mut bytes);
    bytes.extend_from_slice(body);
    bytes
}

pub const COMPRESSIONS: [(ProtocolVersion, Option<Compression>); 8] = [
    (ProtocolVersion::V3, None),
    (ProtocolVersion::V3, Some(Compression::Snappy)),
    (ProtocolVersion::V4, None),
    (ProtocolVersion::V4, Some(Compression::Lz4)),
    (ProtocolVersion::V4, Some(Compression::Snappy)),
    (ProtocolVersion::V5, None),
    (ProtocolVersion::V5, Some(Compression::Lz4)),
    (ProtocolVersion::V6, Some(Compression::Lz4)),
];
