//! Interface of every holder of rows to a merge: memtables and SSTables as streams of one partition's content.

use helenus_types::Token;

use crate::error::ReadError;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::partition_range::PartitionBound;
use helenus_rows::row::RowRef;
use helenus_rows::update::BoundRef;

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

/// The partitions of one source in token order, keys of equal token in byte order.
///
/// A merge looks at the position of every source first and then opens only those that stand on the next partition,
/// so moving must not read a partition's rows.
pub trait PartitionScanner {
    /// Moves to the next partition; false at the end.
    fn advance(&mut self) -> Result<bool, ReadError>;

    /// Moves to the first partition that does not lie before a bound, over those between as quickly as it can; stays
    /// where it stands on such a one. False at the end.
    fn advance_to(&mut self, start: &PartitionBound<'_>) -> Result<bool, ReadError>;

    /// Where the last `advance` moved to; only called after it returned true.
    fn position(&self) -> (Token, &[u8]);

    /// Opens the partition of `position`, within the slices and direction given at the start. At most once for each
    /// partition; what the cursor did not read is skipped by the next `advance`.
    fn open(&mut self) -> Result<OpenPartition<'_>, ReadError>;
}

/// A partition that a scanner stands on.
pub enum OpenPartition<'a> {
    /// The scanner's own cursor, which goes from partition to partition.
    Lent(&'a mut (dyn PartitionCursor + 'a)),
    Owned(Box<dyn PartitionCursor + 'a>),
}

impl<'a> OpenPartition<'a> {
    fn cursor(&self) -> &(dyn PartitionCursor + 'a) {
        match self {
            OpenPartition::Lent(cursor) => *cursor,
            OpenPartition::Owned(cursor) => &**cursor,
        }
    }
}

impl PartitionCursor for OpenPartition<'_> {
    fn deletion(&self) -> DeletionTime {
        self.cursor().deletion()
    }

    fn static_row(&self) -> RowRef<'_> {
        self.cursor().static_row()
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        match self {
            OpenPartition::Lent(cursor) => cursor.advance(),
            OpenPartition::Owned(cursor) => cursor.advance(),
        }
    }

    fn current(&self) -> Unfiltered<'_> {
        self.cursor().current()
    }
}

impl<C: PartitionCursor + ?Sized> PartitionCursor for &mut C {
    fn deletion(&self) -> DeletionTime {
        (**self).deletion()
    }

    fn static_row(&self) -> RowRef<'_> {
        (**self).static_row()
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        (**self).advance()
    }

    fn current(&self) -> Unfiltered<'_> {
        (**self).current()
    }
}

impl<C: PartitionCursor + ?Sized> PartitionCursor for Box<C> {
    fn deletion(&self) -> DeletionTime {
        (**self).deletion()
    }

    fn static_row(&self) -> RowRef<'_> {
        (**self).static_row()
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        (**self).advance()
    }

    fn current(&self) -> Unfiltered<'_> {
        (**self).current()
    }
}
