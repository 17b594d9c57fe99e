//! Saving what is good of a damaged SSTable into a new one, and saying what was not.
//!
//! Filter, summary and checksums are made anew, so damage there costs nothing. A partition is kept up to the first thing
//! in it that cannot be read; what the index does not lead to any more is lost.

mod good_part;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_storage::clustering::Slice;
use helenus_storage::compaction::{
    PurgeRule, Removal, RemovalError, RewriteError, Rewritten, rewrite_partition,
};
use helenus_storage::layout::TableLayout;
use helenus_storage::read::PartitionRange;
use helenus_storage::source::PartitionScanner;
use helenus_storage::sstable::{
    Component, EncodingStatsCollector, PageCache, SsTable, SsTableId, SsTableWriter, WriteError,
    WriterOptions, finished_sstables,
};
use helenus_vfs::Disk;
use serde::{Deserialize, Serialize};

use self::good_part::GoodPart;
use crate::dump::key_text;
use crate::progress::{Progress, Unit};
use crate::snapshot::SNAPSHOTS;
use crate::target::{Target, TargetError};

/// What came of one SSTable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    pub file: String,
    /// The new data file; absent if nothing could be saved.
    pub output: Option<String>,
    /// Where the original is.
    pub original: String,
    pub partitions: u64,
    pub rows: u64,
    pub dropped: Vec<Dropped>,
}

/// A stretch of data that is not in the new SSTable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Of the partition, or of the last one that could be reached.
    pub key: Option<String>,
    /// In the uncompressed data, where it is known.
    pub from: u64,
    pub to: Option<u64>,
    pub reason: String,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScrubError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{file} cannot be saved: {source}")]
    Hopeless { file: String, source: TargetError },
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Removal(#[from] RemovalError),
}

/// A pass reads every page once.
const CACHE_BYTES: usize = 4 << 20;

/// What a damaged SSTable is read with; the rest only says again what these say.
const NEEDED: [Component; 8] = [
    Component::Data,
    Component::Index,
    Component::Partitions,
    Component::Rows,
    Component::CompressionInfo,
    Component::Crc,
    Component::Statistics,
    Component::Toc,
];

/// Scrubs one SSTable of a folder that no node uses. The new one takes its place, and the original moves to the
/// snapshot of that name; with `out` the new one goes there, and the original stays.
pub fn scrub(
    disk: &Arc<dyn Disk>,
    target: &Target,
    out: Option<&Path>,
    backup: &str,
    progress: &dyn Progress,
) -> Result<Scrubbed, ScrubError> {
    let folder = out.unwrap_or(&target.folder);
    let hopeless = |source| ScrubError::Hopeless {
        file: target.label(),
        source,
    };
    let table = target
        .metadata(&**disk)
        .and_then(|stored| Ok(stored.table("", "")?))
        .map_err(hopeless)?;
    let original = match out {
        Some(_) => target.folder.clone(),
        None => back_up(&**disk, target, backup).map_err(io_at(&target.folder))?,
    };
    let staged = Staged::link(&**disk, target, folder).map_err(io_at(folder))?;
    let opened = staged.target.open(&**disk, &table);
    let saved = match opened {
        Ok(sstable) => save(disk, &sstable, &table, folder, progress),
        Err(error) => {
            staged.remove(&**disk).map_err(io_at(folder))?;
            return Err(hopeless(error));
        }
    };
    staged.remove(&**disk).map_err(io_at(folder))?;
    let mut scrubbed = saved?;
    scrubbed.file = target.label();
    scrubbed.original = original.display().to_string();
    if out.is_none() {
        Removal::commit(&**disk, &target.folder, &[target.descriptor])?.finish(&**disk)?;
    }
    Ok(scrubbed)
}

/// The needed files under a folder of their own.
struct Staged {
    target: Target,
}

impl Staged {
    fn link(disk: &dyn Disk, target: &Target, folder: &Path) -> io::Result<Self> {
        let staging = folder.join(format!("scrubbing-{}", target.descriptor));
        disk.create_dir_all(&staging)?;
        for entry in disk.list(&staging)? {
            disk.remove(&staging.join(&entry.name))?;
        }
        let mut staged = target.renamed(&staging, target.descriptor);
        staged
            .files
            .retain(|suffix, _| NEEDED.iter().any(|needed| needed.file_suffix() == suffix));
        for (suffix, path) in &staged.files {
            if let Some(source) = target.files.get(suffix) {
                disk.hard_link(source, path)?;
            }
        }
        Ok(Staged { target: staged })
    }

    fn remove(&self, disk: &dyn Disk) -> io::Result<()> {
        for path in self.target.files.values() {
            disk.remove(path)?;
        }
        disk.remove_directory(&self.target.folder)
    }
}

fn save(
    disk: &Arc<dyn Disk>,
    sstable: &SsTable,
    table: &TableMetadata,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<Scrubbed, ScrubError> {
    let layout = TableLayout::of(&Arc::new(table.clone()));
    let mut scrubbed = Scrubbed::default();
    let mut scratch = Rewritten::default();
    let mut writer = writer(disk, sstable, table, folder)?;
    let cache = PageCache::new(CACHE_BYTES);
    let slices = [Slice::all()];
    let (start, end) = PartitionRange::everything().bounds();
    let mut scanner = sstable.scan(&cache, start, end, &slices, false);
    progress.begin("scrubbing", Unit::Bytes, sstable.data_bytes());
    let mut last_key = None;
    let mut at = 0;
    // From here on to the next partition something was lost.
    let mut open: Option<Dropped> = None;
    loop {
        match scanner.advance() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let to = Some(sstable.data_bytes());
                scrubbed.dropped.push(Dropped {
                    key: last_key,
                    from: at,
                    to,
                    reason: format!("everything behind this key: {error}"),
                });
                break;
            }
        }
        let (token, key) = scanner.position();
        let key = key.to_vec();
        let position = scanner.data_position().unwrap_or(at);
        if let Some(mut dropped) = open.take() {
            dropped.to = Some(position);
            scrubbed.dropped.push(dropped);
        }
        let text = key_text(table, &key);
        match scanner.open_in_file() {
            Err(error) => open = Some(dropped(&text, position, &error)),
            Ok(cursor) => {
                let mut good = GoodPart::new(cursor, &layout.comparator);
                rewrite_partition(
                    &layout,
                    token,
                    &key,
                    &mut good,
                    PurgeRule::KeepAll,
                    &mut writer,
                    &mut scratch,
                )?;
                at = good.position();
                open = good.damage().map(|damage| dropped(&text, at, damage));
            }
        }
        last_key = Some(text);
        progress.at(position);
    }
    if let Some(mut dropped) = open.take() {
        dropped.to = Some(sstable.data_bytes());
        scrubbed.dropped.push(dropped);
    }
    scrubbed.partitions = scratch.partitions;
    scrubbed.rows = scratch.rows;
    if writer.partition_count() == 0 {
        writer.abandon()?;
    } else {
        let written = writer.finish()?;
        let path = written.descriptor.path(folder, Component::Data);
        scrubbed.output = Some(path.display().to_string());
    }
    Ok(scrubbed)
}

fn dropped(key: &str, from: u64, reason: &dyn std::fmt::Display) -> Dropped {
    Dropped {
        key: Some(key.to_owned()),
        from,
        to: None,
        reason: reason.to_string(),
    }
}

fn writer(
    disk: &Arc<dyn Disk>,
    sstable: &SsTable,
    table: &TableMetadata,
    folder: &Path,
) -> Result<SsTableWriter, ScrubError> {
    let mut stats = EncodingStatsCollector::default();
    stats.merge(sstable.encoding_stats());
    let options = WriterOptions {
        partition_count_estimate: sstable.statistics().partition_count(),
        encoding_stats: stats.finish(),
        ..WriterOptions::of(table)
    };
    disk.create_dir_all(folder).map_err(io_at(folder))?;
    let number = next_number(&**disk, folder).map_err(io_at(folder))?;
    Ok(SsTableWriter::new(
        Arc::clone(disk),
        folder,
        SsTableId::Number(number),
        table,
        options,
    )?)
}

/// Above every number in a folder.
pub(crate) fn next_number(disk: &dyn Disk, folder: &Path) -> io::Result<u64> {
    let taken = finished_sstables(disk, folder)?;
    let numbers = taken.iter().filter_map(|descriptor| match descriptor.id {
        SsTableId::Number(number) => Some(number),
        SsTableId::TimeUuid(_) => None,
    });
    Ok(numbers.max().unwrap_or(0) + 1)
}

/// Links the original into a snapshot beside the table.
fn back_up(disk: &dyn Disk, target: &Target, name: &str) -> io::Result<PathBuf> {
    let folder = target.folder.join(SNAPSHOTS).join(name);
    disk.create_dir_all(&folder)?;
    for (suffix, path) in &target.files {
        let link = folder.join(target.descriptor.file_name(suffix));
        if !disk.exists(&link)? {
            disk.hard_link(path, &link)?;
        }
    }
    for directory in [&folder, &target.folder.join(SNAPSHOTS), &target.folder] {
        disk.sync_directory(directory)?;
    }
    Ok(folder)
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> ScrubError + use<> {
    let path = path.to_path_buf();
    move |source| ScrubError::Io {
        path: path.clone(),
        source,
    }
}
