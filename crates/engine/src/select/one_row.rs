//! One row that is read by itself, and a SELECT's answer made of it: transactions decide between the two.

use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::{Entry, RowRef};
use helenus_schema::{ColumnId, TableMetadata};
use helenus_sstable::error::ReadError;
use helenus_storage::read::{ReadCommand, ReadSink, RowSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::{Token, token_of};

use super::limit::limit_value;
use super::plan::SelectPlan;
use super::{Fetched, RowView, SelectExecution};
use crate::CqlError;
use crate::clause::key::append_single_key;
use crate::clause::slices;
use crate::execute::QueryOptions;
use crate::functions::Clock;
use crate::row_store::{RowStore, read_failure};
use crate::term::{BoundValues, EvaluationContext};

/// Which row: the first one of these slices.
#[derive(Clone, Debug)]
pub struct RowRead {
    pub table: Arc<TableMetadata>,
    pub token: Token,
    key: Vec<u8>,
    slices: Vec<Slice>,
    is_reversed: bool,
    /// A static row alone is a row.
    static_row_counts: bool,
}

/// Row that was found, and the static row of its partition.
#[derive(Clone, Debug, Default)]
pub struct StoredRow {
    static_row: Option<Vec<u8>>,
    /// Clustering and cells.
    row: Option<(Vec<u8>, Vec<u8>)>,
    /// Newest timestamp of what was found, in microseconds.
    newest_us: Option<i64>,
}

/// Why a SELECT is not about one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManyRows {
    OfARange,
    OfAPartition,
}

impl SelectPlan {
    /// Checks that the statement names one row, or the first of one partition. A marker's LIMIT is checked when it is bound.
    pub(crate) fn check_one_row(
        &self,
        options: Option<(&BoundValues<'_>, &QueryOptions<'_>)>,
    ) -> Result<(), ManyRows> {
        if self.clause.is_key_range || self.clause.token.is_some() {
            return Err(ManyRows::OfARange);
        }
        if self.clause.has_key_in() {
            return Err(ManyRows::OfAPartition);
        }
        if self.names_row_by_equality() {
            return Ok(());
        }
        let limit = match (&self.limit, options) {
            (Some(limit), None) if limit.as_marker().is_some() => return Ok(()),
            (limit, Some((values, options))) => limit_value(limit.as_ref(), &options.evaluation(values)).ok(),
            (limit, None) => {
                let constants = EvaluationContext {
                    values: &BoundValues::EMPTY,
                    clock: Clock {
                        server_timestamp_us: 0,
                    },
                    row: None,
                    aggregates: &[],
                };
                limit_value(limit.as_ref(), &constants).ok()
            }
        };
        match limit {
            Some(1) => Ok(()),
            _ => Err(ManyRows::OfAPartition),
        }
    }

    fn names_row_by_equality(&self) -> bool {
        let clustering = &self.clause.clustering;
        let named = clustering.iter().map(|restriction| restriction.columns.len());
        named.sum::<usize>() == usize::from(self.table.clustering_count)
            && clustering.iter().all(|restriction| restriction.is_equal())
    }

    /// Returns the refusal of a statement that is more than some columns of some rows as they are stored: one that filters,
    /// groups, sorts or sums up.
    pub(crate) fn computes_over_rows(&self) -> Option<&'static str> {
        if self.has_aggregates() {
            Some("No aggregation functions allowed within a transaction")
        } else if self.grouping.is_some() {
            Some("No GROUP BY clause allowed within a transaction")
        } else if self.is_reversed || !self.ordering.is_empty() || self.nearest.is_some() {
            Some("No ORDER BY clause allowed within a transaction")
        } else if self.filtering().next().is_some() {
            Some("No filtering allowed within a transaction")
        } else {
            None
        }
    }

    /// The columns that it selects.
    pub fn selected_columns(&self) -> Vec<ColumnId> {
        let fetched = self.fetched.iter();
        let columns = fetched.filter_map(|fetched| match fetched.fetched {
            Fetched::Value(column) => Some(column),
            Fetched::WriteTime(_) | Fetched::Ttl(_) => None,
        });
        columns.collect()
    }

    /// The row that the statement names.
    pub(crate) fn row_read(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<RowRead, CqlError> {
        let context = options.evaluation(values);
        let mut key = Vec::new();
        if !append_single_key(&mut key, &self.clause.partition, &context)? {
            let keys = slices::partition_keys(&self.table, &self.clause.partition, &context)?;
            slices::check_keys(&keys)?;
            key = keys.into_iter().next().unwrap_or_default();
        }
        Ok(RowRead {
            table: self.table.clone(),
            token: token_of(&key),
            key,
            slices: slices::slices(&self.table, self.slicing(), &context)?,
            is_reversed: self.is_reversed,
            static_row_counts: self.returns_static_rows,
        })
    }

    /// The body of a RESULT about a row that was read before.
    pub(crate) fn answer_of_row(
        &self,
        (read, row): (&RowRead, &StoredRow),
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Vec<u8>, CqlError> {
        let options = QueryOptions {
            page_size: None,
            paging_state: None,
            ..*options
        };
        let mut store = OneRowStore { read, row };
        let mut execution = SelectExecution::new(self, values, &options, 1)?;
        while let Some(shard_read) = execution.next_read()? {
            let mut reading = self.read_on_shard(&options, shard_read);
            while !matches!(reading.step(&mut store)?, ReadProgress::Done) {}
            execution.absorb(reading.finish())?;
        }
        execution.finish()
    }
}

impl RowRead {
    /// Returns the read of a row by its key.
    pub fn of_key(table: &Arc<TableMetadata>, key: Vec<u8>, clustering: Option<&[u8]>) -> Self {
        RowRead {
            table: table.clone(),
            token: token_of(&key),
            key,
            slices: clustering.map(Slice::covering).into_iter().collect(),
            is_reversed: false,
            static_row_counts: false,
        }
    }

    /// One step of the read. Whatever an earlier one has found is forgotten with [`StoredRow::default`].
    pub fn step<R: RowStore>(
        &self,
        now_s: u32,
        store: &mut R,
        state: &mut ReadState,
        row: &mut StoredRow,
    ) -> Result<ReadProgress, CqlError> {
        let command = ReadCommand {
            table: &self.table,
            partitions: PartitionRange::One {
                token: self.token,
                key: &self.key,
            },
            slices: &self.slices,
            reversed: self.is_reversed,
            now_s,
            index: &[],
        };
        store.read_step(&command, state, row).map_err(read_failure)
    }

    /// The row as a SELECT shows it; none if there is none.
    pub fn view<'v>(&'v self, row: &'v StoredRow) -> Option<RowView<'v>> {
        let static_row = row.static_row();
        let (clustering, cells) = match &row.row {
            Some((clustering, cells)) => (Some(clustering.as_slice()), RowRef::new(cells)),
            None if self.static_row_counts && !static_row.is_empty() => (None, RowRef::EMPTY),
            None => return None,
        };
        Some(RowView {
            partition_key: &self.key,
            partition_key_count: usize::from(self.table.partition_key_count),
            static_row,
            clustering,
            row: cells,
        })
    }
}

impl StoredRow {
    fn static_row(&self) -> RowRef<'_> {
        self.static_row.as_deref().map_or(RowRef::EMPTY, RowRef::new)
    }

    pub fn newest_us(&self) -> Option<i64> {
        self.newest_us
    }

    /// The row, or the static row where no clustering is named.
    pub fn place(&self, clustering: Option<&[u8]>) -> RowRef<'_> {
        match (clustering, &self.row) {
            (None, _) => self.static_row(),
            (Some(_), Some((_, cells))) => RowRef::new(cells),
            (Some(_), None) => RowRef::EMPTY,
        }
    }

    fn note_times(&mut self, row: RowRef<'_>) {
        let (liveness, _, entries) = row.open();
        let entries = entries.map(|entry: Entry<'_>| entry.timestamp_us());
        let newest_us = entries.fold(liveness.timestamp_us, i64::max);
        self.newest_us = self.newest_us.max(Some(newest_us));
    }
}

impl RowSink for StoredRow {
    fn partition(&mut self, _: Token, _: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        if !static_row.is_empty() {
            self.note_times(static_row);
            self.static_row = Some(static_row.as_bytes().to_vec());
        }
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        self.note_times(row);
        self.row = Some((clustering.to_vec(), row.as_bytes().to_vec()));
        ControlFlow::Break(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Has nothing but that row.
struct OneRowStore<'s> {
    read: &'s RowRead,
    row: &'s StoredRow,
}

impl RowStore for OneRowStore<'_> {
    fn read_step<S: ReadSink>(
        &mut self,
        _: &ReadCommand<'_>,
        _: &mut ReadState,
        sink: &mut S,
    ) -> Result<ReadProgress, ReadError> {
        let (read, row) = (self.read, self.row);
        if row.row.is_none() && row.static_row.is_none() {
            return Ok(ReadProgress::Done);
        }
        let mut flow = sink.partition(read.token, &read.key, row.static_row());
        if let (ControlFlow::Continue(()), Some((clustering, cells))) = (flow, &row.row) {
            flow = sink.row(clustering, RowRef::new(cells));
        }
        if flow.is_continue() {
            let _whole = sink.partition_end();
        }
        Ok(ReadProgress::Done)
    }
}
