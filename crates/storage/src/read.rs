//! Read command of a query to one shard, and the sinks that its rows go to.

use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_types::Token;

use helenus_index::IndexPredicate;
use helenus_rows::clustering::Slice;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_sstable::ReadCost;
use helenus_sstable::source::Unfiltered;

use helenus_rows::partition_range::PartitionRange;

/// Which rows of which partitions of one table, and in which direction.
#[derive(Clone, Debug)]
pub struct ReadCommand<'a> {
    pub table: &'a Arc<TableMetadata>,
    pub partitions: PartitionRange<'a>,
    /// Disjoint, in clustering order (also when `reversed`); empty for none but the static row.
    pub slices: &'a [Slice],
    /// Rows of each partition from last to first.
    pub reversed: bool,
    /// Time of the read, in seconds since the Unix epoch; what has expired by then is not there.
    pub now_s: u32,
    /// Predicates that wanted rows match, as far as indexes can say; the sink looks at each row again. Empty for all rows.
    pub index: &'a [IndexPredicate],
}

/// A row as it is stored, dead or alive.
#[derive(Clone, Copy, Debug)]
pub struct StoredRow<'s> {
    /// Its own: what compares as equal may have other bytes. None where there is no row.
    pub clustering: Option<&'s [u8]>,
    pub row: RowRef<'s>,
    /// The deletion of its partition or of a range around it.
    pub shadow: DeletionTime,
}

impl StoredRow<'static> {
    pub const NONE: StoredRow<'static> = StoredRow {
        clustering: None,
        row: RowRef::EMPTY,
        shadow: DeletionTime::LIVE,
    };
}

/// Takes the rows of a read as they are merged. What arrives is live at the command's `now_s`: no tombstones, no
/// expired cells, no rows without content; timestamps and remaining TTLs are still on the cells.
///
/// `Break` ends the read at once: the sink remembers where, and a later read starts after that row.
pub trait RowSink {
    /// A partition with at least one live row in the slices, or with a live static row (else empty).
    fn partition(&mut self, token: Token, key: &[u8], static_row: RowRef<'_>) -> ControlFlow<()>;

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()>;

    /// After the last row of a partition that was announced, if no `Break` came before.
    fn partition_end(&mut self) -> ControlFlow<()>;

    /// Returns the work that the sink has done since it was last asked, beyond taking rows: units of the step's budget.
    fn take_units(&mut self) -> u32 {
        0
    }
}

/// Takes what is stored as it is merged, dead or alive; a read is given it as [`Stored`]. `Break` ends the read at once.
pub trait StoredSink {
    /// A partition that may have something in the slices. A read announces it again with each step that goes on in it: range
    /// deletions that reach over that place are announced again, too.
    fn partition(&mut self, token: Token, key: &[u8], deletion: DeletionTime) -> ControlFlow<()>;

    /// Takes the next element of the partition.
    fn element(&mut self, element: Unfiltered<'_>) -> ControlFlow<()>;

    /// As [`RowSink::take_units`].
    fn take_units(&mut self) -> u32 {
        0
    }
}

/// A sink of what is stored, for a read.
pub struct Stored<'s, S>(pub &'s mut S);

/// Whatever a read may fill: every [`RowSink`], and [`Stored`]. Nothing else is one.
pub trait ReadSink {
    /// True if the sink is given what is stored instead of rows.
    const TAKES_STORED: bool;

    fn stored_partition(&mut self, token: Token, key: &[u8], deletion: DeletionTime) -> ControlFlow<()>;
    fn stored_element(&mut self, element: Unfiltered<'_>) -> ControlFlow<()>;
    fn partition(&mut self, token: Token, key: &[u8], static_row: RowRef<'_>) -> ControlFlow<()>;
    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()>;
    fn partition_end(&mut self) -> ControlFlow<()>;
    fn take_units(&mut self) -> u32;
}

impl<S: RowSink> ReadSink for S {
    const TAKES_STORED: bool = false;

    fn stored_partition(&mut self, _: Token, _: &[u8], _: DeletionTime) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn stored_element(&mut self, _: Unfiltered<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[inline]
    fn partition(&mut self, token: Token, key: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        RowSink::partition(self, token, key, static_row)
    }

    #[inline]
    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        RowSink::row(self, clustering, row)
    }

    #[inline]
    fn partition_end(&mut self) -> ControlFlow<()> {
        RowSink::partition_end(self)
    }

    #[inline]
    fn take_units(&mut self) -> u32 {
        RowSink::take_units(self)
    }
}

impl<S: StoredSink> ReadSink for Stored<'_, S> {
    const TAKES_STORED: bool = true;

    fn stored_partition(&mut self, token: Token, key: &[u8], deletion: DeletionTime) -> ControlFlow<()> {
        self.0.partition(token, key, deletion)
    }

    fn stored_element(&mut self, element: Unfiltered<'_>) -> ControlFlow<()> {
        self.0.element(element)
    }

    fn partition(&mut self, _: Token, _: &[u8], _: RowRef<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[u8], _: RowRef<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn take_units(&mut self) -> u32 {
        self.0.take_units()
    }
}

/// Cost of a read; for warnings, tracing and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatistics {
    pub rows_live: u64,
    pub tombstones: u64,
    pub sstables_touched: u32,
    /// True if secondary indexes said which rows to look at, in one step at least.
    pub by_index: bool,
    pub cost: ReadCost,
}
