//! `cargo xtask compare goodput storm`: connections that can only be refused, on Helenus and on a server that does nothing else; and
//! what a steady load notices of them.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::TaskError;
use crate::compare::{figures, files, programs};
use crate::node::{Node, Target};
use crate::process::{self, Process, ProcessError};

#[derive(clap::Args)]
pub struct Arguments {
    /// Connects of each storm
    #[arg(long, default_value_t = 100_000)]
    connects: u64,
    /// Storms of each kind on each server, in turns; the medians are reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of the steady load, without and with each storm, in turns; the medians of those in which the hypervisor left
    /// the machine alone are reported
    #[arg(long, default_value_t = 12)]
    steady_s: usize,
    /// Connects a second beside the steady load
    #[arg(long, default_value_t = 10_000)]
    steady_connects_per_s: u64,
}

const REPORT: &str = "docs/measurements/storm.md";

/// The ways to be refused that the floor knows too.
const MODES: [&str; 4] = ["wrong-version", "bad-first-frame", "silence", "half-frame"];

/// Where no answer is due, clients outrun the server and wait for a second whenever its backlog is full; and a bad login
/// takes four times as long as the others. One part in so many of the connects tells as much.
const SLOW_MODES_SHARE: u64 = 5;

/// Way to be refused that the floor does not know: it takes a STARTUP, its answer and a password to find out.
const BAD_LOGIN: &str = "bad-login";

/// Requests a second of the steady load: half of what two cores that also run the clients can do.
const STEADY_PER_S: &str = "5000";

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let (mut floor, floor_address) = programs::start_floor("refusing")?;
    let node = Node::start(&Target::Helenus, "bench-storm", &["--shards", "1"])?;
    let node_pid = node.process_id().unwrap_or_default();
    let mut report = String::from(
        "# Connections that can only be refused\n\n\
         `cargo xtask compare goodput storm`: `helenus bench storm`, 10 threads, over loopback, clients and server sharing two\n\
         cores; medians. Silence, half a frame and bad logins with a fifth of the connects. The floor\n\
         is `helenus-perf refusing`: accept, one read, one write, close, on epoll.\n\n\
         | storm | server | connects/s | p50 us | p99 us | errors | server CPU us/connect | of the floor |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let rounds = arguments.rounds.max(1);
    for mode in MODES {
        let connects = match mode {
            "silence" | "half-frame" => arguments.connects / SLOW_MODES_SHARE,
            _ => arguments.connects,
        };
        let mut reports = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (server, (address, pid)) in [(floor_address, floor.id()), (node.address(), node_pid)]
                .into_iter()
                .enumerate()
            {
                eprintln!("{mode} on {address}");
                reports[server].push(storm(address, pid, mode, connects)?);
            }
        }
        let floor_cpu_us = median(&reports[0], "server_cpu_us_per_connect");
        for (name, reports) in ["the floor", "Helenus"].into_iter().zip(&reports) {
            let ratio = median(reports, "server_cpu_us_per_connect") / floor_cpu_us;
            report.push_str(&row(mode, name, reports, &format!("{ratio:.2}")));
        }
    }
    report.push_str(&bad_logins(arguments)?);
    report.push_str(&steady_loads(node.address(), floor_address, arguments)?);
    floor.kill();
    node.check_panics()?;
    node.stop()?;
    files::publish(REPORT, &report)
}

/// A wrong password, on a node that asks for one.
fn bad_logins(arguments: &Arguments) -> Result<String, TaskError> {
    let options = ["--shards", "1", "--authenticator", "password"];
    let node = Node::start(&Target::Helenus, "bench-storm-logins", &options)?;
    let pid = node.process_id().unwrap_or_default();
    let reports = (0..arguments.rounds.max(1))
        .map(|_| {
            storm(
                node.address(),
                pid,
                BAD_LOGIN,
                arguments.connects / SLOW_MODES_SHARE,
            )
        })
        .collect::<Result<Vec<Value>, TaskError>>()?;
    node.check_panics()?;
    node.stop()?;
    Ok(row(BAD_LOGIN, "Helenus", &reports, "-"))
}

fn row(mode: &str, server: &str, reports: &[Value], of_the_floor: &str) -> String {
    format!(
        "| {mode} | {server} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {of_the_floor} |\n",
        median(reports, "connects_per_s"),
        median(reports, "latency_us_p50"),
        median(reports, "latency_us_p99"),
        median(reports, "errors"),
        median(reports, "server_cpu_us_per_connect"),
    )
}

fn storm(address: SocketAddr, pid: u32, mode: &str, connects: u64) -> Result<Value, TaskError> {
    let arguments = [
        "--mode",
        mode,
        "--connects",
        &connects.to_string(),
        "--server-pid",
        &pid.to_string(),
    ];
    files::parse(&process::run_quietly(&mut storm_command(address, &arguments))?)
}

fn storm_command(address: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = programs::helenus();
    command
        .args(["bench", "storm", "--json", "--address", &address.to_string()])
        .args(arguments);
    command
}

/// Measures a steady load beside storms: a second without one, a second beside one on the floor, a second beside one on
/// Helenus, and again.
fn steady_loads(
    address: SocketAddr,
    floor_address: SocketAddr,
    arguments: &Arguments,
) -> Result<String, TaskError> {
    let kinds = [
        ("none", None),
        ("on the floor", Some(floor_address)),
        ("on Helenus", Some(address)),
    ];
    steady(address, &["--warm-up", "0s", "--duration", "100ms"])?;
    let mut reports = [Vec::new(), Vec::new(), Vec::new()];
    for round in 1..=arguments.steady_s.max(1) {
        eprintln!("a steady load, round {round}");
        for ((_, target), reports) in kinds.iter().zip(&mut reports) {
            reports.push(second_beside_storm(
                address,
                *target,
                arguments.steady_connects_per_s,
            )?);
        }
    }
    let mut table = format!(
        "\n`helenus bench run --preset read --rate {STEADY_PER_S}` on Helenus, and {} connects a second with a wrong version\n\
         on the same two cores; a second of each in turns, medians of the seconds in which nothing was stolen.\n\n\
         | storm | p50 us | p99 us | of none | errors | seconds |\n|---|---|---|---|---|---|\n",
        arguments.steady_connects_per_s
    );
    let quiet = reports.map(quiet_ones);
    let p99 = |reports: &[Value]| median(reports, "p99");
    for ((name, _), reports) in kinds.iter().zip(&quiet) {
        let errors: u64 = reports
            .iter()
            .filter_map(|report| report["errors"].as_u64())
            .sum();
        table.push_str(&format!(
            "| {name} | {:.0} | {:.0} | {:.2} | {errors} | {} |\n",
            median(reports, "p50"),
            p99(reports),
            p99(reports) / p99(&quiet[0]),
            reports.len(),
        ));
    }
    Ok(table)
}

/// Those in which nothing was stolen; if there is none, all.
fn quiet_ones(reports: Vec<Value>) -> Vec<Value> {
    let is_quiet = |report: &Value| report["stolen_ticks"] == 0;
    if reports.iter().any(is_quiet) {
        reports.into_iter().filter(is_quiet).collect()
    } else {
        reports
    }
}

/// The latencies of a steady load while connects go to `target`, and what was stolen meanwhile.
fn second_beside_storm(
    address: SocketAddr,
    target: Option<SocketAddr>,
    connects_per_s: u64,
) -> Result<Value, TaskError> {
    // It begins before the load and is killed after it.
    const STORM_S_MAX: u64 = 10;
    let storm = match target {
        None => None,
        Some(target) => {
            let (rate, connects) = (
                connects_per_s.to_string(),
                (connects_per_s * STORM_S_MAX).to_string(),
            );
            let mut command = storm_command(target, &["--rate", &rate, "--connects", &connects]);
            Some(Process::start(command.stdout(Stdio::null()))?)
        }
    };
    let stolen_before = stolen_ticks();
    let report = steady(
        address,
        &["--no-set-up", "--warm-up", "500ms", "--duration", "1s"],
    )?;
    let stolen_ticks = stolen_ticks().saturating_sub(stolen_before);
    if let Some(mut storm) = storm {
        storm.kill();
    }
    let latency_us = &report["latency_us"];
    Ok(json!({
        "p50": latency_us["p50"],
        "p99": latency_us["p99"],
        "errors": report["errors"],
        "stolen_ticks": stolen_ticks,
    }))
}

fn steady(address: SocketAddr, arguments: &[&str]) -> Result<Value, TaskError> {
    let output = programs::helenus()
        .args([
            "bench", "run", "--preset", "read", "--keys", "10000", "--quiet", "--json", "-",
        ])
        .args(["--rate", STEADY_PER_S, "--hosts", &address.to_string()])
        .args(arguments)
        .output()
        .map_err(|source| ProcessError::Start {
            program: "helenus bench run".to_owned(),
            source,
        })?;
    files::parse(&String::from_utf8_lossy(&output.stdout))
}

/// Processor time that the hypervisor gave to others since the start, in hundredths of a second; 0 where /proc does not
/// tell.
fn stolen_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let stolen = stat.lines().next().and_then(|all| all.split_whitespace().nth(8));
    stolen.and_then(|ticks| ticks.parse().ok()).unwrap_or_default()
}

fn median(reports: &[Value], key: &str) -> f64 {
    figures::median(reports.iter().filter_map(|report| report[key].as_f64()))
}
