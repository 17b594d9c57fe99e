//! Snapshots: hard links to a table's SSTables, laid out as Cassandra does it, so that its own tools take them.
//!
//! | path in the table's folder | holds |
//! |---|---|
//! | `snapshots/<name>/<files of the SSTables>` | hard links |
//! | `snapshots/<name>/schema.cql` | the statements that make the table |
//! | `snapshots/<name>/manifest.json` | which data files; written last: a snapshot exists when it does |

mod create;
mod inventory;
mod manifest;
mod remove;
mod restore;

pub use create::{Created, create, link_table_snapshot};
pub use inventory::{SnapshotInfo, list, table_folder_name};
pub use manifest::Manifest;
pub use remove::{remove, remove_expired};
pub use restore::restore;

use std::io;
use std::path::{Path, PathBuf};

use crate::host::{ChoiceError, HostError};
use crate::import::ImportError;

pub const SNAPSHOTS: &str = "snapshots";
pub const MANIFEST: &str = "manifest.json";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{name:?} cannot be a snapshot's name: it names a folder, so no slashes, and neither \".\" nor \"..\""
    )]
    BadName { name: String },
    #[error("a snapshot lives for {TTL_S_MIN} seconds at least, {ttl_s} are fewer")]
    ShortTtl { ttl_s: u64 },
    #[error("{keyspace}.{table} has a snapshot {name:?} already; remove it, or choose another name")]
    Exists {
        keyspace: String,
        table: String,
        name: String,
    },
    #[error("there is no snapshot {name:?} of what was asked for; `helenus snapshot list` shows all")]
    NotFound { name: String },
    #[error("the snapshot in {} was not finished; `helenus snapshot remove` clears it away", folder.display())]
    Unfinished { folder: PathBuf },
    #[error("{keyspace}.{table}: {source}")]
    Import {
        keyspace: String,
        table: String,
        source: Box<ImportError>,
    },
    #[error("{keyspace}.{table}: compactions replaced files faster than they could be linked; try again")]
    Unsettled { keyspace: String, table: String },
    #[error("{} is damaged: {reason}", path.display())]
    Manifest { path: PathBuf, reason: String },
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(transparent)]
    Host(#[from] HostError),
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> SnapshotError + use<> {
    let path = path.to_path_buf();
    move |source| SnapshotError::Io {
        path: path.clone(),
        source,
    }
}

/// Cassandra's `snapshot_min_allowed_ttl_seconds`.
const TTL_S_MIN: u64 = 60;

fn check_ttl(ttl_s: Option<u64>) -> Result<(), SnapshotError> {
    match ttl_s {
        Some(ttl_s) if ttl_s < TTL_S_MIN => Err(SnapshotError::ShortTtl { ttl_s }),
        _ => Ok(()),
    }
}

/// A name that stays inside the folder of snapshots.
fn check_name(name: &str) -> Result<(), SnapshotError> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(SnapshotError::BadName {
            name: name.to_owned(),
        });
    }
    Ok(())
}
