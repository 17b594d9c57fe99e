//! The highest rate at which latency stays within a bound.

use std::time::Duration;

use super::options::{Length, Load, RunOptions};
use super::{Measurement, Progress, RunError, run};

/// Goal and steps of the search for the highest rate.
#[derive(Clone, Copy, Debug)]
pub struct FindMax {
    pub p99_max: Duration,
    /// Length of each step; there are seven: a closed loop and six halvings.
    pub step: Duration,
}

/// A rate that was tried.
#[derive(Clone, Debug)]
pub struct FoundRate {
    /// The highest rate that held, 0 if none did.
    pub per_second: f64,
    /// Measurement at that rate.
    pub measurement: Option<Measurement>,
    /// Every rate that was tried, with its p99 in µs and whether it held.
    pub tried: Vec<(f64, u64, bool)>,
}

/// Halvings of the interval: the answer is within 2% of the throughput without a bound.
const STEPS: u32 = 6;

/// A step's warm-up, as a share of its length.
const WARM_UP_SHARE: f64 = 0.3;

/// Least share of the offered requests that is answered at a rate that was reached.
const SENT_SHARE_MIN: f64 = 0.98;

/// First measures a closed loop, then halves the interval between nothing and that.
pub fn find_max(
    options: &RunOptions,
    wanted: FindMax,
    progress: &mut dyn Progress,
) -> Result<FoundRate, RunError> {
    let workers = options.load.workers();
    let mut step = RunOptions {
        length: Length::Time(wanted.step),
        warm_up: wanted.step.mul_f64(WARM_UP_SHARE),
        load: Load::Closed { workers },
        ..options.clone()
    };
    let closed = run(&step, progress)?;
    step.sets_up = false;
    let (mut low, mut high) = (0.0, closed.totals.ops as f64 / closed.elapsed.as_secs_f64());
    let mut found = FoundRate {
        per_second: 0.0,
        measurement: None,
        tried: Vec::new(),
    };
    for _ in 0..STEPS {
        if progress.is_stopped() {
            break;
        }
        let per_second = f64::midpoint(low, high);
        step.load = Load::Open { per_second, workers };
        let measured = run(&step, progress)?;
        let p99 = measured.totals.latencies().p99;
        let reached = per_second * measured.elapsed.as_secs_f64() * SENT_SHARE_MIN;
        let holds = u128::from(p99) <= wanted.p99_max.as_micros()
            && measured.totals.errors() == 0
            && measured.totals.ops as f64 >= reached;
        found.tried.push((per_second, p99, holds));
        if holds {
            low = per_second;
            found.per_second = per_second;
            found.measurement = Some(measured);
        } else {
            high = per_second;
        }
    }
    Ok(found)
}
