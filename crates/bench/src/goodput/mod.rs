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
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use picture::to_svg;
pub use table::to_markdown;
pub use wire::WireError;
pub use workload::{GoodputWorkload, RequestSize};

use crate::run::process_usage_of;
use load::{Load, Phase};
use recorder::{Recorder, recovery_ms};
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
    /// How long a load is measured, after a quarter of it to warm up.
    pub point: Duration,
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
    pub good_per_s: f64,
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
}

/// How long after an overload requests were refused, late or not sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recovery {
    pub multiple: f64,
    pub overload_s: f64,
    /// `None` if it did not recover within the second that was looked at.
    pub recovery_ms: Option<u32>,
}

/// What is offered before and after an overload whose recovery is measured, of the capacity.
const CALM: f64 = 0.5;

/// Requests in flight on each connection of the closed loops that find the capacity.
const CLOSED_IN_FLIGHT: [usize; 4] = [1, 4, 16, 64];

const CLOSED: Duration = Duration::from_millis(900);

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
    let mut capacity_per_s: f64 = 0.0;
    for in_flight in CLOSED_IN_FLIGHT {
        let recorder = load.closed(in_flight, CLOSED)?;
        let counted_s = CLOSED.as_secs_f64() * 2.0 / 3.0;
        capacity_per_s = capacity_per_s.max(recorder.sums.good as f64 / counted_s);
    }
    let mut curve = Curve {
        workload,
        capacity_per_s: capacity_per_s.max(1.0),
        points: Vec::new(),
        recoveries: Vec::new(),
        resident: Vec::new(),
    };
    let steps = options.multiples.len() as f64 + 2.0;
    for (step, multiple) in options.multiples.iter().enumerate() {
        doing(
            &format!("{name}: {multiple} x {capacity_per_s:.0}/s"),
            0.1 + 0.9 * step as f64 / steps,
        );
        curve.points.push(measure_point(
            options,
            &mut load,
            *multiple,
            curve.capacity_per_s,
        )?);
    }
    if !options.overload.is_zero() {
        for (multiple, length) in [(1.4, Duration::from_secs(1)), (10.0, options.overload)] {
            doing(&format!("{name}: recovery from {multiple} x"), 0.95);
            recover(options, &mut load, &mut curve, multiple, length)?;
        }
    }
    doing(&format!("{name}: done"), 1.0);
    Ok(curve)
}

fn measure_point(
    options: &GoodputOptions,
    load: &mut Load,
    multiple: f64,
    capacity_per_s: f64,
) -> Result<Point, WireError> {
    let per_s = multiple * capacity_per_s;
    let warm_up = options.point / 4;
    let from_us = load.now_us();
    let counted_from_us = from_us + warm_up.as_micros() as u32;
    let until_us = counted_from_us + options.point.as_micros() as u32;
    let mut recorder = Recorder::new(
        from_us,
        counted_from_us..until_us,
        options.deadline.as_micros() as u32,
    )?;
    let phase = Phase {
        per_s,
        length: warm_up + options.point,
    };
    let usage = || options.server_pid.map(|pid| process_usage_of(&pid.to_string()));
    let mut before = None;
    let mut after = None;
    load.open(&[phase], &mut recorder, |now_us| {
        if before.is_none() && now_us >= counted_from_us {
            before = usage();
        }
        if after.is_none() && now_us + 1_000 >= until_us {
            after = usage();
        }
    })?;
    let counted_s = options.point.as_secs_f64();
    let rate = |count: u64| count as f64 / counted_s;
    let sums = recorder.sums;
    Ok(Point {
        multiple,
        intended_per_s: per_s,
        sent_per_s: rate(sums.sent),
        good_per_s: rate(sums.good),
        late_per_s: rate(sums.late),
        refused_per_s: rate(sums.refused),
        failed_per_s: rate(sums.failed),
        held_back_per_s: rate(sums.held_back),
        not_generated_per_s: rate(sums.not_generated),
        p50_us: recorder.served_us.value_at_quantile(0.5),
        p99_us: recorder.served_us.value_at_quantile(0.99),
        max_us: recorder.served_us.max(),
        control_p99_us: recorder.control_us.value_at_quantile(0.99),
        server_cpu: before
            .zip(after)
            .map(|(before, after)| (after.cpu.saturating_sub(before.cpu)).as_secs_f64() / counted_s),
        resident_bytes: after.map(|usage| usage.resident_bytes),
    })
}

fn recover(
    options: &GoodputOptions,
    load: &mut Load,
    curve: &mut Curve,
    multiple: f64,
    length: Duration,
) -> Result<(), WireError> {
    let calm = Phase {
        per_s: CALM * curve.capacity_per_s,
        length: Duration::from_secs(1),
    };
    let overload = Phase {
        per_s: multiple * curve.capacity_per_s,
        length,
    };
    let from_us = load.now_us();
    let all_us = (calm.length * 2 + length).as_micros() as u32;
    let mut recorder = Recorder::new(
        from_us,
        from_us..from_us + all_us,
        options.deadline.as_micros() as u32,
    )?;
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
    })?;
    let end = (calm.length + length).as_micros() as u32 / recorder::WINDOW_US;
    curve.recoveries.push(Recovery {
        multiple,
        overload_s: length.as_secs_f64(),
        recovery_ms: recovery_ms(&recorder.windows, end as usize),
    });
    curve.resident = resident;
    Ok(())
}

impl Curve {
    /// The most that was answered in time under any load, a second.
    pub fn peak_per_s(&self) -> f64 {
        self.points
            .iter()
            .map(|point| point.good_per_s)
            .fold(0.0, f64::max)
    }
}
