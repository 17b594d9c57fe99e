//! `cargo xtask compare restarts rolling`: two nodes behind one client, restarted in turns under a steady load. A ledger
//! tells what was executed: every request writes a row of its own on whichever node takes it, so a row on both nodes
//! was executed twice, and an acknowledged row on none was lost. The quiet state is measured in the same run, before,
//! between and after the restarts, and both without the time that the hypervisor took.

mod trace;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use helenus_loadgen::report::Report;

use crate::compare::load_generator::{self, now_us};
use crate::compare::{files, programs};
use crate::native::Connection;
use crate::node::{Node, Target};
use crate::process::{self, Process};
use crate::{TaskError, workspace};
use trace::{Restart, Trace};

const REPORT: &str = "docs/measurements/concurrency/rolling-restart.md";

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

/// Requests that wait for a node that is away, at most; far beyond what a rate needs.
const WORKERS: u32 = 20_000;

/// The load alone, to compare with: before the first restart, after the last, and after every [`RESTARTS_AT_ONCE`].
const QUIET: Duration = Duration::from_secs(8);
const RESTARTS_AT_ONCE: usize = 10;

/// Before anything counts: connections, the first pages of memory.
const WARM_UP: Duration = Duration::from_secs(2);

/// Only requests that take longer are traced: the p99 of a quiet machine is above.
const TRACED_OVER: &str = "100us";

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
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
    let load = Load::start(&folder, &addresses, arguments.rate)?;
    thread::sleep(WARM_UP);
    let mut times = Times::default();
    times.quiet();
    for restart in 0..arguments.restarts as usize {
        let index = restart % nodes.len();
        times.restart(&mut nodes[index], arguments.pause)?;
        println!("restart {} of {}: node {index}", restart + 1, arguments.restarts);
        if (restart + 1).is_multiple_of(RESTARTS_AT_ONCE) || restart + 1 == arguments.restarts as usize {
            times.quiet();
        }
    }
    let (report, trace) = load.stop()?;
    let (first, second) = (ledger(addresses[0])?, ledger(addresses[1])?);
    let twice = first.intersection(&second).count();
    let executed = (first.len() + second.len() - twice) as u64;
    for node in nodes {
        node.check_panics()?;
        node.stop()?;
    }
    let page = render(arguments, &report, &trace, &times, Ledger { executed, twice });
    if report.errors > 0 || twice > 0 || executed < report.ops {
        return Err(TaskError::Report { text: page });
    }
    files::publish(REPORT, &page)
}

/// When there were restarts, and when there were none.
#[derive(Default)]
struct Times {
    quiet: Vec<Range<u64>>,
    restarts: Vec<Restart>,
}

impl Times {
    fn quiet(&mut self) {
        let start = now_us();
        thread::sleep(QUIET);
        self.quiet.push(start..now_us());
    }

    fn restart(&mut self, node: &mut Node, pause_s: u32) -> Result<(), TaskError> {
        let signalled_us = now_us();
        let mut left_us = signalled_us;
        node.restart_noting(|| left_us = now_us())?;
        let ready_us = now_us();
        thread::sleep(Duration::from_secs(pause_s.into()));
        self.restarts.push(Restart {
            signalled_us,
            left_us,
            ready_us,
            ended_us: now_us(),
        });
        Ok(())
    }
}

/// Counts of the rows that the two nodes have in the end.
struct Ledger {
    executed: u64,
    twice: usize,
}

const TIMEOUT: Duration = Duration::from_secs(30);

fn create_ledger(address: SocketAddr) -> Result<(), TaskError> {
    let mut connection = Connection::open(address, TIMEOUT)?;
    connection.query(
        "CREATE KEYSPACE ledger WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    connection.query("CREATE TABLE ledger.rows (id bigint PRIMARY KEY)")?;
    Ok(())
}

/// The ids of a node's rows, read in slices of the ring so that no answer is too large.
fn ledger(address: SocketAddr) -> Result<HashSet<i64>, TaskError> {
    const SLICES: i128 = 256;
    let mut connection = Connection::open(address, TIMEOUT)?;
    let mut ids = HashSet::new();
    // The ring's 2^64 positions in equal slices; no partition has the token i64::MIN.
    let bound = |slice: i128| (slice << 64) / SLICES + i128::from(i64::MIN);
    for slice in 0..SLICES {
        let (from, to) = (bound(slice), bound(slice + 1).min(i64::MAX.into()));
        let rows = connection.query(&format!(
            "SELECT id FROM ledger.rows WHERE token(id) > {from} AND token(id) <= {to}"
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
    trace: PathBuf,
}

impl Load {
    fn start(folder: &Path, addresses: &[SocketAddr], rate: u32) -> Result<Load, TaskError> {
        let trace = folder.join("trace.csv");
        // Not idempotent: whatever may have run is not to be sent again.
        let text = "statements:\n  write:\n    cql: INSERT INTO ledger.rows (id) VALUES (?)\n    \
                    values: [{sequence: {}}]\n    idempotent: false\n";
        let mut command = load_generator::command(addresses);
        command
            .args(["--no-set-up", "--warm-up", "0s"])
            // Ends when it is told to: long enough for any restarts.
            .args(["--rate", &rate.to_string(), "--duration", "3600s"])
            .args(["--concurrency", &WORKERS.to_string()])
            .arg("--trace")
            .arg(&trace)
            .args(["--trace-over", TRACED_OVER]);
        let json = load_generator::add_workload(&mut command, folder, text)?;
        Ok(Load {
            process: Process::start(&mut command)?,
            json,
            trace,
        })
    }

    /// Asks it to end now and to report.
    fn stop(mut self) -> Result<(Report, Trace), TaskError> {
        process::send_signal("INT", &self.process.id().to_string());
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        self.process.wait_until(deadline)?;
        Ok((
            files::read(&self.json)?,
            Trace::parse(&files::read_text(&self.trace)?),
        ))
    }
}

fn render(
    arguments: &Arguments,
    report: &Report,
    trace: &Trace,
    times: &Times,
    Ledger { executed, twice }: Ledger,
) -> String {
    let Arguments {
        restarts,
        rate,
        commitlog_sync,
        ..
    } = arguments;
    let mut page = format!(
        "# Rolling restarts\n\n\
         `cargo xtask compare restarts rolling --restarts {restarts} --rate {rate} --commitlog-sync {commitlog_sync}`: two nodes behind one client of \
         `helenus bench run`,\nopen loop, writes that are not idempotent; one node after the other is stopped by \
         SIGTERM and started again.\nLatencies count from the intended start. Everything shares {} cores. The quiet \
         state is that of the same run, before,\nbetween and after the restarts. *Undisturbed* are the tenths of a \
         second in which the hypervisor took no processor away,\nnor in the one before.\n\n\
         | | slices | requests | p99 ms | p99.9 ms | max ms |\n|---|---|---|---|---|---|\n",
        programs::cores()
    );
    let under_restarts: Vec<Range<u64>> = times
        .restarts
        .iter()
        .map(|restart| restart.signalled_us..restart.ended_us)
        .collect();
    let ms = |us: Option<u64>| us.map_or("< 0.1".to_owned(), |us| format!("{:.2}", us as f64 / 1e3));
    for (name, times, counts_only) in [
        ("quiet, undisturbed", &times.quiet, true),
        ("restarts, undisturbed", &under_restarts, true),
        ("quiet, all", &times.quiet, false),
        ("restarts, all", &under_restarts, false),
    ] {
        let tail = trace.tail(times, counts_only);
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "| {name} | {} | {} | {} | {} | {} |",
            tail.slices,
            tail.ops,
            ms(tail.p99_us),
            ms(tail.p999_us),
            ms(tail.max_us)
        );
    }
    let quiet_p99_us = trace.tail(&times.quiet, true).p99_us.unwrap_or(100);
    let p99_us = trace.tail(&under_restarts, true).p99_us.unwrap_or(100);
    let _ = writeln!(
        page,
        "\n{} requests, {} errors, {} sent again, unseen. The ledger: {executed} rows on the two nodes, {} acknowledged, \
         {twice} executed\ntwice, {} missing. Rows beyond the acknowledged were under way when the load was ended. \
         p99 under restarts is {:.1} of the quiet one.\n\n\
         Requests that took more than three times the quiet p99, in undisturbed slices:\n",
        report.ops,
        report.errors,
        report.sent_again,
        report.ops,
        report.ops.saturating_sub(executed),
        p99_us as f64 / quiet_p99_us as f64
    );
    let over_us = 3 * quiet_p99_us;
    page.push_str(&trace::render(&trace.phases(&times.restarts, over_us), over_us));
    if !report.errors_by_kind.is_empty() {
        let _ = writeln!(page, "\nErrors: {:?}", report.errors_by_kind);
    }
    page
}
