//! Counts what the calling thread takes from the heap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct CountingAllocator;

thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// Bytes and allocations of this thread so far.
pub fn allocated() -> (u64, u64) {
    (BYTES.get(), ALLOCATIONS.get())
}

/// Bytes that this thread has taken and not given back.
pub fn live_bytes() -> i64 {
    LIVE.get()
}

fn took(bytes: usize) {
    // At the end of a thread there is nobody left to count for.
    let _uncounted_at_exit = BYTES.try_with(|count| count.set(count.get() + bytes as u64));
    let _uncounted_at_exit = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    let _uncounted_at_exit = LIVE.try_with(|live| live.set(live.get() + bytes as i64));
}

fn gave_back(bytes: usize) {
    let _uncounted_at_exit = LIVE.try_with(|live| live.set(live.get() - bytes as i64));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of its own.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        gave_back(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
