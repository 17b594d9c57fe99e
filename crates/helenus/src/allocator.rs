//! The process's allocator: mimalloc, and a count of allocations while a benchmark asks for one.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use helenus_perf::simple_query::AllocationCounter;
use libmimalloc_sys::{mi_malloc, mi_realloc, mi_zalloc};
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

/// Up to this alignment every block is good: mimalloc's smallest blocks are words. Its functions for aligned memory take
/// some 150 instructions more, to find out the same.
const WORD_ALIGN: usize = align_of::<usize>();

// SAFETY: memory comes from mimalloc and goes back to it, with the size that was asked for and an alignment of at least
// the layout's: blocks are aligned to a word, and what needs more goes through the functions for aligned memory. Counting
// touches only atomics and never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNTER.allocated();
        if layout.align() <= WORD_ALIGN {
            // SAFETY: any size will do; null says that there is no memory, as GlobalAlloc has it.
            unsafe { mi_malloc(layout.size()).cast() }
        } else {
            // SAFETY: the caller's promises are passed on.
            unsafe { MiMalloc.alloc(layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNTER.allocated();
        if layout.align() <= WORD_ALIGN {
            // SAFETY: as in `alloc`.
            unsafe { mi_zalloc(layout.size()).cast() }
        } else {
            // SAFETY: the caller's promises are passed on.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on; mimalloc frees what any of its functions gave.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        COUNTER.allocated();
        if layout.align() <= WORD_ALIGN {
            // SAFETY: the caller got the pointer from here, so it is mimalloc's.
            unsafe { mi_realloc(pointer.cast(), new_size).cast() }
        } else {
            // SAFETY: the caller's promises are passed on.
            unsafe { MiMalloc.realloc(pointer, layout, new_size) }
        }
    }
}
