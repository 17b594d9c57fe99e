//! The short way by an index: one value of one column, plain columns, one step. Rows go from the store straight into the response, and
//! what is bound lies in memory that the shard keeps.
//!
//! Whatever is unusual, an error among it, is left to the general way, which begins anew: nothing is answered here then.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use helenus_index::{IndexPredicate, IndexedColumn, TermQuery};
use helenus_protocol::response::RowsWriter;
use helenus_rows::clustering::Slice;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::RowRef;
use helenus_schema::{ColumnKind, ColumnMetadata, IndexTarget};
use helenus_storage::read::{ReadCommand, RowSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::Token;

use super::filter::FilterEffort;
use super::limit::limit_value;
use super::plan::{Output, SelectPlan};
use super::row_view::{RowView, is_stored_as_returned};
use super::shard_read::answer_bytes_of_shard_max;
use crate::CqlError;
use crate::clause::restriction::{Restriction, RestrictionKind, TupleTerm};
use crate::execute::{QueryOptions, Scratch};
use crate::row_store::{RowStore, read_failure};
use crate::term::{BoundValues, Evaluated, Expression};

/// Outcome of a read on the short way by an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum DirectByIndex {
    Done,
    /// Nothing was written; the read takes more than one step, or pages that are not in memory.
    Long,
    /// Nothing was written; the statement, its values or what they lead to is not for this way.
    Unsuitable,
}

impl SelectPlan {
    /// The index of the short way; `None` where that is closed, whatever the values.
    pub(super) fn short_index(&self) -> Option<Box<IndexedColumn>> {
        let is_plain = matches!(self.output, Output::Columns(count) if count == self.fetched.len())
            && self.clause.is_key_range
            && self.clause.token.is_none()
            && self.slicing().is_empty()
            && self.per_partition_limit.is_none()
            && !self.selects_statics
            && !self.decodes_json
            && !self.is_distinct
            && !self.is_sorted_later()
            && self.hints.is_none();
        let (column, _) = self.only_equality().filter(|_| is_plain)?;
        let mut collations = self.clause.collations.iter();
        let is_collated =
            collations.any(|other| other.column == column.id && other.collation.changes_order());
        if column.kind != ColumnKind::Regular || !is_stored_as_returned(&column.cql_type) || is_collated {
            return None;
        }
        let is_of_whole = |target| matches!(target, IndexTarget::Simple | IndexTarget::Full);
        let mut indexes = self.table.indexes_of(column.id);
        let index = indexes.find(|index| is_of_whole(index.target))?;
        IndexedColumn::of(&self.table, index).map(Box::new)
    }

    /// The column and the value of the one condition that rows have to meet.
    fn only_equality(&self) -> Option<(&ColumnMetadata, &Expression)> {
        let mut filtering = self.filtering();
        let (Some(restriction), None) = (filtering.next(), filtering.next()) else {
            return None;
        };
        let Restriction { columns, kind, .. } = restriction;
        match (columns.as_slice(), kind) {
            ([column], RestrictionKind::Equal(TupleTerm::Single(value))) => Some((&column.column, value)),
            _ => None,
        }
    }

    /// Returns whether the short way by an index may be open to an execution.
    pub fn may_be_direct_by_index(&self) -> bool {
        self.short_index.is_some()
    }

    /// Appends the body of a RESULT to `out`, on the only shard.
    pub fn execute_by_index<R: RowStore>(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
        store: &mut R,
        out: &mut Vec<u8>,
    ) -> Result<DirectByIndex, CqlError> {
        let Some(mut bound) = self.bind_by_index(values, options, scratch) else {
            return Ok(DirectByIndex::Unsuitable);
        };
        let mut needed = self.needed_indexes.iter();
        if needed.any(|index| !store.is_index_ready(self.table.id, *index)) {
            return Ok(DirectByIndex::Unsuitable);
        }
        let start = out.len();
        let result = self.read_by_index(&mut bound, options, store, out);
        if !matches!(result, Ok(DirectByIndex::Done)) {
            out.truncate(start);
        }
        result
    }

    /// `None` where the general way has something to say.
    fn bind_by_index<'b>(
        &'b self,
        values: &'b BoundValues<'b>,
        options: &'b QueryOptions<'_>,
        scratch: &'b mut Scratch,
    ) -> Option<BoundByIndex<'b>> {
        let indexed = self.short_index.as_ref()?;
        let (column, value) = self.only_equality()?;
        let is_paged_already = options.paging_state.is_some();
        if is_paged_already || options.check_read().is_err() || options.check_page_size().is_err() {
            return None;
        }
        let context = options.evaluation(values);
        let rows_max = limit_value(self.limit.as_ref(), &context).ok()?;
        let Ok(Evaluated::Bytes(value)) = value.evaluate(&context) else {
            return None;
        };
        // Some indexes have none of these.
        if value.is_empty() {
            return None;
        }
        let Scratch {
            partition_key,
            predicate,
            ..
        } = scratch;
        let predicate = predicate.get_or_insert(IndexPredicate {
            index: indexed.index,
            query: TermQuery::All,
        });
        predicate.index = indexed.index;
        predicate.query.become_equal(indexed, &value);
        (predicate.query != TermQuery::All).then_some(BoundByIndex {
            predicate,
            partition_key,
            column,
            value,
            rows_max,
        })
    }

    fn read_by_index<R: RowStore>(
        &self,
        bound: &mut BoundByIndex<'_>,
        options: &QueryOptions<'_>,
        store: &mut R,
        out: &mut Vec<u8>,
    ) -> Result<DirectByIndex, CqlError> {
        let metadata = self.result.for_version(options.version);
        let mut sink = ShortSink {
            plan: self,
            column: bound.column,
            value: &bound.value,
            partition_key: bound.partition_key,
            rows_max: bound.rows_max,
            page_rows: options.page_rows().unwrap_or(u32::MAX),
            bytes_end: out.len().saturating_add(answer_bytes_of_shard_max(options)),
            is_cut: false,
            effort: FilterEffort::default(),
            now_s: options.now_s,
            writer: RowsWriter::begin(out, metadata, options.metadata_form),
            out,
        };
        let command = ReadCommand {
            table: &self.table,
            partitions: PartitionRange::everything(),
            slices: &[Slice::all()],
            reversed: self.is_reversed,
            now_s: options.now_s,
            index: std::slice::from_ref(bound.predicate),
        };
        let mut state = ReadState::suspending();
        if self.bypasses_cache {
            state.bypass_cache();
        }
        let progress = store
            .read_step(&command, &mut state, &mut sink)
            .map_err(read_failure)?;
        if !matches!(progress, ReadProgress::Done) {
            return Ok(DirectByIndex::Long);
        }
        if sink.is_cut || state.statistics.tombstones > store.tombstone_limits().warn {
            return Ok(DirectByIndex::Unsuitable);
        }
        sink.writer.finish(sink.out, None);
        Ok(DirectByIndex::Done)
    }
}

/// Statement with its values, in memory of a shard.
struct BoundByIndex<'b> {
    predicate: &'b IndexPredicate,
    /// Room for the key of a row.
    partition_key: &'b mut Vec<u8>,
    column: &'b ColumnMetadata,
    value: std::borrow::Cow<'b, [u8]>,
    rows_max: u32,
}

struct ShortSink<'d> {
    plan: &'d SelectPlan,
    column: &'d ColumnMetadata,
    value: &'d [u8],
    partition_key: &'d mut Vec<u8>,
    rows_max: u32,
    page_rows: u32,
    /// Where `out` ends if the rows take all that a shard answers at once.
    bytes_end: usize,
    /// The answer would have to be a page of several.
    is_cut: bool,
    effort: FilterEffort,
    now_s: u32,
    writer: RowsWriter,
    out: &'d mut Vec<u8>,
}

impl RowSink for ShortSink<'_> {
    #[inline]
    fn partition(&mut self, _: Token, key: &[u8], _: RowRef<'_>) -> ControlFlow<()> {
        self.partition_key.clear();
        self.partition_key.extend_from_slice(key);
        ControlFlow::Continue(())
    }

    #[inline]
    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        let view = RowView {
            partition_key: self.partition_key,
            partition_key_count: usize::from(self.plan.table.partition_key_count),
            static_row: RowRef::EMPTY,
            clustering: Some(clustering),
            row,
        };
        let Some(found) = view.value(self.column) else {
            return ControlFlow::Continue(());
        };
        self.effort.add_value(found.len());
        if self.column.cql_type.compare(&found, self.value) != Ordering::Equal {
            return ControlFlow::Continue(());
        }
        view.write_all(self.out, &self.plan.fetched, self.now_s);
        self.effort
            .add_walks(self.plan.fetched.len(), row.as_bytes().len());
        self.writer.end_row();
        let count = self.writer.row_count();
        self.is_cut = count >= self.page_rows || self.out.len() > self.bytes_end;
        match self.is_cut || count >= self.rows_max {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    #[inline]
    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn take_units(&mut self) -> u32 {
        self.effort.take_units()
    }
}
