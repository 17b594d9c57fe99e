//! Errors between a shard and its disk.

use helenus_schema::TableId;

use crate::commitlog::LogAppendError;

/// A write was not taken; nothing of it is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Dropped between preparing the statement and running it.
    #[error("no table has the id {}", id.0)]
    UnknownTable { id: TableId },
    /// A bug: packed updates are built by this process.
    #[error("a packed update has no head")]
    Malformed,
    /// Backpressure: memtables fill faster than they are flushed, or there is no disk to flush them to.
    #[error("memtables hold {bytes_max} bytes, all they may; try again later")]
    MemtablesFull { bytes_max: usize },
    /// Other tables take writes: nothing but this one is short of room.
    #[error(
        "{keyspace}.{table} cannot be flushed and holds {bytes_max} bytes in memory, all it may: {reason}; try again later"
    )]
    TableNotFlushed {
        keyspace: String,
        table: String,
        bytes_max: usize,
        reason: String,
    },
    /// The log is behind or has failed.
    #[error(transparent)]
    Log(#[from] LogAppendError),
}

/// A table could not be emptied; all its rows are still there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TruncateError {
    #[error("no table has the id {}", id.0)]
    UnknownTable { id: TableId },
    #[error("writes are refused until the node is restarted: {reason}")]
    LogFailed { reason: String },
    /// A flush, compaction or removal of the table is under way; to be tried again when a job has ended. Until then no
    /// new flush or compaction of the table is begun.
    #[error("background work on the table did not end in time; try again")]
    Busy,
    /// SSTables that were replaced cannot be removed; with the others gone, a restart would bring their rows back.
    #[error("files that the table no longer needs cannot be removed; check the disk and try again")]
    CannotRemove,
    /// The table is as it was.
    #[error("{reason}")]
    NotListed { reason: String },
}
