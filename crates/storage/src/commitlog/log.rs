//! The shard's half of the log: a buffer, and the count of where it will end up.

use std::sync::Arc;

use helenus_types::ShardId;

use super::batch::LogChunk;
use super::format::{
    HEADER_BYTES, Mark, RECORD_HEAD_BYTES, RecordKind, SEGMENT_BYTES_DEFAULT, push_header, push_record,
    push_record_with, push_updates, updates_bytes,
};
use super::write_set::{PART_BYTES, UnresolvedParts};
use super::{
    FlushedPositions, LogAppendError, LogBatch, LogError, LogPosition, ResolvedWriteSets, WriteSetId,
    WriteSetPart,
};

#[derive(Clone, Debug)]
pub struct LogOptions {
    /// A record takes at most half of it.
    pub segment_bytes: u32,
    /// Bytes that may wait for the disk, with and without the log thread.
    pub buffer_bytes_max: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        // Two segments: the largest record still fits while a segment's worth is being written.
        LogOptions {
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            buffer_bytes_max: 2 * SEGMENT_BYTES_DEFAULT as usize,
        }
    }
}

/// Takes records and never blocks. A record is durable when [`CommitLog::durable`] has reached its position.
#[derive(Debug)]
pub(crate) struct CommitLog {
    options: LogOptions,
    shard: ShardId,
    segment: u64,
    /// Where in the segment the next byte goes; 0 before the segment's header.
    offset: u32,
    /// Complete runs of earlier segments, not handed out yet.
    chunks: Vec<LogChunk>,
    /// The last run, of `segment`, that ends at `offset`.
    buffer: Vec<u8>,
    chunk_bytes: usize,
    /// Handed out and not returned.
    in_flight_bytes: usize,
    durable: LogPosition,
    /// The durable offset that the last sync mark in this segment names.
    marked_offset: u32,
    failure: Option<String>,
    /// A batch that came back with [`LogError::CannotBegin`]: the next to be handed out.
    stalled: Option<LogBatch>,
    /// Why it came back, until it is written.
    stall: Option<String>,
    pending_flushed: Option<FlushedPositions>,
    /// The log thread has positions that it has not made durable yet.
    is_flushed_in_flight: bool,
    discard_before: u64,
    /// Buffers that came back, at most one.
    spare: Vec<u8>,
    unresolved: UnresolvedParts,
}

impl CommitLog {
    /// `first_segment` is larger than any segment that this folder ever had. A log on its own takes no parts of write
    /// sets.
    pub fn new(
        options: LogOptions,
        shard: ShardId,
        first_segment: u64,
        resolved: Option<Arc<ResolvedWriteSets>>,
    ) -> Self {
        CommitLog {
            options,
            shard,
            segment: first_segment,
            offset: 0,
            chunks: Vec::new(),
            buffer: Vec::new(),
            chunk_bytes: 0,
            in_flight_bytes: 0,
            durable: LogPosition {
                segment: first_segment,
                offset: 0,
            },
            marked_offset: 0,
            failure: None,
            stalled: None,
            stall: None,
            pending_flushed: None,
            is_flushed_in_flight: false,
            discard_before: 0,
            spare: Vec::new(),
            unresolved: UnresolvedParts::new(resolved),
        }
    }

    /// Takes one packed update.
    #[inline]
    pub fn append(&mut self, update: &[u8]) -> Result<LogPosition, LogAppendError> {
        self.check_append(update.len())?;
        self.make_room(update.len());
        self.push(RecordKind::Update, update);
        Ok(self.position())
    }

    /// Takes an update that an earlier segment has, which may then go. What waits for the disk may be more than a write would
    /// be taken with: see [`CommitLog::check_room`].
    pub(crate) fn append_again(&mut self, update: &[u8]) -> Result<LogPosition, LogAppendError> {
        self.check_failure()?;
        // Its row may have become a little longer.
        let bytes_max = self.record_bytes_max() + self.record_bytes_max() / 2;
        if update.len() > bytes_max {
            let bytes = update.len();
            return Err(LogAppendError::RecordTooLarge { bytes, bytes_max });
        }
        self.make_room(update.len());
        self.push(RecordKind::Update, update);
        Ok(self.position())
    }

    /// Checks that a write of so many bytes would be taken.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), LogAppendError> {
        self.check_failure()?;
        let waiting = self.gathered_bytes() + self.in_flight_bytes;
        if waiting > 0 && waiting + bytes > self.options.buffer_bytes_max {
            return Err(LogAppendError::BufferFull {
                bytes_max: self.options.buffer_bytes_max,
            });
        }
        Ok(())
    }

    /// The largest update that is taken.
    pub(crate) fn record_bytes_max(&self) -> usize {
        (self.options.segment_bytes / 2) as usize
    }

    /// Takes packed updates of several partitions: after a crash the log has all of them or none.
    pub(crate) fn append_all<'u>(
        &mut self,
        updates: impl Iterator<Item = &'u [u8]> + Clone,
    ) -> Result<LogPosition, LogAppendError> {
        let bytes = updates_bytes(updates.clone());
        self.check_append(bytes)?;
        self.make_room(bytes);
        self.push_with(RecordKind::Updates, bytes, |payload| {
            push_updates(payload, updates)
        });
        Ok(self.position())
    }

    /// Takes a part of a write set, which [`CommitLog::check_part`] has found to fit. Taken even if what waits for the
    /// disk has reached its bound since then, because other shards take theirs: refused only where the log has failed.
    pub(crate) fn append_part<'u>(
        &mut self,
        part: WriteSetPart,
        updates: impl Iterator<Item = &'u [u8]> + Clone,
    ) -> Result<LogPosition, LogAppendError> {
        self.check_failure()?;
        let bytes = PART_BYTES + updates_bytes(updates.clone());
        self.check_length(bytes)?;
        self.make_room(bytes);
        self.push_with(RecordKind::WriteSetPart, bytes, |payload| {
            part.encode(payload);
            push_updates(payload, updates);
        });
        let position = self.position();
        self.unresolved.push(position, part.id);
        Ok(position)
    }

    /// Checks that a part of a write set with these updates would be taken now.
    pub fn check_part<'u>(&self, updates: impl Iterator<Item = &'u [u8]>) -> Result<(), LogAppendError> {
        self.check_append(PART_BYTES + updates_bytes(updates))
    }

    #[inline]
    fn make_room(&mut self, bytes: usize) {
        if self.offset as usize + RECORD_HEAD_BYTES + bytes > self.options.segment_bytes as usize {
            self.begin_segment();
        }
        if self.buffer.is_empty() {
            self.begin_run();
        }
    }

    /// Appends a record that says nothing, so that there is a position to wait for.
    pub fn mark(&mut self) {
        if self.buffer.is_empty() {
            self.begin_run();
        }
        self.push(RecordKind::SyncMark, &Mark::encode(self.marked_offset, None));
    }

    /// Checks that a record would be taken; the error says why not.
    #[inline]
    fn check_append(&self, bytes: usize) -> Result<(), LogAppendError> {
        self.check_failure()?;
        if let Some(reason) = &self.stall {
            let reason = reason.clone();
            return Err(LogAppendError::CannotBegin { reason });
        }
        self.check_length(bytes)?;
        let waiting = self.gathered_bytes() + self.in_flight_bytes;
        if waiting + bytes > self.options.buffer_bytes_max {
            return Err(LogAppendError::BufferFull {
                bytes_max: self.options.buffer_bytes_max,
            });
        }
        Ok(())
    }

    #[inline]
    fn check_failure(&self) -> Result<(), LogAppendError> {
        match &self.failure {
            None => Ok(()),
            Some(reason) => Err(LogAppendError::Failed {
                reason: reason.clone(),
            }),
        }
    }

    #[inline]
    fn check_length(&self, bytes: usize) -> Result<(), LogAppendError> {
        let bytes_max = self.record_bytes_max();
        if bytes > bytes_max {
            return Err(LogAppendError::RecordTooLarge { bytes, bytes_max });
        }
        Ok(())
    }

    /// The position of the last record.
    pub fn position(&self) -> LogPosition {
        LogPosition {
            segment: self.segment,
            offset: self.offset,
        }
    }

    /// All records up to here survive a crash.
    pub fn durable(&self) -> LogPosition {
        self.durable
    }

    /// All records up to here survive a crash and count: none of them is a part of a write set that other logs may miss.
    pub fn resolved(&mut self) -> LogPosition {
        match self.unresolved.first() {
            // A record has a head, so that its end is never a segment's start.
            Some(part) => self.durable.min(LogPosition {
                offset: part.offset - 1,
                ..part
            }),
            None => self.durable,
        }
    }

    /// Returns, for each coordinator, the last write set with a part in this log that is not resolved. Some before it may be.
    pub fn unresolved_write_sets(&self) -> Vec<WriteSetId> {
        self.unresolved.ids()
    }

    /// Why no record is taken for now.
    pub fn stall(&self) -> Option<&str> {
        self.stall.as_deref()
    }

    pub fn fail(&mut self, reason: &str) {
        self.failure.get_or_insert_with(|| reason.to_owned());
    }

    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Bytes of log from the oldest segment that is still needed, had it been full.
    pub fn needed_bytes(&self, oldest: LogPosition) -> u64 {
        (self.segment.saturating_sub(oldest.segment)) * u64::from(self.options.segment_bytes)
            + u64::from(self.offset)
    }

    /// The first segment that must stay where records from `needed` on are needed: none before it has a part of a write
    /// set that is not resolved.
    pub(crate) fn first_kept_segment(&mut self, needed: LogPosition) -> u64 {
        let part = self.unresolved.first();
        part.map_or(needed, |part| part.min(needed)).segment
    }

    /// Everything up to these positions is in SSTables, and segments before `discard_before` are of no more use: at most
    /// [`CommitLog::first_kept_segment`]. The log thread learns both with the next batch.
    pub(crate) fn set_flushed(&mut self, mut flushed: FlushedPositions, discard_before: u64) {
        self.unresolved.note_resolved(&mut flushed);
        self.pending_flushed = Some(flushed);
        self.discard_before = self.discard_before.max(discard_before);
    }

    /// Returns whether all that was said by [`CommitLog::set_flushed`] is durable.
    pub(crate) fn is_flushed_recorded(&self) -> bool {
        self.pending_flushed.is_none() && !self.is_flushed_in_flight
    }

    /// Bytes that were appended and not handed out.
    pub(crate) fn gathered_bytes(&self) -> usize {
        self.chunk_bytes + self.buffer.len()
    }

    /// Takes what has gathered since the last call; `None` if nothing has.
    pub(crate) fn take_batch(&mut self) -> Option<LogBatch> {
        if let Some(batch) = self.stalled.take() {
            return Some(batch);
        }
        self.end_run();
        if (self.chunks.is_empty() && self.pending_flushed.is_none()) || self.failure.is_some() {
            return None;
        }
        self.in_flight_bytes += std::mem::take(&mut self.chunk_bytes);
        self.is_flushed_in_flight |= self.pending_flushed.is_some();
        Some(LogBatch {
            chunks: std::mem::take(&mut self.chunks),
            flushed: self.pending_flushed.take(),
            discard_before: self.discard_before,
        })
    }

    /// As [`CommitLog::take_batch`], and an empty batch where all was handed out before but is not known to be durable:
    /// to be persisted with a sync.
    pub(crate) fn take_batch_to_sync(&mut self) -> Option<LogBatch> {
        let is_unsynced = self.failure.is_none() && self.offset > 0 && self.durable < self.position();
        self.take_batch().or_else(|| is_unsynced.then(LogBatch::default))
    }

    /// The log thread is done with a batch. A final error is kept: no later record is taken. After another one the same batch
    /// is handed out again, and until it is written no record is taken.
    pub(crate) fn batch_done(&mut self, batch: LogBatch, result: &Result<LogPosition, LogError>) {
        if let Err(error) = result
            && !error.is_final()
        {
            self.stalled = Some(batch);
            self.stall = Some(error.to_string());
            return;
        }
        self.stall = None;
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(batch.bytes());
        self.is_flushed_in_flight &= batch.flushed.is_none() || result.is_err();
        self.log_synced(result);
        if let Some(chunk) = batch.chunks.into_iter().next_back()
            && self.spare.capacity() == 0
        {
            self.spare = chunk.bytes;
            self.spare.clear();
        }
    }

    /// A sync without a batch is done.
    pub fn log_synced(&mut self, result: &Result<LogPosition, LogError>) {
        match result {
            Ok(durable) => self.durable = self.durable.max(*durable),
            Err(error) if self.failure.is_none() && error.is_final() => {
                self.failure = Some(error.to_string())
            }
            Err(_) => {}
        }
    }

    fn begin_segment(&mut self) {
        if self.buffer.is_empty() {
            std::mem::swap(&mut self.buffer, &mut self.spare);
        }
        self.push(RecordKind::End, &[]);
        self.end_run();
        self.segment += 1;
        self.offset = 0;
        self.marked_offset = 0;
    }

    /// A run starts with the segment's header, or with a mark of how far the segment is durable by now.
    fn begin_run(&mut self) {
        std::mem::swap(&mut self.buffer, &mut self.spare);
        if self.offset == 0 {
            push_header(&mut self.buffer, self.shard, self.segment);
            self.offset = HEADER_BYTES as u32;
        } else {
            self.push_mark();
        }
    }

    fn push_mark(&mut self) {
        let is_durable_news =
            self.durable.segment == self.segment && self.durable.offset > self.marked_offset;
        let resolved = self.unresolved.news();
        if !is_durable_news && resolved.is_none() {
            return;
        }
        if is_durable_news {
            self.marked_offset = self.durable.offset;
        }
        let mark = Mark::encode(self.marked_offset, resolved);
        self.push(RecordKind::SyncMark, &mark);
    }

    fn push(&mut self, kind: RecordKind, payload: &[u8]) {
        push_record(&mut self.buffer, self.segment, self.offset, kind, payload);
        self.offset += (RECORD_HEAD_BYTES + payload.len()) as u32;
    }

    /// As [`Self::push`], of a payload of so many bytes that is written in place.
    fn push_with(&mut self, kind: RecordKind, bytes: usize, payload: impl FnOnce(&mut Vec<u8>)) {
        self.buffer.reserve(RECORD_HEAD_BYTES + bytes);
        push_record_with(&mut self.buffer, self.segment, self.offset, kind, payload);
        self.offset += (RECORD_HEAD_BYTES + bytes) as u32;
    }

    fn end_run(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.buffer);
        self.chunk_bytes += bytes.len();
        let offset = self.offset - bytes.len() as u32;
        self.chunks.push(LogChunk {
            segment: self.segment,
            offset,
            bytes,
        });
    }
}
