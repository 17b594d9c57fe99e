//! `cargo xtask compare storage`: what files cost, when they are written, merged and read.

mod compaction;
mod mixed;
mod reads;
mod steady;

use clap::Subcommand;

use crate::TaskError;

#[derive(Subcommand)]
pub enum Page {
    /// Flush and major compaction of the same rows on both, by processor time
    Compaction(compaction::Arguments),
    /// Disk reads, instructions and speed of reads from a large partition, beside what was set out for them
    Reads(reads::Arguments),
    /// Writes that never stop, on files: cost, latency, space over time, beside Cassandra
    Steady(steady::Arguments),
    /// Bytes that each strategy of compaction writes, and what it leaves to be read
    Strategies(steady::strategies::Arguments),
    /// A steady load on a node that flushes and compacts all the time, beside a quiet one
    Mixed(mixed::Arguments),
}

pub fn run(page: &Page) -> Result<(), TaskError> {
    match page {
        Page::Compaction(arguments) => compaction::run(arguments),
        Page::Reads(arguments) => reads::run(arguments),
        Page::Steady(arguments) => steady::run(arguments),
        Page::Strategies(arguments) => steady::strategies::run(arguments),
        Page::Mixed(arguments) => mixed::run(arguments),
    }
}
