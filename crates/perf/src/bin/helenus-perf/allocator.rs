//! The product's allocator, and a count of allocations while a benchmark asks for one.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use helenus_allocator::Allocator;
use helenus_perf::simple_query::AllocationCounter;

pub struct CountingAllocator;

/// Outside a count an allocation pays one load and a branch that is never taken.
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

// SAFETY: every call is passed on to the product's allocator with the arguments it came with. Counting touches only atomics
// and never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNTER.allocated();
        // SAFETY: the caller's promises are passed on.
        unsafe { Allocator.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNTER.allocated();
        // SAFETY: the caller's promises are passed on.
        unsafe { Allocator.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { Allocator.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        COUNTER.allocated();
        // SAFETY: the caller's promises are passed on.
        unsafe { Allocator.realloc(pointer, layout, new_size) }
    }
}
