//! How fast compactions may go: as fast as requests do not feel it, and never faster than the operator allows.
//!
//! Why measured latency and not only a rate: `docs/decisions/0011-compaction.md`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How much of its time a shard's compactions may work, the rest they sleep; and how much they must hurry. Set by the shard, read
/// by its threads.
#[derive(Debug)]
pub struct Pace {
    share_permille: AtomicU32,
    urgency_permille: AtomicU32,
}

/// The node's bound on what all compactions together write: Cassandra's `compaction_throughput`.
#[derive(Debug)]
pub struct ThroughputLimit {
    /// 0 is no bound.
    bytes_per_s: AtomicU64,
    /// On the clock's monotonic time: until when what was written so far is worth.
    due_ns: AtomicU64,
}

/// Latency of requests during a window of time, and the state of compactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// The 99th percentile of what requests waited or took; `None` where there were none.
    pub latency_ns: Option<u64>,
    pub is_compacting: bool,
    /// How much compactions must hurry, from 0 to 1.
    pub urgency: f64,
}

/// Decides on the share from one window to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct PaceController {
    share: f64,
    /// The latency of windows without a compaction, smoothed.
    quiet_ns: f64,
    /// Windows in a row at the least share and still slow.
    slow_at_least: u32,
}

/// How long a window is, in nanoseconds: some hundred requests of a busy shard, and an answer within what a person
/// takes for at once.
pub const WINDOW_NS: u64 = 100_000_000;

/// Compactions never stop altogether: they are what keeps reads cheap.
const SHARE_MIN: f64 = 0.05;
/// Half of the way down at once, and back in twenty windows: slow requests cost more than a late compaction.
const SHARE_BACKOFF: f64 = 0.5;
const SHARE_STEP: f64 = 0.05;
/// Requests may take this much longer than when it is quiet; the promise is three times.
const SLOWDOWN_MAX: f64 = 2.0;
/// ..and what is below this is quick whatever the ratio: the timer that measures has ticks of a millisecond.
const LATENCY_NS_FREE: f64 = 2_000_000.0;
/// The part of a new window in the smoothed quiet latency.
const QUIET_WEIGHT: f64 = 0.125;
/// After this many windows at the least share the load itself is slower than it was; two seconds.
const SLOW_WINDOWS_MAX: u32 = 20;

/// At most this long asleep at once, so that a stop or a better share is heard.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Burst that the limit lets through after a pause, in nanoseconds of its rate.
const BURST_NS: u64 = 100_000_000;

impl Default for Pace {
    fn default() -> Self {
        Pace {
            share_permille: AtomicU32::new(1_000),
            urgency_permille: AtomicU32::new(0),
        }
    }
}

impl Pace {
    pub fn set_share(&self, share: f64) {
        let permille = (share.clamp(SHARE_MIN, 1.0) * 1_000.0) as u32;
        self.share_permille.store(permille, Ordering::Relaxed);
    }

    pub fn share(&self) -> f64 {
        f64::from(self.share_permille.load(Ordering::Relaxed)) / 1_000.0
    }

    /// From 0, where compactions stand back as far as they can, to 1, where they come forward as far as they may.
    pub fn set_urgency(&self, urgency: f64) {
        let permille = (urgency.clamp(0.0, 1.0) * 1_000.0) as u32;
        self.urgency_permille.store(permille, Ordering::Relaxed);
    }

    pub fn urgency(&self) -> f64 {
        f64::from(self.urgency_permille.load(Ordering::Relaxed)) / 1_000.0
    }

    /// How long to sleep after having worked so long.
    pub(crate) fn rest(&self, worked: Duration) -> Duration {
        let share = self.share();
        worked.mul_f64((1.0 - share) / share).min(SLEEP_MAX)
    }
}

impl ThroughputLimit {
    /// 0 is no bound.
    pub fn new(bytes_per_s: u64) -> Self {
        ThroughputLimit {
            bytes_per_s: AtomicU64::new(bytes_per_s),
            due_ns: AtomicU64::new(0),
        }
    }

    pub(crate) fn bytes_per_s(&self) -> u64 {
        self.bytes_per_s.load(Ordering::Relaxed)
    }

    /// Notes what was written, and says how long the writer has to wait for it.
    pub(crate) fn spend(&self, bytes: u64, now_ns: u64) -> Duration {
        let bytes_per_s = self.bytes_per_s();
        if bytes_per_s == 0 {
            return Duration::ZERO;
        }
        let cost_ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s);
        let cost_ns = u64::try_from(cost_ns).unwrap_or(u64::MAX);
        let spend = |due_ns: u64| {
            due_ns
                .max(now_ns.saturating_sub(BURST_NS))
                .saturating_add(cost_ns)
        };
        let before_ns = self
            .due_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |due_ns| Some(spend(due_ns)))
            .unwrap_or_default();
        Duration::from_nanos(spend(before_ns).saturating_sub(now_ns))
    }
}

impl Default for PaceController {
    fn default() -> Self {
        PaceController {
            share: 1.0,
            quiet_ns: 0.0,
            slow_at_least: 0,
        }
    }
}

impl PaceController {
    /// The share for the next window.
    pub fn window(&mut self, window: Window) -> f64 {
        let least = SHARE_MIN + (1.0 - SHARE_MIN) * window.urgency;
        match window.latency_ns {
            Some(latency_ns) if window.is_compacting => self.adapt(latency_ns as f64, least),
            Some(latency_ns) => {
                self.learn(latency_ns as f64);
                self.share = (self.share + SHARE_STEP).min(1.0);
            }
            // Nobody is there to feel it.
            None => self.share = (self.share * 2.0).min(1.0),
        }
        self.share = self.share.max(least);
        self.share
    }

    fn adapt(&mut self, latency_ns: f64, least: f64) {
        if latency_ns < self.quiet_ns {
            self.learn(latency_ns);
        }
        if latency_ns <= (self.quiet_ns * SLOWDOWN_MAX).max(LATENCY_NS_FREE) {
            self.share = (self.share + SHARE_STEP).min(1.0);
            self.slow_at_least = 0;
            return;
        }
        if self.share > least {
            self.share = (self.share * SHARE_BACKOFF).max(least);
            return;
        }
        // Compactions hardly work and requests are as slow: it is not the compactions.
        self.slow_at_least += 1;
        if self.slow_at_least >= SLOW_WINDOWS_MAX {
            self.slow_at_least = 0;
            self.quiet_ns = latency_ns;
        }
    }

    fn learn(&mut self, latency_ns: f64) {
        self.quiet_ns = if self.quiet_ns == 0.0 {
            latency_ns
        } else {
            self.quiet_ns + (latency_ns - self.quiet_ns) * QUIET_WEIGHT
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose requests take `quiet_ns`, and more the more compactions work.
    struct Machine {
        quiet_ns: f64,
        slowdown_at_full: f64,
        controller: PaceController,
    }

    impl Machine {
        fn new(quiet_ns: f64, slowdown_at_full: f64) -> Self {
            Machine {
                quiet_ns,
                slowdown_at_full,
                controller: PaceController::default(),
            }
        }

        /// Runs a number of windows; returns the mean share and how many windows were slower than three times quiet.
        fn run(&mut self, windows: usize, is_compacting: bool, urgency: f64) -> (f64, usize) {
            let (mut shares, mut slow) = (0.0, 0);
            for _ in 0..windows {
                let share = if is_compacting { self.controller.share } else { 0.0 };
                let latency_ns = self.quiet_ns * (1.0 + (self.slowdown_at_full - 1.0) * share);
                shares += share;
                slow += usize::from(latency_ns > 3.0 * self.quiet_ns);
                self.controller.window(Window {
                    latency_ns: Some(latency_ns as u64),
                    is_compacting,
                    urgency,
                });
            }
            (shares / windows as f64, slow)
        }
    }

    #[test]
    fn requests_stay_within_three_times_quiet() {
        let mut machine = Machine::new(3e6, 12.0);
        machine.run(20, false, 0.0);
        let (share, slow) = machine.run(300, true, 0.0);
        assert!(slow <= 3, "{slow} windows");
        assert!((0.03..0.2).contains(&share), "{share}");
    }

    #[test]
    fn a_machine_that_does_not_feel_it_compacts_at_full_speed() {
        let mut machine = Machine::new(3e6, 1.5);
        machine.run(20, false, 0.0);
        assert_eq!(machine.run(300, true, 0.0), (1.0, 0));
    }

    #[test]
    fn the_more_urgent_the_less_latency_counts() {
        let mut machine = Machine::new(3e6, 12.0);
        machine.run(20, false, 0.0);
        let shares = [0.1, 0.5, 1.0].map(|urgency| machine.run(300, true, urgency).0);
        assert!(
            shares[0] > 0.14 && shares[0] < shares[1] && shares[1] >= 0.525,
            "{shares:?}"
        );
        assert_eq!(shares[2], 1.0);
    }

    #[test]
    fn a_load_that_became_slower_by_itself_is_learned() {
        let mut machine = Machine::new(3e6, 2.0);
        machine.run(20, false, 0.0);
        machine.quiet_ns = 20e6;
        machine.run(200, true, 0.0);
        let (share, _) = machine.run(100, true, 0.0);
        assert!(share > 0.5, "{share}");
    }

    #[test]
    fn an_idle_machine_is_at_full_speed_soon() {
        let mut controller = PaceController {
            share: SHARE_MIN,
            ..PaceController::default()
        };
        let window = Window {
            latency_ns: None,
            is_compacting: true,
            urgency: 0.0,
        };
        let shares: Vec<f64> = (0..5).map(|_| controller.window(window)).collect();
        assert_eq!(shares, [0.1, 0.2, 0.4, 0.8, 1.0]);
    }

    #[test]
    fn a_tenth_of_the_time_is_one_part_work_and_nine_parts_sleep() {
        let pace = Pace::default();
        assert_eq!(pace.rest(Duration::from_millis(5)), Duration::ZERO);
        pace.set_share(0.1);
        assert_eq!(pace.rest(Duration::from_millis(5)).as_millis(), 45);
        assert_eq!(pace.rest(Duration::from_secs(5)), SLEEP_MAX);
    }

    #[test]
    fn the_limit_is_kept_over_all_writers() {
        let limit = ThroughputLimit::new(1_000_000);
        let start_ns = 5_000_000_000;
        let waits = [100_000, 100_000, 300_000].map(|bytes| limit.spend(bytes, start_ns).as_millis());
        assert_eq!(waits, [0, 100, 400]);
        assert_eq!(limit.spend(0, start_ns + 400_000_000), Duration::ZERO);
        assert_eq!(ThroughputLimit::new(0).spend(u64::MAX, start_ns), Duration::ZERO);
    }
}
