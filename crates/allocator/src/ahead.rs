//! Memory that the heap grows into, touched before it is needed.
//!
//! mimalloc has 1 GiB of addresses at a time, asks for huge pages, and goes through them from the front. The first touch of a huge page
//! has the kernel fill 2 MiB with zeros: 0.2 ms, and 5 ms on a virtual machine whose host finds its memory only then. Whoever
//! touches it waits, and behind a shard all of its clients: at 60,000 small writes a second every fiftieth write took 4 ms. So a thread
//! that gives way to all others touches what comes next.

use std::fs;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

use rustix::mm::{Advice, madvise};

/// Up to here the heap of a process that does little is left alone.
const LEFT_ALONE_BYTES: usize = 16 << 20;

/// Touched beyond the last block that was seen: at 100 MB a second of new memory, 80 ms worth of it.
const AHEAD_BYTES: usize = 8 << 20;

/// Part of that which is left when more is touched.
const LEFT_BYTES: usize = 4 << 20;

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Smaller mappings are not the allocator's own, but blocks too large for it.
const ARENA_BYTES_MIN: usize = 64 << 20;

/// Blocks that begin so far behind [`WATCHED`] are the heap's, its next addresses included.
const REACH_BYTES: usize = 2 << 30;

/// No block lies behind it.
const NOWHERE: usize = usize::MAX / 2;

/// A block at this address or behind it means that more is to be touched.
static WATCHED: AtomicUsize = AtomicUsize::new(NOWHERE);

/// The block that was seen there.
static SEEN: AtomicUsize = AtomicUsize::new(0);

static TOUCHING: OnceLock<Thread> = OnceLock::new();

/// Looks at a new block.
#[inline]
pub fn note(block: *mut u8) {
    let address = block as usize;
    if address.wrapping_sub(WATCHED.load(Ordering::Relaxed)) < REACH_BYTES {
        has_grown(address);
    }
}

/// Takes no lock and nothing from the heap.
#[cold]
fn has_grown(address: usize) {
    WATCHED.store(NOWHERE, Ordering::Relaxed);
    SEEN.store(address, Ordering::Relaxed);
    if let Some(thread) = TOUCHING.get() {
        thread.unpark();
    }
}

/// From now on memory is touched before the heap of this process grows into it, by a thread that begins with `give_way`.
///
/// # Errors
///
/// Those of the system, which starts no thread or does not say where the heap is. Memory is touched when it is needed then.
pub fn touch_ahead(give_way: fn()) -> io::Result<()> {
    let block = Box::new(0_u64);
    let arena = arena_of(&raw const *block as usize)?;
    let thread = thread::Builder::new().name("heap".to_owned()).spawn(move || {
        give_way();
        touch(arena);
    })?;
    let _first_of_the_process = TOUCHING.set(thread.thread().clone());
    Ok(())
}

/// The mapping that holds an address.
fn arena_of(address: usize) -> io::Result<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let mapping = maps
        .lines()
        .filter_map(range_of_line)
        .find(|range| range.contains(&address));
    mapping
        .filter(|range| range.len() >= ARENA_BYTES_MIN)
        .ok_or_else(|| io::Error::other("the heap is in no mapping of its own"))
}

/// The addresses at the beginning of a line of `/proc/self/maps`.
fn range_of_line(line: &str) -> Option<Range<usize>> {
    let (range, _) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(number(begin)?..number(end)?)
}

fn touch(mut arena: Range<usize>) {
    let mut touched = arena.start + LEFT_ALONE_BYTES;
    loop {
        WATCHED.store(touched.saturating_sub(LEFT_BYTES), Ordering::Relaxed);
        thread::park();
        let seen = SEEN.load(Ordering::Relaxed);
        if WATCHED.load(Ordering::Relaxed) != NOWHERE {
            continue;
        }
        if !arena.contains(&seen) {
            let Ok(next) = arena_of(seen) else { return };
            (arena, touched) = (next, seen);
        }
        let until = (seen + AHEAD_BYTES)
            .next_multiple_of(HUGE_PAGE_BYTES)
            .min(arena.end);
        let from = touched.max(seen).next_multiple_of(HUGE_PAGE_BYTES);
        if from < until {
            // SAFETY: this advice changes the content of no mapping: a page that is there stays as it is, one that is not is zero, as it
            // would be when somebody else touched it first, and what may not be written is an error.
            let populated = unsafe { madvise(from as *mut _, until - from, Advice::LinuxPopulateWrite) };
            if populated.is_err() {
                return WATCHED.store(NOWHERE, Ordering::Relaxed);
            }
        }
        touched = touched.max(until);
        if touched >= arena.end {
            // What comes behind is the next mapping, and touched once it was seen.
            touched += LEFT_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_begin_with_their_addresses() {
        let line = "59ed2400000-59f12400000 rw-p 00000000 00:00 0 ";
        assert_eq!(range_of_line(line), Some(0x59e_d240_0000..0x59f_1240_0000));
        assert_eq!(range_of_line("[heap]"), None);
    }
}
