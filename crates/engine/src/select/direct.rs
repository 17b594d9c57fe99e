//! The short way: one partition, plain columns, nothing to filter, sort or sum up. Rows go from the store straight
//! into the response.

use std::ops::ControlFlow;

use helenus_protocol::response::RowsWriter;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::RowRef;
use helenus_sstable::AbsentPages;
use helenus_storage::read::{ReadCommand, RowSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::{Token, token_of};

use super::bound::BOUND_AT_ONCE_MAX;
use super::limit::limit_value;
use super::paging::{PagePlace, PagingState, Position};
use super::plan::{Output, SelectPlan};
use super::row_view::RowView;
use super::targets::token_bounds;
use crate::CqlError;
use crate::clause::index_support::has_index;
use crate::clause::key::{append_single_clustering, append_single_key};
use crate::clause::restriction::{Restriction, RestrictionKind};
use crate::clause::slices;
use crate::clause::slices::{in_product, set_single_row};
use crate::execute::{QueryOptions, Scratch};
use crate::row_store::{RowStore, read_failure};
use crate::term::BoundValues;

/// Outcome of a read on the short way.
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
    pub(super) fn allows_short_way(&self) -> bool {
        matches!(self.output, Output::Columns(count) if count == self.fetched.len())
            && !self.clause.is_key_range
            && self.clause.token.is_none()
            && !self.is_distinct
            && !self.decodes_json
            && self.per_partition_limit.is_none()
            && !self.is_sorted_later()
            && self.filtering().next().is_none()
    }

    /// Returns whether the short way is open to an execution with these options, if it names one partition.
    pub fn may_be_direct(&self, options: &QueryOptions<'_>) -> bool {
        self.is_direct && options.paging_state.is_none()
    }

    /// Returns whether each clustering column is compared with one value.
    pub fn names_one_row(&self) -> bool {
        let is_value = |restriction: &Restriction| matches!(restriction.kind, RestrictionKind::Equal(_));
        self.restricts_every_clustering_column() && self.clause.clustering.iter().all(is_value)
    }

    fn restricts_every_clustering_column(&self) -> bool {
        self.clause.clustering.len() == usize::from(self.table.clustering_count)
    }

    /// Token of the partition that a read of rows begins at, where its shard does all or most of the work: the one that is named by its key,
    /// or the first of a scan. `None` where many shards take part, or it cannot be told without an error.
    pub fn begins_at(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
    ) -> Option<Token> {
        if self.is_range_scan() {
            return self.scan_begins_at(values, options);
        }
        let key = &mut scratch.partition_key;
        let has_one_key = self.write_partition_key(values, options, key);
        (has_one_key && self.clause.token.is_none()).then(|| token_of(key))
    }

    /// Writes the key of the partition that the statement names, if it names one alone.
    pub fn write_partition_key(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        key: &mut Vec<u8>,
    ) -> bool {
        key.clear();
        let has_one_key = append_single_key(key, &self.clause.partition, &options.evaluation(values));
        has_one_key.is_ok_and(|has_one_key| has_one_key)
    }

    /// Where every shard has to be asked, the answer is put together where its client is: so each shard has its part of that work.
    fn scan_begins_at(&self, values: &BoundValues<'_>, options: &QueryOptions<'_>) -> Option<Token> {
        let asks_all_shards = self.has_aggregates()
            || self.grouping.is_some()
            || self.is_sorted_later()
            || self
                .filtering()
                .any(|restriction| has_index(&self.table, restriction));
        if asks_all_shards {
            return None;
        }
        if let Some(state) = options.paging_state {
            let state = PagingState::decode(state).ok()?;
            return Some(token_of(&state.position.key));
        }
        let (start, _) = token_bounds(self, &options.evaluation(values)).ok()??;
        Some(start.token)
    }

    /// The read of the statement's one partition, if it may go the short way: the shard that owns the partition should
    /// [`execute`](DirectRead::execute) it.
    #[inline]
    pub fn direct<'r>(
        &'r self,
        values: &'r BoundValues<'r>,
        options: &'r QueryOptions<'r>,
        scratch: &'r mut Scratch,
    ) -> Result<Option<DirectRead<'r>>, CqlError> {
        if !self.may_be_direct(options) {
            return Ok(None);
        }
        options.check_read()?;
        options.check_page_size()?;
        let key = &mut scratch.partition_key;
        key.clear();
        let has_one_key = append_single_key(key, &self.clause.partition, &options.evaluation(values))?;
        Ok(has_one_key.then(|| DirectRead {
            token: token_of(&scratch.partition_key),
            plan: self,
            values,
            options,
            scratch,
        }))
    }
}

/// A read of one partition on the short way, whose key is known.
#[derive(Debug)]
pub struct DirectRead<'r> {
    plan: &'r SelectPlan,
    values: &'r BoundValues<'r>,
    options: &'r QueryOptions<'r>,
    /// Has the key.
    scratch: &'r mut Scratch,
    token: Token,
}

impl DirectRead<'_> {
    pub fn token(&self) -> Token {
        self.token
    }

    pub fn partition_key(&self) -> &[u8] {
        &self.scratch.partition_key
    }

    /// Appends the body of a RESULT to `out`, on the shard that owns the partition.
    #[inline]
    pub fn execute<R: RowStore>(
        self,
        store: &mut R,
        state: &mut ReadState,
        out: &mut Vec<u8>,
    ) -> Result<Direct, CqlError> {
        let DirectRead {
            plan,
            values,
            options,
            scratch,
            token,
        } = self;
        if !plan.bind_slices(values, options, store, scratch)? {
            return Ok(Direct::Unsuitable);
        }
        let (key, slices) = (&scratch.partition_key, &scratch.slices);
        let limit = limit_value(plan.limit.as_ref(), &options.evaluation(values))?;
        let start = out.len();
        let mut sink = DirectSink::begin(plan, key, options, limit, out);
        if !slices.is_empty() || plan.selects_statics {
            let command = ReadCommand {
                table: &plan.table,
                partitions: PartitionRange::One { token, key },
                slices,
                reversed: plan.is_reversed,
                now_s: options.now_s,
                index: &[],
            };
            if plan.bypasses_cache {
                state.bypass_cache();
            }
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
        sink.finish(options, limit)?;
        Ok(Direct::Done)
    }
}

impl SelectPlan {
    /// Makes the scratch's slices those of the statement; false where there are more than are bound at once, or more than
    /// nobody is warned of.
    #[inline]
    fn bind_slices<R: RowStore>(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        store: &R,
        scratch: &mut Scratch,
    ) -> Result<bool, CqlError> {
        let context = options.evaluation(values);
        let Scratch {
            clustering, slices, ..
        } = scratch;
        clustering.clear();
        if self.restricts_every_clustering_column()
            && append_single_clustering(clustering, &self.clause.clustering, &context)?
        {
            set_single_row(slices, clustering);
            return Ok(true);
        }
        let product = in_product(self.slicing(), values);
        if product.is_some_and(|product| product > store.in_product_unwarned().min(BOUND_AT_ONCE_MAX)) {
            return Ok(false);
        }
        *slices = slices::slices(&self.table, self.slicing(), &context)?;
        Ok(true)
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

impl<'d> DirectSink<'d> {
    #[inline]
    fn begin(
        plan: &'d SelectPlan,
        key: &'d [u8],
        options: &QueryOptions<'_>,
        limit: u32,
        out: &'d mut Vec<u8>,
    ) -> Self {
        let page_rows = options.page_rows();
        DirectSink {
            plan,
            key,
            static_row: None,
            has_rows: false,
            rows_max: limit.min(page_rows.unwrap_or(u32::MAX)),
            bytes_end: out.len().saturating_add(options.answer_bytes_max),
            is_paged: page_rows.is_some(),
            is_too_long: false,
            stopped_at: None,
            now_s: options.now_s,
            writer: RowsWriter::begin(
                out,
                plan.result.for_version(options.version),
                options.metadata_form,
            ),
            out,
        }
    }

    /// Ends the answer, with where the next page begins if there may be one.
    #[inline]
    fn finish(self, options: &QueryOptions<'_>, limit: u32) -> Result<(), CqlError> {
        let count = self.writer.row_count();
        let page_rows = options.page_rows();
        if self.is_too_long && count < limit && page_rows.is_none() {
            return Err(options.answer_too_long());
        }
        let is_full = page_rows.is_some_and(|rows| count == rows) || self.is_too_long;
        let stopped_at = self.stopped_at.filter(|_| count < limit && is_full);
        let paging_state = stopped_at.map(|clustering| {
            let position = Position {
                key: self.key.to_vec(),
                place: Some(PagePlace::behind_row(&clustering, self.plan.side_behind())),
            };
            let rows_left = if limit == u32::MAX { limit } else { limit - count };
            PagingState {
                position,
                rows_left,
                rows_left_in_partition: u32::MAX,
            }
            .encode()
        });
        self.writer.finish(self.out, paging_state.as_deref());
        Ok(())
    }

    #[inline]
    fn push(&mut self, clustering: Option<&[u8]>, row: RowRef<'_>) -> ControlFlow<()> {
        let view = RowView {
            partition_key: self.key,
            partition_key_count: usize::from(self.plan.table.partition_key_count),
            static_row: self.static_row.as_deref().map_or(RowRef::EMPTY, RowRef::new),
            clustering,
            row,
        };
        view.write_all(self.out, &self.plan.fetched, self.now_s);
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
    #[inline]
    fn partition(&mut self, _: Token, _: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        let may_be_needed = self.plan.selects_statics || self.plan.returns_static_rows;
        if may_be_needed && !static_row.is_empty() {
            self.static_row = Some(static_row.as_bytes().to_vec());
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        self.has_rows = true;
        self.push(Some(clustering), row)
    }

    #[inline]
    fn partition_end(&mut self) -> ControlFlow<()> {
        if !self.has_rows && self.static_row.is_some() && self.plan.returns_static_rows {
            return self.push(None, RowRef::EMPTY);
        }
        ControlFlow::Continue(())
    }
}
