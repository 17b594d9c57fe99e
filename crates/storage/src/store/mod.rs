//! One shard's tables: where writes go to, and where reads come from.
//!
//! A [`ShardStore`] belongs to one thread and never blocks on another. Flushes and compactions leave it as
//! [`BackgroundJob`]s over immutable data, run wherever the caller likes, and come back as results.

mod adoption;
mod folder;
mod open;

mod files;
mod filter_gathering;
mod shard;
mod table;
mod truncation;

mod answer;
mod partition_read;
mod read;

mod few_rows;
mod indexed_read;
mod indexing;
mod range_worth;

mod vectors;

mod counting;

mod absorption;
mod cache_memory;
mod unflushed;

mod job;
mod log_progress;
mod schedule;

mod compact;
mod compaction_history;
mod compaction_request;
mod output;

pub use adoption::{Adoption, AdoptionError, SourceFiles, Transfer};
pub use compaction_history::{CompactionHistory, CompactionRecord, PartitionsBySources};
pub use compaction_request::{
    CompactError, CompactionKind, CompactionRequest, CompactionTicket, CompactionTotals, PendingCompactions,
    RunningCompaction, ShardCompactions,
};
pub use counting::{CounterReading, Counting};
pub use filter_gathering::FilterGathering;
pub use folder::{DataFolder, FolderError, RefusedSsTable};
pub use indexing::IndexStatus;
pub use job::{BackgroundJob, JobError, JobKind, JobProgress, JobReport, JobResult};
pub use open::{OpenError, OpenedShards};
pub use schedule::COMPACTIONS_PER_SHARD_MAX;
pub use shard::{ShardStore, StoreOptions};
pub use unflushed::UnflushedTable;
pub use vectors::{Tended, VectorFill};
