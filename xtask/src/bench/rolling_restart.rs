//! `cargo xtask bench rolling-restart`: two nodes behind one client, restarted in turns under a steady load. A ledger
//! tells what was executed: every request writes a row of its own on whichever node takes it, so a row on both nodes
//! was executed twice, and an acknowledged row on none was lost.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use crate::native::Connection;
use crate::node::{Node, Target};
use crate::process::{self, Process};
use crate::{TaskError, workspace};

const REPORT: &str = "bench/results/concurrency/rolling-restart.md";

#[derive(clap::Args)]
pub struct Arguments {
    /// Restarts, each of the node that was not restarted last
    #[arg(long, default_value_t = 50)]
    restarts: u32,
    /// Requests a second
    #[arg(long, default_value_t = 20_000)]
    rate: u32,
    /// Seconds between a node's return and the next restart
    #[arg(long, default_value_t = 1)]
    pause: u32,
    /// The nodes' --commitlog-sync. Only `periodic` does not wait for a disk that the restarting node keeps busy, too
    #[arg(long, default_value = "periodic")]
    commitlog_sync: String,
}

/// What `helenus bench run --json` says that matters here.
#[derive(Deserialize)]
struct Figures {
    ops: u64,
    errors: u64,
    errors_by_kind: std::collections::BTreeMap<String, u64>,
    ops_per_s: f64,
    sent_again: u64,
    latency_us: Latencies,
}

#[derive(Deserialize)]
struct Latencies {
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

/// Requests that wait for a node that is away, at most; far beyond what a rate needs.
const WORKERS: u32 = 20_000;

/// The load alone, without restarts, to compare with.
const QUIET_SECONDS: u32 = 10;

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    super::build_helenus()?;
    let options = ["--commitlog-sync", &arguments.commitlog_sync[..]];
    let mut nodes = vec![
        Node::start(&Target::Helenus, "restart-a", &options)?,
        Node::start(&Target::Helenus, "restart-b", &options)?,
    ];
    let addresses: Vec<SocketAddr> = nodes.iter().map(Node::address).collect();
    for address in &addresses {
        create_ledger(*address)?;
    }
    let folder = workspace::scratch("rolling-restart");
    let quiet = Load::start(&folder, "quiet", &addresses, arguments.rate, QUIET_SECONDS)?.finish()?;
    // Ends when it is told to: long enough for any restart.
    let load = Load::start(&folder, "restarts", &addresses, arguments.rate, 3600)?;
    thread::sleep(Duration::from_secs(2));
    for restart in 0..arguments.restarts as usize {
        let index = restart % nodes.len();
        nodes[index].restart()?;
        println!("restart {} of {}: node {index}", restart + 1, arguments.restarts);
        thread::sleep(Duration::from_secs(arguments.pause.into()));
    }
    let restarted = load.stop()?;
    let (first, second) = (
        ledger(addresses[0], "restarts")?,
        ledger(addresses[1], "restarts")?,
    );
    let twice = first.intersection(&second).count();
    let executed = (first.len() + second.len() - twice) as u64;
    for node in nodes {
        node.check_panics()?;
        node.stop()?;
    }
    let report = render(arguments, &quiet, &restarted, twice, executed);
    println!("{report}");
    if restarted.errors > 0 || twice > 0 || executed < restarted.ops {
        return Err(TaskError::Report { text: report });
    }
    super::write_report(REPORT, &report)
}

const TIMEOUT: Duration = Duration::from_secs(30);

fn create_ledger(address: SocketAddr) -> Result<(), TaskError> {
    let mut connection = Connection::open(address, TIMEOUT)?;
    connection.query(
        "CREATE KEYSPACE ledger WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    for table in ["quiet", "restarts"] {
        connection.query(&format!("CREATE TABLE ledger.{table} (id bigint PRIMARY KEY)"))?;
    }
    Ok(())
}

/// The ids of a node's rows, read in slices of the ring so that no answer is too large.
fn ledger(address: SocketAddr, table: &str) -> Result<HashSet<i64>, TaskError> {
    const SLICES: i128 = 256;
    let mut connection = Connection::open(address, TIMEOUT)?;
    let mut ids = HashSet::new();
    // The ring's 2^64 positions in equal slices; no partition has the token i64::MIN.
    let bound = |slice: i128| (slice << 64) / SLICES + i128::from(i64::MIN);
    for slice in 0..SLICES {
        let (from, to) = (bound(slice), bound(slice + 1).min(i64::MAX.into()));
        let rows = connection.query(&format!(
            "SELECT id FROM ledger.{table} WHERE token(id) > {from} AND token(id) <= {to}"
        ))?;
        ids.extend(rows.into_iter().filter_map(|row| {
            let cell = row.into_iter().next()??;
            Some(i64::from_be_bytes(cell.try_into().ok()?))
        }));
    }
    Ok(ids)
}

/// A load generator of its own process.
struct Load {
    process: Process,
    json: PathBuf,
}

impl Load {
    fn start(
        folder: &Path,
        table: &str,
        addresses: &[SocketAddr],
        rate: u32,
        seconds: u32,
    ) -> Result<Load, TaskError> {
        let (json, workload) = (
            folder.join(format!("{table}.json")),
            folder.join(format!("{table}.yaml")),
        );
        // Not idempotent: whatever may have run is not to be sent again.
        let text = format!(
            "statements:\n  write:\n    cql: INSERT INTO ledger.{table} (id) VALUES (?)\n    \
             values: [{{sequence: {{}}}}]\n    idempotent: false\n"
        );
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&workload, text));
        written.map_err(|source| TaskError::File {
            path: workload.clone(),
            source,
        })?;
        let hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        let mut command = Command::new(workspace::target().join("release/helenus"));
        command
            .args([
                "bench",
                "run",
                "--quiet",
                "--no-set-up",
                "--only-these-hosts",
                "--warm-up",
                "0s",
            ])
            .args(["--hosts", &hosts.join(","), "--rate", &rate.to_string()])
            .args([
                "--concurrency",
                &WORKERS.to_string(),
                "--duration",
                &format!("{seconds}s"),
            ])
            .arg("--workload")
            .arg(&workload)
            .arg("--json")
            .arg(&json)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Ok(Load {
            process: Process::start(&mut command)?,
            json,
        })
    }

    /// Waits for its end.
    fn finish(mut self) -> Result<Figures, TaskError> {
        let deadline = std::time::Instant::now() + Duration::from_secs(120);
        self.process.wait_until(deadline)?;
        self.figures()
    }

    /// Asks it to end now and to report.
    fn stop(mut self) -> Result<Figures, TaskError> {
        process::send_signal("INT", &self.process.id().to_string());
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        self.process.wait_until(deadline)?;
        self.figures()
    }

    fn figures(&self) -> Result<Figures, TaskError> {
        let text = fs::read_to_string(&self.json).map_err(|source| TaskError::File {
            path: self.json.clone(),
            source,
        })?;
        serde_json::from_str(&text).map_err(|error| TaskError::Report {
            text: format!("{error} in {}", self.json.display()),
        })
    }
}

fn render(
    arguments: &Arguments,
    quiet: &Figures,
    restarted: &Figures,
    twice: usize,
    executed: u64,
) -> String {
    let Arguments {
        restarts,
        rate,
        commitlog_sync,
        ..
    } = arguments;
    let mut report = format!(
        "# Rolling restarts\n\n\
         `cargo xtask bench rolling-restart --restarts {restarts} --rate {rate} --commitlog-sync {commitlog_sync}`: two nodes behind one client of \
         `helenus bench run`,\nopen loop, writes that are not idempotent; one node after the other is stopped by \
         SIGTERM and started again.\nLatencies count from the intended start. Everything shares {} cores.\n\n\
         | | requests | errors | per s | sent again, unseen | p50 ms | p99 ms | p99.9 ms | max ms |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    for (name, figures) in [("quiet", quiet), ("restarts", restarted)] {
        let ms = |us: u64| us as f64 / 1e3;
        // Writing to a String cannot fail.
        let _ = writeln!(
            report,
            "| {name} | {} | {} | {:.0} | {} | {:.2} | {:.2} | {:.2} | {:.2} |",
            figures.ops,
            figures.errors,
            figures.ops_per_s,
            figures.sent_again,
            ms(figures.latency_us.p50),
            ms(figures.latency_us.p99),
            ms(figures.latency_us.p999),
            ms(figures.latency_us.max)
        );
    }
    let _ = writeln!(
        report,
        "\nThe ledger: {executed} rows on the two nodes, {} acknowledged, {twice} executed twice, {} missing. Rows \
         beyond the\nacknowledged were under way when the load was ended. p99 under restarts is {:.1} of the quiet one.",
        restarted.ops,
        restarted.ops.saturating_sub(executed),
        restarted.latency_us.p99 as f64 / quiet.latency_us.p99.max(1) as f64
    );
    if !restarted.errors_by_kind.is_empty() {
        let _ = writeln!(report, "\nErrors: {:?}", restarted.errors_by_kind);
    }
    report
}
