//! What a node answers: progress now and then, and at the end what came of it.

use serde::{Deserialize, Serialize};

use crate::import::Imported;
use crate::progress::Unit;
use crate::snapshot::{Created, SnapshotInfo};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// A new task begins.
    Begin {
        task: String,
        unit: Unit,
        total: u64,
    },
    Progress {
        done: u64,
    },
    /// The last line of a request that was carried out.
    Done {
        answer: Answer,
    },
    /// The last line of one that was not.
    Failed {
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    SnapshotsCreated(Vec<Created>),
    Snapshots(Vec<SnapshotInfo>),
    SnapshotsRestored(Vec<Imported>),
    SnapshotsRemoved(Vec<SnapshotInfo>),
    Imported(Imported),
    Flushed(FlushedTables),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushedTables {
    pub tables: u64,
}
