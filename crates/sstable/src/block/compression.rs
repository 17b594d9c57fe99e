//! How Data.db is compressed: CompressionInfo.db.
//!
//! | field | bytes |
//! |---|---|
//! | compressor | 2-byte length, class name without package |
//! | options | 4-byte count, then pairs of strings with 2-byte lengths |
//! | chunk length | 4: uncompressed bytes per chunk |
//! | stored length from which a chunk is not compressed | 4, from version `na` on |
//! | data length | 8: uncompressed bytes in all |
//! | chunks | 4-byte count, then the 8-byte offset of each in Data.db |

use helenus_schema::TableMetadata;

use crate::block::compressor::Compressor;
use crate::decode::{ByteReader, DecodeError, push_bytes_after_u16};
use crate::version::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionParameters {
    pub compressor: Compressor,
    /// Uncompressed bytes per chunk; a power of two.
    pub chunk_bytes: u32,
    /// A chunk that compresses to this or more is stored as it is.
    pub compressed_bytes_max: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompressionInfo {
    pub parameters: CompressionParameters,
    pub data_length: u64,
    pub chunk_offsets: Vec<u64>,
}

/// The option of compressors that have levels.
const LEVEL_OPTION: &str = "compression_level";
/// Cassandra's default.
const CHUNK_BYTES_DEFAULT: u32 = 16 * 1024;
/// Bounds what one chunk of a damaged file can take; Cassandra's tables use 4 KiB to 1 MiB.
const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// "Always store compressed", as Cassandra writes it.
const COMPRESSED_BYTES_UNLIMITED: u32 = i32::MAX as u32;

impl CompressionParameters {
    /// Returns the parameters in a table's `compression` option; `None` is no compression. Where it names a compressor that is
    /// not known, LZ4 takes its place: every file says itself how it is compressed.
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
        let compressor = Compressor::by_class(simple_name).unwrap_or(Compressor::Lz4);
        let chunk_kib: Option<u32> = options.get("chunk_length_in_kb").and_then(|kib| kib.parse().ok());
        let chunk_bytes = chunk_kib
            .and_then(|kib| kib.checked_mul(1024))
            .unwrap_or(CHUNK_BYTES_DEFAULT);
        let ratio_min: f64 = options
            .get("min_compress_ratio")
            .and_then(|ratio| ratio.parse().ok())
            .unwrap_or(0.0);
        Some(CompressionParameters {
            compressor: compressor.with_level(options.get(LEVEL_OPTION).map(String::as_str)),
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

impl CompressionParameters {
    /// Limits the parameters to what a version can say: before `na` every chunk is compressed, however much it takes.
    pub(crate) fn for_version(self, version: Version) -> Self {
        CompressionParameters {
            compressed_bytes_max: if version.has_compressed_bytes_max() {
                self.compressed_bytes_max
            } else {
                COMPRESSED_BYTES_UNLIMITED
            },
            ..self
        }
    }
}

fn is_chunk_length(bytes: u32) -> bool {
    bytes.is_power_of_two() && bytes <= CHUNK_BYTES_MAX
}

/// Why a CompressionInfo.db cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CompressionInfoError {
    Decode(DecodeError),
    UnsupportedCompressor(String),
}

impl From<DecodeError> for CompressionInfoError {
    fn from(error: DecodeError) -> Self {
        CompressionInfoError::Decode(error)
    }
}

impl CompressionInfo {
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let compressor = self.parameters.compressor;
        push_bytes_after_u16(out, compressor.class().as_bytes());
        let level = match compressor {
            Compressor::Zstd { level } => Some(level.to_string()),
            _ => None,
        };
        out.extend_from_slice(&u32::from(level.is_some()).to_be_bytes());
        if let Some(level) = level {
            push_bytes_after_u16(out, LEVEL_OPTION.as_bytes());
            push_bytes_after_u16(out, level.as_bytes());
        }
        out.extend_from_slice(&self.parameters.chunk_bytes.to_be_bytes());
        if version.has_compressed_bytes_max() {
            out.extend_from_slice(&self.parameters.compressed_bytes_max.to_be_bytes());
        }
        out.extend_from_slice(&self.data_length.to_be_bytes());
        out.extend_from_slice(&(self.chunk_offsets.len() as u32).to_be_bytes());
        for offset in &self.chunk_offsets {
            out.extend_from_slice(&offset.to_be_bytes());
        }
    }

    /// `file_length` is that of Data.db, within which all chunks must lie.
    pub fn decode(bytes: &[u8], version: Version, file_length: u64) -> Result<Self, CompressionInfoError> {
        let mut reader = ByteReader::new(bytes);
        let class = reader.text_after_u16()?.to_owned();
        let compressor =
            Compressor::by_class(&class).ok_or(CompressionInfoError::UnsupportedCompressor(class))?;
        let mut level = None;
        for _ in 0..reader.count_u32(4)? {
            let (name, value) = (reader.bytes_after_u16()?, reader.text_after_u16()?);
            if name == LEVEL_OPTION.as_bytes() {
                level = Some(value);
            }
        }
        let compressor = compressor.with_level(level);
        let chunk_bytes_at = reader.position();
        let chunk_bytes = reader.u32()?;
        if !is_chunk_length(chunk_bytes) {
            return Err(
                DecodeError::malformed(chunk_bytes_at, "a power of two up to 16 MiB", chunk_bytes).into(),
            );
        }
        let compressed_bytes_max = if version.has_compressed_bytes_max() {
            reader.u32()?
        } else {
            COMPRESSED_BYTES_UNLIMITED
        };
        let data_length = reader.u64()?;
        let count_at = reader.position();
        let count = reader.count_u32(8)?;
        let needed = data_length.div_ceil(u64::from(chunk_bytes));
        // Cassandra's compactions flush once more at the end, which adds an empty chunk.
        if !(needed..=needed + 1).contains(&(count as u64)) {
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
        let needed = self.data_length.div_ceil(u64::from(self.parameters.chunk_bytes));
        let ends = self.chunk_offsets.iter().skip(1).copied().chain([file_length]);
        let mut expected_start = Some(0);
        for (index, (start, end)) in self.chunk_offsets.iter().copied().zip(ends).enumerate() {
            let is_first_elsewhere = expected_start.take().is_some_and(|expected| expected != start);
            let length = end.checked_sub(start);
            // Deflate makes nothing of the empty chunk at the end.
            let length_min = if (index as u64) < needed { 5 } else { 4 };
            if is_first_elsewhere || !length.is_some_and(|length| (length_min..=length_max).contains(&length))
            {
                let found = format!("{start} to {end}");
                return Err(DecodeError::malformed(
                    offsets_at + 8 * index,
                    "the bounds of a chunk",
                    found,
                ));
            }
            let chunk_bytes = self.chunk_bytes_at(index as u64);
            let held_max = (end - start).saturating_mul(self.parameters.compressor.expansion_max());
            if chunk_bytes > held_max {
                let found = format!("{} bytes for {chunk_bytes}", end - start);
                return Err(DecodeError::malformed(
                    offsets_at + 8 * index,
                    "a chunk large enough for what it holds",
                    found,
                ));
            }
        }
        Ok(())
    }

    /// Uncompressed bytes of a chunk: fewer in the last, none in the empty one behind it.
    fn chunk_bytes_at(&self, index: u64) -> u64 {
        let chunk_bytes = u64::from(self.parameters.chunk_bytes);
        let start = index.saturating_mul(chunk_bytes);
        self.data_length.saturating_sub(start).min(chunk_bytes)
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
    fn each_version_reads_what_it_wrote() {
        for version in Version::ALL {
            let mut written = info(&[0, 100, 200]);
            written.parameters = CompressionParameters {
                compressor: Compressor::Zstd { level: 9 },
                compressed_bytes_max: 4000,
                ..written.parameters
            }
            .for_version(version);
            let mut out = Vec::new();
            written.encode(version, &mut out);
            assert_eq!(CompressionInfo::decode(&out, version, 300), Ok(written));
        }
    }

    #[test]
    fn offsets_must_lie_in_order_within_the_file() {
        let encode = |offsets: &[u64]| {
            let mut out = Vec::new();
            info(offsets).encode(Version::Nb, &mut out);
            out
        };
        assert_eq!(
            CompressionInfo::decode(&encode(&[0, 100, 200]), Version::Nb, 300),
            Ok(info(&[0, 100, 200]))
        );
        for (offsets, file_length) in [
            (&[1, 100, 200], 300),
            (&[0, 200, 100], 300),
            (&[0, 100, 200], 203),
            (&[0, 100_000, 100_200], 100_300),
        ] {
            assert!(
                CompressionInfo::decode(&encode(offsets), Version::Nb, file_length).is_err(),
                "{offsets:?}"
            );
        }
        assert!(
            CompressionInfo::decode(&encode(&[0, 100]), Version::Nb, 300).is_err(),
            "a chunk is missing"
        );
    }
}
