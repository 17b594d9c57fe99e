//! Nodes by how near they are, and sets of nodes.

use std::cmp::Ordering;

/// A node and its distance from what is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    pub distance: f32,
    pub node: u32,
}

impl Ord for Near {
    fn cmp(&self, other: &Self) -> Ordering {
        let distances = self.distance.total_cmp(&other.distance);
        distances.then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Near {}

/// A set of nodes.
#[derive(Debug, Default)]
pub struct Bits(Vec<u64>);

impl Bits {
    pub fn of(count: u32) -> Self {
        Bits(vec![0; (count as usize).div_ceil(64)])
    }

    /// Makes room for nodes below a number.
    pub fn grow(&mut self, count: u32) {
        if (count as usize).div_ceil(64) > self.0.len() {
            self.0.push(0);
        }
    }

    /// None, and room for nodes below a number.
    pub fn reset(&mut self, count: u32) {
        self.0.clear();
        self.0.resize((count as usize).div_ceil(64), 0);
    }

    #[inline]
    pub fn get(&self, node: u32) -> bool {
        let word = self.0.get(node as usize / 64);
        word.is_some_and(|word| word & (1 << (node % 64)) != 0)
    }

    /// Adds a node; returns whether it was not there before. One that there is no room for never counts as new.
    #[inline]
    pub fn set(&mut self, node: u32) -> bool {
        let Some(word) = self.0.get_mut(node as usize / 64) else {
            return false;
        };
        let bit = 1 << (node % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Returns whether each node below a number is in this set or the other.
    pub fn covers_with(&self, other: &Bits, count: u32) -> bool {
        let word = |bits: &Bits, index: usize| bits.0.get(index).copied().unwrap_or(0);
        let missing = |index: usize| !(word(self, index) | word(other, index));
        let (full, rest) = (count as usize / 64, count % 64);
        (0..full).all(|index| missing(index) == 0) && missing(full) & ((1 << rest) - 1) == 0
    }

    pub fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}
