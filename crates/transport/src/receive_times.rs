//! When the bytes of a connection came, as far as that can be known without the kernel's help.

use crate::dispatcher::RECEIVE_BUFFER_BYTES;

/// Arrival times of the bytes read in one turn: they came between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveTimes {
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

impl ReceiveTimes {
    /// `bytes` in all, of which some may be left from before.
    pub fn new(earliest_ns: u64, latest_ns: u64, bytes: usize) -> Self {
        let span_ns = latest_ns.saturating_sub(earliest_ns);
        let is_even = (EVEN_NS_MIN..=EVEN_NS_MAX).contains(&span_ns);
        ReceiveTimes {
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

/// Since when all has come that is in a socket that is read again and again and never seen empty: as much was read as it
/// holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Emptied {
    since_ns: u64,
    read_bytes: usize,
}

impl Emptied {
    /// So much was read at `now_ns`. If that is known: what the socket holds now came after this.
    pub fn read(&mut self, now_ns: u64, bytes: usize, is_empty: bool) -> Option<u64> {
        self.read_bytes += bytes;
        let is_known = is_empty || self.read_bytes >= RECEIVE_BUFFER_BYTES;
        if !is_known {
            return None;
        }
        self.read_bytes = 0;
        Some(std::mem::replace(&mut self.since_ns, now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that always has more to send was taken to have sent all of it when its socket was last empty.
    #[test]
    fn what_a_socket_holds_came_while_it_was_read_out() {
        let mut emptied = Emptied::default();
        emptied.read(1_000, 10, true);
        assert_eq!(emptied.read(2_000, RECEIVE_BUFFER_BYTES - 1, false), None);
        assert_eq!(emptied.read(3_000, 1, false), Some(1_000));
        assert_eq!(emptied.read(4_000, RECEIVE_BUFFER_BYTES, false), Some(3_000));
    }

    #[test]
    fn what_is_read_last_came_last() {
        let times = ReceiveTimes::new(1_000_000, 11_000_000, 1_000);
        assert_eq!(times.arrival_ns(|| 1_000), 1_000_000);
        assert_eq!(times.arrival_ns(|| 500), 6_000_000);
        assert_eq!(times.arrival_ns(|| 0), 11_000_000);
    }

    /// 350 ms of silence from the shard: the last bytes of what is read then looked fresh, and were served too late.
    #[test]
    fn what_a_full_socket_held_came_long_ago() {
        let times = ReceiveTimes::new(0, 350_000_000, 1_000);
        assert_eq!(times.arrival_ns(|| 1), 0);
    }

    #[test]
    fn a_short_span_counts_from_its_beginning() {
        let times = ReceiveTimes::new(1_000, 2_000, 10);
        assert_eq!(times.arrival_ns(|| 0), 1_000);
        // A clock that was read in between must not make it negative.
        assert_eq!(ReceiveTimes::new(3_000, 2_000, 10).arrival_ns(|| 0), 2_000);
    }
}
