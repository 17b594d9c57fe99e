//! Which snapshots there are, also of tables that are gone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use helenus_vfs::{Disk, EntryKind};
use serde::{Deserialize, Serialize};

use super::{MANIFEST, Manifest, SNAPSHOTS, SnapshotError, io_at};
use crate::host::TableChoice;
use crate::schema_text::SCHEMA_FILE;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotInfo {
    pub name: String,
    pub keyspace: String,
    pub table: String,
    /// The table's id as its folder has it; a dropped and made again table has another one.
    pub table_id: String,
    /// Absent where the snapshot has no manifest: making it was interrupted.
    pub created_at: Option<String>,
    /// Absent where the snapshot stays until somebody removes it.
    #[serde(default)]
    pub expires_at: Option<String>,
    pub is_complete: bool,
    /// Files of SSTables.
    pub files: u64,
    /// Bytes of all those files.
    pub bytes: u64,
    /// Bytes of those that the table does not have any more: what removing the snapshot frees.
    pub true_bytes: u64,
    pub folder: PathBuf,
}

/// Table and id of `<table>-<id>`.
pub fn table_folder_name(folder: &str) -> Option<(&str, &str)> {
    let (table, id) = folder.rsplit_once('-')?;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id && !table.is_empty()).then_some((table, id))
}

/// The snapshots in a data folder, of the chosen tables and that name; ordered by name, keyspace, table.
pub fn list(
    disk: &dyn Disk,
    data_folder: &Path,
    choice: &TableChoice,
    name: Option<&str>,
) -> Result<Vec<SnapshotInfo>, SnapshotError> {
    let mut found = Vec::new();
    for keyspace in folders(disk, data_folder)? {
        if choice.keyspace.as_ref().is_some_and(|chosen| *chosen != keyspace) {
            continue;
        }
        let keyspace_folder = data_folder.join(&keyspace);
        for folder in folders(disk, &keyspace_folder)? {
            let Some((table, id)) = table_folder_name(&folder) else {
                continue;
            };
            if choice.table.as_ref().is_some_and(|chosen| chosen != table) {
                continue;
            }
            let table_folder = keyspace_folder.join(&folder);
            let snapshots = table_folder.join(SNAPSHOTS);
            if !disk.exists(&snapshots).map_err(io_at(&snapshots))? {
                continue;
            }
            let live = file_names(disk, &table_folder)?;
            for snapshot in folders(disk, &snapshots)? {
                if name.is_none_or(|wanted| wanted == snapshot) {
                    let folder = snapshots.join(&snapshot);
                    let mut info = describe(disk, &folder, &live)?;
                    info.name = snapshot;
                    info.keyspace.clone_from(&keyspace);
                    info.table = table.to_owned();
                    info.table_id = id.to_owned();
                    found.push(info);
                }
            }
        }
    }
    found.sort_by(|left, right| {
        (&left.name, &left.keyspace, &left.table).cmp(&(&right.name, &right.keyspace, &right.table))
    });
    Ok(found)
}

fn describe(disk: &dyn Disk, folder: &Path, live: &BTreeSet<String>) -> Result<SnapshotInfo, SnapshotError> {
    let manifest = Manifest::load(disk, folder)?;
    let mut info = SnapshotInfo {
        name: String::new(),
        keyspace: String::new(),
        table: String::new(),
        table_id: String::new(),
        created_at: manifest.as_ref().and_then(Manifest::created_at),
        expires_at: manifest.as_ref().and_then(Manifest::expires_at),
        is_complete: manifest.is_some(),
        files: 0,
        bytes: 0,
        true_bytes: 0,
        folder: folder.to_path_buf(),
    };
    let is_data = |file: &String| file != MANIFEST && file != SCHEMA_FILE;
    for file in file_names(disk, folder)?.into_iter().filter(is_data) {
        let path = folder.join(&file);
        let length = disk
            .open(&path)
            .and_then(|file| file.length())
            .map_err(io_at(&path))?;
        info.files += 1;
        info.bytes += length;
        if !live.contains(&file) {
            info.true_bytes += length;
        }
    }
    Ok(info)
}

fn folders(disk: &dyn Disk, folder: &Path) -> Result<Vec<String>, SnapshotError> {
    names(disk, folder, EntryKind::Directory)
}

fn file_names(disk: &dyn Disk, folder: &Path) -> Result<BTreeSet<String>, SnapshotError> {
    Ok(names(disk, folder, EntryKind::File)?.into_iter().collect())
}

fn names(disk: &dyn Disk, folder: &Path, kind: EntryKind) -> Result<Vec<String>, SnapshotError> {
    let entries = disk.list(folder).map_err(io_at(folder))?;
    Ok(entries
        .into_iter()
        .filter(|entry| entry.kind == kind)
        .map(|entry| entry.name)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_tables_name_table_and_id() {
        let id = "5a1c395eb41f11e59f22ba0be0483c18";
        assert_eq!(table_folder_name(&format!("t-{id}")), Some(("t", id)));
        assert_eq!(table_folder_name("t"), None);
        assert_eq!(table_folder_name("t-12"), None);
    }
}
