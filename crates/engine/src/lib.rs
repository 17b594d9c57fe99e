//! Statements: from syntax tree and schema to a plan, from plan and values to rows.

pub mod ddl;
pub mod error;
pub mod system;

pub use error::CqlError;
