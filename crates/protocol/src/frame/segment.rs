//! The checksummed outer frame of v5 (native_protocol_v5.spec, section 2.2).
//!
//! ```text
//! uncompressed   payload length 17 bits | self-contained 1 bit | padding 6 bits | CRC24 of these 3 bytes
//! LZ4            compressed length 17 | uncompressed length 17 | self-contained 1 | padding 5 | CRC24 of these 5 bytes
//! then           the payload, and its CRC32
//! ```
//! Everything is little-endian. An uncompressed length of 0 says that the payload was not worth compressing.

use super::checksum::crc24;
use super::error::FrameError;

/// The largest payload a segment can carry: 128 KiB - 1, what 17 bits can say.
pub const SEGMENT_PAYLOAD_BYTES_MAX: usize = (1 << 17) - 1;

pub(super) const UNCOMPRESSED_HEADER_BYTES: usize = 6;
pub(super) const COMPRESSED_HEADER_BYTES: usize = 8;
pub(super) const TRAILER_BYTES: usize = 4;

const LENGTH_MASK: u64 = (1 << 17) - 1;

/// A decoded segment header whose checksum was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// The bytes of the payload as it travels.
    pub payload_bytes: usize,
    /// The bytes it decompresses to; 0 if it is not compressed.
    pub uncompressed_bytes: usize,
    /// True if the payload is whole envelopes; otherwise it is one piece of a large one.
    pub is_self_contained: bool,
}

impl SegmentHeader {
    #[inline]
    pub fn decode_uncompressed(bytes: &[u8; UNCOMPRESSED_HEADER_BYTES]) -> Result<Self, FrameError> {
        let fields = checked_fields(bytes, 3)?;
        Ok(SegmentHeader {
            payload_bytes: (fields & LENGTH_MASK) as usize,
            uncompressed_bytes: 0,
            is_self_contained: fields & (1 << 17) != 0,
        })
    }

    #[inline]
    pub fn decode_compressed(bytes: &[u8; COMPRESSED_HEADER_BYTES]) -> Result<Self, FrameError> {
        let fields = checked_fields(bytes, 5)?;
        Ok(SegmentHeader {
            payload_bytes: (fields & LENGTH_MASK) as usize,
            uncompressed_bytes: ((fields >> 17) & LENGTH_MASK) as usize,
            is_self_contained: fields & (1 << 34) != 0,
        })
    }

    #[inline]
    pub fn encode_uncompressed(self) -> [u8; UNCOMPRESSED_HEADER_BYTES] {
        let fields = self.payload_bytes as u64 | u64::from(self.is_self_contained) << 17;
        let [a, b, c, ..] = fields.to_le_bytes();
        let [x, y, z, _] = crc24(&[a, b, c]).to_le_bytes();
        [a, b, c, x, y, z]
    }

    #[inline]
    pub fn encode_compressed(self) -> [u8; COMPRESSED_HEADER_BYTES] {
        let fields = self.payload_bytes as u64
            | (self.uncompressed_bytes as u64) << 17
            | u64::from(self.is_self_contained) << 34;
        let [a, b, c, d, e, ..] = fields.to_le_bytes();
        let [x, y, z, _] = crc24(&[a, b, c, d, e]).to_le_bytes();
        [a, b, c, d, e, x, y, z]
    }
}

/// The header's fields, once the CRC24 in the last 3 bytes is that of the first `field_bytes`.
#[inline]
fn checked_fields(bytes: &[u8], field_bytes: usize) -> Result<u64, FrameError> {
    let little_endian = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0u64, |value, &byte| value << 8 | u64::from(byte))
    };
    let (fields, checksum) = bytes.split_at(field_bytes);
    let wanted = crc24(fields);
    let found = little_endian(checksum) as u32;
    if wanted != found {
        return Err(FrameError::HeaderChecksum { wanted, found });
    }
    Ok(little_endian(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_every_flipped_bit_is_noticed() {
        for payload_bytes in [0, 1, 9, 1000, SEGMENT_PAYLOAD_BYTES_MAX] {
            for is_self_contained in [true, false] {
                let header = SegmentHeader {
                    payload_bytes,
                    uncompressed_bytes: 0,
                    is_self_contained,
                };
                let bytes = header.encode_uncompressed();
                assert_eq!(SegmentHeader::decode_uncompressed(&bytes), Ok(header));
                for bit in 0..48 {
                    let mut damaged = bytes;
                    damaged[bit / 8] ^= 1 << (bit % 8);
                    assert!(SegmentHeader::decode_uncompressed(&damaged).is_err());
                }
                let header = SegmentHeader {
                    uncompressed_bytes: 77_777,
                    ..header
                };
                let bytes = header.encode_compressed();
                assert_eq!(SegmentHeader::decode_compressed(&bytes), Ok(header));
                for bit in 0..64 {
                    let mut damaged = bytes;
                    damaged[bit / 8] ^= 1 << (bit % 8);
                    assert!(SegmentHeader::decode_compressed(&damaged).is_err());
                }
            }
        }
    }
}
