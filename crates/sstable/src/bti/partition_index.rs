//! Partitions.db: which partitions there are, and where.
//!
//! | field | bytes |
//! |---|---|
//! | trie | pages of nodes; the key of each partition, cut to what tells it from its neighbours |
//! | first key, last key | 2-byte length, bytes |
//! | footer | 8: position of the first key; 8: number of partitions; 8: position of the trie's root |
//!
//! A payload is a byte of the key's hash and a signed position of 1 to 8 bytes: of the partition's entry in Rows.db, or
//! inverted that of the partition in Data.db. Bits 8 to 15 are the position's length plus 7.

use helenus_types::Token;
use helenus_types::token::murmur3_x64_128;

use super::byte_comparable::{push_partition_bound, push_partition_key};
use super::node::PAGE_BYTES;
use super::sized_integer::{push_sized, read_sized};
use super::trie_reader::{PinnedPage, StoredPayload, TrieCursor, TrieFile};
use super::trie_writer::{PageSink, Payload, TrieWriter};
use crate::block::checksums::PageChecksums;
use crate::block::chunk_stream::ChunkStream;
use crate::block::chunked_file::ChunkedFile;
use crate::block::page_cache::PageCache;
use crate::block::pages::Pages;
use crate::component::Component;
use crate::component_writer::PagedFile;
use crate::decode::{ByteReader, DecodeError, push_bytes_after_u16};
use crate::error::ReadError;
use crate::error::WriteError;
use helenus_rows::partition_range::PartitionBound;

const FOOTER_BYTES: u64 = 24;
/// A key is a 2-byte length and up to that many bytes; there are two.
const KEYS_BYTES_MAX: u64 = 2 * (2 + 65_535);
/// Payload bits from here on say that a byte of the hash comes first.
const BITS_WITH_HASH: u8 = 8;
/// Written to the file at once.
const FLUSH_BYTES: usize = 64 * 1024;

/// Where a partition is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartitionPlace {
    /// Its entry in Rows.db: the partition has blocks.
    Rows(u64),
    /// The partition itself, in Data.db.
    Data(u64),
}

impl PartitionPlace {
    fn stored(self) -> i64 {
        // Files are shorter than 2^63 bytes.
        match self {
            PartitionPlace::Rows(position) => position.cast_signed(),
            PartitionPlace::Data(position) => !position.cast_signed(),
        }
    }

    fn of_stored(stored: i64) -> Self {
        if stored >= 0 {
            PartitionPlace::Rows(stored.cast_unsigned())
        } else {
            PartitionPlace::Data((!stored).cast_unsigned())
        }
    }
}

/// Writes Partitions.db as partitions come, in order.
#[derive(Debug)]
pub(crate) struct PartitionIndexWriter {
    file: PagedFile,
    sink: PageSink,
    trie: TrieWriter,
    first_key: Vec<u8>,
    last: Option<LastPartition>,
    /// Memory for the next one.
    spare: LastPartition,
}

/// A partition is added to the trie when its next neighbour is known.
#[derive(Debug, Default)]
struct LastPartition {
    key: Vec<u8>,
    translated: Vec<u8>,
    payload: Payload,
    /// Translated bytes that tell it from the partition before.
    needed_before: usize,
}

impl PartitionIndexWriter {
    pub fn new(file: PagedFile) -> Self {
        PartitionIndexWriter {
            file,
            sink: PageSink::default(),
            trie: TrieWriter::default(),
            first_key: Vec::new(),
            last: None,
            spare: LastPartition::default(),
        }
    }

    /// `key_hash` is the [hash](murmur3_x64_128) that the token comes from.
    pub fn add(
        &mut self,
        token: Token,
        key: &[u8],
        key_hash: [u64; 2],
        place: PartitionPlace,
    ) -> Result<(), WriteError> {
        let mut next = std::mem::take(&mut self.spare);
        next.key.clear();
        next.key.extend_from_slice(key);
        next.payload = payload_of(key_hash, place);
        next.needed_before = 0;
        next.translated.clear();
        push_partition_key(&mut next.translated, token, key);
        match self.last.take() {
            None => self.first_key = key.to_vec(),
            Some(last) => {
                let shared = last
                    .translated
                    .iter()
                    .zip(&next.translated)
                    .take_while(|(last, next)| last == next)
                    .count();
                next.needed_before = shared + 1;
                self.push(&last, shared + 1);
                self.spare = last;
            }
        }
        self.last = Some(next);
        if self.sink.pending_bytes() >= FLUSH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn push(&mut self, partition: &LastPartition, needed_after: usize) {
        let length = partition
            .needed_before
            .max(needed_after)
            .min(partition.translated.len());
        let prefix = partition.translated.get(..length).unwrap_or_default();
        self.trie.add(&mut self.sink, prefix, partition.payload);
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let mut result = Ok(());
        let file = &mut self.file;
        self.sink.take(|pending| result = file.append(pending));
        result
    }

    /// Makes the file durable; returns its length and the checksums of its pages.
    pub fn finish(mut self) -> Result<(u64, PageChecksums), WriteError> {
        let last = self.last.take().unwrap_or_default();
        self.push(&last, 0);
        let count = self.trie.count();
        let root = self.trie.finish(&mut self.sink);
        let keys_position = self.sink.position();
        let mut tail = Vec::new();
        push_bytes_after_u16(&mut tail, &self.first_key);
        push_bytes_after_u16(&mut tail, &last.key);
        for number in [keys_position, count, root] {
            tail.extend_from_slice(&number.to_be_bytes());
        }
        self.sink.append(&tail);
        self.flush()?;
        self.file.finish(Component::Partitions)
    }
}

/// The lowest byte of the second half of the hash, as in the bloom filter.
fn hash_byte([_, second]: [u64; 2]) -> u8 {
    second as u8
}

fn payload_of(key_hash: [u64; 2], place: PartitionPlace) -> Payload {
    let mut position = Vec::with_capacity(8);
    push_sized(&mut position, place.stored());
    let bits = BITS_WITH_HASH + position.len() as u8 - 1;
    Payload::new(bits, &[&[hash_byte(key_hash)], &position])
}

/// Partitions.db, open for reading: footer and root page stay in memory.
#[derive(Debug)]
pub(crate) struct PartitionIndex {
    file: ChunkedFile,
    root: u64,
    first_key: Box<[u8]>,
    last_key: Box<[u8]>,
    pinned: Vec<PinnedPage>,
}

impl PartitionIndex {
    /// Bytes of pages that stay and of what checks the others.
    pub fn memory_bytes(&self) -> usize {
        let pinned = self.pinned.iter().map(|page| page.bytes.len());
        self.file.memory_bytes() + pinned.sum::<usize>()
    }

    pub fn open(file: ChunkedFile) -> Result<Self, ReadError> {
        check_page_length(&file)?;
        // Nothing is kept in it; it only counts.
        let cache = PageCache::new(0);
        let pages = Pages::from(&cache);
        let footer_at = file.length().saturating_sub(FOOTER_BYTES);
        let [keys_at, root] = read_at(&file, pages, footer_at, FOOTER_BYTES, |bytes| {
            let mut reader = ByteReader::new(bytes);
            let (keys_at, count, root) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let keys_fit = keys_at < footer_at && footer_at - keys_at <= KEYS_BYTES_MAX;
            if !keys_fit || root >= keys_at {
                return Err(DecodeError::malformed(
                    0,
                    "a footer whose root and keys lie before it",
                    keys_at,
                ));
            }
            // Each partition has a byte of its own at least.
            if count == 0 || count > keys_at {
                return Err(DecodeError::malformed(
                    8,
                    "a number of partitions that fit",
                    count,
                ));
            }
            Ok([keys_at, root])
        })?;
        let (first_key, last_key) = read_at(&file, pages, keys_at, footer_at - keys_at, |bytes| {
            let mut reader = ByteReader::new(bytes);
            let first = reader.bytes_after_u16()?.into();
            let last = reader.bytes_after_u16()?.into();
            reader.finish()?;
            Ok((first, last))
        })?;
        let pinned = vec![PinnedPage::read(&file, root / PAGE_BYTES as u64)?];
        Ok(PartitionIndex {
            file,
            root,
            first_key,
            last_key,
            pinned,
        })
    }

    pub fn first_key(&self) -> &[u8] {
        &self.first_key
    }

    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    pub fn file(&self) -> &ChunkedFile {
        &self.file
    }

    /// Where a key's partition is if there is one; it may also be another's, whose key is like it up to where neighbours
    /// differ and whose hash has the same byte.
    pub fn find<'a>(
        &'a self,
        pages: Pages<'a>,
        token: Token,
        key: &[u8],
    ) -> Result<Option<PartitionPlace>, ReadError> {
        let mut translated = Vec::with_capacity(16 + key.len());
        push_partition_key(&mut translated, token, key);
        let hash = hash_byte(murmur3_x64_128(key));
        let found = self.trie(pages).follow(self.root, &translated, |payload| {
            let (stored_hash, place) = read_payload(payload)?;
            Ok(stored_hash.is_none_or(|stored| stored == hash).then_some(place))
        })?;
        Ok(found.flatten())
    }

    /// Partitions from the first that may not lie before a bound, one by one; the first may still lie before it.
    pub fn scan<'a>(
        &'a self,
        pages: Pages<'a>,
        start: &PartitionBound<'_>,
    ) -> Result<PartitionIndexCursor<'a>, ReadError> {
        let mut trie = TrieCursor::new(self.trie(pages), self.root)?;
        let mut translated = Vec::new();
        push_partition_bound(&mut translated, start);
        if !trie.floor(&translated)? {
            trie.first()?;
        }
        Ok(PartitionIndexCursor {
            trie,
            is_begun: false,
        })
    }

    fn trie<'a>(&'a self, pages: Pages<'a>) -> TrieFile<'a> {
        TrieFile {
            file: &self.file,
            pages,
            pinned: &self.pinned,
        }
    }
}

/// Walks the partitions of an index in order.
#[derive(Debug)]
pub(crate) struct PartitionIndexCursor<'a> {
    trie: TrieCursor<'a>,
    is_begun: bool,
}

impl PartitionIndexCursor<'_> {
    pub fn next(&mut self) -> Result<Option<PartitionPlace>, ReadError> {
        if self.is_begun && !self.trie.next()? {
            return Ok(None);
        }
        self.is_begun = true;
        self.trie
            .read(|payload| read_payload(payload).map(|(_, place)| place))
            .map(Some)
    }
}

fn read_payload(payload: StoredPayload<'_>) -> Result<(Option<u8>, PartitionPlace), &'static str> {
    const WANTED: &str = "a partition's position within the page";
    let (hash, length, bytes) = match payload.bytes.split_first() {
        Some((hash, rest)) if payload.bits >= BITS_WITH_HASH => {
            (Some(*hash), payload.bits - BITS_WITH_HASH + 1, rest)
        }
        _ => (None, payload.bits, payload.bytes),
    };
    let stored = bytes.get(..usize::from(length)).ok_or(WANTED)?;
    Ok((hash, PartitionPlace::of_stored(read_sized(stored))))
}

/// Our own checksums could be of pages of another length, though we write none such.
pub(super) fn check_page_length(file: &ChunkedFile) -> Result<(), ReadError> {
    if file.page_bytes() == PAGE_BYTES as u64 {
        return Ok(());
    }
    let error = DecodeError::malformed(0, "checksums of the pages of a trie", file.page_bytes());
    Err(error.in_file(file.path(), 0))
}

/// Decodes bytes of a file that the caller knows to be there.
fn read_at<T>(
    file: &ChunkedFile,
    pages: Pages<'_>,
    position: u64,
    length: u64,
    decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
) -> Result<T, ReadError> {
    let mut stream = ChunkStream::new(file, pages);
    stream.seek(position);
    let length = length as usize;
    if !stream.ensure(length)? {
        return Err(DecodeError::Truncated { needed: length }.in_file(file.path(), position));
    }
    let bytes = stream.available().get(..length).unwrap_or_default();
    decode(bytes).map_err(|error| error.in_file(file.path(), position))
}
