//! Saving what is good of a damaged SSTable into a new one, and saying what was not.
//!
//! The data leads: behind a partition comes the next. Where it cannot be read, the index says where it goes on; where the
//! index is damaged too, what follows is looked through for partitions that are whole. Filter, summary and checksums are
//! made anew, so damage there costs nothing. A partition is kept up to the first thing in it that cannot be read.

mod good_part;
mod walk;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::layout::TableLayout;
use helenus_schema::TableMetadata;
use helenus_sstable::{
    Component, EncodingStatsCollector, PageCache, Salvage, SsTableId, SsTableWriter, WriteError,
    WriterOptions, finished_sstables,
};
use helenus_storage::compaction::{
    PurgeRule, Removal, RemovalError, RewriteError, Rewritten, rewrite_partition,
};
use helenus_types::token_of;
use helenus_vfs::Disk;
use serde::{Deserialize, Serialize};

use self::good_part::GoodPart;
use self::walk::Walk;
use crate::dump::key_text;
use crate::progress::{Progress, Unit};
use crate::snapshot::SNAPSHOTS;
use crate::target::{Target, TargetError};

/// Outcome of the scrub of one SSTable.
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
    /// Damage of the index; nothing is lost by that alone.
    #[serde(default)]
    pub index_damage: Option<String>,
}

/// A stretch of data that is not in the new SSTable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Key of the partition, or of the last one that could be reached.
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
    let salvage = Salvage::open(&**disk, &target.folder, target.descriptor, &table)
        .map_err(|error| hopeless(error.into()))?;
    let mut scrubbed = save(disk, &salvage, &table, folder, progress)?;
    scrubbed.file = target.label();
    scrubbed.original = original.display().to_string();
    if out.is_none() {
        Removal::commit(&**disk, &target.folder, &[target.descriptor])?.finish(&**disk)?;
    }
    Ok(scrubbed)
}

fn save(
    disk: &Arc<dyn Disk>,
    salvage: &Salvage,
    table: &TableMetadata,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<Scrubbed, ScrubError> {
    let layout = TableLayout::of(&Arc::new(table.clone()));
    let mut scrubbed = Scrubbed::default();
    let mut scratch = Rewritten::default();
    let mut writer = writer(disk, salvage, table, folder)?;
    let cache = PageCache::new(CACHE_BYTES);
    let slices = [Slice::all()];
    let mut walk = Walk::new(salvage, salvage.reader(&cache, &slices));
    progress.begin("scrubbing", Unit::Bytes, salvage.data_bytes());
    // Where the next partition begins, if it does.
    let mut at = 0;
    while at < salvage.data_bytes() {
        let (key, lost) = match walk.head_at(at) {
            Err(reason) => (None, Some((at, reason))),
            Ok(key) => {
                let end = walk.end_of(at);
                let lost = match walk.reader.open(at, &key) {
                    Err(error) => Some((at, error.to_string())),
                    Ok(cursor) => {
                        let mut good = GoodPart::new(cursor, &layout.comparator, end);
                        rewrite_partition(
                            &layout,
                            token_of(&key),
                            &key,
                            &mut good,
                            PurgeRule::KeepAll,
                            (&mut writer).into(),
                            &mut scratch,
                        )?;
                        at = good.position();
                        good.damage().map(|damage| (at, damage.clone()))
                    }
                };
                (Some(key), lost)
            }
        };
        let text = key.as_ref().map(|key| key_text(table, key));
        if let Some(key) = key {
            walk.last = Some((token_of(&key), key));
        }
        if let Some((from, reason)) = lost {
            let next = walk.next_start(from);
            let last = walk.last.as_ref().map(|(_, key)| key_text(table, key));
            scrubbed.dropped.push(Dropped {
                key: text.or(last),
                from,
                to: Some(next),
                reason,
            });
            at = next;
        }
        progress.at(at);
    }
    scrubbed.index_damage = walk.index_damage.take();
    scrubbed.partitions = scratch.partitions;
    scrubbed.rows = scratch.rows;
    scrubbed.output = finish(writer, folder)?;
    Ok(scrubbed)
}

/// The data file that was written, if anything was saved.
fn finish(writer: SsTableWriter, folder: &Path) -> Result<Option<String>, ScrubError> {
    if writer.partition_count() == 0 {
        writer.abandon()?;
        return Ok(None);
    }
    let written = writer.finish()?;
    let path = written.descriptor.path(folder, Component::Data);
    Ok(Some(path.display().to_string()))
}

fn writer(
    disk: &Arc<dyn Disk>,
    salvage: &Salvage,
    table: &TableMetadata,
    folder: &Path,
) -> Result<SsTableWriter, ScrubError> {
    let mut stats = EncodingStatsCollector::default();
    stats.merge(salvage.encoding_stats());
    let options = WriterOptions {
        partition_count_estimate: salvage.statistics().partition_count(),
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
