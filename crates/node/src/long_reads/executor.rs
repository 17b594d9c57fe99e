//! Started reads of one lane: the oldest that can go on does, to its end.
//!
//! Served in turns, of a hundred reads that take 1 ms each all are late together after 100 ms; one after the other, the first
//! is answered after 1 ms. A read that waits for the disk or for another shard lets the next one go on meanwhile.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::Notify;

/// Started reads of one lane: enough for the disk and other shards to have something to do while one is computed. One for
/// each bit of the word that says which of them can go on.
pub(crate) const STARTED_MAX: usize = u64::BITS as usize;

pub(crate) type ReadFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A step of a read has ended: it goes on when nothing that is older can, and when the shard's other work had its turn.
/// Not tokio's yielding, which asks the kernel for events first.
pub(crate) fn step_ended() -> impl Future<Output = ()> {
    let mut has_ended = false;
    poll_fn(move |context| {
        if has_ended {
            return Poll::Ready(());
        }
        has_ended = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Time that a step counts for at most, in ns: it has 512 rows (`read_state::STEP_UNITS_MAX`), and a thread that lost its
/// processor meanwhile says nothing of the read.
const STEP_NS_MAX: u64 = 500_000;

/// Which places can go on, set from any thread.
struct Ready {
    places: AtomicU64,
    /// Notification of the task that runs the lanes.
    executor: Arc<Notify>,
}

struct PlaceWaker {
    ready: Arc<Ready>,
    place: u64,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.places.fetch_or(1 << self.place, Ordering::AcqRel);
        self.ready.executor.notify_one();
    }
}

/// A read that was begun, and what its owner says of it.
pub(crate) struct Started<T> {
    pub future: ReadFuture,
    pub tag: T,
    /// Time of its steps so far.
    pub took_ns: u64,
}

/// The places of a lane.
pub(crate) struct Executor<T> {
    ready: Arc<Ready>,
    wakers: Vec<Waker>,
    places: Vec<Option<Started<T>>>,
    /// Places that are taken, the oldest first.
    order: Vec<u8>,
}

impl<T> Executor<T> {
    pub fn new(executor: Arc<Notify>) -> Self {
        let ready = Arc::new(Ready {
            places: AtomicU64::new(0),
            executor,
        });
        let waker = |place| {
            Waker::from(Arc::new(PlaceWaker {
                ready: ready.clone(),
                place,
            }))
        };
        Executor {
            wakers: (0..STARTED_MAX as u64).map(waker).collect(),
            places: (0..STARTED_MAX).map(|_| None).collect(),
            order: Vec::with_capacity(STARTED_MAX),
            ready,
        }
    }

    pub fn has_room(&self) -> bool {
        self.order.len() < STARTED_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn started(&self) -> impl Iterator<Item = &Started<T>> {
        self.order
            .iter()
            .filter_map(|&place| self.places[usize::from(place)].as_ref())
    }

    /// Only where there is room. It can go on at once.
    pub fn start(&mut self, future: ReadFuture, tag: T) {
        // One that is being polled has left its place empty, and is in the order.
        let is_free = |place: &usize| !self.order.contains(&(*place as u8));
        let Some(place) = (0..STARTED_MAX).find(is_free) else {
            return;
        };
        self.places[place] = Some(Started {
            future,
            tag,
            took_ns: 0,
        });
        self.order.push(place as u8);
        self.ready.places.fetch_or(1 << place, Ordering::AcqRel);
    }

    /// Returns whether any read can go on.
    pub fn has_ready(&self) -> bool {
        let ready = self.ready.places.load(Ordering::Acquire);
        self.order.iter().any(|&place| ready & (1 << place) != 0)
    }

    /// Takes out the oldest that can go on, for one step.
    pub fn take_ready(&mut self) -> Option<(usize, Started<T>)> {
        let ready = self.ready.places.load(Ordering::Acquire);
        let place = *self.order.iter().find(|&&place| ready & (1 << place) != 0)?;
        // Before it goes on: what wakes it meanwhile wakes it again.
        self.ready.places.fetch_and(!(1 << place), Ordering::AcqRel);
        let place = usize::from(place);
        self.places[place].take().map(|started| (place, started))
    }

    pub fn waker(&self, place: usize) -> Waker {
        self.wakers[place].clone()
    }

    /// Back after a step that was not its last.
    pub fn put_back(&mut self, place: usize, started: Started<T>) {
        self.places[place] = Some(started);
    }

    /// Gives up the place of a read that was taken out and has ended.
    pub fn ended(&mut self, place: usize) {
        self.order.retain(|&known| usize::from(known) != place);
    }

    /// Ends those of which `is_over`.
    pub fn take_all(&mut self, is_over: impl Fn(&T) -> bool) -> Vec<Started<T>> {
        let mut taken = Vec::new();
        let places = &mut self.places;
        self.order.retain(|&place| {
            let ended = places[usize::from(place)].take_if(|started| is_over(&started.tag));
            let is_kept = ended.is_none();
            taken.extend(ended);
            is_kept
        });
        taken
    }
}

impl<T> Started<T> {
    /// One step; whether it was the last.
    pub fn step(&mut self, waker: &Waker) -> bool {
        self.future
            .as_mut()
            .poll(&mut Context::from_waker(waker))
            .is_ready()
    }

    /// A step took so long.
    pub fn step_took(&mut self, step_ns: u64) {
        self.took_ns += step_ns.min(STEP_NS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// After a pause of 10 ms in a count of 120 us, counts were taken to cost 1.4 ms each, and of those that had come meanwhile, at four
    /// fifths of the capacity, twice as many were refused.
    #[test]
    fn a_pause_of_the_thread_is_not_what_a_read_costs() {
        let mut started = Started {
            future: Box::pin(async {}),
            tag: (),
            took_ns: 0,
        };
        started.step_took(60 * US);
        started.step_took(20_000 * US);
        assert_eq!(started.took_ns, 560 * US);
    }
}
