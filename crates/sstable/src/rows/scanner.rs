//! All partitions of an SSTable between two bounds, in token order.

use helenus_types::Token;

use crate::block::pages::Pages;
use crate::error::ReadError;
use crate::index::entry::IndexEntry;
use crate::index::reader::IndexScan;
use crate::rows::cursor::SsTableCursor;
use crate::source::{OpenPartition, PartitionScanner};
use crate::table::SsTable;
use helenus_rows::clustering::Slice;
use helenus_rows::partition_range::PartitionBound;

/// Walks the index; a partition's data is touched only where it is opened.
#[derive(Debug)]
pub struct SsTableScanner<'a> {
    table: &'a SsTable,
    pages: Pages<'a>,
    index: IndexScan<'a>,
    range: ScanRange<'a>,
    /// Goes from partition to partition, so that what was read ahead of one serves the next.
    cursor: SsTableCursor<'a>,
    /// Entry of the partition that the last `advance` moved to; kept past the end to check the order of keys.
    entry: Option<IndexEntry>,
    /// The one before it, for the memory of its key.
    spare: IndexEntry,
    /// Where in the index it begins.
    entry_offset: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanRange<'a> {
    pub start: PartitionBound<'a>,
    pub end: PartitionBound<'a>,
}

/// How many entries are passed one by one before the index is searched: a search costs about as much.
const STEPS_BEFORE_SKIP: u32 = 8;

impl SsTable {
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
        let cursor = self.sequential_cursor(pages, slices, reversed);
        SsTableScanner::new(self, pages, cursor, ScanRange { start, end })
    }
}

impl<'a> SsTableScanner<'a> {
    pub(crate) fn new(
        table: &'a SsTable,
        pages: Pages<'a>,
        cursor: SsTableCursor<'a>,
        range: ScanRange<'a>,
    ) -> Self {
        let index = table
            .index
            .scan(pages, range.start, |token, key| range.start.is_behind(token, key));
        SsTableScanner {
            table,
            pages,
            index,
            range,
            cursor,
            entry: None,
            spare: IndexEntry::default(),
            entry_offset: 0,
        }
    }

    /// Where the index says that the partition of the last `advance` begins in the uncompressed data.
    pub fn data_position(&self) -> Option<u64> {
        self.entry.as_ref().map(|entry| entry.position)
    }

    /// Returns whether the partition's rows have an index of their own.
    pub fn has_row_index(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.blocks.is_some())
    }

    /// Against the entry before, which is the spare one.
    fn check_order(&self, offset: u64) -> Result<(), ReadError> {
        let last = &self.spare;
        if (last.token, &*last.key) < self.position() {
            return Ok(());
        }
        Err(ReadError::Corrupt {
            file: self.index.place().0.to_path_buf(),
            offset,
            wanted: "keys in the order of their tokens",
            found: "a key that is not after the one before".to_owned(),
        })
    }

    /// As [`PartitionScanner::open`], for those who want to know where in the file things are.
    pub fn open_in_file(&mut self) -> Result<&mut SsTableCursor<'a>, ReadError> {
        let Some(entry) = &self.entry else {
            unreachable!("only called after an advance that returned true")
        };
        self.table
            .open_partition(&mut self.cursor, self.pages, &entry.key, entry)?;
        Ok(&mut self.cursor)
    }
}

impl PartitionScanner for SsTableScanner<'_> {
    fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            let (_, offset) = self.index.place();
            if !self.index.next(self.cursor.data_mut(), &mut self.spare)? {
                return Ok(false);
            }
            let next = std::mem::take(&mut self.spare);
            if let Some(last) = self.entry.replace(next) {
                self.spare = last;
                self.check_order(offset)?;
            }
            self.entry_offset = offset;
            let (token, key) = self.position();
            if self.range.start.is_behind(token, key) {
                continue;
            }
            return Ok(self.range.end.is_behind(token, key));
        }
    }

    fn advance_to(&mut self, start: &PartitionBound<'_>) -> Result<bool, ReadError> {
        let mut passed = 0;
        loop {
            if self.entry.is_some() {
                let (token, key) = self.position();
                if !start.is_behind(token, key) {
                    return Ok(self.range.end.is_behind(token, key));
                }
                if passed == STEPS_BEFORE_SKIP {
                    self.index.skip_to(start)?;
                    // A search may come to the very entry again.
                    self.spare = self.entry.take().unwrap_or_default();
                }
                passed += 1;
            }
            if !self.advance()? {
                return Ok(false);
            }
        }
    }

    fn position(&self) -> (Token, &[u8]) {
        self.entry
            .as_ref()
            .map_or((Token::MINIMUM, &[]), |entry| (entry.token, &entry.key))
    }

    fn open(&mut self) -> Result<OpenPartition<'_>, ReadError> {
        Ok(OpenPartition::Lent(self.open_in_file()?))
    }
}

impl Drop for SsTableScanner<'_> {
    fn drop(&mut self) {
        if self.entry.is_some() {
            self.index.note_stop(self.pages, self.entry_offset);
        }
    }
}
