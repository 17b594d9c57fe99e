//! `cargo xtask bench`: Helenus beside Cassandra, with the clients that people use.

mod concurrent_client;
mod insns;
mod peer;

use std::fs;

use clap::Subcommand;

use crate::{TaskError, workspace};

#[derive(Subcommand)]
pub enum Command {
    /// Many workers on one client object, each reading one row again and again
    ConcurrentClient(concurrent_client::Arguments),
    /// The same wire load on both: throughput, latency, server CPU per operation
    Peer(peer::Arguments),
    /// Instructions and allocations per operation, in process, by callgrind
    Insns(insns::Arguments),
}

pub fn run(command: Command) -> Result<(), TaskError> {
    match command {
        Command::ConcurrentClient(arguments) => concurrent_client::run(&arguments),
        Command::Peer(arguments) => peer::run(&arguments),
        Command::Insns(arguments) => insns::run(&arguments),
    }
}

/// Writes a report into the project, where it is kept beside the code that it measured.
fn write_report(name: &str, text: &str) -> Result<(), TaskError> {
    let path = workspace::path(name);
    // The folder is not in the repository before its first report is.
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&path, text));
    written.map_err(|source| TaskError::File { path, source })?;
    println!("written to {name}");
    Ok(())
}
