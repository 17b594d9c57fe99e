//! Record of what a cache let go lately, so that it is known what more memory would be worth to it.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;

/// Ghosts of items that a cache let go. An item that comes back while its ghost is there would have been found in a cache that is
/// larger by the ghosts' bytes. A ghost takes some 40 bytes of what may be a row of 200; those of a 64th of a cache are a 300th
/// of it.
#[derive(Debug, Default)]
pub struct Ghosts {
    bytes_max: usize,
    bytes: usize,
    /// The oldest first.
    order: VecDeque<(u64, usize)>,
    hashes: HashSet<u64, FixedState>,
    worth: Worth,
}

/// Savings that as many bytes more would have brought so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worth {
    pub saved_ns: u64,
    /// Items that came back.
    pub hits: u64,
}

impl Ghosts {
    /// How much what is remembered took.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.forget_oldest();
    }

    /// An item of so many bytes was let go.
    pub fn add(&mut self, item: impl Hash, bytes: usize) {
        if self.bytes_max == 0 {
            return;
        }
        let hash = hash_of(item);
        if self.hashes.insert(hash) {
            self.order.push_back((hash, bytes));
            self.bytes += bytes;
        }
        self.forget_oldest();
    }

    /// An item was brought, which took so long, and was not needed if it was let go lately.
    pub fn brought(&mut self, item: impl Hash, took_ns: u64) {
        if !self.hashes.is_empty() && self.hashes.remove(&hash_of(item)) {
            self.worth.saved_ns += took_ns;
            self.worth.hits += 1;
        }
    }

    /// Returns whether an item was let go lately.
    pub fn contains(&self, item: impl Hash) -> bool {
        !self.hashes.is_empty() && self.hashes.contains(&hash_of(item))
    }

    pub fn worth(&self) -> Worth {
        self.worth
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

fn hash_of(item: impl Hash) -> u64 {
    FixedState::default().hash_one(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_within_the_bytes_counts_and_no_other() {
        let mut ghosts = Ghosts::default();
        ghosts.set_bytes_max(1_000 * 100);
        (0..10_000).for_each(|item: u64| ghosts.add(item, 100));
        let known = (0..11_000).filter(|item: &u64| ghosts.contains(item));
        assert!(known.eq(9_000..10_000));
        (0..9_000).for_each(|item: u64| ghosts.brought(item, 2));
        assert_eq!(ghosts.worth(), Worth::default());
        (9_000..11_000).for_each(|item: u64| ghosts.brought(item, 2));
        let worth = Worth {
            saved_ns: 2_000,
            hits: 1_000,
        };
        assert_eq!(ghosts.worth(), worth);
        (9_000..10_000).for_each(|item: u64| ghosts.brought(item, 2));
        assert_eq!(ghosts.worth(), worth);
    }
}
