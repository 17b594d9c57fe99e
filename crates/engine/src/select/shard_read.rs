//! Reading on a shard: one read of a SELECT, and the rows it answers with.

use std::ops::ControlFlow;

use helenus_storage::clustering::{ClusteringBound, ClusteringComparator, Side, Slice};
use helenus_storage::read::{PartitionBound, PartitionRange, ReadCommand, RowSink};
use helenus_storage::row::RowRef;
use helenus_types::{ShardId, Token, token_of};

use super::filter::{Filter, bind_filters};
use super::paging::Position;
use super::plan::SelectPlan;
use super::row_view::RowView;
use super::slices;
use crate::CqlError;
use crate::execute::{QueryOptions, RowStore, read_failure};
use crate::term::BoundValues;

/// The bytes of rows after which a shard answers although more are wanted: what one message between shards, and one
/// step of a scan, may hold.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// What a SELECT wants of one shard next.
#[derive(Clone, Debug)]
pub struct ShardRead {
    pub shard: ShardId,
    pub partitions: ReadPartitions,
    /// Only what comes after this row.
    pub(super) after: Option<Position>,
    pub(super) rows_max: u32,
    pub(super) rows_left_in_partition: u32,
    pub(super) rows_per_partition_max: u32,
}

#[derive(Clone, Debug)]
pub enum ReadPartitions {
    Key {
        token: Token,
        key: Vec<u8>,
    },
    Range {
        start: OwnedPartitionBound,
        end: OwnedPartitionBound,
    },
}

/// A place before or after all partitions of a token.
#[derive(Clone, Copy, Debug)]
pub struct OwnedPartitionBound {
    pub token: Token,
    pub side: Side,
}

/// A shard's answer: rows, each as its fetched values, and where it stopped.
#[derive(Clone, Debug, Default)]
pub struct ShardRows {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
    /// Where to go on; none if the shard has nothing more.
    pub(super) stopped_at: Option<Position>,
    pub(super) rows_left_in_partition: u32,
}

impl SelectPlan {
    /// Reads on the shard that owns the partitions (or a virtual table's rows).
    pub fn read_on_shard<R: RowStore>(
        &self,
        store: &mut R,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        read: &ShardRead,
    ) -> Result<ShardRows, CqlError> {
        let context = options.evaluation(values);
        let filters = bind_filters(self.filtering(), &context)?;
        let (partition_filters, row_filters) = filters.into_iter().partition(Filter::is_of_partition);
        let slices = match self.is_distinct {
            true => vec![Slice::all()],
            false => slices::slices(&self.table, self.slicing(), &context)?,
        };
        let mut sink = RowsSink {
            plan: self,
            partition_filters,
            row_filters,
            rows_max: read.rows_max,
            rows_per_partition_max: read.rows_per_partition_max,
            rows_left_in_partition: read.rows_left_in_partition,
            now_s: options.now_s,
            key: Vec::new(),
            static_row: Vec::new(),
            is_skipped: false,
            has_rows: false,
            is_resumed: false,
            rows: ShardRows::default(),
        };
        if slices.is_empty() && !(self.selects_statics && self.returns_static_rows) {
            return Ok(sink.rows);
        }
        let mut run = |partitions: PartitionRange<'_>, slices: &[Slice], sink: &mut RowsSink<'_>| {
            let command = ReadCommand {
                table: &self.table,
                partitions,
                slices,
                reversed: self.is_reversed,
                now_s: options.now_s,
            };
            store.read(&command, sink).map(drop).map_err(read_failure)
        };
        if let Some(Position {
            key,
            clustering: Some(clustering),
        }) = &read.after
        {
            sink.is_resumed = true;
            let rest = self.slices_after(&slices, clustering);
            if !rest.is_empty() {
                run(
                    PartitionRange::One {
                        token: token_of(key),
                        key,
                    },
                    &rest,
                    &mut sink,
                )?;
            }
            sink.is_resumed = false;
        }
        if sink.rows.stopped_at.is_some() {
            return Ok(sink.finish());
        }
        match &read.partitions {
            ReadPartitions::Key { token, key } if read.after.is_none() => {
                sink.rows_left_in_partition = read.rows_left_in_partition;
                run(PartitionRange::One { token: *token, key }, &slices, &mut sink)?;
            }
            ReadPartitions::Key { .. } => {}
            ReadPartitions::Range { start, end } => {
                let start = match &read.after {
                    Some(position) => PartitionBound {
                        token: token_of(&position.key),
                        key: Some(&position.key),
                        side: Side::After,
                    },
                    None => PartitionBound {
                        token: start.token,
                        key: None,
                        side: start.side,
                    },
                };
                let end = PartitionBound {
                    token: end.token,
                    key: None,
                    side: end.side,
                };
                run(PartitionRange::Many { start, end }, &slices, &mut sink)?;
            }
        }
        Ok(sink.finish())
    }

    /// What is left of the slices behind a row.
    pub(super) fn slices_after(&self, slices: &[Slice], clustering: &[u8]) -> Vec<Slice> {
        let comparator = ClusteringComparator::of(&self.table);
        let side = if self.is_reversed {
            Side::Before
        } else {
            Side::After
        };
        let row = ClusteringBound {
            prefix: clustering.into(),
            side,
        };
        let is_before = |left: &ClusteringBound, right: &ClusteringBound| {
            comparator
                .compare_bounds((&left.prefix, left.side), (&right.prefix, right.side))
                .is_lt()
        };
        let cut = slices.iter().map(|slice| match self.is_reversed {
            true if is_before(&row, &slice.end) => Slice {
                start: slice.start.clone(),
                end: row.clone(),
            },
            false if is_before(&slice.start, &row) => Slice {
                start: row.clone(),
                end: slice.end.clone(),
            },
            _ => slice.clone(),
        });
        cut.filter(|slice| is_before(&slice.start, &slice.end)).collect()
    }
}

/// Filters and limits rows as they come, and keeps what is fetched of them.
struct RowsSink<'p> {
    plan: &'p SelectPlan,
    partition_filters: Vec<Filter>,
    row_filters: Vec<Filter>,
    rows_max: u32,
    rows_per_partition_max: u32,
    rows_left_in_partition: u32,
    now_s: u32,
    key: Vec<u8>,
    static_row: Vec<u8>,
    /// The partition does not pass the filters.
    is_skipped: bool,
    has_rows: bool,
    /// The partition was begun by an earlier read.
    is_resumed: bool,
    rows: ShardRows,
}

impl RowsSink<'_> {
    fn view<'v>(&'v self, clustering: Option<&'v [u8]>, row: RowRef<'v>) -> RowView<'v> {
        RowView {
            partition_key: &self.key,
            partition_key_count: usize::from(self.plan.table.partition_key_count),
            static_row: RowRef::new(&self.static_row),
            clustering,
            row,
        }
    }

    fn push(&mut self, clustering: Option<&[u8]>, row: RowRef<'_>) -> ControlFlow<()> {
        let mut bytes = std::mem::take(&mut self.rows.bytes);
        let view = self.view(clustering, row);
        for fetched in &self.plan.fetched {
            view.write(&mut bytes, &fetched.column, fetched.fetched, self.now_s);
        }
        self.rows.bytes = bytes;
        self.rows.count += 1;
        self.rows_left_in_partition = self.rows_left_in_partition.saturating_sub(1);
        if self.rows.count < self.rows_max && self.rows.bytes.len() < ANSWER_BYTES_MAX {
            return ControlFlow::Continue(());
        }
        let has_one_row = self.plan.is_distinct || self.plan.table.clustering_count == 0;
        let is_done = has_one_row || self.rows_left_in_partition == 0;
        let clustering = clustering.filter(|_| !is_done).map(<[u8]>::to_vec);
        self.rows.stopped_at = Some(Position {
            key: self.key.clone(),
            clustering,
        });
        ControlFlow::Break(())
    }

    fn finish(mut self) -> ShardRows {
        self.rows.rows_left_in_partition = self.rows_left_in_partition;
        self.rows
    }
}

impl RowSink for RowsSink<'_> {
    fn partition(&mut self, _: Token, key: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.static_row.clear();
        self.static_row.extend_from_slice(static_row.as_bytes());
        self.has_rows = self.is_resumed;
        if !self.is_resumed {
            self.rows_left_in_partition = self.rows_per_partition_max;
        }
        let view = self.view(None, RowRef::EMPTY);
        self.is_skipped = !self.partition_filters.iter().all(|filter| filter.accepts(&view));
        if self.plan.is_distinct && !self.is_skipped {
            return self.push(None, RowRef::EMPTY);
        }
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        self.has_rows = true;
        if self.is_skipped || self.plan.is_distinct || self.rows_left_in_partition == 0 {
            return ControlFlow::Continue(());
        }
        if !self.row_filters.is_empty() {
            let view = self.view(Some(clustering), row);
            if !self.row_filters.iter().all(|filter| filter.accepts(&view)) {
                return ControlFlow::Continue(());
            }
        }
        self.push(Some(clustering), row)
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        let is_static_only = !self.has_rows && !RowRef::new(&self.static_row).is_empty();
        if is_static_only && self.plan.returns_static_rows && !self.is_skipped && !self.plan.is_distinct {
            return self.push(None, RowRef::EMPTY);
        }
        ControlFlow::Continue(())
    }
}
