//! `ORDER BY v ANN OF ? LIMIT k`: the vectors of an indexed column that are likest to one that is given.
//!
//! Each shard answers with the k rows that are nearest of its own, as exact as the stored vectors are; the coordinator keeps
//! the nearest k of these.

use std::cmp::Reverse;

use helenus_cql::ast::{OrderDirection, OrderingExpression, Select};
use helenus_protocol::Consistency;
use helenus_schema::{ColumnId, ColumnKind, ColumnMetadata, IndexId};
use helenus_types::CqlType;
use helenus_vector::{Similarity, VectorOptions};

use super::bound::limit_value;
use super::plan::SelectPlan;
use crate::CqlError;
use crate::execute::QueryOptions;
use crate::heap_bytes::HeapBytes;
use crate::term::{Evaluated, EvaluationContext, Expression, FetchedRow, Receiver, Typing};

/// Cassandra's `sai_options.max_top_k` and the like: rows that one query may ask for.
const LIMIT_MAX: u32 = 1_000;

const NEEDS_INDEX: &str = "ANN ordering by vector requires the column to be indexed";

/// The column that is ordered by, for the rules of the WHERE clause.
#[derive(Clone, Copy, Debug)]
pub struct NearestColumn {
    pub column: ColumnId,
    /// True if there is an index that finds its vectors by similarity.
    pub is_indexed: bool,
}

/// The ordering of a statement, typed.
#[derive(Clone, Debug)]
pub(super) struct Nearest {
    pub column: ColumnMetadata,
    /// None where only an index of another kind is there, which the WHERE clause then refuses.
    pub index: Option<(IndexId, Similarity)>,
    vector: Expression,
    /// Where rows have the column's value, once it is known what else is fetched.
    pub slot: usize,
}

/// The ordering with its vector.
#[derive(Clone, Debug)]
pub(super) struct BoundNearest {
    pub index: IndexId,
    pub similarity: Similarity,
    pub vector: Vec<f32>,
    pub rows_max: u32,
}

impl Nearest {
    /// `None` where rows are not ordered by similarity.
    pub fn prepare(typing: &Typing<'_>, select: &Select) -> Result<Option<Self>, CqlError> {
        let nearest = select
            .order_by
            .iter()
            .filter_map(|ordering| match &ordering.expression {
                OrderingExpression::Nearest { column, vector } => Some((column, vector, ordering.direction)),
                OrderingExpression::Column(_) => None,
            });
        let nearest: Vec<_> = nearest.collect();
        let Some((name, vector, direction)) = nearest.first() else {
            return Ok(None);
        };
        let column = typing.column(name)?;
        let vector = typing.term(&(*vector).into(), &Receiver::column(column))?;
        let is_float =
            matches!(&column.cql_type, CqlType::Vector { element, .. } if **element == CqlType::Float);
        if !is_float {
            return Err(invalid!("ANN ordering is only supported on float vector indexes"));
        }
        if nearest.len() > 1 {
            return Err(invalid!("Cannot specify more than one ANN ordering"));
        }
        if select.order_by.len() > 1 {
            return Err(invalid!("ANN ordering does not support any other ordering"));
        }
        if *direction == Some(OrderDirection::Descending) {
            return Err(invalid!("Descending ANN ordering is not supported"));
        }
        let table = typing.scope.table;
        if table.indexes_of(column.id).next().is_none() {
            return Err(invalid!("{NEEDS_INDEX}"));
        }
        let index = table.vector_index(column.id).map(|index| {
            let options = VectorOptions::of(&index.options).unwrap_or_default();
            (index.id, options.similarity)
        });
        Ok(Some(Nearest {
            column: column.clone(),
            index,
            vector,
            slot: 0,
        }))
    }

    pub fn column(&self) -> NearestColumn {
        NearestColumn {
            column: self.column.id,
            is_indexed: self.index.is_some(),
        }
    }

    pub fn is_of_rows(&self) -> bool {
        self.column.kind != ColumnKind::Static
    }

    fn bound_vector(
        &self,
        similarity: Similarity,
        context: &EvaluationContext<'_>,
    ) -> Result<Vec<f32>, CqlError> {
        let name = &self.column.name;
        let bytes = match self.vector.evaluate(context)? {
            Evaluated::Null => return Err(invalid!("Unsupported null value for column {name}")),
            Evaluated::Unset => return Err(invalid!("Unsupported unset value for column {name}")),
            Evaluated::Bytes(bytes) => bytes,
        };
        let mut vector = Vec::new();
        floats(&bytes, &mut vector);
        match similarity.fault(&vector) {
            Some(fault) => Err(invalid!("{fault}")),
            None => Ok(vector),
        }
    }
}

impl SelectPlan {
    /// Binds the ordering, and says what the client is to be told of what it asked for.
    pub(super) fn bind_nearest(
        &self,
        context: &EvaluationContext<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Option<(BoundNearest, Vec<String>)>, CqlError> {
        let Some(nearest) = &self.nearest else {
            return Ok(None);
        };
        let Some((index, similarity)) = nearest.index else {
            return Err(invalid!("{NEEDS_INDEX}"));
        };
        let mut warnings = Vec::new();
        let rows_max = limit_value(self.limit.as_ref(), context)?;
        let vector = nearest.bound_vector(similarity, context)?;
        warnings.extend(check_consistency(options.consistency)?);
        if self.grouping.is_some() || self.has_aggregates() {
            return Err(invalid!("Top-K queries can not be run with aggregation"));
        }
        if self.per_partition_limit.is_some()
            && limit_value(self.per_partition_limit.as_ref(), context)? != u32::MAX
        {
            return Err(invalid!("Top-K queries do not support per-partition limits"));
        }
        if rows_max == u32::MAX {
            return Err(invalid!(
                "Top-K queries must have a limit specified and the limit must be less than the query page size"
            ));
        }
        if rows_max > LIMIT_MAX {
            return Err(invalid!(
                "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than {LIMIT_MAX}. LIMIT was \
                 {rows_max}"
            ));
        }
        if let Some(page_rows) = options.page_rows().filter(|page_rows| *page_rows < rows_max) {
            warnings.push(format!(
                "Top-K queries do not support paging and the page size is set to {page_rows}, which is less than LIMIT \
                 {rows_max}. The page size has been set to {rows_max} to match the LIMIT."
            ));
        }
        let bound = BoundNearest {
            index,
            similarity,
            vector,
            rows_max,
        };
        Ok(Some((bound, warnings)))
    }

    /// Returns whether rows of several reads are put into another order before they are returned.
    pub(super) fn is_sorted_later(&self) -> bool {
        !self.ordering.is_empty() || self.nearest.is_some()
    }
}

fn check_consistency(consistency: Consistency) -> Result<Option<String>, CqlError> {
    let lowered = match consistency {
        Consistency::One | Consistency::LocalOne | Consistency::NodeLocal | Consistency::Any => {
            return Ok(None);
        }
        Consistency::Serial | Consistency::LocalSerial => {
            return Err(invalid!(
                "Top-K queries can only be run with consistency level ONE/LOCAL_ONE. Consistency level {consistency} was \
                 used."
            ));
        }
        Consistency::LocalQuorum => Consistency::LocalOne,
        _ => Consistency::One,
    };
    Ok(Some(format!(
        "Top-K queries can only be run with consistency level ONE / LOCAL_ONE / NODE_LOCAL. Consistency level \
         {consistency} was requested. Downgrading the consistency level to {lowered}."
    )))
}

impl BoundNearest {
    /// How near a stored vector is; `None` for one that has no place in the order.
    pub fn closeness(&self, stored: &[u8], scratch: &mut Vec<f32>) -> Option<f32> {
        floats(stored, scratch);
        let is_whole = scratch.len() == self.vector.len();
        (is_whole && self.similarity.fault(scratch).is_none())
            .then(|| self.similarity.closeness(&self.vector, scratch))
    }

    /// The likest first; what is equally near stays in its order.
    pub fn sort(&self, plan: &SelectPlan, rows: &mut [&[u8]]) {
        let slot = plan.nearest.as_ref().map_or(0, |nearest| nearest.slot);
        let mut scratch = Vec::new();
        rows.sort_by_cached_key(|row| {
            let stored = FetchedRow::new(row).value(slot);
            let closeness = stored.and_then(|stored| self.closeness(stored, &mut scratch));
            Reverse(ordered(closeness.unwrap_or(f32::NEG_INFINITY)))
        });
    }
}

/// Refuses what an index of vectors has no place for.
pub(crate) fn check_indexed_vector(similarity: Similarity, stored: &[u8]) -> Result<(), CqlError> {
    let mut vector = Vec::new();
    floats(stored, &mut vector);
    match similarity.fault(&vector) {
        Some(fault) => Err(invalid!("{fault}")),
        None => Ok(()),
    }
}

/// A number that sorts as `f32::total_cmp` does.
fn ordered(value: f32) -> i32 {
    let bits = value.to_bits().cast_signed();
    bits ^ (((bits >> 31).cast_unsigned()) >> 1).cast_signed()
}

/// The components of a serialized vector.
fn floats(bytes: &[u8], out: &mut Vec<f32>) {
    let (components, _) = bytes.as_chunks::<4>();
    out.clear();
    out.extend(components.iter().map(|component| f32::from_be_bytes(*component)));
}

impl HeapBytes for Nearest {
    fn heap_bytes(&self) -> usize {
        self.vector.heap_bytes()
    }
}
