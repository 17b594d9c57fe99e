//! Decompressed pages in memory, least recently used out first.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::read_cost::ReadCost;

/// One thread's pages of all its SSTables, and what reading them from disk cost.
///
/// A page is what has one checksum: a chunk of a compressed file, else a granule of data or a page of an index. A shard
/// has one cache for its reads; a compaction brings a small one of its own. Scans pass the cache by: they use what is
/// in it and leave nothing there. Pages in use outlive their place.
#[derive(Debug)]
pub struct PageCache {
    state: RefCell<State>,
}

/// A file of this process and a page's index in it.
pub(super) type PageKey = (u64, u64);

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
        };
        PageCache {
            state: RefCell::new(state),
        }
    }

    /// The costs so far; a read's own are the difference between two calls.
    pub fn cost(&self) -> ReadCost {
        self.state.borrow().cost
    }

    /// Forgets all pages; the costs stay.
    pub fn clear(&mut self) {
        let state = self.state.get_mut();
        *state = State {
            bytes: 0,
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::default(),
            newest: NONE,
            oldest: NONE,
            ..*state
        };
    }

    pub fn bytes(&self) -> usize {
        self.state.borrow().bytes
    }

    pub(super) fn find(&self, key: PageKey) -> Option<Arc<[u8]>> {
        let mut state = self.state.borrow_mut();
        let slot = *state.by_key.get(&key)?;
        state.unlink(slot);
        state.link_newest(slot);
        Some(Arc::clone(&state.slots[slot].page))
    }

    pub(super) fn insert(&self, key: PageKey, page: &[u8]) {
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
            page: Arc::from(page),
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

    pub(super) fn count(&self, add: impl Fn(&mut ReadCost)) {
        add(&mut self.state.borrow_mut().cost);
    }

    /// Whether a page is kept, without counting as its use.
    pub(super) fn contains(&self, key: PageKey) -> bool {
        self.state.borrow().by_key.contains_key(&key)
    }
}

impl State {
    fn evict_oldest(&mut self) {
        let index = self.oldest;
        self.unlink(index);
        let key = self.slots[index].key;
        let page = std::mem::replace(&mut self.slots[index].page, Arc::from([]));
        self.by_key.remove(&key);
        self.bytes -= weight(&page);
        self.free.push(index);
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

    fn page(length: usize) -> Vec<u8> {
        vec![7; length]
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
