//! One history of statements and events, run on many nodes at once that differ in everything a client must not see:
//! shards, caches, memory, formats, page sizes, whether anything ever reaches a disk. Every answer, warning and error
//! agrees, with each other and, where it knows them, with a small model of CQL. Else a fault is found; then the history
//! shrinks to the few steps that show it.
//!
//! A seed is a history on every machine. A history is also a text ([`Script`]), which is how a fault that was found is
//! kept: `scripts/` holds them, and this crate's tests run them.

pub mod script;
mod value;

mod model;

mod cassandra;
mod clock;
mod configuration;
mod events;
mod failure;
mod instance;
mod run;
mod seen;

mod generate;

mod batch;
mod shrink;

pub use cassandra::Cassandra;
pub use configuration::{Configuration, Home};
pub use failure::{Difference, Failure, FailureKind};
pub use generate::{Audience, generate, generate_index_queries};
pub use run::{Report, run, run_beside};
pub use script::{Event, Script, ScriptError, Statement, Step};
pub use shrink::shrink;
pub use value::{Piece, Value};
