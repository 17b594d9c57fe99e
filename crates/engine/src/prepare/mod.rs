//! Preparing: from the text of a statement and the schema to an immutable plan.

mod digest;
mod metadata;
mod plan;
mod statement;
mod timeout;

pub use metadata::ResultMetadata;
pub(crate) use metadata::check_extent;
pub use plan::{Plan, Prepared};
pub use statement::{prepare, prepare_within};
pub use timeout::StatementTimeout;
