//! The command line of Helenus.

mod bench;
mod serve;

mod compaction;
mod goodput;
mod log;
mod operation;
mod snapshot;
mod sstable;
mod terminal;
#[cfg(feature = "tls")]
mod tls;
mod top;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use helenus_allocator::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// A drop-in twin of Apache Cassandra for one machine: one binary, genuine SSTables, errors as values.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArguments,
}

#[derive(Subcommand)]
enum Command {
    /// Serve CQL (what `helenus` alone does too).
    Serve(serve::ServeArguments),
    /// Look into SSTables, check them, bring them in.
    #[command(subcommand, name = "sstable")]
    SsTable(sstable::SsTableCommand),
    /// Snapshots of tables: hard links, in Cassandra's layout.
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// Write what a running node has in memory to SSTables.
    Flush(snapshot::FlushArguments),
    /// Compactions of a running node.
    #[command(subcommand)]
    Compaction(compaction::CompactionCommand),
    /// Materialized views of a running node.
    #[command(subcommand)]
    View(view::ViewCommand),
    /// Show what a node does right now: rates, refusals, caches, the hottest partitions.
    #[command(after_help = top::EXAMPLES)]
    Top(top::TopArguments),
    /// Load any CQL cluster; compare what came of it.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

const EXAMPLES: &str = "Examples:
  helenus                                     CQL on 127.0.0.1:9042, data in ./helenus-data
  helenus serve --in-memory --listen 127.0.0.1:0
                                              a throw-away node on a free port, for tests
  helenus serve --config helenus.yaml         settings by cassandra.yaml's names
  helenus serve --shards 4 --memory 2GiB      four data threads, at most 2 GiB of caches and memtables
  helenus serve --replace                     take the place of the running node: a new release, or other settings";

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    match command_line.command {
        None => serve::run(&command_line.serve),
        Some(Command::Serve(arguments)) => serve::run(&arguments),
        Some(Command::SsTable(command)) => sstable::run(&command),
        Some(Command::Snapshot(command)) => snapshot::run(&command),
        Some(Command::Flush(arguments)) => snapshot::flush(&arguments),
        Some(Command::Compaction(command)) => compaction::run(&command),
        Some(Command::View(command)) => view::run(&command),
        Some(Command::Top(arguments)) => top::run(&arguments),
        Some(Command::Bench(command)) => bench::run(&command),
    }
}
