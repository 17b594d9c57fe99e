//! What a shard takes on: how long requests have waited before it sees them, and what it does when that is too long.
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

use tokio::sync::Notify;

use crate::node::REQUEST_SHARE;
use crate::options::NodeOptions;
use crate::shard::Shard;

/// The longest wait of a request whose client asked to be told of overload (`THROW_ON_OVERLOAD`): CoDel's target of
/// 5 ms, which leaves as much again to do the work before 10 ms are over.
pub const QUEUE_DELAY_TARGET: Duration = Duration::from_millis(5);

/// What the turns of a round may take together: then no connection waits longer than the target for the next.
const ROUND_NS: u64 = QUEUE_DELAY_TARGET.as_nanos() as u64;

/// The longest turn of one connection while others wait, whatever their number: some 300 small requests.
const TURN_NS_MAX: u64 = 1_000_000;

/// The shortest: a system call each to read and to send must be worth it.
const TURN_NS_MIN: u64 = 50_000;

/// A shard that has not slept for so long is busy, and its rounds are measured.
const BUSY_NS: u64 = 1_000_000;

/// How often the share of refusals is looked at: the 20 ms in which a step of load is to settle.
const WINDOW_NS: u64 = 20_000_000;

/// How long a set of connections is read while the others wait: long against the time to refuse what their sockets have
/// gathered meanwhile (some 2,000 requests of 0.1 us), short against a client's patience.
const SHIFT_NS: u64 = 50_000_000;

/// Connections that may take turns; those beyond it are always read.
const SHIFT_CONNECTIONS_MAX: usize = 1_024;

/// The smallest part of the connections that is read at a time, so that each is read once in eight shifts (0.4 s).
const READ_PERMILLE_MIN: u64 = 125;

/// What a refusal costs: to receive the request, to look at its header, to send 70 bytes. With a request of 60 bytes
/// 110 ns; measured, see decision 13.
const REFUSAL_NS: u64 = 100;

/// The kernel copies the bodies of refused requests too, some 4 GB/s.
const REFUSED_BYTES_PER_NS: u64 = 4;

/// Of the time, in thousandths: where refusing takes more, fewer connections are read ...
const REFUSING_PERMILLE_MAX: u64 = 50;

/// ... and where it takes less than this, more of them.
const REFUSING_PERMILLE_MIN: u64 = 25;

/// One shard's admission.
pub struct Admission {
    is_on: bool,
    patience_ns: u64,
    request_bytes_max: usize,
    charged_bytes: Cell<usize>,
    /// Set by the event loop whenever it has slept.
    has_slept: Arc<AtomicBool>,
    awake_since_ns: Cell<u64>,
    /// When the last two rounds began, older first.
    rounds_ns: Cell<[u64; 2]>,
    turns_in_round: Cell<u32>,
    turns_of_last_round: Cell<u32>,
    is_marking: Cell<bool>,
    mark_rounds: Notify,
    refused: Cell<u64>,
    queue_delay_ns: Cell<u64>,
    window: Cell<Window>,
    shifts: RefCell<Shifts>,
}

#[derive(Clone, Copy, Default)]
struct Window {
    began_ns: u64,
    refused: u64,
    /// What the refusals took, estimated.
    refusing_ns: u64,
    delay_ns_max: u64,
}

/// What a turn of a connection did.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnWork {
    pub refused: u64,
    /// The bodies of what was refused.
    pub refused_bytes: u64,
    /// The longest that one of its requests had waited.
    pub delay_ns_max: u64,
}

/// Connections that were refused something, and which of them are read now.
struct Shifts {
    connections: Vec<u64>,
    /// The first of those that are read.
    first: usize,
    read_permille: u64,
    began_ns: u64,
    waiting: Vec<Waker>,
}

impl Admission {
    pub(crate) fn new(options: &NodeOptions, has_slept: Arc<AtomicBool>) -> Self {
        let shortest = options.read_request_timeout.min(options.write_request_timeout);
        let shard_bytes = options.memory_bytes / u64::from(options.shard_count.max(1));
        let request_bytes_max = usize::try_from(shard_bytes / REQUEST_SHARE).unwrap_or(usize::MAX);
        // Half of a request's time is for the work.
        let patience_ns = nanoseconds(shortest / 2);
        Self::with_limits(options.admission, patience_ns, request_bytes_max, has_slept)
    }

    fn with_limits(
        is_on: bool,
        patience_ns: u64,
        request_bytes_max: usize,
        has_slept: Arc<AtomicBool>,
    ) -> Self {
        Admission {
            is_on,
            patience_ns,
            request_bytes_max,
            charged_bytes: Cell::new(0),
            has_slept,
            awake_since_ns: Cell::new(0),
            rounds_ns: Cell::new([0; 2]),
            turns_in_round: Cell::new(0),
            turns_of_last_round: Cell::new(0),
            is_marking: Cell::new(false),
            mark_rounds: Notify::new(),
            refused: Cell::new(0),
            queue_delay_ns: Cell::new(0),
            window: Cell::new(Window::default()),
            shifts: RefCell::new(Shifts {
                connections: Vec::new(),
                first: 0,
                read_permille: 1_000,
                began_ns: 0,
                waiting: Vec::new(),
            }),
        }
    }

    /// A connection's turn begins.
    pub fn turn_begins(&self, now_ns: u64) {
        self.turns_in_round.set(self.turns_in_round.get() + 1);
        if self.has_slept.load(Ordering::Relaxed) {
            self.has_slept.store(false, Ordering::Relaxed);
            self.awake_since_ns.set(now_ns);
        }
        if now_ns.saturating_sub(self.awake_since_ns.get()) > BUSY_NS && !self.is_marking.get() {
            self.is_marking.set(true);
            self.mark_rounds.notify_one();
        }
    }

    /// The earliest moment at which what a socket holds now can have come, if the socket was empty at `empty_ns` and its
    /// connection has waited for news of it ever since. A connection that left its socket unread (it had something left
    /// to handle, or others were read) knows no more than `empty_ns`.
    pub fn earliest_arrival(&self, empty_ns: u64) -> u64 {
        // An event waits for the kernel to be asked and then for the connections before it: two rounds at most.
        empty_ns
            .max(self.awake_since_ns.get())
            .max(self.rounds_ns.get()[0])
    }

    /// How long a connection may be served before the others get their turn.
    pub fn turn_ns(&self) -> u64 {
        if !self.is_on {
            return u64::MAX;
        }
        (ROUND_NS / u64::from(self.turns_of_last_round.get().max(1))).clamp(TURN_NS_MIN, TURN_NS_MAX)
    }

    /// The longest that a request may have waited when it is begun.
    pub fn wait_ns_max(&self, throws_on_overload: bool) -> u64 {
        match (self.is_on, throws_on_overload) {
            (false, _) => u64::MAX,
            (true, true) => self.patience_ns.min(nanoseconds(QUEUE_DELAY_TARGET)),
            (true, false) => self.patience_ns,
        }
    }

    /// What a turn did, for the next ones and the metrics.
    pub fn turn_ended(&self, now_ns: u64, work: &TurnWork) {
        self.refused.set(self.refused.get() + work.refused);
        let mut window = self.window.get();
        window.refused += work.refused;
        window.refusing_ns += work.refused * REFUSAL_NS + work.refused_bytes / REFUSED_BYTES_PER_NS;
        window.delay_ns_max = window.delay_ns_max.max(work.delay_ns_max);
        let took_ns = now_ns.saturating_sub(window.began_ns);
        if took_ns >= WINDOW_NS {
            self.shifts.borrow_mut().window_ended(&window, took_ns);
            self.queue_delay_ns.set(window.delay_ns_max);
            window = Window {
                began_ns: now_ns,
                ..Window::default()
            };
        }
        self.window.set(window);
    }

    /// Whether a connection is to be left unread for a while because refusing costs too much; it is woken when its shift
    /// comes. `was_refused`: whether something of it was refused in its last turn.
    pub fn must_wait(&self, connection: u64, was_refused: bool, waker: &Waker) -> bool {
        if !self.is_on || (!was_refused && self.shifts.borrow().connections.is_empty()) {
            return false;
        }
        self.shifts.borrow_mut().must_wait(connection, was_refused, waker)
    }

    pub fn connection_closed(&self, connection: u64) {
        self.shifts
            .borrow_mut()
            .connections
            .retain(|&known| known != connection);
    }

    /// Wakes the connections whose shift begins. Called every few milliseconds.
    pub(crate) fn tend_shifts(&self, now_ns: u64) {
        let mut shifts = self.shifts.borrow_mut();
        if shifts.waiting.is_empty() || now_ns.saturating_sub(shifts.began_ns) < SHIFT_NS {
            return;
        }
        shifts.began_ns = now_ns;
        shifts.first = (shifts.first + shifts.read_at_a_time()) % shifts.connections.len().max(1);
        let woken = std::mem::take(&mut shifts.waiting);
        drop(shifts);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Memory that requests and their answers hold has changed from `before` to `now` bytes.
    pub fn charge(&self, before: usize, now: usize) {
        let charged = (self.charged_bytes.get() + now).saturating_sub(before);
        self.charged_bytes.set(charged);
    }

    /// Whether requests and answers hold all the memory that is theirs: no request is begun until some is given back.
    pub fn is_out_of_memory(&self) -> bool {
        self.is_on && self.charged_bytes.get() > self.request_bytes_max
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.get()
    }

    pub(crate) fn charged_bytes(&self) -> usize {
        self.charged_bytes.get()
    }

    /// The longest wait that was seen in the last window.
    pub(crate) fn queue_delay_us(&self) -> u64 {
        self.queue_delay_ns.get() / 1_000
    }

    fn round_began(&self, now_ns: u64) {
        self.rounds_ns.set([self.rounds_ns.get()[1], now_ns]);
        self.turns_of_last_round.set(self.turns_in_round.replace(0));
    }
}

impl Shifts {
    fn read_at_a_time(&self) -> usize {
        let count = self.connections.len() as u64 * self.read_permille;
        usize::try_from(count.div_ceil(1_000))
            .unwrap_or(usize::MAX)
            .max(1)
    }

    fn must_wait(&mut self, connection: u64, was_refused: bool, waker: &Waker) -> bool {
        let known = self.connections.iter().position(|&known| known == connection);
        let place = match known {
            Some(place) => place,
            None if was_refused && self.connections.len() < SHIFT_CONNECTIONS_MAX => {
                self.connections.push(connection);
                self.connections.len() - 1
            }
            None => return false,
        };
        let count = self.connections.len();
        if (place + count - self.first % count) % count < self.read_at_a_time() {
            return false;
        }
        self.waiting.push(waker.clone());
        true
    }

    /// Where refusing takes more of the time than it may, fewer connections are read; where it takes little, twice as
    /// many; where nothing is refused, all: then the overload is over, and who waits now waits in vain.
    fn window_ended(&mut self, window: &Window, took_ns: u64) {
        let read_permille = self.read_permille;
        let refusing_permille = window.refusing_ns * 1_000 / took_ns.max(1);
        if window.refused == 0 {
            self.read_permille = 1_000;
        } else if refusing_permille > REFUSING_PERMILLE_MAX {
            self.read_permille = (read_permille * 7 / 10).max(READ_PERMILLE_MIN);
        } else if refusing_permille < REFUSING_PERMILLE_MIN {
            self.read_permille = (read_permille * 2).min(1_000);
        }
        if window.refused == 0 {
            self.connections.clear();
        }
        if self.read_permille > read_permille || self.connections.is_empty() {
            self.waiting.drain(..).for_each(Waker::wake);
        }
    }
}

impl Shard {
    /// Marks where rounds begin while the shard is busy: a task that yields comes back when every task that was ready
    /// has had its turn and the kernel has been asked for events.
    pub(crate) async fn mark_rounds(self: Rc<Self>) {
        let admission = &self.admission;
        loop {
            admission.mark_rounds.notified().await;
            // A round without a turn: nobody needs the next, and a yielding task would keep the shard from its sleep.
            while admission.turns_in_round.get() > 0 && !admission.has_slept.load(Ordering::Relaxed) {
                admission.round_began(self.clock.monotonic_ns());
                tokio::task::yield_now().await;
            }
            admission.is_marking.set(false);
            admission.turns_of_last_round.set(0);
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn admission() -> (Admission, Arc<AtomicBool>) {
        let has_slept = Arc::new(AtomicBool::new(true));
        (
            Admission::with_limits(true, 1_000 * MS, 1 << 20, has_slept.clone()),
            has_slept,
        )
    }

    #[test]
    fn what_is_read_after_a_sleep_came_after_it() {
        let (admission, has_slept) = admission();
        admission.turn_begins(100 * MS);
        assert_eq!(admission.earliest_arrival(20 * MS), 100 * MS);
        admission.turn_begins(110 * MS);
        assert_eq!(admission.earliest_arrival(20 * MS), 100 * MS);
        assert_eq!(admission.earliest_arrival(105 * MS), 105 * MS);
        has_slept.store(true, Ordering::Relaxed);
        admission.turn_begins(120 * MS);
        assert_eq!(admission.earliest_arrival(105 * MS), 120 * MS);
    }

    #[test]
    fn a_shard_that_does_not_sleep_knows_the_round_before_the_last() {
        let (admission, _) = admission();
        admission.turn_begins(100 * MS);
        for round_ms in [110, 120, 130] {
            (0..10).for_each(|_| admission.turn_begins(round_ms * MS));
            admission.round_began(round_ms * MS);
        }
        assert_eq!(admission.earliest_arrival(0), 120 * MS);
        // Ten connections share a round.
        assert_eq!(admission.turn_ns(), ROUND_NS / 10);
    }

    #[test]
    fn only_clients_that_ask_for_it_are_refused_early() {
        let (admission, _) = admission();
        assert_eq!(admission.wait_ns_max(true), 5 * MS);
        assert_eq!(admission.wait_ns_max(false), 1_000 * MS);
        let off = Admission::with_limits(false, MS, 1, Arc::default());
        assert_eq!(off.wait_ns_max(true), u64::MAX);
    }

    fn refusing(refused: u64) -> TurnWork {
        TurnWork {
            refused,
            refused_bytes: 0,
            delay_ns_max: 8 * MS,
        }
    }

    #[test]
    fn where_refusing_costs_too_much_connections_take_turns_and_none_is_left_out() {
        let (admission, _) = admission();
        let connections = 0..16_u64;
        let mut now_ns = 0;
        let mut read = [0; 16];
        // However few are read, refusing takes a tenth of the time.
        let expensive = SHIFT_NS / 10 / REFUSAL_NS;
        for _ in 0..100 {
            now_ns += SHIFT_NS;
            for connection in connections.clone() {
                if !admission.must_wait(connection, true, Waker::noop()) {
                    read[connection as usize] += 1;
                    admission.turn_ended(now_ns, &refusing(expensive));
                }
            }
            admission.tend_shifts(now_ns);
        }
        // Each is read in one shift of eight, after the first shifts in which the share shrinks.
        assert!(read.iter().all(|shifts| (10..=25).contains(shifts)), "{read:?}");
        // A connection that is not refused anything is not among them.
        assert!(!admission.must_wait(99, false, Waker::noop()));
    }

    /// Of 10 times the load, nine tenths are refused: that alone is no reason to leave connections unread.
    #[test]
    fn where_refusing_costs_little_all_are_read() {
        let (admission, _) = admission();
        for window in 0..100 {
            for connection in 0..16 {
                assert!(!admission.must_wait(connection, true, Waker::noop()));
            }
            let cheap = WINDOW_NS / 50 / REFUSAL_NS;
            admission.turn_ended(window * WINDOW_NS, &refusing(cheap));
        }
    }

    #[test]
    fn the_first_window_without_a_refusal_ends_the_turns() {
        let (admission, _) = admission();
        let expensive = WINDOW_NS / 2 / REFUSAL_NS;
        for window in 0..10 {
            for connection in 0..2 {
                admission.must_wait(connection, true, Waker::noop());
            }
            admission.turn_ended(window * WINDOW_NS, &refusing(expensive));
        }
        assert!(
            (0..2).any(|connection| admission.must_wait(connection, true, Waker::noop())),
            "one of the two waits"
        );
        admission.turn_ended(20 * WINDOW_NS, &TurnWork::default());
        assert!((0..2).all(|connection| !admission.must_wait(connection, false, Waker::noop())));
    }

    /// Greedy connections keep each turn busy to its end; the others need little. Counted in simulated nanoseconds.
    #[test]
    fn a_greedy_connection_gets_no_more_time_than_what_others_leave() {
        let (admission, _) = admission();
        const OTHERS_NS: u64 = 20_000;
        const GREEDY: usize = 3;
        let mut now_ns = 0;
        let mut longest_round_ns = 0;
        for _ in 0..1_000 {
            let began_ns = now_ns;
            for connection in 0..20 {
                admission.turn_begins(now_ns);
                let wanted_ns = if connection < GREEDY { u64::MAX } else { OTHERS_NS };
                now_ns += wanted_ns.min(admission.turn_ns());
            }
            admission.round_began(now_ns);
            longest_round_ns = longest_round_ns.max(now_ns - began_ns);
        }
        // The first round knows nothing of the others yet.
        assert!(
            longest_round_ns <= GREEDY as u64 * TURN_NS_MAX + 17 * OTHERS_NS,
            "{longest_round_ns}"
        );
        assert!(longest_round_ns <= ROUND_NS, "{longest_round_ns}");
    }

    #[test]
    fn without_memory_nothing_is_begun_until_some_is_given_back() {
        let (admission, _) = admission();
        admission.charge(0, 2 << 20);
        assert!(admission.is_out_of_memory());
        admission.charge(2 << 20, 16_384);
        assert!(!admission.is_out_of_memory());
    }
}
