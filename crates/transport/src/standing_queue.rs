//! Standing queues: whether what waits is a burst that passes, or more than can be served (a standing queue, in CoDel's words).
//!
//! A thread that lost its processor for 10 ms finds 10 ms worth of work. Below capacity that is gone within a tenth of a
//! second without a word to anybody; to refuse it refuses people who could be served, and those who ask again at once make it
//! last. Only where waits have been too long for as long as that it is overload, and then short waits are worth more than
//! late answers.

use std::time::Duration;

use crate::deadline::nanoseconds;

/// The longest wait of a request whose client asked to be told of overload (`THROW_ON_OVERLOAD`): CoDel's target of
/// 5 ms, which leaves as much again to do the work before 10 ms are over.
pub(crate) const QUEUE_DELAY_TARGET: Duration = Duration::from_millis(5);

/// The longest that it may be while no queue stands: what gathered in a longer pause would take more than the time after which
/// a queue is taken to stand, at four fifths of the capacity.
pub(crate) const BURST_DELAY_MAX: Duration = Duration::from_millis(25);

const TARGET_NS: u64 = QUEUE_DELAY_TARGET.as_nanos() as u64;

/// The longest wait is looked at in windows of this length ...
const WINDOW_NS: u64 = 20_000_000;

/// ... and a queue stands, or has gone, after so many of them in which it was above the target, or was not: CoDel's interval of
/// 100 ms.
const WINDOWS: u64 = 5;

/// Longest waits, window by window.
#[derive(Debug, Default)]
pub struct StandingQueue {
    window_began_ns: u64,
    /// The longest wait in this window, and in the one before it.
    longest_ns: u64,
    last_longest_ns: u64,
    late_windows: u64,
    calm_windows: u64,
    stands: bool,
    is_prevented: bool,
    prevented_until_ns: u64,
}

impl StandingQueue {
    /// A request that is begun or refused at `now_ns` has waited so long.
    #[inline]
    pub fn saw(&mut self, delay_ns: u64, now_ns: u64) {
        if now_ns.saturating_sub(self.window_began_ns) >= WINDOW_NS {
            self.window_ended(now_ns);
        }
        self.longest_ns = self.longest_ns.max(delay_ns);
    }

    #[cold]
    fn window_ended(&mut self, now_ns: u64) {
        let windows = now_ns.saturating_sub(self.window_began_ns) / WINDOW_NS;
        self.last_longest_ns = std::mem::take(&mut self.longest_ns);
        match self.last_longest_ns > TARGET_NS {
            true => (self.late_windows, self.calm_windows) = (self.late_windows + 1, 0),
            false => (self.late_windows, self.calm_windows) = (0, self.calm_windows + 1),
        }
        // Nothing was seen for so long; less may be a shard that is slow to come back to its queue.
        if windows > WINDOWS {
            (self.late_windows, self.calm_windows) = (0, windows);
        }
        self.stands = match self.stands {
            true => self.calm_windows < WINDOWS,
            false => self.late_windows >= WINDOWS,
        };
        self.is_prevented = now_ns < self.prevented_until_ns;
        self.window_began_ns = now_ns;
    }

    /// Returns whether it does: waits have been too long for a tenth of a second.
    pub(crate) fn stands(&self) -> bool {
        self.stands
    }

    /// Returns whether waits are longer than half of what they should be at most, be it for a moment.
    pub(crate) fn has_long_waits(&self) -> bool {
        self.longest_ns.max(self.last_longest_ns) > TARGET_NS / 2
    }

    /// Requests are refused at once until then, so that no queue stands: there is more than can be served all the same.
    pub(crate) fn is_prevented_until(&mut self, until_ns: u64) {
        self.prevented_until_ns = until_ns;
        self.is_prevented = true;
    }

    /// How long a request of a client that asked to be told of overload may wait now.
    #[inline]
    pub fn delay_ns_max(&self) -> u64 {
        nanoseconds(if self.stands || self.is_prevented {
            QUEUE_DELAY_TARGET
        } else {
            BURST_DELAY_MAX
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn seen(queue: &mut StandingQueue, delay_ns: u64, from_ms: u64, until_ms: u64) {
        (from_ms..until_ms).for_each(|ms| queue.saw(delay_ns, ms * MS));
    }

    /// A pause of 10 ms at four fifths of the capacity began refusals that fed on themselves.
    #[test]
    fn a_burst_is_served_and_a_queue_that_stands_is_cut() {
        let mut queue = StandingQueue::default();
        seen(&mut queue, MS, 0, 1_000);
        seen(&mut queue, 10 * MS, 1_000, 1_080);
        seen(&mut queue, MS, 1_080, 1_200);
        assert_eq!(queue.delay_ns_max(), 25 * MS);
        seen(&mut queue, 10 * MS, 1_200, 1_340);
        assert_eq!(queue.delay_ns_max(), 5 * MS);
    }

    #[test]
    fn it_has_gone_when_nothing_was_late_for_as_long() {
        let mut queue = StandingQueue::default();
        seen(&mut queue, 10 * MS, 0, 200);
        seen(&mut queue, MS, 200, 280);
        assert_eq!(queue.delay_ns_max(), 5 * MS);
        seen(&mut queue, MS, 280, 360);
        assert_eq!(queue.delay_ns_max(), 25 * MS);
        // Also where nothing came at all.
        seen(&mut queue, 10 * MS, 360, 560);
        assert_eq!(queue.delay_ns_max(), 5 * MS);
        queue.saw(MS, 1_000 * MS);
        assert_eq!(queue.delay_ns_max(), 25 * MS);
    }

    #[test]
    fn it_is_taken_to_stand_where_requests_are_refused_so_that_none_does() {
        let mut queue = StandingQueue::default();
        seen(&mut queue, MS, 0, 200);
        queue.is_prevented_until(700 * MS);
        seen(&mut queue, MS, 200, 690);
        assert_eq!(queue.delay_ns_max(), 5 * MS);
        seen(&mut queue, MS, 690, 730);
        assert_eq!(queue.delay_ns_max(), 25 * MS);
    }

    /// A shard whose rounds took 50 ms, with reads from the disk, never took its queue to stand.
    #[test]
    fn a_shard_that_looks_seldom_knows_its_queue() {
        let mut queue = StandingQueue::default();
        (0..10).for_each(|look| queue.saw(20 * MS, look * 50 * MS));
        assert_eq!(queue.delay_ns_max(), 5 * MS);
    }
}
