//! `ORDER BY v ANN OF ? LIMIT k`: the vectors of an indexed column that are likest to one that is given.
//!
//! Each shard answers with the k rows that are nearest of its own, as exact as the stored vectors are; the coordinator keeps
//! the nearest k of these.

use std::cmp::Reverse;

use helenus_cql::ast::{OrderDirection, OrderingExpression, Select};
use helenus_schema::{ColumnKind, ColumnMetadata, IndexId};
use helenus_types::CqlType;
use helenus_vector::{Similarity, VectorOptions};

use crate::CqlError;
use crate::clause::index_support::NearestColumn;
use crate::heap_bytes::HeapBytes;
use crate::term::{Evaluated, EvaluationContext, Expression, FetchedRow, Receiver, Typing};
use crate::vector_value::floats;

/// Cassandra's `sai_options.max_top_k` and the like: rows that one query may ask for.
pub(super) const LIMIT_MAX: u32 = 1_000;

pub(super) const NEEDS_INDEX: &str = "ANN ordering by vector requires the column to be indexed";

/// The ordering of a statement, typed.
#[derive(Clone, Debug)]
pub(super) struct Nearest {
    pub column: ColumnMetadata,
    /// None where only an index of another kind is there, which the WHERE clause then refuses.
    pub index: Option<(IndexId, VectorOptions)>,
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
    /// Rows that are compared for the nearest to be among them.
    pub compared: u32,
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
            (index.id, options)
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

    pub fn bound_vector(
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

impl BoundNearest {
    /// How near a stored vector is; `None` for one that has no place in the order.
    pub fn closeness(&self, stored: &[u8], scratch: &mut Vec<f32>) -> Option<f32> {
        floats(stored, scratch);
        let is_whole = scratch.len() == self.vector.len();
        (is_whole && self.similarity.fault(scratch).is_none())
            .then(|| self.similarity.closeness(&self.vector, scratch))
    }

    /// The likest first, by the values in a slot of the rows; what is equally near stays in its order.
    pub fn sort(&self, slot: usize, rows: &mut [&[u8]]) {
        let mut scratch = Vec::new();
        rows.sort_by_cached_key(|row| {
            let stored = FetchedRow::new(row).value(slot);
            let closeness = stored.and_then(|stored| self.closeness(stored, &mut scratch));
            Reverse(ordered(closeness.unwrap_or(f32::NEG_INFINITY)))
        });
    }
}

/// A number that sorts as `f32::total_cmp` does.
fn ordered(value: f32) -> i32 {
    let bits = value.to_bits().cast_signed();
    bits ^ (((bits >> 31).cast_unsigned()) >> 1).cast_signed()
}

impl HeapBytes for Nearest {
    fn heap_bytes(&self) -> usize {
        self.vector.heap_bytes()
    }
}
