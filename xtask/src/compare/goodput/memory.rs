//! `cargo xtask compare goodput memory`: a node's memory while ten times what it can do is offered.

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::server;
use crate::TaskError;
use crate::compare::figures::value_of;
use crate::compare::programs::{GENERATOR_CORE, SERVER_CORE};
use crate::compare::{files, programs};
use crate::node::{Node, Target, resident_bytes};
use crate::process::Process;

#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds of ten times the load
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// As of `helenus bench goodput`
    #[arg(long, default_value = "hot-partition")]
    workload: String,
}

const REPORT: &str = "docs/measurements/goodput/memory.md";

const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Does not count: the node fills its caches, and the generator measures the capacity. Of a short run a quarter.
const SETTLING_S_MAX: u32 = 60;

const MIB: f64 = 1_048_576.0;

struct Look {
    at_s: u64,
    resident: f64,
    /// Charged for requests and answers on their way.
    requests: f64,
    memtables: f64,
}

impl Look {
    fn mib(&self) -> [f64; 3] {
        [self.resident, self.requests, self.memtables].map(|bytes| bytes / MIB)
    }
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let options = ["--shards", "1", "--in-memory", "--memory", "4GiB"];
    let node = Node::start(&Target::Helenus, "bench-goodput-memory", &options)?;
    node.keep_to_core(SERVER_CORE)?;
    let length = format!("{}s", arguments.seconds);
    let mut command = server::generator(GENERATOR_CORE, &node);
    command
        .args(["--workload", &arguments.workload, "--multiples", "10"])
        .args(["--rounds", "1", "--overload", "0s"])
        .args(["--duration", &length, "--duration-max", &length])
        .stdout(Stdio::null());
    let mut load = Process::start(&mut command)?;
    let began = Instant::now();
    let mut looks = Vec::new();
    while load.wait_until(Instant::now() + LOOK_INTERVAL)?.is_none() {
        looks.push(look(&node, began.elapsed().as_secs())?);
    }
    node.check_panics()?;
    node.stop()?;
    files::write_page(REPORT, &page(arguments, &looks))
}

fn look(node: &Node, at_s: u64) -> Result<Look, TaskError> {
    let metrics = node.metrics()?;
    Ok(Look {
        at_s,
        resident: resident_bytes(node) as f64,
        requests: value_of(&metrics, "helenus_request_bytes"),
        memtables: value_of(&metrics, "helenus_memtable_bytes"),
    })
}

fn page(arguments: &Arguments, looks: &[Look]) -> String {
    let Arguments { seconds, workload } = arguments;
    let settling_s = SETTLING_S_MAX.min(seconds / 4);
    let counted: Vec<&Look> = looks
        .iter()
        .filter(|look| look.at_s > u64::from(settling_s))
        .collect();
    let mut page = format!(
        "# Memory while ten times what can be done is offered\n\n\
         `cargo xtask compare goodput memory --seconds {seconds} --workload {workload}`: one shard, in memory, on one core, the\n\
         generator on another, 16 connections. A look every 5 s, in MiB; the first {settling_s} s do not count. Charged is what\n\
         admission has charged for requests and answers on their way, which comes and goes with the requests.\n\n\
         | | least | most | from the middle |\n|---|---|---|---|\n"
    );
    for (index, name) in ["resident", "charged", "memtables"].into_iter().enumerate() {
        let values = counted.iter().map(|look| look.mib()[index]);
        let (least, most) = (
            values.clone().fold(f64::INFINITY, f64::min),
            values.fold(0.0, f64::max),
        );
        let middle = (least + most) / 2.0;
        let from_middle = 100.0 * (most - middle) / middle.max(f64::MIN_POSITIVE);
        let _infallible = writeln!(page, "| {name} | {least:.2} | {most:.2} | +-{from_middle:.2} % |");
    }
    page.push_str("\n| s | resident | charged | memtables |\n|---|---|---|---|\n");
    for look in looks {
        let [resident, requests, memtables] = look.mib();
        let _infallible = writeln!(
            page,
            "| {} | {resident:.1} | {requests:.2} | {memtables:.1} |",
            look.at_s
        );
    }
    page
}
