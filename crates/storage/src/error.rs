//! What can go wrong between a shard and its disk.

use std::io;
use std::path::PathBuf;

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
}
