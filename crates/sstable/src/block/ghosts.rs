//! What a cache let go lately, so that it is known what more memory would be worth to it.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;

/// Of one in [`SAMPLED_ONE_IN`] items, chosen by their hash, so that the others cost nothing. What comes back while its ghost is there
/// would have been found in a cache that is larger by the ghosts' bytes (Waldspurger et al., FAST 2015).
#[derive(Debug, Default)]
pub struct Ghosts {
    bytes_max: usize,
    bytes: usize,
    /// The oldest first.
    order: VecDeque<(u64, usize)>,
    hashes: HashSet<u64, FixedState>,
    worth_ns: u64,
}

/// A ghost takes some 40 bytes, and a cached row may be one of 200.
const SAMPLED_ONE_IN: u64 = 8;

impl Ghosts {
    /// How much what is remembered took.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max / SAMPLED_ONE_IN as usize;
        self.forget_oldest();
    }

    /// An item of so many bytes was let go.
    pub fn add(&mut self, item: impl Hash, bytes: usize) {
        let Some(hash) = sampled(item) else {
            return;
        };
        if self.hashes.insert(hash) {
            self.order.push_back((hash, bytes));
            self.bytes += bytes;
        }
        self.forget_oldest();
    }

    /// An item was brought, which took so long, and was not needed if it was let go lately.
    pub fn brought(&mut self, item: impl Hash, took_ns: u64) {
        if self.hashes.is_empty() {
            return;
        }
        if sampled(item).is_some_and(|hash| self.hashes.remove(&hash)) {
            self.worth_ns += took_ns * SAMPLED_ONE_IN;
        }
    }

    /// What as many bytes more would have saved, of all items; an estimate.
    pub fn worth_ns(&self) -> u64 {
        self.worth_ns
    }

    fn forget_oldest(&mut self) {
        while self.bytes > self.bytes_max
            && let Some((hash, bytes)) = self.order.pop_front()
        {
            self.bytes -= bytes;
            self.hashes.remove(&hash);
        }
    }
}

fn sampled(item: impl Hash) -> Option<u64> {
    let hash = FixedState::default().hash_one(item);
    hash.is_multiple_of(SAMPLED_ONE_IN).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_within_the_bytes_counts_and_no_other() {
        let mut ghosts = Ghosts::default();
        ghosts.set_bytes_max(1_000 * 100);
        (0..10_000).for_each(|item: u64| ghosts.add(item, 100));
        (0..8_000).for_each(|item: u64| ghosts.brought(item, 2));
        assert_eq!(ghosts.worth_ns(), 0);
        (8_000..11_000).for_each(|item: u64| ghosts.brought(item, 2));
        let worth_ns = ghosts.worth_ns();
        assert!((1_600..2_400).contains(&worth_ns), "{worth_ns}");
        (9_000..10_000).for_each(|item: u64| ghosts.brought(item, 2));
        assert_eq!(ghosts.worth_ns(), worth_ns);
    }
}
