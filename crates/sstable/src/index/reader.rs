//! The index of an open SSTable, in the form of its version.

use std::path::Path;

use helenus_types::Token;

use crate::big::index::{find_entry, read_entry_into};
use crate::big::summary::Summary;
use crate::block::chunk_stream::ChunkStream;
use crate::block::chunked_file::ChunkedFile;
use crate::block::pages::Pages;
use crate::bti::{BtiIndex, BtiIndexScan, PinnedPage};
use crate::error::ReadError;
use crate::index::entry::IndexEntry;
use crate::rows::stop::IndexStop;
use crate::version::Version;
use helenus_rows::partition_range::PartitionBound;

/// Where the partitions are, and the blocks of large ones.
#[derive(Debug)]
pub(crate) enum IndexReader {
    Big(BigIndex),
    Bti(BtiIndex),
}

/// Index.db, with every 128th key of it in memory.
#[derive(Debug)]
pub(crate) struct BigIndex {
    pub version: Version,
    pub summary: Summary,
    pub file: ChunkedFile,
}

/// Longest stretch that is read whole, in bytes: 128 entries of small partitions, but not blocks of a large one.
const SUMMARY_STRETCH_BYTES_MAX: u64 = 8 * 1024;

/// All entries from a place on, in the order of tokens and keys.
#[derive(Debug)]
pub(crate) enum IndexScan<'a> {
    Big(BigIndexScan<'a>),
    Bti(Box<BtiIndexScan<'a>>),
}

#[derive(Debug)]
pub(crate) struct BigIndexScan<'a> {
    index: &'a BigIndex,
    stream: ChunkStream<'a>,
}

impl IndexReader {
    pub fn first_key(&self) -> &[u8] {
        match self {
            IndexReader::Big(big) => &big.summary.first_key,
            IndexReader::Bti(bti) => bti.partitions.first_key(),
        }
    }

    pub fn last_key(&self) -> &[u8] {
        match self {
            IndexReader::Big(big) => &big.summary.last_key,
            IndexReader::Bti(bti) => bti.partitions.last_key(),
        }
    }

    /// Bytes that stay in memory while the SSTable is open.
    pub fn memory_bytes(&self) -> usize {
        match self {
            IndexReader::Big(big) => big.summary.memory_bytes() + big.file.memory_bytes(),
            IndexReader::Bti(bti) => bti.memory_bytes(),
        }
    }

    /// The file that the blocks of large partitions are described in.
    pub fn blocks_file(&self) -> &ChunkedFile {
        match self {
            IndexReader::Big(big) => &big.file,
            IndexReader::Bti(bti) => &bti.rows,
        }
    }

    /// Pages of [`Self::blocks_file`] that stay in memory.
    pub fn pinned_pages(&self) -> &[PinnedPage] {
        match self {
            IndexReader::Big(_) => &[],
            IndexReader::Bti(bti) => bti.pinned_pages(),
        }
    }

    /// The entry of a key, without the key.
    pub fn find(&self, pages: Pages<'_>, token: Token, key: &[u8]) -> Result<Option<IndexEntry>, ReadError> {
        match self {
            IndexReader::Big(big) => big.find(pages, token, key),
            IndexReader::Bti(bti) => bti.find(pages, token, key),
        }
    }

    /// From a start; `is_before` tells the keys before it. A few of them may come nevertheless.
    pub fn scan<'a>(
        &'a self,
        pages: Pages<'a>,
        start: PartitionBound<'a>,
        is_before: impl Fn(Token, &[u8]) -> bool,
    ) -> IndexScan<'a> {
        match self {
            IndexReader::Big(big) => {
                let mut stream = ChunkStream::sequential(&big.file, pages);
                // Not from the summary's key before it, where an earlier step came further.
                let stopped = pages.ticket().and_then(|ticket| ticket.index_stop(big.file.id()));
                stream.seek(stopped.unwrap_or_else(|| big.summary.index_start(is_before)));
                IndexScan::Big(BigIndexScan { index: big, stream })
            }
            IndexReader::Bti(bti) => IndexScan::Bti(Box::new(bti.scan(pages, start))),
        }
    }
}

impl BigIndex {
    fn find(&self, pages: Pages<'_>, token: Token, key: &[u8]) -> Result<Option<IndexEntry>, ReadError> {
        let (start, end) = self.summary.index_range(token, key, self.file.length());
        let mut stream = ChunkStream::new(&self.file, pages);
        stream.seek(start);
        if end - start <= SUMMARY_STRETCH_BYTES_MAX {
            // Where it lies on two pages, both come in one request.
            stream.expect_until(end);
        }
        find_entry(&mut stream, self.version, (token, key), end)
    }
}

impl IndexScan<'_> {
    /// `data` is Data.db, for indexes that leave keys to it. False at the end.
    pub fn next(&mut self, data: &mut ChunkStream<'_>, entry: &mut IndexEntry) -> Result<bool, ReadError> {
        match self {
            IndexScan::Bti(bti) => bti.next(data, entry),
            IndexScan::Big(big) => read_entry_into(&mut big.stream, big.index.version, entry),
        }
    }

    /// Passes entries that certainly lie before a bound ahead, without reading them.
    pub fn skip_to(&mut self, start: &PartitionBound<'_>) -> Result<(), ReadError> {
        match self {
            IndexScan::Bti(bti) => bti.skip_to(start),
            IndexScan::Big(big) => {
                let summary = &big.index.summary;
                let offset = summary.index_start(|token, key| start.is_behind(token, key));
                if offset > big.stream.position() {
                    big.stream.seek(offset);
                }
                Ok(())
            }
        }
    }

    /// Says where an entry begins that a later step of the read goes on with. Tries find theirs by its key.
    pub fn note_stop(&self, pages: Pages<'_>, offset: u64) {
        if let (IndexScan::Big(big), Some(ticket)) = (self, pages.ticket()) {
            ticket.note_index_stop(IndexStop {
                file: big.stream.file_id(),
                offset,
            });
        }
    }

    /// For messages: the file, and where in it the next entry begins.
    pub fn place(&self) -> (&Path, u64) {
        match self {
            IndexScan::Big(big) => (big.stream.path(), big.stream.position()),
            IndexScan::Bti(bti) => bti.place(),
        }
    }
}
