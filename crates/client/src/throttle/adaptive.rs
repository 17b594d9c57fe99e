//! The limit that nobody has to find.
//!
//! More requests under way bring more throughput until the server is busy; from then on they only wait in its queues.
//! The limit climbs to that knee and stays: time is cut into windows, the limit swings a little around its base from
//! one window to the next, and the throughputs of two neighbouring windows tell the *elasticity* there, the relative
//! gain in throughput for a relative gain in concurrency: 1 far below the knee, 0 above it. Above
//! [`ELASTICITY_WANTED`] the base grows, below it shrinks. Latency needs no look of its own: with throughput and
//! concurrency given, Little's law gives it.
//!
//! A refusal or a timeout is plainer: the server has said that it is too much, and the limit falls at once.

use std::time::{Duration, Instant};

use super::Ending;

/// The most a node is ever asked at once: the streams of two connections.
pub const LIMIT_MAX: usize = 65_536;

/// Where the search begins: enough for a LAN round trip, too little to harm.
const LIMIT_START: f64 = 16.0;

const LIMIT_MIN: f64 = 1.0;

/// A tenth more concurrency is to bring this share of a tenth more throughput.
const ELASTICITY_WANTED: f64 = 0.08;

/// How far the limit swings around its base: wide enough to tell a gain from noise.
const SWING: f64 = 0.2;

/// The most the base moves after a pair of windows.
const STEP_MAX: f64 = 0.25;

/// How much of the new elasticity goes into the running one.
const NEW_SHARE: f64 = 0.35;

const WINDOW_MIN: Duration = Duration::from_millis(50);
const WINDOW_MAX: Duration = Duration::from_millis(500);

/// A window must see each request under way answered this many times, or it shows the window before.
const ROUNDS_MIN: f64 = 3.0;

/// A doubling that brings less than this is the last one of the start.
const START_GAIN_MIN: f64 = 1.15;

/// Of a window's requests: more refusals than this are the server's word.
const REFUSED_SHARE_MAX: f64 = 0.01;

/// What the limit keeps of itself after refusals.
const REFUSED_KEEP: f64 = 0.75;

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub latency: Duration,
    pub ending: Ending,
    /// Whether the limit was reached: only then do windows say anything about it.
    pub is_limited: bool,
}

#[derive(Clone, Debug)]
pub struct AdaptiveLimit {
    base: f64,
    limit: f64,
    phase: Phase,
    window: Window,
    elasticity: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Doubling; the throughput and the limit of the window before.
    Start { throughput: f64 },
    /// The limit stands above its base.
    Up,
    /// The limit stands below its base; the throughput of the window above.
    Down { throughput_up: f64 },
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: Instant,
    answered: u64,
    refused: u64,
    limited: u64,
    latency_sum: Duration,
}

impl Window {
    fn at(start: Instant) -> Self {
        Window {
            start,
            answered: 0,
            refused: 0,
            limited: 0,
            latency_sum: Duration::ZERO,
        }
    }

    fn count(&self) -> u64 {
        self.answered + self.refused
    }

    /// Half of the requests ended with the limit reached.
    fn is_limited(&self) -> bool {
        2 * self.limited >= self.count()
    }
}

impl AdaptiveLimit {
    pub fn new(now: Instant) -> Self {
        AdaptiveLimit {
            base: LIMIT_START,
            limit: LIMIT_START,
            phase: Phase::Start { throughput: 0.0 },
            window: Window::at(now),
            elasticity: 0.0,
        }
    }

    /// Requests that may be under way.
    pub fn limit(&self) -> usize {
        (self.limit.round() as usize).clamp(1, LIMIT_MAX)
    }

    /// Takes account of a request that has ended at `now`.
    pub fn record(&mut self, now: Instant, sample: Sample) {
        let window = &mut self.window;
        match sample.ending {
            Ending::Answered => window.answered += 1,
            Ending::Refused | Ending::TimedOut => window.refused += 1,
            Ending::Unknown => return,
        }
        window.limited += u64::from(sample.is_limited);
        window.latency_sum += sample.latency;
        let length = now.saturating_duration_since(window.start);
        let is_full = window.count() as f64 >= ROUNDS_MIN * self.limit && length >= WINDOW_MIN;
        if is_full || length >= WINDOW_MAX {
            let ended = std::mem::replace(window, Window::at(now));
            self.window_ended(&ended, length);
        }
    }

    fn window_ended(&mut self, window: &Window, length: Duration) {
        if window.refused as f64 > REFUSED_SHARE_MAX * window.count() as f64 {
            self.base = (self.limit * REFUSED_KEEP).max(LIMIT_MIN);
            self.elasticity = 0.0;
            self.swing_up();
            return;
        }
        // Callers that ask for less than the limit say nothing about it.
        if !window.is_limited() {
            self.phase = match self.phase {
                Phase::Start { .. } => self.phase,
                _ => Phase::Up,
            };
            return;
        }
        let throughput = window.answered as f64 / length.as_secs_f64().max(1e-6);
        match self.phase {
            Phase::Start { throughput: before } if throughput >= before * START_GAIN_MIN => {
                self.phase = Phase::Start { throughput };
                self.base = self.limit;
                self.limit = (2.0 * self.limit).min(LIMIT_MAX as f64);
            }
            Phase::Start { .. } => self.swing_up(),
            Phase::Up => {
                self.phase = Phase::Down {
                    throughput_up: throughput,
                };
                self.limit = (self.base * (1.0 - SWING)).max(LIMIT_MIN);
            }
            Phase::Down { throughput_up } => self.pair_ended(throughput_up, throughput),
        }
    }

    fn pair_ended(&mut self, throughput_up: f64, throughput_down: f64) {
        let swing = ((1.0 + SWING) / (1.0 - SWING)).ln();
        let gain = (throughput_up.max(1e-6) / throughput_down.max(1e-6)).ln();
        let elasticity = (gain / swing).clamp(-1.0, 1.5);
        self.elasticity += NEW_SHARE * (elasticity - self.elasticity);
        let excess = (self.elasticity - ELASTICITY_WANTED) / (4.0 * ELASTICITY_WANTED);
        self.base *= 1.0 + STEP_MAX * excess.clamp(-1.0, 1.0);
        self.base = self.base.clamp(LIMIT_MIN, LIMIT_MAX as f64);
        self.swing_up();
    }

    fn swing_up(&mut self) {
        self.phase = Phase::Up;
        // At a limit of a few requests a fifth is less than one.
        self.limit = (self.base * (1.0 + SWING))
            .max(self.base + 1.0)
            .min(LIMIT_MAX as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that works on `parallel` requests at once, `service` each; more wait their turn.
    #[derive(Clone, Copy)]
    struct Server {
        parallel: f64,
        service: Duration,
    }

    impl Server {
        fn latency(self, concurrency: f64) -> Duration {
            self.service.mul_f64((concurrency / self.parallel).max(1.0))
        }
    }

    /// Runs callers without end against the server for a while.
    fn run(limit: &mut AdaptiveLimit, now: &mut Instant, server: Server, time: Duration) {
        let end = *now + time;
        let mut noise = 0x9E37_79B9_u64;
        while *now < end {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let jitter = 0.9 + 0.2 * ((noise >> 33) as f64 / (1_u64 << 31) as f64);
            let concurrency = limit.limit() as f64;
            let latency = server.latency(concurrency).mul_f64(jitter);
            *now += latency.div_f64(concurrency);
            let sample = Sample {
                latency,
                ending: Ending::Answered,
                is_limited: true,
            };
            limit.record(*now, sample);
        }
    }

    #[test]
    fn the_limit_settles_at_the_servers_parallelism() {
        for (parallel, service_us) in [(8.0, 400), (64.0, 1_000), (600.0, 2_000)] {
            let mut now = Instant::now();
            let mut limit = AdaptiveLimit::new(now);
            let server = Server {
                parallel,
                service: Duration::from_micros(service_us),
            };
            run(&mut limit, &mut now, server, Duration::from_secs(4));
            let found = limit.base / parallel;
            assert!((0.85..1.6).contains(&found), "{found} of {parallel}");
        }
    }

    #[test]
    fn it_is_found_again_when_the_server_changes() {
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(now);
        let service = Duration::from_millis(1);
        for parallel in [64.0, 256.0, 32.0] {
            run(
                &mut limit,
                &mut now,
                Server { parallel, service },
                Duration::from_secs(4),
            );
            let found = limit.base / parallel;
            assert!((0.8..2.0).contains(&found), "{found} of {parallel}");
        }
    }

    #[test]
    fn refusals_lower_it_at_once() {
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(now);
        run(
            &mut limit,
            &mut now,
            Server {
                parallel: 100.0,
                service: Duration::from_millis(1),
            },
            Duration::from_secs(2),
        );
        let before = limit.limit();
        for _ in 0..4 * before {
            now += Duration::from_micros(500);
            let sample = Sample {
                latency: Duration::from_millis(1),
                ending: Ending::Refused,
                is_limited: true,
            };
            limit.record(now, sample);
        }
        assert!(limit.limit() < before * 9 / 10, "{before} to {}", limit.limit());
    }

    #[test]
    fn callers_that_ask_for_little_leave_it_alone() {
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(now);
        let before = limit.limit();
        for _ in 0..10_000 {
            now += Duration::from_millis(1);
            let sample = Sample {
                latency: Duration::from_millis(1),
                ending: Ending::Answered,
                is_limited: false,
            };
            limit.record(now, sample);
        }
        assert_eq!(limit.limit(), before);
    }
}
