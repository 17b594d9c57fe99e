//! Heap use of tests: an allocator that counts. A test binary that calls anything of this crate has it.
//!
//! Counts of a thread are for tests that share their process with others; memory that one thread takes and another gives
//! back makes them drift apart, so what several threads do together is counted for the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct CountingAllocator;

/// Counts since the beginning of a thread or the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Growing or shrinking in place counts as one.
    pub allocations: u64,
    /// Ever taken.
    pub allocated_bytes: u64,
    /// Taken and not given back; below zero in a thread that gives back what others took.
    pub live_bytes: i64,
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static ALLOCATED_BYTES: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
    static PEAK_LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
    static LARGEST_BYTES: Cell<usize> = const { Cell::new(0) };
}

static PROCESS_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static PROCESS_ALLOCATED_BYTES: AtomicU64 = AtomicU64::new(0);
static PROCESS_LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PROCESS_PEAK_LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PROCESS_TURN: Mutex<()> = Mutex::new(());

/// Returns the counts of the calling thread.
pub fn of_thread() -> Heap {
    Heap {
        allocations: ALLOCATIONS.get(),
        allocated_bytes: ALLOCATED_BYTES.get(),
        live_bytes: LIVE_BYTES.get(),
    }
}

/// Returns the counts of all threads together.
pub fn of_process() -> Heap {
    Heap {
        allocations: PROCESS_ALLOCATIONS.load(Ordering::Relaxed),
        allocated_bytes: PROCESS_ALLOCATED_BYTES.load(Ordering::Relaxed),
        live_bytes: PROCESS_LIVE_BYTES.load(Ordering::Relaxed) as i64,
    }
}

/// How often `work` takes from the heap, in this thread.
pub fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// The most bytes that this thread holds at once in `work`, beyond what it held before.
pub fn peak_bytes_of(work: impl FnOnce()) -> i64 {
    let before = LIVE_BYTES.get();
    PEAK_LIVE_BYTES.set(before);
    work();
    PEAK_LIVE_BYTES.get() - before
}

/// The size in bytes of the largest piece that this thread asks for in `work`.
pub fn largest_allocation_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST_BYTES.set(0);
    let result = work();
    (result, LARGEST_BYTES.get())
}

/// The most bytes that the process holds at once in `work`, beyond what it held before.
pub fn process_peak_bytes_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = PROCESS_LIVE_BYTES.load(Ordering::Relaxed);
    PROCESS_PEAK_LIVE_BYTES.store(before, Ordering::Relaxed);
    let result = work();
    let peak = PROCESS_PEAK_LIVE_BYTES.load(Ordering::Relaxed);
    (result, peak.saturating_sub(before))
}

/// Held by tests of one binary that count for the process, so that they go one after the other.
pub fn process_turn() -> MutexGuard<'static, ()> {
    PROCESS_TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn taken(bytes: usize) {
    PROCESS_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    PROCESS_ALLOCATED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    let live = PROCESS_LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PROCESS_PEAK_LIVE_BYTES.fetch_max(live, Ordering::Relaxed);
    // A thread that is ending has no counters left, and nobody who asks for them.
    let _uncounted_at_exit = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    let _uncounted_at_exit = ALLOCATED_BYTES.try_with(|count| count.set(count.get() + bytes as u64));
    let _uncounted_at_exit = LARGEST_BYTES.try_with(|largest| largest.set(largest.get().max(bytes)));
    let _uncounted_at_exit = LIVE_BYTES.try_with(|live| {
        live.set(live.get() + bytes as i64);
        let _uncounted_at_exit = PEAK_LIVE_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

fn given_back(bytes: usize) {
    PROCESS_LIVE_BYTES.fetch_sub(bytes, Ordering::Relaxed);
    let _uncounted_at_exit = LIVE_BYTES.try_with(|live| live.set(live.get() - bytes as i64));
}

// SAFETY: every call is passed on to the system's allocator with the arguments it came with. Counting allocates nothing: the
// counters are constant-initialised and have no destructors.
unsafe impl GlobalAlloc for CountingAllocator {
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
        // Both at once, as where it cannot grow in place.
        taken(bytes);
        given_back(layout.size());
        // SAFETY: as for `dealloc`; `bytes` is the caller's promise.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_its_own() {
        let before = of_thread();
        let held = vec![0_u8; 1_000];
        let after = of_thread();
        assert_eq!(after.allocations - before.allocations, 1);
        assert_eq!(after.allocated_bytes - before.allocated_bytes, 1_000);
        assert_eq!(after.live_bytes - before.live_bytes, 1_000);
        drop(held);
        assert_eq!(of_thread().live_bytes, before.live_bytes);
    }

    #[test]
    fn a_peak_is_what_was_held_at_once() {
        let one_after_the_other = peak_bytes_of(|| (0..10).for_each(|_| drop(vec![0_u8; 1_000])));
        let together = peak_bytes_of(|| drop([vec![0_u8; 1_000], vec![0; 1_000]]));
        assert_eq!((one_after_the_other, together), (1_000, 2_000));
    }

    #[test]
    fn what_other_threads_hold_is_the_process_s() {
        const HELD_BYTES: usize = 16 << 20;
        /// The other tests and what runs them may give back meanwhile what they held before.
        const OTHERS_BYTES: usize = 1 << 20;
        let _alone = process_turn();
        let in_thread = || {
            std::thread::spawn(|| vec![0_u8; HELD_BYTES])
                .join()
                .map(|held| held.len())
        };
        let (result, peak) = process_peak_bytes_of(in_thread);
        assert_eq!(result.ok(), Some(HELD_BYTES));
        assert!(peak >= HELD_BYTES - OTHERS_BYTES, "{peak}");
        assert_eq!(largest_allocation_of(|| vec![0_u8; 4_321]).1, 4_321);
    }
}
