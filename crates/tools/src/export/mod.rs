//! SSTables in other forms: of another version, or as rows of text.

mod csv;
mod live_rows;
#[cfg(feature = "parquet")]
mod parquet;
mod sstables;

#[cfg(feature = "parquet")]
pub use self::parquet::export_parquet;
pub use csv::export_csv;
pub use sstables::export_sstables;

use std::io;
use std::path::PathBuf;

use helenus_sstable::error::ReadError;
use helenus_sstable::{OpenError, WriteError};
use helenus_storage::compaction::RewriteError;
use serde::{Deserialize, Serialize};

use crate::import::ImportError;
use crate::target::TargetError;

/// Files, partitions, rows and bytes that an export wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    pub files: Vec<String>,
    pub partitions: u64,
    pub rows: u64,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    #[error("there is nothing to export")]
    Nothing,
    #[cfg(feature = "parquet")]
    #[error("cannot write the output: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
    #[error(
        "this build writes no Parquet; build it with `cargo build --release --features parquet`, or export csv"
    )]
    NoParquet,
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Schema(#[from] ImportError),
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
}
