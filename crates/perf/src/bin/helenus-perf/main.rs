//! `helenus-perf`: what Helenus costs, in process and at its lowest layers, for those who work on it; `cargo xtask compare` runs
//! it side by side with others.

mod allocator;
mod commands;
mod fast_forward;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    CannedArguments, CompactionArguments, IndexedArguments, IndexesArguments, ReadsArguments,
    RecallArguments, RefusingArguments, SimpleQueryArguments, VectorsArguments, WireArguments,
};
use crate::fast_forward::FastForwardArguments;

#[global_allocator]
static ALLOCATOR: allocator::CountingAllocator = allocator::CountingAllocator;

/// Measure what Helenus costs, in process and at its lowest layers.
#[derive(Parser)]
#[command(name = "helenus-perf", version)]
struct CommandLine {
    #[command(subcommand)]
    command: PerfCommand,
}

#[derive(Subcommand)]
enum PerfCommand {
    /// How little is read where a reader leaves much of the data out: ScyllaDB's perf-fast-forward.
    FastForward(FastForwardArguments),
    /// Prepared point reads (or inserts) in process, from frame bytes to frame bytes.
    SimpleQuery(SimpleQueryArguments),
    /// One kind of read over the data of fast-forward, again and again.
    Reads(ReadsArguments),
    /// Flushes of overlapping SSTables and a major compaction of them, on this thread.
    Compaction(CompactionArguments),
    /// How fast vectors are taken in, linked and searched by a shard, and how much searches find.
    Vectors(VectorsArguments),
    /// A graph of vectors alone: how fast it is made and searched, and how much it finds.
    Recall(RecallArguments),
    /// One kind of read or write of a table with indexes, in process.
    Indexed(IndexedArguments),
    /// Questions to storage-attached indexes, of vectors too, on any CQL server.
    Indexes(IndexesArguments),
    /// A server that answers everything with the same bytes: the floor to compare with.
    Canned(CannedArguments),
    /// A server that answers every connection with an error and closes it: the floor of a connection storm.
    Refusing(RefusingArguments),
    /// A closed loop of prepared point reads (or inserts) on any CQL server.
    Wire(WireArguments),
}

fn main() -> ExitCode {
    match CommandLine::parse().command {
        PerfCommand::Compaction(arguments) => arguments.run(),
        PerfCommand::Reads(arguments) => arguments.run(),
        PerfCommand::Recall(arguments) => arguments.run(),
        PerfCommand::Indexed(arguments) => arguments.run(),
        PerfCommand::Indexes(arguments) => arguments.run(),
        PerfCommand::FastForward(arguments) => fast_forward::run(&arguments),
        PerfCommand::Canned(arguments) => arguments.run(),
        PerfCommand::Refusing(arguments) => arguments.run(),
        PerfCommand::SimpleQuery(arguments) => arguments.run(),
        PerfCommand::Vectors(arguments) => arguments.run(),
        PerfCommand::Wire(arguments) => arguments.run(),
    }
}
