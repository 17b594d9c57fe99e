//! How long requests take: from when their bytes came to when the answer is on its way to the client's socket.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use helenus_vfs::Clock;

/// Buckets of a latency: two for each power of two of microseconds, from 8 us to 16 s, and one for what took longer.
const LATENCY_BUCKETS: usize = 2 * (LARGEST_OCTAVE - SMALLEST_OCTAVE) as usize + 2;

/// 2^3 us is the first bound, 2^24 us the last.
const SMALLEST_OCTAVE: u32 = 3;
const LARGEST_OCTAVE: u32 = 24;

/// Counts of requests of one thread by how long they took.
pub struct LatencyHistogram {
    clock: Arc<dyn Clock>,
    counts: [Cell<u64>; LATENCY_BUCKETS],
    sum_us: Cell<u64>,
}

/// A copy of a [`LatencyHistogram`]'s counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyCounts {
    /// Requests whose latency is above the bound before and not above that of the bucket.
    pub counts: [u64; LATENCY_BUCKETS],
    /// Sum of all latencies, in microseconds.
    pub sum_us: u64,
}

/// A request of which the latency will be counted when it is answered.
pub struct MeasuredRequest {
    /// The client's number of the request.
    pub stream: i16,
    /// When its bytes came, on the histogram's clock.
    pub received_ns: u64,
    /// Requests that it stands for, itself included.
    pub weight: u64,
    /// Where it is counted.
    pub histogram: Rc<LatencyHistogram>,
}

impl LatencyHistogram {
    /// Nothing counted yet; latencies end on `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        LatencyHistogram {
            clock,
            counts: [const { Cell::new(0) }; LATENCY_BUCKETS],
            sum_us: Cell::new(0),
        }
    }

    /// Counts so far.
    pub fn counts(&self) -> LatencyCounts {
        LatencyCounts {
            counts: std::array::from_fn(|bucket| self.counts[bucket].get()),
            sum_us: self.sum_us.get(),
        }
    }

    fn add(&self, latency_ns: u64, weight: u64) {
        let latency_us = latency_ns.div_ceil(1_000);
        let count = &self.counts[bucket_of(latency_us)];
        count.set(count.get() + weight);
        let sum_us = self.sum_us.get();
        self.sum_us
            .set(sum_us.saturating_add(latency_us.saturating_mul(weight)));
    }
}

impl LatencyCounts {
    /// Largest latency of a bucket, in microseconds; `None` for the last, which takes the rest.
    pub fn bound_us(bucket: usize) -> Option<u64> {
        let octave = SMALLEST_OCTAVE + (bucket / 2) as u32;
        let power_us = 1 << octave;
        let bound_us = if bucket.is_multiple_of(2) {
            power_us
        } else {
            power_us + power_us / 2
        };
        (bucket + 1 < LATENCY_BUCKETS).then_some(bound_us)
    }
}

impl MeasuredRequest {
    pub(crate) fn answered(&self) {
        let now_ns = self.histogram.clock.monotonic_ns();
        self.histogram
            .add(now_ns.saturating_sub(self.received_ns), self.weight);
    }
}

/// The first bucket whose bound is not below the latency.
fn bucket_of(latency_us: u64) -> usize {
    // With the bounds themselves below: 2^n belongs to what ends there.
    let below = latency_us.saturating_sub(1).max(1 << (SMALLEST_OCTAVE - 1));
    let octave = below.ilog2();
    let is_upper_half = below & (1 << (octave - 1)) != 0;
    // Halves of the octave below the first bound are one bucket.
    let halves = 2 * (octave + 1 - SMALLEST_OCTAVE) as usize + usize::from(is_upper_half);
    halves.saturating_sub(1).min(LATENCY_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_in_the_first_bucket_that_it_does_not_exceed() {
        let bounds: Vec<u64> = (0..LATENCY_BUCKETS).filter_map(LatencyCounts::bound_us).collect();
        assert_eq!(bounds.len(), LATENCY_BUCKETS - 1);
        assert_eq!(bounds[..4], [8, 12, 16, 24]);
        assert_eq!(bounds.last(), Some(&(1 << LARGEST_OCTAVE)));
        let near = |bound: &u64| [bound - 1, *bound, bound + 1];
        for latency_us in bounds.iter().flat_map(near).chain([0, 1, 5, u64::MAX]) {
            let expected = bounds.partition_point(|bound| *bound < latency_us);
            assert_eq!(bucket_of(latency_us), expected, "{latency_us}");
        }
    }
}
