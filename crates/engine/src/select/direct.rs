//! The short way: one partition, plain columns, nothing to filter, sort or sum up. Rows go from the store straight
//! into the response.

use std::ops::ControlFlow;

use helenus_protocol::response::RowsWriter;
use helenus_rows::clustering::Slice;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::RowRef;
use helenus_schema::ColumnKind;
use helenus_sstable::AbsentPages;
use helenus_storage::read::{ReadCommand, RowSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::{Token, token_of};

use super::bound::{BOUND_AT_ONCE_MAX, limit_value};
use super::paging::{PagePlace, PagingState, Position};
use super::plan::{FetchedColumn, Output, SelectPlan};
use super::row_view::{Fetched, RowView, SimpleCells, is_stored_as_returned};
use super::slices;
use crate::CqlError;
use crate::execute::{QueryOptions, RowStore, Scratch, read_failure};
use crate::modify::{append_single_clustering, append_single_key};
use crate::term::BoundValues;

/// Whether the short way was taken.
#[derive(Debug)]
#[must_use]
pub enum Direct {
    Done,
    /// Nothing was written, and no row was passed; once the pages are there the short way is taken again, with the
    /// same state.
    Absent(Box<AbsentPages>),
    /// Nothing was written; the general way has to be taken: the statement asks for more than the short way can do, or
    /// the read for more than one step, or its client is to be warned.
    Unsuitable,
}

impl SelectPlan {
    /// Whether the short way is open to this plan, whatever the values.
    fn is_direct(&self) -> bool {
        matches!(self.output, Output::Columns(count) if count == self.fetched.len())
            && !self.clause.is_key_range
            && self.clause.token.is_none()
            && !self.is_distinct
            && !self.decodes_json
            && self.per_partition_limit.is_none()
            && !self.is_sorted_later()
            && self.filtering().next().is_none()
    }

    /// Whether each clustering column is compared with values.
    pub fn names_one_row(&self) -> bool {
        self.clause.clustering.len() == usize::from(self.table.clustering_count)
    }

    /// The one partition the statement reads, if it may go the short way: the shard that owns it should call
    /// [`execute_direct`](Self::execute_direct). The partition's key stays in the scratch.
    pub fn direct_token(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<Token>, CqlError> {
        scratch.partition_token = None;
        if !self.is_direct() || options.paging_state.is_some() {
            return Ok(None);
        }
        options.check_read()?;
        options.check_page_size()?;
        let key = &mut scratch.partition_key;
        key.clear();
        let has_one_key = append_single_key(key, &self.clause.partition, &options.evaluation(values))?;
        scratch.partition_token = has_one_key.then(|| token_of(key));
        Ok(scratch.partition_token)
    }

    /// Appends the body of a RESULT to `out`, on the shard that owns the partition. `scratch` is as
    /// [`direct_token`](Self::direct_token) left it.
    #[inline]
    pub fn execute_direct<R: RowStore>(
        &self,
        store: &mut R,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
        state: &mut ReadState,
        out: &mut Vec<u8>,
    ) -> Result<Direct, CqlError> {
        let Some(token) = scratch.partition_token else {
            return Ok(Direct::Unsuitable);
        };
        let context = options.evaluation(values);
        let Scratch {
            partition_key,
            clustering,
            slices,
            ..
        } = scratch;
        clustering.clear();
        let is_one_row =
            self.names_one_row() && append_single_clustering(clustering, &self.clause.clustering, &context)?;
        match is_one_row {
            true => set_single_row(slices, clustering),
            false => {
                let product = slices::in_product(self.slicing(), values);
                if product.is_some_and(|product| product > store.in_product_unwarned().min(BOUND_AT_ONCE_MAX))
                {
                    return Ok(Direct::Unsuitable);
                }
                *slices = slices::slices(&self.table, self.slicing(), &context)?;
            }
        }
        let limit = limit_value(self.limit.as_ref(), &context)?;
        let start = out.len();
        let page = options.page_rows().unwrap_or(u32::MAX);
        let mut sink = DirectSink {
            plan: self,
            key: partition_key,
            static_row: None,
            has_rows: false,
            rows_max: limit.min(page),
            bytes_end: start.saturating_add(options.answer_bytes_max),
            is_paged: options.page_rows().is_some(),
            is_too_long: false,
            stopped_at: None,
            now_s: options.now_s,
            writer: RowsWriter::begin(
                out,
                self.result.for_version(options.version),
                options.metadata_form,
            ),
            out,
        };
        if !slices.is_empty() || self.selects_statics {
            let command = ReadCommand {
                table: &self.table,
                partitions: PartitionRange::One {
                    token,
                    key: partition_key,
                },
                slices,
                reversed: self.is_reversed,
                now_s: options.now_s,
                index: &[],
            };
            let progress = store
                .read_step(&command, state, &mut sink)
                .map_err(read_failure)?;
            let tombstones = state.statistics.tombstones;
            let unfinished = match progress {
                ReadProgress::Done if tombstones <= store.tombstone_limits().warn => None,
                ReadProgress::Absent(absent) if state.position().is_none() => Some(Direct::Absent(absent)),
                _ => Some(Direct::Unsuitable),
            };
            if let Some(unfinished) = unfinished {
                out.truncate(start);
                return Ok(unfinished);
            }
        }
        let count = sink.writer.row_count();
        let DirectSink {
            writer,
            stopped_at,
            is_too_long,
            ..
        } = sink;
        if is_too_long && count < limit && options.page_rows().is_none() {
            return Err(options.answer_too_long());
        }
        let paging_state = stopped_at
            .filter(|_| count < limit && (count == page || is_too_long))
            .map(|clustering| {
                let position = Position {
                    key: partition_key.clone(),
                    place: Some(PagePlace::behind_row(&clustering, self.side_behind())),
                };
                let rows_left = if limit == u32::MAX { limit } else { limit - count };
                PagingState {
                    position,
                    rows_left,
                    rows_left_in_partition: u32::MAX,
                }
                .encode()
            });
        writer.finish(out, paging_state.as_deref());
        Ok(Direct::Done)
    }
}

/// Makes the slices be one row, reusing what is there.
pub fn set_single_row(slices: &mut Vec<Slice>, clustering: &[u8]) {
    slices.truncate(1);
    match slices.first_mut() {
        Some(slice) => slice.cover(clustering),
        None => slices.push(Slice::covering(clustering)),
    }
}

struct DirectSink<'d> {
    plan: &'d SelectPlan,
    key: &'d [u8],
    /// Kept only where the plan selects static columns.
    static_row: Option<Vec<u8>>,
    has_rows: bool,
    rows_max: u32,
    /// Where `out` ends if the answer takes all that it may.
    bytes_end: usize,
    is_paged: bool,
    /// More rows than one, or a whole page, take more than they may.
    is_too_long: bool,
    /// The clustering of the row that filled the page.
    stopped_at: Option<Vec<u8>>,
    now_s: u32,
    writer: RowsWriter,
    out: &'d mut Vec<u8>,
}

impl DirectSink<'_> {
    #[inline]
    fn push(&mut self, clustering: Option<&[u8]>, row: RowRef<'_>) -> ControlFlow<()> {
        let view = RowView {
            partition_key: self.key,
            partition_key_count: usize::from(self.plan.table.partition_key_count),
            static_row: self.static_row.as_deref().map_or(RowRef::EMPTY, RowRef::new),
            clustering,
            row,
        };
        let mut cells = SimpleCells::new(row);
        for FetchedColumn { fetched, column } in &self.plan.fetched {
            match fetched {
                Fetched::Value(id)
                    if column.kind == ColumnKind::Regular && is_stored_as_returned(&column.cql_type) =>
                {
                    self.writer.value(self.out, cells.value(*id));
                }
                _ => view.write(self.out, column, *fetched, self.now_s),
            }
        }
        self.writer.end_row();
        let rows_min = if self.is_paged { 1 } else { 2 };
        self.is_too_long = self.out.len() > self.bytes_end && self.writer.row_count() >= rows_min;
        if self.writer.row_count() < self.rows_max && !self.is_too_long {
            return ControlFlow::Continue(());
        }
        let has_more_rows = self.plan.table.clustering_count > 0;
        self.stopped_at = clustering.filter(|_| has_more_rows).map(<[u8]>::to_vec);
        ControlFlow::Break(())
    }
}

impl RowSink for DirectSink<'_> {
    fn partition(&mut self, _: Token, _: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        let may_be_needed = self.plan.selects_statics || self.plan.returns_static_rows;
        if may_be_needed && !static_row.is_empty() {
            self.static_row = Some(static_row.as_bytes().to_vec());
        }
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        self.has_rows = true;
        self.push(Some(clustering), row)
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        if !self.has_rows && self.static_row.is_some() && self.plan.returns_static_rows {
            return self.push(None, RowRef::EMPTY);
        }
        ControlFlow::Continue(())
    }
}
