//! Statements of every kind from a seed, against a whole node: none may panic, hold a shard for longer than it says, come
//! back after its time or make the process larger than it says.
//!
//! [`grammar`] writes statements that are mostly valid over the schema that the node has at that moment; [`mutate`] makes
//! others of them, token by token; [`large`] brings some to the bounds of what a request may be. A [`Round`] is the life
//! of one node, which a seed makes again. What failed is [shrunk](shrink) to a [`Script`] that can be replayed.
//!
//! [`compare`] sends the same statements to a real Cassandra as well, and tells in what answers differ.

pub mod grammar;
pub mod large;
pub mod mutate;

mod beside;
mod judge;
mod round;
mod script;
mod shrink;

pub use beside::{Differences, Example, compare};
pub use judge::{Bounds, Failure};
pub use round::{Outcome, Round, Totals, replay};
pub use script::{How, Script, ScriptError, Step};
pub use shrink::shrink;
