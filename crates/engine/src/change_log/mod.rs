//! Change logs, ScyllaDB's CDC tables: which rows tell of a write to a table whose changes are logged.
//!
//! The rows are a function of the write, of the rows as they were (`images`, where the log has them) and of the time: the same write
//! again makes the same rows again. They are written with the write itself, as one record ([decision
//! 38](../../../../docs/decisions/0038-change-logs.md)).

mod images;
mod operations;
mod plan;
mod rows;
mod streams;

pub use images::Images;
pub use operations::Cause;
pub use plan::ChangeLogPlan;
pub use streams::{StreamId, Streams};
