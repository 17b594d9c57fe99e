//! An allocator that knows how much was taken at most, by all threads together.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Measurements share one count: they go one after the other.
static TURN: Mutex<()> = Mutex::new(());

struct Counting;

fn taken(bytes: usize) {
    let now = TAKEN.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

fn given_back(bytes: usize) {
    TAKEN.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator with the arguments it came with; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promises for `alloc` are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: `pointer` came from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        taken(bytes);
        given_back(layout.size());
        // SAFETY: `pointer` came from the system's allocator, with this layout.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// What a test takes while it runs, for itself.
pub fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs `work` and returns how many bytes were taken at most meanwhile, beyond those before.
pub fn of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = TAKEN.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (result, PEAK.load(Ordering::Relaxed).saturating_sub(before))
}
