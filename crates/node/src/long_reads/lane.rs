//! Reads of about the same cost: those that wait, and those that were begun.

use std::sync::Arc;
use std::task::Waker;

use helenus_transport::fair_share::{ClientId, FairShareQueue, Offer, Turn};
use helenus_transport::standing_queue::StandingQueue;
use tokio::sync::Notify;

use super::executor::{Executor, ReadFuture, Started};
use super::{LongRead, Tag};

/// Window over which a lane's share of the time is measured, in ns.
const SHARE_WINDOW_NS: u64 = 20_000_000;

/// However little a lane got of late, in thousandths: what it can have in a slice of every round of the connections.
const SHARE_MIN: u64 = 50;

pub(super) struct Lane<W = LongRead, T = Tag> {
    waiting: FairShareQueue<W>,
    executor: Executor<T>,
    share: Share,
    ends: Ends,
    pub standing: StandingQueue,
}

/// How often a place gets free while somebody waits for one: where reads wait for other shards or the disk, that says more than what they
/// cost.
#[derive(Default)]
struct Ends {
    last_ns: Option<u64>,
    /// Smoothed.
    interval_ns: u64,
}

impl Ends {
    fn one(&mut self, somebody_waits: bool, now_ns: u64) {
        let last_ns = std::mem::replace(&mut self.last_ns, somebody_waits.then_some(now_ns));
        if let Some(last_ns) = last_ns.filter(|_| somebody_waits) {
            let interval_ns = now_ns.saturating_sub(last_ns);
            self.interval_ns = (self.interval_ns * 31 + interval_ns).div_ceil(32);
        }
    }
}

/// Share of the time that a lane gets while it has something to do, in thousandths.
struct Share {
    permille: u64,
    window_began_ns: u64,
    worked_ns: u64,
}

impl Share {
    /// Has worked until `now_ns`; `is_over`: there is nothing left to do.
    fn worked(&mut self, began_ns: u64, now_ns: u64, is_over: bool) {
        if self.window_began_ns == 0 {
            self.window_began_ns = began_ns;
        }
        self.worked_ns += now_ns - began_ns;
        let passed_ns = now_ns.saturating_sub(self.window_began_ns);
        if passed_ns >= SHARE_WINDOW_NS {
            let permille = self.worked_ns * 1_000 / passed_ns;
            self.permille = permille.clamp(SHARE_MIN, 1_000);
        }
        if is_over {
            // It got all that it needed.
            self.permille = (self.permille * 7 + 1_000).div_ceil(8);
        }
        if is_over || passed_ns >= SHARE_WINDOW_NS {
            self.worked_ns = 0;
            self.window_began_ns = if is_over { 0 } else { now_ns };
        }
    }
}

impl<W, T> Lane<W, T> {
    pub fn new(work: Arc<Notify>) -> Self {
        Lane {
            waiting: FairShareQueue::default(),
            executor: Executor::new(work),
            share: Share {
                permille: 1_000,
                window_began_ns: 0,
                worked_ns: 0,
            },
            ends: Ends::default(),
            standing: StandingQueue::default(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.executor.is_empty()
    }

    /// Waiting and begun.
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting.len(), self.executor.len())
    }

    /// Returns whether there is anything that needs nothing but the processor.
    pub fn can_go_on(&self) -> bool {
        self.executor.has_ready() || (!self.waiting.is_empty() && self.executor.has_room())
    }

    pub fn push(&mut self, offer: &Offer, work: W, now_ns: u64) {
        self.waiting.push(offer, work, now_ns);
    }

    pub fn take_oldest_of(&mut self, asker: ClientId) -> Option<W> {
        self.waiting.pop_oldest_of(asker)
    }

    pub fn pop_late(&mut self, now_ns: u64) -> Option<W> {
        self.waiting.pop_late(now_ns)
    }

    /// Takes the read to be begun next, if there is room for it.
    pub fn next(&mut self, now_ns: u64) -> Option<Turn<W>> {
        self.executor
            .has_room()
            .then(|| self.waiting.pop(now_ns))
            .flatten()
    }

    pub fn start(&mut self, future: ReadFuture, tag: T) {
        self.executor.start(future, tag);
    }

    pub fn take_ready(&mut self) -> Option<(usize, Waker, Started<T>)> {
        let (place, started) = self.executor.take_ready()?;
        Some((place, self.executor.waker(place), started))
    }

    pub fn put_back(&mut self, place: usize, started: Started<T>) {
        self.executor.put_back(place, started);
    }

    /// Gives up the place of a read that has ended at about `now_ns`.
    pub fn ended(&mut self, place: usize, now_ns: u64) {
        let somebody_waits = !self.executor.has_room() && !self.waiting.is_empty();
        self.ends.one(somebody_waits, now_ns);
        self.executor.ended(place);
    }

    pub fn worked(&mut self, began_ns: u64, now_ns: u64) {
        let is_over = !self.can_go_on();
        self.share.worked(began_ns, now_ns, is_over);
    }

    /// How long until something that `asker` offers now is begun, at the pace of late; `left_ns` says what is left of
    /// something that was begun.
    pub fn wait_ns(&self, asker: ClientId, left_ns: impl Fn(&Started<T>) -> u64) -> u64 {
        self.passes_in_ns(self.waiting.cost_before_ns(asker), left_ns)
    }

    /// As [`Lane::wait_ns`], of somebody who has nothing here and would come behind all that waits.
    pub fn wait_of_all_ns(&self, left_ns: impl Fn(&Started<T>) -> u64) -> u64 {
        self.passes_in_ns(self.waiting.cost_ns(), left_ns)
    }

    fn passes_in_ns(&self, waiting_ns: u64, left_ns: impl Fn(&Started<T>) -> u64) -> u64 {
        let started_ns: u64 = self.executor.started().map(left_ns).sum();
        let by_cost_ns = (waiting_ns + started_ns).saturating_mul(1_000) / self.share.permille;
        match self.executor.has_room() {
            true => by_cost_ns,
            false => by_cost_ns.max(self.waiting.len() as u64 * self.ends.interval_ns),
        }
    }

    pub fn take_all(&mut self, is_over: impl Fn(&T) -> bool) -> Vec<Started<T>> {
        self.executor.take_all(is_over)
    }
}

impl Lane {
    /// Ends what has no time left.
    pub fn take_over(&mut self, now_ns: u64) -> Vec<Started<Tag>> {
        self.take_all(|tag| {
            tag.whole
                .as_ref()
                .is_some_and(|whole| whole.deadline.is_over(now_ns))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::super::executor::step_ended;
    use super::*;
    use crate::long_reads::executor::STARTED_MAX;
    use helenus_transport::aged_queue::Wait;

    const MS: u64 = 1_000_000;
    const STEP_NS: u64 = 20_000;
    const STEPS: u64 = 50;

    struct Work {
        received_ns: u64,
    }

    type TestLane = RefCell<Lane<Work, ()>>;

    fn offer(asker: usize, received_ns: u64) -> Offer {
        Offer {
            asker: ClientId(asker),
            kept_requests: 0,
            wait: Wait {
                received_ns,
                wait_ns_max: 60_000 * MS,
            },
            cost_ns: STEPS * STEP_NS,
        }
    }

    /// One step, or the begin of the next; false if there is nothing to do.
    fn go_on(lane: &TestLane, clock: &Rc<Cell<u64>>, took_ns: &Rc<RefCell<Vec<u64>>>) -> bool {
        let ready = lane.borrow_mut().take_ready();
        if let Some((place, waker, mut started)) = ready {
            match started.step(&waker) {
                true => lane.borrow_mut().ended(place, clock.get()),
                false => lane.borrow_mut().put_back(place, started),
            }
            return true;
        }
        let next = lane.borrow_mut().next(clock.get());
        let Some(Turn::Begin(_)) = next else {
            return next.is_some();
        };
        let (clock, took_ns) = (clock.clone(), took_ns.clone());
        let began_ns = clock.get();
        let future = Box::pin(async move {
            for _ in 0..STEPS {
                clock.set(clock.get() + STEP_NS);
                step_ended().await;
            }
            took_ns.borrow_mut().push(clock.get() - began_ns);
        });
        lane.borrow_mut().start(future, ());
        true
    }

    /// Reads that wait for another shard cost their own next to nothing: those behind them were taken to be begun at once, waited
    /// for 25 ms, and were refused there for their age.
    #[test]
    fn where_all_places_are_taken_the_wait_is_that_of_the_places() {
        let lane: TestLane = RefCell::new(Lane::new(Arc::default()));
        let begun = |lane: &TestLane, now_ns: u64| {
            let next = lane.borrow_mut().next(now_ns);
            assert!(matches!(next, Some(Turn::Begin(_))));
            lane.borrow_mut().start(Box::pin(std::future::pending()), ());
        };
        for _ in 0..STARTED_MAX + 100 {
            lane.borrow_mut().push(
                &Offer {
                    cost_ns: 1,
                    ..offer(1, 0)
                },
                Work { received_ns: 0 },
                0,
            );
        }
        (0..STARTED_MAX).for_each(|_| begun(&lane, 0));
        let wait_ns = |lane: &TestLane| lane.borrow().wait_ns(ClientId(1), |_| 0);
        assert!(
            wait_ns(&lane) < 1_000,
            "nothing else is known: {}",
            wait_ns(&lane)
        );
        for now_ms in 1..=90 {
            let ready = lane.borrow_mut().take_ready();
            let place = ready.map(|(place, ..)| place);
            let place = place.unwrap_or(now_ms as usize % STARTED_MAX);
            lane.borrow_mut().ended(place, now_ms * MS);
            begun(&lane, now_ms * MS);
        }
        // One ends every millisecond, and ten wait.
        let wait_ms = wait_ns(&lane) / MS;
        assert!((8..=10).contains(&wait_ms), "{wait_ms} ms");
    }

    /// 10,000 scans were served in turns and all were late together.
    #[test]
    fn a_scan_that_was_begun_beside_ten_thousand_that_wait_takes_its_own_steps_and_no_more() {
        let lane: TestLane = RefCell::new(Lane::new(Arc::new(Notify::new())));
        let (clock, took_ns) = (Rc::new(Cell::new(1)), Rc::new(RefCell::new(Vec::new())));
        for waiting in 0..10_000 {
            lane.borrow_mut()
                .push(&offer(waiting % 16, 1), Work { received_ns: 1 }, 1);
        }
        for _ in 0..1_000 * STEPS {
            assert!(go_on(&lane, &clock, &took_ns));
            assert!(
                lane.borrow().counts().1 <= 1,
                "one at a time where none waits for anything"
            );
        }
        assert!(took_ns.borrow().len() >= 900);
        assert!(took_ns.borrow().iter().all(|&took_ns| took_ns == STEPS * STEP_NS));
    }

    #[test]
    fn one_that_waits_for_something_lets_the_next_begin_and_goes_on_before_it() {
        let lane: TestLane = RefCell::new(Lane::new(Arc::new(Notify::new())));
        let ended = Rc::new(RefCell::new(Vec::new()));
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let first = ended.clone();
        lane.borrow_mut().start(
            Box::pin(async move {
                let _ = receiver.await;
                first.borrow_mut().push(1);
            }),
            (),
        );
        let second = ended.clone();
        lane.borrow_mut().start(
            Box::pin(async move {
                step_ended().await;
                step_ended().await;
                second.borrow_mut().push(2);
            }),
            (),
        );
        let (clock, took_ns) = (Rc::new(Cell::new(1)), Rc::new(RefCell::new(Vec::new())));
        for _ in 0..2 {
            assert!(go_on(&lane, &clock, &took_ns));
        }
        assert!(sender.send(()).is_ok());
        while go_on(&lane, &clock, &took_ns) {}
        assert_eq!(*ended.borrow(), [1, 2]);
        assert!(lane.borrow().is_empty());
    }

    /// A lane that gets a tenth of the time told its clients ten times too little.
    #[test]
    fn how_long_it_takes_is_told_by_what_the_lane_gets() {
        let mut lane: Lane<Work, ()> = Lane::new(Arc::new(Notify::new()));
        (0..10).for_each(|_| lane.push(&offer(1, 1), Work { received_ns: 1 }, 1));
        assert_eq!(lane.wait_ns(ClientId(1), |_| 0), 10 * STEPS * STEP_NS);
        for round in 1..100 {
            lane.worked(round * 5 * MS, round * 5 * MS + MS / 2);
        }
        let wait_ns = lane.wait_ns(ClientId(1), |_| 0);
        assert!((80 * MS..120 * MS).contains(&wait_ns), "{wait_ns}");
        let Some(Turn::Begin(work)) = lane.next(1) else {
            panic!("the first one is begun");
        };
        assert_eq!(work.received_ns, 1);
    }
}
