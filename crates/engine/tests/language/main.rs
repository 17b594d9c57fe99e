//! Statements on a node of one thread, in memory.

mod by_index;
mod filters;
mod large_statements;
mod legacy_types;
#[path = "../node/mod.rs"]
mod node;
mod plan_bytes;
mod replicas;
mod statements;
