//! Reading the logs back at start.

use std::io;
use std::path::{Path, PathBuf};

use helenus_schema::{Schema, TableKind};
use helenus_types::ShardId;
use helenus_vfs::{Disk, EntryKind};

use super::format::{
    HEADER_BYTES, HeaderError, RECORD_HEAD_BYTES, RecordKind, VERSION, check_header, record_at, segment_name,
    segment_of_name, shard_folder,
};
use super::{FlushedPositions, LogPosition, ReplayError};
use crate::update::Update;

/// A segment is read whole; one that is larger than this was not written by us.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// What a replay has read. Once its writes are in SSTables, [`ReplayedLog::discard`] removes it.
#[derive(Debug, Default)]
#[must_use = "the segments must be discarded once their writes are flushed"]
pub struct ReplayedLog {
    /// Of all shards, each shard's oldest first.
    segments: Vec<PathBuf>,
    pub updates_applied: u64,
    /// Already in SSTables, or of tables that are gone.
    pub updates_skipped: u64,
    /// Bytes at the ends of logs that had not reached the disk when the node stopped.
    pub torn_bytes: u64,
}

/// Hands every write that is in no SSTable to `apply`, whatever shard logged it: the caller finds its owner, whose
/// number may have changed. Runs before any shard does.
///
/// The end of the last segment may be torn, since it was never acknowledged. Damage anywhere before is an error.
pub fn replay<E>(
    disk: &dyn Disk,
    log_folder: &Path,
    schema: &Schema,
    mut apply: impl FnMut(&Update<'_>) -> Result<(), E>,
) -> Result<ReplayedLog, ReplayError<E>> {
    let mut replayed = ReplayedLog::default();
    let failed = |source| ReplayError::Io {
        file: log_folder.to_path_buf(),
        source,
    };
    if !disk.exists(log_folder).map_err(failed)? {
        return Ok(replayed);
    }
    for entry in disk.list(log_folder).map_err(failed)? {
        let shard = entry
            .name
            .strip_prefix("shard-")
            .and_then(|digits| digits.parse().ok())
            .map(ShardId);
        if let Some(shard) = shard
            && entry.kind == EntryKind::Directory
        {
            replay_shard(disk, log_folder, shard, schema, &mut replayed, &mut apply)?;
        }
    }
    Ok(replayed)
}

fn replay_shard<E>(
    disk: &dyn Disk,
    log_folder: &Path,
    shard: ShardId,
    schema: &Schema,
    replayed: &mut ReplayedLog,
    apply: &mut impl FnMut(&Update<'_>) -> Result<(), E>,
) -> Result<(), ReplayError<E>> {
    let folder = shard_folder(log_folder, shard);
    let failed = |source| ReplayError::Io {
        file: folder.clone(),
        source,
    };
    let flushed = FlushedPositions::load(disk, &folder).map_err(failed)?;
    let entries = disk.list(&folder).map_err(failed)?;
    let mut segments: Vec<u64> = entries
        .iter()
        .filter_map(|entry| segment_of_name(&entry.name))
        .collect();
    segments.sort_unstable();
    for (index, &segment) in segments.iter().enumerate() {
        let path = folder.join(segment_name(segment));
        let bytes = read_segment(disk, &path)?;
        let is_last = index + 1 == segments.len();
        replayed.segments.push(path.clone());
        let end = check_segment(&path, &bytes, shard, segment, is_last)?;
        replayed.torn_bytes += (bytes.len() - end) as u64;
        let mut offset = HEADER_BYTES;
        while offset < end {
            let Some(record) = record_at(&bytes, segment, offset) else {
                break;
            };
            let record_start = offset;
            offset += RECORD_HEAD_BYTES + record.payload.len();
            if record.kind == RecordKind::SyncMark {
                continue;
            }
            let update = Update::decode(record.payload).map_err(|error| ReplayError::Corrupt {
                file: path.clone(),
                offset: record_start as u64,
                wanted: "a packed update",
                found: error.to_string(),
            })?;
            let position = LogPosition {
                segment,
                offset: offset as u32,
            };
            let is_stored = schema
                .table_by_id(update.table)
                .is_some_and(|table| table.kind == TableKind::Regular);
            if !is_stored || flushed.contains(update.table, position) {
                replayed.updates_skipped += 1;
                continue;
            }
            apply(&update).map_err(ReplayError::Apply)?;
            replayed.updates_applied += 1;
        }
    }
    Ok(())
}

fn read_segment<E>(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, ReplayError<E>> {
    let failed = |source| ReplayError::Io {
        file: path.to_path_buf(),
        source,
    };
    let file = disk.open(path).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    if length > SEGMENT_BYTES_MAX {
        return Err(corrupt(
            path,
            0,
            "a segment of at most 1 GiB",
            format!("{length} bytes"),
        ));
    }
    let length = usize::try_from(length).map_err(|error| failed(io::Error::other(error)))?;
    let mut bytes = vec![0; length];
    file.read_exact_at(0, &mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Where the undamaged records end; an error if that is before the end of what had been synced.
fn check_segment<E>(
    path: &Path,
    bytes: &[u8],
    shard: ShardId,
    segment: u64,
    is_last: bool,
) -> Result<usize, ReplayError<E>> {
    let mut end = HEADER_BYTES;
    match check_header(bytes, shard, segment) {
        Ok(()) => {
            while let Some(record) = record_at(bytes, segment, end) {
                end += RECORD_HEAD_BYTES + record.payload.len();
            }
        }
        Err(HeaderError::Version(found)) => {
            return Err(ReplayError::Version {
                file: path.to_path_buf(),
                found,
                supported: VERSION,
            });
        }
        Err(_) if is_last && synced_after(bytes, segment, 0).is_none() => {
            return Ok(bytes.len().min(HEADER_BYTES));
        }
        Err(error) => return Err(corrupt(path, 0, "a segment header", format!("{error:?}"))),
    }
    if end == bytes.len() {
        return Ok(end);
    }
    if !is_last {
        let found = "damaged bytes before the log's last segment".to_owned();
        return Err(corrupt(path, end as u64, "a record", found));
    }
    match synced_after(bytes, segment, end) {
        None => Ok(end),
        Some(synced) => {
            let found = format!("damaged bytes, though the first {synced} bytes had been synced");
            Err(corrupt(path, end as u64, "a record", found))
        }
    }
}

/// Looks past a damaged place for a mark which says that the place had been synced.
fn synced_after(bytes: &[u8], segment: u64, damaged_at: usize) -> Option<u32> {
    (damaged_at..bytes.len().saturating_sub(RECORD_HEAD_BYTES)).find_map(|offset| {
        let record =
            record_at(bytes, segment, offset).filter(|record| record.kind == RecordKind::SyncMark)?;
        let synced = u32::from_le_bytes(*record.payload.first_chunk()?);
        (synced as usize > damaged_at).then_some(synced)
    })
}

fn corrupt<E>(path: &Path, offset: u64, wanted: &'static str, found: String) -> ReplayError<E> {
    ReplayError::Corrupt {
        file: path.to_path_buf(),
        offset,
        wanted,
        found,
    }
}

impl ReplayedLog {
    /// Removes the segments. Only once all that was applied is in SSTables.
    pub fn discard(self, disk: &dyn Disk) -> io::Result<()> {
        let mut folders: Vec<&Path> = self.segments.iter().filter_map(|path| path.parent()).collect();
        folders.dedup();
        for segment in &self.segments {
            disk.remove(segment)?;
        }
        for folder in folders {
            disk.sync_directory(folder)?;
        }
        Ok(())
    }
}
