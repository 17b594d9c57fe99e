//! When the requests of an open loop start.
//!
//! A thread that has nothing due sleeps until its next request's time, on a timer of its own: the runtime's timers count
//! milliseconds, and at a thousand requests a second that would be the better part of every latency. One sleep hands out
//! everything that has come due, and a thread sleeps at least [`REST`], so that what pacing costs has a bound.

use std::time::Duration;

/// The shortest sleep between two looks at what is due: no more than 20,000 wake-ups a second, and no request later than
/// this by the pacer's doing.
pub(super) const REST: Duration = Duration::from_micros(50);

/// The intended start of each request, from the start of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub per_second: f64,
    /// The rate grows in proportion to time for so long.
    pub ramp: Duration,
}

impl Schedule {
    /// Evenly at the full rate, and before that ever denser.
    pub fn intended(&self, slot: u64) -> Duration {
        let (slot, ramp_s) = (slot as f64, self.ramp.as_secs_f64());
        let in_ramp = self.per_second * ramp_s / 2.0;
        let at_s = if slot < in_ramp {
            (2.0 * slot * ramp_s / self.per_second).sqrt()
        } else {
            ramp_s + (slot - in_ramp) / self.per_second
        };
        Duration::from_secs_f64(at_s)
    }
}

/// One thread's share of a schedule: every `threads`-th request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub schedule: Schedule,
    pub thread: usize,
    pub threads: usize,
}

impl Share {
    /// The intended start of the thread's request number `index`.
    pub fn intended(&self, index: u64) -> Duration {
        let slot = index * self.threads as u64 + self.thread as u64;
        self.schedule.intended(slot)
    }
}

/// Counts what has come due.
#[derive(Debug)]
pub(super) struct Pacer {
    share: Share,
    released: u64,
}

impl Pacer {
    pub fn new(share: Share) -> Self {
        Pacer { share, released: 0 }
    }

    /// How many requests have come due by `now` that had not before.
    pub fn release(&mut self, now: Duration) -> usize {
        let before = self.released;
        while self.share.intended(self.released) <= now {
            self.released += 1;
        }
        (self.released - before) as usize
    }

    /// When to look again.
    pub fn next_look(&self, now: Duration) -> Duration {
        self.share.intended(self.released).max(now + REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacer(per_second: f64, ramp: Duration, thread: usize, threads: usize) -> Pacer {
        Pacer::new(Share {
            schedule: Schedule { per_second, ramp },
            thread,
            threads,
        })
    }

    /// Returns what a thread hands out in simulated time: for each look, when and how much. `late` is how long after the
    /// wanted time the thread wakes.
    fn looks(mut pacer: Pacer, length: Duration, late: impl Fn(usize) -> Duration) -> Vec<(Duration, usize)> {
        let (mut now, mut looks) = (Duration::ZERO, Vec::new());
        while now < length {
            looks.push((now, pacer.release(now)));
            now = pacer.next_look(now) + late(looks.len());
        }
        looks
    }

    #[test]
    fn every_request_is_handed_out_once_in_its_time_and_by_few_wake_ups() {
        let second = Duration::from_secs(1);
        for (rate, wake_ups_max) in [(100_u32, 101), (2_000, 2_001), (500_000, 20_001)] {
            let pacer = pacer(f64::from(rate), Duration::ZERO, 0, 1);
            let share = pacer.share;
            let looks = looks(pacer, second, |_| Duration::ZERO);
            assert!(looks.len() <= wake_ups_max, "{} for {rate}/s", looks.len());
            let mut index = 0;
            for (at, count) in looks {
                for _ in 0..count {
                    let intended = share.intended(index);
                    assert!(
                        intended <= at && at - intended <= REST,
                        "{rate}/s: {intended:?} at {at:?}"
                    );
                    index += 1;
                }
            }
            let missing = u64::from(rate) - index;
            assert!(missing <= u64::from(rate) / 20_000, "{missing} of {rate}");
        }
    }

    #[test]
    fn a_thread_that_wakes_late_hands_out_all_that_was_due_and_is_late_once() {
        let stall = Duration::from_millis(100);
        let is_stalled = |look| if look == 500 { stall } else { Duration::ZERO };
        let looks = looks(
            pacer(1_000.0, Duration::ZERO, 0, 1),
            Duration::from_secs(1),
            is_stalled,
        );
        let most = looks.iter().map(|(_, count)| *count).max();
        assert_eq!(most, Some(101));
        assert_eq!(looks.iter().map(|(_, count)| count).sum::<usize>(), 1_000);
        assert_eq!(looks.iter().filter(|(_, count)| *count > 1).count(), 1);
    }

    #[test]
    fn threads_share_the_requests_without_gaps_or_doubles() {
        let ramp = Duration::from_millis(100);
        let mut starts: Vec<Duration> = Vec::new();
        for thread in 0..3 {
            let mut pacer = pacer(10_000.0, ramp, thread, 3);
            let count = pacer.release(Duration::from_millis(200)) as u64;
            starts.extend((0..count).map(|index| pacer.share.intended(index)));
        }
        starts.sort();
        // Half of the rate while it grows, then all of it; both ends are in.
        assert_eq!(starts.len(), 1_501);
        let schedule = Schedule {
            per_second: 10_000.0,
            ramp,
        };
        assert!(
            (0..)
                .zip(&starts)
                .all(|(slot, start)| schedule.intended(slot) == *start)
        );
    }
}
