//! `cargo xtask compare mixed`: the same steady load on a node that has room for all of it, and on one whose memtables are
//! so small that it flushes and compacts all the time. What is asked for: a p99 within three times the quiet one's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::TaskError;
use crate::node::{Node, Target};
use crate::process;
use crate::workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// How long the busy node is measured; the quiet one a fifth of it
    #[arg(long, default_value_t = 10)]
    minutes: u32,
    /// Requests offered a second, reads and writes alike
    #[arg(long, default_value_t = 2_000)]
    rate: u32,
}

const REPORT: &str = "docs/measurements/mixed.md";
const SLOWDOWN_MAX: f64 = 3.0;

/// Memory of the two nodes, their only difference. The busy one's memtables are sealed at 4 MiB: with values of 1,000 bytes
/// and a thousand writes a second, every four seconds.
const MEMORY: [(&str, &str); 2] = [("quiet", "4GiB"), ("busy", "24MiB")];

/// Reads and writes of 20,000 keys: what is compacted is overwritten.
const WORKLOAD: &str = r#"name: mixed
schema:
  - "CREATE KEYSPACE IF NOT EXISTS helenus_loadgen WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
  - "CREATE TABLE IF NOT EXISTS helenus_loadgen.mixed (key bigint PRIMARY KEY, value blob)"
populate:
  rows: 20000
  statement:
    cql: INSERT INTO helenus_loadgen.mixed (key, value) VALUES (?, ?)
    values: [{sequence: {}}, {blob: {bytes: 1000}}]
statements:
  read:
    cql: SELECT value FROM helenus_loadgen.mixed WHERE key = ?
    values: [{uniform: {of: 20000}}]
  write:
    cql: INSERT INTO helenus_loadgen.mixed (key, value) VALUES (?, ?)
    values: [{uniform: {of: 20000}}, {blob: {bytes: 1000}}]
"#;

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    super::build_helenus()?;
    let folder = workspace::scratch("bench-mixed-load");
    let workload = folder.join("mixed.yaml");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&workload, WORKLOAD))
        .map_err(|source| TaskError::File {
            path: workload.clone(),
            source,
        })?;
    let seconds = arguments.minutes * 60;
    let mut reports = Vec::new();
    for ((name, memory), seconds) in MEMORY.into_iter().zip([(seconds / 5).max(10), seconds.max(10)]) {
        eprintln!("{name}: {} requests a second for {seconds} s", arguments.rate);
        let options = [
            "--shards",
            "1",
            "--memory",
            memory,
            "--commitlog-sync",
            "periodic",
        ];
        let node = Node::start(&Target::Helenus, "bench-mixed", &options)?;
        reports.push(load(&node, &workload, &folder, arguments.rate, seconds)?);
        node.check_panics()?;
        node.stop()?;
    }
    let text = render(arguments, &reports);
    println!("{text}");
    super::write_report(REPORT, &text)
}

fn load(node: &Node, workload: &Path, folder: &Path, rate: u32, seconds: u32) -> Result<Value, TaskError> {
    let json: PathBuf = folder.join("mixed.json");
    process::run(
        Command::new(workspace::program("helenus"))
            .args(["bench", "run", "--quiet", "--only-these-hosts", "--threads", "1"])
            .args(["--hosts", &node.address().to_string()])
            .args(["--rate", &rate.to_string(), "--duration", &format!("{seconds}s")])
            .arg("--workload")
            .arg(workload)
            .arg("--json")
            .arg(&json),
    )?;
    let text = fs::read_to_string(&json).map_err(|source| TaskError::File { path: json, source })?;
    serde_json::from_str(&text).map_err(|error| TaskError::Report {
        text: error.to_string(),
    })
}

fn render(arguments: &Arguments, reports: &[Value]) -> String {
    let p99 = |report: &Value| report["latency_us"]["p99"].as_f64().unwrap_or(f64::NAN);
    let mut text = format!(
        "# A steady load while the node flushes and compacts\n\n\
         `cargo xtask compare mixed --minutes {} --rate {}`: an open loop of as many reads as writes (20,000 keys, values of\n\
         1,000 bytes), one shard. The quiet node keeps all in its memtables, the busy one flushes every few seconds.\n\
         Latency counts from the moment that a request was due, in microseconds.\n\n\
         | node | requests | errors | never sent | p50 | p99 | p99.9 | most |\n|---|---|---|---|---|---|---|---|\n",
        arguments.minutes, arguments.rate
    );
    for ((name, _), report) in MEMORY.iter().zip(reports) {
        let latency = &report["latency_us"];
        text.push_str(&format!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} |\n",
            report["ops"],
            report["errors"],
            report["unsent"],
            latency["p50"],
            latency["p99"],
            latency["p999"],
            latency["max"]
        ));
    }
    if let [quiet, busy] = reports {
        let ratio = p99(busy) / p99(quiet).max(1.0);
        let verdict = if ratio <= SLOWDOWN_MAX {
            "within"
        } else {
            "NOT within"
        };
        text.push_str(&format!(
            "\np99 beside the quiet node's: {ratio:.2} times, {verdict} {SLOWDOWN_MAX:.0}.\n"
        ));
    }
    for ((name, _), report) in MEMORY.iter().zip(reports) {
        let seconds = report["seconds"].as_array().map_or(&[][..], Vec::as_slice);
        let series: Vec<String> = seconds
            .iter()
            .map(|second| second["p99_us"].to_string())
            .collect();
        text.push_str(&format!("\np99 second by second, {name}:\n\n```\n"));
        for line in series.chunks(20) {
            text.push_str(&line.join(" "));
            text.push('\n');
        }
        text.push_str("```\n");
    }
    text
}
