//! Writing Blocks.db as the rows of a partition pass.

use std::path::PathBuf;
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_vfs::Disk;

use super::block_file::{
    DIRECTORY_FOOT_BYTES, FLAG_HAS_FILTER, FLAG_HAS_MARKERS, FLAG_OPEN_BEFORE, PAGE_BYTES, PAGE_HEAD_BYTES,
    VERSION, fingerprint, has_unique_bytes, push_deletion,
};
use super::clustering_codec::{ClusteringCodec, KIND_CLUSTERING};
use super::component_writer::ComponentFile;
use super::decode::{push_bytes_after_u16, push_unsigned_vint};
use super::error::WriteError;
use super::index_writer::WrittenPartition;
use crate::deletion::DeletionTime;

/// A partition gets pages if it is at least so large. Below, its blocks lie together in the format's own index, which
/// one or two reads find; each partition above takes about 150 bytes of memory while the SSTable is open.
const PARTITION_BYTES_MIN: u64 = 64 * 1024;
/// What a block aims at where the table's index blocks are larger: about what a drive reads at once.
const BLOCK_BYTES_MAX: u32 = 4 * 1024;
/// A block begins only with a place that takes at most so much, so that pages hold many.
const PLACE_BYTES_MAX: usize = 256;
/// Where places are so long that a block would grow beyond so many times its size, the partition gets no pages.
const OVERGROWN_FACTOR: u64 = 64;
/// A filter takes two bytes for each row, which is at most a 32nd of the rows' own.
const FILTERED_ROW_BYTES_MIN: u64 = 64;
/// Keeps an entry small, where a block of many small rows ends with a huge one.
const FILTERED_ROWS_MAX: usize = 256;
/// Keys beyond are not kept in memory.
const KEY_BYTES_MAX: usize = 1024;

/// Gathers blocks and pages; makes a file of them if any partition was large enough.
#[derive(Debug)]
pub(super) struct BlockFileWriter {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Created with the first page of a large partition.
    file: Option<ComponentFile>,
    block_bytes: u64,
    has_filters: bool,
    checksums: Vec<u32>,
    /// Encoded, of the partitions that ended.
    partitions: Vec<u8>,
    partition_count: u32,
    partition: Partition,
}

/// The partition being written. Offsets count from its start.
#[derive(Debug, Default)]
struct Partition {
    /// Full pages that were not written yet, as the partition may stay small.
    pages: Vec<u8>,
    /// Encoded, of its pages so far.
    fences: Vec<u8>,
    page_count: u32,
    is_overgrown: bool,
    /// The page being filled: where its entries begin, and those.
    offsets: Vec<u16>,
    entries: Vec<u8>,
    block: Block,
}

/// The block being filled.
#[derive(Debug, Default)]
struct Block {
    is_begun: bool,
    flags: u8,
    open_before: Vec<u8>,
    first: Vec<u8>,
    start: u64,
    row_count: u64,
    fingerprints: Vec<u8>,
}

/// A row or marker that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenItem<'a> {
    pub prefix: &'a [u8],
    pub kind: u8,
    pub offset: u64,
    /// The range deletion in force before it.
    pub open_before: DeletionTime,
}

impl BlockFileWriter {
    /// Blocks are never larger than the index blocks of the format.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf, column_index_bytes: u32, table: &TableMetadata) -> Self {
        BlockFileWriter {
            disk,
            path,
            file: None,
            block_bytes: u64::from(column_index_bytes.min(BLOCK_BYTES_MAX)),
            has_filters: has_unique_bytes(table),
            checksums: Vec::new(),
            partitions: Vec::new(),
            partition_count: 0,
            partition: Partition::default(),
        }
    }

    pub fn begin_partition(&mut self) {
        let partition = &mut self.partition;
        partition.pages.clear();
        partition.fences.clear();
        partition.page_count = 0;
        partition.is_overgrown = false;
        partition.offsets.clear();
        partition.entries.clear();
        partition.block.is_begun = false;
    }

    #[inline]
    pub fn item(&mut self, codec: &ClusteringCodec, item: WrittenItem<'_>) -> Result<(), WriteError> {
        let block = &mut self.partition.block;
        if block.is_begun && item.offset - block.start >= self.block_bytes {
            self.maybe_end_block(codec, &item)?;
        }
        let block = &mut self.partition.block;
        if !block.is_begun {
            block.begin(codec, &item);
            if block.first.len() > PLACE_BYTES_MAX {
                // Only a partition's first item: later blocks begin where the place is short.
                self.partition.is_overgrown = true;
            }
        }
        let block = &mut self.partition.block;
        if item.kind != KIND_CLUSTERING {
            block.flags |= FLAG_HAS_MARKERS;
            return Ok(());
        }
        block.row_count += 1;
        if self.has_filters && block.fingerprints.len() < 2 * FILTERED_ROWS_MAX {
            let hash = fingerprint(item.prefix);
            block.fingerprints.extend_from_slice(&hash.to_be_bytes());
        }
        Ok(())
    }

    /// Ends the block before an item that may begin the next.
    #[cold]
    fn maybe_end_block(&mut self, codec: &ClusteringCodec, item: &WrittenItem<'_>) -> Result<(), WriteError> {
        let partition = &mut self.partition;
        let mut place = Vec::new();
        codec.write_place(&mut place, item.prefix, item.kind);
        if place.len() > PLACE_BYTES_MAX {
            partition.is_overgrown |=
                item.offset - partition.block.start > OVERGROWN_FACTOR * self.block_bytes;
            return Ok(());
        }
        partition.end_block(item.offset, &mut self.checksums);
        if !partition.is_overgrown && item.offset >= PARTITION_BYTES_MIN {
            self.write_pages()?;
        }
        Ok(())
    }

    pub fn end_partition(&mut self, ended: WrittenPartition<'_>) -> Result<(), WriteError> {
        let partition = &mut self.partition;
        if ended.length < PARTITION_BYTES_MIN
            || partition.is_overgrown
            || ended.key.len() > KEY_BYTES_MAX
            || !partition.block.is_begun
        {
            // Pages of it that were written already stay, and nothing points to them.
            let written = self.file.as_ref().map_or(0, ComponentFile::length) / PAGE_BYTES as u64;
            self.checksums.truncate(written as usize);
            return Ok(());
        }
        partition.end_block(ended.length, &mut self.checksums);
        partition.end_page(ended.length, &mut self.checksums);
        self.write_pages()?;
        let first_page = self.checksums.len() as u32 - self.partition.page_count;
        let out = &mut self.partitions;
        push_bytes_after_u16(out, ended.key);
        push_unsigned_vint(out, ended.position);
        push_unsigned_vint(out, ended.header_length);
        push_deletion(out, ended.deletion);
        out.extend_from_slice(&first_page.to_be_bytes());
        out.extend_from_slice(&self.partition.page_count.to_be_bytes());
        out.extend_from_slice(&self.partition.fences);
        self.partition_count += 1;
        Ok(())
    }

    fn write_pages(&mut self) -> Result<(), WriteError> {
        let pages = &mut self.partition.pages;
        if pages.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(ComponentFile::create(&*self.disk, self.path.clone())?),
        };
        file.append(pages)?;
        pages.clear();
        Ok(())
    }

    /// Makes the file durable; its length, or `None` if there is none.
    pub fn finish(self) -> Result<Option<u64>, WriteError> {
        let Some(mut file) = self.file else {
            return Ok(None);
        };
        let mut directory = Vec::with_capacity(self.partitions.len() + 4 * self.checksums.len() + 32);
        directory.extend_from_slice(&VERSION.to_be_bytes());
        directory.extend_from_slice(&(self.checksums.len() as u32).to_be_bytes());
        for checksum in &self.checksums {
            directory.extend_from_slice(&checksum.to_be_bytes());
        }
        directory.extend_from_slice(&self.partition_count.to_be_bytes());
        directory.extend_from_slice(&self.partitions);
        let length = directory.len() as u64;
        directory.reserve_exact(DIRECTORY_FOOT_BYTES);
        directory.extend_from_slice(&length.to_be_bytes());
        let checksum = crc32fast::hash(&directory);
        directory.extend_from_slice(&checksum.to_be_bytes());
        file.append(&directory)?;
        file.finish().map(Some)
    }
}

impl Partition {
    /// Adds the block to the page, or to a new one where it does not fit.
    fn end_block(&mut self, end: u64, checksums: &mut Vec<u32>) {
        let block = &self.block;
        let mut flags = block.flags;
        let is_filtered = block.fingerprints.len() as u64 == 2 * block.row_count
            && block.row_count > 0
            && (end - block.start) / block.row_count >= FILTERED_ROW_BYTES_MIN;
        if is_filtered {
            flags |= FLAG_HAS_FILTER;
        }
        let mut entry = Vec::with_capacity(64 + block.first.len() + block.fingerprints.len());
        entry.push(flags);
        entry.extend_from_slice(&block.open_before);
        entry.extend_from_slice(&block.first);
        push_unsigned_vint(&mut entry, block.start);
        if is_filtered {
            push_unsigned_vint(&mut entry, block.row_count);
            entry.extend_from_slice(&block.fingerprints);
        }
        let taken = PAGE_HEAD_BYTES + 2 * (self.offsets.len() + 1) + self.entries.len();
        if taken + entry.len() > PAGE_BYTES {
            self.end_page(self.block.start, checksums);
        }
        if self.offsets.is_empty() {
            self.fences.extend_from_slice(&self.block.first);
            push_unsigned_vint(&mut self.fences, self.block.start);
        }
        self.offsets.push(self.entries.len() as u16);
        self.entries.extend_from_slice(&entry);
        self.block.is_begun = false;
    }

    fn end_page(&mut self, end: u64, checksums: &mut Vec<u32>) {
        let page_start = self.pages.len();
        let entries_at = (PAGE_HEAD_BYTES + 2 * self.offsets.len()) as u16;
        self.pages
            .extend_from_slice(&(self.offsets.len() as u16).to_be_bytes());
        self.pages.extend_from_slice(&end.to_be_bytes());
        for offset in &self.offsets {
            self.pages.extend_from_slice(&(entries_at + offset).to_be_bytes());
        }
        self.pages.extend_from_slice(&self.entries);
        self.pages.resize(page_start + PAGE_BYTES, 0);
        checksums.push(crc32fast::hash(&self.pages[page_start..]));
        self.page_count += 1;
        self.offsets.clear();
        self.entries.clear();
    }
}

impl Block {
    fn begin(&mut self, codec: &ClusteringCodec, item: &WrittenItem<'_>) {
        self.is_begun = true;
        self.flags = 0;
        self.open_before.clear();
        if !item.open_before.is_live() {
            self.flags |= FLAG_OPEN_BEFORE;
            push_deletion(&mut self.open_before, item.open_before);
        }
        self.first.clear();
        codec.write_place(&mut self.first, item.prefix, item.kind);
        self.start = item.offset;
        self.row_count = 0;
        self.fingerprints.clear();
    }
}
