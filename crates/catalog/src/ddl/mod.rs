//! Schema changes: CREATE, ALTER and DROP of keyspaces, tables, user types, views and indexes.
//!
//! A statement is applied to one schema snapshot and makes the next; nothing here is stored or told to anyone. What is
//! valid, in which order it is checked and how a refusal reads is Cassandra 5.0.5's.

mod change;
mod statement;

mod keyspace;
mod replication;

mod alter_table;
mod expiration;
mod table;

mod user_type;

mod base_table;
mod change_log;
mod view;

mod index;
mod index_options;
mod vector_index;

mod absent;

mod column_type;
mod extent;
mod guard;
pub(crate) mod options;

pub use change::{DdlContext, DdlOutcome, SchemaChange, SchemaChangeTarget, SchemaTransition};
pub(crate) use column_type::TYPE_BEYOND_BOUNDS;
pub(crate) use column_type::resolve_type;
pub(crate) use options::read_change_log;
pub use statement::{apply, schema_statement};
pub(crate) use table::build_table;
