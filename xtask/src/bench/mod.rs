//! `cargo xtask bench`: Helenus beside Cassandra, with the clients that people use.

mod concurrent_client;

use clap::Subcommand;

use crate::TaskError;

#[derive(Subcommand)]
pub enum Command {
    /// Many workers on one client object, each reading one row again and again
    ConcurrentClient(concurrent_client::Arguments),
}

pub fn run(command: Command) -> Result<(), TaskError> {
    match command {
        Command::ConcurrentClient(arguments) => concurrent_client::run(&arguments),
    }
}
