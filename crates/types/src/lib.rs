//! CQL types, values, comparators and tokens.
//!
//! Values travel through Helenus as the bytes of Cassandra's serialized form; this crate is the one place that
//! knows what those bytes mean. It does no I/O and knows no table.

pub mod cql_type;

pub use cql_type::{CqlType, UserType};
