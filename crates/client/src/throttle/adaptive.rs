//! The limit that nobody has to find.
//!
//! More requests under way bring more throughput until the server is busy; from then on they only wait in its queues.
//! The limit climbs to that knee and stays. What decides is the *elasticity*: the relative gain in throughput for a
//! relative gain in concurrency, 1 far below the knee, 0 above it, and for servers that work in batches a long slope
//! between. A slope of a few percent disappears in the noise of a busy machine, so the limit is not moved by one
//! look: it is compared with a [`Candidate`], a good deal larger or smaller, in pairs of short windows that alternate,
//! until the pairs agree or there are enough of them. Then it holds still for a while, and tries the other direction.
//!
//! Mistakes are not alike. A limit below the knee costs throughput, one above it nothing while the server's queues are
//! short: so there the larger limit wins what the noise does not tell apart, and steps up are longer than steps down.
//! Latency needs no look of its own: with throughput and concurrency given, Little's law gives it. Long queues ask for
//! more gain ([`candidate::wanted_elasticity`]), which also ends the race of sessions that share a server, each of
//! which gains from a larger limit what the others lose.
//!
//! A refusal or a timeout is plainer: the server has said that it is too much, and the limit falls at once.

mod candidate;
#[cfg(test)]
mod simulator;
mod window;

use std::time::{Duration, Instant};

use super::Ending;
use candidate::{Candidate, SHORT_QUEUE, Verdict};
use window::{Window, WindowRate};

/// The most a node is ever asked at once: the streams of two connections.
pub const LIMIT_MAX: usize = 65_536;

/// Where the search begins: enough for a LAN round trip, too little to harm.
const LIMIT_START: usize = 64;

/// How far a candidate is from the limit: the first steps, and while they go on upwards. A slope of a few percent shows
/// over a long step only, and from 64 to a thousand there are but two of these.
const STEP_MAX: f64 = 4.0;

/// The longest step down: below the knee, half of the limit is half of the throughput while it is looked at.
const STEP_DOWN_MAX: f64 = 2.0;

/// The first step after the server's speed has changed.
const STEP_OF_SHIFT: f64 = 2.0;

/// The same after a candidate was no better.
const STEP_MIN: f64 = std::f64::consts::SQRT_2;

/// How long the limit stays before the next candidate. A comparison of [`candidate::PAIRS_MAX`] pairs takes half a
/// second, so a server that has changed is found out within two.
const HOLD: Duration = Duration::from_millis(400);

/// The same after [`SETTLED_AFTER`] candidates in a row that were no better. What is tried is worse then, and whoever is served
/// meanwhile waits longer: compared without a pause, it is more than half of the time, and decides the p99.
const HOLD_SETTLED: Duration = Duration::from_millis(800);

/// Both directions twice: sessions that share a server still find their shares at the usual pace.
const SETTLED_AFTER: u32 = 4;

/// Smaller limits that were no better are looked for ever less often, but after so many looks at larger ones: such a look
/// is what makes callers wait. A server that has become slower shows by itself.
const LOOKS_UP_MAX: u32 = 7;

/// After refusals: a server that refuses is not pressed again soon.
const HOLD_REFUSED: Duration = Duration::from_secs(1);

/// Throughput that differs so much from that of the windows before is another server's: no need to hold.
const SHIFT: f64 = 0.25;

/// Share of the limit that is kept after refusals.
const REFUSED_KEEP: f64 = 0.75;

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time from the turn to the end of the request; the wait for the turn is not in it.
    pub latency: Duration,
    /// Result of the request, as far as it tells of the server's load.
    pub ending: Ending,
    /// True if the limit was reached: only then do windows say anything about it.
    pub is_limited: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct AdaptiveLimit {
    limit: usize,
    window: Window,
    phase: Phase,
    direction: Direction,
    step: f64,
    /// Candidates in a row that were no better.
    no_better: u32,
    /// Looks at larger limits between two at smaller ones, and those of them that are left.
    looks_up: u32,
    looks_up_left: u32,
    /// True if the server's queues were short when they were last looked at.
    has_short_queues: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

#[derive(Clone, Debug)]
enum Phase {
    Compare(Candidate),
    /// Nothing is tried; the throughput that is usual meanwhile.
    Hold {
        until: Instant,
        usual: Option<f64>,
    },
}

impl AdaptiveLimit {
    pub fn new(now: Instant) -> Self {
        AdaptiveLimit {
            limit: LIMIT_START,
            window: Window::start(now, 0),
            phase: Phase::Compare(Candidate::new(LIMIT_START, scaled(LIMIT_START, STEP_MAX))),
            direction: Direction::Up,
            step: STEP_MAX,
            no_better: 0,
            looks_up: 0,
            looks_up_left: 0,
            has_short_queues: true,
        }
    }

    /// Requests that may be under way.
    pub fn limit(&self) -> usize {
        match &self.phase {
            Phase::Compare(candidate) => candidate.limit_now(),
            Phase::Hold { .. } => self.limit,
        }
    }

    /// After a pause in which nothing was told: it goes on where it was. `under_way` are requests of another limit.
    pub fn go_on(&mut self, now: Instant, pause: Duration, under_way: usize) {
        match &mut self.phase {
            Phase::Compare(candidate) => candidate.begin_pair_again(),
            Phase::Hold { until, .. } => *until += pause,
        }
        self.window = Window::start(now, under_way.max(self.limit()));
    }

    /// Takes account of a request of which only that it has ended is known.
    pub fn count(&mut self, ending: Ending, is_limited: bool) {
        self.window.count_one(ending, is_limited);
    }

    /// Takes account of a request that has ended at `now`.
    pub fn record(&mut self, now: Instant, sample: Sample) {
        if sample.ending == Ending::Unknown {
            return;
        }
        self.window.record(now, sample);
        let before = self.limit();
        if !self.window.is_over(now, before) {
            return;
        }
        let rate = self.window.rate(now);
        self.window_ended(now, rate);
        let after = self.limit();
        // What is under way now was begun with the old limit and says nothing about the new one.
        let begun_before = if after == before { 0 } else { before.max(after) };
        self.window = Window::start(now, begun_before);
    }

    fn window_ended(&mut self, now: Instant, rate: WindowRate) {
        if rate.is_refused {
            self.refused(now);
            return;
        }
        match &mut self.phase {
            Phase::Compare(candidate) => {
                // Callers that ask for less than the limit say nothing about it. A candidate above it may well be
                // more than they ask for: what it brings counts all the same.
                if !rate.is_limited && candidate.limit_now() <= self.limit {
                    self.hold(now, HOLD);
                    return;
                }
                let verdict = candidate.window_ended(rate);
                self.has_short_queues = candidate.queued() < SHORT_QUEUE;
                match verdict {
                    Verdict::Undecided => {}
                    Verdict::Better => {
                        self.limit = candidate.limit;
                        self.search_again();
                        self.step = (self.step * STEP_MIN).min(STEP_MAX);
                        self.compare(now);
                    }
                    Verdict::NoBetter => self.no_better(now),
                }
            }
            Phase::Hold { until, usual } => {
                let throughput = rate.throughput;
                let is_shift = usual.is_some_and(|usual| (throughput / usual).ln().abs() > SHIFT);
                let mean = usual.map_or(throughput, |usual| usual + (throughput - usual) / 4.0);
                *usual = Some(mean);
                if rate.is_limited && (now >= *until || is_shift) {
                    if is_shift {
                        self.search_again();
                        self.step = self.step.max(STEP_OF_SHIFT);
                    }
                    if is_shift && self.has_short_queues {
                        self.direction = Direction::Up;
                    }
                    self.compare(now);
                }
            }
        }
    }

    /// The other direction is next, but for looks down that are put off.
    fn no_better(&mut self, now: Instant) {
        self.step = STEP_MIN;
        self.direction = match self.direction {
            Direction::Up if self.looks_up_left > 0 => {
                self.looks_up_left -= 1;
                Direction::Up
            }
            Direction::Up => Direction::Down,
            Direction::Down => {
                self.looks_up = (2 * self.looks_up + 1).min(LOOKS_UP_MAX);
                self.looks_up_left = self.looks_up - 1;
                Direction::Up
            }
        };
        self.no_better = self.no_better.saturating_add(1);
        let is_settled = self.no_better >= SETTLED_AFTER;
        self.hold(now, if is_settled { HOLD_SETTLED } else { HOLD });
    }

    /// A candidate that is refused is only dropped; the limit itself falls.
    fn refused(&mut self, now: Instant) {
        let is_candidates =
            matches!(&self.phase, Phase::Compare(candidate) if candidate.limit_now() > self.limit);
        if !is_candidates {
            self.limit = scaled(self.limit, REFUSED_KEEP);
        }
        self.step = STEP_MIN;
        self.search_again();
        self.direction = Direction::Up;
        self.hold(now, HOLD_REFUSED);
    }

    /// The limit or the server is another one: what was no better may be so now.
    fn search_again(&mut self) {
        (self.no_better, self.looks_up, self.looks_up_left) = (0, 0, 0);
    }

    fn hold(&mut self, now: Instant, length: Duration) {
        self.phase = Phase::Hold {
            until: now + length,
            usual: None,
        };
    }

    /// Begins the next comparison, in the other direction where there is no room in this one.
    fn compare(&mut self, now: Instant) {
        let mut wanted = self.candidate();
        if wanted == self.limit {
            self.direction = match self.direction {
                Direction::Up => Direction::Down,
                Direction::Down => Direction::Up,
            };
            wanted = self.candidate();
        }
        self.phase = Phase::Compare(Candidate::new(self.limit, wanted));
        self.window = Window::start(now, 0);
    }

    fn candidate(&self) -> usize {
        match self.direction {
            Direction::Up => scaled(self.limit, self.step),
            Direction::Down => scaled(self.limit, 1.0 / self.step.min(STEP_DOWN_MAX)),
        }
    }
}

/// At least one more or less, within what a limit may be.
fn scaled(limit: usize, factor: f64) -> usize {
    let exact = (limit as f64 * factor).round() as usize;
    let moved = if factor > 1.0 {
        exact.max(limit + 1)
    } else {
        exact.min(limit.saturating_sub(1))
    };
    moved.clamp(1, LIMIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record_many(limit: &mut AdaptiveLimit, now: &mut Instant, count: usize, sample: Sample) {
        for _ in 0..count {
            *now += Duration::from_micros(500);
            limit.record(*now, sample);
        }
    }

    const ANSWERED: Sample = Sample {
        latency: Duration::from_millis(1),
        ending: Ending::Answered,
        is_limited: true,
    };

    #[test]
    fn refusals_lower_it_at_once() {
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(now);
        limit.limit = 1000;
        limit.hold(now, HOLD);
        let refused = Sample {
            ending: Ending::Refused,
            ..ANSWERED
        };
        record_many(&mut limit, &mut now, 3000, refused);
        assert!(limit.limit() <= 750, "{}", limit.limit());
    }

    #[test]
    fn a_refused_candidate_leaves_the_limit_as_it_is() {
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(now);
        limit.limit = 100;
        limit.compare(now);
        for _ in 0..4000 {
            let ending = if limit.limit() > 100 {
                Ending::Refused
            } else {
                Ending::Answered
            };
            record_many(&mut limit, &mut now, 1, Sample { ending, ..ANSWERED });
            assert!(limit.limit >= 70, "{}", limit.limit);
        }
    }

    #[test]
    fn callers_that_ask_for_little_leave_it_alone() {
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(now);
        let idle = Sample {
            is_limited: false,
            ..ANSWERED
        };
        record_many(&mut limit, &mut now, 10_000, idle);
        assert_eq!(limit.limit(), LIMIT_START);
    }

    #[test]
    fn a_candidate_is_another_number() {
        assert_eq!((scaled(1, STEP_MIN), scaled(1, 1.0 / STEP_MIN)), (2, 1));
        assert_eq!((scaled(2, STEP_MIN), scaled(2, 1.0 / STEP_MIN)), (3, 1));
        assert_eq!(scaled(LIMIT_MAX, STEP_MAX), LIMIT_MAX);
    }
}
