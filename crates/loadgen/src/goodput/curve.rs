//! Goodput against what is offered: the loads of one workload, which take turns.

use super::line::Random;
use super::load::Load;
use super::measure::{Measurement, closed, median, offer_round};
use super::recovery::recover;
use super::report::{Curve, Point};
use super::wire::WireError;
use super::workload::GoodputWorkload;
use super::{Doing, GoodputOptions};

/// Seed of the order of the loads in a round: every run has the same.
const ORDER_SEED: u64 = 4;

pub fn measure(
    options: &GoodputOptions,
    workload: GoodputWorkload,
    load: &mut Load,
    doing: &mut Doing<'_>,
) -> Result<Curve, WireError> {
    let name = workload.name();
    doing(&format!("{name}: capacity"), 0.05);
    let capacity_per_s = match options.capacity_per_s {
        Some(per_s) => per_s.max(1.0),
        None => closed(options, load)?,
    };
    let mut curve = Curve {
        workload,
        capacity_per_s,
        points: Vec::new(),
        recoveries: Vec::new(),
        resident: Vec::new(),
    };
    let mut measurements = Vec::new();
    for _ in &options.multiples {
        measurements.push(Measurement::new()?);
    }
    let rounds = options.rounds.max(1);
    let steps = f64::from(rounds) * options.multiples.len() as f64;
    let mut random = Random::new(ORDER_SEED);
    let mut order: Vec<usize> = (0..options.multiples.len()).collect();
    for round in 0..rounds {
        shuffle(&mut order, &mut random);
        for (nth, index) in order.iter().enumerate() {
            let (multiple, measurement) = (options.multiples[*index], &mut measurements[*index]);
            let step = f64::from(round) * options.multiples.len() as f64 + nth as f64;
            doing(
                &format!("{name}: {multiple} x {capacity_per_s:.0}/s, round {}", round + 1),
                0.1 + 0.8 * step / steps,
            );
            let measurement = std::slice::from_mut(measurement);
            offer_round(options, load, &[multiple * capacity_per_s], measurement)?;
        }
    }
    let points = options.multiples.iter().zip(&measurements);
    curve.points = points
        .map(|(multiple, measurement)| measurement.point(*multiple, multiple * capacity_per_s))
        .collect();
    compare_with_best(&mut curve.points);
    if !options.overload.is_zero() {
        recover(options, load, &mut curve, doing)?;
    }
    doing(&format!("{name}: done"), 1.0);
    Ok(curve)
}

/// Fisher and Yates's.
fn shuffle(order: &mut [usize], random: &mut Random) {
    for last in (1..order.len()).rev() {
        // The upper bits: xorshift's lower ones are the weaker.
        let other = ((random.next() >> 32) * (last as u64 + 1)) >> 32;
        order.swap(last, other as usize);
    }
}

/// Compares each load with the best one at or below the capacity, round by round: from one to the next the machine may lose a third of
/// its speed. Where no load is that low, with the best of all.
///
/// Which load is the best is asked of the other rounds: of eight loads that are all the same the one that had the best luck
/// looks better than the rest, and would again be compared with by that luck.
fn compare_with_best(points: &mut [Point]) {
    let rounds = points.iter().map(|point| point.good_rounds_per_s.len()).min();
    let has_low = points.iter().any(|point| point.multiple <= 1.0);
    let bests_per_s: Vec<f64> = (0..rounds.unwrap_or_default())
        .map(|round| {
            let in_others = |point: &Point| {
                let mut others = point.good_rounds_per_s.clone();
                if others.len() > 1 {
                    others.remove(round);
                }
                median(&others)
            };
            let best = points
                .iter()
                .filter(|point| point.multiple <= 1.0 || !has_low)
                .max_by(|left, right| in_others(left).total_cmp(&in_others(right)));
            best.map_or(0.0, |best| best.good_rounds_per_s[round])
        })
        .collect();
    for point in points {
        let rounds = point.good_rounds_per_s.iter().zip(&bests_per_s);
        let shares: Vec<f64> = rounds.map(|(good, best)| good / best.max(1e-3)).collect();
        point.of_best = Some(median(&shares));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads in rising order, each measured beside the same neighbour: a machine that grew slower made twice the load look
    /// worse than once.
    #[test]
    fn each_round_has_every_load_in_an_order_of_its_own() {
        let mut random = Random::new(ORDER_SEED);
        let mut order: Vec<usize> = (0..8).collect();
        let mut firsts = Vec::new();
        for _ in 0..40 {
            shuffle(&mut order, &mut random);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..8).collect::<Vec<_>>());
            firsts.push(order[0]);
        }
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 8);
    }

    fn point(multiple: f64, good_rounds_per_s: &[f64]) -> Point {
        Point {
            multiple,
            good_per_s: median(good_rounds_per_s),
            good_rounds_per_s: good_rounds_per_s.to_vec(),
            ..Point::default()
        }
    }

    /// The machine was half as fast in the second round.
    #[test]
    fn a_load_is_compared_with_the_best_one_of_the_same_round() {
        let mut points = [
            point(1.0, &[97.0, 48.5, 97.0]),
            point(0.95, &[100.0, 50.0, 101.0]),
        ];
        compare_with_best(&mut points);
        let shares = points.map(|point| point.of_best.unwrap());
        assert!((shares[0] - 0.97).abs() < 1e-9 && shares[1] == 1.0, "{shares:?}");
    }

    /// An overloaded server may do more than one that is not, since its requests come in larger pieces: that it could do less under
    /// more load would be seen in no other load.
    #[test]
    fn no_load_is_compared_with_one_above_the_capacity() {
        let mut points = [
            point(0.5, &[50.0]),
            point(0.95, &[95.0]),
            point(2.0, &[190.0]),
            point(10.0, &[95.0]),
        ];
        compare_with_best(&mut points);
        let shares = points.map(|point| point.of_best.unwrap());
        assert_eq!(shares[1..], [1.0, 2.0, 1.0]);
        let mut high = [point(2.0, &[100.0]), point(10.0, &[90.0])];
        compare_with_best(&mut high);
        assert_eq!(high.map(|point| point.of_best.unwrap()), [1.0, 0.9]);
    }

    /// Eight loads that a server handles equally well seemed to have 93 to 96 % of the best of them.
    #[test]
    fn loads_that_are_all_the_same_have_all_of_the_best_in_the_middle() {
        let mut random = Random::new(1);
        let mut shares = Vec::new();
        for _ in 0..300 {
            let mut noise = || 90.0 + 20.0 * ((random.next() >> 40) as f64 / (1 << 24) as f64);
            let mut points: Vec<Point> = (0..8)
                .map(|_| point(1.0, &(0..5).map(|_| noise()).collect::<Vec<_>>()))
                .collect();
            compare_with_best(&mut points);
            shares.extend(points.iter().filter_map(|point| point.of_best));
        }
        let middle = median(&shares);
        assert!((0.99..1.01).contains(&middle), "{middle}");
    }
}
