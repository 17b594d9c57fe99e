//! All partitions of an SSTable between two bounds, in token order.

use std::cmp::Ordering;

use helenus_types::Token;

use super::cursor::SsTableCursor;
use super::index::IndexEntry;
use super::index_reader::IndexScan;
use super::pages::Pages;
use super::table::SsTable;
use crate::clustering::Side;
use crate::error::ReadError;
use crate::read::PartitionBound;
use crate::source::{PartitionCursor, PartitionScanner};

/// Walks the index; a partition's data is touched only where it is opened.
#[derive(Debug)]
pub struct SsTableScanner<'a> {
    table: &'a SsTable,
    pages: Pages<'a>,
    index: IndexScan<'a>,
    range: ScanRange<'a>,
    /// Goes from partition to partition, so that what was read ahead of one serves the next.
    cursor: SsTableCursor<'a>,
    /// Of the partition that the last `advance` moved to; kept past the end to check the order of keys.
    entry: Option<IndexEntry>,
    /// Where in the index it begins.
    entry_offset: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ScanRange<'a> {
    pub start: PartitionBound<'a>,
    pub end: PartitionBound<'a>,
}

impl<'a> SsTableScanner<'a> {
    pub(super) fn new(
        table: &'a SsTable,
        pages: Pages<'a>,
        cursor: SsTableCursor<'a>,
        range: ScanRange<'a>,
    ) -> Self {
        let index = table.index.scan(pages, range.start, |token, key| {
            is_before(token, key, &range.start)
        });
        SsTableScanner {
            table,
            pages,
            index,
            range,
            cursor,
            entry: None,
            entry_offset: 0,
        }
    }

    /// Where the index says that the partition of the last `advance` begins in the uncompressed data.
    pub fn data_position(&self) -> Option<u64> {
        self.entry.as_ref().map(|entry| entry.position)
    }

    /// Whether the partition's rows have an index of their own.
    pub fn has_row_index(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.blocks.is_some())
    }

    /// As [`PartitionScanner::open`], for those who want to know where in the file things are.
    pub fn open_in_file(&mut self) -> Result<&mut SsTableCursor<'a>, ReadError> {
        let Some(entry) = &self.entry else {
            unreachable!("only called after an advance that returned true")
        };
        self.table.open_partition(&mut self.cursor, self.pages, entry)?;
        Ok(&mut self.cursor)
    }
}

impl PartitionScanner for SsTableScanner<'_> {
    fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            let (_, offset) = self.index.place();
            let Some(entry) = self.index.next(self.cursor.data_mut())? else {
                return Ok(false);
            };
            if let Some(last) = &self.entry
                && (last.token, &last.key) >= (entry.token, &entry.key)
            {
                return Err(ReadError::Corrupt {
                    file: self.index.place().0.to_path_buf(),
                    offset,
                    wanted: "keys in the order of their tokens",
                    found: "a key that is not after the one before".to_owned(),
                });
            }
            let entry = self.entry.insert(entry);
            self.entry_offset = offset;
            if is_before(entry.token, &entry.key, &self.range.start) {
                continue;
            }
            return Ok(is_before(entry.token, &entry.key, &self.range.end));
        }
    }

    fn position(&self) -> (Token, &[u8]) {
        self.entry
            .as_ref()
            .map_or((Token::MINIMUM, &[]), |entry| (entry.token, &entry.key))
    }

    fn open(&mut self) -> Result<Box<dyn PartitionCursor + '_>, ReadError> {
        Ok(Box::new(self.open_in_file()?))
    }
}

impl Drop for SsTableScanner<'_> {
    fn drop(&mut self) {
        if self.entry.is_some() {
            self.index.note_stop(self.pages, self.entry_offset);
        }
    }
}

/// Whether a partition lies before a bound.
fn is_before(token: Token, key: &[u8], bound: &PartitionBound<'_>) -> bool {
    let ordering = token
        .cmp(&bound.token)
        .then_with(|| bound.key.map_or(Ordering::Equal, |of| key.cmp(of)));
    ordering
        .then(if bound.side == Side::Before {
            Ordering::Greater
        } else {
            Ordering::Less
        })
        .is_lt()
}
