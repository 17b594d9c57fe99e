//! An allocator that counts, for each thread, what the code under test asks for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// A thread that is ending has no counters left; what it still does is not measured.
fn changed(bytes: i64, is_allocation: bool) {
    let _ = LIVE_BYTES.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
    if is_allocation {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    }
}

// SAFETY: every call is passed on to the system's allocator with the arguments it came with; counting allocates
// nothing, as the counters are constant-initialised and have no destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        changed(layout.size() as i64, true);
        // SAFETY: the caller's promises for `alloc` are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        changed(-(layout.size() as i64), false);
        // SAFETY: `pointer` came from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        changed(bytes as i64 - layout.size() as i64, true);
        // SAFETY: `pointer` came from the system's allocator, with this layout.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// Runs `work` and returns how often it allocated.
pub fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

/// Runs `work` and returns the most bytes it held at once.
pub fn peak_bytes_of(work: impl FnOnce()) -> i64 {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    work();
    PEAK_BYTES.get() - before
}
