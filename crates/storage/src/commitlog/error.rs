//! Errors of a log, by operation.

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
    /// See [`LogError::CannotBegin`].
    #[error("{reason}")]
    CannotBegin { reason: String },
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
    /// Nothing of it was written, and nothing that was written is in doubt: the same batch is to be persisted again.
    #[error("{}: {source}; no file can be made for the commit log, which is tried again; until then writes are refused", file.display())]
    CannotBegin { file: PathBuf, source: io::Error },
    #[error("the commit log was abandoned after an earlier error ({reason}); restart the node")]
    Abandoned { reason: String },
}

impl LogError {
    /// Makes the error of a file that could not be made. What a full disk or a shortage of descriptors keeps from being made may
    /// be made later.
    pub(super) fn of_creation(file: PathBuf, source: io::Error) -> Self {
        let passes = source.kind() == io::ErrorKind::StorageFull || is_shortage_of_descriptors(&source);
        match passes {
            true => LogError::CannotBegin { file, source },
            false => LogError::of(file, source),
        }
    }

    /// Returns whether the log takes no more.
    pub fn is_final(&self) -> bool {
        !matches!(self, LogError::CannotBegin { .. })
    }

    pub(super) fn of(file: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull => LogError::NoSpace { file },
            _ => LogError::Io { file, source },
        }
    }
}

/// Error numbers of a shortage of descriptors, of this process (`EMFILE`) or of the whole system (`ENFILE`): the same on all
/// systems of the Unix family.
const SHORTAGES_OF_DESCRIPTORS: [i32; 2] = [24, 23];

fn is_shortage_of_descriptors(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|number| SHORTAGES_OF_DESCRIPTORS.contains(&number))
}

/// A segment that is of no more use is still there. It is tried again with the next one, and a start passes over it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", file.display())]
pub struct SegmentNotRemoved {
    pub file: PathBuf,
    pub source: io::Error,
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
