//! Requests of an operator to a node.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::host::TableChoice;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    SnapshotCreate {
        #[serde(default)]
        tables: TableChoice,
        name: String,
        /// Seconds after which the node removes it by itself.
        #[serde(default)]
        ttl_s: Option<u64>,
    },
    SnapshotList {
        #[serde(default)]
        tables: TableChoice,
        #[serde(default)]
        name: Option<String>,
    },
    SnapshotRestore {
        #[serde(default)]
        tables: TableChoice,
        name: String,
        /// True if what the tables hold goes; else the snapshot's rows are merged with it.
        #[serde(default)]
        replace: bool,
    },
    SnapshotRemove {
        #[serde(default)]
        tables: TableChoice,
        name: String,
    },
    /// The folder is one that the node can read, by its absolute path.
    Import {
        folder: PathBuf,
        #[serde(default)]
        tables: TableChoice,
        #[serde(default)]
        schema_file: Option<PathBuf>,
        #[serde(default)]
        skip_bad: bool,
        /// Copies instead of hard links.
        #[serde(default)]
        copy: bool,
        #[serde(default)]
        replace: bool,
    },
    Flush {
        #[serde(default)]
        tables: TableChoice,
    },
    /// The SSTables that did not open when the node started.
    RefusedSsTables {},
    CompactionStatus {},
    /// How far materialized views are built.
    ViewStatus {
        /// The views.
        #[serde(default)]
        tables: TableChoice,
    },
    /// Answered when all is compacted.
    CompactionMajor {
        #[serde(default)]
        tables: TableChoice,
        #[serde(default)]
        split_output: bool,
    },
    CompactionCleanup {
        #[serde(default)]
        tables: TableChoice,
    },
    CompactionStop {
        #[serde(default)]
        tables: TableChoice,
    },
}

#[derive(Debug, thiserror::Error)]
#[error("not a request: {0}")]
pub struct RequestError(#[from] serde_json::Error);

impl Request {
    /// Returns whether only a running node can do it.
    pub fn needs_node(&self) -> bool {
        matches!(
            self,
            Request::Flush { .. }
                | Request::RefusedSsTables {}
                | Request::CompactionStatus {}
                | Request::ViewStatus { .. }
                | Request::CompactionMajor { .. }
                | Request::CompactionCleanup { .. }
                | Request::CompactionStop { .. }
        )
    }

    /// Returns whether it changes nothing.
    pub fn only_looks(&self) -> bool {
        match self {
            Request::SnapshotList { .. }
            | Request::RefusedSsTables {}
            | Request::CompactionStatus {}
            | Request::ViewStatus { .. } => true,
            Request::SnapshotCreate { .. }
            | Request::SnapshotRestore { .. }
            | Request::SnapshotRemove { .. }
            | Request::Import { .. }
            | Request::Flush { .. }
            | Request::CompactionMajor { .. }
            | Request::CompactionCleanup { .. }
            | Request::CompactionStop { .. } => false,
        }
    }

    pub fn parse(line: &str) -> Result<Self, RequestError> {
        Ok(serde_json::from_str(line)?)
    }
}
