//! Partitions.db and Rows.db of an open SSTable.

use std::path::Path;

use helenus_types::Token;
use helenus_types::token::token_of;

use super::node::PAGE_BYTES;
use super::partition_index::{PartitionIndex, PartitionIndexCursor, PartitionPlace, check_page_length};
use super::row_index::RowIndexEntry;
use super::trie_reader::{PinnedPage, TrieFile};
use crate::block::chunk_stream::ChunkStream;
use crate::block::chunked_file::ChunkedFile;
use crate::block::pages::Pages;
use crate::decode::ByteReader;
use crate::error::ReadError;
use crate::index::entry::BlockIndex;
use crate::index::entry::IndexEntry;
use helenus_rows::partition_range::{PartitionBound, PartitionRange};

#[derive(Debug)]
pub(crate) struct BtiIndex {
    pub partitions: PartitionIndex,
    pub rows: ChunkedFile,
    /// The end of Rows.db: entry and root of its last partition, which often is the only one or the largest.
    pinned: Vec<PinnedPage>,
}

/// A root and the entry behind it may lie in two.
const PINNED_PAGES: u64 = 2;

/// Partitions in order. Keys are read from where the partitions' index points, Rows.db or Data.db.
#[derive(Debug)]
pub(crate) struct BtiIndexScan<'a> {
    index: &'a BtiIndex,
    pages: Pages<'a>,
    start: PartitionBound<'a>,
    /// `None` before the first.
    partitions: Option<PartitionIndexCursor<'a>>,
}

impl BtiIndex {
    pub fn open(partitions: ChunkedFile, rows: ChunkedFile) -> Result<Self, ReadError> {
        check_page_length(&rows)?;
        let partitions = PartitionIndex::open(partitions)?;
        let page_count = rows.length().div_ceil(PAGE_BYTES as u64);
        let pages = page_count.saturating_sub(PINNED_PAGES)..page_count;
        let pinned = pages
            .map(|index| PinnedPage::read(&rows, index))
            .collect::<Result<_, _>>()?;
        Ok(BtiIndex {
            partitions,
            rows,
            pinned,
        })
    }

    pub fn memory_bytes(&self) -> usize {
        let pinned = self.pinned.iter().map(|page| page.bytes.len());
        self.partitions.memory_bytes() + self.rows.memory_bytes() + pinned.sum::<usize>()
    }

    /// Pages of Rows.db that stay in memory.
    pub fn pinned_pages(&self) -> &[PinnedPage] {
        &self.pinned
    }

    fn rows<'a>(&'a self, pages: Pages<'a>) -> TrieFile<'a> {
        TrieFile {
            file: &self.rows,
            pages,
            pinned: &self.pinned,
        }
    }

    /// The entry of a key, whose own key may be left empty.
    pub fn find(&self, pages: Pages<'_>, token: Token, key: &[u8]) -> Result<Option<IndexEntry>, ReadError> {
        let entry = match self.partitions.find(pages, token, key)? {
            None => return Ok(None),
            Some(PartitionPlace::Data(position)) => IndexEntry {
                token,
                key: Vec::new(),
                position,
                end: None,
                is_candidate: true,
                blocks: None,
            },
            Some(PartitionPlace::Rows(position)) => {
                let entry = RowIndexEntry::read(self.rows(pages), position)?;
                if entry.key != key {
                    return Ok(None);
                }
                entry.into()
            }
        };
        Ok(Some(entry))
    }

    /// Where partitions begin in Data.db, until `push` has had enough of them. An entry of Rows.db that cannot be read
    /// is passed over; the error of the first one comes at the end.
    pub fn positions(&self, pages: Pages<'_>, mut push: impl FnMut(u64) -> bool) -> Result<(), ReadError> {
        let (start, _) = PartitionRange::everything().bounds();
        let mut cursor = self.partitions.scan(pages, &start)?;
        let mut damage = None;
        while let Some(place) = cursor.next()? {
            let position = match place {
                PartitionPlace::Data(position) => Ok(position),
                PartitionPlace::Rows(at) => {
                    RowIndexEntry::read(self.rows(pages), at).map(|entry| entry.position)
                }
            };
            match position {
                Ok(position) if !push(position) => break,
                Ok(_) => {}
                Err(error) => damage = damage.or(Some(error)),
            }
        }
        damage.map_or(Ok(()), Err)
    }

    pub fn scan<'a>(&'a self, pages: Pages<'a>, start: PartitionBound<'a>) -> BtiIndexScan<'a> {
        BtiIndexScan {
            index: self,
            pages,
            start,
            partitions: None,
        }
    }
}

impl From<RowIndexEntry> for IndexEntry {
    fn from(entry: RowIndexEntry) -> Self {
        IndexEntry {
            token: token_of(&entry.key),
            key: entry.key,
            position: entry.position,
            end: None,
            is_candidate: false,
            blocks: Some(BlockIndex::Trie(entry.trie)),
        }
    }
}

impl BtiIndexScan<'_> {
    /// Searches the trie again from a bound on.
    pub fn skip_to(&mut self, start: &PartitionBound<'_>) -> Result<(), ReadError> {
        self.partitions = Some(self.index.partitions.scan(self.pages, start)?);
        Ok(())
    }

    /// The next entry, into one whose key's memory is used again; false at the end. The caller must check that keys ascend: damaged
    /// pages could give partitions without end.
    pub fn next(&mut self, data: &mut ChunkStream<'_>, entry: &mut IndexEntry) -> Result<bool, ReadError> {
        let partitions = match &mut self.partitions {
            Some(partitions) => partitions,
            none => none.insert(self.index.partitions.scan(self.pages, &self.start)?),
        };
        match partitions.next()? {
            None => Ok(false),
            Some(PartitionPlace::Rows(position)) => {
                *entry = RowIndexEntry::read(self.index.rows(self.pages), position)?.into();
                Ok(true)
            }
            Some(PartitionPlace::Data(position)) => {
                data.seek(position);
                let key = &mut entry.key;
                data.decode(|bytes| {
                    key.clear();
                    key.extend_from_slice(ByteReader::new(bytes).bytes_after_u16()?);
                    Ok(())
                })?;
                entry.token = token_of(&entry.key);
                entry.position = position;
                (entry.end, entry.is_candidate, entry.blocks) = (None, false, None);
                Ok(true)
            }
        }
    }

    /// For messages: the file, and no place in it, for keys lie in no order there.
    pub fn place(&self) -> (&Path, u64) {
        (self.index.partitions.file().path(), 0)
    }
}
