//! How long the shard's thread is held by one piece of work: others wait for it.
//!
//! Measured in the thread's own processor time, so that a machine whose cores do other things too does not count as a
//! stall. A thread that sleeps in a system call goes unnoticed; no piece of work of a shard makes one that waits.

use std::cell::Cell;
use std::time::Duration;

use helenus_vfs::thread_time;

/// The environment variable that turns the detector on: milliseconds from which on a stall is reported.
const THRESHOLD_VARIABLE: &str = "HELENUS_STALL_MS";

/// Measures pieces of work where [`THRESHOLD_VARIABLE`] is set; else costs a branch each.
#[derive(Debug, Default)]
pub struct StallDetector {
    threshold: Option<Duration>,
    stalls: Cell<u64>,
    longest: Cell<Duration>,
}

impl StallDetector {
    pub fn from_environment() -> Self {
        let threshold = std::env::var(THRESHOLD_VARIABLE).ok();
        let threshold_ms = threshold.and_then(|text| text.parse::<f64>().ok());
        StallDetector {
            threshold: threshold_ms
                .filter(|threshold_ms| threshold_ms.is_finite() && *threshold_ms >= 0.0)
                .map(|threshold_ms| Duration::from_secs_f64(threshold_ms / 1_000.0)),
            ..StallDetector::default()
        }
    }

    #[inline]
    pub fn watch<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let Some(threshold) = self.threshold else {
            return work();
        };
        let begun = thread_time();
        let result = work();
        let took = thread_time().saturating_sub(begun);
        self.longest.set(self.longest.get().max(took));
        if took >= threshold {
            self.stalls.set(self.stalls.get() + 1);
            eprintln!(
                "stall {}: {what} held the shard for {took:.1?} (longest {:.1?})",
                self.stalls.get(),
                self.longest.get()
            );
        }
        result
    }
}
