//! Conditional statements and batches: what IF says, whether it holds, what is written then, and what is answered.
//!
//! A request is bound once a run ([`ConditionalRequest::with_bound`]), then reads, decides and builds its update
//! ([`ConditionalRequest::run`]) without an await, on the shard that owns the one partition that it may touch. The rules are
//! those of Cassandra's `CQL3CasRequest`: which columns are read decides which rows there are, and so what is answered.

mod answer;
mod ballot;
mod bound;
mod few;
mod plan;
mod request;
mod rows;

pub use ballot::merged;
pub use bound::BoundCondition;
pub use plan::{ColumnCondition, ConditionPlan, check_timestamp};
pub use request::{ConditionalMember, ConditionalOutcome, ConditionalRequest};
pub use rows::ReadBuffers;
