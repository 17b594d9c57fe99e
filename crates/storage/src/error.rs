//! What can go wrong between a shard and its disk.

use std::io;
use std::path::PathBuf;

use helenus_schema::TableId;

use crate::commitlog::LogAppendError;
use crate::compaction::RemovalError;
use crate::sstable::AbsentPages;

/// A read could not be answered from storage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    /// The file does not say what its checksums or its format require; it is never served.
    #[error("{} is corrupt at byte {offset}: wanted {wanted}, found {found}", file.display())]
    Corrupt {
        file: PathBuf,
        offset: u64,
        wanted: &'static str,
        found: String,
    },
    /// The end of a read's run, not of the read: these pages are to be brought, then it is run again. Only reads that
    /// were begun with [`PageCache::suspending`](crate::sstable::PageCache::suspending) end so.
    #[error("{} is not in memory from byte {} on", .0.path().display(), .0.offset())]
    Absent(Box<AbsentPages>),
}

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
    #[error(transparent)]
    Removal(#[from] RemovalError),
}
