//! `helenus compaction`: what a running node compacts, and asking it to.

use std::process::ExitCode;

use clap::Subcommand;
use helenus_tools::control::{Compactions, Request};

use crate::operation::{NodeArguments, TableArguments};
use crate::snapshot::answer;
use crate::terminal::bytes_text;

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum CompactionCommand {
    /// Show what runs, what waits, and what was done since the start.
    Status {
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Compact all SSTables of tables; returns when it is done.
    Major {
        /// Size-tiered tables get several SSTables of falling size instead of one.
        #[arg(long)]
        split_output: bool,
        #[command(flatten)]
        tables: TableArguments,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Drop from each SSTable what its shard does not own.
    Cleanup {
        #[command(flatten)]
        tables: TableArguments,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Stop compactions; what they wrote is removed, their inputs stay.
    Stop {
        #[command(flatten)]
        tables: TableArguments,
        #[command(flatten)]
        node: NodeArguments,
    },
}

const EXAMPLES: &str = "Examples:
  helenus compaction status
  helenus compaction major --table shop.cart
  helenus compaction stop --keyspace shop";

pub fn run(command: &CompactionCommand) -> ExitCode {
    let (node, request) = match command {
        CompactionCommand::Status { node } => (node, Request::CompactionStatus {}),
        CompactionCommand::Major {
            split_output,
            tables,
            node,
        } => (
            node,
            Request::CompactionMajor {
                tables: tables.choice(),
                split_output: *split_output,
            },
        ),
        CompactionCommand::Cleanup { tables, node } => (
            node,
            Request::CompactionCleanup {
                tables: tables.choice(),
            },
        ),
        CompactionCommand::Stop { tables, node } => (
            node,
            Request::CompactionStop {
                tables: tables.choice(),
            },
        ),
    };
    answer("compaction", node, &request)
}

pub fn print_status(status: &Compactions) {
    for task in &status.running {
        println!(
            "shard {}: {} of {}.{}, {} SSTables, {} of {}",
            task.shard,
            task.kind,
            task.keyspace,
            task.table,
            task.sstables,
            bytes_text(task.bytes_done),
            bytes_text(task.bytes_total)
        );
    }
    for table in &status.pending {
        println!(
            "shard {}: {}.{} waits for {} compactions",
            table.shard,
            table.keyspace,
            table.table,
            table.tasks + table.requested
        );
    }
    println!(
        "{} running; since the start {} done, {} failed or stopped, {} read, {} written",
        status.running.len(),
        status.completed,
        status.failed,
        bytes_text(status.bytes_read),
        bytes_text(status.bytes_written)
    );
}
