//! The allocator of every Helenus process: mimalloc, with a shorter way for what needs no more than a word's alignment.

mod ahead;

use std::alloc::{GlobalAlloc, Layout};

use std::io;

use libmimalloc_sys::{mi_malloc, mi_option_set, mi_realloc, mi_zalloc};
use mimalloc::MiMalloc;

pub use ahead::touch_ahead;

pub struct Allocator;

/// `mi_option_purge_delay` of mimalloc.h, in ms: how long freed memory stays with the process.
const PURGE_DELAY: i32 = 15;

/// From now on the process, and those that it starts, take no more memory of the system than they use: no huge pages, of which a part
/// would do, and what is freed goes back at once. Costs a write that fills a memtable a twentieth of its time.
///
/// # Errors
///
/// Those of the system, which has no huge pages then; the rest is done.
pub fn take_little() -> io::Result<()> {
    // SAFETY: an option that is read where memory is freed; every value will do.
    unsafe { mi_option_set(PURGE_DELAY, 0) };
    Ok(rustix::thread::disable_transparent_huge_pages(true)?)
}

/// Up to this alignment every block is good: mimalloc's smallest blocks are words. Its functions for aligned memory take
/// some 150 instructions more, to find out the same.
const WORD_ALIGN: usize = align_of::<usize>();

// SAFETY: memory comes from mimalloc and goes back to it, with the size that was asked for and an alignment of at least
// the layout's: blocks are aligned to a word, and what needs more goes through the functions for aligned memory.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= WORD_ALIGN {
            // SAFETY: any size will do; null says that there is no memory, as GlobalAlloc has it.
            let block: *mut u8 = unsafe { mi_malloc(layout.size()).cast() };
            ahead::note(block);
            block
        } else {
            // SAFETY: the caller's promises are passed on.
            unsafe { MiMalloc.alloc(layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
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
        if layout.align() <= WORD_ALIGN {
            // SAFETY: the caller got the pointer from here, so it is mimalloc's.
            unsafe { mi_realloc(pointer.cast(), new_size).cast() }
        } else {
            // SAFETY: the caller's promises are passed on.
            unsafe { MiMalloc.realloc(pointer, layout, new_size) }
        }
    }
}
