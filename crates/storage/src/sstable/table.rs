//! An SSTable, open for reading.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_types::Token;
use helenus_types::token::token_of;
use helenus_vfs::Disk;

use super::block_file::{BlockFile, LargePartition};
use super::blocks::Blocks;
use super::bloom::BloomFilter;
use super::bti::BtiIndex;
use super::checksums::Checksums;
use super::chunk_stream::ChunkStream;
use super::chunked_file::{ChunkedFile, Form};
use super::component::Component;
use super::component_writer::INDEX_PAGE_BYTES;
use super::compression::{CompressionInfo, CompressionInfoError};
use super::cursor::SsTableCursor;
use super::decode::{ByteReader, DecodeError};
use super::descriptor::Descriptor;
use super::encoding_stats::EncodingStats;
use super::error::OpenError;
use super::header::Header;
use super::index::{BlockIndex, IndexEntry, PromotedBlocks};
use super::index_reader::{BigIndex, IndexReader};
use super::pages::Pages;
use super::partition_reader::{PartitionPlace, PartitionReader};
use super::scanner::{ScanRange, SsTableScanner};
use super::statistics::SsTableStatistics;
use super::statistics_file::StatisticsFile;
use super::summary::Summary;
use super::version::IndexForm;
use crate::clustering::{ClusteringComparator, Slice};
use crate::error::ReadError;
use crate::read::PartitionBound;

/// One immutable SSTable: small components in memory, Data.db and Index.db read through a [`PageCache`](super::PageCache).
#[derive(Debug)]
pub struct SsTable {
    descriptor: Descriptor,
    directory: PathBuf,
    comparator: ClusteringComparator,
    header: Header,
    statistics: SsTableStatistics,
    filter: Option<BloomFilter>,
    data: ChunkedFile,
    pub(super) index: IndexReader,
    /// Of large partitions, if we wrote the SSTable.
    blocks: Option<BlockFile>,
    disk_bytes: u64,
    first_token: Token,
    last_token: Token,
}

/// The largest component that is read whole: a bloom filter of 2 GiB. Bounds what a damaged disk can ask for.
const COMPONENT_BYTES_MAX: u64 = 2 << 30;

impl SsTable {
    pub fn open(
        disk: &dyn Disk,
        directory: &Path,
        descriptor: Descriptor,
        table: &TableMetadata,
    ) -> Result<Arc<SsTable>, OpenError> {
        let mut files = Components {
            disk,
            directory,
            descriptor,
            disk_bytes: 0,
        };
        let statistics_path = descriptor.path(directory, Component::Statistics);
        let statistics_bytes = files.read(Component::Statistics)?;
        let file = StatisticsFile::decode(&statistics_bytes, descriptor.version, &statistics_path)?;
        let header = file.header.bind(table, descriptor.version, &statistics_path)?;

        let mut checksums = match files.read_if_there(Component::Checksums)? {
            None => None,
            Some(bytes) => Some(files.decode(Component::Checksums, Checksums::decode(&bytes))?),
        };
        let index = files.open_index(checksums.as_mut())?;
        let filter = match files.read_if_there(Component::Filter)? {
            None => None,
            Some(bytes) => {
                files.check(
                    Component::Filter,
                    &bytes,
                    checksums.as_ref().map(|sums| sums.filter),
                )?;
                Some(files.decode(Component::Filter, BloomFilter::decode(&bytes, descriptor.version))?)
            }
        };
        let data = files.open_data(checksums.as_mut())?;
        let blocks = if files.is_there(Component::Blocks)? {
            let (file, length) = files.open(Component::Blocks)?;
            let path = files.path(Component::Blocks);
            Some(BlockFile::open(&path, file, length, &header.clustering, table)?)
        } else {
            None
        };
        Ok(Arc::new(SsTable {
            descriptor,
            directory: directory.to_path_buf(),
            comparator: ClusteringComparator::of(table),
            header,
            statistics: file.stats,
            filter,
            first_token: token_of(index.first_key()),
            last_token: token_of(index.last_key()),
            data,
            index,
            blocks,
            disk_bytes: files.disk_bytes,
        }))
    }

    pub fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn statistics(&self) -> &SsTableStatistics {
        &self.statistics
    }

    /// What a compaction of this SSTable can encode its output relative to.
    pub fn encoding_stats(&self) -> EncodingStats {
        self.header.stats
    }

    /// Uncompressed bytes of Data.db.
    pub fn data_bytes(&self) -> u64 {
        self.data.length()
    }

    /// Of all components.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    pub fn first_token(&self) -> Token {
        self.first_token
    }

    pub fn last_token(&self) -> Token {
        self.last_token
    }

    pub fn first_key(&self) -> &[u8] {
        self.index.first_key()
    }

    pub fn last_key(&self) -> &[u8] {
        self.index.last_key()
    }

    /// Whether a partition can be in the file; false is certain.
    pub fn may_contain(&self, token: Token, key: &[u8]) -> bool {
        (self.first_token..=self.last_token).contains(&token)
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain(key))
    }

    /// Whether the file can have partitions between two tokens, both included.
    pub fn may_overlap(&self, first: Token, last: Token) -> bool {
        first <= self.last_token && self.first_token <= last
    }

    /// One partition within slices, which are disjoint and in clustering order also when `reversed`.
    pub fn partition<'a>(
        &'a self,
        pages: impl Into<Pages<'a>>,
        token: Token,
        key: &[u8],
        slices: &'a [Slice],
        reversed: bool,
    ) -> Result<Option<SsTableCursor<'a>>, ReadError> {
        if !self.may_contain(token, key) || !self.may_meet(slices) {
            return Ok(None);
        }
        let pages = pages.into();
        let mut cursor = self.cursor(ChunkStream::new(&self.data, pages), slices, reversed);
        if let Some(large) = self.large_partition(token, key) {
            self.open_large(&mut cursor, pages, large)?;
            return Ok(Some(cursor));
        }
        let Some(entry) = self.index.find(pages, token, key)? else {
            return Ok(None);
        };
        let is_there = self.open_partition(&mut cursor, pages, &entry)?;
        Ok(is_there.then_some(cursor))
    }

    fn cursor<'a>(
        &'a self,
        stream: ChunkStream<'a>,
        slices: &'a [Slice],
        reversed: bool,
    ) -> SsTableCursor<'a> {
        let reader = PartitionReader::new(&self.header, stream);
        SsTableCursor::new(reader, &self.comparator, slices, reversed)
    }

    /// Whether it has nothing of a partition but rows and range deletions; true is certain.
    pub fn has_only_rows(&self) -> bool {
        self.header.statics.columns.is_empty() && !self.statistics.has_partition_deletions
    }

    /// Whether slices can have rows in the file, or a partition anything else that a read needs. Only where nothing is
    /// deleted and nothing static is certain not to be missed.
    fn may_meet(&self, slices: &[Slice]) -> bool {
        if !self.has_only_rows() || slices.is_empty() {
            return true;
        }
        let covered = &self.statistics.covered;
        slices.iter().any(|slice| {
            self.comparator
                .compare_bounds(
                    (&slice.start.prefix, slice.start.side),
                    (&covered.end.prefix, covered.end.side),
                )
                .is_lt()
                && self
                    .comparator
                    .compare_bounds(
                        (&covered.start.prefix, covered.start.side),
                        (&slice.end.prefix, slice.end.side),
                    )
                    .is_lt()
        })
    }

    /// Partitions between two bounds, each within the slices and, row by row, in the given direction.
    pub fn scan<'a>(
        &'a self,
        pages: impl Into<Pages<'a>>,
        start: PartitionBound<'a>,
        end: PartitionBound<'a>,
        slices: &'a [Slice],
        reversed: bool,
    ) -> SsTableScanner<'a> {
        let pages = pages.into();
        let data = ChunkStream::sequential(&self.data, pages);
        let cursor = self.cursor(data, slices, reversed);
        SsTableScanner::new(self, pages, cursor, ScanRange { start, end })
    }

    /// Moves a cursor to a partition; false for a candidate that turns out to be another key's.
    pub(super) fn open_partition<'a>(
        &'a self,
        cursor: &mut SsTableCursor<'a>,
        pages: Pages<'a>,
        entry: &IndexEntry,
    ) -> Result<bool, ReadError> {
        if entry.blocks.is_some()
            && let Some(large) = self.large_partition(entry.token, &entry.key)
        {
            return self.open_large(cursor, pages, large);
        }
        let file = self.index.blocks_file();
        let (head, blocks) = match entry.blocks {
            None => (None, None),
            Some(BlockIndex::Promoted(promoted)) => {
                let blocks = PromotedBlocks {
                    promoted,
                    stream: ChunkStream::new(file, pages),
                    codec: &self.header.clustering,
                };
                let blocks = (promoted.block_count > 1).then_some(Blocks::Promoted(blocks));
                (Some((promoted.header_length, promoted.deletion)), blocks)
            }
            Some(BlockIndex::Trie(trie)) => {
                let mut blocks = trie.blocks(file, pages, &self.comparator)?;
                (
                    Some((blocks.header_length()?, trie.deletion)),
                    Some(Blocks::Trie(blocks)),
                )
            }
        };
        let place = PartitionPlace {
            key: &entry.key,
            position: entry.position,
            end: entry.end,
            is_candidate: entry.is_candidate,
            head: head.filter(|_| file.is_checked()),
        };
        cursor.open(&place, blocks)
    }

    fn large_partition(&self, token: Token, key: &[u8]) -> Option<&LargePartition> {
        self.blocks.as_ref()?.find(token, key)
    }

    fn open_large<'a>(
        &'a self,
        cursor: &mut SsTableCursor<'a>,
        pages: Pages<'a>,
        large: &'a LargePartition,
    ) -> Result<bool, ReadError> {
        let place = PartitionPlace {
            key: &large.key,
            position: large.position,
            end: None,
            is_candidate: false,
            head: Some((large.header_length, large.deletion)),
        };
        let blocks = self.blocks.as_ref();
        let blocks = blocks.map(|file| Blocks::Paged(file.blocks(large, &self.header.clustering, pages)));
        cursor.open(&place, blocks)
    }
}

/// The components of one SSTable while it is opened.
struct Components<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
    descriptor: Descriptor,
    disk_bytes: u64,
}

impl Components<'_> {
    fn path(&self, component: Component) -> PathBuf {
        self.descriptor.path(self.directory, component)
    }

    fn io(&self, component: Component) -> impl Fn(io::Error) -> ReadError + use<> {
        let file = self.path(component);
        move |source| ReadError::Io {
            file: file.clone(),
            source,
        }
    }

    fn open(&mut self, component: Component) -> Result<(Arc<dyn helenus_vfs::File>, u64), ReadError> {
        let io = self.io(component);
        let file = self.disk.open(&self.path(component)).map_err(&io)?;
        let length = file.length().map_err(&io)?;
        self.disk_bytes += length;
        Ok((file, length))
    }

    fn read(&mut self, component: Component) -> Result<Vec<u8>, ReadError> {
        let (file, length) = self.open(component)?;
        if length > COMPONENT_BYTES_MAX {
            let error = DecodeError::malformed(0, "at most 2 GiB", length);
            return Err(error.in_file(&self.path(component), 0));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(0, &mut bytes).map_err(self.io(component))?;
        Ok(bytes)
    }

    fn is_there(&self, component: Component) -> Result<bool, ReadError> {
        self.disk
            .exists(&self.path(component))
            .map_err(self.io(component))
    }

    fn read_if_there(&mut self, component: Component) -> Result<Option<Vec<u8>>, ReadError> {
        if self.is_there(component)? {
            self.read(component).map(Some)
        } else {
            Ok(None)
        }
    }

    fn decode<T>(&self, component: Component, result: Result<T, DecodeError>) -> Result<T, ReadError> {
        result.map_err(|error| error.in_file(&self.path(component), 0))
    }

    /// Against the checksum that we wrote beside it, if we did.
    fn check(&self, component: Component, bytes: &[u8], wanted: Option<u32>) -> Result<(), ReadError> {
        let found = crc32fast::hash(bytes);
        match wanted {
            Some(wanted) if wanted != found => {
                let found = format!("CRC32 {found:08x} instead of {wanted:08x}");
                let error = DecodeError::malformed(0, "a component that matches its checksum", found);
                Err(error.in_file(&self.path(component), 0))
            }
            _ => Ok(()),
        }
    }

    /// The pages that we wrote checksums of, if we did.
    fn pages_of(
        &self,
        component: Component,
        length: u64,
        checksums: Option<&mut Checksums>,
    ) -> Result<Option<Form>, ReadError> {
        let Some(checksums) = checksums else {
            return Ok(None);
        };
        let list = self.decode(Component::Checksums, checksums.take(component, length))?;
        Ok(list.map(|list| Form::Plain {
            chunk_bytes: list.page_bytes,
            checksums: Some(list.checksums),
        }))
    }

    fn open_index(&mut self, mut checksums: Option<&mut Checksums>) -> Result<IndexReader, ReadError> {
        match self.descriptor.version.index_form() {
            IndexForm::Big => {
                let file = self.open_paged(Component::Index, checksums.as_deref_mut())?;
                let bytes = self.read(Component::Summary)?;
                self.check(Component::Summary, &bytes, checksums.map(|sums| sums.summary))?;
                let summary = Summary::decode(&bytes, file.length());
                Ok(IndexReader::Big(BigIndex {
                    version: self.descriptor.version,
                    summary: self.decode(Component::Summary, summary)?,
                    file,
                }))
            }
            IndexForm::Bti => {
                let partitions = self.open_paged(Component::Partitions, checksums.as_deref_mut())?;
                let rows = self.open_paged(Component::Rows, checksums)?;
                BtiIndex::open(partitions, rows).map(IndexReader::Bti)
            }
        }
    }

    /// A component that is read in pages, checked where we wrote checksums of them.
    fn open_paged(
        &mut self,
        component: Component,
        checksums: Option<&mut Checksums>,
    ) -> Result<ChunkedFile, ReadError> {
        let (file, length) = self.open(component)?;
        let pages = self.pages_of(component, length, checksums)?;
        let form = pages.unwrap_or(Form::Plain {
            chunk_bytes: INDEX_PAGE_BYTES,
            checksums: None,
        });
        Ok(ChunkedFile::new(self.path(component), file, length, form))
    }

    fn open_data(&mut self, checksums: Option<&mut Checksums>) -> Result<ChunkedFile, OpenError> {
        let chunks_checksum = checksums.as_ref().map(|sums| sums.chunks);
        let (file, file_length) = self.open(Component::Data)?;
        let path = self.path(Component::Data);
        if let Some(bytes) = self.read_if_there(Component::CompressionInfo)? {
            self.check(Component::CompressionInfo, &bytes, chunks_checksum)?;
            let info_path = self.path(Component::CompressionInfo);
            let info =
                CompressionInfo::decode(&bytes, self.descriptor.version, file_length).map_err(|error| {
                    match error {
                        CompressionInfoError::Decode(error) => error.in_file(&info_path, 0).into(),
                        CompressionInfoError::UnsupportedCompressor(compressor) => {
                            OpenError::UnsupportedCompressor {
                                file: info_path.clone(),
                                compressor,
                            }
                        }
                    }
                })?;
            let length = info.data_length;
            return Ok(ChunkedFile::data(
                path,
                file,
                length,
                Form::Compressed { info, file_length },
            ));
        }
        let bytes = self.read(Component::Crc)?;
        self.check(Component::Crc, &bytes, chunks_checksum)?;
        let chunks = self.decode(Component::Crc, decode_crc(&bytes, file_length))?;
        let form = self
            .pages_of(Component::Data, file_length, checksums)?
            .unwrap_or(chunks);
        Ok(ChunkedFile::data(path, file, file_length, form))
    }
}

/// CRC.db: the length of a chunk, then a CRC32 for each.
fn decode_crc(bytes: &[u8], data_length: u64) -> Result<Form, DecodeError> {
    let mut reader = ByteReader::new(bytes);
    let chunk_bytes = reader.u32()?;
    // Cassandra uses 64 KiB; anything that keeps one chunk small will do.
    if chunk_bytes == 0 || chunk_bytes > 16 << 20 {
        return Err(DecodeError::malformed(
            0,
            "a chunk length up to 16 MiB",
            chunk_bytes,
        ));
    }
    let count = reader.remaining() / 4;
    if count as u64 != data_length.div_ceil(u64::from(chunk_bytes)) {
        return Err(DecodeError::malformed(4, "a checksum for each chunk", count));
    }
    let checksums = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
    reader.finish()?;
    Ok(Form::Plain {
        chunk_bytes,
        checksums: Some(checksums),
    })
}
