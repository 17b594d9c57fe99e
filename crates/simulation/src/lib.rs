//! A whole node under simulation: one thread, simulated disk, clock and scheduler. A seed is a run, and runs again
//! exactly.
//!
//! [`run`] gives a node several lives. In each it is started on what the last one left, its rows are compared with a
//! model, and clients send statements until the power fails, the process dies or somebody stops it: at any change of
//! the disk, with writes torn, syncs that fail or hang, and shards delayed against each other. What must hold:
//!
//! 1. Nothing acknowledged is lost, and nothing that was refused is there.
//! 2. What is atomic is there entirely or not at all: a statement in a partition, a LOGGED batch in all of its.
//! 3. A read sees what was acknowledged before it was sent.
//! 4. Every request is answered within its time ([`LATE_MAX`] after its deadline), whatever hangs.
//! 5. Every schema change ends, and then all shards have the same schema.
//! 6. Memtables and caches keep within the memory that the node was given.
//! 7. A counter holds at least what was acknowledged and at most what was sent.
//! 8. Conditional statements and SERIAL reads of a register see one chain of values, which only grows, also through crashes.
//! 9. What conditional statements, SERIAL reads and plain writes see of a cell fits one order ([`linearizable`]).
//! 10. Transactions move money between accounts, and whoever looks at all of them in one finds the same sum.
//! 11. `ORDER BY .. ANN OF` finds what is acknowledged and nearest, and nothing that is not there, in seeds that have vectors.
//! 12. A node starts on whatever a crash has left, and nothing panics.
//! 13. Where nothing was broken, its operator is told of no fault; and once a fault has passed, a node does what it did before it, or
//!     says that it wants a restart.

mod clock;
pub mod linearizable;
pub mod model;
mod node;
mod registers;
mod threads;
mod weather;
pub mod workload;
mod world;

use std::time::Duration;

pub use world::{LATE_MAX, run, trace};

/// Report of a run without a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By the node's clock.
    pub simulated: Duration,
    pub statements: u64,
    pub acknowledged: u64,
    pub refused: u64,
    pub timed_out: u64,
    pub reads_checked: u64,
    pub starts: u64,
    /// Seen by the last starts.
    pub sstables: u64,
    /// Hash of everything that happened, in its order and at its time: the same for the same seed.
    pub fingerprint: u64,
}

/// Something that must hold did not.
#[derive(Debug, thiserror::Error)]
#[error("seed {seed}: {what}")]
pub struct Failure {
    pub seed: u64,
    pub what: String,
    /// Events before the failure, oldest first.
    pub trace: Vec<String>,
}
