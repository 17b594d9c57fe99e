//! The time of a simulated node: it stands still while anything can be done, and else jumps to what comes next.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use helenus_vfs::Clock;
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z, an arbitrary day: a seed must not depend on when it runs.
const WALL_START_US: i64 = 1_767_225_600_000_000;

/// Follows the paused time of the runtime that a life of the node runs in; between two lives it stands still.
#[derive(Debug, Default)]
pub struct SimulatedClock {
    past_ns: AtomicU64,
    life: Mutex<Option<Instant>>,
    wall_offset_us: AtomicI64,
}

impl SimulatedClock {
    /// Another clock that stands where this one does.
    pub fn copy(&self) -> SimulatedClock {
        SimulatedClock {
            past_ns: self.monotonic_ns().into(),
            life: Mutex::default(),
            wall_offset_us: self.wall_offset_us.load(Ordering::Relaxed).into(),
        }
    }

    /// Inside the runtime of the life that begins.
    pub fn life_begins(&self) {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Inside the runtime of the life that ends.
    pub fn life_ends(&self) {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = life.take() {
            self.past_ns.fetch_add(elapsed_ns(begun), Ordering::Relaxed);
        }
    }

    /// Somebody sets the wall clock; the monotonic one knows nothing of it.
    pub fn jump_wall_us(&self, microseconds: i64) {
        self.wall_offset_us.fetch_add(microseconds, Ordering::Relaxed);
    }

    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.monotonic_ns())
    }
}

fn elapsed_ns(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Clock for SimulatedClock {
    fn wall_us(&self) -> i64 {
        let elapsed_us = i64::try_from(self.monotonic_ns() / 1_000).unwrap_or(i64::MAX);
        WALL_START_US + elapsed_us + self.wall_offset_us.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        let life = *self.life.lock().unwrap_or_else(PoisonError::into_inner);
        self.past_ns.load(Ordering::Relaxed) + life.map_or(0, elapsed_ns)
    }
}
