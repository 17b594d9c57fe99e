//! Memory of a segment of pages.
//!
//! It comes from the system by itself and goes back to it: in an allocator's hands, what segments of several sizes leave behind while a
//! cache grows and shrinks stays with the process (decision 35).

use std::io;

use memmap2::MmapMut;

/// Filled from its beginning.
#[derive(Debug)]
pub(crate) struct SegmentMemory {
    map: MmapMut,
    length: usize,
}

impl SegmentMemory {
    /// For so many bytes; the system gives memory for those that are there.
    ///
    /// # Errors
    ///
    /// The system has no memory, or no more mappings.
    pub fn with_capacity(bytes: usize) -> io::Result<Self> {
        Ok(SegmentMemory {
            map: MmapMut::map_anon(bytes)?,
            length: 0,
        })
    }

    pub fn capacity(&self) -> usize {
        self.map.len()
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn room(&self) -> usize {
        self.map.len() - self.length
    }

    /// A part of what is there; empty if it is not.
    pub fn part(&self, start: usize, length: usize) -> &[u8] {
        let end = start.saturating_add(length);
        let filled = self.map.get(..self.length).unwrap_or_default();
        filled.get(start..end).unwrap_or_default()
    }

    /// Nothing is added where there is no room for all.
    pub fn append(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(room) = self.map.get_mut(self.length..end) {
            room.copy_from_slice(bytes);
            self.length = end;
        }
    }

    /// Forgets all but some parts, and moves those together: each is a start and a length, in the order in which they lie. Returns where
    /// each begins then.
    pub fn keep_only(&mut self, parts: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
        let filled = self.length;
        self.length = 0;
        let moved = parts.map(|(start, length)| {
            let to = self.length;
            let end = start.saturating_add(length);
            if to <= start && end <= filled {
                self.map.copy_within(start..end, to);
                self.length = to + length;
            }
            to
        });
        moved.collect()
    }

    pub fn clear(&mut self) {
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> SegmentMemory {
        let mut memory = SegmentMemory::with_capacity(10).unwrap();
        memory.append(b"abc");
        memory.append(b"defgh");
        memory
    }

    #[test]
    fn it_has_what_was_added_as_long_as_there_was_room() {
        let mut memory = filled();
        memory.append(b"ijk");
        assert_eq!((memory.len(), memory.room(), memory.capacity()), (8, 2, 10));
        assert_eq!(memory.part(2, 4), b"cdef");
        assert_eq!(memory.part(6, 3), b"");
        assert_eq!(memory.part(usize::MAX, 3), b"");
        memory.append(b"ij");
        assert_eq!((memory.part(0, 10), memory.room()), (&b"abcdefghij"[..], 0));
        memory.clear();
        assert_eq!((memory.len(), memory.part(0, 1)), (0, &b""[..]));
    }

    #[test]
    fn parts_that_stay_lie_together_and_more_can_be_added_to_them() {
        let mut memory = filled();
        assert_eq!(memory.keep_only([(1, 2), (5, 3)].into_iter()), [0, 2]);
        memory.append(b"xyz");
        assert_eq!(memory.part(0, 8), b"bcfghxyz");
    }
}
