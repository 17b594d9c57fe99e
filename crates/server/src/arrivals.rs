//! When the bytes of a connection came, as far as that can be known without the kernel's help.

/// What was read in one turn: it came between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    earliest_ns: u64,
    /// The time in which the bytes came evenly; 0 where all of them count from the earliest moment.
    even_ns: u64,
    bytes: usize,
}

/// Below this the whole of a turn's bytes counts as having come at its earliest moment: a fiftieth of the shortest
/// wait that matters.
const EVEN_NS_MIN: u64 = 100_000;

/// Beyond this a socket was left unread for so long that it was full, and what it held came at the beginning: all of it
/// counts from there. Twice the shortest wait that is refused.
const EVEN_NS_MAX: u64 = 10_000_000;

impl Arrivals {
    /// `bytes` in all, of which some may be left from before.
    pub fn new(earliest_ns: u64, latest_ns: u64, bytes: usize) -> Self {
        let span_ns = latest_ns.saturating_sub(earliest_ns);
        let is_even = (EVEN_NS_MIN..=EVEN_NS_MAX).contains(&span_ns);
        Arrivals {
            earliest_ns: earliest_ns.min(latest_ns),
            even_ns: if is_even { span_ns } else { 0 },
            bytes,
        }
    }

    /// Nothing of it came before.
    pub fn earliest_ns(&self) -> u64 {
        self.earliest_ns
    }

    /// When a message came of which and behind which `unread` bytes are left: bytes are taken to have come evenly within a
    /// time in which a socket does not fill up.
    #[inline]
    pub fn arrival_ns(&self, unread: impl FnOnce() -> usize) -> u64 {
        if self.even_ns == 0 {
            return self.earliest_ns;
        }
        let bytes = self.bytes.max(1) as u64;
        let passed = bytes.saturating_sub(unread() as u64);
        // Spans are seconds and turns are below a MiB: the product fits.
        self.earliest_ns + self.even_ns.saturating_mul(passed) / bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_last_came_last() {
        let arrivals = Arrivals::new(1_000_000, 11_000_000, 1_000);
        assert_eq!(arrivals.arrival_ns(|| 1_000), 1_000_000);
        assert_eq!(arrivals.arrival_ns(|| 500), 6_000_000);
        assert_eq!(arrivals.arrival_ns(|| 0), 11_000_000);
    }

    /// 350 ms of silence from the shard: the last bytes of what is read then looked fresh, and were served too late.
    #[test]
    fn what_a_full_socket_held_came_long_ago() {
        let arrivals = Arrivals::new(0, 350_000_000, 1_000);
        assert_eq!(arrivals.arrival_ns(|| 1), 0);
    }

    #[test]
    fn a_short_span_counts_from_its_beginning() {
        let arrivals = Arrivals::new(1_000, 2_000, 10);
        assert_eq!(arrivals.arrival_ns(|| 0), 1_000);
        // A clock that was read in between must not make it negative.
        assert_eq!(Arrivals::new(3_000, 2_000, 10).arrival_ns(|| 0), 2_000);
    }
}
