//! A log's files beside the one that is written to: the next one, which is made ahead, and those that are of no more use.
//!
//! To sync a file that grows, a file system with a journal commits the file's new length: by another thread, which has to get a processor,
//! and with whatever else has changed meanwhile. To sync what was written over zeros waits for the device alone
//! ([decision 41](../../../../docs/decisions/0041-segments-ahead.md)).

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helenus_sstable::remove_if_there;
use helenus_vfs::{Disk, File};

use super::SegmentNotRemoved;
use super::format::segment_name;

/// Name of the file until it is all zeros.
const ZEROS_NAME: &str = "segment.zeros";

/// Bytes that are synced at once: few enough for the device to be there for the log again within milliseconds.
const STEP_BYTES: usize = 1 << 20;

/// Marks, and a segment's end, may lie behind the size that its records keep to.
const SLACK_BYTES: u64 = 4_096;

/// Makes the segment after the one that a log writes, a file of zeros whose name and length are durable before the log goes on in
/// it, and removes segments: ten milliseconds each, for which no write should wait. Blocks; lives on another thread than the log's.
#[derive(Debug)]
pub struct SegmentFiles {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    bytes: u64,
    state: Mutex<State>,
}

/// The next segment's file, under its name.
#[derive(Debug)]
pub(super) struct SegmentAhead {
    pub file: Arc<dyn File>,
    /// An error if nobody knows whether its name is durable.
    pub named: io::Result<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the next segment.
    next: u64,
    is_next_wanted: bool,
    made: Option<SegmentAhead>,
    /// Segments of no more use, oldest first.
    useless: VecDeque<PathBuf>,
    is_closed: bool,
}

impl SegmentFiles {
    pub(super) fn new(disk: Arc<dyn Disk>, folder: PathBuf, segment_bytes: u32) -> Self {
        SegmentFiles {
            disk,
            folder,
            bytes: u64::from(segment_bytes) + SLACK_BYTES,
            state: Mutex::default(),
        }
    }

    /// Does what there is to do: for as long as the disk takes to write a segment.
    pub fn tend(&self) -> Result<(), SegmentNotRemoved> {
        let removed = self.remove_useless();
        let mut state = self.state();
        let makes = std::mem::take(&mut state.is_next_wanted) && state.made.is_none();
        drop(state);
        if makes {
            self.make();
        }
        removed
    }

    /// Oldest first, so that what a crash leaves is the end of the log and not a part with a hole.
    fn remove_useless(&self) -> Result<(), SegmentNotRemoved> {
        loop {
            let Some(file) = self.state().useless.pop_front() else {
                return Ok(());
            };
            if let Err(source) = remove_if_there(&*self.disk, &file) {
                self.state().useless.push_front(file.clone());
                return Err(SegmentNotRemoved { file, source });
            }
        }
    }

    /// Makes the next segment's file. A disk that has no room for it keeps nobody from writing: the log makes its next segment itself
    /// then, when it begins it.
    fn make(&self) {
        let zeros = self.folder.join(ZEROS_NAME);
        let made = self.zeros(&zeros).and_then(|file| {
            let mut state = self.state();
            if !state.is_closed {
                self.disk
                    .rename(&zeros, &self.folder.join(segment_name(state.next)))?;
                let named = self.disk.sync_directory(&self.folder);
                state.made = Some(SegmentAhead { file, named });
            }
            Ok(())
        });
        if made.is_err() {
            let _is_removed_later = remove_if_there(&*self.disk, &zeros);
        }
    }

    fn zeros(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        // Of a process that was killed.
        remove_if_there(&*self.disk, path)?;
        let file = self.disk.create(path)?;
        let zeros = vec![0; STEP_BYTES];
        let mut written = 0;
        while written < self.bytes && !self.state().is_closed {
            let step = (self.bytes - written).min(STEP_BYTES as u64);
            file.write_at(written, &zeros[..step as usize])?;
            file.sync_data()?;
            written += step;
        }
        Ok(file)
    }

    pub(super) fn want_next(&self) {
        self.state().is_next_wanted = true;
    }

    pub(super) fn discard(&self, segments: impl Iterator<Item = u64>) {
        let paths = segments.map(|segment| self.folder.join(segment_name(segment)));
        self.state().useless.extend(paths);
    }

    /// Hands over the file of the segment that begins now, if it was made.
    pub(super) fn take(&self, segment: u64) -> Option<SegmentAhead> {
        let mut state = self.state();
        state.next = segment + 1;
        state.made.take()
    }

    /// Ends what is being made, within a step. None is made any more; what is of no more use is removed.
    pub fn close(&self) {
        self.state().is_closed = true;
    }

    /// Removes the file that nothing was written to, so that the next start has not to read it. Once nobody takes one any more, nor makes one.
    pub fn remove_unused(&self) {
        let mut state = self.state();
        let unused = match state.made.take() {
            Some(_) => segment_name(state.next),
            None => ZEROS_NAME.to_owned(),
        };
        let _is_left_for_the_next_start = remove_if_there(&*self.disk, &self.folder.join(unused));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
