//! `cargo xtask compare goodput-memory`: a node's memory while ten times what it can do is offered.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::goodput::{GENERATOR_CORE, SERVER_CORE};
use super::process_figures::value_of;
use crate::node::{Node, Target};
use crate::process::Process;
use crate::{TaskError, workspace};

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
    super::build_helenus()?;
    let options = ["--shards", "1", "--in-memory", "--memory", "4GiB"];
    let node = Node::start(&Target::Helenus, "bench-goodput-memory", &options)?;
    let server = node.process_id().unwrap_or_default();
    node.keep_to_core(SERVER_CORE)?;
    let length = format!("{}s", arguments.seconds);
    let mut command = Command::new("taskset");
    command
        .args(["-c", GENERATOR_CORE])
        .arg(workspace::program("helenus"))
        .args(["bench", "goodput", "--hosts", &node.address().to_string()])
        .args(["--workload", &arguments.workload, "--multiples", "10"])
        .args(["--rounds", "1", "--overload", "0s"])
        .args(["--duration", &length, "--duration-max", &length])
        .stdout(Stdio::null());
    let mut load = Process::start(&mut command)?;
    let began = Instant::now();
    let mut looks = Vec::new();
    while load.wait_until(Instant::now() + LOOK_INTERVAL)?.is_none() {
        looks.push(look(&node, server, began.elapsed().as_secs())?);
    }
    node.check_panics()?;
    node.stop()?;
    super::write_report(REPORT, &page(arguments, &looks))
}

fn look(node: &Node, server: u32, at_s: u64) -> Result<Look, TaskError> {
    let status = std::fs::read_to_string(format!("/proc/{server}/status")).unwrap_or_default();
    let metrics = node.metrics()?;
    Ok(Look {
        at_s,
        resident: value_of(&status, "VmRSS:") * 1_024.0,
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
         `cargo xtask compare goodput-memory --seconds {seconds} --workload {workload}`: one shard, in memory, on one core, the\n\
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_a_status_and_in_a_metrics_page() {
        assert_eq!(value_of("VmHWM:\t 99 kB\nVmRSS:\t  1024 kB\n", "VmRSS:"), 1_024.0);
        let metrics = "# HELP helenus_request_bytes 7\nhelenus_request_bytes{shard=\"0\"} 5\n\
                       helenus_request_bytes{shard=\"1\"} 6\n";
        assert_eq!(value_of(metrics, "helenus_request_bytes"), 11.0);
    }
}
