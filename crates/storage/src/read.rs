//! What a query asks of one shard, and how it gets its rows.

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
    /// What has expired by then is not there. Seconds since the Unix epoch.
    pub now_s: u32,
    /// What rows must match to be wanted, as far as indexes can say; the sink looks at each row again. Empty for all rows.
    pub index: &'a [IndexPredicate],
}

/// Takes the rows of a read as they are merged. What arrives is live at the command's `now_s`: no tombstones, no
/// expired cells, no rows without content; timestamps and remaining TTLs are still on the cells.
///
/// `Break` ends the read at once: the sink remembers where, and a later read starts after that row.
pub trait RowSink {
    /// Whether it takes what is stored as it is merged, dead or alive ([`RowSink::raw_partition`] and [`RowSink::raw`]), instead
    /// of rows.
    const IS_RAW: bool = false;

    /// A partition that may have something in the slices. A read announces it again with each step that goes on in it: range
    /// deletions that reach over that place are announced again, too.
    fn raw_partition(&mut self, _token: Token, _key: &[u8], _deletion: DeletionTime) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// What is next in it.
    fn raw(&mut self, _element: Unfiltered<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// A partition with at least one live row in the slices, or with a live static row (else empty).
    fn partition(&mut self, token: Token, key: &[u8], static_row: RowRef<'_>) -> ControlFlow<()>;

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()>;

    /// After the last row of a partition that was announced, if no `Break` came before.
    fn partition_end(&mut self) -> ControlFlow<()>;

    /// What the sink has done since it was last asked, beyond taking rows: units of the step's budget.
    fn take_units(&mut self) -> u32 {
        0
    }
}

/// What a read cost; for warnings, tracing and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatistics {
    pub rows_live: u64,
    pub tombstones: u64,
    pub sstables_touched: u32,
    pub cost: ReadCost,
}
