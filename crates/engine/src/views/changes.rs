//! Updates of views in one buffer, so that a write that changes views takes nothing from the heap for them.

use std::ops::Range;

use helenus_rows::update::Update;

/// Packed updates, one behind the other.
#[derive(Debug, Default)]
pub struct Changes {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Changes {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Writes one more.
    pub(super) fn push<T>(&mut self, build: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let built = build(&mut self.bytes);
        self.ends.push(self.bytes.len());
        built
    }

    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all of them.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// Heap bytes that this keeps for the next.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(self.ends.iter().copied());
        ranges.map(|(start, end)| self.bytes.get(Range { start, end }).unwrap_or_default())
    }

    pub(super) fn to_vecs(&self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }

    /// Returns whether no two of them, nor any of them and `update`, are of the same partition.
    pub fn are_of_partitions_of_their_own(&self, update: &Update<'_>) -> bool {
        let partitions = || self.iter().filter_map(Update::decode_trusted);
        partitions().enumerate().all(|(place, change)| {
            let own = change.partition_bytes();
            own != update.partition_bytes()
                && partitions()
                    .take(place)
                    .all(|before| before.partition_bytes() != own)
        })
    }
}
