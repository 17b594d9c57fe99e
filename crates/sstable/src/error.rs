//! Errors of opening, reading and writing an SSTable.

use std::io;
use std::path::{Path, PathBuf};

use crate::block::absent_pages::AbsentPages;
use crate::corruption::Corruption;
use crate::decode::DecodeError;
use crate::version::Version;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{} is missing, and the SSTable cannot be read without it", file.display())]
    MissingComponent { file: PathBuf },
    #[error(
        "{} is of version {version}, which is not read: it can be {}",
        file.display(),
        Version::ALL.map(Version::name).join(", ")
    )]
    ForeignVersion { file: PathBuf, version: String },
    #[error("{} names a column {column:?} that the table neither has nor had", file.display())]
    UnknownColumn { file: PathBuf, column: String },
    #[error("{} stores column {column:?} as {stored}, which the table's type cannot read", file.display())]
    IncompatibleColumn {
        file: PathBuf,
        column: String,
        stored: String,
    },
    #[error("{} has {what} {stored}, the table has {expected}", file.display())]
    WrongTable {
        file: PathBuf,
        what: &'static str,
        stored: String,
        expected: String,
    },
    #[error("{} is compressed with {compressor}, which is not supported", file.display())]
    UnsupportedCompressor { file: PathBuf, compressor: String },
    #[error("{} was partitioned by {partitioner}, only Murmur3Partitioner is supported", file.display())]
    UnsupportedPartitioner { file: PathBuf, partitioner: String },
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    /// Only a custom type whose name cannot be stored.
    #[error("column {column:?} has a type that cannot be stored: {stored}")]
    ColumnType { column: String, stored: String },
    /// The statement that wrote the value should have refused it.
    #[error("column {column:?} has a value of {found} bytes where its type has {wanted}")]
    ValueLength {
        column: String,
        wanted: usize,
        found: usize,
    },
}

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
    /// were begun with `PageCache::suspending` end so.
    #[error("{} is not in memory from byte {} on", .0.path().display(), .0.offset())]
    Absent(Box<AbsentPages>),
}

impl From<Corruption> for ReadError {
    fn from(found: Corruption) -> Self {
        ReadError::Corrupt {
            file: found.file,
            offset: found.offset,
            wanted: found.wanted,
            found: found.found,
        }
    }
}

impl DecodeError {
    /// For bytes that should have been complete, and began at `base` of the file, or at what a damaged one says is a place.
    pub fn in_file(self, file: &Path, base: u64) -> ReadError {
        let file = file.to_path_buf();
        match self {
            DecodeError::Truncated { needed } => {
                let offset = base.saturating_add(needed as u64);
                ReadError::Corrupt {
                    file,
                    offset,
                    wanted: "more bytes",
                    found: "the end".to_owned(),
                }
            }
            DecodeError::Malformed {
                offset,
                wanted,
                found,
            } => ReadError::Corrupt {
                file,
                offset: base.saturating_add(offset as u64),
                wanted,
                found,
            },
        }
    }
}
