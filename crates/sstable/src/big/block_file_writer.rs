//! Writing Blocks.db as the rows of a partition pass.

use std::path::PathBuf;
use std::sync::Arc;

use helenus_vfs::Disk;

use crate::big::block_file::{
    DIRECTORY_FOOT_BYTES, FLAG_HAS_FILTER, FLAG_HAS_MARKERS, FLAG_OPEN_BEFORE, PAGE_BYTES, PAGE_HEAD_BYTES,
    VERSION, fingerprint, push_deletion,
};
use crate::component_writer::ComponentFile;
use crate::decode::{push_bytes_after_u16, push_unsigned_vint};
use crate::error::WriteError;
use crate::index::entry::WrittenPartition;
use crate::rows::clustering_codec::{ClusteringCodec, KIND_CLUSTERING};
use helenus_rows::deletion::DeletionTime;

/// A partition gets pages if it is at least so large. Below, its blocks lie together in the format's own index, which
/// one or two reads find; each partition above takes about 150 bytes of memory while the SSTable is open.
const PARTITION_BYTES_MIN: u64 = 64 * 1024;
/// Target size of a block where the table's index blocks are larger, in bytes: about what a drive reads at once.
const BLOCK_BYTES_MAX: u32 = 4 * 1024;
/// A block begins only with a place that takes at most so much, so that pages hold many.
const PLACE_BYTES_MAX: usize = 256;
/// Where places are so long that a block would grow beyond so many times its size, the partition gets no pages.
const OVERGROWN_FACTOR: u64 = 64;
/// A filter takes two bytes for each row, which is at most a 32nd of the rows' own.
const FILTERED_ROW_BYTES_MIN: u64 = 64;
/// Keeps an entry small, where a block of many small rows ends with a huge one.
const FILTERED_ROWS_MAX: usize = 256;
/// Those of a block of common rows; where keys are longer, they are hashed earlier.
const UNHASHED_BYTES_MAX: usize = BLOCK_BYTES_MAX as usize;
/// Keys beyond are not kept in memory.
const KEY_BYTES_MAX: usize = 1024;

/// Gathers blocks and pages; makes a file of them if any partition was large enough.
#[derive(Debug)]
pub(crate) struct BlockFileWriter {
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
    /// Fingerprints of the first rows, [`FILTERED_ROWS_MAX`] at most.
    fingerprints: Vec<u8>,
    /// Rows that follow these and were not hashed yet, packed one after the other, and where each ends.
    rows: Vec<u8>,
    row_ends: Vec<u32>,
}

/// A row or marker that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenItem<'a> {
    pub prefix: &'a [u8],
    pub kind: u8,
    pub offset: u64,
    /// The range deletion in force before it.
    pub open_before: DeletionTime,
}

impl BlockFileWriter {
    /// Blocks are never larger than the index blocks of the format. `has_filters` if equal clusterings have equal bytes.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf, column_index_bytes: u32, has_filters: bool) -> Self {
        BlockFileWriter {
            disk,
            path,
            file: None,
            block_bytes: u64::from(column_index_bytes.min(BLOCK_BYTES_MAX)),
            has_filters,
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
        if self.has_filters && block.row_count <= FILTERED_ROWS_MAX as u64 {
            block.push_row(item.prefix);
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
        self.block.hash_rows();
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
        self.rows.clear();
        self.row_ends.clear();
    }

    /// Rows are hashed when a block ends, as that of a small partition never does.
    #[inline]
    fn push_row(&mut self, prefix: &[u8]) {
        self.rows.extend_from_slice(prefix);
        self.row_ends.push(self.rows.len() as u32);
        if self.rows.len() > UNHASHED_BYTES_MAX {
            self.hash_rows();
        }
    }

    fn hash_rows(&mut self) {
        let mut start = 0;
        for end in self.row_ends.drain(..) {
            let hash = fingerprint(&self.rows[start..end as usize]);
            self.fingerprints.extend_from_slice(&hash.to_be_bytes());
            start = end as usize;
        }
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use helenus_types::CqlType;
    use helenus_types::Token;
    use helenus_types::token::token_of;
    use helenus_vfs::MemoryDisk;

    use super::*;
    use crate::big::block_file::BlockFile;
    use crate::block::page_cache::PageCache;
    use helenus_rows::clustering::{ClusteringBound, Side, push_component};
    use helenus_rows::deletion::DeletionTime;

    const ROW_BYTES: u64 = 100;

    fn codec() -> ClusteringCodec {
        ClusteringCodec::new([CqlType::Text].iter())
    }

    fn clustering(name: &str) -> Vec<u8> {
        let mut packed = Vec::new();
        push_component(&mut packed, name.as_bytes());
        packed
    }

    fn deletion(timestamp_us: i64) -> DeletionTime {
        DeletionTime {
            timestamp_us,
            local_s: 7,
        }
    }

    /// A partition of rows of 100 bytes after a head of 20; those of `deleted` lie in a range deletion.
    fn push(writer: &mut BlockFileWriter, key: &[u8], names: &[String], deleted: std::ops::Range<usize>) {
        writer.begin_partition();
        for (index, name) in names.iter().enumerate() {
            let open_before = if deleted.contains(&index) {
                deletion(5)
            } else {
                DeletionTime::LIVE
            };
            let item = WrittenItem {
                prefix: &clustering(name),
                kind: KIND_CLUSTERING,
                offset: 20 + ROW_BYTES * index as u64,
                open_before,
            };
            writer.item(&codec(), item).unwrap();
        }
        let ended = WrittenPartition {
            token: Token(0),
            key,
            key_hash: [0; 2],
            position: 1000,
            header_length: 20,
            deletion: deletion(3),
            length: 21 + ROW_BYTES * names.len() as u64,
        };
        writer.end_partition(ended).unwrap();
    }

    fn written() -> (Arc<dyn Disk>, PathBuf) {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let path = PathBuf::from("/Blocks.db");
        let mut writer = BlockFileWriter::new(Arc::clone(&disk), path.clone(), 1024, true);
        let numbered = |count: usize, width: usize| -> Vec<String> {
            (0..count).map(|index| format!("{index:0width$}")).collect()
        };
        let mut keys = [&b"small"[..], b"large", b"overgrown", b"too late"];
        keys.sort_by_key(|key| token_of(key));
        for key in keys {
            match key {
                b"small" => push(&mut writer, key, &numbered(600, 5), 0..0),
                b"large" => push(&mut writer, key, &numbered(2000, 5), 1000..1010),
                b"overgrown" => push(&mut writer, key, &numbered(2000, 300), 0..0),
                // Its pages are written before it turns out to be overgrown.
                _ => {
                    let mut names = numbered(3000, 5);
                    names.extend(numbered(2000, 300).iter().map(|name| format!("x{name}")));
                    push(&mut writer, key, &names, 0..0);
                }
            }
        }
        writer.finish().unwrap();
        (disk, path)
    }

    fn open(disk: &dyn Disk, path: &Path) -> Result<BlockFile, crate::error::ReadError> {
        let file = disk.open(path).unwrap();
        let length = file.length().unwrap();
        BlockFile::open(path, file, length, &codec(), true)
    }

    #[test]
    fn only_large_partitions_with_short_places_are_described() {
        let (disk, path) = written();
        let file = open(&*disk, &path).unwrap();
        let is_there = |key: &[u8]| file.find(token_of(key), key).is_some();
        assert_eq!(
            [b"small".as_slice(), b"large", b"overgrown", b"too late"].map(is_there),
            [false, true, false, false]
        );
        let large = file.find(token_of(b"large"), b"large").unwrap();
        assert_eq!((large.position, large.header_length), (1000, 20));
        assert_eq!(large.deletion, deletion(3));
    }

    #[test]
    fn blocks_say_where_rows_are_and_which() {
        let (disk, path) = written();
        let file = open(&*disk, &path).unwrap();
        let large = file.find(token_of(b"large"), b"large").unwrap();
        let codec = codec();
        let cache = PageCache::new(1 << 20);
        let mut blocks = file.blocks(large, &codec, (&cache).into());
        let mut taken_for_others = 0;
        for index in 0..2000_u64 {
            let name = clustering(&format!("{index:05}"));
            let bound = ClusteringBound {
                prefix: name.clone().into(),
                side: Side::After,
            };
            let block = blocks
                .last_where(&|first| *first.prefix <= *bound.prefix)
                .unwrap();
            let offset = 20 + ROW_BYTES * index;
            assert!((block.start..block.end).contains(&offset), "{index}: {block:?}");
            assert!(block.end - block.start <= 1200 || index >= 1990, "{block:?}");
            // Blocks begin with each 11th row; that of 1001 in the deletion.
            let first = index / 11 * 11;
            assert_eq!(
                block.open_before.is_live(),
                !(1000..1010).contains(&first),
                "{index}"
            );
            assert!(!blocks.lacks(&block, &name).unwrap(), "{index}");
            let absent = clustering(&format!("{index:05}-"));
            let lacks = blocks.lacks(&block, &absent).unwrap();
            assert!(
                !lacks || block.open_before.is_live(),
                "{index}: the deletion must be read"
            );
            taken_for_others += u32::from(!lacks && block.open_before.is_live());
            let before = blocks.before(&block).unwrap();
            assert_eq!(before.map_or(20, |before| before.end), block.start);
        }
        assert!(
            taken_for_others <= 3,
            "2,000 hashes of 16 bits, each among 11: {taken_for_others}"
        );
    }

    #[test]
    fn a_damaged_directory_is_refused() {
        let (disk, path) = written();
        let file = disk.open_writable(&path).unwrap();
        let length = file.length().unwrap();
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        let mut foot = [0; 8];
        foot.copy_from_slice(&bytes[bytes.len() - 12..bytes.len() - 4]);
        let directory_at = length - 12 - u64::from_be_bytes(foot);
        for offset in directory_at..length {
            file.write_at(offset, &[bytes[offset as usize] ^ 4]).unwrap();
            assert!(open(&*disk, &path).is_err(), "byte {offset}");
            file.write_at(offset, &bytes[offset as usize..=offset as usize])
                .unwrap();
        }
        for length in [0, 5, 12, directory_at, length - 1] {
            file.set_length(length).unwrap();
            assert!(open(&*disk, &path).is_err(), "{length} bytes");
        }
    }
}
