//! Durations and deadlines on a shard's clock, in nanoseconds.

use std::time::Duration;

/// How often requests are looked for whose time was over while they waited: half of the shortest timeouts in use, so that a
/// client that waits 10 ms is answered within 15.
pub const LATE_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A duration in nanoseconds, at most 584 years.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
