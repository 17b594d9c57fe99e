//! Decompressed pages in memory, least recently used out first.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::block::ticket::TicketState;
use crate::read_cost::ReadCost;
use crate::rows::row_decoder::RowBuffers;

/// One thread's pages of all its SSTables, and what reading them from disk cost.
///
/// A page is what has one checksum: a chunk of a compressed file, else a granule of data or a page of an index. A shard
/// has one cache for its reads; a compaction brings a small one of its own. Scans pass the cache by: they use what is
/// in it and leave nothing there. Pages in use outlive their place.
#[derive(Debug)]
pub struct PageCache {
    state: RefCell<State>,
    /// Of readers that have ended, for those that come.
    row_buffers: RefCell<Vec<RowBuffers>>,
    #[expect(clippy::vec_box, reason = "the boxes are what is used again")]
    ticket_states: RefCell<Vec<Box<TicketState>>>,
}

/// A file of this process and a page's index in it.
pub(crate) type PageKey = (u64, u64);

#[derive(Debug)]
struct State {
    bytes_max: usize,
    bytes: usize,
    slots: Vec<Slot>,
    free: Vec<usize>,
    by_key: HashMap<PageKey, usize, RandomState>,
    /// The most and the least recently used; [`NONE`] when empty.
    newest: usize,
    oldest: usize,
    cost: ReadCost,
    /// Memory of pages that made room, for those that come: a page is some hundred instructions to decode into memory
    /// that is there, and thousands to clear or copy.
    spare: Vec<SparePages>,
    spare_bytes: usize,
    /// In the place of what an empty slot had.
    no_page: Arc<[u8]>,
}

/// Pages of one length that nobody else has.
#[derive(Debug)]
struct SparePages {
    length: usize,
    pages: Vec<Arc<[u8]>>,
}

#[derive(Debug)]
struct Slot {
    key: PageKey,
    page: Arc<[u8]>,
    newer: usize,
    older: usize,
}

const NONE: usize = usize::MAX;
/// What a page takes beyond its bytes: its counts, its slot, and its place in a map that is half full.
const PAGE_OVERHEAD_BYTES: usize = 128;

/// Of pages that are nobody's: what some hundred reads bring.
const SPARE_BYTES_MAX: usize = 2 << 20;
/// Of an index, of data in several sizes of chunks, and of two or three such pages in one request.
const SPARE_LENGTHS_MAX: usize = 8;

/// Readers that one read commonly has open: one for each SSTable.
const ROW_BUFFERS_MAX: usize = 16;
/// Reads that are suspended at the same time in a busy shard; each takes some hundred bytes.
const TICKETS_MAX: usize = 64;
/// What is kept of one reader's buffers, so that one huge row does not hold memory for good.
const ROW_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Against the cache's size.
fn weight(page: &[u8]) -> usize {
    page.len() + PAGE_OVERHEAD_BYTES
}

impl PageCache {
    /// Takes up to `bytes_max` bytes of memory; 0 keeps none and still counts costs.
    pub fn new(bytes_max: usize) -> Self {
        let state = State {
            bytes_max,
            bytes: 0,
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::default(),
            newest: NONE,
            oldest: NONE,
            cost: ReadCost::default(),
            spare: Vec::new(),
            spare_bytes: 0,
            no_page: Arc::from([]),
        };
        PageCache {
            state: RefCell::new(state),
            row_buffers: RefCell::default(),
            ticket_states: RefCell::default(),
        }
    }

    /// From now on takes up to so many bytes.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        let state = self.state.get_mut();
        state.bytes_max = bytes_max;
        while state.bytes > bytes_max && state.oldest != NONE {
            state.evict_oldest();
        }
    }

    /// The costs so far; a read's own are the difference between two calls.
    pub fn cost(&self) -> ReadCost {
        self.state.borrow().cost
    }

    /// Forgets all pages; the costs stay.
    pub fn clear(&mut self) {
        let state = self.state.get_mut();
        while state.oldest != NONE {
            state.evict_oldest();
        }
    }

    pub fn bytes(&self) -> usize {
        self.state.borrow().bytes
    }

    pub(crate) fn find(&self, key: PageKey) -> Option<Arc<[u8]>> {
        let mut state = self.state.borrow_mut();
        let slot = *state.by_key.get(&key)?;
        state.unlink(slot);
        state.link_newest(slot);
        Some(Arc::clone(&state.slots[slot].page))
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

    pub(crate) fn take_row_buffers(&self) -> RowBuffers {
        self.row_buffers.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_row_buffers(&self, buffers: RowBuffers) {
        let mut kept = self.row_buffers.borrow_mut();
        if kept.len() < ROW_BUFFERS_MAX && buffers.bytes() <= ROW_BUFFER_BYTES_MAX {
            kept.push(buffers);
        }
    }

    /// As [`Self::find`], without counting as a use.
    pub(crate) fn peek(&self, key: PageKey) -> Option<Arc<[u8]>> {
        let state = self.state.borrow();
        let slot = *state.by_key.get(&key)?;
        Some(Arc::clone(&state.slots[slot].page))
    }

    /// A page of a length, whose content is whatever `fill` makes of it.
    pub(crate) fn make_page<E>(
        &self,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Arc<[u8]>, E> {
        let spare = self.state.borrow_mut().take_spare(length);
        let mut page = spare.unwrap_or_else(|| std::iter::repeat_n(0, length).collect());
        match Arc::get_mut(&mut page) {
            Some(room) => fill(room)?,
            // Not to be: spare pages are nobody else's.
            None => {
                let mut room = vec![0; length];
                fill(&mut room)?;
                page = room.into();
            }
        }
        Ok(page)
    }

    /// Whoever had the page is done with it.
    pub(crate) fn give_page(&self, page: Arc<[u8]>) {
        self.state.borrow_mut().keep_spare(page);
    }

    pub(crate) fn insert(&self, key: PageKey, page: &Arc<[u8]>) {
        let mut state = self.state.borrow_mut();
        if weight(page) > state.bytes_max || state.by_key.contains_key(&key) {
            return;
        }
        while state.bytes + weight(page) > state.bytes_max {
            state.evict_oldest();
        }
        state.bytes += weight(page);
        let slot = Slot {
            key,
            page: Arc::clone(page),
            newer: NONE,
            older: NONE,
        };
        let index = match state.free.pop() {
            Some(index) => {
                state.slots[index] = slot;
                index
            }
            None => {
                state.slots.push(slot);
                state.slots.len() - 1
            }
        };
        state.by_key.insert(key, index);
        state.link_newest(index);
    }

    pub(crate) fn count(&self, add: impl Fn(&mut ReadCost)) {
        add(&mut self.state.borrow_mut().cost);
    }

    /// Whether a page is kept, without counting as its use.
    pub(crate) fn contains(&self, key: PageKey) -> bool {
        self.state.borrow().by_key.contains_key(&key)
    }
}

impl State {
    fn evict_oldest(&mut self) {
        let index = self.oldest;
        self.unlink(index);
        let key = self.slots[index].key;
        let page = std::mem::replace(&mut self.slots[index].page, Arc::clone(&self.no_page));
        self.by_key.remove(&key);
        self.bytes -= weight(&page);
        self.free.push(index);
        self.keep_spare(page);
    }

    fn keep_spare(&mut self, mut page: Arc<[u8]>) {
        let length = page.len();
        if self.spare_bytes + length > SPARE_BYTES_MAX || Arc::get_mut(&mut page).is_none() {
            return;
        }
        let known = self.spare.iter().position(|spare| spare.length == length);
        match known {
            Some(index) => self.spare[index].pages.push(page),
            None if self.spare.len() < SPARE_LENGTHS_MAX => self.spare.push(SparePages {
                length,
                pages: vec![page],
            }),
            None => return,
        }
        self.spare_bytes += length;
    }

    fn take_spare(&mut self, length: usize) -> Option<Arc<[u8]>> {
        let spare = self.spare.iter_mut().find(|spare| spare.length == length)?;
        let page = spare.pages.pop()?;
        self.spare_bytes -= length;
        Some(page)
    }

    fn unlink(&mut self, index: usize) {
        let (newer, older) = (self.slots[index].newer, self.slots[index].older);
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older].newer = newer,
        }
    }

    fn link_newest(&mut self, index: usize) {
        let second = self.newest;
        self.slots[index].newer = NONE;
        self.slots[index].older = second;
        match second {
            NONE => self.oldest = index,
            second => self.slots[second].newer = index,
        }
        self.newest = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(length: usize) -> Arc<[u8]> {
        vec![7; length].into()
    }

    fn made(cache: &PageCache, length: usize, content: u8) -> Arc<[u8]> {
        let page = cache.make_page(length, |room| {
            room.fill(content);
            Ok::<(), ()>(())
        });
        page.unwrap()
    }

    #[test]
    fn a_page_that_makes_room_lends_its_memory_to_the_next_of_its_length() {
        let cache = PageCache::new(30 + PAGE_OVERHEAD_BYTES);
        let first = made(&cache, 30, 1);
        let at = first.as_ptr();
        cache.insert((1, 0), &first);
        // In use, so that its memory is not for others.
        cache.insert((1, 1), &page(30));
        assert!(made(&cache, 30, 0).as_ptr() != at);
        cache.insert((1, 0), &first);
        drop(first);
        cache.insert((1, 2), &page(30));
        assert!(made(&cache, 29, 0).as_ptr() != at);
        let again = made(&cache, 30, 2);
        assert_eq!((again.as_ptr(), &*again), (at, &[2; 30][..]));
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = PageCache::new(100 + 3 * PAGE_OVERHEAD_BYTES);
        (0..3).for_each(|index| cache.insert((1, index), &page(30)));
        assert!(cache.find((1, 0)).is_some());
        cache.insert((2, 0), &page(40));
        let found: Vec<bool> = (0..3).map(|index| cache.find((1, index)).is_some()).collect();
        assert_eq!(found, [true, false, true]);
        assert_eq!(cache.bytes(), 100 + 3 * PAGE_OVERHEAD_BYTES);
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let cache = PageCache::new(10 + PAGE_OVERHEAD_BYTES);
        cache.insert((1, 0), &page(11));
        assert!(cache.find((1, 0)).is_none());
        cache.insert((1, 1), &page(10));
        cache.insert((1, 2), &page(10));
        assert!(cache.find((1, 1)).is_none() && cache.find((1, 2)).is_some());
    }
}
