//! State that a read which stops for its pages holds between its runs.

use std::cell::RefCell;

use helenus_rows::clustering::ClusteringBound;

use crate::block::absent_pages::AbsentPages;
use crate::block::page_bytes::PageBytes;
use crate::index::entry::IndexEntry;
use crate::index::found_entries::FoundEntries;
use crate::read_cost::ReadCost;
use crate::rows::stop::{IndexStop, Stop, Stops};

/// State that one suspended read holds between its runs. Empty until the read comes to an SSTable, so that reads which find
/// everything in memtables pay nothing for it.
#[derive(Debug, Default)]
pub struct ReadTicket {
    pub(super) state: RefCell<Option<Box<TicketState>>>,
    /// True for several reads that are made one after the other, and all of them again where one lacks a page: what the first has
    /// used is needed while the last one reads.
    pub(super) is_of_several: bool,
}

#[derive(Debug, Default)]
pub(crate) struct TicketState {
    pub(super) pins: Vec<Pin>,
    pub(super) stops: Stops,
    pub(super) found: FoundEntries,
    /// Decompressed bytes of pages that the run took from the operating system's memory.
    pub(super) resident_bytes: usize,
    pub(super) cost: ReadCost,
}

/// Decompressed bytes that a run takes from the operating system's memory at most: some 100 us of decompression.
const RESIDENT_BYTES_MAX: usize = 512 * 1024;

impl TicketState {
    /// Lets go of what the run before did not use, which bounds the pins by what one run reads and one delivery.
    fn release_unused(&mut self) {
        self.pins.retain(|pin| pin.is_used);
        self.pins.iter_mut().for_each(|pin| pin.is_used = false);
    }
}

#[derive(Debug)]
pub(super) struct Pin {
    pub(super) file: u64,
    pub(super) run: PageRun,
    /// In the run that goes on, or delivered since.
    pub(super) is_used: bool,
    /// Taken from the operating system's memory, where it is found again.
    pub(super) is_resident: bool,
}

impl Pin {
    fn of(pages: &AbsentPages, bytes: PageBytes, is_resident: bool) -> Self {
        let offset = pages.first * pages.file.page_bytes();
        Pin {
            file: pages.file.id(),
            run: PageRun { offset, bytes },
            is_used: true,
            is_resident,
        }
    }
}

/// Checked, uncompressed bytes of a file, from a page's first byte on.
#[derive(Clone, Debug)]
pub(crate) struct PageRun {
    pub offset: u64,
    pub bytes: PageBytes,
}

impl ReadTicket {
    pub fn new() -> Self {
        ReadTicket::default()
    }

    /// For several reads that have to come to their ends in one go; [`Self::begin_attempt`] comes before the first of them.
    pub fn of_several() -> Self {
        ReadTicket {
            is_of_several: true,
            ..ReadTicket::default()
        }
    }

    /// Before the first of several reads is made, or made again.
    pub fn begin_attempt(&self) {
        if let Some(state) = &mut *self.state.borrow_mut() {
            state.resident_bytes = 0;
            state.release_unused();
        }
    }

    /// Before a run that goes on behind what the run before has handed out, in the same direction and slices.
    pub fn resume_run(&self) {
        if let Some(state) = &mut *self.state.borrow_mut() {
            state.stops.resume();
            state.resident_bytes = 0;
            if !self.is_of_several {
                state.release_unused();
            }
        }
    }

    /// Before a run from the start.
    pub fn begin_run(&self) {
        if let Some(state) = &mut *self.state.borrow_mut() {
            state.stops.forget();
            state.resident_bytes = 0;
            if !self.is_of_several {
                state.release_unused();
            }
        }
    }

    /// After a run that passed nothing before it lacked a page: the next run begins at the same place, and may need what this one
    /// did not. Where cursors stopped is not the same, so runs that only kept what they had used took each other's pages for ever.
    pub fn keep_pages(&self) {
        if let Some(state) = &mut *self.state.borrow_mut() {
            state.pins.iter_mut().for_each(|pin| pin.is_used = true);
        }
    }

    /// Cost of all runs so far.
    pub fn cost(&self) -> ReadCost {
        self.state
            .borrow()
            .as_ref()
            .map(|state| state.cost)
            .unwrap_or_default()
    }

    /// Returns whether no page was brought for the read.
    pub fn has_no_pages(&self) -> bool {
        self.state
            .borrow()
            .as_ref()
            .is_none_or(|state| state.pins.is_empty())
    }

    pub fn pinned_bytes(&self) -> usize {
        let state = self.state.borrow();
        let pins = state.iter().flat_map(|state| &state.pins);
        pins.map(|pin| pin.run.bytes.memory_bytes()).sum()
    }

    pub(crate) fn take_stop(&self, file: u64, partition: u64, far: &ClusteringBound) -> Option<Stop> {
        self.state.borrow_mut().as_mut()?.stops.take(file, partition, far)
    }

    pub(crate) fn note_stop(&self, stop: Stop) {
        self.state.borrow_mut().get_or_insert_default().stops.note(stop);
    }

    pub(crate) fn index_stop(&self, file: u64) -> Option<u64> {
        self.state.borrow().as_ref()?.stops.index(file)
    }

    pub(crate) fn note_index_stop(&self, stop: IndexStop) {
        self.state
            .borrow_mut()
            .get_or_insert_default()
            .stops
            .note_index(stop);
    }

    /// Returns the index entry that a run before found for a key, and could not go on with. `file` is Data.db's.
    pub(crate) fn found_entry(&self, file: u64, key: &[u8]) -> Option<IndexEntry> {
        self.state.borrow().as_ref()?.found.find(file, key)
    }

    /// `entry` is without its key.
    pub(crate) fn note_found_entry(&self, file: u64, key: &[u8], entry: IndexEntry) {
        let state = &mut *self.state.borrow_mut();
        state.get_or_insert_default().found.note(file, key, entry);
    }

    /// Keeps pages that were brought for as long as runs use them.
    pub(super) fn pin(&self, pages: &AbsentPages, bytes: PageBytes) {
        let pin = Pin::of(pages, bytes, false);
        self.state.borrow_mut().get_or_insert_default().pins.push(pin);
    }

    /// Keeps pages that the operating system had for as long as the run goes on.
    pub(super) fn pin_resident(&self, pages: &AbsentPages, bytes: PageBytes) -> PageRun {
        let pin = Pin::of(pages, bytes, true);
        let run = pin.run.clone();
        let state = &mut *self.state.borrow_mut();
        let state = state.get_or_insert_default();
        state.resident_bytes += run.bytes.memory_bytes();
        state.pins.push(pin);
        run
    }

    /// Lets go of what the operating system has, too: a read that waits, in a queue of any length, holds only what was brought for it.
    pub fn release_resident(&self) {
        if let Some(state) = &mut *self.state.borrow_mut() {
            state.pins.retain(|pin| !pin.is_resident);
        }
    }

    pub(super) fn may_take_resident(&self, bytes: usize) -> bool {
        let state = self.state.borrow();
        let taken = state.as_ref().map_or(0, |state| state.resident_bytes);
        bytes <= RESIDENT_BYTES_MAX - taken
    }

    /// Finds pages, or the beginning of some, that have a position; what was brought last first.
    pub(super) fn find(&self, file: u64, position: u64) -> Option<PageRun> {
        let state = &mut *self.state.borrow_mut();
        let pin = state.as_mut()?.pins.iter_mut().rev().find(|pin| {
            let end = pin.run.offset + pin.run.bytes.len() as u64;
            pin.file == file && (pin.run.offset..end).contains(&position)
        })?;
        pin.is_used = true;
        Some(pin.run.clone())
    }
}
