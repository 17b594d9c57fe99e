//! `cargo xtask compare callers cost`: what a request costs the client, with ours and with the drivers that people use, on
//! the same reads of the same server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;

use helenus_loadgen::report::Report;
use serde::Deserialize;

use crate::compare::drivers::{Driver, name_server};
use crate::compare::{figures, files, programs};
use crate::node::{Node, Target};
use crate::{TaskError, process, workspace};

const REPORT: &str = "docs/measurements/concurrency/client-cost.md";

/// 16 connections with 64 requests in flight on each.
const CONNECTIONS: u32 = 16;
const WORKERS: u32 = 1024;

#[derive(clap::Args)]
pub struct Arguments {
    /// Times that every client is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Reads of each of the 1,024 workers
    #[arg(long, default_value_t = 500)]
    queries: u32,
}

/// Report of a driver's program.
#[derive(Deserialize)]
struct Figures {
    client: String,
    errors: BTreeMap<String, u64>,
    ops_per_s: f64,
    cpu_us_per_op: f64,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    // One shard, so that shard-aware clients do not get more connections than the others.
    let node = Node::start(&Target::Helenus, "bench-client-cost", &["--shards", "1"])?;
    let queries = arguments.queries;
    let mut programs = vec![
        Driver::Gocql.command(WORKERS, queries, node.address())?,
        scylla_command(queries, node.address())?,
        Driver::Java { throttle: 0 }.command(WORKERS, queries, node.address())?,
    ];
    for program in &mut programs {
        program.env("CLIENT_CONNECTIONS", CONNECTIONS.to_string());
    }
    let mut clients: BTreeMap<String, Vec<Figures>> = BTreeMap::new();
    for _ in 0..arguments.rounds {
        let mut figures = vec![own(node.address(), queries)?];
        for program in &mut programs {
            let output = process::run_quietly(program)?;
            figures.push(files::parse(output.lines().last().unwrap_or_default())?);
        }
        for figures in figures {
            println!(
                "{}: {:.2} us of CPU a read",
                figures.client, figures.cpu_us_per_op
            );
            clients.entry(figures.client.clone()).or_default().push(figures);
        }
    }
    node.check_panics()?;
    node.stop()?;
    let report = render(arguments, &clients);
    files::publish(REPORT, &report)
}

/// The `scylla` driver's program, built outside of this workspace.
fn scylla_command(queries: u32, address: SocketAddr) -> Result<Command, TaskError> {
    let built = workspace::built("rust-scylla");
    process::run(
        Command::new("cargo")
            .args(["build", "--release", "--quiet", "--locked"])
            .env("CARGO_TARGET_DIR", &built)
            .current_dir(workspace::path("xtask/clients/rust-scylla")),
    )?;
    let mut command = Command::new(built.join("release/helenus-bench-rust-scylla"));
    command.args([WORKERS.to_string(), queries.to_string()]);
    name_server(&mut command, address);
    Ok(command)
}

fn own(address: SocketAddr, queries: u32) -> Result<Figures, TaskError> {
    let mut command = programs::helenus();
    command
        .args([
            "bench",
            "run",
            "--quiet",
            "--json",
            "-",
            "--preset",
            "concurrent-client",
        ])
        .args(["--hosts", &address.to_string(), "--threads", "1"])
        .args([
            "--connections",
            &CONNECTIONS.to_string(),
            "--concurrency",
            &WORKERS.to_string(),
        ])
        .args(["--throttle", "off", "--requests", &queries.to_string()]);
    let own: Report = files::parse(&process::run_quietly(&mut command)?)?;
    Ok(Figures {
        client: OWN.to_owned(),
        errors: (own.errors > 0)
            .then(|| ("errors".to_owned(), own.errors))
            .into_iter()
            .collect(),
        ops_per_s: own.ops_per_s,
        cpu_us_per_op: own.client_cpu_us_per_op,
    })
}

const OWN: &str = "helenus-client";

fn median(figures: &[Figures], value: impl Fn(&Figures) -> f64) -> f64 {
    figures::median(figures.iter().map(value))
}

fn render(arguments: &Arguments, clients: &BTreeMap<String, Vec<Figures>>) -> String {
    let mut report = format!(
        "# What a request costs the client\n\n\
         `cargo xtask compare callers cost --rounds {} --queries {}`\n\n\
         {WORKERS} workers with one prepared read of one row at a time each, over {CONNECTIONS} connections, against \
         a Helenus of one\nshard on the same machine. CPU is that of the client's process, system calls included, \
         while it reads; medians.\nThe Java driver's 400,000 reads of warm-up are not counted. `helenus-client` also \
         chooses statements, makes values and\nkeeps a histogram.\n\n\
         | client | CPU us/read | of helenus-client's | reads/s | errors |\n|---|---|---|---|---|\n",
        arguments.rounds, arguments.queries
    );
    let cost = |figures: &[Figures]| median(figures, |figures| figures.cpu_us_per_op);
    let own = clients.get(OWN).map_or(0.0, |figures| cost(figures));
    for (name, figures) in clients {
        let errors: u64 = figures.iter().flat_map(|figures| figures.errors.values()).sum();
        let _infallible = writeln!(
            report,
            "| {name} | {:.2} | {:.1}x | {:.0} | {errors} |",
            cost(figures),
            cost(figures) / own.max(1e-9),
            median(figures, |figures| figures.ops_per_s)
        );
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_printed_beside_ours() {
        let figures = |client: &str, cpu_us_per_op| Figures {
            client: client.to_owned(),
            errors: BTreeMap::new(),
            ops_per_s: 1e6,
            cpu_us_per_op,
        };
        let clients = BTreeMap::from([
            (
                OWN.to_owned(),
                vec![figures(OWN, 1.0), figures(OWN, 1.5), figures(OWN, 9.0)],
            ),
            ("gocql".to_owned(), vec![figures("gocql", 6.0)]),
        ]);
        let arguments = Arguments {
            rounds: 3,
            queries: 1,
        };
        let report = render(&arguments, &clients);
        assert!(report.ends_with(
            "| gocql | 6.00 | 4.0x | 1000000 | 0 |\n| helenus-client | 1.50 | 1.0x | 1000000 | 0 |\n"
        ));
    }
}
