//! A load offered for one round, and what is counted of it.

use std::time::Duration;

use super::GoodputOptions;
use super::load::{Load, Phase};
use super::recorder::{Recorder, Tally};
use super::report::{Figures, Point};
use super::wire::WireError;
use crate::quiet::{Counted, SLICE_US, Watch};

/// How long a closed loop is measured at most, and what of its beginning does not count.
const CLOSED_MAX: Duration = Duration::from_secs(3);
const CLOSED_WARM_UP_MAX: Duration = Duration::from_secs(1);

/// Answered in a closed loop, a second.
pub fn closed(options: &GoodputOptions, load: &mut Load) -> Result<f64, WireError> {
    let length = CLOSED_MAX * 5;
    let from_us = load.now_us();
    let until_us = from_us + length.as_micros() as u32;
    let mut recorder = Recorder::in_slices(from_us, until_us, options.deadline.as_micros() as u32)?;
    let warm_up = slices(options.warm_up.min(CLOSED_WARM_UP_MAX));
    let mut watch = Watch::new(None, from_us, warm_up, slices(options.point.min(CLOSED_MAX)));
    load.closed(options.capacity_in_flight, length, &mut recorder, |now_us| {
        watch.look(now_us)
    })?;
    let counted = watch.counted();
    let total = recorder.total(&counted.slices)?;
    // A request may be slower than the deadline even where nothing waits.
    let served = total.sums.good + total.sums.late - total.sums.unanswered;
    Ok((served as f64 / counted_s(&counted).max(1e-3)).max(1.0))
}

/// How many slices a time has; at least one.
pub fn slices(length: Duration) -> usize {
    ((length.as_micros() as u32 / SLICE_US) as usize).max(1)
}

pub fn counted_s(counted: &Counted) -> f64 {
    counted.slices.len() as f64 * f64::from(SLICE_US) / 1e6
}

/// The middle one; of an even number the mean of the middle two. 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle.wrapping_sub(1)), sorted.get(middle)) {
        (Some(before), Some(after)) if sorted.len().is_multiple_of(2) => f64::midpoint(*before, *after),
        (_, Some(middle)) => *middle,
        _ => 0.0,
    }
}

/// Results of one part of a load in all rounds.
pub struct Measurement {
    total: Tally,
    good_rounds_per_s: Vec<f64>,
    counted_s: f64,
    stolen_s: f64,
    server_cpu_s: Option<f64>,
    resident_bytes: Option<u64>,
    pause_us_max: u32,
}

/// Offers a load for one round: so many requests of each part a second, to each its measurement.
pub fn offer_round(
    options: &GoodputOptions,
    load: &mut Load,
    per_s: &[f64],
    measurements: &mut [Measurement],
) -> Result<(), WireError> {
    let rounds = options.rounds.max(1);
    let length = options.warm_up + options.point_max / rounds;
    let from_us = load.now_us();
    let until_us = from_us + length.as_micros() as u32;
    let deadline_us = options.deadline.as_micros() as u32;
    let mut recorders = Vec::new();
    for _ in 0..load.part_count() {
        recorders.push(Recorder::in_slices(from_us, until_us, deadline_us)?);
    }
    let wanted = slices(options.point / rounds);
    let mut watch = Watch::new(options.server_pid, from_us, slices(options.warm_up), wanted);
    let phase = Phase {
        per_s: per_s.to_vec(),
        length,
    };
    load.open(&[phase], &mut recorders, |now_us| watch.look(now_us))?;
    let counted = watch.counted();
    let pause_us_max = load.take_pause_us_max();
    for (measurement, recorder) in measurements.iter_mut().zip(&recorders) {
        measurement.pause_us_max = measurement.pause_us_max.max(pause_us_max);
        measurement.add(&counted, &recorder.total(&counted.slices)?)?;
    }
    Ok(())
}

impl Measurement {
    pub fn new() -> Result<Self, WireError> {
        Ok(Measurement {
            total: Tally::new()?,
            good_rounds_per_s: Vec::new(),
            counted_s: 0.0,
            stolen_s: 0.0,
            server_cpu_s: None,
            resident_bytes: None,
            pause_us_max: 0,
        })
    }

    pub(crate) fn good_rounds_per_s(&self) -> &[f64] {
        &self.good_rounds_per_s
    }

    fn add(&mut self, counted: &Counted, total: &Tally) -> Result<(), WireError> {
        let length_s = counted_s(counted);
        self.counted_s += length_s;
        self.good_rounds_per_s
            .push(total.sums.good as f64 / length_s.max(1e-3));
        self.stolen_s += counted.stolen * length_s;
        if let Some(server_cpu) = counted.server_cpu {
            *self.server_cpu_s.get_or_insert(0.0) += server_cpu * length_s;
        }
        self.resident_bytes = counted.resident_bytes.max(self.resident_bytes);
        self.total.add(total)
    }

    pub fn point(&self, multiple: f64, intended_per_s: f64) -> Point {
        let counted_s = self.counted_s.max(1e-3);
        let rate = |count: u64| count as f64 / counted_s;
        let Tally {
            sums,
            served_us,
            control_us,
        } = &self.total;
        Point {
            multiple,
            intended_per_s,
            sent_per_s: rate(sums.sent),
            good_per_s: median(&self.good_rounds_per_s),
            good_rounds_per_s: self.good_rounds_per_s.clone(),
            of_best: None,
            late_per_s: rate(sums.late),
            unanswered_per_s: rate(sums.unanswered),
            refused_per_s: rate(sums.refused),
            failed_per_s: rate(sums.failed),
            held_back_per_s: rate(sums.held_back),
            not_generated_per_s: rate(sums.not_generated),
            p50_us: served_us.value_at_quantile(0.5),
            p99_us: served_us.value_at_quantile(0.99),
            max_us: served_us.max(),
            control_p99_us: control_us.value_at_quantile(0.99),
            server_cpu: self.server_cpu_s.map(|cpu_s| cpu_s / counted_s),
            resident_bytes: self.resident_bytes,
            counted_s: self.counted_s,
            stolen: self.stolen_s / counted_s,
            pause_us_max: self.pause_us_max,
        }
    }

    pub fn figures(&self, intended_per_s: f64) -> Figures {
        let point = self.point(0.0, intended_per_s);
        Figures {
            intended_per_s,
            good_per_s: point.good_per_s,
            late_per_s: point.late_per_s,
            refused_per_s: point.refused_per_s,
            failed_per_s: point.failed_per_s,
            unsent_per_s: point.held_back_per_s + point.not_generated_per_s,
            p50_us: point.p50_us,
            p99_us: point.p99_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_was_disturbed_does_not_move_the_median() {
        assert_eq!(median(&[1.0, 97.0, 98.0, 99.0, 100.0]), 98.0);
        assert_eq!(median(&[97.0, 99.0]), 98.0);
        assert_eq!(median(&[97.0]), 97.0);
        assert_eq!(median(&[]), 0.0);
    }
}
