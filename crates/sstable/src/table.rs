//! An SSTable, open for reading.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::{DroppedColumn, TableMetadata};
use helenus_types::Token;
use helenus_types::token::{murmur3_x64_128, token_of};
use helenus_vfs::Disk;

use crate::big::block_file::{BlockFile, LargePartition};
use crate::big::index::PromotedBlocks;
use crate::block::chunk_stream::ChunkStream;
use crate::block::chunked_file::ChunkedFile;
use crate::block::page_cache::PageCache;
use crate::block::pages::Pages;
use crate::bti::TrieFile;
use crate::component::Component;
use crate::component_reader::ComponentReader;
use crate::descriptor::Descriptor;
use crate::error::OpenError;
use crate::error::ReadError;
use crate::index::blocks::Blocks;
use crate::index::entry::BlockIndex;
use crate::index::entry::IndexEntry;
use crate::index::fences::Fences;
use crate::index::reader::IndexReader;
use crate::meta::bloom::BloomFilter;
use crate::meta::cardinality::KeySketch;
use crate::meta::encoding_stats::EncodingStats;
use crate::meta::header::Header;
use crate::meta::statistics::SsTableStatistics;
use crate::rows::cursor::SsTableCursor;
use crate::rows::partition_reader::{PartitionPlace, PartitionReader};
use crate::sidecar::SidecarFault;
use helenus_rows::clustering::{ClusteringComparator, Slice};

/// One immutable SSTable: small components in memory, Data.db and Index.db read through a [`PageCache`].
#[derive(Debug)]
pub struct SsTable {
    descriptor: Descriptor,
    directory: PathBuf,
    comparator: ClusteringComparator,
    header: Header,
    statistics: SsTableStatistics,
    keys: Option<Arc<KeySketch>>,
    filter: Option<BloomFilter>,
    data: ChunkedFile,
    pub(crate) index: IndexReader,
    /// Blocks of large partitions, if we wrote the SSTable.
    blocks: Option<BlockFile>,
    /// If we wrote the SSTable and it has more than a few partitions.
    fences: Option<Fences>,
    sidecar_faults: Vec<SidecarFault>,
    disk_bytes: u64,
    memory_bytes: u64,
    first_token: Token,
    last_token: Token,
}

impl SsTable {
    pub fn open(
        disk: &dyn Disk,
        directory: &Path,
        descriptor: Descriptor,
        table: &TableMetadata,
    ) -> Result<Arc<SsTable>, OpenError> {
        let mut components = ComponentReader::new(disk, directory, descriptor)?;
        let file = components.read_statistics()?;
        let statistics_path = descriptor.path(directory, Component::Statistics);
        let header = file.header.bind(table, descriptor.version, &statistics_path)?;
        let index = components.open_index(table.params.min_index_interval.max(1))?;
        let filter = components.read_filter()?;
        let data = components.open_data()?;
        let blocks = components.open_blocks(&header.clustering, table);
        // A damaged key that nothing checks would be taken for another one.
        let fences = data
            .is_checked()
            .then(|| components.read_fences(data.length()))
            .flatten();
        let keys = file.keys.map(|keys| keys.sketch());
        let memory_bytes = filter.as_ref().map_or(0, BloomFilter::memory_bytes)
            + index.memory_bytes()
            + data.memory_bytes()
            + blocks.as_ref().map_or(0, BlockFile::memory_bytes)
            + fences.as_ref().map_or(0, Fences::memory_bytes)
            + keys.as_ref().map_or(0, KeySketch::memory_bytes);
        Ok(Arc::new(SsTable {
            descriptor,
            directory: directory.to_path_buf(),
            comparator: ClusteringComparator::of(table),
            header,
            statistics: file.stats,
            keys: keys.map(Arc::new),
            filter,
            first_token: token_of(index.first_key()),
            last_token: token_of(index.last_key()),
            data,
            index,
            blocks,
            fences,
            sidecar_faults: components.sidecar_faults().to_vec(),
            disk_bytes: components.disk_bytes(),
            memory_bytes: memory_bytes as u64,
        }))
    }

    pub fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns whether cells may come back with a column that the table had when the file was opened, and has no more.
    pub fn holds_newer_than(&self, dropped: &DroppedColumn) -> bool {
        let columns = [&self.header.statics, &self.header.regulars];
        self.statistics().timestamp_us_max > dropped.dropped_at_us
            && columns
                .iter()
                .any(|columns| columns.index_of(dropped.id).is_some())
    }

    /// Tells its rows from those of other SSTables, under whatever id and in whatever folder they are.
    pub fn identity(&self) -> u64 {
        let statistics = &self.statistics;
        let mut bytes = Vec::new();
        for number in [
            self.data.length(),
            statistics.rows,
            statistics.partition_count(),
            statistics.timestamp_us_min.cast_unsigned(),
            statistics.timestamp_us_max.cast_unsigned(),
            self.first_key().len() as u64,
        ] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(self.first_key());
        bytes.extend_from_slice(self.last_key());
        murmur3_x64_128(&bytes)[0]
    }

    pub fn statistics(&self) -> &SsTableStatistics {
        &self.statistics
    }

    /// Tells how many partitions SSTables share; `None` for those of few partitions that Cassandra wrote.
    pub fn keys(&self) -> Option<&Arc<KeySketch>> {
        self.keys.as_ref()
    }

    /// Base values that a compaction of this SSTable can encode its output relative to.
    pub fn encoding_stats(&self) -> EncodingStats {
        self.header.stats
    }

    /// Uncompressed bytes of Data.db.
    pub fn data_bytes(&self) -> u64 {
        self.data.length()
    }

    /// Faults of our components that were there when it was opened and are done without.
    pub fn sidecar_faults(&self) -> &[SidecarFault] {
        &self.sidecar_faults
    }

    /// Returns whether a component of ours could not be read since it was opened, and is done without.
    pub fn has_lost_sidecar(&self) -> bool {
        self.blocks.as_ref().is_some_and(BlockFile::has_failed)
    }

    /// Bytes of all components.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// Bytes that stay in memory while it is open, whatever is read: filter, fences, index samples or pinned pages, checksums.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
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

    /// Returns whether a partition can be in the file; false is certain.
    pub fn may_contain(&self, token: Token, key: &[u8]) -> bool {
        (self.first_token..=self.last_token).contains(&token)
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain(key))
    }

    /// Returns whether the file can have partitions between two tokens, both included.
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
        if let Some(stretch) = self.fences.as_ref().and_then(|fences| fences.find(token)) {
            return Ok(cursor.open_in(stretch, key)?.then_some(cursor));
        }
        let Some(entry) = self.find_entry(pages, token, key)? else {
            return Ok(None);
        };
        match self.open_partition(&mut cursor, pages, key, &entry) {
            Ok(is_there) => Ok(is_there.then_some(cursor)),
            Err(error) => {
                if let (ReadError::Absent(_), Some(ticket)) = (&error, pages.ticket()) {
                    ticket.note_found_entry(self.data.id(), key, entry);
                }
                Err(error)
            }
        }
    }

    /// Where a partition begins in the uncompressed data, as the format's own index says, which reads of small ones do without.
    pub fn position_by_index(
        &self,
        cache: &PageCache,
        token: Token,
        key: &[u8],
    ) -> Result<Option<u64>, ReadError> {
        let entry = self.index.find(cache.into(), token, key)?;
        Ok(entry.map(|entry| entry.position))
    }

    /// By the index, unless an earlier run of the same read has done so.
    fn find_entry(
        &self,
        pages: Pages<'_>,
        token: Token,
        key: &[u8],
    ) -> Result<Option<IndexEntry>, ReadError> {
        let ticket = pages.ticket();
        match ticket.and_then(|ticket| ticket.found_entry(self.data.id(), key)) {
            None => self.index.find(pages, token, key),
            found => Ok(found),
        }
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

    /// Returns whether it has nothing of a partition but rows and range deletions; true is certain.
    pub fn has_only_rows(&self) -> bool {
        self.header.statics.columns.is_empty() && !self.statistics.has_partition_deletions
    }

    /// Returns whether slices can have rows in the file, or a partition anything else that a read needs. Only where nothing is
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

    /// For a scan, which goes through Data.db from partition to partition.
    pub(crate) fn sequential_cursor<'a>(
        &'a self,
        pages: Pages<'a>,
        slices: &'a [Slice],
        reversed: bool,
    ) -> SsTableCursor<'a> {
        self.cursor(ChunkStream::sequential(&self.data, pages), slices, reversed)
    }

    /// Moves a cursor to the partition of a key; false for a candidate that turns out to be another key's.
    pub(crate) fn open_partition<'a>(
        &'a self,
        cursor: &mut SsTableCursor<'a>,
        pages: Pages<'a>,
        key: &[u8],
        entry: &IndexEntry,
    ) -> Result<bool, ReadError> {
        if entry.blocks.is_some()
            && let Some(large) = self.large_partition(entry.token, key)
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
                let rows = TrieFile {
                    file,
                    pages,
                    pinned: self.index.pinned_pages(),
                };
                let mut blocks = trie.blocks(rows, &self.comparator)?;
                (
                    Some((blocks.header_length()?, trie.deletion)),
                    Some(Blocks::Trie(blocks)),
                )
            }
        };
        let place = PartitionPlace {
            key,
            position: entry.position,
            end: entry.end,
            unpack_end: u64::MAX,
            is_candidate: entry.is_candidate,
            head: head.filter(|_| file.is_checked()),
        };
        cursor.open(&place, blocks)
    }

    fn large_partition(&self, token: Token, key: &[u8]) -> Option<&LargePartition> {
        let blocks = self.blocks.as_ref().filter(|blocks| !blocks.has_failed())?;
        blocks.find(token, key)
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
            unpack_end: u64::MAX,
            is_candidate: false,
            head: Some((large.header_length, large.deletion)),
        };
        let blocks = self.blocks.as_ref();
        let blocks = blocks.map(|file| Blocks::Paged(file.blocks(large, &self.header.clustering, pages)));
        cursor.open(&place, blocks)
    }
}
