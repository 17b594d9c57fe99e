//! Reads that are not answered at once: scans, several partitions, aggregates, filtering, large pages.
//!
//! Each has a place in a queue of its shard, with an estimate of what it costs, learned from those of its statement before
//! it. What was begun runs to its end, the oldest first; new work is begun as far as nothing that was begun can go on. A
//! client that asked to be told of overload is told so at once where its request could not be begun in time; what the others
//! ask for waits half of its time, in the order of [`AgedQueue`](helenus_transport::aged_queue::AgedQueue). Decision 23 has the reasons
//! and the measurements.

pub(crate) mod executor;
mod lane;
mod queue;
mod refusing;
mod turns;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use helenus_engine::Prepared;
use helenus_storage::read_state::ReadState;
use helenus_transport::fair_share::Offer;
use helenus_transport::request_memory::Held;
use lane::Lane;
use tokio::sync::Notify;

use crate::deadline::Deadline;
use crate::forward::OwnedExecution;
use crate::rate_limit::RateLimits;
use crate::shard::deferred_read::DeferredRead;
use crate::suspended_read::Asker;

/// Assumed cost of a statement of which nothing is known, in ns: a scan's first page.
pub(crate) const COST_UNKNOWN_NS: u64 = 100_000;

/// Reads that cost as much wait behind each other, and not before those that cost less.
const LARGE_NS_MIN: u64 = 1_000_000;

/// A statement that has cost as much is not tried at once where others wait for their turn: slices of a few hundred rows are
/// below it.
const TRIED_AT_ONCE_NS_MAX: u64 = 30_000;

/// Cost that is learned of a try in vain: of reads that never end at once about one in eight is tried.
const TRIED_IN_VAIN_NS: u64 = 8 * TRIED_AT_ONCE_NS_MAX;

/// Time that the lanes take of the shard before its connections have their turn, in ns.
const SLICE_NS: u64 = 500_000;

/// Where clients hold more back than may be queued, and who is answered at once takes little: each turn of the connections costs two
/// calls of the system for every one of them, which after slices of 500 us is a fifth of the shard with sixteen connections.
const LONG_SLICE_NS: u64 = 1_000_000;

/// Steps of a slice, for a clock that stands still meanwhile.
const SLICE_STEPS_MAX: u32 = 256;

/// One of so many slices is the large reads' first: in the others they get what the small ones leave.
const SLICES_OF_LARGE: u64 = 4;

/// Bytes of a waiting read besides its values: its options, its place in the queue.
const WAITING_BYTES: usize = size_of::<LongRead>() + size_of::<WholeRead>();

/// Lanes of reads of one kind, by what they cost.
struct LanesByCost {
    small: RefCell<Lane>,
    large: RefCell<Lane>,
}

impl LanesByCost {
    fn new(work: &Arc<Notify>) -> Self {
        LanesByCost {
            small: RefCell::new(Lane::new(work.clone())),
            large: RefCell::new(Lane::new(work.clone())),
        }
    }

    fn of(&self, cost_ns: u64) -> &RefCell<Lane> {
        if cost_ns < LARGE_NS_MIN {
            &self.small
        } else {
            &self.large
        }
    }
}

/// The lanes of one shard.
pub(crate) struct LongReads {
    wholes: LanesByCost,
    /// Parts of reads that other shards have begun. They have places of their own: whoever waits for one keeps its place, so that reads of
    /// two shards that wait for each other's parts would keep all places of both.
    parts: LanesByCost,
    /// Tells the task that runs the lanes that there is something to do.
    work: Arc<Notify>,
    /// Anything waits or was begun.
    is_busy: Cell<bool>,
    /// The client of the last read that was queued has more of them than it may queue.
    is_held_back: Cell<bool>,
    slices: Cell<u64>,
    /// End of the last slice. The time that has passed since then, the connections and other tasks have taken.
    slice_ended_ns: Cell<u64>,
}

/// A read that waits for its turn.
pub(crate) struct LongRead {
    work: LongWork,
    cost_ns: u64,
    _held: Held,
}

enum LongWork {
    Whole(Box<WholeRead>),
    /// Part of a read of another shard's.
    Part(Box<dyn DeferredRead>),
}

struct WholeRead {
    execution: OwnedExecution,
    asker: Asker,
    rate_limits: RateLimits,
    begun: Option<ReadState>,
}

/// Facts about a read that was begun.
struct Tag {
    cost_ns: u64,
    /// `None` for a part: who asked for it gives it up.
    whole: Option<WholeTag>,
}

struct WholeTag {
    prepared: Arc<Prepared>,
    /// When the request came.
    received_ns: u64,
    was_tried: bool,
    /// True if the time that it took says something of the next one.
    tells_of_others: bool,
    asker: Asker,
    deadline: Deadline,
}

impl Default for LongReads {
    fn default() -> Self {
        let work = Arc::new(Notify::new());
        LongReads {
            wholes: LanesByCost::new(&work),
            parts: LanesByCost::new(&work),
            work,
            is_busy: Cell::new(false),
            is_held_back: Cell::new(false),
            slices: Cell::new(0),
            slice_ended_ns: Cell::new(0),
        }
    }
}

impl LongReads {
    /// The lane of whole reads of this cost.
    fn lane_of(&self, cost_ns: u64) -> &RefCell<Lane> {
        self.wholes.of(cost_ns)
    }

    fn lanes(&self) -> [&RefCell<Lane>; 4] {
        let (parts, wholes) = (&self.parts, &self.wholes);
        [&parts.small, &wholes.small, &parts.large, &wholes.large]
    }

    /// The lanes in the order of this slice. Parts and whole reads of a cost are first in turn: who asks this shard and who asks others
    /// for its rows have the same of it.
    fn next_lanes(&self) -> [&RefCell<Lane>; 4] {
        let slice = self.slices.get().wrapping_add(1);
        self.slices.set(slice);
        let mut lanes = self.lanes();
        if (slice + slice / SLICES_OF_LARGE).is_multiple_of(2) {
            lanes.swap(0, 1);
            lanes.swap(2, 3);
        }
        if slice.is_multiple_of(SLICES_OF_LARGE) {
            lanes.rotate_left(2);
        }
        lanes
    }

    pub fn is_busy(&self) -> bool {
        self.is_busy.get()
    }

    /// How long a slice may be that begins now.
    fn slice_ns(&self, now_ns: u64) -> u64 {
        let others_ns = now_ns.saturating_sub(self.slice_ended_ns.get());
        match self.is_held_back.get() && others_ns <= SLICE_NS {
            true => LONG_SLICE_NS,
            false => SLICE_NS,
        }
    }

    fn slice_ended(&self, now_ns: u64) {
        let is_busy = self.lanes().iter().any(|lane| !lane.borrow().is_empty());
        self.is_busy.set(is_busy);
        self.slice_ended_ns.set(now_ns);
    }

    /// Reads that wait, and those that were begun.
    pub fn counts(&self) -> (usize, usize) {
        let counts = self.lanes().map(|lane| lane.borrow().counts());
        let waiting = counts.iter().map(|counts| counts.0).sum();
        (waiting, counts.iter().map(|counts| counts.1).sum())
    }

    fn push(&self, offer: &Offer, read: LongRead, now_ns: u64) {
        let lanes = match &read.work {
            LongWork::Whole(_) => &self.wholes,
            LongWork::Part(_) => &self.parts,
        };
        lanes.of(offer.cost_ns).borrow_mut().push(offer, read, now_ns);
        self.is_busy.set(true);
        self.is_held_back.set(offer.kept_requests > 0);
        self.work.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use helenus_engine::CqlError;
    use helenus_transport::aged_queue::Wait;
    use helenus_transport::fair_share::ClientId;
    use helenus_transport::request_memory::{Account, RequestMemory};

    use super::executor::ReadFuture;
    use super::*;
    use crate::shard::Shard;

    const US: u64 = 1_000;

    struct NeverBegun;

    impl DeferredRead for NeverBegun {
        fn begin(self: Box<Self>, _: &std::rc::Rc<Shard>) -> ReadFuture {
            Box::pin(async {})
        }

        fn refuse(self: Box<Self>, _: CqlError) {}
    }

    fn push_part(reads: &LongReads, kept_requests: usize, cost_ns: u64) {
        let account = Account::of(&RequestMemory::of_shard(1 << 20, false));
        let offer = Offer {
            asker: ClientId::of(&account),
            kept_requests,
            wait: Wait {
                received_ns: 0,
                wait_ns_max: u64::MAX,
            },
            cost_ns,
        };
        let read = LongRead {
            work: LongWork::Part(Box::new(NeverBegun)),
            cost_ns: offer.cost_ns,
            _held: Held::nothing_of(&account),
        };
        reads.push(&offer, read, 0);
    }

    /// With counts at five times the load, a fifth of the shard went into reading and answering sixteen connections 2,000
    /// times a second.
    #[test]
    fn slices_are_longer_where_clients_hold_requests_back_and_nobody_else_has_much_to_do() {
        let reads = LongReads::default();
        push_part(&reads, 0, 100 * US);
        reads.slice_ended(1_000 * US);
        assert_eq!(reads.slice_ns(1_100 * US), SLICE_NS);
        push_part(&reads, 1, 100 * US);
        assert_eq!(reads.slice_ns(1_100 * US), LONG_SLICE_NS);
        assert_eq!(
            reads.slice_ns(1_501 * US),
            SLICE_NS,
            "those who are answered at once took 501 us"
        );
    }

    /// The reads that wait for them keep all places of their own lane, whatever they cost.
    #[test]
    fn parts_have_places_of_their_own_and_every_other_turn() {
        for (cost_ns, lane) in [(100 * US, 0), (LARGE_NS_MIN, 2)] {
            let reads = LongReads::default();
            push_part(&reads, 0, cost_ns);
            let waiting = reads.lanes().map(|lane| lane.borrow().counts().0);
            assert_eq!(waiting.iter().position(|&waiting| waiting > 0), Some(lane));
            assert!(reads.lane_of(cost_ns).borrow().is_empty());
        }
        let reads = LongReads::default();
        let names = reads.lanes().map(std::ptr::from_ref);
        let orders: Vec<[usize; 4]> = (0..16)
            .map(|_| {
                let place = |lane: &RefCell<Lane>| names.iter().position(|&name| std::ptr::eq(name, lane));
                reads.next_lanes().map(|lane| place(lane).unwrap())
            })
            .collect();
        let first = |lane: usize| orders.iter().filter(|order| order[0] == lane).count();
        assert_eq!([0, 1, 2, 3].map(first), [6, 6, 2, 2], "{orders:?}");
    }
}
