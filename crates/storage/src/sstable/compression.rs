//! How Data.db is compressed: CompressionInfo.db, and the compressors.
//!
//! | field | bytes |
//! |---|---|
//! | compressor | 2-byte length, class name without package |
//! | options | 4-byte count, then pairs of strings with 2-byte lengths |
//! | chunk length | 4: uncompressed bytes per chunk |
//! | stored length from which a chunk is not compressed | 4 |
//! | data length | 8: uncompressed bytes in all |
//! | chunks | 4-byte count, then the 8-byte offset of each in Data.db |

use helenus_schema::TableMetadata;

use super::decode::{ByteReader, DecodeError, push_bytes_after_u16};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// A 4-byte little-endian uncompressed length, then an LZ4 block.
    Lz4,
    /// A Snappy block, which begins with its uncompressed length.
    Snappy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionParameters {
    pub compressor: Compressor,
    /// Uncompressed bytes per chunk; a power of two.
    pub chunk_bytes: u32,
    /// A chunk that compresses to this or more is stored as it is.
    pub compressed_bytes_max: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompressionInfo {
    pub parameters: CompressionParameters,
    pub data_length: u64,
    pub chunk_offsets: Vec<u64>,
}

/// Cassandra's default.
const CHUNK_BYTES_DEFAULT: u32 = 16 * 1024;
/// Bounds what one chunk of a damaged file can take; Cassandra's tables use 4 KiB to 1 MiB.
const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// "Always store compressed", as Cassandra writes it.
const COMPRESSED_BYTES_UNLIMITED: u32 = i32::MAX as u32;

impl CompressionParameters {
    /// What a table's `compression` option asks for; `None` is no compression. Where it names a compressor that is
    /// not built in, LZ4 takes its place: every file says itself how it is compressed.
    pub fn of(table: &TableMetadata) -> Option<Self> {
        let options = &table.params.compression;
        let class = options
            .get("class")
            .or_else(|| options.get("sstable_compression"))
            .map(String::as_str);
        let is_disabled = options
            .get("enabled")
            .is_some_and(|enabled| enabled.eq_ignore_ascii_case("false"));
        let class = class.filter(|class| !class.is_empty() && !is_disabled)?;
        let simple_name = class.rsplit('.').next().unwrap_or(class);
        if simple_name == "NoopCompressor" {
            return None;
        }
        let chunk_kib: Option<u32> = options.get("chunk_length_in_kb").and_then(|kib| kib.parse().ok());
        let chunk_bytes = chunk_kib
            .and_then(|kib| kib.checked_mul(1024))
            .unwrap_or(CHUNK_BYTES_DEFAULT);
        let ratio_min: f64 = options
            .get("min_compress_ratio")
            .and_then(|ratio| ratio.parse().ok())
            .unwrap_or(0.0);
        Some(CompressionParameters {
            compressor: Compressor::by_class(simple_name).unwrap_or(Compressor::Lz4),
            chunk_bytes: if is_chunk_length(chunk_bytes) {
                chunk_bytes
            } else {
                CHUNK_BYTES_DEFAULT
            },
            compressed_bytes_max: if ratio_min > 0.0 {
                (f64::from(chunk_bytes) / ratio_min).ceil() as u32
            } else {
                COMPRESSED_BYTES_UNLIMITED
            },
        })
    }
}

fn is_chunk_length(bytes: u32) -> bool {
    bytes.is_power_of_two() && bytes <= CHUNK_BYTES_MAX
}

impl Compressor {
    fn class(self) -> &'static str {
        match self {
            Compressor::Lz4 => "LZ4Compressor",
            Compressor::Snappy => "SnappyCompressor",
        }
    }

    fn by_class(simple_name: &str) -> Option<Self> {
        [Compressor::Lz4, Compressor::Snappy]
            .into_iter()
            .find(|compressor| compressor.class() == simple_name)
    }

    /// The most that a chunk can take on disk, its checksum aside.
    pub(super) fn compressed_length_max(self, length: usize) -> usize {
        match self {
            Compressor::Lz4 => 4 + lz4_flex::block::get_maximum_output_size(length),
            Compressor::Snappy => snap::raw::max_compress_len(length),
        }
    }

    /// Replaces `out` by the compressed form of a chunk.
    pub(super) fn compress(self, chunk: &[u8], out: &mut Vec<u8>) {
        out.resize(self.compressed_length_max(chunk.len()), 0);
        let length = match self {
            Compressor::Lz4 => {
                let (head, block) = out.split_at_mut(4);
                head.copy_from_slice(&(chunk.len() as u32).to_le_bytes());
                lz4_flex::block::compress_into(chunk, block)
                    .map(|length| length + 4)
                    .ok()
            }
            Compressor::Snappy => snap::raw::Encoder::new().compress(chunk, out).ok(),
        };
        // Both fail only when the output is smaller than the maximum that it was just sized to.
        debug_assert!(length.is_some());
        out.truncate(length.unwrap_or_default());
    }

    /// Decompresses a chunk whose uncompressed length is known; false if it is not one.
    pub(super) fn decompress(self, stored: &[u8], out: &mut [u8]) -> bool {
        match self {
            Compressor::Lz4 => {
                let Some((head, block)) = stored.split_first_chunk::<4>() else {
                    return false;
                };
                u32::from_le_bytes(*head) as usize == out.len()
                    && lz4_flex::block::decompress_into(block, out).is_ok_and(|length| length == out.len())
            }
            Compressor::Snappy => {
                snap::raw::decompress_len(stored) == Ok(out.len())
                    && snap::raw::Decoder::new().decompress(stored, out) == Ok(out.len())
            }
        }
    }
}

/// Why a CompressionInfo.db cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CompressionInfoError {
    Decode(DecodeError),
    UnsupportedCompressor(String),
}

impl From<DecodeError> for CompressionInfoError {
    fn from(error: DecodeError) -> Self {
        CompressionInfoError::Decode(error)
    }
}

impl CompressionInfo {
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_bytes_after_u16(out, self.parameters.compressor.class().as_bytes());
        out.extend_from_slice(&0_u32.to_be_bytes());
        out.extend_from_slice(&self.parameters.chunk_bytes.to_be_bytes());
        out.extend_from_slice(&self.parameters.compressed_bytes_max.to_be_bytes());
        out.extend_from_slice(&self.data_length.to_be_bytes());
        out.extend_from_slice(&(self.chunk_offsets.len() as u32).to_be_bytes());
        for offset in &self.chunk_offsets {
            out.extend_from_slice(&offset.to_be_bytes());
        }
    }

    /// `file_length` is that of Data.db, within which all chunks must lie.
    pub fn decode(bytes: &[u8], file_length: u64) -> Result<Self, CompressionInfoError> {
        let mut reader = ByteReader::new(bytes);
        let class = reader.text_after_u16()?.to_owned();
        let compressor =
            Compressor::by_class(&class).ok_or(CompressionInfoError::UnsupportedCompressor(class))?;
        for _ in 0..reader.count_u32(4)? {
            reader.bytes_after_u16()?;
            reader.bytes_after_u16()?;
        }
        let chunk_bytes_at = reader.position();
        let chunk_bytes = reader.u32()?;
        if !is_chunk_length(chunk_bytes) {
            return Err(
                DecodeError::malformed(chunk_bytes_at, "a power of two up to 16 MiB", chunk_bytes).into(),
            );
        }
        let compressed_bytes_max = reader.u32()?;
        let data_length = reader.u64()?;
        let count_at = reader.position();
        let count = reader.count_u32(8)?;
        if count as u64 != data_length.div_ceil(u64::from(chunk_bytes)) {
            return Err(DecodeError::malformed(count_at, "as many chunks as the data needs", count).into());
        }
        let parameters = CompressionParameters {
            compressor,
            chunk_bytes,
            compressed_bytes_max,
        };
        let mut info = CompressionInfo {
            parameters,
            data_length,
            chunk_offsets: Vec::with_capacity(count),
        };
        for _ in 0..count {
            info.chunk_offsets.push(reader.u64()?);
        }
        reader.finish()?;
        info.check_offsets(count_at + 4, file_length)?;
        Ok(info)
    }

    /// Chunks follow one another, each with room for its checksum and none larger than a chunk can be.
    fn check_offsets(&self, offsets_at: usize, file_length: u64) -> Result<(), DecodeError> {
        let length_max = self.stored_length_max();
        let ends = self.chunk_offsets.iter().skip(1).copied().chain([file_length]);
        let mut expected_start = Some(0);
        for (index, (start, end)) in self.chunk_offsets.iter().copied().zip(ends).enumerate() {
            let is_first_elsewhere = expected_start.take().is_some_and(|expected| expected != start);
            let length = end.checked_sub(start);
            if is_first_elsewhere || !length.is_some_and(|length| (5..=length_max).contains(&length)) {
                let found = format!("{start} to {end}");
                return Err(DecodeError::malformed(
                    offsets_at + 8 * index,
                    "the bounds of a chunk",
                    found,
                ));
            }
        }
        Ok(())
    }

    /// With the checksum.
    fn stored_length_max(&self) -> u64 {
        let parameters = self.parameters;
        let compressed_max = parameters
            .compressor
            .compressed_length_max(parameters.chunk_bytes as usize);
        compressed_max as u64 + 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(offsets: &[u64]) -> CompressionInfo {
        let parameters = CompressionParameters {
            compressor: Compressor::Snappy,
            chunk_bytes: 4096,
            compressed_bytes_max: COMPRESSED_BYTES_UNLIMITED,
        };
        CompressionInfo {
            parameters,
            data_length: 4096 * 2 + 1,
            chunk_offsets: offsets.to_vec(),
        }
    }

    #[test]
    fn chunks_are_compressed_and_back() {
        let chunk: Vec<u8> = (0..4096_u32).map(|index| (index / 7) as u8).collect();
        for compressor in [Compressor::Lz4, Compressor::Snappy] {
            let mut stored = Vec::new();
            compressor.compress(&chunk, &mut stored);
            assert!(stored.len() < chunk.len());
            let mut back = vec![0; chunk.len()];
            assert!(compressor.decompress(&stored, &mut back));
            assert_eq!(back, chunk);
            assert!(!compressor.decompress(&stored, &mut back[1..]), "another length");
            assert!(!compressor.decompress(&stored[..stored.len() - 1], &mut back));
            assert!(!compressor.decompress(&[], &mut back));
        }
    }

    #[test]
    fn offsets_must_lie_in_order_within_the_file() {
        let encode = |offsets: &[u64]| {
            let mut out = Vec::new();
            info(offsets).encode(&mut out);
            out
        };
        assert_eq!(
            CompressionInfo::decode(&encode(&[0, 100, 200]), 300),
            Ok(info(&[0, 100, 200]))
        );
        for (offsets, file_length) in [
            (&[1, 100, 200], 300),
            (&[0, 200, 100], 300),
            (&[0, 100, 200], 203),
            (&[0, 100_000, 100_200], 100_300),
        ] {
            assert!(
                CompressionInfo::decode(&encode(offsets), file_length).is_err(),
                "{offsets:?}"
            );
        }
        assert!(
            CompressionInfo::decode(&encode(&[0, 100]), 300).is_err(),
            "a chunk is missing"
        );
    }
}
