//! `cargo xtask bench`: Helenus beside Cassandra, with the clients that people use.

mod concurrent_client;
mod insns;
mod peer;

use clap::Subcommand;

use crate::TaskError;

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
