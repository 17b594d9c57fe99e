//! SELECT with the values of one execution: bound once, for all of its reads.

use std::sync::Arc;

use helenus_index::IndexPredicate;
use helenus_protocol::request::Value;
use helenus_rows::clustering::Slice;
use helenus_types::{ShardId, shard_of, token_of};

use super::filter::{Filter, bind_filters};
use super::indexed;
use super::limit::limit_value;
use super::nearest::BoundNearest;
use super::paging::PagingState;
use super::plan::SelectPlan;
use super::read_partitions::ReadPartitions;
use super::targets::{Target, targets};
use crate::CqlError;
use crate::clause::slices::{in_count, in_product, slices};
use crate::execute::QueryOptions;
use crate::term::{BoundValues, EvaluationContext};

/// Keys, rows and values of INs that are bound where a statement arrives: half a microsecond each, of the millisecond that
/// a shard may be held.
pub const BOUND_AT_ONCE_MAX: u64 = 256;

/// JSON that is decoded in the time that one value of an IN is bound in.
pub(crate) const JSON_BYTES_PER_VALUE: u64 = 64;

/// Decoding JSON texts, in values of INs that are bound meanwhile.
pub(crate) fn json_effort<'v>(values: impl IntoIterator<Item = Value<'v>>) -> u64 {
    let bytes = values.into_iter().map(|value| match value {
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::Null | Value::Unset => 0,
    });
    bytes.sum::<u64>() / JSON_BYTES_PER_VALUE
}

/// Products of the INs on the partition key, and of those on clustering columns; `None` where there is no IN.
pub type InProducts = (Option<u64>, Option<u64>);

/// Partitions by the shard that owns them, and the slices of each.
pub(crate) type BoundPlaces = (Vec<(ShardId, ReadPartitions)>, Vec<Slice>);

/// A SELECT with its values.
#[derive(Debug)]
pub struct BoundSelect {
    pub(super) targets: Arc<Vec<Target>>,
    /// Index of the target that the page before this one ended in.
    pub(super) first_target: usize,
    /// Its error is told only if there is anything to read, as in Cassandra.
    pub(super) clause: Result<Arc<BoundClause>, CqlError>,
    pub(super) in_products: InProducts,
    pub(super) rows_max: u32,
    pub(super) rows_per_partition_max: u32,
    pub(super) page_rows: u32,
    pub(super) paging_state: Option<PagingState>,
    /// Warnings for the client.
    pub(super) warnings: Vec<String>,
}

/// Part of the WHERE clause that each read of a shard needs.
#[derive(Debug)]
pub struct BoundClause {
    pub(super) partition_filters: Vec<Filter>,
    pub(super) row_filters: Vec<Filter>,
    pub(super) slices: Vec<Slice>,
    /// Index predicates of the filters.
    pub(super) index: Vec<IndexPredicate>,
    pub(super) nearest: Option<BoundNearest>,
}

impl BoundSelect {
    /// Returns the parts that take long to free; none of a short one.
    pub fn shared_if_long(&self) -> Vec<Arc<dyn Send + Sync>> {
        let mut shared: Vec<Arc<dyn Send + Sync>> = Vec::new();
        if self.targets.len() as u64 > BOUND_AT_ONCE_MAX {
            shared.push(self.targets.clone());
        }
        if let Ok(clause) = &self.clause
            && clause.value_count() as u64 > BOUND_AT_ONCE_MAX
        {
            shared.push(clause.clone());
        }
        shared
    }
}

impl BoundClause {
    fn value_count(&self) -> usize {
        let filters = self.partition_filters.iter().chain(&self.row_filters);
        self.slices.len() + filters.map(Filter::value_count).sum::<usize>()
    }
}

impl SelectPlan {
    /// Returns whether [`bind`](Self::bind) would hold its thread for long. Looks at no value but for how long it is.
    pub fn is_long_to_bind(&self, values: &BoundValues<'_>) -> bool {
        let product = |restrictions| in_product(restrictions, values).unwrap_or(0);
        let filtered: u64 = self
            .filtering()
            .filter_map(|restriction| in_count(restriction, values))
            .sum();
        let keys = product(&self.clause.partition).saturating_add(product(self.slicing()));
        let json = match self.decodes_json {
            true => json_effort(values.iter()),
            false => 0,
        };
        keys.saturating_add(filtered).saturating_add(json) > BOUND_AT_ONCE_MAX
    }

    /// Binds the values. `shard_count` is 1 for tables whose rows are all in one place.
    pub fn bind(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        shard_count: u16,
    ) -> Result<BoundSelect, CqlError> {
        let context = options.evaluation(values);
        let rows_max = limit_value(self.limit.as_ref(), &context)?;
        let rows_per_partition_max = limit_value(self.per_partition_limit.as_ref(), &context)?;
        options.check_read()?;
        options.check_page_size()?;
        let (nearest, warnings) = self.bind_nearest(&context, options)?.unzip();
        let page = options
            .page_rows()
            .filter(|_| !self.aggregates_everything() && nearest.is_none());
        if page.is_some() && !self.ordering.is_empty() {
            return Err(invalid!(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either \
                 remove the ORDER BY or the IN and sort client side, or disable paging for this query"
            ));
        }
        let paging_state = options.paging_state.filter(|_| nearest.is_none());
        let paging_state = paging_state.map(PagingState::decode).transpose()?;
        let targets = targets(self, &context, shard_count)?;
        let in_products = (
            in_product(&self.clause.partition, values),
            in_product(self.slicing(), values),
        );
        let mut clause = self.bind_clause(&context, nearest).map(Arc::new);
        if in_products.1.is_some() {
            clause = Ok(clause?);
        }
        Ok(BoundSelect {
            first_target: match &paging_state {
                Some(state) => position_of(state, &targets, shard_count),
                None => 0,
            },
            targets: Arc::new(targets),
            clause,
            in_products,
            rows_max,
            rows_per_partition_max,
            page_rows: page.unwrap_or(u32::MAX),
            paging_state,
            warnings: warnings.unwrap_or_default(),
        })
    }

    /// The places that are read, for who takes more of rows than a SELECT does.
    pub(crate) fn bind_places(
        &self,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        shard_count: u16,
    ) -> Result<BoundPlaces, CqlError> {
        let context = options.evaluation(values);
        let targets = targets(self, &context, shard_count)?.into_iter();
        let places = targets.map(|target| (target.shard, target.partitions));
        Ok((places.collect(), slices(&self.table, self.slicing(), &context)?))
    }

    fn bind_clause(
        &self,
        context: &EvaluationContext<'_>,
        nearest: Option<BoundNearest>,
    ) -> Result<BoundClause, CqlError> {
        let filters = bind_filters(self.filtering(), &self.clause.collations, context)?;
        let located = bind_filters(self.located_by_index(), &self.clause.collations, context)?;
        let index = indexed::predicates(self, filters.iter().chain(&located));
        let (partition_filters, row_filters) = filters.into_iter().partition(Filter::is_of_partition);
        let slices = match self.is_distinct {
            true => vec![Slice::all()],
            false => slices(&self.table, self.slicing(), context)?,
        };
        Ok(BoundClause {
            partition_filters,
            row_filters,
            slices,
            index,
            nearest,
        })
    }
}

/// The target that a page ended in; behind all of them if it is none.
fn position_of(state: &PagingState, targets: &[Target], shard_count: u16) -> usize {
    let shard = shard_of(token_of(&state.position.key), shard_count);
    let is_current = |target: &Target| match &target.partitions {
        ReadPartitions::Key { key, .. } => *key == state.position.key,
        ReadPartitions::Range { .. } => target.shard >= shard,
    };
    targets.iter().position(is_current).unwrap_or(targets.len())
}
