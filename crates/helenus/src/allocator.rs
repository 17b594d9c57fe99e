//! The process's allocator: mimalloc, and a count of allocations while a benchmark asks for one.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use helenus_perf::simple_query::AllocationCounter;
use mimalloc::MiMalloc;

pub struct CountingAllocator;

/// Switched on by benchmarks only; otherwise an allocation pays one load and a branch that is never taken.
pub static COUNTER: Counter = Counter {
    enabled: AtomicBool::new(false),
    count: AtomicU64::new(0),
};

pub struct Counter {
    enabled: AtomicBool,
    count: AtomicU64,
}

impl AllocationCounter for Counter {
    fn start(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.enabled.store(true, Ordering::Relaxed);
    }

    fn stop(&self) -> u64 {
        self.enabled.store(false, Ordering::Relaxed);
        self.count.load(Ordering::Relaxed)
    }
}

impl Counter {
    #[inline]
    fn allocated(&self) {
        if self.enabled.load(Ordering::Relaxed) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// SAFETY: every method passes its arguments unchanged to MiMalloc, which upholds the contract of GlobalAlloc; counting
// touches only atomics and never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNTER.allocated();
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNTER.allocated();
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        COUNTER.allocated();
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.realloc(pointer, layout, new_size) }
    }
}
