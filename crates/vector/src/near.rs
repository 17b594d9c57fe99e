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

/// A set of nodes of one graph, a bit each.
#[derive(Clone, Debug, Default)]
pub struct NodeSet(Vec<u64>);

impl NodeSet {
    pub fn of(count: u32) -> Self {
        NodeSet(vec![0; (count as usize).div_ceil(64)])
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

    pub fn unset(&mut self, node: u32) {
        if let Some(word) = self.0.get_mut(node as usize / 64) {
            *word &= !(1 << (node % 64));
        }
    }

    #[inline]
    pub fn contains(&self, node: u32) -> bool {
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

    /// Adds all nodes from one on, below the end; makes room for them.
    pub fn add_from(&mut self, first: u32, end: u32) {
        let words = (end as usize).div_ceil(64);
        self.0.resize(words.max(self.0.len()), 0);
        let (full_from, full_to) = (first.next_multiple_of(64), end / 64 * 64);
        for node in (first..end.min(full_from)).chain(full_to.max(first)..end) {
            self.set(node);
        }
        if full_from < full_to {
            self.0[full_from as usize / 64..full_to as usize / 64].fill(u64::MAX);
        }
    }

    /// Leaves those that are in another set, too.
    pub fn intersect(&mut self, other: &NodeSet) {
        self.0.truncate(other.0.len());
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the first node from one on.
    pub fn next_from(&self, node: u32) -> Option<u32> {
        let first = node as usize / 64;
        let behind = self.0.get(first)? & (u64::MAX << (node % 64));
        let rest = self.0[first + 1..].iter().copied();
        let mut words = (first..).zip(std::iter::once(behind).chain(rest));
        let (index, word) = words.find(|(_, word)| *word != 0)?;
        Some(index as u32 * 64 + word.trailing_zeros())
    }

    /// Returns whether each node below a number is in this set or the other, or not in the third.
    pub(crate) fn covers_with(&self, other: &NodeSet, count: u32, wanted: Option<&NodeSet>) -> bool {
        let word = |set: &NodeSet, index: usize| set.0.get(index).copied().unwrap_or(0);
        let wanted = |index: usize| wanted.map_or(u64::MAX, |wanted| word(wanted, index));
        let missing = |index: usize| !(word(self, index) | word(other, index)) & wanted(index);
        let (full, rest) = (count as usize / 64, count % 64);
        (0..full).all(|index| missing(index) == 0) && missing(full) & ((1 << rest) - 1) == 0
    }

    pub fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}
