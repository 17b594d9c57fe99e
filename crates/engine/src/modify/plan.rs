//! The plan of an INSERT, UPDATE or DELETE.

use std::sync::Arc;

use helenus_cql::ast::BatchKind;
use helenus_schema::TableMetadata;

use super::attributes::Attributes;
use super::conditional::ConditionPlan;
use super::json::JsonSource;
use super::operation::Operation;
use crate::CqlError;
use crate::clause::made_values::{has_made_values, make_values};
use crate::clause::restriction::{Restriction, RestrictionKind};
use crate::clause::slices::in_product;
use crate::clause::statement_kind::StatementKind;
use crate::clause::where_clause::WhereClause;
use crate::heap_bytes::HeapBytes;
use crate::select::{BOUND_AT_ONCE_MAX, json_effort};
use crate::term::{BindMarkers, BoundValues, EvaluationContext};

/// A row or partition takes about as long to build as so much of a plan's operations: eight elements of a collection of
/// numbers, of which thousands may be written out.
const WRITTEN_OUT_BYTES_PER_UNIT: u64 = 64;

/// The same, in values that are bound or written out, whatever is in them.
const OPERATIONS_PER_UNIT: u64 = 16;

/// Cost of building what the operations say, counted in rows and partitions.
fn effort(operations: [&[Operation]; 2]) -> u64 {
    let all = || operations.into_iter().flatten();
    let written_out_bytes: usize = all().map(Operation::heap_bytes).sum();
    written_out_bytes as u64 / WRITTEN_OUT_BYTES_PER_UNIT + all().count() as u64 / OPERATIONS_PER_UNIT
}

/// Bound values, in rows and partitions that are built while their elements are checked and written: of four bytes, 16 take as long.
pub(super) fn elements_effort(values: &BoundValues<'_>) -> u64 {
    json_effort(values.iter())
}

/// Plan of an INSERT, UPDATE or DELETE; immutable, shared by all executions.
#[derive(Clone, Debug)]
pub struct ModifyPlan {
    pub kind: StatementKind,
    pub table: Arc<TableMetadata>,
    pub(super) keys: WhereClause,
    /// True if a column of the key is given several values.
    has_in: bool,
    /// True if the table is one of counters.
    is_counter: bool,
    /// Where the values of all columns come from, if that is one bound text.
    pub(super) json: Option<Box<JsonSource>>,
    /// True if a function decodes JSON that is bound.
    decodes_json: bool,
    /// True if a bound value is checked element by element.
    binds_elements: bool,
    /// True if a value of the key is another one each time.
    makes_keys: bool,
    /// True if binding may take long, which [`named_count`](Self::named_count) tells.
    may_be_long: bool,
    /// Cost of building its written-out values, counted in rows and partitions.
    written_out: u64,
    pub(super) attributes: Attributes,
    pub(super) conditions: Option<Box<ConditionPlan>>,
    /// Ordered by column id, as packed rows are; what was written first for a column comes first.
    pub(super) static_operations: Vec<Operation>,
    pub(super) regular_operations: Vec<Operation>,
}

impl ModifyPlan {
    pub(super) fn new(
        kind: StatementKind,
        table: &Arc<TableMetadata>,
        mut keys: WhereClause,
        attributes: Attributes,
        conditions: Option<ConditionPlan>,
        (static_operations, regular_operations): (Vec<Operation>, Vec<Operation>),
    ) -> Self {
        let has_in = !keys.partition.iter().all(Restriction::is_equal)
            || keys.clustering.iter().any(Restriction::is_in);
        let written_out = effort([&static_operations, &regular_operations]);
        ModifyPlan {
            kind,
            table: table.clone(),
            has_in,
            is_counter: table.is_counter(),
            json: None,
            decodes_json: false,
            binds_elements: false,
            makes_keys: has_made_values(&mut keys.partition) || has_made_values(&mut keys.clustering),
            may_be_long: has_in || written_out > 0,
            written_out,
            keys,
            attributes,
            conditions: conditions.map(Box::new),
            static_operations,
            regular_operations,
        }
    }

    /// Returns whether it is about counters. Its updates say what they grow by; the shard that owns a partition makes of it what
    /// they are then ([`helenus_storage::store::Counting`]).
    #[inline]
    pub fn is_counter(&self) -> bool {
        self.is_counter
    }

    /// The kind of batch that writes as the statement does by itself.
    #[inline]
    pub fn write_kind(&self) -> BatchKind {
        match self.is_counter {
            true => BatchKind::Counter,
            false => BatchKind::Unlogged,
        }
    }

    /// Returns whether the statement has an IF clause; then only a [`ConditionalRequest`](super::ConditionalRequest) executes it.
    #[inline]
    pub fn is_conditional(&self) -> bool {
        self.conditions.is_some()
    }

    /// Returns whether the statement must see lists before it changes them; then only
    /// [`updates_reading`](Self::updates_reading), on the shard that owns the rows, can execute it.
    pub fn needs_read(&self) -> bool {
        self.static_operations
            .iter()
            .chain(&self.regular_operations)
            .any(Operation::needs_read)
    }

    /// As the plan of an INSERT whose values come from one bound text.
    pub(super) fn with_json(mut self, json: Option<Box<JsonSource>>) -> Self {
        self.may_be_long |= json.is_some();
        self.json = json;
        self
    }

    /// As the plan of a statement whose bound values these are, and those of other statements of its batch.
    pub(super) fn with_markers(mut self, markers: &BindMarkers) -> Self {
        self.decodes_json = markers.decodes_json();
        self.binds_elements = markers.binds_elements();
        self.may_be_long |= self.decodes_json || self.binds_elements;
        self
    }

    /// Returns whether each column of the key that is named is given one value, or a range of them, and no value is decoded:
    /// such a statement writes to one partition, and takes no time to bind, whatever its values are.
    #[inline]
    pub fn is_short_to_build(&self) -> bool {
        !self.may_be_long
    }

    /// Returns whether each column of the partition key is given one value.
    pub fn names_one_partition(&self) -> bool {
        let restrictions = &self.keys.partition;
        restrictions
            .iter()
            .all(|restriction| matches!(restriction.kind, RestrictionKind::Equal(_)))
    }

    /// Returns whether building its updates would hold a shard for long.
    pub fn is_long_to_build(&self, values: &BoundValues<'_>) -> bool {
        self.named_count(values) > BOUND_AT_ONCE_MAX
    }

    /// How many rows or partitions it names, before repetitions are taken out, or as many as are built while its values are
    /// decoded and checked.
    pub fn named_count(&self, values: &BoundValues<'_>) -> u64 {
        let elements = match self.binds_elements {
            true => elements_effort(values),
            false => 0,
        };
        self.named_beside_elements(values).saturating_add(elements)
    }

    pub(crate) fn makes_keys(&self) -> bool {
        self.makes_keys
    }

    /// The plans of several statements with the keys of one execution.
    pub(crate) fn all_with_made_keys(
        statements: &[Self],
        context: &EvaluationContext<'_>,
    ) -> Result<Vec<Self>, CqlError> {
        let statements = statements.iter();
        statements
            .map(|statement| statement.with_made_keys(context))
            .collect()
    }

    /// The plan with the keys of one execution.
    pub(crate) fn with_made_keys(&self, context: &EvaluationContext<'_>) -> Result<Self, CqlError> {
        let mut plan = self.clone();
        make_values(&mut plan.keys.partition, context)?;
        make_values(&mut plan.keys.clustering, context)?;
        Ok(plan)
    }

    pub(super) fn binds_elements(&self) -> bool {
        self.binds_elements
    }

    /// As [`named_count`](Self::named_count), but for the values whose elements are checked: the statements of a batch share them.
    pub(super) fn named_beside_elements(&self, values: &BoundValues<'_>) -> u64 {
        if !self.may_be_long {
            return 1;
        }
        let values_count = self.json_count(values).saturating_add(self.written_out);
        if !self.has_in {
            return values_count.saturating_add(1);
        }
        let count = |restrictions| in_product(restrictions, values).unwrap_or(1);
        let named = count(&self.keys.partition).saturating_mul(count(&self.keys.clustering));
        named.saturating_add(values_count)
    }

    /// Returns the part of [`named_count`](Self::named_count) that the decoding of texts comes to.
    pub(super) fn json_count(&self, values: &BoundValues<'_>) -> u64 {
        match &self.json {
            Some(json) => json.effort(values),
            None if self.decodes_json => json_effort(values.iter()),
            None => 0,
        }
    }

    pub(crate) fn has_timestamp(&self) -> bool {
        self.attributes.timestamp.is_some()
    }

    /// Returns whether rows (and not only the static row or whole partitions) are touched.
    pub(super) fn updates_rows(&self) -> bool {
        self.table.clustering_count == 0 || !self.keys.clustering.is_empty()
    }

    /// Returns whether the statement deletes everything under its keys rather than some columns.
    pub(super) fn deletes_rows(&self) -> bool {
        self.kind == StatementKind::Delete
            && self.static_operations.is_empty()
            && self.regular_operations.is_empty()
    }
}

impl HeapBytes for ModifyPlan {
    fn heap_bytes(&self) -> usize {
        self.keys.heap_bytes()
            + self.attributes.heap_bytes()
            + self.json.heap_bytes()
            + self.conditions.heap_bytes()
            + self.static_operations.heap_bytes()
            + self.regular_operations.heap_bytes()
    }
}
