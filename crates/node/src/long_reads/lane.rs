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
    pub standing: StandingQueue,
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

    pub fn ended(&mut self, place: usize) {
        self.executor.ended(place);
    }

    pub fn worked(&mut self, began_ns: u64, now_ns: u64) {
        let is_over = !self.can_go_on();
        self.share.worked(began_ns, now_ns, is_over);
    }

    /// How long until something that `asker` offers now is begun, at the pace of late; `left_ns` says what is left of
    /// something that was begun.
    pub fn wait_ns(&self, asker: ClientId, left_ns: impl Fn(&Started<T>) -> u64) -> u64 {
        let started_ns: u64 = self.executor.started().map(left_ns).sum();
        let before_ns = self.waiting.cost_before_ns(asker) + started_ns;
        before_ns.saturating_mul(1_000) / self.share.permille
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
                true => lane.borrow_mut().ended(place),
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
