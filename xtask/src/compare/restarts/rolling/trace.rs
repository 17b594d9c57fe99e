//! Trace of `helenus bench run`: the effects of the restarts that it was running through.

use std::fmt::Write as _;
use std::ops::Range;

use crate::compare::load_generator::{TraceSlice, parse_trace};

/// When a restart did what, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restart {
    /// The signal to stop.
    pub signalled_us: u64,
    /// The process has left; the next one is started at once.
    pub left_us: u64,
    /// The ready line.
    pub ready_us: u64,
    /// The next restart, or the end.
    pub ended_us: u64,
}

pub(super) struct Trace {
    slices: Vec<TraceSlice>,
}

/// Latencies of some slices, in microseconds; `None` if they are below what is traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    pub slices: usize,
    pub ops: u64,
    pub p99_us: Option<u64>,
    pub p999_us: Option<u64>,
    pub max_us: Option<u64>,
}

impl Trace {
    pub fn parse(text: &str) -> Trace {
        Trace {
            slices: parse_trace(text),
        }
    }

    fn within<'a>(&'a self, times: &'a [Range<u64>]) -> impl Iterator<Item = &'a TraceSlice> {
        let is_within = |slice: &TraceSlice| {
            let mut times = times.iter();
            times.any(|time| time.start <= slice.at_us.start && slice.at_us.end <= time.end)
        };
        self.slices.iter().filter(move |slice| is_within(slice))
    }

    /// Computes the latencies of all slices in these times, or only of those that count.
    pub fn tail(&self, times: &[Range<u64>], counts_only: bool) -> Tail {
        let mut tail = Tail::default();
        let mut latencies = Vec::new();
        for slice in self
            .within(times)
            .filter(|slice| slice.is_undisturbed || !counts_only)
        {
            tail.slices += 1;
            tail.ops += slice.ops;
            latencies.extend(slice.slow.iter().map(|request| request.latency_us));
        }
        latencies.sort_unstable_by(|one, other| other.cmp(one));
        let above = |share: f64| latencies.get((tail.ops as f64 * share) as usize).copied();
        (tail.p99_us, tail.p999_us) = (above(0.01), above(0.001));
        tail.max_us = latencies.first().copied();
        tail
    }

    /// For each phase of the restarts: requests that were to be sent in it and took longer than `over_us`, and how many of
    /// them the generator itself sent late by the better part of it. Of slices that count.
    pub fn phases(&self, restarts: &[Restart], over_us: u64) -> Vec<Phase> {
        let mut phases: Vec<Phase> = PHASES.iter().map(|name| Phase::new(name)).collect();
        for restart in restarts {
            for (phase, time) in phases.iter_mut().zip(restart.phases()) {
                phase.ms += (time.end.saturating_sub(time.start)) as f64 / 1e3 / restarts.len() as f64;
            }
        }
        let counted = self.slices.iter().filter(|slice| slice.is_undisturbed);
        for request in counted.flat_map(|slice| &slice.slow) {
            if request.latency_us <= over_us {
                continue;
            }
            for restart in restarts {
                for (phase, time) in phases.iter_mut().zip(restart.phases()) {
                    if time.contains(&request.intended_us) {
                        phase.slow += 1;
                        phase.sent_late += u64::from(2 * request.late_us > request.latency_us);
                    }
                }
            }
        }
        phases
    }
}

pub(super) struct Phase {
    name: &'static str,
    /// Its length in the mean.
    ms: f64,
    slow: u64,
    sent_late: u64,
}

impl Phase {
    fn new(name: &'static str) -> Phase {
        Phase {
            name,
            ms: 0.0,
            slow: 0,
            sent_late: 0,
        }
    }
}

const PHASES: [&str; 4] = [
    "from the signal to the exit",
    "from the exit to the ready line",
    "the 200 ms after it",
    "then, until the next restart",
];

/// In which the client connects, prepares and sends its share again.
const RETURN_US: u64 = 200_000;

impl Restart {
    fn phases(&self) -> [Range<u64>; 4] {
        let returned_us = (self.ready_us + RETURN_US).min(self.ended_us);
        [
            self.signalled_us..self.left_us,
            self.left_us..self.ready_us,
            self.ready_us..returned_us,
            returned_us..self.ended_us,
        ]
    }
}

/// As a table.
pub(super) fn render(phases: &[Phase], over_us: u64) -> String {
    let mut text = format!(
        "| requests that were to be sent | ms, each | slower than {:.2} ms | of them sent late by the generator |\n\
         |---|---|---|---|\n",
        over_us as f64 / 1e3
    );
    for phase in phases {
        let _infallible = writeln!(
            text,
            "| {} | {:.0} | {} | {} |",
            phase.name, phase.ms, phase.slow, phase.sent_late
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "slice,100000,100000,1,100,700,adaptive\nrequest,1000,5,700,127.0.0.1:1\nslice,200000,100000,0,100,90000,adaptive\n\
        request,150000,5,90000,127.0.0.1:1\nslice,300000,100000,1,100,800,adaptive\nrequest,210000,5,800,127.0.0.1:1\n\
        request,220000,900,1000,127.0.0.1:1\nrequest,";

    #[test]
    fn the_tail_is_of_the_undisturbed_slices_within_the_times() {
        let trace = Trace::parse(TRACE);
        let tail = trace.tail(&[0..100_000, 200_000..300_000], true);
        assert_eq!((tail.slices, tail.ops, tail.max_us), (2, 200, Some(1000)));
        assert_eq!((tail.p99_us, tail.p999_us), (Some(700), Some(1000)));
        let until = |end| Vec::from([Range { start: 0, end }]);
        assert_eq!(trace.tail(&until(300_000), true).slices, 2);
        assert_eq!(trace.tail(&until(300_000), false).max_us, Some(90_000));
        assert_eq!(trace.tail(&until(150_000), false).slices, 1);
    }

    #[test]
    fn slow_requests_are_laid_beside_the_phases_of_a_restart() {
        let restart = Restart {
            signalled_us: 200_000,
            left_us: 215_000,
            ready_us: 225_000,
            ended_us: 900_000,
        };
        let phases = Trace::parse(TRACE).phases(&[restart], 500);
        let counts: Vec<_> = phases.iter().map(|phase| (phase.slow, phase.sent_late)).collect();
        assert_eq!(counts, [(1, 0), (1, 1), (0, 0), (0, 0)]);
        assert!(render(&phases, 500).contains("| from the signal to the exit | 15 | 1 | 0 |"));
    }
}
