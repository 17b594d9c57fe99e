//! How many requests a node is asked at once, and who comes next.
//!
//! Each node has a throttle. A caller that finds it full waits in a bounded queue, fair among callers, until a request
//! ends or the caller's deadline passes; it is never told that a pool is busy. The limit is found by
//! `AdaptiveLimit` unless it is given.

mod adaptive;
mod queue;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

pub(crate) use adaptive::AdaptiveLimit;
pub use adaptive::{LIMIT_MAX, Sample};
use queue::{Ticket, WaitQueue};

use crate::lock::lock;

/// Rule for how many requests may be under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ThrottleMode {
    /// Found from the server's answers, and found again when the server changes.
    #[default]
    Adaptive,
    /// So many requests under way, per node.
    Concurrency(usize),
    /// So many requests a second, per node, evenly spaced.
    Rate(f64),
    /// Everything goes out at once.
    Off,
}

/// Callers that may wait for one node. Each costs its future and a queue entry of 32 bytes; a million of them is what
/// a process with some GiB can hold.
pub(crate) const WAITING_MAX_DEFAULT: usize = 1_000_000;

/// Requests of a full limit that are timed, and at least one in [`UNTIMED_MAX`]; the others are counted.
const TIMED_PER_LIMIT: usize = 16;
const UNTIMED_MAX: usize = 32;

/// One node's throttle.
#[derive(Debug)]
pub struct Throttle {
    state: Mutex<State>,
    mode: ThrottleMode,
    waiting_max: usize,
}

#[derive(Debug)]
struct State {
    limit: usize,
    in_flight: usize,
    queue: WaitQueue,
    adaptive: AdaptiveLimit,
    /// Turns to be given until one is timed.
    untimed: u32,
    /// When the next request may start, in [`ThrottleMode::Rate`].
    next_start: Option<Instant>,
    /// Since when a limit that was given for a while stands in for the one of the mode.
    stood_in_since: Option<Instant>,
}

/// How a request ended, as far as the throttle is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server answered, be it with an error that says nothing about its load.
    Answered,
    /// The server said that it has too much to do.
    Refused,
    /// No answer came in time.
    TimedOut,
    /// It never reached the server, or says nothing about its load.
    Unknown,
}

/// The queue of a node is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull {
    /// Callers that wait already: as many as [`Throttle::new`] was told.
    pub waiting_max: usize,
}

/// Current state of a throttle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThrottleStatus {
    /// Requests that may be under way; `usize::MAX` without a limit.
    pub limit: usize,
    /// Turns that are taken: requests under way, and those about to be sent.
    pub in_flight: usize,
    /// Callers in the queue.
    pub waiting: usize,
}

impl Throttle {
    /// Makes the throttle of one node. The limit of [`ThrottleMode::Adaptive`] begins at 64; a concurrency of
    /// 0 counts as 1, a rate below 0.001 a second as 0.001. A caller that finds no turn and `waiting_max`
    /// others waiting gets [`QueueFull`].
    pub fn new(mode: ThrottleMode, waiting_max: usize) -> Arc<Self> {
        let now = Instant::now();
        let adaptive = AdaptiveLimit::new(now);
        let limit = match mode {
            ThrottleMode::Adaptive => adaptive.limit(),
            ThrottleMode::Concurrency(limit) => limit.max(1),
            ThrottleMode::Rate(_) | ThrottleMode::Off => usize::MAX,
        };
        Arc::new(Throttle {
            state: Mutex::new(State {
                limit,
                in_flight: 0,
                queue: WaitQueue::default(),
                adaptive,
                untimed: 0,
                next_start: matches!(mode, ThrottleMode::Rate(_)).then_some(now),
                stood_in_since: None,
            }),
            mode,
            waiting_max,
        })
    }

    /// Returns its state, all of one moment.
    pub fn status(&self) -> ThrottleStatus {
        let state = lock(&self.state);
        ThrottleStatus {
            limit: state.limit,
            in_flight: state.in_flight,
            waiting: state.queue.len(),
        }
    }

    /// A fixed limit that stands in for an adaptive one, which learns nothing meanwhile; `None` ends it. So limits can be
    /// compared on a machine whose speed changes by the second. Other modes have nothing to stand in for.
    ///
    /// Turns that it brings are given when the next request ends, by the thread that the waiters are on: woken from another
    /// one, thousands of tasks come one by one between many turns of the others, and wait for a quarter of a second.
    pub fn stand_in(&self, limit: Option<usize>) {
        if self.mode != ThrottleMode::Adaptive {
            return;
        }
        let state = &mut *lock(&self.state);
        let now = Instant::now();
        if let Some(limit) = limit {
            state.stood_in_since.get_or_insert(now);
            state.limit = limit.max(1);
        } else if let Some(since) = state.stood_in_since.take() {
            let pause = now.saturating_duration_since(since);
            state.adaptive.go_on(now, pause, state.in_flight);
            state.limit = state.adaptive.limit();
        }
    }

    /// Waits for a turn. Dropped before, it leaves the queue. `caller` is who is asking: turns go round among callers.
    pub fn acquire(self: &Arc<Self>, caller: u64) -> Acquire {
        Acquire {
            throttle: self.clone(),
            caller,
            ticket: None,
        }
    }

    /// In [`ThrottleMode::Rate`]: when the next request is to start. The caller sleeps until then.
    pub fn next_start(&self) -> Option<Instant> {
        let ThrottleMode::Rate(per_second) = self.mode else {
            return None;
        };
        let state = &mut *lock(&self.state);
        let now = Instant::now();
        // A caller that comes late does not make the others burst: what was not used is gone.
        let start = state.next_start.map_or(now, |next| next.max(now));
        state.next_start = Some(start + Duration::from_secs_f64(1.0 / per_second.max(1e-3)));
        Some(start)
    }

    /// When a turn that is given now has started, if it is timed: looking at the clock for each costs a few percent of a
    /// fast server's throughput.
    fn start(&self, state: &mut State) -> Option<Instant> {
        if self.mode != ThrottleMode::Adaptive || state.stood_in_since.is_some() {
            return None;
        }
        if state.untimed > 0 {
            state.untimed -= 1;
            return None;
        }
        state.untimed = (state.limit / TIMED_PER_LIMIT).clamp(1, UNTIMED_MAX) as u32 - 1;
        Some(Instant::now())
    }

    fn release(&self, started: Option<Instant>, ending: Ending) {
        let wakers = {
            let state = &mut *lock(&self.state);
            let is_limited = state.in_flight >= state.limit;
            if state.stood_in_since.is_some() {
                // What it says is said of another limit.
            } else if let Some(started) = started {
                let now = Instant::now();
                let sample = Sample {
                    latency: now.saturating_duration_since(started),
                    ending,
                    is_limited,
                };
                state.adaptive.record(now, sample);
                state.limit = state.adaptive.limit();
            } else if self.mode == ThrottleMode::Adaptive {
                state.adaptive.count(ending, is_limited);
            }
            state.in_flight -= 1;
            state.grant()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Gives the turns that there are; who got one is to be woken.
    fn grant(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while self.in_flight < self.limit {
            let Some(waker) = self.queue.grant_next() else {
                break;
            };
            self.in_flight += 1;
            wakers.extend(waker);
        }
        wakers
    }
}

/// The wait for a turn.
#[derive(Debug)]
#[must_use = "a turn is taken by awaiting it"]
pub struct Acquire {
    throttle: Arc<Throttle>,
    caller: u64,
    ticket: Option<Ticket>,
}

impl Future for Acquire {
    type Output = Result<Permit, QueueFull>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let state = &mut *lock(&this.throttle.state);
        match this.ticket {
            None if state.in_flight < state.limit && state.queue.is_empty() => {
                state.in_flight += 1;
            }
            None if state.queue.len() >= this.throttle.waiting_max => {
                return Poll::Ready(Err(QueueFull {
                    waiting_max: this.throttle.waiting_max,
                }));
            }
            None => {
                this.ticket = Some(state.queue.push(this.caller, context.waker()));
                return Poll::Pending;
            }
            Some(ticket) => {
                if !state.queue.poll(ticket, context.waker()) {
                    return Poll::Pending;
                }
                this.ticket = None;
            }
        }
        let started = this.throttle.start(state);
        Poll::Ready(Ok(Permit {
            throttle: this.throttle.clone(),
            started,
            ending: Ending::Unknown,
        }))
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let was_granted = lock(&self.throttle.state).queue.leave(ticket);
        if was_granted {
            self.throttle.release(None, Ending::Unknown);
        }
    }
}

/// The right to have one request under way; dropping it ends the request.
#[derive(Debug)]
#[must_use = "dropping a permit ends its request"]
pub struct Permit {
    throttle: Arc<Throttle>,
    /// Start of a timed turn.
    started: Option<Instant>,
    ending: Ending,
}

impl Permit {
    /// The request has ended so.
    pub fn end(mut self, ending: Ending) {
        self.ending = ending;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.throttle.release(self.started, self.ending);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn a_limit_that_stands_in_gives_its_turns_and_goes_again() {
        let throttle = Throttle::new(ThrottleMode::Adaptive, WAITING_MAX_DEFAULT);
        let found = throttle.status().limit;
        let context = &mut Context::from_waker(Waker::noop());
        let mut permits = Vec::new();
        let mut waiter = pin!(throttle.acquire(1));
        while let Poll::Ready(Ok(permit)) = pin!(throttle.acquire(1)).poll(context) {
            permits.push(permit);
        }
        assert_eq!(permits.len(), found);
        assert!(waiter.as_mut().poll(context).is_pending());
        throttle.stand_in(Some(found + 1));
        assert_eq!(throttle.status().limit, found + 1);
        drop(permits.pop());
        assert!(waiter.poll(context).is_ready());
        // What ends now says nothing to the adaptive limit, refusals neither.
        permits.into_iter().for_each(|permit| permit.end(Ending::Refused));
        throttle.stand_in(None);
        assert_eq!(
            throttle.status(),
            ThrottleStatus {
                limit: found,
                in_flight: 0,
                waiting: 0
            }
        );
    }
}
