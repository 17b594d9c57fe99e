//! A node: shards that each own a range of tokens, the messages between them, and what they must agree on.
//!
//! The request path reads top to bottom: a connection hands a whole message to [`Shard::handle`] (`service`, `request`), which finds
//! the plan and reads (`read`) or writes (`write`): here, on the shard that owns the partition (`forward`), or on
//! several; a write is acknowledged by the shard's log (`shard`).

mod auto_snapshot;
mod built_updates;
mod calls;
mod change_streams;
pub mod clients;
mod compaction;
mod conditional;
mod context;
mod counting;
mod deadline;
mod decide;
mod disk_reads;
mod execution;
mod forward;
pub mod guardrails;
#[deny(missing_docs)]
pub mod handle;
mod host_id;
pub mod hot_partitions;
mod list_operations;
mod long_clause;
mod long_reads;
pub mod metrics;
mod newest_write;
mod node;
mod operator;
mod options;
mod own_statement;
mod panic_boundary;
mod planning;
pub mod rate_limit;
mod read;
mod reader;
mod reads_ahead;
mod request;
mod roles;
mod row_expiry;
mod schema_change;
mod schema_guardrails;
mod schema_owner;
mod sealed_partitions;
mod sending;
mod service;
mod session;
mod shard;
mod slow_queries;
mod snapshot_worker;
mod stall;
mod statement;
mod suspended_read;
mod system_read;
mod traced_reads;
mod tracing;
mod transaction;
mod truncation;
mod unavailable;
mod usage;
mod vector_tending;
mod view_builds;
mod view_names;
mod view_progress;
mod view_pruning;
mod viewed_writes;
mod write;
mod write_set;
mod written_partitions;

pub use compaction::CompactionStatus;
pub use context::ShardContext;
pub use handle::{Handle, block_on};
pub use helenus_engine::TombstoneLimits;
pub use helenus_engine::replicas::CopyRule;
pub use helenus_schema::{IndexKind, SsTableFormat};
pub use node::{AssembledNode, AssembledShard, Node, OpenDoors, StartError, check_data_folder};
pub use operator::Operator;
pub use options::{CommitlogSync, CompactionSettings, NodeOptions};
pub use panic_boundary::{Panicked, catch, catch_async, count_panics};
pub use roles::authenticator::Authenticator;
pub use schema_change::DATA_CENTER;
pub use session::{Conversation, RequestContext, Session};
pub use shard::mailbox::Mailbox;
pub use shard::{Ending, Shard};
pub use stall::{Stalls, StallsSeen};
