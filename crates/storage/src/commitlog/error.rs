//! What can go wrong with a log, by operation.

use std::io;
use std::path::PathBuf;

/// A record was not taken into the log; the write must be refused.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogAppendError {
    /// Backpressure: the disk is slower than the writes.
    #[error("the commit log waits for the disk with {bytes_max} bytes, all it may; try again later")]
    BufferFull { bytes_max: usize },
    #[error("a write of {bytes} bytes is larger than the commit log takes ({bytes_max}, half a segment)")]
    RecordTooLarge { bytes: usize, bytes_max: usize },
    /// Latched: see [`LogError::Abandoned`].
    #[error("writes are refused until the node is restarted: {reason}")]
    Failed { reason: String },
}

/// Writing or syncing the log failed. From the first error on the log is abandoned: the kernel may have thrown the
/// unwritten pages away, so nothing since the last successful sync counts as durable, and nothing after it may.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    #[error("{}: {source}; check the disk and restart the node", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{}: no space left on the disk; make room and restart the node", file.display())]
    NoSpace { file: PathBuf },
    #[error("the commit log was abandoned after an earlier error ({reason}); restart the node")]
    Abandoned { reason: String },
}

impl LogError {
    pub(super) fn of(file: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull => LogError::NoSpace { file },
            _ => LogError::Io { file, source },
        }
    }
}

/// The logs could not be read back; the node must not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError<E> {
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error(
        "{} is corrupt at byte {offset}: wanted {wanted}, found {found}; restore it from a copy, or move it out of \
         the folder to start without the writes in it",
        file.display()
    )]
    Corrupt {
        file: PathBuf,
        offset: u64,
        wanted: &'static str,
        found: String,
    },
    #[error(
        "{} has format version {found}, this program reads {supported}; start the version that wrote it and drain \
         the node first",
        file.display()
    )]
    Version {
        file: PathBuf,
        found: u32,
        supported: u32,
    },
    #[error("a replayed write could not be applied: {0}")]
    Apply(E),
}
