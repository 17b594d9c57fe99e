//! The keyspaces that every node has: what they are, and the rows that are made from code.
//!
//! The tables of `system_auth`, `system_traces` and `system_distributed` are stored like a user's. The rows of the other
//! keyspaces are made when they are asked for, from the schema and from what the node knows about itself, as packed
//! updates that the ordinary read path can serve.

mod definitions;

mod node_state;
mod schema_version;

mod read;
mod row_writer;
mod rows;

mod index_rows;
mod local_rows;
mod schema_rows;
mod usage;
mod view_rows;

pub use definitions::add_system_keyspaces;
pub(crate) use node_state::SNITCH;
pub use node_state::{ClientConnection, HotPartition, NodeMetric, NodeState, PARTITIONER, SsTableTask};
pub use read::read_system_table;
pub use rows::is_of_all_shards;
pub use schema_version::schema_version;
pub use usage::{
    CacheUsage, NodeUsage, PastCompaction, QueueUsage, SlowQuery, SnapshotUsage, StatementUsage, TableUsage,
};
