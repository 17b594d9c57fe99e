//! `cargo xtask compare concurrency`: from 1,000 to 500,000 workers that read one row over and over, with the drivers
//! that applications use and with `helenus bench run`, against Helenus and against Cassandra. Every run is kept in a
//! file as it ends, so that a part of them can be run, or the rest after a part; the page is made from the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::concurrent_client::Client;
use crate::node::{Node, Target};
use crate::process::{self, Process};
use crate::{TaskError, workspace};

const REPORT: &str = "docs/measurements/concurrency/workers.md";
const RUNS: &str = "docs/measurements/concurrency/workers.jsonl";

#[derive(clap::Args)]
pub struct Arguments {
    /// Workers of a run; several are run one after the other
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,50000,100000,500000")]
    workers: Vec<u32>,
    /// Reads of a run; each worker does its share of them, and at least one
    #[arg(long, default_value_t = 500_000)]
    requests: u32,
    /// Clients that read
    #[arg(long, value_enum, value_delimiter = ',', default_value = "gocql,java,bench")]
    client: Vec<ClientChoice>,
    #[arg(long, value_enum, value_delimiter = ',', default_value = "helenus,cassandra")]
    server: Vec<ServerChoice>,
    /// The Java driver's throttles, each run with --throttled-workers; 0 is none, and run with every number of workers
    #[arg(long, value_delimiter = ',', default_value = "0,100,200,400,600,700,1000")]
    throttle: Vec<u32>,
    #[arg(long, default_value_t = 50_000)]
    throttled_workers: u32,
    /// Run also what the file has already
    #[arg(long)]
    again: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum ClientChoice {
    Gocql,
    Java,
    Bench,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerChoice {
    Helenus,
    Cassandra,
}

impl ServerChoice {
    pub fn label(self) -> &'static str {
        match self {
            ServerChoice::Helenus => "Helenus",
            ServerChoice::Cassandra => "Cassandra 5.0",
        }
    }

    pub fn target(self) -> Target {
        match self {
            ServerChoice::Helenus => Target::Helenus,
            ServerChoice::Cassandra => Target::Cassandra,
        }
    }
}

/// Client that reads.
#[derive(Clone, Copy)]
enum Reader {
    Driver(Client),
    /// `helenus bench run`, as it comes.
    Bench,
}

impl Reader {
    fn label(self) -> String {
        match self {
            Reader::Driver(client) => client.label(),
            Reader::Bench => BENCH.to_owned(),
        }
    }
}

const BENCH: &str = "helenus bench run";

/// One reader on one server, as a line of the file.
#[derive(Clone, Serialize, Deserialize)]
struct Run {
    workers: u32,
    queries: u32,
    reader: String,
    server: String,
    elapsed_s: f64,
    ok: u64,
    errors: BTreeMap<String, u64>,
    latency_us: [u64; 3],
    client_cpu_s: f64,
    client_bytes_max: u64,
    server_cpu_s: f64,
    server_bytes_max: u64,
}

impl Run {
    fn key(&self) -> (u32, &str, &str) {
        (self.workers, &self.reader, &self.server)
    }

    /// Where it stands on the page: throttled ones last.
    fn place(&self) -> (Option<u32>, u32, String, bool) {
        let throttle = self.reader.rsplit(' ').next().and_then(|word| word.parse().ok());
        let is_peer = self.server != ServerChoice::Helenus.label();
        (throttle, self.workers, self.reader.clone(), is_peer)
    }
}

/// Result of a client's run.
struct Outcome {
    elapsed_s: f64,
    ok: u64,
    errors: BTreeMap<String, u64>,
    latency_us: [u64; 3],
}

/// Fields of the report of `helenus bench run --json` that matter here.
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
    let mut runs: Vec<Run> = known(RUNS)?;
    for (workers, reader) in readings(arguments) {
        for server in &arguments.server {
            let (label, server) = (reader.label(), *server);
            let key = (workers, &label[..], server.label());
            if !arguments.again && runs.iter().any(|run| run.key() == key) {
                continue;
            }
            let run = measure(workers, reader, server, arguments)?;
            println!("{}", row(&run).trim_end());
            runs.retain(|known| known.key() != run.key());
            runs.push(run);
            runs.sort_by_key(Run::place);
            keep(RUNS, &runs)?;
        }
    }
    super::write_report(REPORT, &render(&runs))
}

/// Returns the runs: the readers with their numbers of workers.
fn readings(arguments: &Arguments) -> Vec<(u32, Reader)> {
    let has = |client| arguments.client.contains(&client);
    let unthrottled = has(ClientChoice::Java) && arguments.throttle.contains(&0);
    let gocql = has(ClientChoice::Gocql).then_some(Reader::Driver(Client::Gocql));
    let java = unthrottled.then_some(Reader::Driver(Client::Java { throttle: 0 }));
    let bench = has(ClientChoice::Bench).then_some(Reader::Bench);
    let readers: Vec<Reader> = [gocql, java, bench].into_iter().flatten().collect();
    let mut readings: Vec<(u32, Reader)> = Vec::new();
    for workers in &arguments.workers {
        readings.extend(readers.iter().map(|reader| (*workers, *reader)));
    }
    if has(ClientChoice::Java) {
        let throttles = arguments.throttle.iter().filter(|throttle| **throttle > 0);
        readings.extend(throttles.map(|throttle| {
            let client = Client::Java { throttle: *throttle };
            (arguments.throttled_workers, Reader::Driver(client))
        }));
    }
    readings
}

/// The runs that a file has, one a line; none if there is no file yet.
pub(super) fn known<T: for<'a> Deserialize<'a>>(file: &str) -> Result<Vec<T>, TaskError> {
    let text = fs::read_to_string(workspace::path(file)).unwrap_or_default();
    let runs: Result<Vec<T>, _> = text.lines().map(serde_json::from_str).collect();
    runs.map_err(|error| TaskError::Report {
        text: format!("{error} in {file}"),
    })
}

pub(super) fn keep<T: Serialize>(file: &str, runs: &[T]) -> Result<(), TaskError> {
    let lines = runs.iter().filter_map(|run| serde_json::to_string(run).ok());
    let text: String = lines.map(|line| line + "\n").collect();
    super::write_report(file, &text)
}

/// A server of its own for each run, so that none profits from what another one warmed up.
fn measure(
    workers: u32,
    reader: Reader,
    server: ServerChoice,
    arguments: &Arguments,
) -> Result<Run, TaskError> {
    let queries = (arguments.requests / workers).max(1);
    let json = workspace::scratch("concurrency").with_extension("json");
    let node = Node::start(&server.target(), "concurrency", &[])?;
    let mut command = match reader {
        Reader::Driver(client) => client.command(workers, queries)?,
        Reader::Bench => bench_command(node.address(), workers, queries, &json),
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
    let outcome = match reader {
        Reader::Driver(_) => driver_outcome(&watched.output)?,
        Reader::Bench => bench_outcome(&json)?,
    };
    node.check_panics()?;
    node.stop()?;
    Ok(Run {
        workers,
        queries,
        reader: reader.label(),
        server: server.label().to_owned(),
        elapsed_s: outcome.elapsed_s,
        ok: outcome.ok,
        errors: outcome.errors,
        latency_us: outcome.latency_us,
        client_cpu_s: watched.cpu_s,
        client_bytes_max: watched.bytes_max,
        server_cpu_s,
        server_bytes_max,
    })
}

fn bench_command(address: SocketAddr, workers: u32, queries: u32, json: &std::path::Path) -> Command {
    let mut command = Command::new(workspace::program("helenus"));
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
        ..
    } = run;
    let failed: u64 = run.errors.values().sum();
    let mut errors = failed.to_string();
    if failed > 0 {
        let share = 100.0 * failed as f64 / (failed + run.ok) as f64;
        let kinds: Vec<&str> = run.errors.keys().map(String::as_str).collect();
        errors = format!("{failed} ({share:.1} %): {}", kinds.join(", "));
    }
    let [p50, p99, p999] = run.latency_us.map(|us| us as f64 / 1e3);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "| {workers} x {queries} | {reader} | {server} | {:.1} | {p50:.1} | {p99:.1} | {p999:.1} | {:.1} | {:.1} | \
         {:.0} | {:.0} | {errors} |\n",
        run.elapsed_s,
        run.client_cpu_s,
        run.server_cpu_s,
        mib(run.client_bytes_max),
        mib(run.server_bytes_max)
    )
}

fn render(runs: &[Run]) -> String {
    let mut report = format!(
        "# Many workers, one client\n\n\
         `cargo xtask compare concurrency`: each worker reads the same row by a prepared query, one read after the \
         other,\nabout 500,000 reads in all. gocql and the Java driver are as they come, but for the Java driver's \
         throttle where one is\nnamed (with room in its queue for every worker) and its JVM's 400,000 reads to warm \
         up, which both sides' CPU includes;\n`helenus bench run` is as it comes, but for a deadline of 60 s, and \
         not warmed up. Each run has a server of its own,\nand everything shares {} cores: hold as ratios only. \
         Latencies are those of successful reads as the worker sees them;\nmemory is the most that was resident.\n\n\
         | workers x reads | client | server | elapsed s | p50 ms | p99 ms | p99.9 ms | client CPU s | server CPU s \
         | client MiB | server MiB | errors |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        thread::available_parallelism().map_or(0, usize::from)
    );
    for run in runs {
        report.push_str(&row(run));
    }
    report.push_str(&waiting_workers(runs));
    report
}

/// Reports the client's memory of a waiting worker: the difference between the most and the fewest workers.
fn waiting_workers(runs: &[Run]) -> String {
    let mut text = String::new();
    for server in ["Helenus", "Cassandra 5.0"] {
        let of_server = runs
            .iter()
            .filter(|run| run.reader == BENCH && run.server == server);
        let fewest = of_server.clone().min_by_key(|run| run.workers);
        let most = of_server.max_by_key(|run| run.workers);
        let (Some(fewest), Some(most)) = (fewest, most) else {
            continue;
        };
        if fewest.workers == most.workers {
            continue;
        }
        let bytes = most.client_bytes_max.saturating_sub(fewest.client_bytes_max);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n`helenus bench run` against {server}: {} bytes of resident memory for each worker more, from {} to \
             {} workers.\n",
            bytes / u64::from(most.workers - fewest.workers),
            fewest.workers,
            most.workers
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(workers: u32, reader: &str, server: &str, client_bytes_max: u64) -> Run {
        Run {
            workers,
            queries: 1,
            reader: reader.to_owned(),
            server: server.to_owned(),
            elapsed_s: 1.0,
            ok: 9,
            errors: BTreeMap::from([("lost".to_owned(), 1)]),
            latency_us: [1000, 2000, 3000],
            client_cpu_s: 0.5,
            client_bytes_max,
            server_cpu_s: 0.5,
            server_bytes_max: 1 << 20,
        }
    }

    #[test]
    fn a_page_has_every_run_and_what_a_waiting_worker_takes() {
        let runs = [
            run(1_000, BENCH, "Helenus", 10 << 20),
            run(500_000, BENCH, "Helenus", (10 << 20) + 499_000 * 1_500),
            run(500_000, "gocql", "Cassandra 5.0", 0),
        ];
        let page = render(&runs);
        let gocql = "| 500000 x 1 | gocql | Cassandra 5.0 | 1.0 | 1.0 | 2.0 | 3.0 | 0.5 | 0.5 | 0 | 1 | 1 (10.0 %): lost |";
        assert!(page.contains(gocql), "{page}");
        assert!(
            page.contains("against Helenus: 1500 bytes of resident memory"),
            "{page}"
        );
        assert!(!page.contains("against Cassandra"), "{page}");
    }

    #[test]
    fn a_run_is_kept_as_it_was() {
        let line = serde_json::to_string(&run(7, BENCH, "Helenus", 5)).unwrap();
        let read: Run = serde_json::from_str(&line).unwrap();
        assert_eq!((read.key(), read.client_bytes_max), ((7, BENCH, "Helenus"), 5));
    }
}
