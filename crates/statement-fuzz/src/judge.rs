//! Bounds on the cost of a request, and the cost that it had.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_node::Stalls;
use helenus_node::metrics::PANICS;
use helenus_vfs::process_time;

/// Bounds that every request must keep.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How long a shard is held by one piece of work, in its processor time; not judged where nobody has optimised.
    pub stall: Option<Duration>,
    /// The node's timeouts.
    pub timeout: Duration,
    /// After it; in processor time of the process, which other processes do not use up.
    pub late: Option<Duration>,
    /// Resident, of the process.
    pub memory_bytes: u64,
}

/// A request that broke a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failure {
    Panic,
    Stall { what: &'static str, took: Duration },
    Late { took: Duration },
    Memory { bytes: u64 },
    NoAnswer,
}

/// Cost of a step's requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub panics: u64,
    /// The longest hold of a shard, and by what.
    pub held: Duration,
    pub what: &'static str,
    /// Processor time of its longest request.
    pub request: Duration,
    pub is_unanswered: bool,
}

/// Measures one request after the other.
pub(crate) struct Judge {
    pub bounds: Bounds,
    stalls: Arc<Stalls>,
    cost: Cost,
}

impl Failure {
    /// Returns whether two failures are the same as far as shrinking goes.
    pub(crate) fn is_like(&self, other: &Failure) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Panic => f.write_str("something panicked"),
            Failure::Stall { what, took } => write!(f, "{what} held its shard for {took:.1?}"),
            Failure::Late { took } => write!(
                f,
                "a request took {took:.1?} of processor time, past its deadline"
            ),
            Failure::Memory { bytes } => write!(f, "the process has {} MiB", bytes >> 20),
            Failure::NoAnswer => f.write_str("a request was not answered"),
        }
    }
}

impl Judge {
    pub fn new(bounds: Bounds, stalls: Arc<Stalls>) -> Self {
        Judge {
            bounds,
            stalls,
            cost: Cost::default(),
        }
    }

    /// Sends one request and waits for its answer; `None` if there came none.
    pub fn ask<T>(&mut self, request: impl FnOnce() -> Option<T>) -> Option<T> {
        let panics = PANICS.load(Ordering::Relaxed);
        self.stalls.take();
        let begun = process_time();
        let answer = request();
        let took = process_time().saturating_sub(begun);
        let seen = self.stalls.take();
        let cost = &mut self.cost;
        cost.request = cost.request.max(took);
        cost.panics += PANICS.load(Ordering::Relaxed) - panics;
        cost.is_unanswered |= answer.is_none();
        if seen.longest > cost.held {
            (cost.held, cost.what) = (seen.longest, seen.what);
        }
        answer
    }

    /// Takes the cost of the requests since the last call.
    pub(crate) fn take_cost(&mut self) -> Cost {
        std::mem::take(&mut self.cost)
    }

    /// Returns the worst failure that a cost shows.
    pub fn verdict(&self, cost: &Cost) -> Option<Failure> {
        let late = self
            .bounds
            .late
            .filter(|late| cost.request > self.bounds.timeout + *late);
        match cost {
            Cost { panics: 1.., .. } => Some(Failure::Panic),
            Cost {
                is_unanswered: true, ..
            } => Some(Failure::NoAnswer),
            _ if self.bounds.stall.is_some_and(|bound| cost.held > bound) => Some(Failure::Stall {
                what: cost.what,
                took: cost.held,
            }),
            _ => late.map(|_| Failure::Late { took: cost.request }),
        }
    }

    pub fn memory(&self) -> Option<Failure> {
        let bytes = resident_bytes();
        (bytes > self.bounds.memory_bytes).then_some(Failure::Memory { bytes })
    }
}

/// Zero where the machine does not tell.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    });
    kib.unwrap_or(0_u64) << 10
}
