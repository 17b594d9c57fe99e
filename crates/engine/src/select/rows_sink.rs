//! Rows of one read of a shard on their way from the store into its answer.

use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_rows::row::RowRef;
use helenus_storage::read::RowSink;
use helenus_types::{Token, token_of};

use super::bound::BoundClause;
use super::filter::FilterEffort;
use super::paging::{PagePlace, Position};
use super::plan::SelectPlan;
use super::row_view::RowView;
use super::shard_rows::{ShardRead, ShardRows};
use super::top_rows::TopRows;

/// Room for a few rows: it is made for the first.
const FIRST_ROWS_BYTES: usize = 128;

/// Filters and limits rows as they come, and keeps what is fetched of them.
pub(super) struct RowsSink<'p> {
    plan: &'p SelectPlan,
    clause: Arc<BoundClause>,
    effort: FilterEffort,
    rows_max: u32,
    /// Bytes of rows at which the read ends although more are wanted.
    bytes_max: usize,
    rows_per_partition_max: u32,
    pub(super) rows_left_in_partition: u32,
    now_s: u32,
    pub(super) key: Vec<u8>,
    static_row: Vec<u8>,
    /// The partition does not pass the filters.
    is_skipped: bool,
    pub(super) has_rows: bool,
    /// The partition was begun by an earlier read: whether that has seen rows of it.
    pub(super) resumed: Option<bool>,
    pub(super) rows: ShardRows,
    /// The rows so far, where only those nearest to a vector are wanted.
    top: Option<TopRows>,
    /// Room for one.
    vector: Vec<f32>,
    /// Outcome of the last row.
    pub(super) met: Met,
}

/// Outcome of a read of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    Nothing,
    /// The row does not match.
    Row,
    /// It matches and has no vector, or none with a place in the order.
    WithoutVector,
    Offered,
}

impl<'p> RowsSink<'p> {
    pub fn new(plan: &'p SelectPlan, read: &ShardRead, bytes_max: usize, now_s: u32) -> Self {
        let nearest = read.clause.nearest.as_ref();
        RowsSink {
            plan,
            clause: read.clause.clone(),
            effort: FilterEffort::default(),
            rows_max: read.rows_max,
            bytes_max,
            rows_per_partition_max: read.rows_per_partition_max,
            rows_left_in_partition: read.rows_left_in_partition,
            now_s,
            key: Vec::new(),
            static_row: Vec::new(),
            is_skipped: false,
            has_rows: false,
            resumed: None,
            rows: ShardRows::default(),
            top: nearest.map(|nearest| TopRows::new(nearest.rows_max)),
            vector: Vec::new(),
            met: Met::Nothing,
        }
    }
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

    fn fetch(&mut self, bytes: &mut Vec<u8>, clustering: Option<&[u8]>, row: RowRef<'_>) {
        let view = self.view(clustering, row);
        view.write_all(bytes, &self.plan.fetched, self.now_s);
        self.effort
            .add_walks(self.plan.fetched.len(), row.as_bytes().len());
    }

    /// Keeps the row if it is one of the nearest by now.
    fn offer(&mut self, clustering: Option<&[u8]>, row: RowRef<'_>) {
        let (Some(nearest), Some(ordering)) = (&self.clause.nearest, &self.plan.nearest) else {
            return;
        };
        let mut vector = std::mem::take(&mut self.vector);
        let stored = self.view(clustering, row).value(&ordering.column);
        let closeness = stored
            .as_ref()
            .and_then(|stored| nearest.closeness(stored, &mut vector));
        let vector_bytes = stored.map_or(0, |stored| stored.len());
        self.vector = vector;
        self.effort.add_value(vector_bytes);
        let Some(closeness) = closeness else {
            self.met = Met::WithoutVector;
            return;
        };
        self.met = Met::Offered;
        let place = (token_of(&self.key), &*self.key, clustering.unwrap_or_default());
        let is_taken = self.top.as_ref().is_some_and(|top| top.takes(closeness, place));
        if !is_taken {
            return;
        }
        let mut bytes = std::mem::take(&mut self.rows.bytes);
        bytes.clear();
        self.fetch(&mut bytes, clustering, row);
        let place = (token_of(&self.key), &*self.key, clustering.unwrap_or_default());
        if let Some(top) = &mut self.top {
            top.add(closeness, place, &bytes);
        }
        self.rows.bytes = bytes;
    }

    /// Returns whether there are as many of the nearest rows as are wanted.
    pub(super) fn has_all_top(&self) -> bool {
        self.top.as_ref().is_some_and(TopRows::is_full)
    }

    pub(super) fn top_bytes(&self) -> usize {
        self.top.as_ref().map_or(0, TopRows::bytes)
    }

    /// Makes the nearest rows the answer's.
    pub(super) fn take_top(&mut self) {
        if let Some(top) = self.top.take() {
            self.rows.bytes.clear();
            for fetched in top.into_fetched() {
                self.rows.bytes.extend_from_slice(&fetched);
                self.rows.count += 1;
            }
        }
    }

    fn push(&mut self, clustering: Option<&[u8]>, row: RowRef<'_>) -> ControlFlow<()> {
        if self.top.is_some() {
            self.offer(clustering, row);
            return ControlFlow::Continue(());
        }
        let mut bytes = std::mem::take(&mut self.rows.bytes);
        if self.rows.count == 0 {
            bytes.reserve(FIRST_ROWS_BYTES);
        }
        self.fetch(&mut bytes, clustering, row);
        self.rows.bytes = bytes;
        self.rows.count += 1;
        self.rows_left_in_partition = self.rows_left_in_partition.saturating_sub(1);
        if self.rows.count < self.rows_max && self.rows.bytes.len() < self.bytes_max {
            return ControlFlow::Continue(());
        }
        let has_one_row = self.plan.is_distinct || self.plan.table.clustering_count == 0;
        let is_done = has_one_row || self.rows_left_in_partition == 0;
        let side = self.plan.side_behind();
        self.rows.stopped_at = Some(Position {
            key: self.key.clone(),
            place: clustering
                .filter(|_| !is_done)
                .map(|clustering| PagePlace::behind_row(clustering, side)),
        });
        ControlFlow::Break(())
    }
}

impl RowSink for RowsSink<'_> {
    fn partition(&mut self, _: Token, key: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.static_row.clear();
        self.static_row.extend_from_slice(static_row.as_bytes());
        self.has_rows = self.resumed.unwrap_or(false);
        if self.resumed.is_none() {
            self.rows_left_in_partition = self.rows_per_partition_max;
        }
        let mut effort = self.effort;
        let view = self.view(None, RowRef::EMPTY);
        self.is_skipped = !self
            .clause
            .partition_filters
            .iter()
            .all(|filter| filter.accepts(&view, &mut effort));
        self.effort = effort;
        if self.plan.is_distinct && !self.is_skipped {
            return self.push(None, RowRef::EMPTY);
        }
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        self.has_rows = true;
        self.met = Met::Row;
        if self.is_skipped || self.plan.is_distinct || self.rows_left_in_partition == 0 {
            return ControlFlow::Continue(());
        }
        if !self.clause.row_filters.is_empty() {
            let mut effort = self.effort;
            let view = self.view(Some(clustering), row);
            let is_accepted = self
                .clause
                .row_filters
                .iter()
                .all(|filter| filter.accepts(&view, &mut effort));
            self.effort = effort;
            if !is_accepted {
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

    fn take_units(&mut self) -> u32 {
        self.effort.take_units()
    }
}
