//! The algorithms that compress the chunks of Data.db. Every file says itself which one it was.

use std::cell::RefCell;

use crate::block::lz4_decoder;
use crate::block::lz4_encoder::{self, Density};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// A 4-byte little-endian uncompressed length, then an LZ4 block.
    Lz4,
    /// A Snappy block, which begins with its uncompressed length.
    Snappy,
    /// A zlib stream (RFC 1950).
    Deflate,
    /// A Zstandard frame with its checksum (RFC 8878).
    Zstd { level: i32 },
    /// The bytes as they are, though with the checksums of compressed chunks.
    Noop,
}

/// Cassandra's default, as is the next one.
pub(crate) const ZSTD_LEVEL_DEFAULT: i32 = 3;
const DEFLATE_LEVEL: u32 = 6;
/// The levels that Zstandard has.
const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = -131_072..=22;

/// From three quarters of the chunk's size on, repeats are short and few, and looking up a third of the places finds most
/// of them: of text-like 24-byte repeats it left out 2 % of the size and saved a tenth to a quarter of the time.
const DENSE_SHARE: (usize, usize) = (3, 4);

impl Compressor {
    /// The compressors with their defaults.
    const ALL: [Compressor; 5] = [
        Compressor::Lz4,
        Compressor::Snappy,
        Compressor::Deflate,
        Compressor::Zstd {
            level: ZSTD_LEVEL_DEFAULT,
        },
        Compressor::Noop,
    ];

    /// The name that Cassandra gives it, without its package.
    pub fn class(self) -> &'static str {
        match self {
            Compressor::Lz4 => "LZ4Compressor",
            Compressor::Snappy => "SnappyCompressor",
            Compressor::Deflate => "DeflateCompressor",
            Compressor::Zstd { .. } => "ZstdCompressor",
            Compressor::Noop => "NoopCompressor",
        }
    }

    pub(crate) fn by_class(simple_name: &str) -> Option<Self> {
        Compressor::ALL
            .into_iter()
            .find(|compressor| compressor.class() == simple_name)
    }

    /// Takes a `compression_level`, if it is the option of this compressor and one of its levels.
    pub(crate) fn with_level(self, level: Option<&str>) -> Self {
        match self {
            Compressor::Zstd { .. } => {
                let level = level.and_then(|level| level.trim().parse().ok());
                let level = level.filter(|level| ZSTD_LEVELS.contains(level));
                Compressor::Zstd {
                    level: level.unwrap_or(ZSTD_LEVEL_DEFAULT),
                }
            }
            other => other,
        }
    }

    /// The most that a chunk can take on disk, its checksum aside.
    pub(crate) fn compressed_length_max(self, length: usize) -> usize {
        match self {
            Compressor::Lz4 if length <= lz4_encoder::INPUT_BYTES_MAX => {
                4 + lz4_encoder::encoded_length_max(length)
            }
            Compressor::Lz4 => 4 + lz4_flex::block::get_maximum_output_size(length),
            Compressor::Snappy => snap::raw::max_compress_len(length),
            // Fixed-Huffman blocks of literals are the worst that an encoder without stored blocks may choose: 9 bits
            // a byte; zlib's own bound is far below.
            Compressor::Deflate => length + length / 8 + 128,
            Compressor::Zstd { .. } => zstd::zstd_safe::compress_bound(length),
            Compressor::Noop => length,
        }
    }

    /// The most bytes that one compressed byte can stand for, as the formats go. Bounds what a damaged length can ask for.
    pub(crate) fn expansion_max(self) -> u64 {
        match self {
            // A byte that continues a length adds 255 to it.
            Compressor::Lz4 => 255,
            // Three bytes copy up to 64.
            Compressor::Snappy => 64,
            // Two bits copy up to 258 bytes.
            Compressor::Deflate => 1032,
            // A block of 128 KiB that repeats one byte takes 4.
            Compressor::Zstd { .. } => (128 << 10) / 4,
            Compressor::Noop => 1,
        }
    }

    /// Replaces `out` by the compressed form of a chunk. If `out` was the form of a chunk of the same size and had hardly
    /// become smaller, this one is not looked through as thoroughly.
    pub(crate) fn compress(self, chunk: &[u8], out: &mut Vec<u8>) {
        let density = if out.len() >= chunk.len() / DENSE_SHARE.1 * DENSE_SHARE.0 {
            Density::Third
        } else {
            Density::Second
        };
        out.resize(self.compressed_length_max(chunk.len()), 0);
        let length = match self {
            Compressor::Lz4 => {
                let (head, block) = out.split_at_mut(4);
                head.copy_from_slice(&(chunk.len() as u32).to_le_bytes());
                compress_lz4(chunk, density, block).map(|length| length + 4)
            }
            Compressor::Snappy => snap::raw::Encoder::new().compress(chunk, out).ok(),
            Compressor::Deflate => deflate(chunk, out),
            Compressor::Zstd { level } => compress_zstd(level, chunk, out),
            Compressor::Noop => {
                out.copy_from_slice(chunk);
                Some(chunk.len())
            }
        };
        // All fail only when the output is smaller than the maximum that it was just sized to.
        debug_assert!(length.is_some());
        out.truncate(length.unwrap_or_default());
    }

    /// Returns whether a chunk itself says that it decompresses to `length` bytes, found out without room for them.
    pub(crate) fn decompresses_to(self, stored: &[u8], length: usize) -> bool {
        match self {
            Compressor::Lz4 => stored
                .first_chunk::<4>()
                .is_some_and(|head| u32::from_le_bytes(*head) as usize == length),
            Compressor::Snappy => snap::raw::decompress_len(stored) == Ok(length),
            Compressor::Deflate => inflated_length(stored) == Some(length as u64),
            // A frame may leave its length out.
            Compressor::Zstd { .. } => zstd::zstd_safe::get_frame_content_size(stored)
                .is_ok_and(|found| found.is_none_or(|found| found == length as u64)),
            Compressor::Noop => stored.len() == length,
        }
    }

    /// Returns whether the beginning of a chunk takes less time than all of it.
    pub(crate) fn unpacks_beginnings(self) -> bool {
        self == Compressor::Lz4
    }

    /// Decompresses the beginning of a chunk of a length, as much as fills `out`; false if it is not one as far as that. What is behind
    /// is not looked at where [`Self::unpacks_beginnings`].
    pub(crate) fn decompress_beginning(self, stored: &[u8], length: usize, out: &mut [u8]) -> bool {
        match self {
            Compressor::Lz4 => {
                let Some((head, block)) = stored.split_first_chunk::<4>() else {
                    return false;
                };
                u32::from_le_bytes(*head) as usize == length && lz4_decoder::decode_beginning(block, out)
            }
            _ => {
                let mut whole = vec![0; length];
                let beginning = self
                    .decompress(stored, &mut whole)
                    .then(|| whole.get(..out.len()));
                let beginning = beginning.flatten();
                if let Some(beginning) = beginning {
                    out.copy_from_slice(beginning);
                }
                beginning.is_some()
            }
        }
    }

    /// Decompresses a chunk whose uncompressed length is known; false if it is not one.
    pub(crate) fn decompress(self, stored: &[u8], out: &mut [u8]) -> bool {
        match self {
            Compressor::Lz4 => {
                let Some((head, block)) = stored.split_first_chunk::<4>() else {
                    return false;
                };
                u32::from_le_bytes(*head) as usize == out.len() && lz4_decoder::decode(block, out)
            }
            Compressor::Snappy => {
                snap::raw::decompress_len(stored) == Ok(out.len())
                    && snap::raw::Decoder::new().decompress(stored, out) == Ok(out.len())
            }
            Compressor::Deflate => inflate(stored, out),
            Compressor::Zstd { .. } => decompress_zstd(stored, out),
            Compressor::Noop => {
                let is_whole = stored.len() == out.len();
                if is_whole {
                    out.copy_from_slice(stored);
                }
                is_whole
            }
        }
    }
}

/// Chunks of up to 64 KiB, as nearly all are, have an encoder of their own.
fn compress_lz4(chunk: &[u8], density: Density, block: &mut [u8]) -> Option<usize> {
    if chunk.len() <= lz4_encoder::INPUT_BYTES_MAX {
        lz4_encoder::encode(chunk, density, block)
    } else {
        lz4_flex::block::compress_into(chunk, block).ok()
    }
}

// The states of these algorithms take 100 KiB and more and can be used again; a thread has one chunk in work at a time.
thread_local! {
    static DEFLATE: RefCell<Compress> = RefCell::new(Compress::new(Compression::new(DEFLATE_LEVEL), true));
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(true));
    static ZSTD_COMPRESS: RefCell<zstd::zstd_safe::CCtx<'static>> = RefCell::new(zstd::zstd_safe::CCtx::create());
    static ZSTD_DECOMPRESS: RefCell<zstd::zstd_safe::DCtx<'static>> = RefCell::new(zstd::zstd_safe::DCtx::create());
}

fn deflate(chunk: &[u8], out: &mut [u8]) -> Option<usize> {
    DEFLATE.with_borrow_mut(|state| {
        state.reset();
        let status = state.compress(chunk, out, FlushCompress::Finish).ok()?;
        let length = usize::try_from(state.total_out()).ok()?;
        (status == Status::StreamEnd).then_some(length)
    })
}

fn inflate(stored: &[u8], out: &mut [u8]) -> bool {
    INFLATE.with_borrow_mut(|state| {
        state.reset(true);
        let status = state.decompress(stored, out, FlushDecompress::Finish);
        matches!(status, Ok(Status::StreamEnd))
            && state.total_out() == out.len() as u64
            && state.total_in() == stored.len() as u64
    })
}

/// Inflates without keeping anything.
fn inflated_length(stored: &[u8]) -> Option<u64> {
    INFLATE.with_borrow_mut(|state| {
        state.reset(true);
        let mut lost = [0; 4096];
        loop {
            let (taken, made) = (state.total_in(), state.total_out());
            let rest = stored.get(usize::try_from(taken).ok()?..)?;
            let status = state.decompress(rest, &mut lost, FlushDecompress::None);
            match status.ok()? {
                Status::StreamEnd => return Some(state.total_out()),
                _ if (taken, made) == (state.total_in(), state.total_out()) => return None,
                Status::Ok | Status::BufError => {}
            }
        }
    })
}

fn compress_zstd(level: i32, chunk: &[u8], out: &mut [u8]) -> Option<usize> {
    use zstd::zstd_safe::CParameter;
    ZSTD_COMPRESS.with_borrow_mut(|state| {
        state.set_parameter(CParameter::CompressionLevel(level)).ok()?;
        state.set_parameter(CParameter::ChecksumFlag(true)).ok()?;
        state.compress2(out, chunk).ok()
    })
}

fn decompress_zstd(stored: &[u8], out: &mut [u8]) -> bool {
    let wanted = out.len();
    ZSTD_DECOMPRESS.with_borrow_mut(|state| state.decompress(out, stored) == Ok(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs and noise, by a linear congruential generator with a fixed seed.
    fn chunk(noise_share: u32) -> Vec<u8> {
        let mut state = 12_345_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        (0..4096_u32)
            .map(|index| {
                if next() % 4 < noise_share {
                    next() as u8
                } else {
                    (index / 7) as u8
                }
            })
            .collect()
    }

    #[test]
    fn chunks_are_compressed_and_back() {
        for compressor in Compressor::ALL {
            for noise_share in [0, 2, 4] {
                let chunk = chunk(noise_share);
                let mut stored = Vec::new();
                compressor.compress(&chunk, &mut stored);
                assert!(stored.len() < chunk.len() || noise_share > 0 || compressor == Compressor::Noop);
                assert!(compressor.decompresses_to(&stored, chunk.len()), "{compressor:?}");
                assert!(
                    !compressor.decompresses_to(&stored, chunk.len() + 1),
                    "{compressor:?}"
                );
                assert!(!compressor.decompresses_to(&[], chunk.len()), "{compressor:?}");
                let mut back = vec![0; chunk.len()];
                assert!(compressor.decompress(&stored, &mut back), "{compressor:?}");
                assert_eq!(back, chunk);
                assert!(!compressor.decompress(&stored, &mut back[1..]), "another length");
                for length in [0, 1, chunk.len() / 3, chunk.len()] {
                    let mut beginning = vec![0; length];
                    assert!(
                        compressor.decompress_beginning(&stored, chunk.len(), &mut beginning),
                        "{compressor:?}"
                    );
                    assert!(beginning == chunk[..length], "{compressor:?}");
                }
                assert!(!compressor.decompress_beginning(&stored, chunk.len() + 1, &mut back));
                assert!(!compressor.decompress(&stored[..stored.len() - 1], &mut back));
                assert!(!compressor.decompress(&[], &mut back));
            }
        }
    }

    #[test]
    fn chunks_of_other_encoders_are_read() {
        // "aaaaaaaaaa" by zlib 1.3 at level 6, and by zstd 1.5 at level 3 with a checksum.
        let zlib = [0x78, 0x9c, 0x4b, 0x84, 0x03, 0x00, 0x14, 0xe1, 0x03, 0xcb];
        let mut out = [0; 10];
        assert!(Compressor::Deflate.decompress(&zlib, &mut out));
        assert_eq!(&out, b"aaaaaaaaaa");
        let mut damaged = zlib;
        damaged[9] ^= 1;
        assert!(
            !Compressor::Deflate.decompress(&damaged, &mut out),
            "its checksum"
        );
    }

    #[test]
    fn only_zstd_has_levels() {
        let zstd = Compressor::by_class("ZstdCompressor").unwrap();
        assert_eq!(zstd.with_level(Some(" 7")), Compressor::Zstd { level: 7 });
        assert_eq!(zstd.with_level(Some("23")), zstd);
        assert_eq!(Compressor::Lz4.with_level(Some("7")), Compressor::Lz4);
    }
}
