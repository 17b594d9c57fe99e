//! `cargo xtask compare peer`: the same wire load on Helenus, on Cassandra, and on a server that answers everything with
//! the same bytes; one after the other, in one run.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;

use super::{files, programs};
use crate::node::{Node, Target};
use crate::{TaskError, process, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds that each load is measured, after a third of it to warm up
    #[arg(long, default_value_t = 6)]
    seconds: u32,
    /// Shards of the Helenus node
    #[arg(long, default_value_t = 1)]
    shards: u16,
    /// Leave Cassandra out, and write no report
    #[arg(long)]
    without_cassandra: bool,
}

/// Connections and requests in flight on each: one latency-bound load and two that batch.
const SHAPES: [(u16, u16); 3] = [(64, 1), (16, 16), (16, 64)];

const REPORT: &str = "docs/measurements/peer.md";

const HEAD: &str = "| load | server | ops/s | p50 us | p99 us | server CPU us/op | resident MiB | errors |\n\
                    |---|---|---|---|---|---|---|---|\n";

/// One server's name and its reports, in the order of the loads.
struct Measured {
    server: &'static str,
    reports: Vec<Value>,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let mut measured = vec![
        Measured {
            server: "the floor",
            reports: measure_floor(arguments)?,
        },
        Measured {
            server: "Helenus",
            reports: measure_node(&Target::Helenus, arguments)?,
        },
    ];
    if !arguments.without_cassandra {
        measured.push(Measured {
            server: "Cassandra 5.0",
            reports: measure_node(&Target::Cassandra, arguments)?,
        });
    }
    let report = render(arguments, &measured);
    match arguments.without_cassandra {
        true => println!("{report}"),
        false => files::publish(REPORT, &report)?,
    }
    Ok(())
}

fn measure_node(target: &Target, arguments: &Arguments) -> Result<Vec<Value>, TaskError> {
    let shards = arguments.shards.to_string();
    let options = ["--shards", &shards, "--commitlog-sync", "periodic"];
    let node = Node::start(target, "bench-peer", &options)?;
    let reports = measure(
        &format!("{target:?}"),
        node.address(),
        node.process_id(),
        arguments,
    )?;
    node.check_panics()?;
    node.stop()?;
    Ok(reports)
}

fn measure_floor(arguments: &Arguments) -> Result<Vec<Value>, TaskError> {
    let (mut server, address) = programs::start_floor("canned")?;
    let pid = Some(server.id());
    let reports = measure("canned answers", address, pid, arguments);
    server.kill();
    reports
}

fn measure(
    name: &str,
    address: SocketAddr,
    pid: Option<u32>,
    arguments: &Arguments,
) -> Result<Vec<Value>, TaskError> {
    let mut reports = Vec::new();
    for (connections, in_flight) in SHAPES {
        for write in [false, true] {
            let kind = if write { "write" } else { "read" };
            eprintln!("{name}: {kind}, {connections} connections x {in_flight} in flight");
            let shape = [
                "--connections",
                &connections.to_string(),
                "--in-flight",
                &in_flight.to_string(),
            ];
            reports.push(load(address, pid, arguments, &shape, write)?);
        }
    }
    Ok(reports)
}

fn load(
    address: SocketAddr,
    pid: Option<u32>,
    arguments: &Arguments,
    shape: &[&str],
    write: bool,
) -> Result<Value, TaskError> {
    let mut command = Command::new(workspace::program("helenus-perf"));
    command
        .args(["wire", "--json", "--address", &address.to_string()])
        .args(shape);
    command.args(["--duration-s", &arguments.seconds.to_string()]);
    command.args(["--warm-up-s", &arguments.seconds.div_ceil(3).to_string()]);
    if write {
        command.arg("--write");
    }
    if let Some(pid) = pid {
        command.args(["--server-pid", &pid.to_string()]);
    }
    files::parse(&process::run_quietly(&mut command)?)
}

fn render(arguments: &Arguments, measured: &[Measured]) -> String {
    let mut text = format!(
        "# The same wire load on Helenus, on Cassandra 5.0, and on a server of canned answers\n\n\
         `cargo xtask compare peer --seconds {} --shards {}`: table of five 34-byte blobs, 10,000 keys, prepared, over\n\
         loopback, server and client sharing the machine. Closed loop; periodic commit log. The floor is `helenus-perf\n\
         canned`: sockets, frames and event loop without a database. Hold as ratios only.\n\n{HEAD}",
        arguments.seconds, arguments.shards
    );
    for index in 0..SHAPES.len() * 2 {
        for Measured { server, reports } in measured {
            if let Some(report) = reports.get(index) {
                text.push_str(&row(server, report));
            }
        }
    }
    text
}

fn row(server: &str, report: &Value) -> String {
    let cpu = report["server_cpu_us_per_op"]
        .as_f64()
        .map_or(String::new(), |us| format!("{us:.2}"));
    let resident = report["server_resident_bytes"].as_u64();
    let resident = resident.map_or(String::new(), |bytes| (bytes >> 20).to_string());
    format!(
        "| {} {} x {} | {server} | {:.0} | {} | {} | {cpu} | {resident} | {} |\n",
        report["workload"].as_str().unwrap_or_default(),
        report["connections"],
        report["in_flight"],
        report["ops_per_s"].as_f64().unwrap_or(0.0),
        report["latency_us_p50"],
        report["latency_us_p99"],
        report["errors"]
    )
}
