//! SELECT: the plan, reading on the shards that own the rows, and putting the result together.

mod named;
mod relation;
pub mod restriction;
pub mod slices;
mod targets;
mod vector_rules;
mod where_clause;

mod filter;
mod index_support;
mod indexed;
mod nearest;
mod row_view;
mod top_rows;

mod plan;

mod group_by;
mod prepare;

mod bound;
mod nearest_read;
mod paging;
mod rows_sink;
mod shard_read;
mod tombstones;

mod direct;
mod execution;
mod grouping;
mod one_row;

pub use bound::{BOUND_AT_ONCE_MAX, BoundSelect, InProducts};
pub(crate) use bound::{JSON_BYTES_PER_VALUE, json_effort};
pub(crate) use direct::set_single_row;
pub use direct::{Direct, DirectRead};
pub use execution::SelectExecution;
pub(crate) use filter::{Filter, FilterEffort, bind_filters};
pub use nearest::NearestColumn;
pub(crate) use nearest::check_indexed_vector;
pub(crate) use one_row::ManyRows;
pub use one_row::{RowRead, StoredRow};
pub use plan::SelectPlan;
pub(crate) use relation::operator_text;
pub use relation::{RelationText, single as single_restriction};
pub use row_view::{Fetched, RowView};
pub use shard_read::{ReadPartitions, ShardRead, ShardReading, ShardRows};
pub use where_clause::{StatementKind, WhereClause, WhereRules};

pub(crate) use prepare::prepare_select;
