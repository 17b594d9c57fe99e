//! Time: the wall clock that stamps writes and counts TTLs, and the monotonic one that measures.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

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

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    pub fn new() -> Self {
        SystemClock {
            start: Instant::now(),
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
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            // A clock before 1970 is a machine without a battery; TTLs then start at the epoch.
            Err(_) => 0,
        }
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
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
    fn system_clock_is_after_2020() {
        assert!(SystemClock::new().wall_s() > 1_577_836_800);
    }
}
