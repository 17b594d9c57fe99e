//! How often a partition of a limited table may be asked for (`per_partition_rate_limit`).
//!
//! Each partition has a theoretical arrival time, as in GCRA: the time up to which what it was served is paid for. A
//! request is admitted if that is at most [`BURST`] ahead, and moves it on by the limit's interval. A time that has
//! passed says nothing, so a partition takes room only while it is ahead of its limit: up to the interval or the burst
//! after its last request, whichever is longer, and at most a second and a burst.
//!
//! The places are a table of buckets. Where all places of a bucket are taken the table doubles, up to
//! `RATE_LIMIT_BYTES_MAX`; at that size a newcomer takes the place with the earliest time and *goes on from it*. Times
//! only grow and each place's successor starts at what was forgotten, so a forgotten partition never gets more than its
//! limit; a newcomer may be refused for as long as the time it took over is ahead. The error is on the safe side.

mod checks;
mod partition_rates;

use std::num::NonZeroU32;
use std::time::Duration;

use helenus_protocol::extensions::RateLimitedOperation;
use helenus_schema::{Schema, TableMetadata};
use helenus_types::Token;

pub(crate) use partition_rates::PartitionRates;

/// Largest burst of a partition that was idle, in time: a tenth of a second's worth. Requests come in batches of what a
/// connection's turn reads, some milliseconds' worth; over five seconds a burst is 2 % of what is admitted.
pub const BURST: Duration = Duration::from_millis(100);

/// Bytes that a shard remembers of partitions at most. A place is 16 bytes: two million partitions that were asked for
/// within the last interval, which at the lowest limit (one a second) is more than a shard serves in a second. Buckets fill
/// unevenly: up to some 400,000 at once nothing is ever forgotten.
pub(crate) const RATE_LIMIT_BYTES_MAX: usize = 32 << 20;

/// Places of a bucket: two cache lines.
const WAYS: usize = 8;

const BUCKETS_MIN: usize = 64;

/// Times are in sixteenths of a nanosecond, so that the interval of a million a second is exact to 1 in 16,000. They last
/// for 36 years from the start of the process.
const TICKS_PER_NS_LOG2: u32 = 4;

const BURST_TICKS: u64 = (BURST.as_nanos() as u64) << TICKS_PER_NS_LOG2;

const SECOND_TICKS: u64 = 1_000_000_000 << TICKS_PER_NS_LOG2;

#[derive(Clone)]
#[repr(align(64))]
struct Bucket {
    /// Hashes of table, kind of operation and token.
    partitions: [u64; WAYS],
    /// Theoretical arrival times in ticks; a place whose time has passed is free.
    arrivals: [u64; WAYS],
}

/// One shard's limiter.
pub struct RateLimiter {
    /// None, or a power of two of them. A partition's bucket is named by the highest bits of its hash.
    buckets: Vec<Bucket>,
    buckets_max: usize,
    /// Unknown to clients, so that none can choose keys of one bucket.
    seed: u64,
}

impl RateLimiter {
    pub fn new(seed: u64) -> Self {
        Self::with_bytes_max(seed, RATE_LIMIT_BYTES_MAX)
    }

    /// `bytes_max` is rounded down to a power of two, and is at least 8 KiB.
    pub(crate) fn with_bytes_max(seed: u64, bytes_max: usize) -> Self {
        let buckets_max = (bytes_max / size_of::<Bucket>()).max(BUCKETS_MIN);
        RateLimiter {
            buckets: Vec::new(),
            buckets_max: 1 << buckets_max.ilog2(),
            seed,
        }
    }

    pub fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// Returns whether a partition is within its limit with this request, which counts if so.
    pub fn admit(&mut self, partition: u64, per_second: NonZeroU32, now_ns: u64) -> bool {
        let now = now_ns << TICKS_PER_NS_LOG2;
        let hash = mix(partition ^ self.seed);
        if self.buckets.is_empty() {
            self.buckets.resize(BUCKETS_MIN, Bucket::EMPTY);
        }
        loop {
            let may_grow = self.buckets.len() < self.buckets_max;
            let index = self.index_of(hash);
            let bucket = &mut self.buckets[index];
            let place = bucket.place_of(hash);
            let is_lost = bucket.partitions[place] != hash && bucket.arrivals[place] > now;
            if is_lost && may_grow {
                self.grow();
                continue;
            }
            let arrival = bucket.arrivals[place].max(now);
            if arrival - now > BURST_TICKS {
                return false;
            }
            bucket.partitions[place] = hash;
            bucket.arrivals[place] = arrival + SECOND_TICKS / u64::from(per_second.get());
            return true;
        }
    }

    fn index_of(&self, hash: u64) -> usize {
        // There are at least two buckets, so the shift is less than 64.
        (hash >> (u64::BITS - self.buckets.len().trailing_zeros())) as usize
    }

    /// Each bucket's partitions go to one of two.
    fn grow(&mut self) {
        let mut grown = vec![Bucket::EMPTY; self.buckets.len() * 2];
        let shift = u64::BITS - grown.len().trailing_zeros();
        for bucket in &self.buckets {
            for (place, (&hash, &arrival)) in bucket.partitions.iter().zip(&bucket.arrivals).enumerate() {
                let target = &mut grown[(hash >> shift) as usize];
                target.partitions[place] = hash;
                target.arrivals[place] = arrival;
            }
        }
        self.buckets = grown;
    }
}

impl Bucket {
    const EMPTY: Bucket = Bucket {
        partitions: [0; WAYS],
        arrivals: [0; WAYS],
    };

    /// Where the partition is, or else the place with the earliest time.
    fn place_of(&self, hash: u64) -> usize {
        let mut earliest = 0;
        for place in 0..WAYS {
            if self.partitions[place] == hash {
                return place;
            }
            if self.arrivals[place] < self.arrivals[earliest] {
                earliest = place;
            }
        }
        earliest
    }
}

/// The finalizer of MurmurHash3: every bit of the input moves half of the output's.
fn mix(mut bits: u64) -> u64 {
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

fn partition_of(table: &TableMetadata, operation: RateLimitedOperation, token: Token) -> u64 {
    let (high, low) = table.id.0.as_u64_pair();
    // Not a plain sum of the three: tokens are spread over all bits already.
    mix(high ^ low.rotate_left(1) ^ operation as u64) ^ token.0.cast_unsigned()
}

fn has_rate_limits(schema: &Schema) -> bool {
    schema
        .tables()
        .any(|table| table.params.per_partition_rate_limit.is_some())
}

/// State of the rate limit check of the partitions that a statement names.
#[derive(Clone, Copy)]
pub(crate) enum RateLimits {
    Checked,
    Unchecked,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn limit(per_second: u32) -> NonZeroU32 {
        NonZeroU32::new(per_second).unwrap()
    }

    /// Numbers from 0 up to `bound`, the same each time.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(self.0) % bound
        }
    }

    /// Offers requests of `count` partitions at once, each at a random moment of its slot; what each was admitted.
    fn offer(
        limiter: &mut RateLimiter,
        count: u64,
        per_partition: u64,
        per_second: u32,
        seconds: u64,
    ) -> Vec<u64> {
        let mut random = Random(1);
        let mut admitted = vec![0; count as usize];
        let requests = per_partition * seconds;
        let slot_ns = seconds * SECOND_NS / requests;
        for slot in 0..requests {
            let mut now_ns = SECOND_NS + slot * slot_ns;
            for partition in 0..count {
                now_ns += random.below(slot_ns / count + 1);
                if limiter.admit(partition, limit(per_second), now_ns) {
                    admitted[partition as usize] += 1;
                }
            }
        }
        admitted
    }

    #[test]
    fn a_partition_gets_its_limit_within_three_percent_however_much_is_offered() {
        let seconds = 5;
        for (per_second, offered, count) in [
            (500, 550, 500),
            (500, 1_000, 300),
            (500, 5_000, 100),
            (500, 50_000, 20),
            (50, 5_000, 50),
            (20_000, 22_000, 10),
        ] {
            let mut limiter = RateLimiter::new(7);
            for admitted in offer(&mut limiter, count, offered, per_second, seconds) {
                let wanted = u64::from(per_second) * seconds;
                let error = admitted.abs_diff(wanted) as f64 / wanted as f64;
                assert!(
                    error <= 0.03,
                    "{per_second}/s of {offered}/s: {admitted} of {wanted}"
                );
            }
        }
    }

    #[test]
    fn below_its_limit_nothing_is_refused_and_a_burst_is_bounded() {
        let mut limiter = RateLimiter::new(7);
        let admitted = offer(&mut limiter, 100, 450, 500, 5);
        assert!(admitted.iter().all(|&admitted| admitted == 450 * 5));
        let now_ns = 100 * SECOND_NS;
        let at_once = (0..1_000)
            .filter(|_| limiter.admit(1 << 40, limit(500), now_ns))
            .count();
        assert_eq!(at_once, 51);
        // The lowest limit: one at once, and the next a second later.
        let mut once = |now_ns| limiter.admit(1 << 41, limit(1), now_ns);
        assert!(once(now_ns) && !once(now_ns) && !once(now_ns + SECOND_NS / 2));
        assert!(once(now_ns + SECOND_NS));
    }

    /// Streams `distinct` keys past a partition that is offered `offered` times its limit of 1,000 a second.
    fn stream_past(
        limiter: &mut RateLimiter,
        distinct: u64,
        keys_per_second: u64,
        offered: u64,
    ) -> (u64, f64) {
        let step_ns = SECOND_NS / keys_per_second;
        let every = keys_per_second / (1_000 * offered);
        let mut admitted = 0;
        for key in 0..distinct {
            let now_ns = SECOND_NS + key * step_ns;
            limiter.admit((1 << 63) + key, limit(10), now_ns);
            if key % every == 0 && limiter.admit(1, limit(1_000), now_ns) {
                admitted += 1;
            }
        }
        (admitted, (distinct * step_ns) as f64 / SECOND_NS as f64)
    }

    #[test]
    fn any_number_of_distinct_partitions_fits_and_a_limited_one_stays_at_its_limit() {
        let mut limiter = RateLimiter::with_bytes_max(7, 1 << 20);
        // Of two million partitions 50,000 are ahead of their limits at any time, in 65,536 places.
        let (admitted, seconds) = stream_past(&mut limiter, 2_000_000, 500_000, 10);
        let wanted = 1_000.0 * seconds;
        assert!(
            (admitted as f64 - wanted).abs() <= 0.03 * wanted,
            "{admitted} of {wanted}"
        );
        assert!(limiter.bytes() <= 1 << 20);
    }

    #[test]
    fn with_too_many_partitions_at_once_none_exceeds_its_limit() {
        let mut limiter = RateLimiter::with_bytes_max(7, 8 << 10);
        // 50,000 at any time, in 512 places.
        let (admitted, seconds) = stream_past(&mut limiter, 1_000_000, 500_000, 10);
        assert!(admitted as f64 <= 1_000.0 * (seconds + 0.1) + 1.0, "{admitted}");
        assert_eq!(limiter.bytes(), 8 << 10);
        // Once they are gone, a partition has its whole limit.
        let later_ns = 100 * SECOND_NS;
        assert_eq!(
            (0..1_000)
                .filter(|_| limiter.admit(2, limit(1_000), later_ns))
                .count(),
            101
        );
    }

    #[test]
    #[ignore = "100 million partitions; run it with --release"]
    fn a_hundred_million_partitions() {
        let mut limiter = RateLimiter::new(7);
        let began = std::time::Instant::now();
        let (admitted, seconds) = stream_past(&mut limiter, 100_000_000, 1_000_000, 100);
        let wanted = 1_000.0 * seconds;
        println!(
            "{admitted} admitted in {seconds} s, {} bytes, {:?}",
            limiter.bytes(),
            began.elapsed()
        );
        assert!(
            (admitted as f64 - wanted).abs() <= 0.03 * wanted,
            "{admitted} of {wanted}"
        );
        assert!(limiter.bytes() <= RATE_LIMIT_BYTES_MAX);
    }
}
