//! Reading slices of a partition, in either direction.
//!
//! Both directions walk alike: to the bound of a slice that they meet first, over what lies between its bounds, to the
//! next slice. Forward, items are decoded one by one as they are asked for. In reverse, the blocks of the index are
//! decoded whole, last first, and given out backwards; a partition without an index is one block. Where a slice ends is
//! looked up with where it begins, so that no more is read than the blocks between. The first item of a block that was
//! jumped to must be what the index says.

use std::cmp::Ordering;

use crate::block::chunk_stream::ChunkStream;
use crate::error::ReadError;
use crate::index::blocks::Blocks;
use crate::index::fences::Stretch;
use crate::rows::backward::{enter, wrong_marker};
use crate::rows::partition_reader::{PartitionPlace, PartitionReader};
use crate::rows::row_decoder::Decoded;
use crate::rows::stop::{Stop, StopPlace};
use crate::rows::stored_block::Backward;
use crate::source::{PartitionCursor, Unfiltered};
use helenus_rows::clustering::{ClusteringBound, ClusteringComparator, Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_rows::update::BoundRef;

/// One partition of one SSTable within slices.
#[derive(Debug)]
pub struct SsTableCursor<'a> {
    reader: PartitionReader<'a>,
    blocks: Option<Blocks<'a>>,
    comparator: &'a ClusteringComparator,
    slices: &'a [Slice],
    direction: Direction,
    /// How many slices were begun, in the direction of the read.
    slices_begun: usize,
    slice: Option<&'a Slice>,
    /// The slice is one key's, and where clusterings have columns.
    is_key: bool,
    /// Its row was handed out.
    is_passed: bool,
    /// The range deletion in force between what was passed and what comes.
    open: DeletionTime,
    current: Current<'a>,
}

#[derive(Debug)]
enum Direction {
    Forward,
    Reversed(Box<Backward>),
}

#[derive(Clone, Debug)]
enum Current<'a> {
    /// Before the first, or after the last.
    None,
    /// The item that the reader holds.
    Read { marker: Option<ReadMarker> },
    /// A slice's end, where a range deletion begins or ends to be in force.
    Edge {
        bound: &'a ClusteringBound,
        deletion: DeletionTime,
    },
    /// An item of the reversed block.
    Stored { index: usize },
}

#[derive(Clone, Copy, Debug)]
struct ReadMarker {
    side: Side,
    before: DeletionTime,
    after: DeletionTime,
}

impl<'a> SsTableCursor<'a> {
    /// A cursor that is nowhere yet. `slices` are disjoint and in clustering order, also when `reversed`.
    pub(crate) fn new(
        reader: PartitionReader<'a>,
        comparator: &'a ClusteringComparator,
        slices: &'a [Slice],
        reversed: bool,
    ) -> Self {
        let direction = if reversed {
            Direction::Reversed(Box::default())
        } else {
            Direction::Forward
        };
        SsTableCursor {
            reader,
            blocks: None,
            comparator,
            slices,
            direction,
            slices_begun: 0,
            slice: None,
            is_key: false,
            is_passed: false,
            open: DeletionTime::LIVE,
            current: Current::None,
        }
    }

    /// Goes to a partition, before its first element; false for a candidate that turns out to be another key's.
    pub(crate) fn open(
        &mut self,
        place: &PartitionPlace<'_>,
        blocks: Option<Blocks<'a>>,
    ) -> Result<bool, ReadError> {
        self.begin(blocks);
        self.reader.open(place)
    }

    /// Goes to the partition of a key in a stretch, before its first element; false if it is not there.
    pub(crate) fn open_in(&mut self, stretch: Stretch, key: &[u8]) -> Result<bool, ReadError> {
        self.begin(None);
        self.reader.open_in(stretch, key)
    }

    fn begin(&mut self, blocks: Option<Blocks<'a>>) {
        self.blocks = blocks;
        self.slices_begun = 0;
        self.slice = None;
        self.is_passed = false;
        self.open = DeletionTime::LIVE;
        self.current = Current::None;
        if let Direction::Reversed(backward) = &mut self.direction {
            backward.reset();
        }
    }

    /// Data.db, for whoever looks for partitions to open.
    pub(crate) fn data_mut(&mut self) -> &mut ChunkStream<'a> {
        self.reader.stream_mut()
    }

    /// Where the partition's first row or marker begins in the uncompressed data.
    pub fn rows_position(&self) -> u64 {
        self.reader.rows_position()
    }

    /// Behind what has been read of the partition: behind all of it after the last element.
    pub fn end_position(&self) -> u64 {
        self.reader.end_position()
    }

    /// Goes to the end of the partition and says where it is; for a forward cursor that has no more elements. A marker at
    /// the very end of a slice is not one of them.
    pub fn pass_rest(&mut self) -> Result<u64, ReadError> {
        while self.reader.peek()? != Decoded::EndOfPartition {
            self.reader.pass();
        }
        Ok(self.reader.end_position())
    }

    /// Where the current element begins in the uncompressed data, in a forward read of the whole partition.
    pub fn position(&self) -> u64 {
        match &self.current {
            // The marker at the very start was read before the first row.
            Current::Edge { bound, .. } if bound.side == Side::Before => self.reader.rows_position(),
            _ => self.reader.item_position(),
        }
    }

    fn next(&mut self) -> Result<Current<'a>, ReadError> {
        loop {
            let Some(slice) = self.slice else {
                let Some(slice) = self.next_slice() else {
                    return Ok(Current::None);
                };
                if !self.jump(slice)? {
                    continue;
                }
                self.slice = Some(slice);
                let component_count = self.comparator.component_count();
                self.is_key = component_count > 0 && slice.as_key(component_count).is_some();
                self.is_passed = false;
                let (near, _) = self.ends(slice);
                self.pass_rows_before(near)?;
                while self.order_of_next(near)?.is_some_and(Ordering::is_le) {
                    self.pass()?;
                    self.pass_rows_before(near)?;
                }
                if !self.open.is_live() {
                    let deletion = self.open;
                    return Ok(Current::Edge {
                        bound: near,
                        deletion,
                    });
                }
                continue;
            };
            let (_, far) = self.ends(slice);
            if self.is_passed || self.order_of_next(far)?.is_none_or(Ordering::is_ge) {
                self.slice = None;
                if !self.open.is_live() {
                    let deletion = DeletionTime::LIVE;
                    return Ok(Current::Edge { bound: far, deletion });
                }
                continue;
            }
            let current = self.pass()?;
            // Nothing of a key's slice lies behind its row.
            self.is_passed = self.is_key && matches!(current, Current::Read { marker: None });
            return Ok(current);
        }
    }

    /// Without decoding them, forward.
    fn pass_rows_before(&mut self, bound: &ClusteringBound) -> Result<(), ReadError> {
        if matches!(self.direction, Direction::Forward) && !bound.prefix.is_empty() {
            self.reader.pass_rows_before(self.comparator, bound)?;
        }
        Ok(())
    }

    fn next_slice(&mut self) -> Option<&'a Slice> {
        let begun = self.slices_begun;
        self.slices_begun += 1;
        self.slice_at(begun)
    }

    /// The slice that is met after so many others.
    fn slice_at(&self, index: usize) -> Option<&'a Slice> {
        match self.direction {
            Direction::Forward => self.slices.get(index),
            Direction::Reversed(_) => self
                .slices
                .len()
                .checked_sub(index + 1)
                .and_then(|index| self.slices.get(index)),
        }
    }

    /// The bound of a slice that is met first, and the other one.
    fn ends<'s>(&self, slice: &'s Slice) -> (&'s ClusteringBound, &'s ClusteringBound) {
        match self.direction {
            Direction::Forward => (&slice.start, &slice.end),
            Direction::Reversed(_) => (&slice.end, &slice.start),
        }
    }

    /// Goes to the block that a slice begins in, if it is ahead; false if the slice is certain to be empty.
    fn jump(&mut self, slice: &Slice) -> Result<bool, ReadError> {
        if self.slices_begun == 1 {
            self.resume(slice);
        }
        match &mut self.direction {
            Direction::Forward => self.jump_forward(slice),
            Direction::Reversed(_) => self.jump_backward(slice),
        }
    }

    /// Goes to where the cursor of an earlier step stopped in the same slice, if there was one.
    fn resume(&mut self, slice: &Slice) {
        let (_, far) = self.ends(slice);
        let Some(stop) = self.reader.take_stop(far) else {
            return;
        };
        match (stop.at, &mut self.direction) {
            // The index of that step was given up since then.
            (StopPlace::Block(block), _)
                if block
                    .span
                    .as_ref()
                    .is_some_and(|span| !span.is_of(self.blocks.as_ref())) =>
            {
                return;
            }
            (StopPlace::Offset(offset), Direction::Forward) => self.reader.seek(offset),
            (StopPlace::Block(block), Direction::Reversed(backward)) => *backward = block,
            _ => return,
        }
        self.open = stop.open;
    }

    /// Where a cursor of the same slice could go on with what this one has not handed out, or handed out last.
    fn stop(&mut self) -> Option<Stop> {
        let is_point = match self.slices {
            [slice] => slice.as_key(self.comparator.component_count()).is_some(),
            _ => false,
        };
        if is_point {
            return None;
        }
        let far = self.ends(self.slice_begun_last()?).1.clone();
        let (at, open) = match &mut self.direction {
            Direction::Forward => {
                let (offset, is_passed) = self.reader.last_item();
                let open = match &self.current {
                    Current::Read { marker: Some(marker) } if is_passed => marker.before,
                    _ => self.open,
                };
                let offset = match &self.current {
                    Current::Read { .. } => offset,
                    _ if is_passed => self.reader.offset(),
                    _ => offset,
                };
                (StopPlace::Offset(offset), open)
            }
            Direction::Reversed(backward) if backward.is_loaded => {
                let mut block = std::mem::take(backward);
                let mut open = self.open;
                if let Current::Stored { index } = &self.current
                    && *index == block.left
                {
                    block.left += 1;
                    if let (Decoded::Marker { after, .. }, _) = block.block.peek(*index) {
                        open = after;
                    }
                }
                (StopPlace::Block(block), open)
            }
            Direction::Reversed(_) => return None,
        };
        Some(Stop {
            file: self.reader.file(),
            partition: self.reader.partition_position(),
            far,
            open,
            at,
        })
    }

    fn slice_begun_last(&self) -> Option<&'a Slice> {
        let index = self.slices_begun.min(self.slices.len()).checked_sub(1)?;
        self.slice_at(index)
    }

    fn jump_forward(&mut self, slice: &Slice) -> Result<bool, ReadError> {
        let Some(blocks) = &mut self.blocks else {
            return Ok(true);
        };
        if *slice == Slice::all() {
            return Ok(true);
        }
        let block = blocks.first_of(self.comparator, &slice.start)?;
        if block.start >= block.end {
            return Ok(false);
        }
        let end = if blocks.has_one_block(self.comparator, slice) {
            if blocks.lacks(&block, slice)? {
                return Ok(false);
            }
            block.end
        } else {
            blocks.end_before(self.comparator, &block, &slice.end)?
        };
        self.reader.set_limit(end);
        if self.slices_begun < self.slices.len() {
            self.reader.read_on();
        }
        if block.start > self.reader.offset() {
            self.open = block.open_before;
            enter(&mut self.reader, &block)?;
        }
        Ok(true)
    }

    fn jump_backward(&mut self, slice: &Slice) -> Result<bool, ReadError> {
        let Direction::Reversed(backward) = &mut self.direction else {
            return Ok(true);
        };
        let Some(blocks) = &mut self.blocks else {
            if !backward.is_loaded {
                self.open = backward.load(&mut self.reader, None)?;
            }
            return Ok(true);
        };
        let block = blocks.last_before(self.comparator, &slice.end)?;
        let is_key = blocks.has_one_block(self.comparator, slice);
        if is_key && blocks.lacks(&block, slice)? {
            return Ok(false);
        }
        backward.floor = is_key.then_some(block.start);
        let is_ahead = backward
            .span
            .as_ref()
            .is_none_or(|current| block.start < current.start);
        if is_ahead {
            backward.prefetched = 0;
            self.open = backward.load(&mut self.reader, Some(block))?;
        }
        Ok(true)
    }

    /// Where what comes next lies relative to a bound, in the direction of the read; `None` where nothing comes.
    /// `Equal` only for markers.
    fn order_of_next(&mut self, bound: &ClusteringBound) -> Result<Option<Ordering>, ReadError> {
        match &mut self.direction {
            Direction::Forward => {
                let decoded = self.reader.peek()?;
                if decoded == Decoded::EndOfPartition {
                    return Ok(None);
                }
                let clustering = &self.reader.item.clustering;
                Ok(Some(order(self.comparator, decoded, clustering, bound)))
            }
            Direction::Reversed(_) => {
                if !self.refill()? {
                    return Ok(None);
                }
                let Direction::Reversed(backward) = &self.direction else {
                    return Ok(None);
                };
                let (decoded, clustering) = backward.block.peek(backward.left - 1);
                Ok(Some(order(self.comparator, decoded, clustering, bound).reverse()))
            }
        }
    }

    /// Reads blocks before the current one until there is an item, or no block is needed.
    fn refill(&mut self) -> Result<bool, ReadError> {
        let Direction::Reversed(backward) = &mut self.direction else {
            return Ok(false);
        };
        while backward.left == 0 {
            let (Some(blocks), Some(current)) = (&mut self.blocks, &backward.span) else {
                return Ok(false);
            };
            let floor = match (backward.floor, self.slice) {
                (Some(floor), _) => floor,
                (None, Some(slice)) if slice.start == ClusteringBound::bottom() => 0,
                (None, Some(slice)) => blocks.first_of(self.comparator, &slice.start)?.start,
                (None, None) => 0,
            };
            backward.floor = self.slice.map(|_| floor);
            if current.start <= floor {
                return Ok(false);
            }
            let Some(block) = blocks.before(current)? else {
                return Ok(false);
            };
            self.open = backward.load(&mut self.reader, Some(block))?;
        }
        Ok(true)
    }

    /// Moves behind what came next.
    fn pass(&mut self) -> Result<Current<'a>, ReadError> {
        match &mut self.direction {
            Direction::Forward => {
                let marker = match self.reader.peek()? {
                    Decoded::Marker { side, before, after } => {
                        if before != self.open {
                            return Err(wrong_marker(&self.reader, self.open, before));
                        }
                        self.open = after;
                        Some(ReadMarker { side, before, after })
                    }
                    Decoded::Row | Decoded::EndOfPartition => None,
                };
                self.reader.pass();
                Ok(Current::Read { marker })
            }
            Direction::Reversed(backward) => {
                backward.left -= 1;
                let index = backward.left;
                if let (Decoded::Marker { before, .. }, _) = backward.block.peek(index) {
                    self.open = before;
                }
                Ok(Current::Stored { index })
            }
        }
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
        self.current = self.next()?;
        Ok(!matches!(self.current, Current::None))
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
                    marker: Some(ReadMarker { side, after, .. }),
                },
                _,
            ) => Unfiltered::Marker {
                bound: BoundRef {
                    prefix: &item.clustering,
                    side: *side,
                },
                deletion: *after,
            },
            (Current::Edge { bound, deletion }, _) => Unfiltered::Marker {
                bound: BoundRef {
                    prefix: &bound.prefix,
                    side: bound.side,
                },
                deletion: *deletion,
            },
            (Current::Stored { index }, Direction::Reversed(backward)) => backward.block.item(*index),
            // Only called after an advance that returned true.
            (Current::None | Current::Stored { .. }, _) => Unfiltered::Row {
                clustering: &[],
                row: RowRef::EMPTY,
            },
        }
    }
}

impl Drop for SsTableCursor<'_> {
    fn drop(&mut self) {
        self.reader.count_decoded();
        if self.reader.is_in_steps()
            && let Some(stop) = self.stop()
        {
            self.reader.note_stop(stop);
        }
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
