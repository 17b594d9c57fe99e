//! `manifest.json`, with Cassandra's fields.

use std::path::Path;

use helenus_vfs::Disk;
use serde::{Deserialize, Serialize};

use super::{MANIFEST, SnapshotError, io_at};

/// A guard against damage: a line per SSTable, of which no folder holds a hundred thousand.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The names of the data files.
    pub files: Vec<String>,
    /// ISO 8601, UTC. Cassandra before 4.1 wrote none.
    #[serde(default)]
    pub created_at: Option<serde_json::Value>,
    #[serde(default)]
    pub expires_at: Option<serde_json::Value>,
    #[serde(default)]
    pub ephemeral: bool,
}

impl Manifest {
    pub fn new(files: Vec<String>, created_at: String, expires_at: Option<String>) -> Self {
        Manifest {
            files,
            created_at: Some(created_at.into()),
            expires_at: expires_at.map(Into::into),
            ephemeral: false,
        }
    }

    /// When the snapshot was made, if it says so.
    pub fn created_at(&self) -> Option<String> {
        self.created_at.as_ref().map(time_text)
    }

    /// When the snapshot may go, if it says so.
    pub fn expires_at(&self) -> Option<String> {
        self.expires_at
            .as_ref()
            .filter(|value| !value.is_null())
            .map(time_text)
    }

    /// Makes the snapshot in the folder exist.
    pub fn store(&self, disk: &dyn Disk, folder: &Path) -> Result<(), SnapshotError> {
        let path = folder.join(MANIFEST);
        let new = folder.join(format!("{MANIFEST}.new"));
        // Strings and booleans only: nothing that JSON could not express.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        let write = || {
            if disk.exists(&new)? {
                disk.remove(&new)?;
            }
            let file = disk.create(&new)?;
            file.append(text.as_bytes())?;
            file.sync_data()?;
            disk.rename(&new, &path)?;
            disk.sync_directory(folder)
        };
        write().map_err(io_at(&path))
    }

    /// `None` where the folder has none.
    pub fn load(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, SnapshotError> {
        let path = folder.join(MANIFEST);
        let failed = io_at(&path);
        if !disk.exists(&path).map_err(&failed)? {
            return Ok(None);
        }
        let file = disk.open(&path).map_err(&failed)?;
        let length = file.length().map_err(&failed)?;
        let damaged = |reason: String| SnapshotError::Manifest {
            path: path.clone(),
            reason,
        };
        if length > MANIFEST_BYTES_MAX {
            return Err(damaged(format!("{length} bytes are more than a manifest has")));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(0, &mut bytes).map_err(&failed)?;
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| damaged(error.to_string()))
    }
}

fn time_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
