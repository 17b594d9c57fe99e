//! The 9-byte header of an envelope (native_protocol_v4.spec, section 2; v5, section 2.3).

use super::error::{FrameError, Recovery};
use crate::opcode::{Direction, Opcode};
use crate::version::ProtocolVersion;

/// Version and direction, flags, stream (2 bytes), opcode, body length (4 bytes).
pub const ENVELOPE_HEADER_BYTES: usize = 9;

pub(super) const FLAGS_AT: usize = 1;
pub(super) const STREAM_AT: usize = 2;
pub(super) const LENGTH_AT: usize = 5;

/// The flags of an envelope. Bits without a meaning are carried and ignored, as in Cassandra.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnvelopeFlags(pub u8);

impl EnvelopeFlags {
    pub const NONE: EnvelopeFlags = EnvelopeFlags(0);
    /// The body is compressed with what STARTUP chose (v3 and v4; v5 compresses segments instead).
    pub const COMPRESSED: EnvelopeFlags = EnvelopeFlags(0x01);
    /// A request to trace, or a response that starts with a tracing session's id.
    pub const TRACING: EnvelopeFlags = EnvelopeFlags(0x02);
    /// The body starts with a custom payload (v4 and later).
    pub const CUSTOM_PAYLOAD: EnvelopeFlags = EnvelopeFlags(0x04);
    /// The response's body starts with warnings (v4 and later).
    pub(crate) const WARNING: EnvelopeFlags = EnvelopeFlags(0x08);
    /// The client knows that this version is a beta.
    pub const USE_BETA: EnvelopeFlags = EnvelopeFlags(0x10);

    #[inline]
    pub fn contains(self, flags: EnvelopeFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    #[inline]
    #[must_use]
    pub fn with(self, flags: EnvelopeFlags) -> EnvelopeFlags {
        EnvelopeFlags(self.0 | flags.0)
    }

    #[inline]
    #[must_use]
    pub fn without(self, flags: EnvelopeFlags) -> EnvelopeFlags {
        EnvelopeFlags(self.0 & !flags.0)
    }
}

/// A decoded header. `body_bytes` is what the header claims; nothing was allocated for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvelopeHeader {
    pub version: ProtocolVersion,
    pub flags: EnvelopeFlags,
    /// Chosen by the client and echoed; negative for events.
    pub stream: i16,
    pub opcode: Opcode,
    pub body_bytes: u32,
}

impl EnvelopeHeader {
    /// Decodes the header of a message that travels in `direction`.
    ///
    /// Checks everything but the length's limit, in Cassandra's order: version, beta flag, opcode, direction.
    #[inline]
    pub fn decode(bytes: &[u8; ENVELOPE_HEADER_BYTES], direction: Direction) -> Result<Self, FrameError> {
        let [first, flags, stream_high, stream_low, opcode, length @ ..] = *bytes;
        let stream = i16::from_be_bytes([stream_high, stream_low]);
        let version = decode_version(first, stream)?;
        let flags = EnvelopeFlags(flags);
        if version.is_beta() && !flags.contains(EnvelopeFlags::USE_BETA) {
            return Err(FrameError::BetaVersion { version });
        }
        let opcode_number = opcode;
        let opcode = Opcode::from_number(opcode_number).ok_or(FrameError::UnknownOpcode {
            opcode: opcode_number,
            stream,
            recovery: Recovery::Continue,
        })?;
        let found = if first & Direction::RESPONSE_BIT == 0 {
            Direction::Request
        } else {
            Direction::Response
        };
        if opcode.direction() != found || found != direction {
            return Err(FrameError::WrongDirection {
                opcode,
                found,
                wanted: direction,
                stream,
                recovery: Recovery::Continue,
            });
        }
        Ok(EnvelopeHeader {
            version,
            flags,
            stream,
            opcode,
            body_bytes: u32::from_be_bytes(length),
        })
    }

    /// Appends the header, with the direction its opcode has.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let [stream_high, stream_low] = self.stream.to_be_bytes();
        let first = self.version.number() | self.opcode.direction().bit();
        out.extend_from_slice(&[first, self.flags.0, stream_high, stream_low, self.opcode.number()]);
        out.extend_from_slice(&self.body_bytes.to_be_bytes());
    }
}

/// The version in an envelope's first byte, known before the rest of the header has arrived: v1 and v2 have shorter
/// headers, so waiting for nine bytes could wait for ever.
#[inline]
pub(super) fn decode_version(first: u8, stream: i16) -> Result<ProtocolVersion, FrameError> {
    let number = first & !Direction::RESPONSE_BIT;
    ProtocolVersion::from_number(number).ok_or(FrameError::UnsupportedVersion { number, stream })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips() {
        let header = EnvelopeHeader {
            version: ProtocolVersion::V4,
            flags: EnvelopeFlags::TRACING.with(EnvelopeFlags::CUSTOM_PAYLOAD),
            stream: -2,
            opcode: Opcode::Execute,
            body_bytes: 0x0102_0304,
        };
        let mut out = Vec::new();
        header.encode(&mut out);
        assert_eq!(out, [4, 6, 0xFF, 0xFE, 0x0A, 1, 2, 3, 4]);
        let bytes: &[u8; 9] = out.first_chunk().unwrap();
        assert_eq!(EnvelopeHeader::decode(bytes, Direction::Request), Ok(header));
    }

    #[test]
    fn wrong_versions_opcodes_and_directions_are_told_apart() {
        let decode = |bytes: [u8; 9]| {
            EnvelopeHeader::decode(&bytes, Direction::Request)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            decode([66, 0, 0, 1, 5, 0, 0, 0, 0]),
            "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)"
        );
        assert_eq!(
            decode([6, 0, 0, 1, 5, 0, 0, 0, 0]),
            "Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset"
        );
        assert_eq!(decode([4, 0, 0, 1, 17, 0, 0, 0, 0]), "Unknown opcode 17");
        assert_eq!(
            decode([4, 0, 0, 1, 8, 0, 0, 0, 0]),
            "Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode 8 (RESULT)"
        );
        assert_eq!(
            decode([0x84, 0, 0, 1, 8, 0, 0, 0, 0]),
            "Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode 8 (RESULT)"
        );
    }
}
