//! `helenus bench goodput`: what a server gets done in time, from a quarter to ten times of what it can do.
//!
//! Goodput is what is answered with a result within the deadline, counted from the moment that the request was to be
//! sent. One thread offers the load and measures; give it a core that the server does not use.

mod cold;
mod curve;
mod disturb;
mod line;
mod load;
mod measure;
mod mixed;
mod picture;
mod recorder;
mod recovery;
mod report;
mod statements;
mod table;
mod wire;
mod workload;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub use picture::{disturbances_to_svg, to_svg};
pub use report::{
    Curve, Disturbance, DisturbanceKind, DisturbedWindow, Figures, GoodputReport, Mix, MixKind, Point,
    Recovery,
};
pub use table::{conditions, to_markdown};
pub use wire::{Login, WireError};
pub use workload::{GoodputWorkload, RequestSize};

use crate::run::process_usage_of;
use load::{Connections, Load, Part};
use wire::WireClient;
use workload::Preparation;

/// Returns the statement that a workload executes, if it is one of [`GoodputWorkload::STATEMENTS`].
pub fn statement(workload: GoodputWorkload) -> Option<String> {
    statements::text(workload, statements::TABLE, statements::PARTITION)
}

/// Requests without an answer on one connection, as many as a connection of protocol version 4 has streams.
pub const STREAMS: usize = line::STREAMS;

/// A hundredth of the usual deadline. Written one by one, requests cost the server a system call each, and half of the capacity kept its
/// core busy; gathered like this, a loop over `epoll` that writes whenever it wakes had the same goodput at the same loads.
pub(crate) const GATHER: Duration = Duration::from_micros(100);

#[derive(Clone, Debug)]
pub struct GoodputOptions {
    pub address: SocketAddr,
    /// The server's process: its processor time and memory are told too. Without it nothing stops the server.
    pub server_pid: Option<u32>,
    pub workloads: Vec<GoodputWorkload>,
    pub size: RequestSize,
    /// Bytes of the table that cold reads go to.
    pub cold_bytes: u64,
    /// Loads, as multiples of the capacity.
    pub multiples: Vec<f64>,
    /// Taken for the capacity; measured if there is none.
    pub capacity_per_s: Option<f64>,
    /// Requests in flight on each connection of the closed loop that tells the capacity.
    pub capacity_in_flight: usize,
    /// How long a load is measured. Time in which the hypervisor took a processor away does not count.
    pub point: Duration,
    /// The loads take turns in so many rounds, each in another order, so that all meet the machine's better and worse
    /// minutes; the median round is a load's goodput.
    pub rounds: u32,
    /// Length of the load that is offered in each round before anything counts.
    pub warm_up: Duration,
    /// How long a load is offered at most, to see `point` of time that counts.
    pub point_max: Duration,
    pub connections: usize,
    /// Requests without an answer on one connection: what is due beyond them is not sent. [`STREAMS`] is no bound but the protocol's.
    pub in_flight_max: usize,
    /// How long due requests are gathered before they are written.
    pub gather: Duration,
    /// True if clients ask to be told of overload by an error, as no driver does by itself.
    pub throws_on_overload: bool,
    /// Where the server asks for it.
    pub login: Option<Login>,
    pub deadline: Duration,
    /// How long ten times the capacity are offered before the recovery is measured; zero for none.
    pub overload: Duration,
    /// Disturbances of the server, instead of curves.
    pub disturbances: Vec<DisturbanceKind>,
    /// How often each of them.
    pub looks: u32,
    /// Length of a load to which nothing happens.
    pub steady: Duration,
    /// Which loads are to share the server, instead of curves.
    pub mixes: Vec<MixKind>,
}

impl Default for GoodputOptions {
    fn default() -> Self {
        GoodputOptions {
            address: SocketAddr::from(([127, 0, 0, 1], 9042)),
            server_pid: None,
            workloads: GoodputWorkload::STATEMENTS.to_vec(),
            size: RequestSize::Heavy,
            cold_bytes: 2_560 << 20,
            multiples: vec![0.5, 0.8, 0.95, 2.0, 5.0, 10.0],
            capacity_per_s: None,
            capacity_in_flight: 16,
            point: Duration::from_secs(4),
            rounds: 4,
            warm_up: Duration::from_secs(1),
            point_max: Duration::from_secs(40),
            connections: 16,
            in_flight_max: STREAMS,
            gather: GATHER,
            throws_on_overload: true,
            login: None,
            deadline: Duration::from_millis(10),
            overload: Duration::ZERO,
            disturbances: Vec::new(),
            looks: 5,
            steady: Duration::from_secs(60),
            mixes: Vec::new(),
        }
    }
}

impl GoodputOptions {
    fn preparation(&self) -> Preparation {
        Preparation {
            size: self.size,
            cold_bytes: self.cold_bytes,
            table: statements::TABLE.to_owned(),
            partitions: vec![statements::PARTITION],
        }
    }

    fn connections_of(&self, logins: Vec<Option<Login>>) -> Connections {
        Connections {
            logins,
            in_flight_max: self.in_flight_max,
            throws_on_overload: self.throws_on_overload,
            gather: self.gather,
        }
    }
}

/// Told what is done now, and how much of all is done (0.0 to 1.0).
pub type Doing<'a> = dyn FnMut(&str, f64) + 'a;

/// The curves of all workloads; or what is to happen to each of them, and all mixes.
pub fn run(options: &GoodputOptions, label: &str, doing: &mut Doing<'_>) -> Result<GoodputReport, WireError> {
    let mut report = GoodputReport {
        label: label.to_owned(),
        deadline_ms: options.deadline.as_secs_f64() * 1e3,
        connections: options.connections,
        in_flight_max: options.in_flight_max.min(STREAMS),
        throws_on_overload: options.throws_on_overload,
        capacity_in_flight: options.capacity_in_flight,
        gather_us: options.gather.as_micros() as u64,
        warm_up_s: options.warm_up.as_secs_f64(),
        rounds: options.rounds.max(1),
        size: options.size,
        curves: Vec::new(),
        disturbances: Vec::new(),
        mixes: Vec::new(),
    };
    let is_curve = options.disturbances.is_empty() && options.mixes.is_empty();
    let count = options.workloads.len() as f64;
    for (index, workload) in options.workloads.iter().enumerate() {
        let mut of_all = |what: &str, share: f64| doing(what, (index as f64 + share) / count);
        if is_curve {
            let mut load = prepared(options, *workload, &mut of_all)?;
            let curve = curve::measure(options, *workload, &mut load, &mut of_all)?;
            report.curves.push(curve);
        }
        if !options.disturbances.is_empty() {
            let mut load = prepared(options, *workload, &mut of_all)?;
            let disturbances = disturb::disturb_all(options, *workload, &mut load, &mut of_all)?;
            report.disturbances.extend(disturbances);
        }
        for kind in &options.mixes {
            // It has workloads of its own.
            if index == 0 || *kind != MixKind::Aggregates {
                report
                    .mixes
                    .push(mixed::mix(options, *kind, *workload, &mut of_all)?);
            }
        }
    }
    Ok(report)
}

/// Tables and rows are there, and connections are open.
fn prepared(
    options: &GoodputOptions,
    workload: GoodputWorkload,
    doing: &mut Doing<'_>,
) -> Result<Load, WireError> {
    doing(&format!("{}: filling", workload.name()), 0.0);
    let mut client = WireClient::connect(options.address, false, options.login.as_ref())?;
    let requests = workload::prepare(&mut client, workload, &options.preparation())?;
    if workload == GoodputWorkload::ColdReads {
        wait_until_idle(options.server_pid);
    }
    let part = Part {
        requests,
        lines: 0..options.connections,
    };
    let connections = options.connections_of(vec![options.login.clone(); options.connections]);
    Load::new(options.address, vec![part], connections, options.deadline)
}

/// Flushes and compactions of what was written are over once the server has done next to nothing for a second.
fn wait_until_idle(server_pid: Option<u32>) {
    const LOOK: Duration = Duration::from_secs(1);
    const BUSY_MAX: Duration = Duration::from_millis(50);
    const WAIT_MAX: Duration = Duration::from_secs(120);
    let cpu = || server_pid.map(|pid| process_usage_of(&pid.to_string()).cpu);
    let began = Instant::now();
    while began.elapsed() < WAIT_MAX {
        let before = cpu();
        std::thread::sleep(LOOK);
        if cpu()
            .zip(before)
            .is_none_or(|(now, before)| now.saturating_sub(before) < BUSY_MAX)
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
