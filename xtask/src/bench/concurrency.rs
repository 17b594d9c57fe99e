//! `cargo xtask bench concurrency`: from 1,000 to 500,000 workers that read one row over and over, with the drivers
//! that applications use and with `helenus bench run`, against Helenus and against Cassandra.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::concurrent_client::Client;
use crate::node::{Node, Target};
use crate::process::{self, Process};
use crate::{TaskError, workspace};

const REPORT: &str = "bench/results/concurrency/workers.md";

#[derive(clap::Args)]
pub struct Arguments {
    /// Workers of a run; several are run one after the other
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,50000,100000,500000")]
    workers: Vec<u32>,
    /// Reads of a run; each worker does its share of them, and at least two
    #[arg(long, default_value_t = 1_000_000)]
    requests: u32,
    /// The Java driver's throttles, each run with --throttled-workers
    #[arg(long, value_delimiter = ',', default_value = "100,200,400,600,700,1000")]
    throttle: Vec<u32>,
    #[arg(long, default_value_t = 50_000)]
    throttled_workers: u32,
    /// Leave Cassandra out, and write no report
    #[arg(long)]
    without_cassandra: bool,
}

/// Who reads.
#[derive(Clone, Copy)]
enum Reader {
    Driver(Client),
    /// `helenus bench run`, as it comes.
    Bench,
}

/// One reader on one server.
struct Run {
    workers: u32,
    queries: u32,
    reader: String,
    server: &'static str,
    outcome: Outcome,
}

struct Outcome {
    elapsed_s: f64,
    ok: u64,
    errors: BTreeMap<String, u64>,
    latency_us: [u64; 3],
    client_cpu_s: f64,
    client_bytes_max: u64,
    server_cpu_s: f64,
    server_bytes_max: u64,
}

/// What `helenus bench run --json` says that matters here.
#[derive(Deserialize)]
struct BenchReport {
    elapsed_s: f64,
    ops: u64,
    errors_by_kind: BTreeMap<String, u64>,
    latency_us: BenchLatencies,
}

#[derive(Deserialize)]
struct BenchLatencies {
    p50: u64,
    p99: u64,
    p999: u64,
}

/// A run that takes longer has lost its client: the slowest pair here needs two minutes.
const RUN_MAX: Duration = Duration::from_secs(900);

/// Between looks at the processes' memory.
const LOOK: Duration = Duration::from_millis(50);

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    super::build_helenus()?;
    let mut servers = vec![("Helenus", Target::Helenus)];
    if !arguments.without_cassandra {
        servers.push(("Cassandra 5.0", Target::Cassandra));
    }
    let mut readings = Vec::new();
    for workers in &arguments.workers {
        let unthrottled = Client::Java { throttle: 0 };
        for reader in [
            Reader::Driver(Client::Gocql),
            Reader::Driver(unthrottled),
            Reader::Bench,
        ] {
            readings.push((*workers, reader));
        }
    }
    for throttle in &arguments.throttle {
        let client = Client::Java { throttle: *throttle };
        readings.push((arguments.throttled_workers, Reader::Driver(client)));
    }
    let mut runs = Vec::new();
    for (workers, reader) in readings {
        for (server, target) in &servers {
            let run = measure(workers, reader, server, target, arguments)?;
            println!("{}", row(&run).trim_end());
            runs.push(run);
        }
    }
    let report = render(&runs);
    if arguments.without_cassandra {
        return Ok(());
    }
    super::write_report(REPORT, &report)
}

/// A server of its own for each run, so that none profits from what another one warmed up.
fn measure(
    workers: u32,
    reader: Reader,
    server: &'static str,
    target: &Target,
    arguments: &Arguments,
) -> Result<Run, TaskError> {
    let queries = (arguments.requests / workers).max(2);
    let json = workspace::scratch("concurrency").with_extension("json");
    let node = Node::start(target, "concurrency", &[])?;
    let (name, mut command) = match reader {
        Reader::Driver(client) => (client.label(), client.command(workers, queries)?),
        Reader::Bench => {
            let command = bench_command(node.address(), workers, queries, &json);
            ("helenus bench run".to_owned(), command)
        }
    };
    let address = node.address();
    command
        .env("CQL_HOST", address.ip().to_string())
        .env("CQL_PORT", address.port().to_string());
    let server_id = node.process_id().unwrap_or_default();
    let server_before = cpu_seconds(server_id);
    let watched = watch(&mut command)?;
    let server_cpu_s = cpu_seconds(server_id) - server_before;
    let server_bytes_max = resident_bytes_max(server_id);
    let mut outcome = match reader {
        Reader::Driver(_) => driver_outcome(&watched.output)?,
        Reader::Bench => bench_outcome(&json)?,
    };
    outcome.client_cpu_s = watched.cpu_s;
    outcome.client_bytes_max = watched.bytes_max;
    outcome.server_cpu_s = server_cpu_s;
    outcome.server_bytes_max = server_bytes_max;
    node.check_panics()?;
    node.stop()?;
    Ok(Run {
        workers,
        queries,
        reader: name,
        server,
        outcome,
    })
}

fn bench_command(address: SocketAddr, workers: u32, queries: u32, json: &std::path::Path) -> Command {
    let mut command = Command::new(workspace::target().join("release/helenus"));
    command
        .args(["bench", "run", "--quiet", "--preset", "concurrent-client"])
        .args([
            "--hosts",
            &address.to_string(),
            "--concurrency",
            &workers.to_string(),
        ])
        .args(["--requests", &queries.to_string(), "--timeout", "60s"])
        .arg("--json")
        .arg(json);
    command
}

/// A program that has ended.
struct Watched {
    output: String,
    cpu_s: f64,
    bytes_max: u64,
}

/// Runs a client to its end and looks at what it takes meanwhile. Its exit code says only whether reads failed.
fn watch(command: &mut Command) -> Result<Watched, TaskError> {
    let log = workspace::scratch("concurrency").with_extension("out");
    let file = process::log_file(&log)?;
    let mut process = Process::start(command.stdin(Stdio::null()).stdout(file))?;
    let id = process.id();
    let deadline = Instant::now() + RUN_MAX;
    let mut watched = Watched {
        output: String::new(),
        cpu_s: 0.0,
        bytes_max: 0,
    };
    while process.finished()?.is_none() && Instant::now() < deadline {
        watched.cpu_s = watched.cpu_s.max(cpu_seconds(id));
        watched.bytes_max = watched.bytes_max.max(resident_bytes_max(id));
        thread::sleep(LOOK);
    }
    watched.output = fs::read_to_string(&log).map_err(|source| TaskError::File { path: log, source })?;
    Ok(watched)
}

fn driver_outcome(output: &str) -> Result<Outcome, TaskError> {
    let last = output.lines().last().unwrap_or_default();
    let figures: super::concurrent_client::Figures =
        serde_json::from_str(last).map_err(|error| TaskError::Report {
            text: format!("{error} in {last:?}"),
        })?;
    Ok(Outcome {
        elapsed_s: figures.elapsed_s,
        ok: figures.ok,
        errors: figures.errors,
        latency_us: [
            figures.latency_us_p50,
            figures.latency_us_p99,
            figures.latency_us_p999,
        ],
        client_cpu_s: 0.0,
        client_bytes_max: 0,
        server_cpu_s: 0.0,
        server_bytes_max: 0,
    })
}

fn bench_outcome(json: &std::path::Path) -> Result<Outcome, TaskError> {
    let text = fs::read_to_string(json).map_err(|source| TaskError::File {
        path: json.to_owned(),
        source,
    })?;
    let report: BenchReport = serde_json::from_str(&text).map_err(|error| TaskError::Report {
        text: format!("{error} in {}", json.display()),
    })?;
    Ok(Outcome {
        elapsed_s: report.elapsed_s,
        ok: report.ops,
        errors: report.errors_by_kind,
        latency_us: [
            report.latency_us.p50,
            report.latency_us.p99,
            report.latency_us.p999,
        ],
        client_cpu_s: 0.0,
        client_bytes_max: 0,
        server_cpu_s: 0.0,
        server_bytes_max: 0,
    })
}

/// User and system time; 0 for a process that is gone. The ticks are hundredths of a second on every Linux.
fn cpu_seconds(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn resident_bytes_max(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

fn row(run: &Run) -> String {
    let Run {
        workers,
        queries,
        reader,
        server,
        outcome,
    } = run;
    let failed: u64 = outcome.errors.values().sum();
    let mut errors = failed.to_string();
    if failed > 0 {
        let share = 100.0 * failed as f64 / (failed + outcome.ok) as f64;
        let kinds: Vec<&str> = outcome.errors.keys().map(String::as_str).collect();
        errors = format!("{failed} ({share:.1} %): {}", kinds.join(", "));
    }
    let [p50, p99, p999] = outcome.latency_us.map(|us| us as f64 / 1e3);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "| {workers} x {queries} | {reader} | {server} | {:.1} | {p50:.1} | {p99:.1} | {p999:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {errors} |\n",
        outcome.elapsed_s,
        outcome.client_cpu_s,
        outcome.server_cpu_s,
        mib(outcome.client_bytes_max),
        mib(outcome.server_bytes_max)
    )
}

fn render(runs: &[Run]) -> String {
    let mut report = format!(
        "# Many workers, one client\n\n\
         `cargo xtask bench concurrency`: each worker reads the same row by a prepared query, one read after the \
         other.\ngocql and the Java driver are as they come, but for the Java driver's throttle where one is named \
         and its JVM's\n400,000 reads to warm up, which its CPU includes; `helenus bench run` is as it comes, \
         without a warm-up. Each run has a server of its own, and\neverything shares {} cores: hold as ratios only. \
         Latencies are those of successful reads as the worker sees them.\n\n\
         | workers x reads | client | server | elapsed s | p50 ms | p99 ms | p99.9 ms | client CPU s | server CPU s \
         | client MiB | server MiB | errors |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        thread::available_parallelism().map_or(0, usize::from)
    );
    for run in runs {
        // Writing to a String cannot fail.
        let _ = write!(report, "{}", row(run));
    }
    report
}
