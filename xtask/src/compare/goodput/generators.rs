//! `cargo xtask compare goodput generators`: this generator's figures beside those of another one, at the same loads in turns.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use helenus_loadgen::chart::short_number;
use helenus_loadgen::goodput::{self, GoodputWorkload};

use super::server::{Clients, FOLDER, ServerArguments};
use crate::compare::figures::median;
use crate::compare::{files, programs};
use crate::node::Node;
use crate::{TaskError, process};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// The other generator. It is called with --addr, --pid, --bind none, --query, --throw 0 or 1, --mode open, --rate, --secs and --warm,
    /// and prints a line of JSON with ok_per_s
    #[arg(long)]
    other: PathBuf,
    /// Requests in flight on a connection at most: the other generator's own bound
    #[arg(long, default_value_t = 8192)]
    in_flight: u32,
    /// Seconds of each load
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// How often both measure each load
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Loads, in multiples of the capacity
    #[arg(long, value_delimiter = ',', default_value = "0.8,2,5,10")]
    multiples: Vec<f64>,
    /// Only workloads whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

/// Warm-up of each load, in seconds, which does not count: that of the table that is to be agreed with.
const WARM_UP_S: u32 = 2;

const REPORT: &str = "generators.md";

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let mut page = format!(
        "# Two generators\n\n`cargo xtask compare goodput generators --other PROGRAM`: requests in time a second, by `helenus bench goodput` and \
         by a generator that shares no code with it, in turns at the same loads on the same server (one shard on a core; the generator on \
         another), the median of {} rounds of {} s after {WARM_UP_S} s. Both have at most {} requests in flight on each of 16 connections, the \
         other one's own bound. Each cell: ours, the other's, and their ratio.\n",
        arguments.rounds, arguments.seconds, arguments.in_flight
    );
    for clients in &arguments.server.clients {
        let _infallible = write!(page, "\n## {}\n\n| | capacity |", clients.about());
        for multiple in &arguments.multiples {
            let _infallible = write!(page, " {multiple}x |");
        }
        let _infallible = writeln!(page, "\n|---|---|{}", "---|".repeat(arguments.multiples.len()));
        let node = arguments.server.start(&["--shards", "1"])?;
        for workload in GoodputWorkload::STATEMENTS {
            if workload.name().contains(&arguments.only) {
                page.push_str(&row(arguments, *clients, &node, workload)?);
            }
        }
        node.stop()?;
    }
    files::write_page(&format!("{FOLDER}/{REPORT}"), &page)
}

fn row(
    arguments: &Arguments,
    clients: Clients,
    node: &Node,
    workload: GoodputWorkload,
) -> Result<String, TaskError> {
    let capacity_per_s = ours(arguments, clients, node, workload, None)?.0;
    let mut row = format!("| {} | {} |", workload.name(), short_number(capacity_per_s));
    for multiple in &arguments.multiples {
        let (mut of_ours, mut of_other) = (Vec::new(), Vec::new());
        for _ in 0..arguments.rounds.max(1) {
            let load = Some((capacity_per_s, *multiple));
            of_ours.push(ours(arguments, clients, node, workload, load)?.1);
            of_other.push(other(
                arguments,
                clients,
                node,
                workload,
                capacity_per_s * multiple,
            )?);
        }
        row.push_str(&cell(median(of_ours), median(of_other)));
    }
    row.push('\n');
    Ok(row)
}

fn cell(ours: f64, other: f64) -> String {
    let ratio = match other >= 1.0 {
        true => format!("{:.2}", ours / other),
        false => "-".to_owned(),
    };
    format!(" {}, {}: {ratio} |", short_number(ours), short_number(other))
}

/// Capacity and goodput by our own generator.
fn ours(
    arguments: &Arguments,
    clients: Clients,
    node: &Node,
    workload: GoodputWorkload,
    load: Option<(f64, f64)>,
) -> Result<(f64, f64), TaskError> {
    let name = serde_json::to_value(workload).unwrap_or_default();
    let mut generator: Vec<String> = [
        "--workload",
        name.as_str().unwrap_or_default(),
        "--rounds",
        "1",
        "--duration",
        &format!("{}s", arguments.seconds),
        "--warm-up",
        &format!("{WARM_UP_S}s"),
        "--in-flight",
        &arguments.in_flight.to_string(),
        "--multiples",
        &load.map_or(0.5, |(_, multiple)| multiple).to_string(),
    ]
    .map(str::to_owned)
    .into();
    if let Some((capacity_per_s, _)) = load {
        generator.extend(["--capacity".to_owned(), capacity_per_s.to_string()]);
    }
    let report = arguments.server.measure(node, clients, "ours", &generator)?;
    let curve = report.curves.first();
    let good = curve.and_then(|curve| Some(curve.points.first()?.good_per_s));
    Ok((
        curve.map_or(0.0, |curve| curve.capacity_per_s),
        good.unwrap_or_default(),
    ))
}

/// Goodput by the other generator.
fn other(
    arguments: &Arguments,
    clients: Clients,
    node: &Node,
    workload: GoodputWorkload,
    per_s: f64,
) -> Result<f64, TaskError> {
    let mut command = programs::on_cores(&arguments.server.generator_core, &arguments.other);
    command
        .args(["--addr", &node.address().to_string()])
        .args(["--pid", &node.process_id().unwrap_or_default().to_string()])
        .args(["--bind", "none", "--mode", "open"])
        .args(["--query", &goodput::statement(workload).unwrap_or_default()])
        .args(["--throw", if clients == Clients::Throw { "1" } else { "0" }])
        .args(["--rate", &format!("{per_s:.0}")])
        .args(["--secs", &arguments.seconds.to_string()])
        .args(["--warm", &WARM_UP_S.to_string()]);
    in_time(&process::run_quietly(&mut command)?, &arguments.other)
}

fn in_time(output: &str, program: &Path) -> Result<f64, TaskError> {
    let line = output.trim().lines().next_back().unwrap_or_default();
    let report: Option<serde_json::Value> = serde_json::from_str(line).ok();
    let per_s = report.and_then(|report| report["ok_per_s"].as_f64());
    per_s.ok_or_else(|| TaskError::Report {
        text: format!("{} said {line:?}", program.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_generator_says_is_read_from_its_last_line() {
        let program = Path::new("other");
        let output = "warming up\n{\"mode\":\"open\",\"ok_per_s\":1234,\"errors\":[]}\n";
        assert_eq!(in_time(output, program).unwrap(), 1_234.0);
        assert!(in_time("", program).is_err());
    }

    #[test]
    fn both_figures_and_their_ratio_are_in_a_cell() {
        assert_eq!(cell(1_020_000.0, 1_000_000.0), " 1.02M, 1M: 1.02 |");
        assert_eq!(cell(0.0, 0.0), " 0, 0: - |");
    }
}
