//! The log thread's half of the log: files, writes and syncs.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use helenus_types::ShardId;
use helenus_vfs::{Disk, File};

use super::batch::LogChunk;
use super::format::{segment_name, segment_of_name, shard_folder};
use super::segment_files::{SegmentAhead, SegmentFiles};
use super::{FlushedPositions, LogBatch, LogError, LogPosition};

/// Writes batches in the order they were taken. Blocks; lives on a thread that may wait for the disk.
///
/// A segment is synced before anything is written to its successor, so at most the last one that has bytes can have a torn end.
#[derive(Debug)]
pub struct LogWriter {
    disk: Arc<dyn Disk>,
    log_folder: PathBuf,
    folder: PathBuf,
    segment_bytes: u32,
    files: Arc<SegmentFiles>,
    /// There is something to do for [`SegmentFiles::tend`].
    wants_tending: bool,
    /// The folder's own name is durable, which the first file in it needs.
    is_folder_durable: bool,
    open: Option<OpenSegment>,
    /// The next segment, whose name is not durable yet.
    unnamed: Option<Arc<dyn File>>,
    /// Segments of this run, oldest first, the open one included. Those of the last run whoever replays them removes.
    segments: Vec<u64>,
    durable: LogPosition,
    failure: Option<String>,
}

#[derive(Debug)]
struct OpenSegment {
    id: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    /// Bytes written.
    offset: u32,
    syncs: u32,
    /// It was said that the next one is worth making.
    has_wanted_next: bool,
}

/// Syncs of a segment's beginning that make the next one worth making ahead: a log that is synced by the clock gains nothing.
const SYNCS_WORTH_ZEROS: u32 = 4;

/// Part of a segment that is written before the next one is made, so that a node which writes little has no such file.
const BEGINNING_SHARE: u32 = 4;

impl OpenSegment {
    fn new(id: u64, path: PathBuf, file: Arc<dyn File>) -> Self {
        OpenSegment {
            id,
            path,
            file,
            offset: 0,
            syncs: 0,
            has_wanted_next: false,
        }
    }
}

impl LogWriter {
    /// Makes the shard's folder, durable with its first file, and finds the number its next segment can have, which is at least `floor`.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        log_folder: PathBuf,
        shard: ShardId,
        segment_bytes: u32,
        floor: u64,
    ) -> Result<(Self, u64), LogError> {
        let folder = shard_folder(&log_folder, shard);
        let failed = |source| LogError::of(folder.clone(), source);
        disk.create_dir_all(&folder).map_err(failed)?;
        let entries = disk.list(&folder).map_err(failed)?;
        let last = entries
            .iter()
            .filter_map(|entry| segment_of_name(&entry.name))
            .max();
        let flushed = FlushedPositions::load(&*disk, &folder).map_err(failed)?;
        let last = last.unwrap_or(0).max(flushed.last_segment());
        let writer = LogWriter {
            files: Arc::new(SegmentFiles::new(disk.clone(), folder.clone(), segment_bytes)),
            wants_tending: false,
            disk,
            log_folder,
            folder,
            segment_bytes,
            is_folder_durable: false,
            open: None,
            unnamed: None,
            segments: Vec::new(),
            durable: LogPosition::default(),
            failure: None,
        };
        Ok((writer, floor.max(last + 1)))
    }

    /// Writes a batch and, with `sync`, makes it durable; one that [`LogError::CannotBegin`] was said of may come again. Returns how far the log is durable now; everything before
    /// that may be acknowledged.
    pub fn persist(&mut self, batch: &LogBatch, sync: bool) -> Result<LogPosition, LogError> {
        let result = self.check().and_then(|()| self.try_persist(batch, sync));
        self.latch(result)
    }

    /// Makes everything written so far durable.
    pub fn sync(&mut self) -> Result<LogPosition, LogError> {
        let result = self.check().and_then(|()| self.sync_open());
        self.latch(result)
    }

    /// The files that somebody else makes and removes where [`LogWriter::wants_tending`] says so.
    pub fn segment_files(&self) -> Arc<SegmentFiles> {
        self.files.clone()
    }

    /// Returns whether there is something to do for [`SegmentFiles::tend`] since this was last asked.
    pub fn wants_tending(&mut self) -> bool {
        let beginning_bytes = self.segment_bytes / BEGINNING_SHARE;
        if let Some(open) = &mut self.open
            && !open.has_wanted_next
            && open.syncs >= SYNCS_WORTH_ZEROS
            && open.offset >= beginning_bytes
        {
            open.has_wanted_next = true;
            self.files.want_next();
            self.wants_tending = true;
        }
        std::mem::take(&mut self.wants_tending)
    }

    fn check(&self) -> Result<(), LogError> {
        match &self.failure {
            Some(reason) => Err(LogError::Abandoned {
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    fn latch(&mut self, result: Result<LogPosition, LogError>) -> Result<LogPosition, LogError> {
        if let Err(error) = &result
            && error.is_final()
            && self.failure.is_none()
        {
            self.failure = Some(error.to_string());
            self.open = None;
        }
        result
    }

    fn try_persist(&mut self, batch: &LogBatch, sync: bool) -> Result<LogPosition, LogError> {
        for chunk in &batch.chunks {
            self.write(chunk)?;
        }
        if sync {
            self.sync_open()?;
        }
        if let Some(flushed) = &batch.flushed {
            self.make_folder_durable()
                .and_then(|()| flushed.store(&*self.disk, &self.folder))
                .map_err(|source| LogError::of_creation(self.folder.clone(), source))?;
            self.discard_before(batch.discard_before);
        }
        Ok(self.durable)
    }

    fn write(&mut self, chunk: &LogChunk) -> Result<(), LogError> {
        let written = self.open.as_ref().map(|open| (open.id, open.offset));
        if written.is_some_and(|written| (chunk.segment, chunk.offset) < written) {
            // The batch comes again.
            return Ok(());
        }
        if written.is_none_or(|(segment, _)| segment != chunk.segment) {
            self.sync_open()?;
            self.open = Some(self.create(chunk.segment)?);
            self.segments.push(chunk.segment);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        assert_eq!(
            open.offset, chunk.offset,
            "batches are written in the order they were taken"
        );
        open.file
            .write_at(u64::from(open.offset), &chunk.bytes)
            .map_err(|source| LogError::of(open.path.clone(), source))?;
        open.offset += chunk.bytes.len() as u32;
        Ok(())
    }

    fn create(&mut self, segment: u64) -> Result<OpenSegment, LogError> {
        let path = self.folder.join(segment_name(segment));
        let failed = |source| LogError::of_creation(path.clone(), source);
        if let Some(SegmentAhead { file, named }) = self.files.take(segment) {
            if let Err(source) = named {
                self.unnamed = Some(file);
                return Err(failed(source));
            }
            return Ok(OpenSegment::new(segment, path, file));
        }
        let file = match self.unnamed.take() {
            Some(file) => file,
            None => self.disk.create(&path).map_err(failed)?,
        };
        let named = self
            .make_folder_durable()
            .and_then(|()| self.disk.sync_directory(&self.folder));
        if let Err(source) = named {
            self.unnamed = Some(file);
            return Err(failed(source));
        }
        Ok(OpenSegment::new(segment, path, file))
    }

    fn make_folder_durable(&mut self) -> io::Result<()> {
        if !self.is_folder_durable {
            self.disk.sync_directory(&self.log_folder)?;
            self.is_folder_durable = true;
        }
        Ok(())
    }

    fn sync_open(&mut self) -> Result<LogPosition, LogError> {
        if let Some(open) = &mut self.open {
            let written = LogPosition {
                segment: open.id,
                offset: open.offset,
            };
            if written > self.durable {
                open.file
                    .sync_data()
                    .map_err(|source| LogError::of(open.path.clone(), source))?;
                open.syncs += 1;
                self.durable = written;
            }
        }
        Ok(self.durable)
    }

    fn discard_before(&mut self, segment: u64) {
        let open = self.open.as_ref().map(|open| open.id);
        let count = self
            .segments
            .partition_point(|&id| id < segment && Some(id) != open);
        self.wants_tending |= count > 0;
        self.files.discard(self.segments.drain(..count));
    }
}
