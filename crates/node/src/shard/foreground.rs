//! Delays that requests feel, and how fast compactions may go for it.
//!
//! A shard measures three things that a client waits for: how late its loop is to what is due, how long a sampled
//! request takes until its answer is made, and how long the log takes to make a batch durable, where answers wait for it. The worst
//! of them sets the pace of the shard's compactions for the next window.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use helenus_storage::compaction::{PaceController, WINDOW_NS, Window};

/// How often the loop's lateness is looked at: ten times a window.
pub const PROBE_INTERVAL: Duration = Duration::from_nanos(WINDOW_NS / PROBES_PER_WINDOW as u64);
const PROBES_PER_WINDOW: usize = 10;

/// One of so many requests is timed: two readings of the clock are 2 % of a cheap request.
const REQUESTS_PER_SAMPLE: u32 = 16;

/// Powers of two of nanoseconds.
const BUCKETS: usize = 64;

/// Durations of one window, to a factor of two.
#[derive(Debug)]
struct Durations {
    counts: [u32; BUCKETS],
    total: u32,
}

/// One shard's measurements.
#[derive(Debug, Default)]
pub struct Foreground {
    requests: RefCell<Durations>,
    log_ns_max: Cell<u64>,
    late_ns: RefCell<[u64; PROBES_PER_WINDOW]>,
    probes: Cell<usize>,
    until_sample: Cell<u32>,
    /// Requests taken since the window began.
    taken: Cell<u32>,
    controller: RefCell<PaceController>,
}

impl Default for Durations {
    fn default() -> Self {
        Durations {
            counts: [0; BUCKETS],
            total: 0,
        }
    }
}

impl Durations {
    fn add(&mut self, ns: u64) {
        // At most 63: a logarithm of 64 bits.
        self.counts[(ns | 1).ilog2() as usize] += 1;
        self.total += 1;
    }

    /// The upper end of the bucket that holds the 99th percentile; `None` without any.
    fn p99_ns(&self) -> Option<u64> {
        let wanted = self.total - self.total / 100;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted && seen > 0
        })?;
        Some(1_u64.checked_shl(bucket as u32 + 1).unwrap_or(u64::MAX))
    }
}

impl Foreground {
    /// Counts a request; whether it is one to be timed.
    #[inline]
    pub fn is_sampled(&self) -> bool {
        self.taken.set(self.taken.get().saturating_add(1));
        let left = self.until_sample.get();
        self.until_sample
            .set(left.checked_sub(1).unwrap_or(REQUESTS_PER_SAMPLE - 1));
        left == 0
    }

    pub fn request_took(&self, duration_ns: u64) {
        self.requests.borrow_mut().add(duration_ns);
    }

    pub fn log_took(&self, duration_ns: u64) {
        self.log_ns_max.set(self.log_ns_max.get().max(duration_ns));
    }

    /// The loop came so late to what was due. Every [`PROBE_INTERVAL`]; true when a window has ended.
    pub fn probe(&self, late_ns: u64) -> bool {
        let probes = self.probes.get();
        self.late_ns.borrow_mut()[probes % PROBES_PER_WINDOW] = late_ns;
        self.probes.set(probes + 1);
        (probes + 1).is_multiple_of(PROBES_PER_WINDOW)
    }

    /// Ends a window: the share of their time that compactions may work in the next.
    pub fn next_share(&self, is_compacting: bool, urgency: f64) -> f64 {
        let requests = self.requests.take();
        let log_ns = self.log_ns_max.take();
        let latency_ns = (self.taken.take() > 0).then(|| {
            let mut late_ns = *self.late_ns.borrow();
            late_ns.sort_unstable();
            // The second worst: one late tick in a tenth of a second is the scheduler's.
            let late_ns = late_ns[PROBES_PER_WINDOW - 2];
            requests.p99_ns().unwrap_or(0).max(late_ns).max(log_ns)
        });
        self.controller.borrow_mut().window(Window {
            latency_ns,
            is_compacting,
            urgency,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_is_known_to_a_factor_of_two() {
        let mut durations = Durations::default();
        assert_eq!(durations.p99_ns(), None);
        (0..99).for_each(|_| durations.add(1_000));
        assert_eq!(durations.p99_ns(), Some(1_024));
        durations.add(5_000_000);
        assert_eq!(durations.p99_ns(), Some(1_024));
        durations.add(5_000_000);
        durations.add(5_000_000);
        assert_eq!(durations.p99_ns(), Some(8_388_608));
    }

    #[test]
    fn slow_requests_slow_compactions_and_silence_lets_them_go() {
        let foreground = Foreground::default();
        let window = |latency_ns: Option<u64>| {
            for _ in 0..latency_ns.map_or(0, |_| 2 * REQUESTS_PER_SAMPLE) {
                if foreground.is_sampled() {
                    foreground.request_took(latency_ns.unwrap_or(0));
                }
            }
            (0..PROBES_PER_WINDOW).for_each(|_| {
                foreground.probe(0);
            });
            foreground.next_share(latency_ns.is_some(), 0.0)
        };
        assert_eq!(window(Some(1_000_000)), 1.0);
        assert_eq!(window(Some(60_000_000)), 0.5);
        assert_eq!(window(Some(60_000_000)), 0.25);
        assert_eq!(window(None), 0.5);
        assert_eq!(window(None), 1.0);
    }
}
