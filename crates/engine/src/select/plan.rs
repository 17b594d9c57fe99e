//! The plan of a SELECT.

use std::sync::Arc;

use helenus_index::IndexedColumn;
use helenus_schema::{IndexId, TableMetadata, is_system_keyspace};
use helenus_types::CqlType;

use super::hints::IndexHints;
use super::nearest::Nearest;
use super::row_view::FetchedColumn;
use crate::clause::index_support::has_index;
use crate::clause::restriction::Restriction;
use crate::clause::where_clause::WhereClause;
use crate::heap_bytes::{HeapBytes, allocation_bytes, flat_bytes};
use crate::prepare::ResultMetadata;
use crate::term::{AggregateCall, Expression};

/// Plan of a SELECT: its reads and its result; immutable, shared by all executions.
#[derive(Clone, Debug)]
pub struct SelectPlan {
    pub table: Arc<TableMetadata>,
    pub result: Arc<ResultMetadata>,
    pub(super) clause: WhereClause,
    /// How many of the clustering restrictions make up the slices; the others filter.
    pub(super) clustering_prefix: usize,
    /// True if restrictions on the partition key filter partitions.
    pub(super) filters_partition_key: bool,
    pub(super) is_reversed: bool,
    pub(super) is_distinct: bool,
    /// A partition without rows but with a static row counts as one row.
    pub(super) returns_static_rows: bool,
    pub(super) selects_statics: bool,
    /// Columns of each row of a shard's answer.
    pub(super) fetched: Vec<FetchedColumn>,
    pub(super) output: Output,
    pub(super) grouping: Option<Grouping>,
    /// Sorting after rows of several partitions have come together.
    pub(super) ordering: Vec<OrderColumn>,
    /// Ordering by how near rows are to a vector.
    pub(super) nearest: Option<Nearest>,
    pub(super) limit: Option<Expression>,
    pub(super) per_partition_limit: Option<Expression>,
    /// Indexes without which the statement would not be allowed, and those that it names to be used: of the former none if it
    /// allows filtering.
    pub(super) needed_indexes: Vec<IndexId>,
    pub(super) hints: Option<Box<IndexHints>>,
    /// `BYPASS CACHE`: what is read is not asked for again soon.
    pub(super) bypasses_cache: bool,
    /// Binding takes longer the longer the values are.
    pub(super) decodes_json: bool,
    /// Computing the result takes long for its bytes.
    pub(super) writes_json: bool,
    /// The short way is open, whatever the values.
    pub(super) is_direct: bool,
    /// Index of the short way by one; `None` where that is closed, whatever the values.
    pub(super) short_index: Option<Box<IndexedColumn>>,
}

#[derive(Clone, Debug)]
pub(super) enum Output {
    /// The first so many fetched values as they are.
    Columns(usize),
    Expressions {
        expressions: Vec<Expression>,
        aggregates: Vec<AggregateCall>,
    },
}

/// GROUP BY: rows of one group follow each other and agree in these values.
#[derive(Clone, Debug)]
pub(super) struct Grouping {
    pub columns: Vec<Expression>,
    /// Where the partition key's columns and the clustering key's are fetched.
    pub partition_key_slots: Vec<usize>,
    pub clustering_slots: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct OrderColumn {
    pub slot: usize,
    pub cql_type: CqlType,
    pub is_descending: bool,
    /// Rows without a value (static ones) come last.
    pub nulls_last: bool,
}

impl SelectPlan {
    /// The restrictions that are met by looking at rows.
    pub(crate) fn filtering(&self) -> impl Iterator<Item = &Restriction> {
        let of_key = if self.filters_partition_key {
            self.clause.partition.as_slice()
        } else {
            &[]
        };
        of_key
            .iter()
            .chain(&self.clause.clustering[self.clustering_prefix..])
            .chain(&self.clause.others)
    }

    /// Returns those of the restrictions that make up the slices that an index may look for: of a range of partitions it knows
    /// which have such rows.
    pub(super) fn located_by_index(&self) -> impl Iterator<Item = &Restriction> {
        let is_located = |restriction: &&Restriction| {
            self.clause.is_key_range && has_index(self.indexed_table(), restriction)
        };
        self.slicing().iter().filter(is_located)
    }

    /// The table with those of its indexes that the statement may be read by.
    pub(super) fn indexed_table(&self) -> &TableMetadata {
        match &self.hints {
            Some(hints) => &hints.table,
            None => &self.table,
        }
    }

    /// Returns whether indexes are asked whatever that costs.
    pub(super) fn asks_all_indexes(&self) -> bool {
        self.hints
            .as_ref()
            .is_some_and(|hints| !hints.included.is_empty())
    }

    pub(super) fn slicing(&self) -> &[Restriction] {
        &self.clause.clustering[..self.clustering_prefix]
    }

    pub(super) fn has_aggregates(&self) -> bool {
        matches!(&self.output, Output::Expressions { aggregates, .. } if !aggregates.is_empty())
    }

    /// One row over everything.
    pub(super) fn aggregates_everything(&self) -> bool {
        self.grouping.is_none() && self.has_aggregates()
    }

    /// Returns the warning that clients get whenever they execute the statement.
    pub fn warning(&self) -> Option<&'static str> {
        let aggregates = self.grouping.is_some() || self.has_aggregates();
        if !aggregates || is_system_keyspace(&self.table.keyspace) {
            None
        } else if self.clause.partition.is_empty() && self.clause.token.is_none() {
            Some("Aggregation query used without partition key")
        } else {
            let warning = "Aggregation query used on multiple partition keys (IN restriction)";
            self.clause.has_key_in().then_some(warning)
        }
    }

    /// Returns whether the statement reads partitions by token instead of by key.
    pub fn is_range_scan(&self) -> bool {
        self.clause.is_key_range
    }
}

/// Without the result's metadata, which the prepared statement shares.
impl HeapBytes for SelectPlan {
    fn heap_bytes(&self) -> usize {
        let output = match &self.output {
            Output::Columns(_) => 0,
            Output::Expressions {
                expressions,
                aggregates,
            } => expressions.heap_bytes() + aggregates.heap_bytes(),
        };
        self.clause.heap_bytes()
            + flat_bytes(&self.fetched)
            + output
            + self.grouping.heap_bytes()
            + flat_bytes(&self.ordering)
            + self.nearest.heap_bytes()
            + flat_bytes(&self.needed_indexes)
            + self.hints.heap_bytes()
            + self
                .short_index
                .as_ref()
                .map_or(0, |_| allocation_bytes(size_of::<IndexedColumn>()))
            + self.limit.heap_bytes()
            + self.per_partition_limit.heap_bytes()
    }
}

impl HeapBytes for Grouping {
    fn heap_bytes(&self) -> usize {
        self.columns.heap_bytes() + flat_bytes(&self.partition_key_slots) + flat_bytes(&self.clustering_slots)
    }
}
