//! Statements: from syntax tree and schema to a plan, from plan and values to rows.

pub mod error;

pub use error::CqlError;
