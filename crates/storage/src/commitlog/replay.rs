//! Reading the logs back at start.

use std::io;
use std::path::{Path, PathBuf};

use helenus_schema::{Schema, TableKind};
use helenus_sstable::remove_if_there;
use helenus_types::ShardId;
use helenus_vfs::{Disk, EntryKind};

use super::format::{
    HEADER_BYTES, HeaderError, MalformedRecord, RECORD_HEAD_BYTES, Record, RecordKind, VERSION, check_header,
    record_at, segment_name, segment_of_name, shard_folder,
};
use super::torn::{is_header_torn, is_record_torn};
use super::write_set::Census;
use super::{FlushedPositions, LogPosition, ReplayError};
use helenus_rows::update::Update;

/// A segment is read whole; one that is larger than this was not written by us.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Name of a segment's copy until it is whole.
const COPY_NAME: &str = "segment.copy";

/// Logs that a replay has read. Once their writes are in SSTables, [`ReplayedLog::discard`] removes them.
#[derive(Debug, Default)]
#[must_use = "the segments must be discarded once their writes are flushed"]
pub struct ReplayedLog {
    /// Paths of the segments of all shards, each shard's oldest first.
    segments: Vec<PathBuf>,
    /// Those with a torn end, and where what is good of them ends.
    torn: Vec<(PathBuf, u64)>,
    pub updates_applied: u64,
    /// Already in SSTables, or of tables that are gone, or of write sets that are not whole.
    pub updates_skipped: u64,
    /// Atomic batches that had not reached all their logs when the node stopped: nothing of them was applied.
    pub write_sets_undone: u64,
    /// Larger than the number of any run that the logs have write sets of.
    pub next_run: u64,
    /// Bytes at the ends of logs that had not reached the disk when the node stopped.
    pub torn_bytes: u64,
}

/// The log of one shard, as the first look at it has found it.
struct ShardLog {
    flushed: FlushedPositions,
    /// Oldest first.
    segments: Vec<Segment>,
}

struct Segment {
    number: u64,
    path: PathBuf,
    /// Where the undamaged records end.
    end: usize,
}

/// Hands every write that is in no SSTable to `apply`, whatever shard logged it: the caller finds its owner, whose
/// number may have changed. Runs before any shard does.
///
/// The end of the last segment may be as an interrupted write leaves it, since it was never acknowledged. Anything else that is no
/// record is damage, and an error.
///
/// Reads all logs twice: which write sets are whole is known at the end of the first time.
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
    let mut census = Census::default();
    let mut logs = Vec::new();
    for entry in disk.list(log_folder).map_err(failed)? {
        let shard = entry
            .name
            .strip_prefix("shard-")
            .and_then(|digits| digits.parse().ok())
            .map(ShardId);
        if let Some(shard) = shard
            && entry.kind == EntryKind::Directory
        {
            logs.push(look_through(disk, log_folder, shard, &mut census, &mut replayed)?);
        }
    }
    replayed.write_sets_undone = census.incomplete() as u64;
    replayed.next_run = census.last_run() + 1;
    for log in &logs {
        for segment in &log.segments {
            apply_segment(disk, log, segment, schema, &census, &mut replayed, &mut apply)?;
        }
    }
    let segments = logs.into_iter().flat_map(|log| log.segments);
    replayed.segments = segments.map(|segment| segment.path).collect();
    Ok(replayed)
}

/// Checks a shard's segments and takes note of the write sets in them.
fn look_through<E>(
    disk: &dyn Disk,
    log_folder: &Path,
    shard: ShardId,
    census: &mut Census,
    replayed: &mut ReplayedLog,
) -> Result<ShardLog, ReplayError<E>> {
    let folder = shard_folder(log_folder, shard);
    let failed = |source| ReplayError::Io {
        file: folder.clone(),
        source,
    };
    let flushed = FlushedPositions::load(disk, &folder).map_err(failed)?;
    for ((run, coordinator), through) in flushed.resolved() {
        census.resolved(*run, *coordinator, *through);
    }
    let entries = disk.list(&folder).map_err(failed)?;
    let mut numbers: Vec<u64> = entries
        .iter()
        .filter_map(|entry| segment_of_name(&entry.name))
        .collect();
    numbers.sort_unstable();
    // At most one is made ahead.
    let ahead = match numbers.last() {
        Some(number) if is_not_begun(disk, &folder.join(segment_name(*number)), *number)? => numbers.pop(),
        _ => None,
    };
    let last = numbers.last().copied();
    let mut segments = Vec::with_capacity(numbers.len() + 1);
    for number in numbers {
        let path = folder.join(segment_name(number));
        let bytes = read_segment(disk, &path)?;
        let is_last = Some(number) == last;
        let Extent { end, written } = check_segment(&path, &bytes, shard, number, is_last, census)?;
        if is_last {
            make_durable(disk, &folder, &path, &bytes[..written]).map_err(|source| ReplayError::Io {
                file: path.clone(),
                source,
            })?;
            replayed.torn_bytes += (written - end) as u64;
            if end < written || end < HEADER_BYTES {
                replayed.torn.push((path.clone(), end as u64));
            }
        }
        segments.push(Segment { number, path, end });
    }
    if let Some(number) = ahead {
        let path = folder.join(segment_name(number));
        replayed.torn.push((path.clone(), 0));
        segments.push(Segment { number, path, end: 0 });
    }
    Ok(ShardLog { flushed, segments })
}

fn count_write_sets(record: &Record<'_>, census: &mut Census) -> Result<(), MalformedRecord> {
    if let Some(mark) = record.mark() {
        for (coordinator, through) in mark.resolved() {
            census.resolved(mark.run, coordinator, through);
        }
    }
    if let Some(part) = record.part()? {
        census.part(part);
    }
    Ok(())
}

fn apply_segment<E>(
    disk: &dyn Disk,
    log: &ShardLog,
    segment: &Segment,
    schema: &Schema,
    census: &Census,
    replayed: &mut ReplayedLog,
    apply: &mut impl FnMut(&Update<'_>) -> Result<(), E>,
) -> Result<(), ReplayError<E>> {
    let bytes = read_segment(disk, &segment.path)?;
    let whole = bytes.get(..segment.end).unwrap_or(&bytes);
    for (at, record) in records(whole, segment.number) {
        let position = LogPosition {
            segment: segment.number,
            offset: record.end(at) as u32,
        };
        let part = record
            .part()
            .map_err(|malformed| malformed.in_file(&segment.path, at))?;
        let counts = part.is_none_or(|part| census.is_whole(part.id));
        record
            .each_update(|update| {
                let update =
                    Update::decode(update).map_err(|error| Unapplied::Malformed(error.to_string()))?;
                let is_stored = schema
                    .table_by_id(update.table)
                    .is_some_and(|table| table.kind == TableKind::Regular);
                if !counts || !is_stored || log.flushed.contains(update.table, position) {
                    replayed.updates_skipped += 1;
                    return Ok(());
                }
                apply(&update).map_err(Unapplied::Refused)?;
                replayed.updates_applied += 1;
                Ok(())
            })
            .map_err(|unapplied| match unapplied {
                Unapplied::Malformed(found) => corrupt(&segment.path, at as u64, "a packed update", found),
                Unapplied::Refused(error) => ReplayError::Apply(error),
            })?;
    }
    Ok(())
}

/// Why an update of a record was not applied.
enum Unapplied<E> {
    Malformed(String),
    Refused(E),
}

impl<E> From<MalformedRecord> for Unapplied<E> {
    fn from(malformed: MalformedRecord) -> Self {
        Unapplied::Malformed(malformed.to_string())
    }
}

impl MalformedRecord {
    fn in_file<E>(self, path: &Path, at: usize) -> ReplayError<E> {
        corrupt(path, at as u64, "a record of updates", self.to_string())
    }
}

/// The undamaged records from a segment's header on, each with the offset of its start.
fn records(bytes: &[u8], segment: u64) -> impl Iterator<Item = (usize, Record<'_>)> {
    let mut offset = HEADER_BYTES;
    std::iter::from_fn(move || {
        let at = offset;
        let record = record_at(bytes, segment, at)?;
        offset = record.end(at);
        Some((at, record))
    })
}

/// Writes a segment anew, under its name: what a process that was killed has written and not synced is read from memory. A write set that is
/// whole there must be so after a failure of the power, too: this start may have got as far as to make some of its parts durable, and
/// to remove their log. A sync alone says nothing where one before it had failed: the kernel may have taken the pages for clean since.
fn make_durable(disk: &dyn Disk, folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let copy = folder.join(COPY_NAME);
    // Of a start that was cut off.
    remove_if_there(disk, &copy)?;
    let file = disk.create(&copy)?;
    file.append(bytes)?;
    file.sync_data()?;
    disk.rename(&copy, path)?;
    disk.sync_directory(folder)
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

/// Returns whether a segment was made ahead and has neither its header nor a record. Bits that were flipped in its zeros are nobody's.
fn is_not_begun<E>(disk: &dyn Disk, path: &Path, segment: u64) -> Result<bool, ReplayError<E>> {
    let failed = |source| ReplayError::Io {
        file: path.to_path_buf(),
        source,
    };
    let mut header = [0; HEADER_BYTES];
    // Of a file that is shorter than this the header is not there, or in part.
    let read = disk
        .open(path)
        .and_then(|file| file.read_at(0, &mut header))
        .map_err(failed)?;
    if read < HEADER_BYTES || written_bytes(&header) > 0 {
        return Ok(false);
    }
    let bytes = read_segment(disk, path)?;
    Ok((0..written_bytes(&bytes)).all(|offset| record_at(&bytes, segment, offset).is_none()))
}

/// Bytes without the zeros at the end.
fn written_bytes(bytes: &[u8]) -> usize {
    const BLOCK_BYTES: usize = 4_096;
    let blocks = bytes.rchunks(BLOCK_BYTES);
    let zeros = blocks.take_while(|block| block.iter().fold(0, |all, byte| all | byte) == 0);
    let end = bytes.len() - zeros.map(<[u8]>::len).sum::<usize>();
    bytes[..end]
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1)
}

/// Places in a segment.
struct Extent {
    /// Where the undamaged records end.
    end: usize,
    /// Where what was written ends: behind it are the zeros of a file that was made ahead.
    written: usize,
}

/// Where the undamaged records end, of which the census takes note; an error if that is before the end of what had been
/// synced.
fn check_segment<E>(
    path: &Path,
    bytes: &[u8],
    shard: ShardId,
    segment: u64,
    is_last: bool,
    census: &mut Census,
) -> Result<Extent, ReplayError<E>> {
    let mut end = HEADER_BYTES;
    let mut is_ended = false;
    match check_header(bytes, shard, segment) {
        Ok(()) => {
            for (at, record) in records(bytes, segment) {
                count_write_sets(&record, census).map_err(|malformed| malformed.in_file(path, at))?;
                end = record.end(at);
                is_ended = record.kind == RecordKind::End;
            }
        }
        Err(HeaderError::Version(found)) => {
            return Err(ReplayError::Version {
                file: path.to_path_buf(),
                found,
                supported: VERSION,
            });
        }
        Err(_)
            if is_last
                && is_header_torn(bytes)
                && synced_after(&bytes[..written_bytes(bytes)], segment, 0).is_none() =>
        {
            let end = bytes.len().min(HEADER_BYTES);
            let written = written_bytes(bytes).max(end);
            return Ok(Extent { end, written });
        }
        Err(error) => return Err(corrupt(path, 0, "a segment header", format!("{error:?}"))),
    }
    if end == bytes.len() || (is_ended && !is_last) {
        return Ok(Extent { end, written: end });
    }
    if !is_last {
        let found = "damaged bytes before the log's last segment".to_owned();
        return Err(corrupt(path, end as u64, "a record", found));
    }
    let written = written_bytes(bytes).max(end);
    let found = match synced_after(&bytes[..written], segment, end) {
        None if end == written || is_record_torn(bytes, segment, end) => return Ok(Extent { end, written }),
        None => format!(
            "bytes that were changed after they were written, since an interrupted write leaves a shorter file or sectors of zeros \
             (where the file system leaves other bytes, as ext4 with data=writeback does, cut the file to {end} bytes)"
        ),
        Some(synced) => format!("damaged bytes, though the first {synced} bytes had been synced"),
    };
    Err(corrupt(path, end as u64, "a record", found))
}

/// Looks past a damaged place for a mark which says that the place had been synced.
fn synced_after(bytes: &[u8], segment: u64, damaged_at: usize) -> Option<u32> {
    (damaged_at..bytes.len().saturating_sub(RECORD_HEAD_BYTES)).find_map(|offset| {
        let record =
            record_at(bytes, segment, offset).filter(|record| record.kind == RecordKind::SyncMark)?;
        let synced = record.mark()?.synced;
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
    /// Removes what was never acknowledged from the ends of the logs, and segments that have no record yet: others are to
    /// follow them, and only the last may be torn.
    pub(crate) fn cut_torn_ends(&mut self, disk: &dyn Disk) -> io::Result<()> {
        for (segment, end) in std::mem::take(&mut self.torn) {
            if end > HEADER_BYTES as u64 {
                let file = disk.open_writable(&segment)?;
                file.set_length(end)?;
                file.sync_data()?;
                continue;
            }
            disk.remove(&segment)?;
            if let Some(folder) = segment.parent() {
                disk.sync_directory(folder)?;
            }
            self.segments.retain(|other| *other != segment);
        }
        Ok(())
    }

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
