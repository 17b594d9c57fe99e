//! Removing snapshots: first what makes one exist, then its links.

use helenus_vfs::Disk;
use std::io;
use std::path::Path;

use super::{MANIFEST, SnapshotError, SnapshotInfo, check_name, io_at, list};
use crate::host::{Host, TableChoice};

/// Removes every snapshot of that name of the chosen tables. What was removed, with what that has freed.
pub fn remove(host: &dyn Host, choice: &TableChoice, name: &str) -> Result<Vec<SnapshotInfo>, SnapshotError> {
    check_name(name)?;
    let data = host.data_folder()?;
    let disk = &**data.disk();
    let found = list(disk, &data.data_folder(), choice, Some(name))?;
    if found.is_empty() {
        return Err(SnapshotError::NotFound {
            name: name.to_owned(),
        });
    }
    for snapshot in &found {
        remove_folder(disk, &snapshot.folder).map_err(io_at(&snapshot.folder))?;
    }
    Ok(found)
}

fn remove_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let manifest = folder.join(MANIFEST);
    if disk.exists(&manifest)? {
        disk.remove(&manifest)?;
        disk.sync_directory(folder)?;
    }
    for entry in disk.list(folder)? {
        disk.remove(&folder.join(&entry.name))?;
    }
    disk.remove_directory(folder)
}
