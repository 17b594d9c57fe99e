//! Time as a history tells it.

use std::sync::atomic::{AtomicI64, Ordering};

use helenus_vfs::{Clock, SystemClock};

/// The wall clock stands still but for what the history says, so that all nodes see one time; the monotonic one is the
/// machine's, for timeouts and paces.
#[derive(Debug)]
pub struct HistoryClock {
    wall_us: AtomicI64,
    machine: SystemClock,
}

/// 2023-11-14T22:13:20Z: later than every timestamp of a history, far enough from 2038 for its expiries.
pub const START_S: i64 = 1_700_000_000;

impl HistoryClock {
    pub fn new() -> Self {
        HistoryClock {
            wall_us: AtomicI64::new(START_S * 1_000_000),
            machine: SystemClock::new(),
        }
    }

    /// Also backwards.
    pub fn advance_us(&self, microseconds: i64) {
        self.wall_us.fetch_add(microseconds, Ordering::Relaxed);
    }
}

impl Clock for HistoryClock {
    fn wall_us(&self) -> i64 {
        self.wall_us.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.machine.monotonic_ns()
    }
}
