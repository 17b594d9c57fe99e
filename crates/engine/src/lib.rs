//! Statements: from syntax tree and schema to a plan, from plan and values to rows.

/// An [`CqlError::Invalid`] with a formatted message.
macro_rules! invalid {
    ($($text:tt)*) => {
        $crate::CqlError::invalid(format_args!($($text)*))
    };
}

pub mod error;

pub mod functions;
mod heap_bytes;
pub mod names;
mod row_store;
pub mod term;
mod vector_value;
pub mod views;

pub mod change_log;
pub mod clause;
pub mod modify;
pub mod select;

pub mod execute;
pub mod prepare;
pub mod replicas;
pub mod transaction;

pub use error::CqlError;
pub use execute::{QueryOptions, Scratch};
pub use prepare::{Plan, Prepared, prepare};
pub use row_store::{RowStore, TombstoneLimits, read_failure};
