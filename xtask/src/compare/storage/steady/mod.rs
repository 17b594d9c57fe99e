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
    /// Both servers at the same time, each on one core that it shares with its generator
    #[arg(long)]
    side_by_side: bool,
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

/// Where a server and its generator run.
#[derive(Clone, Copy)]
struct Cores {
    server: &'static str,
    generator: &'static str,
}

const CORES: Cores = Cores {
    server: SERVER_CORE,
    generator: GENERATOR_CORE,
};

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
    let ours = |cores| {
        let node = Node::start(&Target::Helenus, NAME, &options)?;
        measure(arguments, node, "Helenus", arguments.rate, cores)
    };
    let peers = |cores| {
        let node = Node::start_cassandra(PEER_HEAP, &options, &[])?;
        measure(arguments, node, "Cassandra 5.0", arguments.peer_rate, cores)
    };
    let runs = match (arguments.without_peer, arguments.side_by_side) {
        (true, _) => vec![ours(CORES)?],
        (false, false) => vec![ours(CORES)?, peers(CORES)?],
        (false, true) => at_once(ours, peers)?,
    };
    let text = report::page(arguments, &runs);
    files::write(PICTURE, &report::picture(&runs))?;
    files::publish(REPORT, &text)
}

/// Each on a core of its own.
fn at_once(
    ours: impl FnOnce(Cores) -> Result<Run, TaskError>,
    peers: impl FnOnce(Cores) -> Result<Run, TaskError> + Send,
) -> Result<Vec<Run>, TaskError> {
    let shared = |core| Cores {
        server: core,
        generator: core,
    };
    let (ours, peers) = std::thread::scope(|scope| {
        let peers = scope.spawn(|| peers(shared(GENERATOR_CORE)));
        let ours = ours(shared(SERVER_CORE));
        let peers = peers.join().unwrap_or_else(|_panic| {
            Err(TaskError::Report {
                text: "whoever measured Cassandra panicked".to_owned(),
            })
        });
        (ours, peers)
    });
    Ok(vec![ours?, peers?])
}

fn measure(
    arguments: &Arguments,
    node: Node,
    server: &'static str,
    rate: u32,
    cores: Cores,
) -> Result<Run, TaskError> {
    node.keep_to_core(cores.server)?;
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
        phases.push(measure_phase(
            &node, server, &workload, phase, rate, duration, cores,
        )?);
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
    cores: Cores,
) -> Result<Measured, TaskError> {
    eprintln!("{server}: {} for {:.0} s", phase.name(), duration.as_secs_f64());
    // Threads that came since then are not on the core yet.
    node.keep_to_core(cores.server)?;
    let observer = Observer::start(node);
    let report = load::run(node, workload, phase, rate, duration, cores.generator)?;
    Ok(Measured {
        phase,
        report,
        observations: observer.stop()?,
    })
}
