//! Making a snapshot: flush, link, then say that it is there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::{Schema, TableMetadata};
use helenus_sstable::{Component, Descriptor, FileName};
use helenus_vfs::Disk;
use serde::{Deserialize, Serialize};

use super::{MANIFEST, Manifest, SNAPSHOTS, SnapshotError, check_name, check_ttl, io_at};
use crate::host::{Host, TableChoice};
use crate::progress::{Progress, Unit};
use crate::schema_text::{SCHEMA_FILE, schema_text};
use crate::target::by_sstable;
use crate::times::instant_of_us;

/// A compaction takes seconds, linking milliseconds; being overtaken ten times in a row is not chance.
const ATTEMPTS_MAX: usize = 10;

/// Snapshot that was made of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    pub keyspace: String,
    pub table: String,
    pub name: String,
    pub sstables: u64,
    pub files: u64,
    /// Bytes of all links, none of them new on the disk.
    pub bytes: u64,
    pub folder: PathBuf,
}

/// Snapshots of all chosen tables under one name, which expire after so many seconds if they do. Tables are flushed first, each is linked at one moment; a failure
/// leaves the snapshots of the tables before.
pub fn create(
    host: &dyn Host,
    choice: &TableChoice,
    name: &str,
    ttl_s: Option<u64>,
    progress: &dyn Progress,
) -> Result<Vec<Created>, SnapshotError> {
    check_name(name)?;
    check_ttl(ttl_s)?;
    let schema = host.schema()?;
    let tables = choice.tables(&schema)?;
    let folder = host.data_folder()?;
    for table in &tables {
        let snapshot = folder.table_folder(table).join(SNAPSHOTS).join(name);
        if Manifest::load(&**folder.disk(), &snapshot)?.is_some() {
            return Err(SnapshotError::Exists {
                keyspace: table.keyspace.to_string(),
                table: table.name.to_string(),
                name: name.to_owned(),
            });
        }
    }
    progress.begin("linking", Unit::Files, 0);
    let mut created = Vec::new();
    let mut files = 0;
    for table in tables {
        host.flush(Some(table.id))?;
        let made = link_table_snapshot(host, &schema, &table, name, ttl_s)?;
        files += made.files;
        progress.at(files);
        created.push(made);
    }
    Ok(created)
}

/// The snapshot of what is flushed of one table, which has none of that name.
pub fn link_table_snapshot(
    host: &dyn Host,
    schema: &Schema,
    table: &Arc<TableMetadata>,
    name: &str,
    ttl_s: Option<u64>,
) -> Result<Created, SnapshotError> {
    check_name(name)?;
    let data = host.data_folder()?;
    let disk = &**data.disk();
    let table_folder = data.table_folder(table);
    let snapshots = table_folder.join(SNAPSHOTS);
    let folder = snapshots.join(name);
    let failed = io_at(&folder);
    data.create_table_folder(table)
        .and_then(|()| begin_folder(disk, &folder))
        .map_err(&failed)?;

    let links = link_live(host, table, disk, &table_folder, &folder)?;
    if let Some(keyspace) = schema.keyspace(&table.keyspace) {
        write_file(disk, &folder.join(SCHEMA_FILE), &schema_text(keyspace, table)).map_err(&failed)?;
    }
    for directory in [&folder, &snapshots, &table_folder] {
        disk.sync_directory(directory).map_err(&failed)?;
    }
    let data_files: Vec<String> = links
        .files
        .keys()
        .filter(|name| name.ends_with(Component::Data.file_suffix()))
        .cloned()
        .collect();
    let sstables = data_files.len() as u64;
    let created_us = data.clock().wall_us() / 1000 * 1000;
    let lives_us = ttl_s.map(|ttl_s| i64::try_from(ttl_s).unwrap_or(i64::MAX).saturating_mul(1_000_000));
    let expires_us = lives_us.map(|lives_us| created_us.saturating_add(lives_us));
    Manifest::new(
        data_files,
        instant_of_us(created_us),
        expires_us.map(instant_of_us),
    )
    .store(disk, &folder)?;
    Ok(Created {
        keyspace: table.keyspace.to_string(),
        table: table.name.to_string(),
        name: name.to_owned(),
        sstables,
        files: links.files.len() as u64,
        bytes: links.files.values().sum(),
        folder,
    })
}

/// Links that a folder got, with the lengths of the files.
#[derive(Debug, Default)]
struct Links {
    files: BTreeMap<String, u64>,
}

/// Links the SSTables that are live at one moment. A compaction may remove one of them meanwhile: then what is live
/// has changed, and the links are made to follow.
fn link_live(
    host: &dyn Host,
    table: &Arc<TableMetadata>,
    disk: &dyn Disk,
    table_folder: &Path,
    folder: &Path,
) -> Result<Links, SnapshotError> {
    let mut links = Links::default();
    for _ in 0..ATTEMPTS_MAX {
        let live: BTreeSet<Descriptor> = host.sstables(table)?.into_iter().collect();
        links.keep(disk, folder, &live).map_err(io_at(folder))?;
        match links.add(disk, table_folder, folder, &live) {
            Ok(true) => return Ok(links),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_at(folder)(error)),
        }
    }
    Err(SnapshotError::Unsettled {
        keyspace: table.keyspace.to_string(),
        table: table.name.to_string(),
    })
}

impl Links {
    /// Links what is live and not linked yet. False if one of the live is not whole any more.
    fn add(
        &mut self,
        disk: &dyn Disk,
        from: &Path,
        to: &Path,
        live: &BTreeSet<Descriptor>,
    ) -> io::Result<bool> {
        let mut missing = live.clone();
        for (descriptor, files) in by_sstable(disk, from)? {
            if !live.contains(&descriptor) || !files.contains_key(Component::Toc.file_suffix()) {
                continue;
            }
            missing.remove(&descriptor);
            for (suffix, path) in files {
                let file = descriptor.file_name(&suffix);
                let link = to.join(&file);
                if let Entry::Vacant(vacant) = self.files.entry(file) {
                    let length = disk.open(&path)?.length()?;
                    disk.hard_link(&path, &link)?;
                    vacant.insert(length);
                }
            }
        }
        Ok(missing.is_empty())
    }

    /// Removes the links of SSTables that are not live any more.
    fn keep(&mut self, disk: &dyn Disk, folder: &Path, live: &BTreeSet<Descriptor>) -> io::Result<()> {
        let is_live = |file: &str| match FileName::parse(file) {
            FileName::Component { descriptor, .. } => live.contains(&descriptor),
            _ => false,
        };
        for file in self.files.keys().filter(|file| !is_live(file)) {
            disk.remove(&folder.join(file))?;
        }
        self.files.retain(|file, _| is_live(file));
        Ok(())
    }
}

/// An empty folder; what an interrupted attempt left in it goes.
fn begin_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    disk.create_dir_all(folder)?;
    for entry in disk.list(folder)? {
        debug_assert_ne!(entry.name, MANIFEST);
        disk.remove(&folder.join(&entry.name))?;
    }
    Ok(())
}

fn write_file(disk: &dyn Disk, path: &Path, text: &str) -> io::Result<()> {
    let file = disk.create(path)?;
    file.append(text.as_bytes())?;
    file.sync_data()
}
