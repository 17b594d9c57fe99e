//! Options of a run, and the description that is kept beside the data.

use std::path::{Path, PathBuf};
use std::time::Duration;

use helenus_schema::SsTableFormat;
use helenus_sstable::error::ReadError;
use helenus_storage::error::WriteError;
use helenus_storage::store::{FolderError, JobError, OpenError};
use serde::{Deserialize, Serialize};

use super::{DataSet, Group};

/// A run over data that was populated before.
#[derive(Clone, Debug)]
pub struct FastForwardOptions {
    pub data_folder: PathBuf,
    pub groups: Vec<Group>,
    pub data_sets: Vec<DataSet>,
    /// True if the row cache is on.
    pub enable_cache: bool,
    /// Else every reading begins with nothing in memory, the operating system's cache of the files included.
    pub keep_cache_across_test_cases: bool,
    /// A case is read again until so much time has gone by; at least once.
    pub test_case_duration: Duration,
}

/// Shape of the data; kept in the data folder, since a run has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Population {
    pub rows: u32,
    pub value_bytes: usize,
    pub column_index_bytes: u32,
    /// A version, as in the files' names.
    pub sstable_format: String,
    pub with_compression: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum FastForwardError {
    #[error("{} has no data yet: run with --populate first", folder.display())]
    NotPopulated { folder: PathBuf },
    #[error("{} holds data already; remove it or name another folder", folder.display())]
    AlreadyPopulated { folder: PathBuf },
    #[error(
        "{name} is no SSTable version that is written; there are: {}",
        SsTableFormat::names()
    )]
    Format { name: String },
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}: {text}", path.display())]
    Malformed { path: PathBuf, text: String },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("cannot flush: {0}")]
    Flush(#[from] JobError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

const FILE: &str = "fast-forward.json";

impl Population {
    /// At least 16 rows, so that every case has a place to read.
    pub const ROWS_MIN: u32 = 16;

    /// `None` for a version that cannot be written.
    pub fn format(&self) -> Option<SsTableFormat> {
        SsTableFormat::parse(&self.sstable_format)
    }

    pub fn load(folder: &Path) -> Result<Self, FastForwardError> {
        let path = folder.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(FastForwardError::NotPopulated {
                    folder: folder.to_owned(),
                });
            }
            Err(source) => return Err(FastForwardError::File { path, source }),
        };
        let population: Population =
            serde_json::from_str(&text).map_err(|error| FastForwardError::Malformed {
                path: path.clone(),
                text: error.to_string(),
            })?;
        if population.format().is_none() || population.rows < Self::ROWS_MIN {
            let text = format!("a population that this program does not make: {text}");
            return Err(FastForwardError::Malformed { path, text });
        }
        Ok(population)
    }

    /// Written last: what is not complete is not there.
    pub fn store(&self, folder: &Path) -> Result<(), FastForwardError> {
        let path = folder.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|error| FastForwardError::Malformed {
            path: path.clone(),
            text: error.to_string(),
        })?;
        std::fs::write(&path, text).map_err(|source| FastForwardError::File { path, source })
    }
}
