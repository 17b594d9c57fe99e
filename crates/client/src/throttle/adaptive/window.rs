//! A stretch of time under one limit.

use std::time::{Duration, Instant};

use super::super::Ending;
use super::Sample;

/// Long beside the slices of a scheduler's time that a busy machine gives, short beside the changes of a server.
const WINDOW_MIN: Duration = Duration::from_millis(15);

/// A slow server's windows end here, full or not.
const WINDOW_MAX: Duration = Duration::from_secs(1);

/// A window must see each request under way answered this many times.
const ROUNDS_MIN: usize = 2;

/// The longest wait for what was begun before the window.
const SETTLE_MAX: Duration = Duration::from_millis(250);

/// Share of a window's requests; more refusals than this are the server's word.
const REFUSED_SHARE_MAX: f64 = 0.01;

#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    start: Instant,
    /// Answers to come that were asked for under another limit.
    begun_before: usize,
    answered: u64,
    refused: u64,
    limited: u64,
    /// Sum of the latencies of those that were timed.
    latency_sum: Duration,
    timed: u32,
}

/// Results of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowRate {
    /// Answers a second.
    pub throughput: f64,
    /// Mean latency of the timed requests.
    pub latency: Duration,
    pub answered: u64,
    pub is_refused: bool,
    /// Half of the requests ended with the limit reached.
    pub is_limited: bool,
}

impl Window {
    pub fn start(now: Instant, begun_before: usize) -> Self {
        Window {
            start: now,
            begun_before,
            answered: 0,
            refused: 0,
            limited: 0,
            latency_sum: Duration::ZERO,
            timed: 0,
        }
    }

    /// A request that was not timed. The window begins and ends with those that are.
    pub fn count_one(&mut self, ending: Ending, is_limited: bool) {
        if self.begun_before > 0 {
            self.begun_before = (self.begun_before - 1).max(1);
            return;
        }
        match ending {
            Ending::Answered => self.answered += 1,
            Ending::Refused | Ending::TimedOut => self.refused += 1,
            Ending::Unknown => return,
        }
        self.limited += u64::from(is_limited);
    }

    pub fn record(&mut self, now: Instant, sample: Sample) {
        if self.begun_before > 0 {
            let is_settled = now.saturating_duration_since(self.start) >= SETTLE_MAX;
            self.begun_before = if is_settled { 0 } else { self.begun_before - 1 };
            if self.begun_before == 0 {
                self.start = now;
            }
            return;
        }
        self.count_one(sample.ending, sample.is_limited);
        self.latency_sum += sample.latency;
        self.timed += 1;
    }

    pub fn is_over(&self, now: Instant, limit: usize) -> bool {
        let length = now.saturating_duration_since(self.start);
        let is_full = self.count() >= (ROUNDS_MIN * limit) as u64 && length >= WINDOW_MIN;
        self.begun_before == 0 && self.count() > 0 && (is_full || length >= WINDOW_MAX)
    }

    pub fn rate(&self, now: Instant) -> WindowRate {
        let length = now.saturating_duration_since(self.start);
        let count = self.count().max(1);
        WindowRate {
            throughput: self.answered as f64 / length.as_secs_f64().max(1e-6),
            latency: self.latency_sum / self.timed.max(1),
            answered: self.answered,
            is_refused: self.refused as f64 > REFUSED_SHARE_MAX * count as f64,
            is_limited: 2 * self.limited >= count,
        }
    }

    fn count(&self) -> u64 {
        self.answered + self.refused
    }
}
