//! An allocator that remembers the largest piece asked for by a thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Measuring;

fn asked_for(bytes: usize) {
    // While a thread ends its counter may be gone; nobody asks for it then.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: every call is passed on to the system's allocator with the arguments it came with; measuring allocates
// nothing, as the counter is constant-initialised and has no destructor.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        asked_for(layout.size());
        // SAFETY: the caller's promises for `alloc` are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        asked_for(bytes);
        // SAFETY: `pointer` came from the system's allocator, with this layout.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// Runs `work` and returns the size of the largest allocation in it.
pub fn largest_allocation_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.set(0);
    let result = work();
    (result, LARGEST.get())
}
