//! Decompressed chunks in memory, least recently used out first.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

/// One thread's chunks of all its SSTables, and what reading them from disk cost.
///
/// A shard has one for its reads; a compaction brings a small one of its own, so that scans do not displace what
/// queries use. Chunks in use outlive their place in the cache.
#[derive(Debug)]
pub struct ChunkCache {
    state: RefCell<State>,
}

/// What was read from disk since the cache was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCost {
    pub reads: u64,
    pub read_bytes: u64,
}

/// A file of this process and a chunk's index in it.
pub(super) type ChunkKey = (u64, u64);

#[derive(Debug)]
struct State {
    bytes_max: usize,
    bytes: usize,
    slots: Vec<Slot>,
    free: Vec<usize>,
    by_key: HashMap<ChunkKey, usize, RandomState>,
    /// The most and the least recently used; [`NONE`] when empty.
    newest: usize,
    oldest: usize,
    cost: DiskCost,
}

#[derive(Debug)]
struct Slot {
    key: ChunkKey,
    chunk: Arc<[u8]>,
    newer: usize,
    older: usize,
}

const NONE: usize = usize::MAX;

impl ChunkCache {
    /// Keeps up to `bytes_max` bytes of chunks; 0 keeps none and still counts costs.
    pub fn new(bytes_max: usize) -> Self {
        let state = State {
            bytes_max,
            bytes: 0,
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::default(),
            newest: NONE,
            oldest: NONE,
            cost: DiskCost::default(),
        };
        ChunkCache {
            state: RefCell::new(state),
        }
    }

    /// The costs so far; a read's own are the difference between two calls.
    pub fn disk_cost(&self) -> DiskCost {
        self.state.borrow().cost
    }

    pub fn bytes(&self) -> usize {
        self.state.borrow().bytes
    }

    pub(super) fn find(&self, key: ChunkKey) -> Option<Arc<[u8]>> {
        let mut state = self.state.borrow_mut();
        let slot = *state.by_key.get(&key)?;
        state.unlink(slot);
        state.link_newest(slot);
        Some(Arc::clone(&state.slots[slot].chunk))
    }

    pub(super) fn insert(&self, key: ChunkKey, chunk: &Arc<[u8]>) {
        let mut state = self.state.borrow_mut();
        if chunk.len() > state.bytes_max || state.by_key.contains_key(&key) {
            return;
        }
        while state.bytes + chunk.len() > state.bytes_max {
            state.evict_oldest();
        }
        state.bytes += chunk.len();
        let slot = Slot {
            key,
            chunk: Arc::clone(chunk),
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

    pub(super) fn count_read(&self, bytes: usize) {
        let mut state = self.state.borrow_mut();
        state.cost.reads += 1;
        state.cost.read_bytes += bytes as u64;
    }
}

impl State {
    fn evict_oldest(&mut self) {
        let index = self.oldest;
        self.unlink(index);
        let key = self.slots[index].key;
        let chunk = std::mem::replace(&mut self.slots[index].chunk, Arc::from([]));
        self.by_key.remove(&key);
        self.bytes -= chunk.len();
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

    fn chunk(length: usize) -> Arc<[u8]> {
        vec![7; length].into()
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = ChunkCache::new(100);
        (0..3).for_each(|index| cache.insert((1, index), &chunk(30)));
        assert!(cache.find((1, 0)).is_some());
        cache.insert((2, 0), &chunk(40));
        let found: Vec<bool> = (0..3).map(|index| cache.find((1, index)).is_some()).collect();
        assert_eq!(found, [true, false, true]);
        assert_eq!(cache.bytes(), 100);
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let cache = ChunkCache::new(10);
        cache.insert((1, 0), &chunk(11));
        assert!(cache.find((1, 0)).is_none());
        cache.insert((1, 1), &chunk(10));
        cache.insert((1, 2), &chunk(10));
        assert!(cache.find((1, 1)).is_none() && cache.find((1, 2)).is_some());
    }
}
