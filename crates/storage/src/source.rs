//! What every holder of rows offers to a merge: memtables and SSTables as streams of one partition's content.

use helenus_types::Token;

use crate::deletion::DeletionTime;
use crate::error::ReadError;
use crate::row::RowRef;
use crate::update::BoundRef;

/// A row or a change of the range deletion in force, as it lies in the stream; nothing is resolved yet.
#[derive(Clone, Copy, Debug)]
pub enum Unfiltered<'a> {
    Row {
        clustering: &'a [u8],
        row: RowRef<'a>,
    },
    /// From this bound on, in the direction of the stream, `deletion` is in force; [`DeletionTime::LIVE`] ends one.
    Marker {
        bound: BoundRef<'a>,
        deletion: DeletionTime,
    },
}

/// One source's content of one partition, within the slices and in the direction it was opened with.
///
/// A range deletion that covers the start of a slice is announced by a marker at that start, and ended by one at the
/// slice's end, so that slices can be read apart from each other.
pub trait PartitionCursor {
    fn deletion(&self) -> DeletionTime;

    /// [`RowRef::EMPTY`] where the source has none.
    fn static_row(&self) -> RowRef<'_>;

    /// Moves to the next element; false at the end.
    fn advance(&mut self) -> Result<bool, ReadError>;

    /// The element that the last `advance` moved to; only called after it returned true.
    fn current(&self) -> Unfiltered<'_>;
}

/// The partitions of one source in token order.
pub trait PartitionScanner {
    /// Moves to the next partition and opens it whole (or within the slices given at the start); `None` at the end.
    fn next_partition(&mut self) -> Result<Option<ScannedPartition<'_>>, ReadError>;
}

pub struct ScannedPartition<'a> {
    pub token: Token,
    pub key: &'a [u8],
    pub cursor: Box<dyn PartitionCursor + 'a>,
}
