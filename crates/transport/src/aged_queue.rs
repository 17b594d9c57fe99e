//! The order in which what waits is begun: first come, first served, until it has waited so long that some of it is late
//! whatever order is chosen.
//!
//! A queue that is served in the order of arrival makes everything equally late once more comes than can be served: all of
//! it waits as long as the longest wait that is allowed, and clients that hope for an answer within milliseconds get none.
//! Served from its newest end it gives nearly everybody an answer at once, and what is left at the old end is refused when
//! its time is over. But clients that only ask again when they were answered (a closed loop) never grow late by much, and
//! all of them are to be answered: so as much is taken from the old end as is needed to serve everything in time, as long as
//! that is possible at all. Decision 23 has the measurements.

use std::collections::VecDeque;

/// Up to this age everything is served in the order of its arrival: nobody is known to need more of a queue, and a pause of
/// the process or a burst is over within it.
pub(crate) const IN_ORDER_NS_MAX: u64 = 30_000_000;

/// Turns are counted over so long, to know how fast the queue is served.
const PACE_WINDOW_NS: u64 = 20_000_000;

/// Share of turns, in thousandths, that the old end gets in any case while the queue can be saved.
const OLDEST_SHARE_MIN: u64 = 50;

/// Its share of turns once it was given up: the oldest are answered in the end, whatever the overload, and a stopped
/// generator's queue is worked off from both ends. What they get is late, and lost to those who would be served in time.
const OLDEST_SHARE_GIVEN_UP: u64 = 20;

/// All that waits is to be served within this part of the longest wait, in tenths.
const SERVED_WITHIN_TENTHS: u64 = 8;

/// Where serving all would take more than this part of the longest wait, the old end is given up: to save it would take more
/// than a third of all turns from those who can still be served at once.
const SAVED_SHARE_OF_WAIT: u64 = 4;

/// And where it would take longer than this, whatever may wait: 50,000 callers, each of whom asks again once it was answered, at 100,000 answers
/// a second. Of scans, which may wait for 5 s, queues of 750 ms were saved at a fifth of all turns.
const SAVED_NS_MAX: u64 = 500_000_000;

/// When a request came, and how long it may wait to be begun. In nanoseconds of the shard's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When its bytes came.
    pub received_ns: u64,
    /// How long it may wait after that.
    pub wait_ns_max: u64,
}

impl Wait {
    /// How long it has waited.
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.received_ns)
    }

    /// Returns whether it has waited too long to be begun.
    pub fn is_over(&self, now_ns: u64) -> bool {
        self.age_ns(now_ns) > self.wait_ns_max
    }
}

/// Queue of one client's waiting items. Its bound is its owner's: the streams of a connection, and its account of memory.
#[derive(Debug)]
pub(crate) struct AgedQueue<T> {
    /// In the order of arrival.
    waiting: VecDeque<(Wait, T)>,
    pace: Pace,
    /// Right of the old end to the next turns, in thousandths of one.
    owed_to_oldest: u64,
}

/// How often the queue has its turn.
#[derive(Debug, Default)]
struct Pace {
    window_began_ns: u64,
    turns: u64,
    /// Time per turn in the last window; 0 while nothing is known.
    turn_ns: u64,
}

impl Pace {
    fn begin(&mut self, now_ns: u64) {
        *self = Pace {
            window_began_ns: now_ns,
            ..Pace::default()
        };
    }

    fn turn(&mut self, now_ns: u64) {
        self.turns += 1;
        let passed_ns = now_ns.saturating_sub(self.window_began_ns);
        if passed_ns >= PACE_WINDOW_NS {
            self.turn_ns = passed_ns / self.turns;
            self.window_began_ns = now_ns;
            self.turns = 0;
        }
    }
}

impl<T> Default for AgedQueue<T> {
    fn default() -> Self {
        AgedQueue {
            waiting: VecDeque::new(),
            pace: Pace::default(),
            owed_to_oldest: 0,
        }
    }
}

impl<T> AgedQueue<T> {
    /// Items that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Wait of the item that has waited longest.
    pub fn oldest(&self) -> Option<&Wait> {
        self.waiting.front().map(|(wait, _)| wait)
    }

    /// Mostly what came after everything that is here: where it waited in another queue before, that had another order.
    pub fn push(&mut self, wait: Wait, item: T, now_ns: u64) {
        if self.waiting.is_empty() {
            self.pace.begin(now_ns);
        }
        let is_newest = self
            .waiting
            .back()
            .is_none_or(|(newest, _)| newest.received_ns <= wait.received_ns);
        if is_newest {
            return self.waiting.push_back((wait, item));
        }
        let place = self
            .waiting
            .partition_point(|(other, _)| other.received_ns <= wait.received_ns);
        self.waiting.insert(place, (wait, item));
    }

    /// The one whose turn it is.
    pub fn pop(&mut self, now_ns: u64) -> Option<(Wait, T)> {
        self.pop_before(0, now_ns)
    }

    /// The one whose turn it is, where so many more wait `behind` these until fewer are here, and are to be served in time as well.
    pub fn pop_before(&mut self, behind: usize, now_ns: u64) -> Option<(Wait, T)> {
        let oldest = *self.oldest()?;
        self.pace.turn(now_ns);
        match oldest.age_ns(now_ns) <= IN_ORDER_NS_MAX || self.is_turn_of_oldest(&oldest, behind) {
            true => self.pop_oldest(),
            false => self.waiting.pop_back(),
        }
    }

    fn is_turn_of_oldest(&mut self, oldest: &Wait, behind: usize) -> bool {
        let all_ns = ((self.waiting.len() + behind) as u64).saturating_mul(self.pace.turn_ns);
        let within_ns = oldest.wait_ns_max / 10 * SERVED_WITHIN_TENTHS;
        let is_saved = all_ns <= (oldest.wait_ns_max / SAVED_SHARE_OF_WAIT).min(SAVED_NS_MAX);
        self.owed_to_oldest += match is_saved {
            true => (all_ns.saturating_mul(1_000) / within_ns.max(1)).clamp(OLDEST_SHARE_MIN, 1_000),
            false => OLDEST_SHARE_GIVEN_UP,
        };
        let is_turn = self.owed_to_oldest >= 1_000;
        if is_turn {
            self.owed_to_oldest -= 1_000;
        }
        is_turn
    }

    /// The one that has waited longest.
    pub(crate) fn pop_oldest(&mut self) -> Option<(Wait, T)> {
        self.waiting.pop_front()
    }

    /// One whose time to be begun is over; the oldest first.
    pub fn pop_late(&mut self, now_ns: u64) -> Option<T> {
        self.oldest().filter(|oldest| oldest.is_over(now_ns))?;
        self.pop_oldest().map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const WAIT_MAX: u64 = 1_000 * MS;

    /// Waits of what was served, and how many were refused, in simulated time.
    #[derive(Default)]
    struct Served {
        waits_ns: Vec<u64>,
        refused: u64,
    }

    impl Served {
        fn within(&self, ns: u64) -> usize {
            self.waits_ns.iter().filter(|&&wait_ns| wait_ns <= ns).count()
        }
    }

    fn wait(received_ns: u64) -> Wait {
        Wait {
            received_ns,
            wait_ns_max: WAIT_MAX,
        }
    }

    /// Requests come every `every_ns` and take `cost_ns`; what is served between two moments counts.
    fn open_loop(every_ns: u64, cost_ns: u64, from_ns: u64, until_ns: u64) -> Served {
        let (mut queue, mut served) = (AgedQueue::default(), Served::default());
        let (mut now_ns, mut next_ns) = (0, 0);
        while now_ns < until_ns {
            while next_ns <= now_ns {
                queue.push(wait(next_ns), (), next_ns);
                next_ns += every_ns;
            }
            while queue.pop_late(now_ns).is_some() {
                served.refused += 1;
            }
            match queue.pop(now_ns) {
                Some((wait, ())) => {
                    now_ns += cost_ns;
                    if now_ns >= from_ns {
                        served.waits_ns.push(wait.age_ns(now_ns));
                    }
                }
                None => now_ns = next_ns,
            }
        }
        served
    }

    /// Each worker asks again as soon as it is answered.
    fn closed_loop(workers: u64, cost_ns: u64, wait_ns_max: u64, until_ns: u64) -> Served {
        let (mut queue, mut served) = (AgedQueue::default(), Served::default());
        let mut now_ns = 0;
        let wait_from = |received_ns| Wait {
            received_ns,
            wait_ns_max,
        };
        (0..workers).for_each(|_| queue.push(wait_from(0), (), 0));
        while now_ns < until_ns {
            while queue.pop_late(now_ns).is_some() {
                served.refused += 1;
                queue.push(wait_from(now_ns), (), now_ns);
            }
            if let Some((wait, ())) = queue.pop(now_ns) {
                now_ns += cost_ns;
                served.waits_ns.push(wait.age_ns(now_ns));
                queue.push(wait_from(now_ns), (), now_ns);
            }
        }
        served
    }

    /// With scans that may wait for 5 s, 131,072 callers had one answer in five after 2 s and more.
    #[test]
    fn a_queue_of_more_than_half_a_second_is_not_saved_however_long_its_requests_may_wait() {
        let served = closed_loop(131_072, 5_700, 5 * WAIT_MAX, 4_000 * MS);
        let in_time = served.within(10 * MS);
        assert!(
            in_time * 100 >= served.waits_ns.len() * 90,
            "{in_time} of {}",
            served.waits_ns.len()
        );
        let saved = closed_loop(50_000, 9_000, 5 * WAIT_MAX, 12_000 * MS);
        assert_eq!(saved.refused, 0);
    }

    /// Served in the order of their arrival, all of them were a second late.
    #[test]
    fn of_twice_the_capacity_nearly_as_many_are_in_time_as_can_be_served() {
        for (every_ns, cost_ns) in [
            (500, 1_000),
            (5_000, 10_000),
            (500_000, 1_000_000),
            (100_000, 1_000_000),
        ] {
            let served = open_loop(every_ns, cost_ns, 1_500 * MS, 3_000 * MS);
            let in_time = served.within(10 * MS);
            let capacity = (1_500 * MS / cost_ns) as usize;
            assert!(
                in_time * 100 >= capacity * 96,
                "{cost_ns}: {in_time} of {capacity}"
            );
        }
    }

    /// At twice the capacity in two queues, of which the second was short enough to be saved, one answer in eight came after
    /// 2 s: it was filled again and again from the end of the first one.
    #[test]
    fn a_short_queue_is_not_saved_where_many_wait_behind_it() {
        const IN_SECOND_MAX: usize = 1_024;
        const COST_NS: u64 = 250_000;
        let wait_from = |received_ns| Wait {
            received_ns,
            wait_ns_max: 2_500 * MS,
        };
        let (mut first, mut second) = (AgedQueue::default(), AgedQueue::default());
        let (mut now_ns, mut next_ns, mut served) = (0, 0, Served::default());
        while now_ns < 8_000 * MS {
            while next_ns <= now_ns {
                first.push(wait_from(next_ns), (), next_ns);
                next_ns += COST_NS / 2;
            }
            while first.pop_late(now_ns).is_some() || second.pop_late(now_ns).is_some() {}
            while second.len() < IN_SECOND_MAX
                && let Some((wait, ())) = first.pop(now_ns)
            {
                second.push(wait, (), now_ns);
            }
            if let Some((wait, ())) = second.pop_before(first.len(), now_ns) {
                now_ns += COST_NS;
                if now_ns >= 4_000 * MS {
                    served.waits_ns.push(wait.age_ns(now_ns));
                }
            }
        }
        let in_time = served.within(10 * MS);
        assert!(
            in_time * 100 >= served.waits_ns.len() * 90,
            "{in_time} of {}",
            served.waits_ns.len()
        );
    }

    #[test]
    fn nobody_is_refused_in_a_closed_loop_and_all_are_served() {
        for (workers, cost_ns) in [(50_000, 3_000), (1_000, 100_000), (200, 1_000_000)] {
            let served = closed_loop(workers, cost_ns, WAIT_MAX, 5_000 * MS);
            assert_eq!(served.refused, 0, "{workers}");
            let longest_ns = served.waits_ns.iter().max().copied().unwrap_or(0);
            assert!(longest_ns < WAIT_MAX, "{workers}: {longest_ns}");
        }
    }

    /// A pause of the process is no overload: what came meanwhile is served in its order.
    #[test]
    fn what_is_young_is_served_in_the_order_of_its_arrival() {
        let mut queue = AgedQueue::default();
        (0..100).for_each(|item| queue.push(wait(item), item, item));
        for item in 0..100 {
            assert_eq!(queue.pop(IN_ORDER_NS_MAX).map(|(_, item)| item), Some(item));
        }
    }

    /// Items taken newest first out of one queue and put into the next were served oldest first there.
    #[test]
    fn the_order_is_that_of_arrival_and_not_of_pushing() {
        let mut queue = AgedQueue::default();
        let now_ns = 500 * MS;
        for received_ns in [0, 400 * MS, 300 * MS, 200 * MS] {
            queue.push(wait(received_ns), received_ns, now_ns);
        }
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop(now_ns))
            .map(|(_, item)| item / MS)
            .collect();
        assert_eq!(order, [400, 300, 200, 0]);
    }

    #[test]
    fn below_capacity_nothing_is_left_of_an_overload() {
        let (mut queue, mut late) = (AgedQueue::default(), 0);
        // 900 ms worth of work at once, then four fifths of what can be served.
        (0..900).for_each(|_| queue.push(wait(0), (), 0));
        let mut next_ns = 0;
        let mut now_ns = 0;
        while now_ns < 6_000 * MS {
            while next_ns <= now_ns {
                queue.push(wait(next_ns), (), next_ns);
                next_ns += 1_250_000;
            }
            while queue.pop_late(now_ns).is_some() {
                late += 1;
            }
            now_ns = queue.pop(now_ns).map_or(next_ns, |_| now_ns + MS);
        }
        assert!(queue.len() <= 1, "{}", queue.len());
        assert!(late <= 900, "{late}");
    }
}
