//! `helenus bench goodput`: what a server gets done in time, from a quarter to ten times of what it can do.
//!
//! Goodput is what is answered with a result within the deadline, counted from the moment that the request was to be
//! sent. One thread offers the load and measures; give it a core that the server does not use.

mod line;
mod load;
mod picture;
mod recorder;
mod table;
mod wire;
mod workload;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use picture::to_svg;
pub use table::to_markdown;
pub use wire::WireError;
pub use workload::{GoodputWorkload, RequestSize};

use crate::quiet::{Counted, SLICE_US, Watch};
use crate::run::process_usage_of;
use load::{Load, Phase};
use recorder::{Recorder, Tally, WINDOW_US, recovery_ms};
use wire::WireClient;

#[derive(Clone, Debug)]
pub struct GoodputOptions {
    pub address: SocketAddr,
    /// The server's process: its processor time and memory are told too.
    pub server_pid: Option<u32>,
    pub workloads: Vec<GoodputWorkload>,
    pub size: RequestSize,
    /// Loads, as multiples of the capacity.
    pub multiples: Vec<f64>,
    /// Taken for the capacity; measured if there is none.
    pub capacity_per_s: Option<f64>,
    /// How long a load is measured. Time in which the hypervisor took a processor away does not count.
    pub point: Duration,
    /// The loads take turns in so many rounds, each in another order, so that all meet the machine's better and worse
    /// minutes; the median round is a load's goodput.
    pub rounds: u32,
    /// What a load is offered in each round before anything counts.
    pub warm_up: Duration,
    /// How long a load is offered at most, to see `point` of time that counts.
    pub point_max: Duration,
    pub connections: usize,
    /// Requests without an answer on one connection: what waits beyond them waits in the client.
    pub in_flight_max: usize,
    pub deadline: Duration,
    /// How long ten times the capacity are offered before the recovery is measured; zero for none.
    pub overload: Duration,
}

/// The curves of one server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GoodputReport {
    pub label: String,
    pub deadline_ms: f64,
    pub connections: usize,
    #[serde(default)]
    pub in_flight_max: usize,
    pub size: RequestSize,
    pub curves: Vec<Curve>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    pub workload: GoodputWorkload,
    /// Answered in time in a closed loop, a second.
    pub capacity_per_s: f64,
    pub points: Vec<Point>,
    pub recoveries: Vec<Recovery>,
    /// The server's memory while ten times the capacity were offered: seconds and resident bytes.
    pub resident: Vec<(f64, u64)>,
}

/// One load. Rates are of requests by when they were to be sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    pub multiple: f64,
    pub intended_per_s: f64,
    /// Given to a socket.
    pub sent_per_s: f64,
    /// The median of the rounds; everything else is of all rounds together.
    pub good_per_s: f64,
    /// Of each round.
    #[serde(default)]
    pub good_rounds_per_s: Vec<f64>,
    /// Goodput as a share of the best load's in the same round, from 0 to 1 and a little above; the median of the rounds.
    #[serde(default)]
    pub of_best: Option<f64>,
    pub late_per_s: f64,
    pub refused_per_s: f64,
    pub failed_per_s: f64,
    /// Not sent within the deadline because the server did not read, or had too many requests of the connection to answer.
    pub held_back_per_s: f64,
    /// Not sent within the deadline because the generator was too slow.
    pub not_generated_per_s: f64,
    /// Of served requests.
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    pub control_p99_us: u64,
    /// Of one core.
    pub server_cpu: Option<f64>,
    pub resident_bytes: Option<u64>,
    /// Seconds of which this tells.
    #[serde(default)]
    pub counted_s: f64,
    /// The share of one processor's time that the hypervisor gave to others meanwhile: above zero if there was not enough
    /// quiet time.
    #[serde(default)]
    pub stolen: f64,
}

/// How long after an overload requests were refused, late or not sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recovery {
    pub multiple: f64,
    pub overload_s: f64,
    /// The median. `None` if it did not recover within the second that was looked at.
    pub recovery_ms: Option<u32>,
    /// Of each time it was looked at, the shortest first.
    #[serde(default)]
    pub all_ms: Vec<Option<u32>>,
    /// Of the windows of 10 ms before the overload, at the same load: so many were not normal either.
    #[serde(default)]
    pub abnormal_before: f64,
    /// The hypervisor took a processor away meanwhile, however often it was tried.
    #[serde(default)]
    pub is_disturbed: bool,
}

/// What is offered before and after an overload whose recovery is measured, of the capacity.
const CALM: f64 = 0.5;

/// Requests in flight on each connection of the closed loops that find the capacity.
const CLOSED_IN_FLIGHT: [usize; 4] = [1, 4, 16, 64];

const CLOSED: Duration = Duration::from_millis(600);

/// Slices at the beginning of a closed loop that do not count.
const CLOSED_WARM_UP: usize = 3;

/// Of the order of the loads in a round: every run has the same.
const ORDER_SEED: u64 = 4;

/// Of the calm second before an overload, in windows.
const CALM_WINDOWS: std::ops::Range<usize> = 20..100;

/// How often a recovery is looked at without anything that disturbs it ...
const RECOVERIES: usize = 7;

/// ... and how often at most.
const RECOVERY_TRIES: usize = 21;

/// An overload before a recovery, but for the first.
const OVERLOAD_MAX: Duration = Duration::from_secs(2);

/// Between two looks at the server's memory, in microseconds.
const RESIDENT_US: u32 = 250_000;

/// Told what is done now, and how much of all is done (0.0 to 1.0).
pub type Doing<'a> = dyn FnMut(&str, f64) + 'a;

pub fn run(options: &GoodputOptions, label: &str, doing: &mut Doing<'_>) -> Result<GoodputReport, WireError> {
    let mut curves = Vec::new();
    for (index, workload) in options.workloads.iter().enumerate() {
        let count = options.workloads.len() as f64;
        let mut of_all = |what: &str, share: f64| doing(what, (index as f64 + share) / count);
        curves.push(measure(options, *workload, &mut of_all)?);
    }
    Ok(GoodputReport {
        label: label.to_owned(),
        deadline_ms: options.deadline.as_secs_f64() * 1e3,
        connections: options.connections,
        in_flight_max: options.in_flight_max,
        size: options.size,
        curves,
    })
}

fn measure(
    options: &GoodputOptions,
    workload: GoodputWorkload,
    doing: &mut Doing<'_>,
) -> Result<Curve, WireError> {
    let name = workload.name();
    doing(&format!("{name}: filling"), 0.0);
    let mut client = WireClient::connect(options.address, false)?;
    let requests = workload::prepare(&mut client, workload, options.size)?;
    let mut load = Load::new(
        options.address,
        requests,
        options.connections,
        options.in_flight_max,
        options.deadline,
    )?;
    doing(&format!("{name}: capacity"), 0.05);
    let mut capacity_per_s: f64 = options.capacity_per_s.unwrap_or_default();
    if options.capacity_per_s.is_none() {
        for in_flight in CLOSED_IN_FLIGHT {
            capacity_per_s = capacity_per_s.max(closed(options, &mut load, in_flight)?);
        }
    }
    let mut curve = Curve {
        workload,
        capacity_per_s: capacity_per_s.max(1.0),
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
    let mut random = line::Random::new(ORDER_SEED);
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
            measure_point(options, &mut load, multiple * curve.capacity_per_s, measurement)?;
        }
    }
    let points = options.multiples.iter().zip(&measurements);
    curve.points = points
        .map(|(multiple, measurement)| measurement.point(*multiple, multiple * curve.capacity_per_s))
        .collect();
    compare_with_best(&mut curve.points);
    if !options.overload.is_zero() {
        for (multiple, length) in [(1.4, Duration::from_secs(1)), (10.0, options.overload)] {
            doing(&format!("{name}: recovery from {multiple} x"), 0.95);
            recover(options, &mut load, &mut curve, multiple, length)?;
        }
    }
    doing(&format!("{name}: done"), 1.0);
    Ok(curve)
}

/// Fisher and Yates's.
fn shuffle(order: &mut [usize], random: &mut line::Random) {
    for last in (1..order.len()).rev() {
        // The upper bits: xorshift's lower ones are the weaker.
        let other = ((random.next() >> 32) * (last as u64 + 1)) >> 32;
        order.swap(last, other as usize);
    }
}

/// The middle one; of an even number the mean of the middle two. 0 of none.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle.wrapping_sub(1)), sorted.get(middle)) {
        (Some(before), Some(after)) if sorted.len().is_multiple_of(2) => (before + after) / 2.0,
        (_, Some(middle)) => *middle,
        _ => 0.0,
    }
}

/// Compares each load with the best one round by round: from one to the next the machine may lose a third of its speed.
///
/// Which load is the best is asked of the other rounds: of eight loads that are all the same the one that had the best luck
/// looks better than the rest, and would again be compared with by that luck.
fn compare_with_best(points: &mut [Point]) {
    let rounds = points.iter().map(|point| point.good_rounds_per_s.len()).min();
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

/// Answered in time in a closed loop, a second.
fn closed(options: &GoodputOptions, load: &mut Load, in_flight: usize) -> Result<f64, WireError> {
    let length = CLOSED * 10;
    let from_us = load.now_us();
    let until_us = from_us + length.as_micros() as u32;
    let mut recorder = Recorder::in_slices(from_us, until_us, options.deadline.as_micros() as u32)?;
    let mut watch = Watch::new(None, from_us, CLOSED_WARM_UP, slices(CLOSED));
    load.closed(in_flight, length, &mut recorder, |now_us| watch.look(now_us))?;
    let counted = watch.counted();
    let total = recorder.total(&counted.slices)?;
    Ok(total.sums.good as f64 / counted_s(&counted).max(1e-3))
}

/// How many slices a time has; at least one.
fn slices(length: Duration) -> usize {
    ((length.as_micros() as u32 / SLICE_US) as usize).max(1)
}

fn counted_s(counted: &Counted) -> f64 {
    counted.slices.len() as f64 * f64::from(SLICE_US) / 1e6
}

/// What was seen of one load in all rounds.
struct Measurement {
    total: Tally,
    good_rounds_per_s: Vec<f64>,
    counted_s: f64,
    stolen_s: f64,
    server_cpu_s: Option<f64>,
    resident_bytes: Option<u64>,
}

/// Offers a load for one round.
fn measure_point(
    options: &GoodputOptions,
    load: &mut Load,
    per_s: f64,
    measurement: &mut Measurement,
) -> Result<(), WireError> {
    let rounds = options.rounds.max(1);
    let length = options.warm_up + options.point_max / rounds;
    let from_us = load.now_us();
    let until_us = from_us + length.as_micros() as u32;
    let mut recorder = Recorder::in_slices(from_us, until_us, options.deadline.as_micros() as u32)?;
    let wanted = slices(options.point / rounds);
    let mut watch = Watch::new(options.server_pid, from_us, slices(options.warm_up), wanted);
    load.open(&[Phase { per_s, length }], &mut recorder, |now_us| {
        watch.look(now_us)
    })?;
    let counted = watch.counted();
    measurement.add(&counted, &recorder.total(&counted.slices)?)
}

impl Measurement {
    fn new() -> Result<Self, WireError> {
        Ok(Measurement {
            total: Tally::new()?,
            good_rounds_per_s: Vec::new(),
            counted_s: 0.0,
            stolen_s: 0.0,
            server_cpu_s: None,
            resident_bytes: None,
        })
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

    fn point(&self, multiple: f64, intended_per_s: f64) -> Point {
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
        }
    }
}

/// Measures a recovery some times; what the hypervisor disturbed does not count, unless everything was.
fn recover(
    options: &GoodputOptions,
    load: &mut Load,
    curve: &mut Curve,
    multiple: f64,
    length: Duration,
) -> Result<(), WireError> {
    let mut looks: Vec<Recovery> = Vec::new();
    let is_quiet = |look: &Recovery| !look.is_disturbed;
    for number in 0..RECOVERY_TRIES {
        let overload = if number == 0 {
            length
        } else {
            length.min(OVERLOAD_MAX)
        };
        let (look, resident) = recover_once(options, load, curve.capacity_per_s, multiple, overload)?;
        looks.push(look);
        if number == 0 {
            curve.resident = resident;
        }
        if looks.iter().filter(|look| is_quiet(look)).count() >= RECOVERIES {
            break;
        }
    }
    if looks.iter().any(is_quiet) {
        looks.retain(is_quiet);
    }
    curve.recoveries.push(Recovery {
        overload_s: length.as_secs_f64(),
        ..Recovery::of_all(&looks)
    });
    Ok(())
}

fn recover_once(
    options: &GoodputOptions,
    load: &mut Load,
    capacity_per_s: f64,
    multiple: f64,
    length: Duration,
) -> Result<(Recovery, Vec<(f64, u64)>), WireError> {
    let calm = Phase {
        per_s: CALM * capacity_per_s,
        length: Duration::from_secs(1),
    };
    let overload = Phase {
        per_s: multiple * capacity_per_s,
        length,
    };
    let from_us = load.now_us();
    let until_us = from_us + (calm.length * 2 + length).as_micros() as u32;
    let mut recorder = Recorder::in_windows(from_us, until_us, options.deadline.as_micros() as u32);
    let mut watch = Watch::new(None, from_us, 0, usize::MAX);
    let mut resident = Vec::new();
    let mut look_at_us = from_us;
    load.open(&[calm, overload, calm], &mut recorder, |now_us| {
        if let Some(pid) = options.server_pid
            && now_us >= look_at_us
        {
            look_at_us = now_us + RESIDENT_US;
            let at_s = f64::from(now_us - from_us) / 1e6;
            resident.push((at_s, process_usage_of(&pid.to_string()).resident_bytes));
        }
        let _never_enough: ControlFlow<()> = watch.look(now_us);
        ControlFlow::Continue(())
    })?;
    let end_us = (calm.length + length).as_micros() as u32;
    // It begins as an idle server does.
    let before = recorder.windows.get(CALM_WINDOWS).unwrap_or_default();
    let abnormal = before.iter().filter(|window| window.bad > 0).count();
    let recovery_ms = recovery_ms(&recorder.windows, (end_us / WINDOW_US) as usize);
    let normal_us = end_us + recovery_ms.map_or(800_000, |ms| ms * 1_000);
    let recovery = Recovery {
        multiple,
        overload_s: length.as_secs_f64(),
        recovery_ms,
        all_ms: vec![recovery_ms],
        abnormal_before: abnormal as f64 / before.len().max(1) as f64,
        is_disturbed: (end_us / SLICE_US..=normal_us / SLICE_US).any(|slice| !watch.is_quiet(slice as usize)),
    };
    Ok((recovery, resident))
}

impl Recovery {
    /// The median of some looks at the same overload; one that never recovered is longer than any.
    fn of_all(looks: &[Recovery]) -> Recovery {
        let mut all_ms: Vec<Option<u32>> = looks.iter().map(|look| look.recovery_ms).collect();
        all_ms.sort_by_key(|ms| ms.unwrap_or(u32::MAX));
        let abnormal: f64 = looks.iter().map(|look| look.abnormal_before).sum();
        Recovery {
            multiple: looks.first().map_or(0.0, |look| look.multiple),
            overload_s: looks.first().map_or(0.0, |look| look.overload_s),
            recovery_ms: all_ms.get(all_ms.len() / 2).copied().flatten(),
            abnormal_before: abnormal / looks.len().max(1) as f64,
            is_disturbed: looks.iter().any(|look| look.is_disturbed),
            all_ms,
        }
    }

    /// The longest of all looks; `None` if one never ended.
    pub fn worst_ms(&self) -> Option<u32> {
        self.all_ms.last().copied().unwrap_or(self.recovery_ms)
    }
}

impl Curve {
    /// The most that was answered in time under any load in its median round, a second.
    pub fn peak_per_s(&self) -> f64 {
        self.points
            .iter()
            .map(|point| point.good_per_s)
            .fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads in rising order, each measured beside the same neighbour: a machine that grew slower made twice the load look
    /// worse than once.
    #[test]
    fn each_round_has_every_load_in_an_order_of_its_own() {
        let mut random = line::Random::new(ORDER_SEED);
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

    #[test]
    fn a_round_that_was_disturbed_does_not_move_the_median() {
        assert_eq!(median(&[1.0, 97.0, 98.0, 99.0, 100.0]), 98.0);
        assert_eq!(median(&[97.0, 99.0]), 98.0);
        assert_eq!(median(&[97.0]), 97.0);
        assert_eq!(median(&[]), 0.0);
    }

    /// The machine was half as fast in the second round.
    #[test]
    fn a_load_is_compared_with_the_best_one_of_the_same_round() {
        let point = |good_rounds_per_s: [f64; 3]| Point {
            good_per_s: median(&good_rounds_per_s),
            good_rounds_per_s: good_rounds_per_s.to_vec(),
            ..Point::default()
        };
        let mut points = [point([97.0, 48.5, 97.0]), point([100.0, 50.0, 101.0])];
        compare_with_best(&mut points);
        let shares = points.map(|point| point.of_best.unwrap());
        assert!((shares[0] - 0.97).abs() < 1e-9 && shares[1] == 1.0, "{shares:?}");
    }

    /// Eight loads that a server handles equally well seemed to have 93 to 96 % of the best of them.
    #[test]
    fn loads_that_are_all_the_same_have_all_of_the_best_in_the_middle() {
        let mut random = line::Random::new(1);
        let mut shares = Vec::new();
        for _ in 0..300 {
            let mut noise = || 90.0 + 20.0 * ((random.next() >> 40) as f64 / (1 << 24) as f64);
            let mut points: Vec<Point> = (0..8)
                .map(|_| {
                    let good_rounds_per_s: Vec<f64> = (0..5).map(|_| noise()).collect();
                    Point {
                        good_per_s: median(&good_rounds_per_s),
                        good_rounds_per_s,
                        ..Point::default()
                    }
                })
                .collect();
            compare_with_best(&mut points);
            shares.extend(points.iter().filter_map(|point| point.of_best));
        }
        let middle = median(&shares);
        assert!((0.99..1.01).contains(&middle), "{middle}");
    }

    #[test]
    fn a_recovery_is_told_by_its_median_and_its_worst() {
        let look = |recovery_ms| Recovery {
            multiple: 1.4,
            overload_s: 1.0,
            recovery_ms,
            all_ms: vec![recovery_ms],
            abnormal_before: 0.25,
            is_disturbed: false,
        };
        let of =
            |looks: &[Option<u32>]| Recovery::of_all(&looks.iter().map(|ms| look(*ms)).collect::<Vec<_>>());
        let three = of(&[Some(60), Some(0), Some(10)]);
        assert_eq!((three.recovery_ms, three.worst_ms()), (Some(10), Some(60)));
        assert_eq!(three.abnormal_before, 0.25);
        let never = of(&[None, Some(0), Some(10)]);
        assert_eq!((never.recovery_ms, never.worst_ms()), (Some(10), None));
    }
}
