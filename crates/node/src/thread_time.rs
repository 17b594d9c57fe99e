//! The processor time of a thread.

use std::mem::MaybeUninit;
use std::time::Duration;

/// What the calling thread has used so far; zero where the kernel does not say.
pub fn thread_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes a timespec behind the pointer, which is valid for that.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    if failed != 0 {
        return Duration::ZERO;
    }
    // SAFETY: the call succeeded, so the value was written.
    let time = unsafe { time.assume_init() };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
