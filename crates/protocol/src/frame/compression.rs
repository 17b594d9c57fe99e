//! LZ4 and Snappy, as envelopes (v3, v4) and segments (v5, LZ4 only) use them.

/// The algorithm a STARTUP message asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    Lz4,
    Snappy,
}

impl Compression {
    /// The names of the SUPPORTED message.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Lz4 => "lz4",
            Compression::Snappy => "snappy",
        }
    }
}

/// Why compressed bytes were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    #[error("Provided frame does not appear to be Snappy compressed")]
    NotSnappy,
    #[error("Provided frame does not appear to be LZ4 compressed")]
    NotLz4,
    #[error("Compressed lengths mismatch: {promised} bytes promised, {found} found")]
    LengthMismatch { promised: usize, found: usize },
    #[error("Request is too big: length {length} exceeds maximum allowed length {maximum}.")]
    TooLarge { length: usize, maximum: usize },
}

/// An LZ4 block cannot expand by more than this: a match's length grows by 255 for each extra byte. A promise beyond
/// it is refused before memory is taken for it. 64 bytes of slack cover blocks too short for the ratio to hold.
const LZ4_EXPANSION_MAX: usize = 255;
const LZ4_EXPANSION_SLACK_BYTES: usize = 64;

/// Snappy's largest ratio: a 3-byte copy yields 64 bytes.
const SNAPPY_EXPANSION_MAX: usize = 22;

/// Decompresses an envelope's body (v3 and v4) into `out`, replacing what was there.
pub(super) fn decompress_envelope(
    compression: Compression,
    input: &[u8],
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    out.clear();
    match compression {
        Compression::Lz4 => {
            let (length, block) = input.split_first_chunk::<4>().ok_or(CompressionError::NotLz4)?;
            let length = u32::from_be_bytes(*length) as usize;
            if length > bytes_max {
                return Err(CompressionError::TooLarge {
                    length,
                    maximum: bytes_max,
                });
            }
            decompress_lz4_block(block, length, out)
        }
        Compression::Snappy => decompress_snappy(input, bytes_max, out),
    }
}

/// Appends the `length` bytes that `block` must decompress to. `length` is already within the caller's limit.
pub(super) fn decompress_lz4_block(
    block: &[u8],
    length: usize,
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    let expanded_max = block
        .len()
        .saturating_mul(LZ4_EXPANSION_MAX)
        .saturating_add(LZ4_EXPANSION_SLACK_BYTES);
    if length > expanded_max {
        return Err(CompressionError::LengthMismatch {
            promised: length,
            found: expanded_max,
        });
    }
    let start = out.len();
    out.resize(start + length, 0);
    let result = match lz4_flex::block::decompress_into(block, &mut out[start..]) {
        Ok(found) if found == length => return Ok(()),
        Ok(found) => CompressionError::LengthMismatch {
            promised: length,
            found,
        },
        Err(_) => CompressionError::NotLz4,
    };
    out.truncate(start);
    Err(result)
}

fn decompress_snappy(input: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), CompressionError> {
    let length = snap::raw::decompress_len(input).map_err(|_| CompressionError::NotSnappy)?;
    if length > bytes_max {
        return Err(CompressionError::TooLarge {
            length,
            maximum: bytes_max,
        });
    }
    if length > input.len().saturating_mul(SNAPPY_EXPANSION_MAX) {
        return Err(CompressionError::NotSnappy);
    }
    out.resize(length, 0);
    match snap::raw::Decoder::new().decompress(input, out) {
        Ok(found) if found == length => Ok(()),
        Ok(_) | Err(_) => {
            out.clear();
            Err(CompressionError::NotSnappy)
        }
    }
}

/// Compresses an envelope's body (v3 and v4) into `out`, replacing what was there. False if the algorithm refused
/// the input; the body then travels as it is, which the envelope's flag allows.
pub(super) fn compress_envelope(compression: Compression, input: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    match compression {
        Compression::Lz4 => {
            let Ok(length) = u32::try_from(input.len()) else {
                return false;
            };
            out.extend_from_slice(&length.to_be_bytes());
            compress_lz4_block(input, out)
        }
        Compression::Snappy => {
            let bytes_max = snap::raw::max_compress_len(input.len());
            if bytes_max == 0 {
                return false;
            }
            out.resize(bytes_max, 0);
            match snap::raw::Encoder::new().compress(input, out) {
                Ok(length) => {
                    out.truncate(length);
                    true
                }
                Err(_) => false,
            }
        }
    }
}

/// Appends the LZ4 block of `input`; false (and nothing appended) if it could not be compressed.
pub(super) fn compress_lz4_block(input: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(input.len()), 0);
    let written = lz4_flex::block::compress_into(input, &mut out[start..]);
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_round_trip() {
        let body: Vec<u8> = (0..10_000u32)
            .flat_map(|number| (number / 7).to_le_bytes())
            .collect();
        for compression in [Compression::Lz4, Compression::Snappy] {
            for length in [0, 1, 100, body.len()] {
                let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
                assert!(compress_envelope(compression, &body[..length], &mut packed));
                decompress_envelope(compression, &packed, 1 << 20, &mut unpacked).unwrap();
                assert_eq!(unpacked, body[..length]);
            }
        }
    }

    #[test]
    fn promises_beyond_the_limit_or_the_possible_take_no_memory() {
        let mut out = Vec::new();
        let bomb = [0x7F, 0xFF, 0xFF, 0xFF, 0x00];
        assert_eq!(
            decompress_envelope(Compression::Lz4, &bomb, 1000, &mut out),
            Err(CompressionError::TooLarge {
                length: 0x7FFF_FFFF,
                maximum: 1000
            })
        );
        assert!(matches!(
            decompress_envelope(Compression::Lz4, &bomb, usize::MAX, &mut out),
            Err(CompressionError::LengthMismatch { .. })
        ));
        // A varint length of 2^32 - 1 and nothing else.
        let bomb = [0xFF, 0xFF, 0xFF, 0xFF, 0x0F];
        assert!(matches!(
            decompress_envelope(Compression::Snappy, &bomb, 1000, &mut out),
            Err(CompressionError::TooLarge { .. })
        ));
        assert_eq!(
            decompress_envelope(Compression::Snappy, &bomb, usize::MAX, &mut out),
            Err(CompressionError::NotSnappy)
        );
        assert_eq!(out.capacity(), 0);
    }

    #[test]
    fn bodies_shorter_than_promised_are_refused() {
        let mut packed = Vec::new();
        assert!(compress_envelope(Compression::Lz4, &[7; 100], &mut packed));
        packed[3] += 1;
        let mut out = Vec::new();
        assert!(decompress_envelope(Compression::Lz4, &packed, 1000, &mut out).is_err());
        assert!(decompress_envelope(Compression::Lz4, &[0, 0], 1000, &mut out).is_err());
    }
}
