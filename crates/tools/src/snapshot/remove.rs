//! Removing snapshots: first what makes one exist, then its links.

use std::io;
use std::path::Path;

use helenus_storage::store::DataFolder;
use helenus_vfs::Disk;

use super::{MANIFEST, SnapshotError, SnapshotInfo, check_name, io_at, list};
use crate::host::{Host, TableChoice};
use crate::times::us_of_instant;

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

/// Removes the snapshots whose time is over. One that cannot be removed does not keep the others.
pub fn remove_expired(data: &DataFolder) -> Result<Vec<SnapshotInfo>, SnapshotError> {
    let disk = &**data.disk();
    let now_us = data.clock().wall_us();
    let mut found = list(disk, &data.data_folder(), &TableChoice::default(), None)?;
    // A time that cannot be read is no reason to remove anything.
    let expires_us = |snapshot: &SnapshotInfo| us_of_instant(snapshot.expires_at.as_deref()?);
    found.retain(|snapshot| expires_us(snapshot).is_some_and(|expires_us| expires_us <= now_us));
    let mut first_error = None;
    found.retain(|snapshot| match remove_folder(disk, &snapshot.folder) {
        Ok(()) => true,
        Err(error) => {
            first_error.get_or_insert(io_at(&snapshot.folder)(error));
            false
        }
    });
    first_error.map_or(Ok(found), Err)
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
