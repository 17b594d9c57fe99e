//! `cargo xtask compare storage steady`: fill, churn, read, both at once, delete, on files, by Helenus and by Cassandra in one run: what a
//! request costs with everything that it causes later, how late it is answered, and what the files take. `strategies` is fill, churn and
//! read by Helenus alone, once with each strategy of compaction.

mod load;
mod observer;
mod report;
pub mod strategies;

use std::time::Duration;

use crate::TaskError;
use crate::compare::programs::{GENERATOR_CORE, SERVER_CORE};
use crate::compare::{files, programs};
use crate::node::{Node, Target};
use load::{Phase, Workload};
use observer::{Observation, Observer};

#[derive(clap::Args)]
pub struct Arguments {
    /// Minutes of churn
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Minutes of each later phase
    #[arg(long, default_value_t = 2.0)]
    later_minutes: f64,
    /// Rows that fill the table, and keys of all later requests
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Requests offered to Helenus a second
    #[arg(long, default_value_t = 40_000)]
    rate: u32,
    /// Requests offered to Cassandra a second: about what it holds
    #[arg(long, default_value_t = 5_000)]
    peer_rate: u32,
    /// Which keys are asked for
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    distribution: Distribution,
    /// Rows expire after so many seconds; 0: never
    #[arg(long, default_value_t = 0)]
    ttl: u32,
    /// Memory of Helenus; Cassandra has a Java heap of its own size and the kernel's cache beside it
    #[arg(long, default_value = "1GiB")]
    memory: String,
    /// periodic, batch or group, on both
    #[arg(long, default_value = "periodic")]
    commitlog_sync: String,
    /// Measure target/release/helenus as it is there
    #[arg(long)]
    as_built: bool,
    /// Leave Cassandra out
    #[arg(long)]
    without_peer: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Distribution {
    Uniform,
    Zipf,
}

const NAME: &str = "steady-state";
const REPORT: &str = "docs/measurements/steady-state.md";
const PICTURE: &str = "docs/measurements/steady-state.svg";

/// Java heap of Cassandra, whatever `--memory` says: a smaller one spends its time collecting garbage.
const PEER_HEAP: &str = "2g";

/// One phase on one server.
struct Measured {
    phase: Phase,
    report: helenus_loadgen::report::Report,
    observations: Vec<Observation>,
}

/// All phases on one server.
struct Run {
    server: &'static str,
    rate: u32,
    phases: Vec<Measured>,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    if !arguments.as_built {
        programs::build()?;
    }
    let options = node_options(&arguments.memory, &arguments.commitlog_sync);
    let mut runs = vec![measure(
        arguments,
        Node::start(&Target::Helenus, NAME, &options)?,
        "Helenus",
        arguments.rate,
    )?];
    if !arguments.without_peer {
        let peer = Node::start_cassandra(PEER_HEAP, &options, &[])?;
        runs.push(measure(arguments, peer, "Cassandra 5.0", arguments.peer_rate)?);
    }
    let text = report::page(arguments, &runs);
    files::write(PICTURE, &report::picture(&runs))?;
    files::publish(REPORT, &text)
}

fn measure(arguments: &Arguments, node: Node, server: &'static str, rate: u32) -> Result<Run, TaskError> {
    node.keep_to_core(SERVER_CORE)?;
    let workload = Workload {
        rows: arguments.rows,
        distribution: arguments.distribution,
        ttl_s: arguments.ttl,
        compaction: None,
    };
    let (churn, later) = (minutes(arguments.minutes), minutes(arguments.later_minutes));
    let mut phases = Vec::new();
    for phase in Phase::ALL {
        let duration = match phase {
            Phase::Fill => workload.fill_duration(rate),
            Phase::Churn => churn,
            Phase::Read | Phase::Mixed | Phase::Delete => later,
        };
        phases.push(measure_phase(&node, server, &workload, phase, rate, duration)?);
    }
    node.check_panics()?;
    node.stop()?;
    Ok(Run { server, rate, phases })
}

fn node_options<'a>(memory: &'a str, commitlog_sync: &'a str) -> [&'a str; 6] {
    [
        "--shards",
        "1",
        "--memory",
        memory,
        "--commitlog-sync",
        commitlog_sync,
    ]
}

fn minutes(minutes: f64) -> Duration {
    Duration::from_secs_f64(60.0 * minutes)
}

fn measure_phase(
    node: &Node,
    server: &str,
    workload: &Workload,
    phase: Phase,
    rate: u32,
    duration: Duration,
) -> Result<Measured, TaskError> {
    eprintln!("{server}: {} for {:.0} s", phase.name(), duration.as_secs_f64());
    // Threads that came since then are not on the core yet.
    node.keep_to_core(SERVER_CORE)?;
    let observer = Observer::start(node);
    let report = load::run(node, workload, phase, rate, duration, GENERATOR_CORE)?;
    Ok(Measured {
        phase,
        report,
        observations: observer.stop()?,
    })
}
