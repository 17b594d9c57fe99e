//! Benchmarks: in process, counted per operation, and over the wire against any CQL server.

pub mod canned;
pub mod compaction;
pub mod compaction_rows;
mod cpu_time;
pub mod fast_forward;
pub mod indexed;
pub mod indexes;
pub mod reads;
pub mod recall;
pub mod refusing;
pub mod requests;
pub mod simple_query;
pub mod vectors;
pub mod wire;
mod wire_client;
mod workload;

pub use workload::{Logged, View};
