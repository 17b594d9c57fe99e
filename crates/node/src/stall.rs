//! How long a shard's thread is held by one piece of work: others wait for it.
//!
//! Measured in the thread's own processor time, so that a machine whose cores do other things too does not count as a
//! stall. A thread that sleeps in a system call goes unnoticed; no piece of work of a shard makes one that waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helenus_events::{Event, Events};
use helenus_vfs::thread_time;

/// The environment variable that has stalls printed: milliseconds from which on one counts.
const THRESHOLD_VARIABLE: &str = "HELENUS_STALL_MS";

/// Where the shards of a node say how long they were held; see [`NodeOptions::stalls`](crate::NodeOptions::stalls).
#[derive(Debug)]
pub struct Stalls {
    threshold: Duration,
    /// Recipient of an event for each stall.
    events: Option<Events>,
    seen: Mutex<StallsSeen>,
}

/// Stalls of shards since somebody last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallsSeen {
    /// Pieces of work that took the threshold or longer.
    pub count: u64,
    /// Longest of all pieces of work, in the thread's processor time.
    pub longest: Duration,
    /// Name of the longest piece of work.
    pub what: &'static str,
}

impl Stalls {
    pub fn from_environment(events: &Events) -> Option<Arc<Self>> {
        let threshold = std::env::var(THRESHOLD_VARIABLE).ok();
        let threshold_ms = threshold.and_then(|text| text.parse::<f64>().ok());
        let threshold_ms =
            threshold_ms.filter(|threshold_ms| threshold_ms.is_finite() && *threshold_ms >= 0.0)?;
        Some(Arc::new(Stalls {
            threshold: Duration::from_secs_f64(threshold_ms / 1_000.0),
            events: Some(events.clone()),
            seen: Mutex::default(),
        }))
    }

    /// For who asks rather than reads.
    pub fn over(threshold: Duration) -> Arc<Self> {
        Arc::new(Stalls {
            threshold,
            events: None,
            seen: Mutex::default(),
        })
    }

    /// Takes the stalls seen since the last call.
    pub fn take(&self) -> StallsSeen {
        std::mem::take(&mut *self.state())
    }

    fn state(&self) -> MutexGuard<'_, StallsSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: &'static str, took: Duration) {
        let mut seen = self.state();
        if took > seen.longest {
            (seen.longest, seen.what) = (took, what);
        }
        if took < self.threshold {
            return;
        }
        seen.count += 1;
        if let Some(events) = &self.events {
            events.event(&Event::Stall {
                work: what,
                held: took,
                held_max: seen.longest,
                count: seen.count,
            });
        }
    }
}

/// Measures pieces of work where somebody wants to know; else costs a branch each.
#[derive(Clone, Debug)]
pub struct StallDetector(Option<Arc<Stalls>>);

impl StallDetector {
    pub fn telling(stalls: Option<Arc<Stalls>>) -> Self {
        StallDetector(stalls)
    }

    #[inline]
    pub fn watch<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let Some(stalls) = &self.0 else {
            return work();
        };
        let begun = thread_time();
        let result = work();
        stalls.note(what, thread_time().saturating_sub(begun));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_held_a_shard_is_known_to_who_asks() {
        let stalls = Stalls::over(Duration::ZERO);
        let detector = StallDetector::telling(Some(stalls.clone()));
        assert_eq!(detector.watch("a message", || 7), 7);
        let seen = stalls.take();
        assert_eq!((seen.count, seen.what), (1, "a message"));
        assert_eq!(stalls.take(), StallsSeen::default());
    }
}
