//! `cargo xtask compare`: Helenus beside Cassandra, with the clients that people use.

mod callers;
pub mod callgrind;
mod drivers;
mod figures;
mod files;
mod goodput;
mod indexes;
mod instructions;
mod load_generator;
mod peer;
mod programs;
mod recall;
pub mod restarts;
mod storage;

use clap::Subcommand;

use crate::TaskError;

#[derive(Subcommand)]
pub enum Command {
    /// Requests answered in time, whatever is offered
    #[command(subcommand)]
    Goodput(goodput::Page),
    /// Instructions and allocations of single operations, counted by callgrind
    #[command(subcommand)]
    Instructions(instructions::Page),
    /// Many callers behind one client: latency, memory, processor time, the limit that the client finds
    #[command(subcommand)]
    Callers(callers::Page),
    /// Nodes restarted or replaced under load: errors seen, requests lost or executed twice
    #[command(subcommand)]
    Restarts(restarts::Page),
    /// Files: flush, compaction, reads, and writes that never stop
    #[command(subcommand)]
    Storage(storage::Page),
    /// The same questions to indexes, of vectors too, on both: throughput, latency, server CPU, recall
    Indexes(indexes::Arguments),
    /// How much graphs of vectors find, and how fast, by how wide they are searched; with a chart
    Recall(recall::Arguments),
    /// The same wire load on both: throughput, latency, server CPU per operation
    Peer(peer::Arguments),
}

pub fn run(command: Command) -> Result<(), TaskError> {
    match command {
        Command::Goodput(page) => goodput::run(&page),
        Command::Instructions(page) => instructions::run(&page),
        Command::Callers(page) => callers::run(&page),
        Command::Restarts(page) => restarts::run(&page),
        Command::Storage(page) => storage::run(&page),
        Command::Indexes(arguments) => indexes::run(&arguments),
        Command::Recall(arguments) => recall::run(&arguments),
        Command::Peer(arguments) => peer::run(&arguments),
    }
}
