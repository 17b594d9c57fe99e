//! `cargo xtask compare storage mixed`: the same steady load on a node that has room for all of it, and on one whose memtables are
//! so small that it flushes and compacts all the time. What is asked for: a p99 within three times the quiet one's.

use helenus_loadgen::report::Report;

use crate::compare::{files, load_generator, programs};
use crate::node::{Node, Target};
use crate::{TaskError, workspace};

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
    programs::build()?;
    let folder = workspace::scratch("bench-mixed-load");
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
        reports.push(load_generator::measure(
            load_generator::command(&[node.address()])
                .args(["--threads", "1", "--rate", &arguments.rate.to_string()])
                .args(["--duration", &format!("{seconds}s")]),
            &folder,
            WORKLOAD,
        )?);
        node.check_panics()?;
        node.stop()?;
    }
    let text = render(arguments, &reports);
    files::publish(REPORT, &text)
}

fn render(arguments: &Arguments, reports: &[Report]) -> String {
    let mut text = format!(
        "# A steady load while the node flushes and compacts\n\n\
         `cargo xtask compare storage mixed --minutes {} --rate {}`: an open loop of as many reads as writes (20,000 keys, values of\n\
         1,000 bytes), one shard. The quiet node keeps all in its memtables, the busy one flushes every few seconds.\n\
         Latency counts from the moment that a request was due, in microseconds.\n\n\
         | node | requests | errors | never sent | p50 | p99 | p99.9 | most |\n|---|---|---|---|---|---|---|---|\n",
        arguments.minutes, arguments.rate
    );
    for ((name, _), report) in MEMORY.iter().zip(reports) {
        let latency = &report.latency_us;
        text.push_str(&format!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} |\n",
            report.ops, report.errors, report.unsent, latency.p50, latency.p99, latency.p999, latency.max
        ));
    }
    if let [quiet, busy] = reports {
        let p99 = |report: &Report| report.latency_us.p99 as f64;
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
        let seconds = report.seconds.iter();
        let series: Vec<String> = seconds.map(|second| second.p99_us.to_string()).collect();
        text.push_str(&format!("\np99 second by second, {name}:\n\n```\n"));
        for line in series.chunks(20) {
            text.push_str(&line.join(" "));
            text.push('\n');
        }
        text.push_str("```\n");
    }
    text
}
