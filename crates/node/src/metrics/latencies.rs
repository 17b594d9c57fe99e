//! Which requests' latencies are measured: all of a few, some of many, each for as many as were passed over before it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use helenus_transport::latency::{LatencyCounts, LatencyHistogram, MeasuredRequest};
use helenus_vfs::Clock;

use super::request_kind::RequestKind;
use crate::session::RequestContext;

/// More often than this latencies of one kind are not measured: a thousand a second say what a percentile is, and cost less
/// than a thousandth of a core.
const SAMPLE_INTERVAL_NS: u64 = 1_000_000;

/// Requests of one kind that one sample stands for at most. Odd, as all periods are, so that a client that has a power of two of
/// requests under way is not always looked at in the same place of its turn.
const PERIOD_MAX: u32 = 255;

/// Latencies of one shard's requests by kind.
pub(crate) struct Latencies {
    kinds: [KindLatency; RequestKind::NAMES.len()],
}

struct KindLatency {
    histogram: Rc<LatencyHistogram>,
    /// Requests that are still passed over before the next sample.
    passed_over: Cell<u32>,
    /// Requests for which the next sample stands.
    period: Cell<u32>,
    /// When the last sample was received.
    sampled_ns: Cell<u64>,
}

impl Latencies {
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        Latencies {
            kinds: std::array::from_fn(|_| KindLatency {
                histogram: Rc::new(LatencyHistogram::new(clock.clone())),
                passed_over: Cell::new(0),
                period: Cell::new(1),
                sampled_ns: Cell::new(0),
            }),
        }
    }

    /// A request is begun.
    #[inline]
    pub fn pass(&self, kind: RequestKind, request: &RequestContext<'_>) {
        let latency = &self.kinds[kind as usize];
        match latency.passed_over.get() {
            0 => latency.sample(request),
            left => latency.passed_over.set(left - 1),
        }
    }

    pub fn counts(&self) -> [LatencyCounts; RequestKind::NAMES.len()] {
        std::array::from_fn(|kind| self.kinds[kind].histogram.counts())
    }
}

impl KindLatency {
    #[inline(never)]
    fn sample(&self, request: &RequestContext<'_>) {
        let period = self.period.get();
        request.session.outbox().measure(MeasuredRequest {
            stream: request.stream,
            received_ns: request.received_ns,
            weight: u64::from(period),
            histogram: self.histogram.clone(),
        });
        let last_ns = self.sampled_ns.replace(request.received_ns);
        let next = next_period(period, request.received_ns.saturating_sub(last_ns));
        self.period.set(next);
        self.passed_over.set(next - 1);
    }
}

/// Doubles where samples come too close to each other, halves where there could be twice as many and still some room.
fn next_period(period: u32, since_last_ns: u64) -> u32 {
    if since_last_ns < SAMPLE_INTERVAL_NS {
        (2 * period + 1).min(PERIOD_MAX)
    } else if since_last_ns > 4 * SAMPLE_INTERVAL_NS {
        (period / 2).max(1)
    } else {
        period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period_at(requests_per_second: u64) -> u32 {
        let mut period = 1;
        for _ in 0..100 {
            let between_ns = u64::from(period) * 1_000_000_000 / requests_per_second;
            period = next_period(period, between_ns);
        }
        period
    }

    #[test]
    fn few_requests_are_all_measured_and_of_many_about_a_thousand_a_second() {
        assert_eq!(period_at(10), 1);
        assert_eq!(period_at(900), 1);
        for rate in [10_000, 50_000, 200_000] {
            let samples = rate / u64::from(period_at(rate));
            assert!((250..=1_000).contains(&samples), "{samples} of {rate}");
        }
        assert_eq!(period_at(10_000_000), PERIOD_MAX);
    }
}
