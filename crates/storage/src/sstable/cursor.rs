//! Reading slices of a partition, in either direction.
//!
//! Forward, items are decoded one by one as they are asked for. In reverse, the blocks of the index are decoded whole,
//! last first, and given out backwards; a partition without an index is one block. Blocks are found by their first
//! places alone, and the first item of a block that was jumped to must be what the index says.

use std::cmp::Ordering;

use super::chunk_stream::ChunkStream;
use super::chunked_file::ChunkedFile;
use super::clustering_codec::Place;
use super::header::Header;
use super::index::{IndexBlock, PromotedIndex};
use super::pages::Pages;
use super::partition_reader::PartitionReader;
use super::row_decoder::Decoded;
use crate::clustering::{ClusteringBound, ClusteringComparator, Side, Slice};
use crate::deletion::DeletionTime;
use crate::error::ReadError;
use crate::row::RowRef;
use crate::source::{PartitionCursor, Unfiltered};
use crate::update::BoundRef;

/// One partition of one SSTable within slices.
#[derive(Debug)]
pub struct SsTableCursor<'a> {
    reader: PartitionReader<'a>,
    blocks: Option<Blocks<'a>>,
    comparator: &'a ClusteringComparator,
    direction: Direction<'a>,
    current: Current<'a>,
}

#[derive(Debug)]
enum Direction<'a> {
    Forward(Forward<'a>),
    Reversed(Reversed<'a>),
}

/// The blocks of a large partition's rows.
#[derive(Debug)]
struct Blocks<'a> {
    promoted: PromotedIndex,
    stream: ChunkStream<'a>,
    header: &'a Header,
}

#[derive(Clone, Debug)]
enum Current<'a> {
    /// Before the first, or after the last.
    None,
    /// The item that the reader holds.
    Read { marker: Option<(Side, DeletionTime)> },
    /// A slice's end, where a range deletion begins or ends to be in force.
    Edge {
        bound: &'a ClusteringBound,
        deletion: DeletionTime,
    },
    /// An item of the reversed block.
    Stored { index: usize },
}

/// What [`SsTableCursor`] is opened with.
#[derive(Debug)]
pub(super) struct CursorParts<'a> {
    pub reader: PartitionReader<'a>,
    pub promoted: Option<PromotedIndex>,
    pub index: &'a ChunkedFile,
    pub pages: Pages<'a>,
    pub header: &'a Header,
    pub comparator: &'a ClusteringComparator,
}

impl<'a> SsTableCursor<'a> {
    pub(super) fn new(parts: CursorParts<'a>, slices: &'a [Slice], reversed: bool) -> Self {
        let CursorParts {
            reader,
            promoted,
            index,
            pages,
            header,
            comparator,
        } = parts;
        let blocks = promoted
            .filter(|promoted| promoted.block_count > 1)
            .map(|promoted| Blocks {
                promoted,
                stream: ChunkStream::new(index, pages),
                header,
            });
        let direction = if reversed {
            Direction::Reversed(Reversed::new(slices))
        } else {
            Direction::Forward(Forward::new(slices))
        };
        SsTableCursor {
            reader,
            blocks,
            comparator,
            direction,
            current: Current::None,
        }
    }

    /// Where the partition's first row or marker begins in the uncompressed data.
    pub fn rows_position(&self) -> u64 {
        self.reader.rows_position()
    }

    /// Where the current element begins in the uncompressed data, in a forward read of the whole partition.
    pub fn position(&self) -> u64 {
        self.reader.item_position()
    }
}

impl PartitionCursor for SsTableCursor<'_> {
    fn deletion(&self) -> DeletionTime {
        self.reader.deletion()
    }

    fn static_row(&self) -> RowRef<'_> {
        self.reader.static_row()
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        let SsTableCursor {
            reader,
            blocks,
            comparator,
            direction,
            current,
        } = self;
        *current = match direction {
            Direction::Forward(forward) => forward.next(reader, blocks.as_mut(), comparator)?,
            Direction::Reversed(reversed) => reversed.next(reader, blocks.as_mut(), comparator)?,
        };
        Ok(!matches!(current, Current::None))
    }

    fn current(&self) -> Unfiltered<'_> {
        let item = &self.reader.item;
        match (&self.current, &self.direction) {
            (Current::Read { marker: None }, _) => Unfiltered::Row {
                clustering: &item.clustering,
                row: RowRef::new(&item.row),
            },
            (
                Current::Read {
                    marker: Some((side, deletion)),
                },
                _,
            ) => Unfiltered::Marker {
                bound: BoundRef {
                    prefix: &item.clustering,
                    side: *side,
                },
                deletion: *deletion,
            },
            (Current::Edge { bound, deletion }, _) => Unfiltered::Marker {
                bound: BoundRef {
                    prefix: &bound.prefix,
                    side: bound.side,
                },
                deletion: *deletion,
            },
            (Current::Stored { index }, Direction::Reversed(reversed)) => reversed.block.item(*index),
            // Only called after an advance that returned true.
            (Current::None | Current::Stored { .. }, _) => Unfiltered::Row {
                clustering: &[],
                row: RowRef::EMPTY,
            },
        }
    }
}

#[derive(Debug)]
struct Forward<'a> {
    slices: std::slice::Iter<'a, Slice>,
    slice: Option<&'a Slice>,
    /// The range deletion in force where the reader is.
    open: DeletionTime,
}

impl<'a> Forward<'a> {
    fn new(slices: &'a [Slice]) -> Self {
        Forward {
            slices: slices.iter(),
            slice: None,
            open: DeletionTime::LIVE,
        }
    }

    fn next(
        &mut self,
        reader: &mut PartitionReader<'_>,
        mut blocks: Option<&mut Blocks<'_>>,
        comparator: &ClusteringComparator,
    ) -> Result<Current<'a>, ReadError> {
        loop {
            let Some(slice) = self.slice else {
                let Some(slice) = self.slices.next() else {
                    return Ok(Current::None);
                };
                self.slice = Some(slice);
                if let Some(blocks) = &mut blocks {
                    self.jump(reader, blocks, comparator, &slice.start)?;
                }
                self.skip_to(reader, comparator, &slice.start)?;
                if !self.open.is_live() {
                    return Ok(Current::Edge {
                        bound: &slice.start,
                        deletion: self.open,
                    });
                }
                continue;
            };
            let decoded = reader.next()?;
            let is_past = match decoded {
                Decoded::EndOfPartition => true,
                _ => order(comparator, decoded, &reader.item.clustering, &slice.end).is_ge(),
            };
            if is_past {
                reader.put_back(decoded);
                self.slice = None;
                if !self.open.is_live() {
                    return Ok(Current::Edge {
                        bound: &slice.end,
                        deletion: DeletionTime::LIVE,
                    });
                }
                continue;
            }
            let marker = match decoded {
                Decoded::Marker { side, before, after } => {
                    self.pass(reader, before, after)?;
                    Some((side, after))
                }
                _ => None,
            };
            return Ok(Current::Read { marker });
        }
    }

    /// To the block that a place lies in, if it is ahead.
    fn jump(
        &mut self,
        reader: &mut PartitionReader<'_>,
        blocks: &mut Blocks<'_>,
        comparator: &ClusteringComparator,
        start: &ClusteringBound,
    ) -> Result<(), ReadError> {
        if start.prefix.is_empty() && start.side == Side::Before {
            return Ok(());
        }
        let index = blocks.last_where(|first| first.compare_to_bound(comparator, start).is_le())?;
        if index == 0 {
            return Ok(());
        }
        let block = blocks.block(index)?;
        if block.offset <= reader.offset() {
            return Ok(());
        }
        self.open = blocks.block(index - 1)?.open_at_end;
        enter(reader, &block)
    }

    fn skip_to(
        &mut self,
        reader: &mut PartitionReader<'_>,
        comparator: &ClusteringComparator,
        start: &ClusteringBound,
    ) -> Result<(), ReadError> {
        loop {
            let decoded = reader.next()?;
            let is_before = match decoded {
                Decoded::EndOfPartition => false,
                Decoded::Row => order(comparator, decoded, &reader.item.clustering, start).is_lt(),
                // A marker exactly at the start says what is in force in the slice.
                Decoded::Marker { .. } => order(comparator, decoded, &reader.item.clustering, start).is_le(),
            };
            if !is_before {
                reader.put_back(decoded);
                return Ok(());
            }
            if let Decoded::Marker { before, after, .. } = decoded {
                self.pass(reader, before, after)?;
            }
        }
    }

    fn pass(
        &mut self,
        reader: &PartitionReader<'_>,
        before: DeletionTime,
        after: DeletionTime,
    ) -> Result<(), ReadError> {
        if before != self.open {
            return Err(wrong_marker(reader, self.open, before));
        }
        self.open = after;
        Ok(())
    }
}

impl Blocks<'_> {
    fn block(&mut self, index: u32) -> Result<IndexBlock, ReadError> {
        self.promoted
            .block(&mut self.stream, &self.header.clustering, index)
    }

    fn last_where(&mut self, holds: impl Fn(&Place) -> bool) -> Result<u32, ReadError> {
        self.promoted
            .last_block_where(&mut self.stream, &self.header.clustering, holds)
    }
}

/// Moves to the start of a block, whose first item must be where the index says.
fn enter(reader: &mut PartitionReader<'_>, block: &IndexBlock) -> Result<(), ReadError> {
    reader.seek(block.offset);
    let decoded = reader.next()?;
    let side = match decoded {
        Decoded::Marker { side, .. } => Some(side),
        Decoded::Row | Decoded::EndOfPartition => None,
    };
    let is_first = decoded != Decoded::EndOfPartition
        && side == block.first.side
        && reader.item.clustering == *block.first.prefix;
    if !is_first {
        return Err(ReadError::Corrupt {
            file: reader.path().to_path_buf(),
            offset: block.offset,
            wanted: "the row that the index says begins a block",
            found: "another one".to_owned(),
        });
    }
    reader.put_back(decoded);
    Ok(())
}

fn wrong_marker(reader: &PartitionReader<'_>, open: DeletionTime, before: DeletionTime) -> ReadError {
    ReadError::Corrupt {
        file: reader.path().to_path_buf(),
        offset: reader.offset(),
        wanted: "a marker that ends the range deletion in force",
        found: format!("the end of {before:?} within {open:?}"),
    }
}

/// Where a row or marker lies relative to a slice's bound. `Equal` only for markers.
fn order(
    comparator: &ClusteringComparator,
    decoded: Decoded,
    clustering: &[u8],
    bound: &ClusteringBound,
) -> Ordering {
    match decoded {
        Decoded::Marker { side, .. } => {
            comparator.compare_bounds((clustering, side), (&bound.prefix, bound.side))
        }
        Decoded::Row | Decoded::EndOfPartition => comparator.compare_to_bound(clustering, bound),
    }
}

#[derive(Debug)]
struct Reversed<'a> {
    slices: std::iter::Rev<std::slice::Iter<'a, Slice>>,
    slice: Option<&'a Slice>,
    block: StoredBlock,
    /// Items of the block that are not passed yet; the next one is the last of them.
    left: usize,
    /// The range deletion in force between those and what was passed.
    open: DeletionTime,
}

/// A block's items, in forward order.
#[derive(Debug, Default)]
struct StoredBlock {
    /// `None` until a block was read.
    index: Option<u32>,
    bytes: Vec<u8>,
    items: Vec<StoredItem>,
}

#[derive(Debug)]
struct StoredItem {
    decoded: Decoded,
    /// Of the clustering within the block's bytes; the row follows it.
    clustering_start: usize,
    row_start: usize,
    end: usize,
}

impl StoredBlock {
    fn clustering(&self, item: &StoredItem) -> &[u8] {
        &self.bytes[item.clustering_start..item.row_start]
    }

    /// As it is met when read backwards: a marker begins what was in force before it.
    fn item(&self, index: usize) -> Unfiltered<'_> {
        let item = &self.items[index];
        let clustering = self.clustering(item);
        match item.decoded {
            Decoded::Marker { side, before, .. } => Unfiltered::Marker {
                bound: BoundRef {
                    prefix: clustering,
                    side,
                },
                deletion: before,
            },
            Decoded::Row | Decoded::EndOfPartition => Unfiltered::Row {
                clustering,
                row: RowRef::new(&self.bytes[item.row_start..item.end]),
            },
        }
    }

    fn push(&mut self, decoded: Decoded, clustering: &[u8], row: &[u8]) {
        let clustering_start = self.bytes.len();
        self.bytes.extend_from_slice(clustering);
        let row_start = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.items.push(StoredItem {
            decoded,
            clustering_start,
            row_start,
            end: self.bytes.len(),
        });
    }
}

impl<'a> Reversed<'a> {
    fn new(slices: &'a [Slice]) -> Self {
        Reversed {
            slices: slices.iter().rev(),
            slice: None,
            block: StoredBlock::default(),
            left: 0,
            open: DeletionTime::LIVE,
        }
    }

    fn next(
        &mut self,
        reader: &mut PartitionReader<'_>,
        mut blocks: Option<&mut Blocks<'_>>,
        comparator: &ClusteringComparator,
    ) -> Result<Current<'a>, ReadError> {
        loop {
            let Some(slice) = self.slice else {
                let Some(slice) = self.slices.next() else {
                    return Ok(Current::None);
                };
                self.slice = Some(slice);
                self.jump(reader, blocks.as_deref_mut(), comparator, &slice.end)?;
                self.skip_to(reader, blocks.as_deref_mut(), comparator, &slice.end)?;
                if !self.open.is_live() {
                    return Ok(Current::Edge {
                        bound: &slice.end,
                        deletion: self.open,
                    });
                }
                continue;
            };
            let next = self.peek(reader, blocks.as_deref_mut())?;
            let is_past = next.is_none_or(|(decoded, clustering)| {
                order(comparator, decoded, clustering, &slice.start).is_le()
            });
            if is_past {
                self.slice = None;
                if !self.open.is_live() {
                    return Ok(Current::Edge {
                        bound: &slice.start,
                        deletion: DeletionTime::LIVE,
                    });
                }
                continue;
            }
            self.pass();
            return Ok(Current::Stored { index: self.left });
        }
    }

    /// To the block that a place lies in, if it is behind.
    fn jump(
        &mut self,
        reader: &mut PartitionReader<'_>,
        blocks: Option<&mut Blocks<'_>>,
        comparator: &ClusteringComparator,
        end: &ClusteringBound,
    ) -> Result<(), ReadError> {
        let Some(blocks) = blocks else {
            return if self.block.index.is_some() {
                Ok(())
            } else {
                self.load(reader, None, 0)
            };
        };
        let index = blocks.last_where(|first| first.compare_to_bound(comparator, end).is_lt())?;
        if self.block.index.is_none_or(|current| index < current) {
            self.load(reader, Some(blocks), index)?;
        }
        Ok(())
    }

    fn skip_to(
        &mut self,
        reader: &mut PartitionReader<'_>,
        mut blocks: Option<&mut Blocks<'_>>,
        comparator: &ClusteringComparator,
        end: &ClusteringBound,
    ) -> Result<(), ReadError> {
        while let Some((decoded, clustering)) = self.peek(reader, blocks.as_deref_mut())? {
            if order(comparator, decoded, clustering, end).is_lt() {
                break;
            }
            self.pass();
        }
        Ok(())
    }

    /// The next item backwards, of an earlier block if need be.
    fn peek(
        &mut self,
        reader: &mut PartitionReader<'_>,
        mut blocks: Option<&mut Blocks<'_>>,
    ) -> Result<Option<(Decoded, &[u8])>, ReadError> {
        while self.left == 0 {
            let previous = self.block.index.and_then(|index| index.checked_sub(1));
            let Some(previous) = previous else { return Ok(None) };
            self.load(reader, blocks.as_deref_mut(), previous)?;
        }
        let item = &self.block.items[self.left - 1];
        Ok(Some((item.decoded, self.block.clustering(item))))
    }

    /// Moves behind the item that was peeked at.
    fn pass(&mut self) {
        self.left -= 1;
        if let Decoded::Marker { before, .. } = self.block.items[self.left].decoded {
            self.open = before;
        }
    }

    /// Reads a block whole. It is bounded by the index's block size and one row, as its writer was.
    fn load(
        &mut self,
        reader: &mut PartitionReader<'_>,
        blocks: Option<&mut Blocks<'_>>,
        index: u32,
    ) -> Result<(), ReadError> {
        let mut open = DeletionTime::LIVE;
        let mut end = None;
        match blocks {
            None => reader.seek(0),
            Some(blocks) => {
                let block = blocks.block(index)?;
                if index > 0 {
                    open = blocks.block(index - 1)?.open_at_end;
                }
                if index + 1 < blocks.promoted.block_count {
                    end = Some(blocks.block(index + 1)?.offset);
                }
                enter(reader, &block)?;
            }
        }
        self.block.bytes.clear();
        self.block.items.clear();
        loop {
            let decoded = reader.next()?;
            if let Decoded::Marker { before, after, .. } = decoded {
                if before != open {
                    return Err(wrong_marker(reader, open, before));
                }
                open = after;
            }
            if decoded == Decoded::EndOfPartition {
                break;
            }
            self.block
                .push(decoded, &reader.item.clustering, &reader.item.row);
            if end.is_some_and(|end| reader.offset() >= end) {
                break;
            }
        }
        self.block.index = Some(index);
        self.left = self.block.items.len();
        self.open = open;
        Ok(())
    }
}
