//! Summary.db: every 128th key of the index, in memory.
//!
//! | field | bytes |
//! |---|---|
//! | index interval | 4: keys per entry |
//! | entries | 4: their number |
//! | size | 8: of offsets and entries |
//! | sampling level | 4: 128 is all |
//! | entries at full sampling | 4 |
//! | offsets | per entry 4, little-endian, counted from the first offset |
//! | entries | key, then 8 little-endian: its place in Index.db |
//! | first key, last key | 4-byte length, bytes |

use helenus_types::Token;
use helenus_types::token::token_of;

use crate::big::index::read_entry;
use crate::block::chunk_stream::ChunkStream;
use crate::block::chunked_file::ChunkedFile;
use crate::block::page_cache::PageCache;
use crate::decode::{ByteReader, DecodeError};
use crate::error::ReadError;
use crate::index::entry::IndexEntry;
use crate::version::Version;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// In token order; the first is the first of the index.
    pub entries: Vec<SummaryEntry>,
    pub first_key: Box<[u8]>,
    pub last_key: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SummaryEntry {
    pub token: Token,
    pub key: Box<[u8]>,
    pub index_offset: u64,
}

/// An index that is read once from start to end keeps little.
const REMADE_CACHE_BYTES: usize = 1 << 20;
/// Keys per entry where the table says nothing; Cassandra's default.
const SAMPLING_LEVEL_FULL: u32 = 128;

impl Summary {
    pub fn memory_bytes(&self) -> usize {
        let keys: usize = self.entries.iter().map(|entry| entry.key.len()).sum();
        size_of_val(self.entries.as_slice()) + keys
    }

    pub fn encode(&self, index_interval: u32, key_count: u64) -> Vec<u8> {
        let mut offsets = Vec::with_capacity(self.entries.len() * 4);
        let mut entries = Vec::new();
        for entry in &self.entries {
            let offset = (self.entries.len() * 4 + entries.len()) as u32;
            offsets.extend_from_slice(&offset.to_le_bytes());
            entries.extend_from_slice(&entry.key);
            entries.extend_from_slice(&entry.index_offset.to_le_bytes());
        }
        let mut out = Vec::with_capacity(64 + offsets.len() + entries.len());
        out.extend_from_slice(&index_interval.to_be_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_be_bytes());
        out.extend_from_slice(&((offsets.len() + entries.len()) as u64).to_be_bytes());
        out.extend_from_slice(&SAMPLING_LEVEL_FULL.to_be_bytes());
        out.extend_from_slice(&(key_count.div_ceil(u64::from(index_interval)) as u32).to_be_bytes());
        out.extend_from_slice(&offsets);
        out.extend_from_slice(&entries);
        for key in [&self.first_key, &self.last_key] {
            out.extend_from_slice(&(key.len() as u32).to_be_bytes());
            out.extend_from_slice(key);
        }
        out
    }

    pub fn decode(bytes: &[u8], index_length: u64) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        reader.u32()?;
        let count = reader.count_u32(12)?;
        let size_at = reader.position();
        let size = reader.u64()?;
        let offsets_size = count * 4;
        let entries_size = usize::try_from(size)
            .ok()
            .and_then(|size| size.checked_sub(offsets_size))
            .ok_or_else(|| DecodeError::malformed(size_at, "a size with room for the offsets", size))?;
        reader.bytes(8)?;
        let offsets_at = reader.position();
        let mut starts = Vec::with_capacity(count + 1);
        for _ in 0..count {
            starts.push((reader.u32_little_endian()? as usize).wrapping_sub(offsets_size));
        }
        starts.push(entries_size);
        let bytes = reader.bytes(entries_size)?;
        let mut entries: Vec<SummaryEntry> = Vec::with_capacity(count);
        for (index, bounds) in starts.windows(2).enumerate() {
            let offset = offsets_at + 4 * index;
            let wrong = |found: String| DecodeError::malformed(offset, "the bounds of an entry", found);
            let entry = bytes
                .get(bounds[0]..bounds[1])
                .filter(|_| index > 0 || bounds[0] == 0);
            let (key, index_offset) = entry
                .and_then(|entry| entry.split_last_chunk::<8>())
                .ok_or_else(|| wrong(format!("{} to {}", bounds[0], bounds[1])))?;
            let entry = SummaryEntry {
                token: token_of(key),
                key: key.into(),
                index_offset: u64::from_le_bytes(*index_offset),
            };
            let follows = match entries.last() {
                None => entry.index_offset == 0,
                Some(previous) => {
                    (previous.token, &previous.key) < (entry.token, &entry.key)
                        && previous.index_offset < entry.index_offset
                }
            };
            if !follows || entry.index_offset >= index_length {
                return Err(wrong("entries out of order".to_owned()));
            }
            entries.push(entry);
        }
        let first_key = reader.bytes_after_u32()?.into();
        let last_key = reader.bytes_after_u32()?.into();
        reader.finish()?;
        Ok(Summary {
            entries,
            first_key,
            last_key,
        })
    }

    /// Made again from Index.db, which is read whole.
    pub fn of_index(file: &ChunkedFile, version: Version, index_interval: u32) -> Result<Self, ReadError> {
        let cache = PageCache::new(REMADE_CACHE_BYTES);
        let mut stream = ChunkStream::sequential(file, &cache);
        let mut summary = Summary::default();
        let mut last: Option<IndexEntry> = None;
        for number in 0_u64.. {
            let index_offset = stream.position();
            let Some(entry) = read_entry(&mut stream, version)? else {
                break;
            };
            let follows = last
                .as_ref()
                .is_none_or(|last| (last.token, &last.key) < (entry.token, &entry.key));
            if !follows {
                let error = DecodeError::malformed(0, "keys in the order of their tokens", "another order");
                return Err(error.in_file(file.path(), index_offset));
            }
            if number.is_multiple_of(u64::from(index_interval)) {
                summary.entries.push(SummaryEntry {
                    token: entry.token,
                    key: entry.key.as_slice().into(),
                    index_offset,
                });
            }
            last = Some(entry);
        }
        let (Some(first), Some(last)) = (summary.entries.first(), last) else {
            return Err(DecodeError::malformed(0, "at least one key", "none").in_file(file.path(), 0));
        };
        summary.first_key = first.key.clone();
        summary.last_key = last.key.into();
        Ok(summary)
    }

    /// That the index reaches to the last key. One without checksums that was cut where an entry ends looks whole
    /// otherwise.
    pub fn check_end(&self, file: &ChunkedFile, version: Version) -> Result<(), ReadError> {
        let cache = PageCache::new(REMADE_CACHE_BYTES);
        let mut stream = ChunkStream::new(file, &cache);
        stream.seek(self.entries.last().map_or(0, |entry| entry.index_offset));
        let mut last_key = Vec::new();
        while let Some(entry) = read_entry(&mut stream, version)? {
            last_key = entry.key;
        }
        if *last_key == *self.last_key {
            return Ok(());
        }
        let error = DecodeError::malformed(0, "the last key that Summary.db names", "another at its end");
        Err(error.in_file(file.path(), file.length()))
    }

    /// Where in the index a key could be: from the last entry at or before it to the one after.
    pub fn index_range(&self, token: Token, key: &[u8], index_length: u64) -> (u64, u64) {
        let after = self
            .entries
            .partition_point(|entry| (entry.token, &*entry.key) <= (token, key));
        let end = self
            .entries
            .get(after)
            .map_or(index_length, |entry| entry.index_offset);
        match after.checked_sub(1).and_then(|index| self.entries.get(index)) {
            Some(entry) => (entry.index_offset, end),
            None => (0, 0),
        }
    }

    /// Where to begin to look for the first key that is not before a place.
    pub fn index_start(&self, is_before: impl Fn(Token, &[u8]) -> bool) -> u64 {
        let after = self
            .entries
            .partition_point(|entry| is_before(entry.token, &entry.key));
        after
            .checked_sub(1)
            .and_then(|index| self.entries.get(index))
            .map_or(0, |entry| entry.index_offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let mut keys: Vec<Box<[u8]>> = (0..10_u32).map(|key| key.to_be_bytes().into()).collect();
        keys.sort_by_key(|key| token_of(key));
        let entries: Vec<SummaryEntry> = keys
            .iter()
            .enumerate()
            .map(|(index, key)| SummaryEntry {
                token: token_of(key),
                key: key.clone(),
                index_offset: 100 * index as u64,
            })
            .collect();
        Summary {
            first_key: keys[0].clone(),
            last_key: keys[9].clone(),
            entries,
        }
    }

    #[test]
    fn a_summary_reads_back() {
        let bytes = summary().encode(128, 1200);
        assert_eq!(Summary::decode(&bytes, 1000), Ok(summary()));
        assert!(Summary::decode(&bytes, 900).is_err(), "an entry beyond the index");
        assert!(Summary::decode(&bytes[..bytes.len() - 1], 1000).is_err());
    }

    #[test]
    fn keys_are_looked_up_between_two_entries() {
        let summary = summary();
        let entry = &summary.entries[3];
        assert_eq!(summary.index_range(entry.token, &entry.key, 1000), (300, 400));
        assert_eq!(summary.index_range(entry.token, b"", 1000), (200, 300));
        assert_eq!(summary.index_range(Token(i64::MIN), b"", 1000), (0, 0));
        assert_eq!(summary.index_range(Token(i64::MAX), b"", 1000), (900, 1000));
        assert_eq!(summary.index_start(|token, _| token < entry.token), 200);
        assert_eq!(summary.index_start(|_, _| false), 0);
    }
}
