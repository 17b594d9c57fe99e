//! `cargo xtask bench peer`: the same wire load on Helenus and on Cassandra, one after the other, in one run.

use std::process::Command;

use serde_json::Value;

use crate::TaskError;
use crate::node::{Node, Target};
use crate::process::{self, ProcessError};
use crate::workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds that each load is measured, after a third of it to warm up
    #[arg(long, default_value_t = 6)]
    seconds: u32,
    /// Shards of the Helenus node
    #[arg(long, default_value_t = 1)]
    shards: u16,
    /// Leave Cassandra out
    #[arg(long)]
    only_helenus: bool,
}

/// Connections and requests in flight on each: one latency-bound load and two that batch.
const SHAPES: [(u16, u16); 3] = [(64, 1), (16, 16), (16, 64)];

const REPORT: &str = "bench/results/peer.md";

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    process::run(
        Command::new("cargo")
            .args(["build", "--release", "--quiet"])
            .current_dir(workspace::root()),
    )?;
    let helenus = measure(&Target::Helenus, arguments)?;
    let cassandra = if arguments.only_helenus {
        Vec::new()
    } else {
        measure(&Target::Cassandra, arguments)?
    };
    let report = render(arguments, &helenus, &cassandra);
    println!("{report}");
    if !arguments.only_helenus {
        super::write_report(REPORT, &report)?;
    }
    Ok(())
}

fn measure(target: &Target, arguments: &Arguments) -> Result<Vec<Value>, TaskError> {
    let shards = arguments.shards.to_string();
    let options = ["--shards", &shards, "--commitlog-sync", "periodic"];
    let node = Node::start(target, "bench-peer", &options)?;
    let mut reports = Vec::new();
    for (connections, in_flight) in SHAPES {
        for write in [false, true] {
            let kind = if write { "write" } else { "read" };
            eprintln!("{target:?}: {kind}, {connections} connections x {in_flight} in flight");
            reports.push(load(&node, arguments, connections, in_flight, write)?);
        }
    }
    node.check_panics()?;
    node.stop()?;
    Ok(reports)
}

fn load(
    node: &Node,
    arguments: &Arguments,
    connections: u16,
    in_flight: u16,
    write: bool,
) -> Result<Value, TaskError> {
    let mut command = Command::new(workspace::target().join("release/helenus"));
    command.args(["perf", "wire", "--json", "--address", &node.address().to_string()]);
    command.args([
        "--connections",
        &connections.to_string(),
        "--in-flight",
        &in_flight.to_string(),
    ]);
    command.args(["--duration-s", &arguments.seconds.to_string()]);
    command.args(["--warm-up-s", &arguments.seconds.div_ceil(3).to_string()]);
    if write {
        command.arg("--write");
    }
    if let Some(pid) = node.process_id() {
        command.args(["--server-pid", &pid.to_string()]);
    }
    let output = command.output().map_err(|source| ProcessError::Start {
        program: "helenus perf wire".to_owned(),
        source,
    })?;
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        let failed = ProcessError::Failed {
            program: "helenus perf wire".to_owned(),
            status: output.status,
        };
        return Err(failed.into());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| TaskError::Report {
        text: error.to_string(),
    })
}

fn render(arguments: &Arguments, helenus: &[Value], cassandra: &[Value]) -> String {
    let mut text = format!(
        "# The same wire load on Helenus and on Cassandra 5.0\n\n\
         `cargo xtask bench peer --seconds {} --shards {}`: table of five 34-byte blobs, 10,000 keys, prepared, over \
         loopback,\nserver and client on the same machine. Closed loop; periodic commit log on both sides. Hold as \
         ratios only.\n\n\
         | load | server | ops/s | p50 us | p99 us | server CPU us/op | resident MiB | errors |\n\
         |---|---|---|---|---|---|---|---|\n",
        arguments.seconds, arguments.shards
    );
    for (index, ours) in helenus.iter().enumerate() {
        let load = format!(
            "{} {} x {}",
            text_of(ours, "workload"),
            ours["connections"],
            ours["in_flight"]
        );
        text.push_str(&row(&load, "Helenus", ours));
        let Some(theirs) = cassandra.get(index) else {
            continue;
        };
        text.push_str(&row(&load, "Cassandra 5.0", theirs));
        let ratio = |key: &str| ours[key].as_f64().zip(theirs[key].as_f64());
        if let (Some((fast, slow)), Some((cheap, dear))) = (ratio("ops_per_s"), ratio("server_cpu_us_per_op"))
        {
            text.push_str(&format!(
                "| {load} | ratio | {:.1}x | | | 1/{:.0} | | |\n",
                fast / slow.max(1.0),
                dear / cheap.max(0.001)
            ));
        }
    }
    text
}

fn row(load: &str, server: &str, report: &Value) -> String {
    let cpu = report["server_cpu_us_per_op"]
        .as_f64()
        .map_or(String::new(), |us| format!("{us:.2}"));
    let resident = report["server_resident_bytes"]
        .as_u64()
        .map_or(String::new(), |bytes| (bytes >> 20).to_string());
    format!(
        "| {load} | {server} | {:.0} | {} | {} | {cpu} | {resident} | {} |\n",
        report["ops_per_s"].as_f64().unwrap_or(0.0),
        report["latency_us_p50"],
        report["latency_us_p99"],
        report["errors"]
    )
}

fn text_of<'a>(report: &'a Value, key: &str) -> &'a str {
    report[key].as_str().unwrap_or_default()
}
