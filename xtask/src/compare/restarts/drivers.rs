//! `cargo xtask compare restarts drivers`: what unmodified drivers report to their callers when the only node behind them
//! is restarted under a steady load, Helenus and Cassandra. They know nothing of drains, and with one node there is
//! nowhere else to go: what is counted is how mild the ending is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::compare::drivers::{Driver, Figures, Server};
use crate::compare::{files, programs};
use crate::node::Node;
use crate::process::{self, Process};
use crate::{TaskError, workspace};

const REPORT: &str = "docs/measurements/concurrency/driver-restarts.md";
const RUNS: &str = "docs/measurements/concurrency/driver-restarts.jsonl";

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 5)]
    restarts: u32,
    /// Reads a second
    #[arg(long, default_value_t = 2_000)]
    rate: u32,
    /// Workers with one read at a time each
    #[arg(long, default_value_t = 200)]
    workers: u32,
    #[arg(long, value_enum, value_delimiter = ',', default_value = "helenus,cassandra")]
    server: Vec<Server>,
    #[arg(long, value_enum, value_delimiter = ',', default_value = "gocql,java")]
    client: Vec<DriverChoice>,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum DriverChoice {
    Gocql,
    Java,
}

#[derive(Serialize, Deserialize)]
struct Run {
    driver: String,
    server: String,
    restarts: u32,
    rate: u32,
    workers: u32,
    /// From the signal to the ready line, in all.
    away_s: f64,
    ok: u64,
    errors: BTreeMap<String, u64>,
    p99_us: u64,
}

/// Between a node's return and the next restart: longer than the drivers wait before they connect again.
const PAUSE: Duration = Duration::from_secs(3);

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let mut runs: Vec<Run> = files::known_runs(RUNS)?;
    for driver in &arguments.client {
        for server in &arguments.server {
            let run = measure(*driver, *server, arguments)?;
            println!("{}", row(&run).trim_end());
            runs.retain(|known| known.driver != run.driver || known.server != run.server);
            runs.push(run);
            runs.sort_by(|one, other| {
                (&one.driver, &one.server)
                    .cmp(&(&other.driver, &other.server))
                    .reverse()
            });
            files::keep_runs(RUNS, &runs)?;
        }
    }
    files::write_page(REPORT, &render(&runs))
}

fn measure(driver: DriverChoice, server: Server, arguments: &Arguments) -> Result<Run, TaskError> {
    let Arguments {
        restarts,
        rate,
        workers,
        ..
    } = *arguments;
    let driver = match driver {
        DriverChoice::Gocql => Driver::Gocql,
        DriverChoice::Java => Driver::Java { throttle: 0 },
    };
    // Before the first restart the driver's virtual machine starts, connects and makes its table, on a cold server. That one
    // takes its time to come back; a load that outlasts the last restart does no harm.
    let (before, away) = match server {
        Server::Helenus => (Duration::from_secs(6), Duration::from_secs(1)),
        Server::Cassandra => (Duration::from_secs(25), Duration::from_secs(15)),
    };
    let length = before + (PAUSE + away) * (restarts + 1);
    let queries = (length.as_secs() as u32 * rate).div_ceil(workers);
    let mut node = Node::start(&server.target(), "driver-restarts", &[])?;
    let mut command = driver.command(workers, queries, node.address())?;
    let log = workspace::scratch("driver-restarts-client").with_extension("out");
    let complaints = log.with_extension("err");
    command
        .env("REQUESTS_PER_S", rate.to_string())
        .stdin(Stdio::null())
        .stdout(process::log_file(&log)?)
        .stderr(process::log_file(&complaints)?);
    let mut program = Process::start(&mut command)?;
    thread::sleep(before);
    let mut away = Duration::ZERO;
    let mut done = 0;
    while done < restarts && program.finished()?.is_none() {
        let start = Instant::now();
        node.restart()?;
        away += start.elapsed();
        done += 1;
        thread::sleep(PAUSE);
    }
    program.wait_until(Instant::now() + 3 * length)?;
    let figures = figures(&log, &complaints)?;
    node.check_panics()?;
    node.stop()?;
    Ok(Run {
        driver: figures.client,
        server: server.label().to_owned(),
        restarts: done,
        rate,
        workers,
        away_s: away.as_secs_f64(),
        ok: figures.ok,
        errors: figures.errors,
        p99_us: figures.latency_us_p99,
    })
}

fn figures(log: &Path, complaints: &Path) -> Result<Figures, TaskError> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| TaskError::Report {
        text: format!(
            "{error} in {last:?}; what the driver said is in {}",
            complaints.display()
        ),
    })
}

fn row(run: &Run) -> String {
    let errors: u64 = run.errors.values().sum();
    let restarts = f64::from(run.restarts.max(1));
    let mut kinds: Vec<(&String, &u64)> = run.errors.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    format!(
        "| {} | {} | {} | {:.2} | {} | {errors} | {:.0} | {:.1} | {} |\n",
        run.driver,
        run.server,
        run.restarts,
        run.away_s / restarts,
        run.ok,
        errors as f64 / restarts,
        run.p99_us as f64 / 1e3,
        kinds.join(", ")
    )
}

fn render(runs: &[Run]) -> String {
    let mut report = String::from(
        "# What unmodified drivers say of a restart\n\n\
         `cargo xtask compare restarts drivers`: one node behind a driver as it comes, reads of one row evenly spaced over \
         time, the\nnode stopped by SIGTERM and started again under them. A worker whose read takes longer does the next \
         ones at once. What a\ndriver cannot send while its only node is away is an error to its caller, so the errors \
         grow with the time away.\n",
    );
    if let Some(run) = runs.first() {
        let _infallible = writeln!(
            report,
            "{} reads/s by {} workers. `helenus bench run` under the same restarts: \
             [rolling-restart.md](rolling-restart.md).",
            run.rate, run.workers
        );
    }
    report.push_str(
        "\n| driver | server | restarts | s away, each | reads answered | errors | per restart | p99 ms | kinds |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for run in runs {
        report.push_str(&row(run));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_restart_and_by_kind() {
        let run = Run {
            driver: "gocql".to_owned(),
            server: "Helenus".to_owned(),
            restarts: 4,
            rate: 100,
            workers: 10,
            away_s: 1.0,
            ok: 1000,
            errors: BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 5)]),
            p99_us: 1500,
        };
        assert_eq!(
            row(&run),
            "| gocql | Helenus | 4 | 0.25 | 1000 | 8 | 2 | 1.5 | 5 b, 3 a |\n"
        );
    }
}
