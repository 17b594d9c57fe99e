//! Memory of a segment of pages.
//!
//! It comes from the system by itself and goes back to it: in an allocator's hands, what segments of several sizes leave behind while a
//! cache grows and shrinks stays with the process (decision 35).
//!
//! It is read while it is filled, so that a page is made where it stays and is read where it lies: what is filled does not change as long
//! as anybody but its writer has the memory.

use std::io;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{MmapMut, MmapRaw};

/// Filled from its beginning by its [`SegmentWriter`]; the others read.
#[derive(Debug)]
pub(crate) struct SegmentMemory {
    map: MmapRaw,
    filled: AtomicUsize,
}

/// The only one that fills its memory. Not to be cloned: what two fill would overlap.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    memory: Arc<SegmentMemory>,
}

impl SegmentMemory {
    /// A part of what is filled; empty if it is not.
    pub fn part(&self, start: usize, length: usize) -> &[u8] {
        let filled = self.filled.load(Ordering::Acquire);
        match start.checked_add(length) {
            // SAFETY: the part lies in the mapping, whose bytes are initialized (zeroes at first), and below what is filled: that part is
            // written to only through `Arc::get_mut`, so while nobody else has this.
            Some(end) if end <= filled => unsafe {
                slice::from_raw_parts(self.map.as_ptr().add(start), length)
            },
            _ => &[],
        }
    }
}

impl SegmentWriter {
    /// For so many bytes; the system gives memory for those that are there.
    ///
    /// # Errors
    ///
    /// The system has no memory, or no more mappings.
    pub fn with_capacity(bytes: usize) -> io::Result<Self> {
        let memory = SegmentMemory {
            map: MmapMut::map_anon(bytes)?.into(),
            filled: AtomicUsize::new(0),
        };
        Ok(SegmentWriter {
            memory: Arc::new(memory),
        })
    }

    pub fn memory(&self) -> &Arc<SegmentMemory> {
        &self.memory
    }

    pub fn capacity(&self) -> usize {
        self.memory.map.len()
    }

    pub fn filled(&self) -> usize {
        self.memory.filled.load(Ordering::Relaxed)
    }

    pub fn room(&self) -> usize {
        self.capacity() - self.filled()
    }

    /// Adds so many bytes, which `fill` makes; nothing where there is no room for all, or with its error. It finds what was there before.
    pub fn append<E>(
        &mut self,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let filled = self.filled();
        if length > self.room() {
            return Ok(());
        }
        // SAFETY: the part lies in the mapping, whose bytes are initialized (zeroes at first), and behind what is filled, of which alone
        // others have parts; no other writer has it, since there is one and it is borrowed.
        let room = unsafe { slice::from_raw_parts_mut(self.memory.map.as_mut_ptr().add(filled), length) };
        fill(room)?;
        self.memory.filled.store(filled + length, Ordering::Release);
        Ok(())
    }

    /// Forgets all but some parts, and moves those together: each is a start and a length, in the order in which they lie. Returns where
    /// each begins then; `None`, and nothing is done, while somebody else has the memory.
    pub fn keep_only(&mut self, parts: impl Iterator<Item = (usize, usize)>) -> Option<Vec<usize>> {
        let memory = Arc::get_mut(&mut self.memory)?;
        let filled = memory.filled.get_mut();
        // SAFETY: the whole mapping, whose bytes are initialized (zeroes at first), and nobody else has it.
        let bytes = unsafe { slice::from_raw_parts_mut(memory.map.as_mut_ptr(), memory.map.len()) };
        let filled_before = std::mem::take(filled);
        let moved = parts.map(|(start, length)| {
            let to = *filled;
            let end = start.saturating_add(length);
            if to <= start && end <= filled_before {
                bytes.copy_within(start..end, to);
                *filled = to + length;
            }
            to
        });
        Some(moved.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(writer: &mut SegmentWriter, bytes: &[u8]) {
        let fill = |room: &mut [u8]| -> Result<(), ()> {
            room.copy_from_slice(bytes);
            Ok(())
        };
        writer.append(bytes.len(), fill).unwrap();
    }

    fn filled() -> SegmentWriter {
        let mut writer = SegmentWriter::with_capacity(10).unwrap();
        add(&mut writer, b"abc");
        add(&mut writer, b"defgh");
        writer
    }

    #[test]
    fn it_has_what_was_added_as_long_as_there_was_room() {
        let mut writer = filled();
        add(&mut writer, b"ijk");
        assert_eq!((writer.filled(), writer.room(), writer.capacity()), (8, 2, 10));
        let memory = Arc::clone(writer.memory());
        assert_eq!(memory.part(2, 4), b"cdef");
        assert_eq!(memory.part(6, 3), b"");
        assert_eq!(memory.part(usize::MAX, 3), b"");
        add(&mut writer, b"ij");
        assert_eq!((memory.part(0, 10), writer.room()), (&b"abcdefghij"[..], 0));
    }

    #[test]
    fn what_is_read_stays_while_more_is_added_behind_it() {
        let mut writer = filled();
        let memory = Arc::clone(writer.memory());
        let read = memory.part(0, 8);
        add(&mut writer, b"ij");
        assert_eq!(read, b"abcdefgh");
        assert_eq!(writer.keep_only([(1, 2)].into_iter()), None);
        assert_eq!(memory.part(0, 10), b"abcdefghij");
    }

    #[test]
    fn what_could_not_be_made_is_not_there() {
        let mut writer = filled();
        let fails = |room: &mut [u8]| {
            room.fill(b'x');
            Err("corrupt")
        };
        assert_eq!(writer.append(2, fails), Err("corrupt"));
        assert_eq!((writer.filled(), writer.memory().part(7, 2)), (8, &b""[..]));
        add(&mut writer, b"i");
        assert_eq!(writer.memory().part(7, 2), b"hi");
    }

    #[test]
    fn parts_that_stay_lie_together_and_more_can_be_added_to_them() {
        let mut writer = filled();
        assert_eq!(writer.keep_only([(1, 2), (5, 3)].into_iter()), Some(vec![0, 2]));
        add(&mut writer, b"xyz");
        assert_eq!(writer.memory().part(0, 8), b"bcfghxyz");
        assert_eq!(writer.keep_only([].into_iter()), Some(vec![]));
        assert_eq!((writer.filled(), writer.memory().part(0, 1)), (0, &b""[..]));
    }
}
