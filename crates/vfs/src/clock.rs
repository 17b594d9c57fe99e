//! Time: the wall clock that stamps writes and counts TTLs, and the monotonic one that measures.

use std::fmt::Debug;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub trait Clock: Send + Sync + Debug {
    /// Microseconds since the Unix epoch. May jump in both directions.
    fn wall_us(&self) -> i64;

    /// Nanoseconds since an arbitrary start. Never goes back.
    fn monotonic_ns(&self) -> u64;

    /// Seconds since the Unix epoch, as deletions and expirations count them.
    fn wall_s(&self) -> u32 {
        u32::try_from(self.wall_us() / 1_000_000).unwrap_or(0)
    }
}

/// The machine's clocks. Each write looks at one of them, which takes 30 instructions; by way of `SystemTime` and `Instant`
/// it is 95.
#[derive(Debug)]
pub struct SystemClock {
    start_ns: u64,
}

impl SystemClock {
    pub fn new() -> Self {
        SystemClock {
            start_ns: nanoseconds(&read(libc::CLOCK_MONOTONIC)),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn wall_us(&self) -> i64 {
        let time = read(libc::CLOCK_REALTIME);
        // A clock before 1970 is a machine without a battery; TTLs then start at the epoch.
        (time.tv_sec * 1_000_000 + time.tv_nsec / 1_000).max(0)
    }

    fn monotonic_ns(&self) -> u64 {
        nanoseconds(&read(libc::CLOCK_MONOTONIC)).saturating_sub(self.start_ns)
    }
}

/// The processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    let time = read(libc::CLOCK_THREAD_CPUTIME_ID);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The processor time that all threads of the process have used.
pub fn process_time() -> Duration {
    let time = read(libc::CLOCK_PROCESS_CPUTIME_ID);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes a timespec behind the pointer, which is valid for that.
    let failed = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    assert!(failed == 0, "the machine has no clock {clock}");
    // SAFETY: the call succeeded, so the value was written.
    unsafe { time.assume_init() }
}

/// Returns nanoseconds of the monotonic clock, which counts from the machine's start.
fn nanoseconds(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A clock that moves only when told to; both hands move together.
#[derive(Debug)]
pub struct ManualClock {
    wall_start_us: i64,
    elapsed_ns: AtomicU64,
}

impl ManualClock {
    pub fn starting_at(wall_us: i64) -> Self {
        ManualClock {
            wall_start_us: wall_us,
            elapsed_ns: AtomicU64::new(0),
        }
    }

    pub fn advance_ns(&self, nanoseconds: u64) {
        self.elapsed_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub fn advance_s(&self, seconds: u64) {
        self.advance_ns(seconds.saturating_mul(1_000_000_000));
    }
}

impl Clock for ManualClock {
    fn wall_us(&self) -> i64 {
        self.wall_start_us
            .saturating_add((self.monotonic_ns() / 1_000) as i64)
    }

    fn monotonic_ns(&self) -> u64 {
        self.elapsed_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn manual_clock_moves_both_hands() {
        let clock = ManualClock::starting_at(5_000_000);
        assert_eq!((clock.wall_s(), clock.monotonic_ns()), (5, 0));
        clock.advance_s(2);
        assert_eq!(
            (clock.wall_us(), clock.monotonic_ns()),
            (7_000_000, 2_000_000_000)
        );
    }

    #[test]
    fn the_systems_wall_clock_says_what_the_standard_library_says() {
        let wall_us = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.unwrap().as_micros() as i64
        };
        let before_us = wall_us();
        let seen_us = SystemClock::new().wall_us();
        assert!((before_us..=wall_us()).contains(&seen_us));
    }

    #[test]
    fn the_systems_monotonic_clock_counts_nanoseconds_from_its_start() {
        let (outer, clock) = (Instant::now(), SystemClock::new());
        let inner = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        let least_ns = inner.elapsed().as_nanos() as u64;
        let seen_ns = clock.monotonic_ns();
        assert!((least_ns..=outer.elapsed().as_nanos() as u64).contains(&seen_ns));
    }
}
