//! `cargo xtask compare`: Helenus beside Cassandra, with the clients that people use.

mod admission_cost;
pub mod callgrind;
mod client_cost;
mod compaction;
mod concurrency;
mod concurrent_client;
mod driver_restarts;
mod errors;
mod goodput;
mod goodput_disturbed;
mod goodput_generators;
mod goodput_memory;
mod goodput_server;
mod goodput_statements;
mod insns;
mod load_generator;
mod mixed;
mod peer;
mod process_figures;
mod reads;
pub mod replacements;
mod rolling_restart;
mod steady_state;
mod storm;
mod throttle;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command as Program, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Subcommand;

use crate::process::Process;
use crate::{TaskError, workspace};

#[derive(Subcommand)]
pub enum Command {
    /// Cost of admission for a request where nothing is overloaded, by callgrind
    AdmissionCost(admission_cost::Arguments),
    /// Cost of a request for the client, ours and other drivers
    ClientCost(client_cost::Arguments),
    /// From 1,000 to 500,000 workers, with drivers and with `helenus bench run`
    Concurrency(concurrency::Arguments),
    /// Flush and major compaction of the same rows on both, by processor time
    Compaction(compaction::Arguments),
    /// Many workers on one client object, each reading one row again and again
    ConcurrentClient(concurrent_client::Arguments),
    /// Reports of unmodified drivers when their node is restarted under them
    DriverRestarts(driver_restarts::Arguments),
    /// Cost of each kind of error beside a success, by callgrind
    Errors(errors::Arguments),
    /// Requests answered in time, from a quarter to ten times of what a core can do, with admission and without
    Goodput(goodput::Arguments),
    /// Goodput when something happens to the server, and beside loads that ask for more than there is
    GoodputDisturbed(goodput_disturbed::Arguments),
    /// Goodput by our own generator and by another one, in turns
    GoodputGenerators(goodput_generators::Arguments),
    /// Requests answered in time, of the statements that applications send: in memory, on two shards, from a disk
    GoodputStatements(goodput_statements::Arguments),
    /// A node's memory while ten times what it can do is offered
    GoodputMemory(goodput_memory::Arguments),
    /// Goodput of Cassandra, on the same axes
    GoodputPeer(goodput::PeerArguments),
    /// The same wire load on both: throughput, latency, server CPU per operation
    Peer(peer::Arguments),
    /// A node replaced by other processes, or restarted, under unmodified clients: errors seen, requests executed twice
    Replacements(replacements::Arguments),
    /// Two nodes restarted in turns under load: errors seen, requests executed twice
    RollingRestart(rolling_restart::Arguments),
    /// Writes that never stop, on files: cost, latency, space over time, beside Cassandra
    SteadyState(steady_state::Arguments),
    /// Connections that can only be refused, beside the floor; and what a steady load notices of them
    Storm(storm::Arguments),
    /// The limit that the client finds beside limits chosen by hand
    Throttle(throttle::Arguments),
    /// Instructions and allocations per operation, in process, by callgrind
    Insns(insns::Arguments),
    /// A steady load on a node that flushes and compacts all the time, beside a quiet one
    Mixed(mixed::Arguments),
    /// Disk reads, instructions and speed of reads from a large partition, beside what was set out for them
    Reads(reads::Arguments),
}

pub fn run(command: Command) -> Result<(), TaskError> {
    match command {
        Command::AdmissionCost(arguments) => admission_cost::run(&arguments),
        Command::ClientCost(arguments) => client_cost::run(&arguments),
        Command::Concurrency(arguments) => concurrency::run(&arguments),
        Command::Compaction(arguments) => compaction::run(&arguments),
        Command::ConcurrentClient(arguments) => concurrent_client::run(&arguments),
        Command::DriverRestarts(arguments) => driver_restarts::run(&arguments),
        Command::Errors(arguments) => errors::run(&arguments),
        Command::Goodput(arguments) => goodput::run(&arguments),
        Command::GoodputDisturbed(arguments) => goodput_disturbed::run(&arguments),
        Command::GoodputGenerators(arguments) => goodput_generators::run(&arguments),
        Command::GoodputStatements(arguments) => goodput_statements::run(&arguments),
        Command::GoodputMemory(arguments) => goodput_memory::run(&arguments),
        Command::GoodputPeer(arguments) => goodput::run_peer(&arguments),
        Command::Peer(arguments) => peer::run(&arguments),
        Command::Replacements(arguments) => replacements::run(&arguments),
        Command::RollingRestart(arguments) => rolling_restart::run(&arguments),
        Command::SteadyState(arguments) => steady_state::run(&arguments),
        Command::Storm(arguments) => storm::run(&arguments),
        Command::Throttle(arguments) => throttle::run(&arguments),
        Command::Insns(arguments) => insns::run(&arguments),
        Command::Mixed(arguments) => mixed::run(&arguments),
        Command::Reads(arguments) => reads::run(&arguments),
    }
}

/// The binaries that the benchmarks run.
fn build_helenus() -> Result<(), crate::process::ProcessError> {
    build(&["helenus", "helenus-perf"])
}

fn build(packages: &[&str]) -> Result<(), crate::process::ProcessError> {
    let named = packages.iter().flat_map(|package| ["--package", package]);
    crate::process::run(
        std::process::Command::new("cargo")
            .args(["build", "--release", "--quiet"])
            .args(named)
            .current_dir(workspace::root()),
    )
}

/// One of the dummy servers of `helenus-perf`, and where it listens.
fn start_floor(name: &str) -> Result<(Process, SocketAddr), TaskError> {
    let mut command = Program::new(workspace::program("helenus-perf"));
    command.arg(name).stdout(Stdio::piped());
    let mut server = Process::start(&mut command)?;
    let mut line = String::new();
    if let Some(output) = server.child().stdout.take() {
        let read = BufReader::new(output).read_line(&mut line);
        read.map_err(|error| TaskError::Report {
            text: error.to_string(),
        })?;
    }
    let address = line
        .trim()
        .rsplit(' ')
        .next()
        .and_then(|address| address.parse().ok());
    let address = address.ok_or_else(|| TaskError::Report {
        text: format!("no address in {line:?}"),
    })?;
    Ok((server, address))
}

/// Microseconds since 1970, as in the load generator's traces.
fn now_us() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_micros() as u64
}

/// Writes a report into the project, where it is kept beside the code that it measured.
fn write_report(name: &str, text: &str) -> Result<(), TaskError> {
    write_file(name, text)?;
    println!("written to {name}");
    Ok(())
}

fn write_file(name: &str, text: &str) -> Result<(), TaskError> {
    let path = workspace::path(name);
    // The folder is not in the repository before its first report is.
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&path, text));
    written.map_err(|source| TaskError::File { path, source })
}
