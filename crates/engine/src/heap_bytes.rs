//! How much of the heap a plan holds, for those who keep plans and have a bound for it.
//!
//! What plans share with the schema (tables, columns, types) is not counted: it is there without them.

use std::mem::size_of;
use std::sync::Arc;

/// Bytes that the allocator adds to each piece: its own word, and what rounding up to 16 costs on average.
const ALLOCATION_OVERHEAD_BYTES: usize = 16;

/// Heap bytes that a value holds besides itself; an estimate within some percents.
pub(crate) trait HeapBytes {
    fn heap_bytes(&self) -> usize;
}

/// A piece of so many bytes.
pub(crate) fn allocation_bytes(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        _ => bytes + ALLOCATION_OVERHEAD_BYTES,
    }
}

/// Vectors of what holds nothing of the heap itself, or nothing that is not shared.
pub(crate) fn flat_bytes<T>(values: &Vec<T>) -> usize {
    allocation_bytes(values.capacity() * size_of::<T>())
}

impl<T: HeapBytes> HeapBytes for Vec<T> {
    fn heap_bytes(&self) -> usize {
        flat_bytes(self) + self.iter().map(HeapBytes::heap_bytes).sum::<usize>()
    }
}

impl<T: HeapBytes> HeapBytes for Option<T> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, HeapBytes::heap_bytes)
    }
}

impl<T: HeapBytes> HeapBytes for Box<T> {
    fn heap_bytes(&self) -> usize {
        allocation_bytes(size_of::<T>()) + (**self).heap_bytes()
    }
}

impl HeapBytes for Box<[u8]> {
    fn heap_bytes(&self) -> usize {
        allocation_bytes(self.len())
    }
}

impl HeapBytes for String {
    fn heap_bytes(&self) -> usize {
        allocation_bytes(self.capacity())
    }
}

/// As if nobody else had it.
impl HeapBytes for Arc<str> {
    fn heap_bytes(&self) -> usize {
        // Two counts stand in front of the text.
        allocation_bytes(self.len() + 2 * size_of::<usize>())
    }
}

impl<A: HeapBytes, B: HeapBytes> HeapBytes for (A, B) {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes() + self.1.heap_bytes()
    }
}
