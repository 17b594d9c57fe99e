//! `cargo xtask compare callers workers`: from 1,000 to 500,000 workers that read one row over and over, with the drivers
//! that applications use and with `helenus bench run`, against Helenus and against Cassandra. Every run is kept in a
//! file as it ends, so that a part of them can be run, or the rest after a part; the page is made from the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use helenus_loadgen::report::Report;
use serde::{Deserialize, Serialize};

use crate::compare::drivers::{Driver, Figures, Server};
use crate::compare::figures::{cpu_seconds, resident_bytes_max};
use crate::compare::{files, programs};
use crate::node::Node;
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
    server: Vec<Server>,
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

/// Client that reads.
#[derive(Clone, Copy)]
enum Reader {
    Driver(Driver),
    /// `helenus bench run`, as it comes.
    Bench,
}

impl Reader {
    fn label(self) -> String {
        match self {
            Reader::Driver(driver) => driver.label(),
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
        let is_peer = self.server != Server::Helenus.label();
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

/// A run that takes longer has lost its client: the slowest pair here needs two minutes.
const RUN_MAX: Duration = Duration::from_secs(900);

/// Between looks at the processes' memory.
const LOOK: Duration = Duration::from_millis(50);

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let mut runs: Vec<Run> = files::known_runs(RUNS)?;
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
            files::keep_runs(RUNS, &runs)?;
        }
    }
    files::write_page(REPORT, &render(&runs))
}

/// Returns the runs: the readers with their numbers of workers.
fn readings(arguments: &Arguments) -> Vec<(u32, Reader)> {
    let has = |client| arguments.client.contains(&client);
    let unthrottled = has(ClientChoice::Java) && arguments.throttle.contains(&0);
    let gocql = has(ClientChoice::Gocql).then_some(Reader::Driver(Driver::Gocql));
    let java = unthrottled.then_some(Reader::Driver(Driver::Java { throttle: 0 }));
    let bench = has(ClientChoice::Bench).then_some(Reader::Bench);
    let readers: Vec<Reader> = [gocql, java, bench].into_iter().flatten().collect();
    let mut readings: Vec<(u32, Reader)> = Vec::new();
    for workers in &arguments.workers {
        readings.extend(readers.iter().map(|reader| (*workers, *reader)));
    }
    if has(ClientChoice::Java) {
        let throttles = arguments.throttle.iter().filter(|throttle| **throttle > 0);
        readings.extend(throttles.map(|throttle| {
            let driver = Driver::Java { throttle: *throttle };
            (arguments.throttled_workers, Reader::Driver(driver))
        }));
    }
    readings
}

/// A server of its own for each run, so that none profits from what another one warmed up.
fn measure(workers: u32, reader: Reader, server: Server, arguments: &Arguments) -> Result<Run, TaskError> {
    let queries = (arguments.requests / workers).max(1);
    let json = workspace::scratch("concurrency").with_extension("json");
    let node = Node::start(&server.target(), "concurrency", &[])?;
    let mut command = match reader {
        Reader::Driver(driver) => driver.command(workers, queries, node.address())?,
        Reader::Bench => bench_command(node.address(), workers, queries, &json),
    };
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

fn bench_command(address: SocketAddr, workers: u32, queries: u32, json: &Path) -> Command {
    let mut command = programs::helenus();
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
    watched.output = files::read_text(&log)?;
    Ok(watched)
}

fn driver_outcome(output: &str) -> Result<Outcome, TaskError> {
    let figures: Figures = files::parse(output.lines().last().unwrap_or_default())?;
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

fn bench_outcome(json: &Path) -> Result<Outcome, TaskError> {
    let report: Report = files::read(json)?;
    let latency_us = report.latency_us;
    Ok(Outcome {
        elapsed_s: report.elapsed_s,
        ok: report.ops,
        errors: report.errors_by_kind,
        latency_us: [latency_us.p50, latency_us.p99, latency_us.p999],
    })
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
         `cargo xtask compare callers workers`: each worker reads the same row by a prepared query, one read after the \
         other,\nabout 500,000 reads in all. gocql and the Java driver are as they come, but for the Java driver's \
         throttle where one is\nnamed (with room in its queue for every worker) and its JVM's 400,000 reads to warm \
         up, which both sides' CPU includes;\n`helenus bench run` is as it comes, but for a deadline of 60 s, and \
         not warmed up. Each run has a server of its own,\nand everything shares {} cores: hold as ratios only. \
         Latencies are those of successful reads as the worker sees them;\nmemory is the most that was resident.\n\n\
         | workers x reads | client | server | elapsed s | p50 ms | p99 ms | p99.9 ms | client CPU s | server CPU s \
         | client MiB | server MiB | errors |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        programs::cores()
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
