//! The files that Cassandra 5.0.5 flushed, by table.

use std::path::{Path, PathBuf};

use helenus_vfs::Disk;

pub fn folder(table: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sstable/tests/sstable/fixtures")
        .join(table)
}

/// Copied to another disk; the folder that they are in there.
pub fn copied_to(disk: &dyn Disk, table: &str) -> PathBuf {
    let copy = PathBuf::from("/files").join(table);
    disk.create_dir_all(&copy).unwrap();
    for entry in std::fs::read_dir(folder(table)).unwrap() {
        let entry = entry.unwrap();
        let file = disk.create(&copy.join(entry.file_name())).unwrap();
        file.append(&std::fs::read(entry.path()).unwrap()).unwrap();
    }
    copy
}
