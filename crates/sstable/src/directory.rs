//! The folder that the SSTables of a table live in: `<keyspace>/<table>-<id without dashes>`.
//!
//! SSTables of all versions lie side by side in it.

use std::io;
use std::path::{Path, PathBuf};

use helenus_schema::TableMetadata;
use helenus_vfs::{Disk, EntryKind};

use crate::component::Component;
use crate::descriptor::{Descriptor, FileName};

/// A file that was on its way to its name when a crash came.
const UNFINISHED_SUFFIX: &str = ".tmp";

/// Where the TOC is written before it gets its name.
pub(crate) fn unfinished_toc_path(directory: &Path, descriptor: Descriptor) -> PathBuf {
    directory.join(descriptor.file_name(&format!("{}{UNFINISHED_SUFFIX}", Component::Toc.file_suffix())))
}

/// The folder of a table below the data folder.
pub fn table_folder(data_folder: &Path, table: &TableMetadata) -> PathBuf {
    data_folder
        .join(&*table.keyspace)
        .join(format!("{}-{}", table.name, table.id.0.simple()))
}

/// The SSTables in a table's folder that are complete, ascending.
pub fn finished_sstables(disk: &dyn Disk, directory: &Path) -> io::Result<Vec<Descriptor>> {
    let mut finished = Vec::new();
    for name in file_names(disk, directory)? {
        if let FileName::Component { descriptor, suffix } = FileName::parse(&name)
            && suffix == Component::Toc.file_suffix()
        {
            finished.push(descriptor);
        }
    }
    finished.sort_unstable();
    Ok(finished)
}

/// The data files of SSTables whose version or id is of no known form: nothing else reads or removes them.
pub fn foreign_sstables(disk: &dyn Disk, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut foreign = Vec::new();
    for name in file_names(disk, directory)? {
        if let FileName::Foreign { suffix } = FileName::parse(&name)
            && suffix == Component::Data.file_suffix()
        {
            foreign.push(directory.join(&name));
        }
    }
    foreign.sort_unstable();
    Ok(foreign)
}

/// Removes what interrupted writes and removals left: the files of every SSTable without a TOC.
pub fn remove_unfinished(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    let finished = finished_sstables(disk, directory)?;
    let mut removed = false;
    for name in file_names(disk, directory)? {
        let FileName::Component { descriptor, suffix } = FileName::parse(&name) else {
            continue;
        };
        // Components that only Cassandra knows, such as those of its indexes, stay beside a finished SSTable.
        if finished.binary_search(&descriptor).is_err() || suffix.ends_with(UNFINISHED_SUFFIX) {
            disk.remove(&directory.join(&name))?;
            removed = true;
        }
    }
    if removed {
        disk.sync_directory(directory)
    } else {
        Ok(())
    }
}

/// Gives the TOC of a sealed SSTable its name, unless it has it; durable once the folder is synced.
pub fn publish_sstable(disk: &dyn Disk, directory: &Path, descriptor: Descriptor) -> io::Result<()> {
    let unfinished = unfinished_toc_path(directory, descriptor);
    if disk.exists(&unfinished)? {
        disk.rename(&unfinished, &descriptor.path(directory, Component::Toc))
    } else {
        Ok(())
    }
}

/// Removes an SSTable. The TOC goes first and for good, so that a crash leaves garbage and not half an SSTable.
pub fn remove_sstable(disk: &dyn Disk, directory: &Path, descriptor: Descriptor) -> io::Result<()> {
    remove_if_there(disk, &descriptor.path(directory, Component::Toc))?;
    disk.sync_directory(directory)?;
    remove_if_there(disk, &unfinished_toc_path(directory, descriptor))?;
    for component in Component::ALL {
        remove_if_there(disk, &descriptor.path(directory, component))?;
    }
    Ok(())
}

/// Removes a file, unless it is gone: others may remove it, too.
pub fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn file_names(disk: &dyn Disk, directory: &Path) -> io::Result<Vec<String>> {
    let entries = disk.list(directory)?.into_iter();
    Ok(entries
        .filter(|entry| entry.kind == EntryKind::File)
        .map(|entry| entry.name)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_vfs::MemoryDisk;

    fn descriptor(name: &str) -> Descriptor {
        Descriptor::parse(name).unwrap()
    }

    #[test]
    fn sstables_without_a_toc_are_garbage() {
        let disk = MemoryDisk::new();
        let folder = Path::new("/ks/t");
        disk.create_dir_all(folder).unwrap();
        for name in [
            "nb-2-big-Data.db",
            "nb-2-big-TOC.txt",
            "nb-2-big-SAI+ba+GroupMeta.db",
            "oa-2-big-Data.db",
            "me-10-big-TOC.txt",
            "da-11-bti-TOC.txt",
            "da-11-bti-Partitions.db",
            "nb-3-big-Data.db",
            "zz-3-big-Data.db",
        ] {
            disk.create(&folder.join(name)).unwrap();
        }
        disk.create(&unfinished_toc_path(folder, descriptor("nb-3-big")))
            .unwrap();
        disk.create(&folder.join("other")).unwrap();
        remove_unfinished(&disk, folder).unwrap();
        assert_eq!(
            finished_sstables(&disk, folder).unwrap(),
            ["nb-2-big", "me-10-big", "da-11-bti"].map(descriptor)
        );
        assert_eq!(
            foreign_sstables(&disk, folder).unwrap(),
            [folder.join("zz-3-big-Data.db")]
        );
        remove_sstable(&disk, folder, descriptor("nb-2-big")).unwrap();
        remove_sstable(&disk, folder, descriptor("da-11-bti")).unwrap();
        let names: Vec<String> = file_names(&disk, folder).unwrap();
        assert_eq!(
            names,
            [
                "me-10-big-TOC.txt",
                "nb-2-big-SAI+ba+GroupMeta.db",
                "other",
                "zz-3-big-Data.db"
            ]
        );
    }
}
