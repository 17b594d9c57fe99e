//! Admission control of one shard: how long requests have waited before it sees them, and what it does when that is too long.
//!
//! Connections are served in rounds: each that has something to read gets a turn, in the order of the event loop. Under
//! overload the queue is in the kernel's socket buffers, where nobody sees it; what is known is when a socket was last
//! empty, and when the shard last asked the kernel for events. What is read now came after both. So the wait of a
//! request is bounded without a timestamp on it, and the bound is the signal: no rate and no capacity is configured or
//! estimated. Decision 13 has the reasons and the measurements.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use helenus_vfs::Clock;
use tokio::sync::Notify;

use crate::deadline::nanoseconds;
use crate::memory_reservation::MemoryReservations;
use crate::read_rotation::{ReadRotation, Reader, Refusing};
use crate::request_memory::RequestMemory;
use crate::standing_queue::{QUEUE_DELAY_TARGET, StandingQueue};
use crate::turn_shares::{TurnShares, UserTurns};

/// Time of all turns of a round together, at most: then no connection waits longer than the target for the next.
const ROUND_NS: u64 = QUEUE_DELAY_TARGET.as_nanos() as u64;

/// The same bound while reads that were begun wait for their turn, to be ended with what the disk has brought: most of what
/// connections bring meanwhile would only wait behind those.
const ROUND_BESIDE_BEGUN_NS: u64 = ROUND_NS / 5;

/// The same bound for clients that did not ask to be told of overload, while anything crosses threads: what they have sent is read in
/// each round beside the turns, and an answer that has to come back waits for two rounds.
const ROUND_OF_KEPT_NS: u64 = ROUND_NS / 2;

/// The longest turn of one connection while others wait, whatever their number: some 300 small requests.
const TURN_NS_MAX: u64 = 1_000_000;

/// The shortest: a system call each to read and to send must be worth it.
const TURN_NS_MIN: u64 = 50_000;

/// A shard that has not slept for so long is busy, and its rounds are measured.
const BUSY_NS: u64 = 1_000_000;

/// How often the share of refusals is looked at: the 20 ms in which a step of load is to settle.
const WINDOW_NS: u64 = 20_000_000;

/// Assumed cost of a refusal until one was measured.
const REFUSAL_NS_FIRST: u64 = 130;

/// Turns with fewer refusals tell more of the system calls than of refusing.
const MEASURED_REFUSALS_MIN: u64 = 64;

/// The longest that reading a turn's worth takes; a thread that lost its processor meanwhile says nothing of reading.
const RECEIVING_NS_MAX: u64 = 500_000;

/// To find out the partition of a request and refuse it costs so many refusals.
const REFUSALS_OF_SHEDDING: u64 = 2;

/// To decode a request, find out who has its partition and that this one is too busy costs so many refusals.
const REFUSALS_OF_BEGINNING: u64 = 8;

/// One shard's admission.
pub struct Admission {
    is_on: bool,
    begin_within_ns: u64,
    memory: Arc<RequestMemory>,
    reservations: RefCell<MemoryReservations>,
    /// Set by the event loop whenever it has slept.
    has_slept: Arc<AtomicBool>,
    awake_since_ns: Cell<u64>,
    /// When the last two rounds began, older first.
    rounds_ns: Cell<[u64; 2]>,
    /// When it was last looked for late requests, older first.
    looks_ns: Cell<[u64; 2]>,
    /// Reads were begun and wait for the disk, others wait for them.
    has_begun: Cell<bool>,
    turns_in_round: Cell<u32>,
    turns_of_last_round: Cell<u32>,
    /// Time for what others have begun on this thread, beside the turns.
    others_ns_in_round: Cell<u64>,
    others_ns_of_last_round: Cell<u64>,
    is_marking: Cell<bool>,
    mark_rounds: Notify,
    refused: Cell<u64>,
    refused_begun: Cell<u64>,
    queue_delay_ns: Cell<u64>,
    window: RefCell<Window>,
    /// Requests were refused in this window or in the one before.
    is_refusing: Cell<bool>,
    /// Cost of a refusal, with its part of the sending; smoothed.
    refusal_ns: Cell<u64>,
    rotation: RefCell<ReadRotation>,
    standing: RefCell<StandingQueue>,
    shares: TurnShares,
}

#[derive(Clone, Copy, Default)]
struct Window {
    began_ns: u64,
    has_refused: bool,
    /// Time of the refusals, without reading them.
    refusing_ns: u64,
    /// Time of reading everything that was read in time: the kernel's part of a request is the larger one where each comes in
    /// a segment of its own.
    receiving_ns: u64,
    messages: u64,
    overloaded: u64,
    delay_ns_max: u64,
}

/// Returns whether requests that have waited so long, of what they may wait at most, are those that the heaviest partition is
/// refused for: before anybody's are refused for their age.
#[inline]
pub fn is_time_to_shed(delay_ns: u64, wait_ns_max: u64) -> bool {
    wait_ns_max / 2 < delay_ns && delay_ns <= wait_ns_max
}

/// Pressure on a thread: how long requests wait to be begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pressure {
    /// They do not.
    #[default]
    None,
    /// They wait more than half as long as they should at most, which may be a burst that passes.
    LongWaits,
    /// They have done for as long as that there is more than can be served.
    QueueStands,
}

/// Work of one turn of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnWork {
    /// For their age, or for want of memory.
    pub refused: u64,
    /// For their partition.
    pub shed: u64,
    /// For their table, as they came.
    pub shed_at_once: u64,
    /// Begun, and what else there was to do.
    pub handled: u64,
    /// How many of those turned out to be for another thread which would not begin them in time.
    pub refused_begun: u64,
    /// Time of reading from the socket, where that was measured.
    pub receiving_ns: u64,
    /// True if the requests refused had come while the connection was left unread.
    pub is_draining_backlog: bool,
    /// The longest that one of its requests had waited.
    pub delay_ns_max: u64,
}

impl Window {
    /// Returns the time of refusing, with its part of the reading.
    fn all_refusing_ns(&self) -> u64 {
        self.refusing_ns + self.receiving_ns * self.overloaded / self.messages.max(1)
    }
}

impl TurnWork {
    /// How many were answered OVERLOADED.
    pub fn overloaded(&self) -> u64 {
        self.refused + self.shed + self.shed_at_once
    }

    /// How many of those count as what refusing costs. To refuse at once keeps others from waiting, and is not to be saved.
    fn overloaded_late(&self) -> u64 {
        self.refused + self.shed
    }

    /// How many were begun or refused.
    pub(crate) fn requests(&self) -> u64 {
        self.handled + self.overloaded()
    }

    /// Returns whether anything was refused for what there is to do.
    pub(crate) fn has_refused(&self) -> bool {
        self.overloaded_late() + self.refused_begun > 0
    }

    /// In refusals.
    fn refusing(&self) -> u64 {
        self.refused + self.shed * REFUSALS_OF_SHEDDING + self.refused_begun * REFUSALS_OF_BEGINNING
    }

    /// Returns whether the turn's time tells the cost of a refusal.
    pub(crate) fn is_all_refusals(&self) -> bool {
        self.handled == 0 && self.refusing() >= MEASURED_REFUSALS_MIN
    }
}

impl Admission {
    /// `is_on`: whether anything is refused for its age or turns are bounded. `request_timeout`: of the requests that have least
    /// time. `has_slept` is set by the event loop whenever it has.
    pub fn new(
        is_on: bool,
        request_timeout: Duration,
        memory: Arc<RequestMemory>,
        has_slept: Arc<AtomicBool>,
    ) -> Self {
        // Half of a request's time is for the work.
        let begin_within_ns = nanoseconds(request_timeout / 2);
        Self::with_limits(is_on, begin_within_ns, memory, has_slept)
    }

    fn with_limits(
        is_on: bool,
        begin_within_ns: u64,
        memory: Arc<RequestMemory>,
        has_slept: Arc<AtomicBool>,
    ) -> Self {
        Admission {
            is_on,
            begin_within_ns,
            memory,
            reservations: RefCell::default(),
            has_slept,
            awake_since_ns: Cell::new(0),
            rounds_ns: Cell::new([0; 2]),
            looks_ns: Cell::new([0; 2]),
            has_begun: Cell::new(false),
            turns_in_round: Cell::new(0),
            turns_of_last_round: Cell::new(0),
            others_ns_in_round: Cell::new(0),
            others_ns_of_last_round: Cell::new(0),
            is_marking: Cell::new(false),
            mark_rounds: Notify::new(),
            refused: Cell::new(0),
            refused_begun: Cell::new(0),
            queue_delay_ns: Cell::new(0),
            window: RefCell::default(),
            is_refusing: Cell::new(false),
            refusal_ns: Cell::new(REFUSAL_NS_FIRST),
            rotation: RefCell::default(),
            standing: RefCell::default(),
            shares: TurnShares::default(),
        }
    }

    /// A connection's turn begins.
    #[inline]
    pub fn turn_begins(&self, now_ns: u64) {
        self.turns_in_round.set(self.turns_in_round.get() + 1);
        if self.has_slept.load(Ordering::Relaxed) {
            self.has_slept.store(false, Ordering::Relaxed);
            self.awake_since_ns.set(now_ns);
            self.rotation.borrow_mut().shard_slept();
        }
        if now_ns.saturating_sub(self.awake_since_ns.get()) > BUSY_NS && !self.is_marking.get() {
            self.is_marking.set(true);
            self.mark_rounds.notify_one();
        }
    }

    /// Turns of the user that has logged in on a connection, if anybody has.
    pub(crate) fn turns_of(&self, user: Option<Arc<str>>) -> Rc<UserTurns> {
        self.shares.of(user)
    }

    /// Returns whether a user's connection is to be left alone until it is woken, because others have not had as much of the thread.
    #[inline]
    pub(crate) fn must_wait_for_others(
        &self,
        user: &Rc<UserTurns>,
        waits_in: &Cell<u64>,
        waker: &Waker,
    ) -> bool {
        self.is_on && self.shares.must_wait(user, ROUND_NS, waits_in, waker)
    }

    /// The turn that begins is of a user's connection.
    #[inline]
    pub(crate) fn turn_of_user_begins(&self, user: &Rc<UserTurns>) {
        self.shares.turn_begins(user);
    }

    /// The earliest moment at which what a socket holds now can have come, if the socket was empty at `empty_ns` and its
    /// connection has waited for news of it ever since. A connection that left its socket unread (it had something left
    /// to handle, or others were read) knows no more than `empty_ns`.
    pub(crate) fn earliest_arrival(&self, empty_ns: u64) -> u64 {
        // An event waits for the kernel to be asked and then for the connections before it: two rounds at most.
        empty_ns
            .max(self.awake_since_ns.get())
            .max(self.rounds_ns.get()[0])
            .max(self.looks_ns.get()[0])
    }

    /// A timer of the shard went off. Between two of them the kernel was asked for events, and what it knew is handled before
    /// the second: a shard may have no rounds and no sleep for seconds, when it has reads to do and nobody sends anything.
    pub fn timer_went_off(&self, now_ns: u64) {
        self.looks_ns.set([self.looks_ns.get()[1], now_ns]);
        self.advance_rotation(now_ns);
    }

    /// Time of all turns of a round, at most; a quarter of a round is the connections', whatever others have begun on this thread.
    fn round_ns(&self, throws_on_overload: bool) -> u64 {
        let less_of_others = |round_ns: u64, others_ns: u64| round_ns - others_ns.min(round_ns / 4 * 3);
        match (self.has_begun.get(), self.others_ns_of_last_round.get()) {
            (true, _) => ROUND_BESIDE_BEGUN_NS,
            (false, 0) => ROUND_NS,
            (false, others_ns) if throws_on_overload => less_of_others(ROUND_NS, others_ns),
            (false, others_ns) => less_of_others(ROUND_OF_KEPT_NS, others_ns),
        }
    }

    /// How long any one may be served before the others get their turn.
    pub fn turn_ns(&self) -> u64 {
        let turns = u64::from(self.turns_of_last_round.get().max(1));
        self.limited(self.round_ns(true) / turns)
    }

    /// How long a connection of a user may be served before the others get their turn.
    pub(crate) fn turn_ns_of(&self, user: &UserTurns, throws_on_overload: bool) -> u64 {
        self.limited(self.shares.turn_ns(user, self.round_ns(throws_on_overload)))
    }

    fn limited(&self, turn_ns: u64) -> u64 {
        match self.is_on {
            true => turn_ns.clamp(TURN_NS_MIN, TURN_NS_MAX),
            false => u64::MAX,
        }
    }

    /// Accounts for the time of what others have begun on this thread, between two turns.
    pub fn served_others(&self, took_ns: u64) {
        self.others_ns_in_round
            .set(self.others_ns_in_round.get() + took_ns);
    }

    /// A request that came from elsewhere, and was begun or refused at `now_ns`, has waited so long.
    pub fn saw_delay(&self, delay_ns: u64, now_ns: u64) {
        self.standing.borrow_mut().saw(delay_ns, now_ns);
    }

    /// Records whether the shard has begun more than the disk can bring at once.
    pub fn set_has_begun(&self, has_begun: bool) {
        self.has_begun.set(has_begun);
    }

    /// The longest that a request may have waited when it is begun.
    pub fn wait_ns_max(&self, throws_on_overload: bool) -> u64 {
        match (self.is_on, throws_on_overload) {
            (false, _) => u64::MAX,
            (true, true) => self.begin_within_ns.min(self.standing.borrow().delay_ns_max()),
            (true, false) => self.begin_within_ns,
        }
    }

    /// Pressure by the waits of the last tenth of a second.
    pub fn pressure(&self) -> Pressure {
        let standing = self.standing.borrow();
        match (standing.stands(), standing.has_long_waits()) {
            (true, _) => Pressure::QueueStands,
            (false, true) => Pressure::LongWaits,
            (false, false) => Pressure::None,
        }
    }

    /// Until then requests are refused as they come, so that the others do not wait: theirs are short waits or none.
    pub fn refuses_at_once_until(&self, until_ns: u64) {
        self.standing.borrow_mut().is_prevented_until(until_ns);
    }

    /// Accounts for the work of a turn that began at `now_ns`, of `connection` if there is one, for the next turns and the metrics.
    #[inline]
    pub fn turn_ended(&self, connection: Option<u64>, now_ns: u64, work: &TurnWork) {
        self.refused.set(self.refused.get() + work.refused);
        self.standing.borrow_mut().saw(work.delay_ns_max, now_ns);
        let window = &mut *self.window.borrow_mut();
        if work.has_refused() {
            window.has_refused = true;
            self.is_refusing.set(true);
        }
        if !work.is_draining_backlog {
            window.refusing_ns += work.refusing() * self.refusal_ns.get();
            window.receiving_ns += work.receiving_ns.min(RECEIVING_NS_MAX);
            window.messages += work.requests();
            window.overloaded += work.overloaded_late() + work.refused_begun;
            if let Some(connection) = connection.filter(|_| self.is_refusing.get()) {
                self.rotation.borrow_mut().brought(connection, work.requests());
            }
        }
        window.delay_ns_max = window.delay_ns_max.max(work.delay_ns_max);
        if now_ns.saturating_sub(window.began_ns) >= WINDOW_NS {
            self.window_ended(window, now_ns);
        }
    }

    #[cold]
    fn window_ended(&self, window: &mut Window, now_ns: u64) {
        let window_ns = now_ns.saturating_sub(window.began_ns).max(1);
        let refusing_permille = window.all_refusing_ns() * 1_000 / window_ns;
        self.is_refusing.set(window.has_refused);
        self.rotation.borrow_mut().window_ended(&Refusing {
            window_ns,
            permille: refusing_permille,
            served: window.messages - window.overloaded,
            refused: window.overloaded,
            has_refused: window.has_refused,
        });
        self.queue_delay_ns.set(window.delay_ns_max);
        *window = Window {
            began_ns: now_ns,
            ..Window::default()
        };
    }

    /// Returns whether refusals are to be accounted for: then turns measure the time of reading.
    pub(crate) fn is_refusing(&self) -> bool {
        self.is_refusing.get()
    }

    /// A turn that did nothing but refuse took so long, to handle what was read and to send.
    pub(crate) fn refusing_took(&self, work: &TurnWork, took_ns: u64) {
        let known_ns = self.refusal_ns.get();
        // A thread that lost its processor in between says nothing of refusing.
        let refusal_ns = (took_ns / work.refusing().max(1)).min(2 * known_ns);
        self.refusal_ns.set((known_ns * 15 + refusal_ns).div_ceil(16));
    }

    /// Returns whether a connection of which something was refused in its last turn, or not, may have to wait to be read.
    #[inline]
    pub(crate) fn may_have_to_wait(&self, was_refused: bool) -> bool {
        self.is_on && (was_refused || !self.rotation.borrow().is_empty())
    }

    /// Returns whether a connection is to be left unread for a while because refusing costs too much; it is woken when its
    /// turn to be read comes.
    pub(crate) fn must_wait(&self, reader: Reader, waker: &Waker) -> bool {
        self.rotation.borrow_mut().must_wait(reader, waker)
    }

    /// It asks for nothing any more.
    pub fn connection_closed(&self, connection: u64) {
        self.reservations.borrow_mut().forget(connection);
        self.rotation.borrow_mut().connection_closed(connection);
    }

    /// The next connections are read. Called every few milliseconds.
    fn advance_rotation(&self, now_ns: u64) {
        self.rotation.borrow_mut().advance(now_ns);
    }

    /// Returns whether the `free_bytes` that a connection may hold besides have room for the `bytes` that are still to come
    /// of a message that it has begun; if so they are kept for it until the time of a request is over. With 0 there is
    /// nothing more to come.
    pub fn reserve(&self, connection: u64, bytes: usize, free_bytes: usize, now_ns: u64) -> bool {
        let kept_until_ns = now_ns.saturating_add(self.begin_within_ns);
        let mut reservations = self.reservations.borrow_mut();
        reservations.reserve(connection, bytes, free_bytes, kept_until_ns, now_ns)
    }

    /// A request was refused after it was begun: another thread, which has its partition, has too much to do.
    pub fn refuses_begun(&self) {
        self.refused_begun.set(self.refused_begun.get() + 1);
    }

    /// How many requests were refused so since the start.
    pub(crate) fn refused_begun(&self) -> u64 {
        self.refused_begun.get()
    }

    /// How many requests were refused for their age or for want of memory.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Bytes charged for requests and answers of the shard.
    pub fn charged_bytes(&self) -> usize {
        self.memory.charged_bytes()
    }

    /// The longest wait that was seen in the last window.
    pub fn queue_delay_us(&self) -> u64 {
        self.queue_delay_ns.get() / 1_000
    }

    fn round_began(&self, now_ns: u64) {
        self.rounds_ns.set([self.rounds_ns.get()[1], now_ns]);
        self.turns_of_last_round.set(self.turns_in_round.replace(0));
        self.others_ns_of_last_round
            .set(self.others_ns_in_round.replace(0));
        self.shares.round_began(now_ns);
    }

    /// Marks where rounds begin while the shard is busy: a task that yields comes back when every task that was ready
    /// has had its turn and the kernel has been asked for events.
    pub async fn mark_rounds(&self, clock: &dyn Clock) {
        loop {
            self.mark_rounds.notified().await;
            // A round without a turn: nobody needs the next, and a yielding task would keep the shard from its sleep.
            while self.turns_in_round.get() > 0 && !self.has_slept.load(Ordering::Relaxed) {
                self.round_began(clock.monotonic_ns());
                tokio::task::yield_now().await;
            }
            self.is_marking.set(false);
            self.turns_of_last_round.set(0);
            self.shares.rounds_ended();
            self.others_ns_of_last_round.set(0);
        }
    }
}

#[cfg(test)]
mod tests;
