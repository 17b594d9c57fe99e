//! Blocks.db: an index of the rows of large partitions, so that any row is at most two reads away. Ours, ignored by
//! Cassandra, beside whatever index the format has.
//!
//! Pages of 4 KiB describe blocks of a few rows each; what tells which page to look at is in memory. A page holds
//! blocks of one partition:
//!
//! | field | bytes |
//! |---|---|
//! | blocks | 2: their number |
//! | end | 8: where the last of them ends, from the partition's start |
//! | entries | per block 2: its place in the page |
//! | entry: flags | 1: 1 a range deletion is in force before the block, 2 it has markers, 4 it has a filter |
//! | entry: deletion | 12, with flag 1: timestamp in microseconds, local time in seconds |
//! | entry: first | the place of the first row or marker |
//! | entry: start | vint: from the partition's start |
//! | entry: filter | with flag 4: vint: number of rows, then per row 2: a hash of its clustering |
//!
//! Behind the pages lies the directory, which is read when the SSTable is opened:
//!
//! | field | bytes |
//! |---|---|
//! | version | 4: 1 |
//! | pages | 4: their number, then the CRC32 of each |
//! | partitions | 4: their number |
//! | partition: key | 2-byte length, bytes |
//! | partition: position | vint: in Data.db |
//! | partition: header length | vint: from the partition's start to its first row |
//! | partition: deletion | 12: as that of an entry |
//! | partition: pages | 4: the first, 4: their number |
//! | partition: page | per page the place of its first row or marker, then a vint: that one's start |
//! | length | 8: of all fields before, from the version on |
//! | checksum | 4: CRC32 of all fields before |

use std::path::Path;
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_types::CqlType;
use helenus_types::Token;
use helenus_types::token::{murmur3_x64_128, token_of};
use helenus_vfs::File;

use crate::block::chunk_stream::ChunkStream;
use crate::block::chunked_file::{ChunkedFile, Form};
use crate::block::pages::Pages;
use crate::decode::{ByteReader, DecodeError};
use crate::error::ReadError;
use crate::index::entry::BlockSpan;
use crate::rows::clustering_codec::{ClusteringCodec, Place};
use helenus_rows::deletion::DeletionTime;

pub(crate) const VERSION: u32 = 1;
/// The page of common file systems and drives.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Number of blocks and end.
pub(crate) const PAGE_HEAD_BYTES: usize = 10;
/// Length and checksum.
pub(crate) const DIRECTORY_FOOT_BYTES: usize = 12;

pub(crate) const FLAG_OPEN_BEFORE: u8 = 1;
pub(crate) const FLAG_HAS_MARKERS: u8 = 2;
pub(crate) const FLAG_HAS_FILTER: u8 = 4;

/// The least that a page takes in the directory beside its place: the vint of its start.
const DIRECTORY_START_BYTES_MIN: usize = 1;
/// The least that a partition takes there: key, position, header length, deletion, pages.
const DIRECTORY_PARTITION_BYTES_MIN: usize = 24;

/// An open Blocks.db: its directory, and the pages to be read.
#[derive(Debug)]
pub(crate) struct BlockFile {
    pages: ChunkedFile,
    /// In the order of Data.db.
    partitions: Vec<LargePartition>,
    /// True if equal clustering keys have equal bytes, without which their hashes say nothing.
    can_filter: bool,
}

/// A partition that is large enough to have pages.
#[derive(Debug)]
pub(crate) struct LargePartition {
    token: Token,
    pub key: Box<[u8]>,
    /// In Data.db.
    pub position: u64,
    pub header_length: u64,
    pub deletion: DeletionTime,
    first_page: u32,
    /// Fence of each page, ascending.
    fences: Vec<Fence>,
}

/// Start of a page's first block: its first place, and its offset.
#[derive(Debug)]
struct Fence {
    first: Place,
    start: u64,
}

/// A hash of a clustering key, in its packed form, as filters hold it.
pub(crate) fn fingerprint(clustering: &[u8]) -> u16 {
    murmur3_x64_128(clustering)[0] as u16
}

/// Returns whether no two different values of a table's clustering columns are equal; booleans are, which any byte but 0 makes
/// true.
pub(crate) fn has_unique_bytes(table: &TableMetadata) -> bool {
    table.clustering().iter().all(|column| {
        matches!(
            column.cql_type,
            CqlType::Ascii
                | CqlType::Bigint
                | CqlType::Blob
                | CqlType::Date
                | CqlType::Inet
                | CqlType::Int
                | CqlType::Smallint
                | CqlType::Text
                | CqlType::Time
                | CqlType::Timestamp
                | CqlType::Timeuuid
                | CqlType::Tinyint
                | CqlType::Uuid
        )
    })
}

/// The same for all versions: a timestamp, then seconds, both of fixed size.
pub(crate) fn push_deletion(out: &mut Vec<u8>, deletion: DeletionTime) {
    out.extend_from_slice(&deletion.timestamp_us.to_be_bytes());
    out.extend_from_slice(&deletion.local_s.to_be_bytes());
}

fn read_deletion(reader: &mut ByteReader<'_>) -> Result<DeletionTime, DecodeError> {
    Ok(DeletionTime {
        timestamp_us: reader.i64()?,
        local_s: reader.u32()?,
    })
}

impl LargePartition {
    fn memory_bytes(&self) -> usize {
        let fences = self.fences.iter().map(|fence| fence.first.prefix.len());
        size_of::<Self>() + self.key.len() + size_of_val(self.fences.as_slice()) + fences.sum::<usize>()
    }
}

impl BlockFile {
    /// Bytes of the directory and of what checks the pages.
    pub fn memory_bytes(&self) -> usize {
        let partitions = self.partitions.iter().map(LargePartition::memory_bytes);
        self.pages.memory_bytes() + partitions.sum::<usize>()
    }

    /// Reads the directory at the end of the file. `can_filter` if equal clusterings have equal bytes.
    pub fn open(
        path: &Path,
        file: Arc<dyn File>,
        length: u64,
        codec: &ClusteringCodec,
        can_filter: bool,
    ) -> Result<Self, ReadError> {
        let read = |offset: u64, length: usize| {
            let mut bytes = vec![0; length];
            file.read_exact_at(offset, &mut bytes)
                .map(|()| bytes)
                .map_err(|source| ReadError::Io {
                    file: path.to_path_buf(),
                    source,
                })
        };
        let wrong =
            |offset, wanted, found: String| DecodeError::malformed(0, wanted, found).in_file(path, offset);
        let foot_at = length
            .checked_sub(DIRECTORY_FOOT_BYTES as u64)
            .ok_or_else(|| wrong(0, "a directory", format!("{length} bytes")))?;
        let foot = read(foot_at, DIRECTORY_FOOT_BYTES)?;
        let mut reader = ByteReader::new(&foot);
        let in_file = |base| move |error: DecodeError| error.in_file(path, base);
        let directory_length = reader.u64().map_err(in_file(foot_at))?;
        let checksum = reader.u32().map_err(in_file(foot_at))?;
        let directory_at = foot_at
            .checked_sub(directory_length)
            .filter(|at| at.is_multiple_of(PAGE_BYTES as u64))
            .ok_or_else(|| {
                wrong(
                    foot_at,
                    "a directory behind whole pages",
                    directory_length.to_string(),
                )
            })?;
        let directory = read(directory_at, directory_length as usize)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&directory);
        hasher.update(&foot[..8]);
        let found = hasher.finalize();
        if found != checksum {
            let found = format!("CRC32 {found:08x} instead of {checksum:08x}");
            return Err(wrong(
                directory_at,
                "a directory that matches its checksum",
                found,
            ));
        }
        let (checksums, partitions) =
            decode_directory(&directory, directory_at, codec).map_err(in_file(directory_at))?;
        let form = Form::Plain {
            chunk_bytes: PAGE_BYTES as u32,
            checksums: Some(checksums),
        };
        Ok(BlockFile {
            pages: ChunkedFile::sidecar(path.to_path_buf(), file, directory_at, form),
            partitions,
            can_filter,
        })
    }

    /// Returns whether a page could not be read: the format's own index is asked from then on.
    pub fn has_failed(&self) -> bool {
        self.pages.has_failed()
    }

    /// The partition of a key, if it is a large one.
    pub fn find(&self, token: Token, key: &[u8]) -> Option<&LargePartition> {
        let index = self
            .partitions
            .binary_search_by(|partition| (partition.token, &*partition.key).cmp(&(token, key)))
            .ok()?;
        self.partitions.get(index)
    }

    pub fn blocks<'a>(
        &'a self,
        partition: &'a LargePartition,
        codec: &'a ClusteringCodec,
        pages: Pages<'a>,
    ) -> PagedBlocks<'a> {
        PagedBlocks {
            file: self,
            partition,
            codec,
            stream: ChunkStream::new(&self.pages, pages),
        }
    }
}

fn decode_directory(
    bytes: &[u8],
    pages_length: u64,
    codec: &ClusteringCodec,
) -> Result<(Vec<u32>, Vec<LargePartition>), DecodeError> {
    let mut reader = ByteReader::new(bytes);
    let version = reader.u32()?;
    if version != VERSION {
        return Err(DecodeError::malformed(0, "version 1", version));
    }
    let page_count = reader.count_u32(4)?;
    if page_count as u64 != pages_length / PAGE_BYTES as u64 {
        return Err(DecodeError::malformed(4, "a checksum for each page", page_count));
    }
    let checksums = (0..page_count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
    let count = reader.count_u32(DIRECTORY_PARTITION_BYTES_MIN)?;
    let mut partitions: Vec<LargePartition> = Vec::with_capacity(count);
    for _ in 0..count {
        let at = reader.position();
        let partition = decode_partition(&mut reader, page_count, codec)?;
        let follows = partitions
            .last()
            .is_none_or(|last| (last.token, &last.key) < (partition.token, &partition.key));
        if !follows {
            return Err(DecodeError::malformed(
                at,
                "partitions in order",
                "one out of order",
            ));
        }
        partitions.push(partition);
    }
    reader.finish()?;
    Ok((checksums, partitions))
}

fn decode_partition(
    reader: &mut ByteReader<'_>,
    page_count: usize,
    codec: &ClusteringCodec,
) -> Result<LargePartition, DecodeError> {
    let key: Box<[u8]> = reader.bytes_after_u16()?.into();
    let position = reader.unsigned_vint()?;
    let header_length = reader.unsigned_vint()?;
    let deletion = read_deletion(reader)?;
    let first_page = reader.u32()?;
    let pages_at = reader.position();
    let count = reader.count_u32(codec.place_bytes_min() + DIRECTORY_START_BYTES_MIN)?;
    if count == 0 || (first_page as usize).saturating_add(count) > page_count {
        return Err(DecodeError::malformed(pages_at, "pages of the file", count));
    }
    let mut fences = Vec::with_capacity(count);
    for _ in 0..count {
        fences.push(Fence {
            first: codec.read_place(reader)?,
            start: reader.unsigned_vint()?,
        });
    }
    Ok(LargePartition {
        token: token_of(&key),
        key,
        position,
        header_length,
        deletion,
        first_page,
        fences,
    })
}

/// The blocks of one partition, with a stream of the file to read them by.
#[derive(Debug)]
pub(crate) struct PagedBlocks<'a> {
    file: &'a BlockFile,
    partition: &'a LargePartition,
    codec: &'a ClusteringCodec,
    stream: ChunkStream<'a>,
}

/// One entry of a page.
struct PageEntry<'p> {
    flags: u8,
    open_before: DeletionTime,
    first: Place,
    start: u64,
    filter: &'p [u8],
}

/// In the ids of blocks of this index, so that they are not taken for those of another one of the same partition.
pub(crate) const PAGED_ID: u64 = 1 << 63;

/// A page of the partition and a block in it.
#[derive(Clone, Copy)]
struct Slot {
    page: u32,
    index: u16,
}

impl Slot {
    fn id(self) -> u64 {
        PAGED_ID | u64::from(self.page) << 16 | u64::from(self.index)
    }

    fn of(id: u64) -> Self {
        Slot {
            page: (id >> 16) as u32,
            index: id as u16,
        }
    }
}

impl PagedBlocks<'_> {
    pub fn last_where(&mut self, holds: &dyn Fn(&Place) -> bool) -> Result<BlockSpan, ReadError> {
        let page = self.page_where(holds);
        let index = self.index_where(page, holds)?;
        self.span(Slot { page, index })
    }

    pub fn before(&mut self, block: &BlockSpan) -> Result<Option<BlockSpan>, ReadError> {
        let Slot { page, index } = Slot::of(block.id);
        let slot = match (index.checked_sub(1), page.checked_sub(1)) {
            (Some(index), _) => Slot { page, index },
            (None, Some(page)) => {
                let index = self.block_count(page)?.saturating_sub(1);
                Slot { page, index }
            }
            (None, None) => return Ok(None),
        };
        self.span(slot).map(Some)
    }

    /// Exact within the page of the first block; else up to the end of the last page, which the directory knows.
    pub fn end_where(&mut self, from: &BlockSpan, holds: &dyn Fn(&Place) -> bool) -> Result<u64, ReadError> {
        let page = self.page_where(holds);
        if page == Slot::of(from.id).page {
            let index = self.index_where(page, holds)?;
            return Ok(self.span(Slot { page, index })?.end);
        }
        match self.partition.fences.get(page as usize + 1) {
            Some(next) => Ok(next.start),
            None => Ok(u64::MAX),
        }
    }

    /// Returns whether a key's row is certainly not in its block, and nothing else there could concern it.
    pub fn lacks(&mut self, block: &BlockSpan, clustering: &[u8]) -> Result<bool, ReadError> {
        if !self.file.can_filter {
            return Ok(false);
        }
        let wanted = fingerprint(clustering).to_be_bytes();
        self.entry(Slot::of(block.id), |entry| {
            entry.flags & (FLAG_OPEN_BEFORE | FLAG_HAS_MARKERS) == 0
                && entry.flags & FLAG_HAS_FILTER != 0
                && !entry.filter.chunks_exact(2).any(|held| held == wanted)
        })
    }

    /// Found in memory.
    fn page_where(&self, holds: &dyn Fn(&Place) -> bool) -> u32 {
        let after = self.partition.fences.partition_point(|fence| holds(&fence.first));
        after.saturating_sub(1) as u32
    }

    fn index_where(&mut self, page: u32, holds: &dyn Fn(&Place) -> bool) -> Result<u16, ReadError> {
        let (mut low, mut high) = (0, self.block_count(page)?);
        while high - low > 1 {
            let index = low + (high - low) / 2;
            if self.entry(Slot { page, index }, |entry| holds(&entry.first))? {
                low = index;
            } else {
                high = index;
            }
        }
        Ok(low)
    }

    fn span(&mut self, slot: Slot) -> Result<BlockSpan, ReadError> {
        let next = Slot {
            index: slot.index + 1,
            ..slot
        };
        let end = if next.index < self.block_count(slot.page)? {
            self.entry(next, |entry| entry.start)?
        } else {
            self.head(slot.page)?.1
        };
        let span = self.entry(slot, |entry| BlockSpan {
            id: slot.id(),
            start: entry.start,
            end,
            first: Some(entry.first),
            open_before: entry.open_before,
        })?;
        if span.end <= span.start {
            let found = format!("{} to {}", span.start, span.end);
            let error = DecodeError::malformed(0, "the bounds of a block", found);
            let error = error.in_file(self.stream.path(), 0);
            return self.noting_failure(Err(error));
        }
        Ok(span)
    }

    fn block_count(&mut self, page: u32) -> Result<u16, ReadError> {
        Ok(self.head(page)?.0)
    }

    /// The number of blocks of a page, at least one, and where they end.
    fn head(&mut self, page: u32) -> Result<(u16, u64), ReadError> {
        self.seek(page);
        let head = self.stream.decode(|bytes| {
            let mut reader = ByteReader::new(bytes);
            let count = reader.u16()?;
            if count == 0 {
                return Err(DecodeError::malformed(0, "a page with blocks", count));
            }
            Ok((count, reader.u64()?))
        });
        self.noting_failure(head)
    }

    fn noting_failure<T>(&self, read: Result<T, ReadError>) -> Result<T, ReadError> {
        if matches!(read, Err(ReadError::Io { .. } | ReadError::Corrupt { .. })) {
            self.file.pages.note_failure();
        }
        read
    }

    fn entry<T>(&mut self, slot: Slot, take: impl Fn(PageEntry<'_>) -> T) -> Result<T, ReadError> {
        self.seek(slot.page);
        let codec = self.codec;
        let entry = self.stream.decode(|bytes| {
            let page = bytes
                .get(..PAGE_BYTES)
                .ok_or(DecodeError::Truncated { needed: PAGE_BYTES })?;
            let mut reader = ByteReader::new(page);
            reader.bytes(PAGE_HEAD_BYTES + 2 * usize::from(slot.index))?;
            let at = usize::from(reader.u16()?);
            let entry = page.get(at..).unwrap_or_default();
            read_entry(entry, codec)
                .map(&take)
                .map_err(|error| error.within_part(at))
        });
        self.noting_failure(entry)
    }

    fn seek(&mut self, page: u32) {
        let page = u64::from(self.partition.first_page) + u64::from(page);
        self.stream.seek(page * PAGE_BYTES as u64);
    }
}

fn read_entry<'p>(bytes: &'p [u8], codec: &ClusteringCodec) -> Result<PageEntry<'p>, DecodeError> {
    let mut reader = ByteReader::new(bytes);
    let flags = reader.u8()?;
    let open_before = if flags & FLAG_OPEN_BEFORE != 0 {
        read_deletion(&mut reader)?
    } else {
        DeletionTime::LIVE
    };
    let first = codec.read_place(&mut reader)?;
    let start = reader.unsigned_vint()?;
    let filter = if flags & FLAG_HAS_FILTER != 0 {
        let count = reader.count_vint(2)?;
        reader.bytes(2 * count)?
    } else {
        &[]
    };
    Ok(PageEntry {
        flags,
        open_before,
        first,
        start,
        filter,
    })
}
