//! Pages in memory, in two levels: decompressed ones, and chunks as they lie in their files.

use std::cell::RefCell;
use std::sync::Arc;

use crate::block::chunked_file::ChunkedFile;
use crate::block::ghosts::Worth;
use crate::block::page_bytes::{PageBytes, PageKey};
use crate::block::segmented_pages::SegmentedPages;
use crate::block::spare_pages::SparePages;
use crate::block::ticket::TicketState;
use crate::corruption::Corruption;
use crate::read_cost::ReadCost;
use crate::rows::row_decoder::RowBuffers;

/// One thread's pages of all its SSTables, and what reading them from disk cost.
///
/// A page is what has one checksum: a chunk of a compressed file, else a granule of data or a page of an index. A shard
/// has one cache for its reads; a compaction brings a small one of its own. Scans pass the cache by: they use what is
/// in it and leave nothing there. Pages in use outlive their place.
#[derive(Debug)]
pub struct PageCache {
    decompressed: RefCell<SegmentedPages>,
    /// Stored pages of compressed files, beside what the first level has of them.
    packed: RefCell<SegmentedPages>,
    spare: RefCell<SparePages>,
    /// Room for stored pages while they are unpacked.
    stored: RefCell<Vec<u8>>,
    cost: RefCell<ReadCost>,
    /// Buffers of readers that have ended, for those that come.
    row_buffers: RefCell<Vec<RowBuffers>>,
    #[expect(clippy::vec_box, reason = "the boxes are what is used again")]
    ticket_states: RefCell<Vec<Box<TicketState>>>,
}

/// Level of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageLevel {
    Decompressed,
    Packed,
}

/// Processor time to bring a page, in ns (decision 28): decompressing a chunk of 16 KiB, or a read of the disk.
const DECOMPRESSION_NS: u64 = 3_000;
pub(super) const DISK_READ_NS: u64 = 12_000;

/// Readers that one read commonly has open: one for each SSTable.
const ROW_BUFFERS_MAX: usize = 16;
/// Room for stored pages that is kept.
const STORED_BYTES_MAX: usize = 64 * 1024;
/// Reads that are suspended at the same time in a busy shard; each takes some hundred bytes.
const TICKETS_MAX: usize = 64;
/// Largest buffers of one reader that are kept, in bytes, so that one huge row does not hold memory for good.
const ROW_BUFFER_BYTES_MAX: usize = 64 * 1024;

impl PageCache {
    /// Takes up to `bytes_max` bytes of memory for decompressed pages; 0 keeps none and still counts costs. Without the second level,
    /// until [`Self::set_bytes_max`] gives it memory.
    pub fn new(bytes_max: usize) -> Self {
        PageCache {
            decompressed: RefCell::new(SegmentedPages::new(bytes_max)),
            packed: RefCell::new(SegmentedPages::new(0)),
            spare: RefCell::default(),
            stored: RefCell::default(),
            cost: RefCell::default(),
            row_buffers: RefCell::default(),
            ticket_states: RefCell::default(),
        }
    }

    /// From now on a level takes up to so many bytes.
    pub fn set_bytes_max(&mut self, level: PageLevel, bytes_max: usize) {
        self.level_mut(level).set_bytes_max(bytes_max);
    }

    /// The costs so far; a read's own are the difference between two calls.
    pub fn cost(&self) -> ReadCost {
        *self.cost.borrow()
    }

    /// Forgets all pages; the costs stay.
    pub fn clear(&mut self) {
        self.decompressed.get_mut().clear();
        self.packed.get_mut().clear();
    }

    pub fn bytes(&self, level: PageLevel) -> usize {
        self.level(level).borrow().bytes()
    }

    /// Bytes that a level may take.
    pub fn bytes_max(&self, level: PageLevel) -> usize {
        self.level(level).borrow().bytes_max()
    }

    /// Savings so far if a level had had as many bytes more as were said to [`Self::set_ghost_bytes`].
    pub fn worth(&self, level: PageLevel) -> Worth {
        self.level(level).borrow().left.worth()
    }

    /// See [`Self::worth`].
    pub fn set_ghost_bytes(&mut self, bytes: usize) {
        self.decompressed.get_mut().left.set_bytes_max(bytes);
        self.packed.get_mut().left.set_bytes_max(bytes);
    }

    fn level(&self, level: PageLevel) -> &RefCell<SegmentedPages> {
        match level {
            PageLevel::Decompressed => &self.decompressed,
            PageLevel::Packed => &self.packed,
        }
    }

    fn level_mut(&mut self, level: PageLevel) -> &mut SegmentedPages {
        match level {
            PageLevel::Decompressed => self.decompressed.get_mut(),
            PageLevel::Packed => self.packed.get_mut(),
        }
    }

    /// A page of either level. A scan that comes by leaves both as they are.
    pub(crate) fn find(
        &self,
        file: &ChunkedFile,
        page: u64,
        wanted: usize,
        is_scan: bool,
    ) -> Option<PageBytes> {
        let key = (file.id(), page);
        let found = self.peek(key, !is_scan);
        found.or_else(|| self.unpack(file, page, wanted, is_scan))
    }

    /// A decompressed page. `is_use`: it is asked for, and not only looked at.
    pub(crate) fn peek(&self, key: PageKey, is_use: bool) -> Option<PageBytes> {
        let mut pages = self.decompressed.borrow_mut();
        pages.find(key, is_use).map(|found| found.shared())
    }

    fn unpack(&self, file: &ChunkedFile, page: u64, wanted: usize, is_scan: bool) -> Option<PageBytes> {
        let key = (file.id(), page);
        let mut packed = self.packed.borrow_mut();
        let stored = packed.find(key, !is_scan)?;
        let unpack = |room: &mut [u8]| file.unpack_checked(page, stored.bytes(), room);
        let length = file.bytes_of(page, page);
        if !is_scan {
            let mut decompressed = self.decompressed.borrow_mut();
            decompressed.left.brought(key, DECOMPRESSION_NS);
            if let Some(kept) = decompressed.insert_with(key, length, unpack).ok()? {
                return Some(kept.shared());
            }
        }
        let wanted = if file.unpacks_beginnings() { wanted } else { length };
        self.make_page(length, wanted, unpack).ok()
    }

    /// Checks a page that came from the disk for `read_ns`, and keeps it. It is unpacked where it stays, if that is the level of decompressed ones;
    /// else its first `wanted` bytes are, for the one who reads it now.
    pub(crate) fn take_in(
        &self,
        file: &ChunkedFile,
        page: u64,
        stored: &[u8],
        wanted: usize,
        read_ns: u64,
    ) -> Result<PageBytes, Corruption> {
        let key = (file.id(), page);
        let length = file.bytes_of(page, page);
        let unpack = |room: &mut [u8]| file.unpack_pages(page, page, stored, room);
        let (mut decompressed, mut packed) = (self.decompressed.borrow_mut(), self.packed.borrow_mut());
        let level = level_for(
            &mut decompressed,
            &mut packed,
            file,
            key,
            (length, stored.len()),
            read_ns,
        );
        if level == Some(PageLevel::Decompressed)
            && let Some(kept) = decompressed.insert_with(key, length, unpack)?
        {
            return Ok(kept.shared());
        }
        let bytes = self.make_page(length, wanted, unpack)?;
        if level == Some(PageLevel::Packed) {
            packed.insert(key, stored);
        }
        Ok(bytes)
    }

    /// Keeps pages that came from the disk: `bytes` are those from `first` to `last`, and `stored` what the file has of them.
    pub(crate) fn keep(&self, file: &ChunkedFile, (first, last): (u64, u64), bytes: &[u8], stored: &[u8]) {
        let (base, _) = file.stored_range(first, last);
        let page_bytes = file.page_bytes() as usize;
        let (mut decompressed, mut packed) = (self.decompressed.borrow_mut(), self.packed.borrow_mut());
        for (page, bytes) in (first..=last).zip(bytes.chunks(page_bytes)) {
            let key = (file.id(), page);
            let (offset, length) = file.stored_range(page, page);
            let start = (offset - base) as usize;
            let stored = stored.get(start..start + length).unwrap_or_default();
            let lengths = (bytes.len(), stored.len());
            match level_for(&mut decompressed, &mut packed, file, key, lengths, DISK_READ_NS) {
                Some(PageLevel::Packed) => packed.insert(key, stored),
                Some(PageLevel::Decompressed) => decompressed.insert(key, bytes),
                None => {}
            }
        }
    }

    /// Returns whether a page is kept, in either level, without counting as its use.
    pub(crate) fn holds(&self, key: PageKey) -> bool {
        self.decompressed.borrow().contains(key) || self.packed.borrow().contains(key)
    }

    /// The first `wanted` bytes of a page of a length, whose content is whatever `fill` makes of it.
    pub(crate) fn make_page<E>(
        &self,
        length: usize,
        wanted: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<PageBytes, E> {
        let wanted = wanted.min(length);
        let mut memory = self.spare.borrow_mut().take(length);
        match Arc::get_mut(&mut memory) {
            Some(room) => fill(room.get_mut(..wanted).unwrap_or_default())?,
            // Not to be: spare pages are nobody else's.
            None => {
                let mut room = vec![0; length];
                fill(room.get_mut(..wanted).unwrap_or_default())?;
                memory = Arc::new(room);
            }
        }
        Ok(PageBytes::Own {
            memory,
            length: wanted,
        })
    }

    /// Takes back the memory of a page that its user is done with.
    pub(crate) fn give_page(&self, page: PageBytes) {
        self.spare.borrow_mut().give(page);
    }

    pub(crate) fn count(&self, add: impl Fn(&mut ReadCost)) {
        add(&mut self.cost.borrow_mut());
    }

    pub(crate) fn take_ticket_state(&self) -> Option<Box<TicketState>> {
        self.ticket_states.borrow_mut().pop()
    }

    /// It must be empty.
    pub(crate) fn give_ticket_state(&self, state: Box<TicketState>) {
        let mut kept = self.ticket_states.borrow_mut();
        if kept.len() < TICKETS_MAX {
            kept.push(state);
        }
    }

    /// Room for so many stored bytes, whatever it holds.
    pub(crate) fn take_stored(&self, length: usize) -> Vec<u8> {
        let mut stored = self.stored.take();
        stored.resize(length, 0);
        stored
    }

    pub(crate) fn give_stored(&self, stored: Vec<u8>) {
        if stored.len() <= STORED_BYTES_MAX {
            self.stored.replace(stored);
        }
    }

    pub(crate) fn take_row_buffers(&self) -> RowBuffers {
        self.row_buffers.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_row_buffers(&self, buffers: RowBuffers) {
        let mut kept = self.row_buffers.borrow_mut();
        if kept.len() < ROW_BUFFERS_MAX && buffers.bytes() <= ROW_BUFFER_BYTES_MAX {
            kept.push(buffers);
        }
    }
}

/// Returns the level that gets a page from the disk, given its length and that of what is stored; `None` if one has it.
fn level_for(
    decompressed: &mut SegmentedPages,
    packed: &mut SegmentedPages,
    file: &ChunkedFile,
    key: PageKey,
    (length, stored_length): (usize, usize),
    read_ns: u64,
) -> Option<PageLevel> {
    if decompressed.contains(key) || packed.contains(key) {
        return None;
    }
    decompressed.left.brought(key, read_ns);
    let may_pack = !file.is_plain() && packed.may_keep(stored_length);
    if may_pack {
        packed.left.brought(key, read_ns);
    }
    // Most pages are asked for once while they are here: what comes back comes into the level above then.
    let is_packed = may_pack && !decompressed.has_room(length);
    Some(if is_packed {
        PageLevel::Packed
    } else {
        PageLevel::Decompressed
    })
}
