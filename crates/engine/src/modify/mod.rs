//! INSERT, UPDATE, DELETE and BATCH: plans, and the packed updates they make of bound values.

mod attributes;
mod json;
mod operation;
mod plan;
mod prepare;

mod conditional;

mod cells;
mod list_view;
mod prior_lists;
mod updates;

mod batch;
mod transactional;

pub use batch::{BatchPlan, FailedStatement, check_batch, unlogged_batch_warning, write_kind};
pub(crate) use batch::{no_table, prepare_batch_attributes};
pub(crate) use conditional::{BoundCondition, ColumnCondition, ReadBuffers};
pub use conditional::{ConditionalMember, ConditionalOutcome, ConditionalRequest};
pub use plan::ModifyPlan;
pub(crate) use prepare::{prepare_modification, prepare_modification_in_transaction};
pub use prior_lists::ListReading;
pub(crate) use transactional::TransactionUpdates;
pub use updates::{EmitUpdate, check_written};
