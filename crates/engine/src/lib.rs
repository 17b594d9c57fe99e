//! Statements: from syntax tree and schema to a plan, from plan and values to rows.

pub mod ddl;
pub mod describe;
pub mod system;

pub mod schema_store;

pub mod error;

pub use error::CqlError;
