//! A limit that is compared with the present one.

use std::time::Duration;

use super::window::WindowRate;

/// Beyond these pairs of windows the mean decides: what they cannot tell apart differs by a few percent.
pub(super) const PAIRS_MAX: u32 = 12;

/// Pairs that are looked at in any case: one window in which the processor was taken away is not to decide alone.
const PAIRS_MIN: u32 = 2;

/// The distance from the bound, in standard errors, that decides earlier.
const SURE: f64 = 2.5;

/// The noise that is expected of a pair before it is seen, and the pairs that this expectation counts for.
const NOISE_EXPECTED: f64 = 0.08;
const NOISE_EXPECTED_PAIRS: f64 = 2.0;

/// The same for the larger of two limits while queues are short, where nothing is lost by it.
const SURE_OF_LARGER: f64 = 1.5;

/// While queues are short, the larger of two limits wins ties: differences of so many standard errors.
const TIE: f64 = 1.0;

/// A pair says no more than this for or against a candidate (or the ratio of the limits, if that is more), in logarithms:
/// a window in which the machine did something else, or the server's speed changed, is one voice among several.
const GAIN_MAX: f64 = 0.35;

/// A queueing time below which a larger limit costs nobody anything: of the order of a scheduler's slices, a quarter
/// of [`LONG_QUEUE`].
pub(super) const SHORT_QUEUE: Duration = Duration::from_millis(5);

/// The elasticity that is wanted where queues are as long as [`LONG_QUEUE`]: a tenth more concurrency is to bring this
/// share of a tenth more throughput.
const ELASTICITY_OF_LONG_QUEUE: f64 = 0.3;

/// The mean queueing time by which DAGOR (SoCC 2018) tells overload.
const LONG_QUEUE: Duration = Duration::from_millis(20);

/// The elasticity from which on more requests under way are better: `queued` is how long a request waits in the
/// server's queues.
pub(super) fn wanted_elasticity(queued: Duration) -> f64 {
    let length = queued.as_secs_f64() / LONG_QUEUE.as_secs_f64();
    ELASTICITY_OF_LONG_QUEUE * length * length
}

#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub limit: usize,
    present: usize,
    is_at_candidate: bool,
    /// The first window of the pair that is being measured.
    first: Option<WindowRate>,
    /// The callers asked for as much as the candidate allows in every window.
    is_filled: bool,
    pairs: Pairs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Undecided,
    Better,
    NoBetter,
}

/// The candidate's throughput over the present one's, in logarithms, pair by pair.
#[derive(Clone, Debug, Default)]
struct Pairs {
    count: u32,
    gain_sum: f64,
    gain_square_sum: f64,
    /// Differences between the latencies under the two limits, longer or shorter, pair by pair, in us.
    differences_us: [u32; PAIRS_MAX as usize],
}

impl Candidate {
    pub fn new(present: usize, limit: usize) -> Self {
        Candidate {
            limit,
            present,
            is_at_candidate: false,
            first: None,
            is_filled: true,
            pairs: Pairs::default(),
        }
    }

    /// The limit of the window under way.
    pub fn limit_now(&self) -> usize {
        if self.is_at_candidate {
            self.limit
        } else {
            self.present
        }
    }

    /// The windows of a pair are to follow each other.
    pub fn begin_pair_again(&mut self) {
        self.first = None;
    }

    pub fn window_ended(&mut self, rate: WindowRate) -> Verdict {
        let Some(first) = self.first.take() else {
            self.first = Some(rate);
            self.is_at_candidate = !self.is_at_candidate;
            return Verdict::Undecided;
        };
        // The next pair begins with the limit that this one ends with, so that a drift of the server's cancels out.
        let (present, candidate) = if self.is_at_candidate {
            (first, rate)
        } else {
            (rate, first)
        };
        self.is_filled &= candidate.is_limited;
        self.pairs
            .add(&present, &candidate, self.step().abs().max(GAIN_MAX));
        self.verdict()
    }

    /// How long requests wait in the server's queues under the larger of the two limits: what is not queue yet is the
    /// same under both, and the queue grows with the limit.
    pub fn queued(&self) -> Duration {
        let (less, more) = (self.limit.min(self.present), self.limit.max(self.present));
        let slower = self.pairs.median_difference();
        slower.mul_f64(more as f64 / (more - less).max(1) as f64)
    }

    fn step(&self) -> f64 {
        (self.limit as f64 / self.present as f64).ln()
    }

    fn verdict(&self) -> Verdict {
        if self.pairs.count < PAIRS_MIN {
            return Verdict::Undecided;
        }
        let step = self.step();
        let queued = self.queued();
        let (mean, error) = self.pairs.mean_and_error();
        let gain = mean - wanted_elasticity(queued) * step;
        // For the larger of the two, in standard errors.
        let evidence = gain * step.signum() / error;
        let is_cheap = queued < SHORT_QUEUE && self.is_filled;
        let (sure, tie) = if is_cheap {
            (SURE_OF_LARGER, -TIE)
        } else {
            (SURE, 0.0)
        };
        let is_larger_better = if evidence >= sure {
            true
        } else if evidence <= -SURE {
            false
        } else if self.pairs.count < PAIRS_MAX {
            return Verdict::Undecided;
        } else {
            evidence > tie
        };
        if is_larger_better == (step > 0.0) {
            Verdict::Better
        } else {
            Verdict::NoBetter
        }
    }
}

impl Pairs {
    fn add(&mut self, present: &WindowRate, candidate: &WindowRate, gain_max: f64) {
        let gain = (candidate.throughput.max(1e-6) / present.throughput.max(1e-6)).ln();
        let gain = gain.clamp(-gain_max, gain_max);
        // A window of few answers is worth little, however alike the answers are.
        let answers = 1.0 / present.answered.max(1) as f64 + 1.0 / candidate.answered.max(1) as f64;
        if let Some(difference) = self.differences_us.get_mut(self.count as usize) {
            let longer = candidate.latency.abs_diff(present.latency);
            *difference = u32::try_from(longer.as_micros()).unwrap_or(u32::MAX);
        }
        self.count += 1;
        self.gain_sum += gain;
        self.gain_square_sum += gain * gain + answers;
    }

    /// The lower one of two: a window that was stolen is as long as a queue.
    fn median_difference(&self) -> Duration {
        let mut differences_us = self.differences_us;
        let known = differences_us.get_mut(..self.count as usize).unwrap_or_default();
        known.sort_unstable();
        let median_us = known.get(known.len().saturating_sub(1) / 2).copied();
        Duration::from_micros(median_us.unwrap_or_default().into())
    }

    /// Returns the mean of the gain and its standard error.
    fn mean_and_error(&self) -> (f64, f64) {
        let count = f64::from(self.count);
        let mean = self.gain_sum / count;
        let spread = (self.gain_square_sum - count * mean * mean).max(0.0);
        let expected = NOISE_EXPECTED_PAIRS * NOISE_EXPECTED * NOISE_EXPECTED;
        let variance = (spread + expected) / (count - 1.0 + NOISE_EXPECTED_PAIRS);
        (mean, (variance / count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(throughput: f64, latency_us: u64) -> WindowRate {
        WindowRate {
            throughput,
            latency: Duration::from_micros(latency_us),
            answered: 10_000,
            is_refused: false,
            is_limited: true,
        }
    }

    /// Windows of these throughputs until the verdict; how many it took.
    fn compare(candidate: &mut Candidate, throughput: impl Fn(usize, u32) -> f64) -> (Verdict, u32) {
        for window in 0.. {
            let limit = candidate.limit_now();
            let throughput = throughput(limit, window);
            let latency = limit as f64 / throughput * 1e6;
            match candidate.window_ended(rate(throughput, latency as u64)) {
                Verdict::Undecided => assert!(window < 2 * PAIRS_MAX),
                verdict => return (verdict, window + 1),
            }
        }
        unreachable!("a comparison ends")
    }

    #[test]
    fn what_is_plain_is_decided_by_the_first_pairs() {
        let proportional = |limit, _| limit as f64 * 1000.0;
        assert_eq!(
            compare(&mut Candidate::new(16, 32), proportional),
            (Verdict::Better, 2 * PAIRS_MIN)
        );
        assert_eq!(
            compare(&mut Candidate::new(32, 16), proportional),
            (Verdict::NoBetter, 2 * PAIRS_MIN)
        );
    }

    /// Symptom: on a shared machine the limit fell or stayed by a single window of which the hypervisor had taken most.
    #[test]
    fn one_stolen_window_decides_nothing() {
        for stolen in [0, 1] {
            let proportional = |limit, window| {
                let share = if window == stolen { 0.02 } else { 1.0 };
                limit as f64 * 1000.0 * share
            };
            assert_eq!(
                compare(&mut Candidate::new(16, 32), proportional).0,
                Verdict::Better
            );
            assert_eq!(
                compare(&mut Candidate::new(32, 16), proportional).0,
                Verdict::NoBetter
            );
        }
    }

    #[test]
    fn more_requests_for_the_same_throughput_are_no_better_and_fewer_are() {
        let flat = |_, _| 10_000.0;
        assert_eq!(compare(&mut Candidate::new(100, 200), flat).0, Verdict::NoBetter);
        assert_eq!(compare(&mut Candidate::new(200, 100), flat).0, Verdict::Better);
    }

    #[test]
    fn while_queues_are_short_the_larger_limit_wins_ties_but_no_losses() {
        let flat = |_, _| 1e6;
        assert_eq!(compare(&mut Candidate::new(100, 200), flat).0, Verdict::Better);
        assert_eq!(compare(&mut Candidate::new(200, 100), flat).0, Verdict::NoBetter);
        let crowded = |limit, _| if limit > 100 { 9e5 } else { 1e6 };
        assert_eq!(
            compare(&mut Candidate::new(100, 200), crowded).0,
            Verdict::NoBetter
        );
        assert_eq!(compare(&mut Candidate::new(200, 100), crowded).0, Verdict::Better);
    }

    #[test]
    fn a_candidate_that_callers_do_not_fill_wins_no_tie() {
        let mut candidate = Candidate::new(100, 200);
        let verdict = loop {
            let is_limited = candidate.limit_now() == 100;
            let rate = WindowRate {
                is_limited,
                ..rate(1e6, 100)
            };
            match candidate.window_ended(rate) {
                Verdict::Undecided => {}
                verdict => break verdict,
            }
        };
        assert_eq!(verdict, Verdict::NoBetter);
    }

    #[test]
    fn a_drift_of_the_server_is_no_gain() {
        // A percent faster with each window.
        let drifting = |_, window| 10_000.0 * 1.01_f64.powi(window as i32);
        assert_eq!(
            compare(&mut Candidate::new(100, 141), drifting).0,
            Verdict::NoBetter
        );
    }

    #[test]
    fn long_queues_ask_for_more_gain() {
        // Elasticity of a half, as where two sessions share a busy server.
        let root = |scale: f64| move |limit: usize, _: u32| scale * (limit as f64).sqrt();
        assert_eq!(
            compare(&mut Candidate::new(100, 200), root(10_000.0)).0,
            Verdict::Better
        );
        assert_eq!(
            compare(&mut Candidate::new(100, 200), root(200.0)).0,
            Verdict::NoBetter
        );
    }
}
