//! `cargo xtask compare storage strategies`: what the strategies of compaction write, and what is left to be read.

use std::fmt::Write as _;

use super::load::{Phase, ROW_BYTES, Workload};
use super::observer::Purpose;
use super::report::MIB;
use super::{CORES, Distribution, Measured, measure_phase, minutes, node_options};
use crate::TaskError;
use crate::compare::{files, programs};
use crate::node::{Node, Target};

#[derive(clap::Args)]
pub struct Arguments {
    /// Minutes in which rows are written again
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// Rows that fill the table, and keys of all later requests
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Requests offered a second
    #[arg(long, default_value_t = 40_000)]
    rate: u32,
    /// Memory of the node: the less, the more files are flushed
    #[arg(long, default_value = "64MiB")]
    memory: String,
    /// Measure target/release/helenus as it is there
    #[arg(long)]
    as_built: bool,
}

const NAME: &str = "strategies";
const REPORT: &str = "docs/measurements/strategies.md";

const STRATEGIES: [&str; 4] = [
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "UnifiedCompactionStrategy",
    "TimeWindowCompactionStrategy",
];

/// How long rows are read: files are merged on meanwhile.
const READ_MINUTES: f64 = 0.5;

/// The phases of a table with one strategy.
struct Run {
    fill: Measured,
    churn: Measured,
    read: Measured,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    if !arguments.as_built {
        programs::build()?;
    }
    let mut text = head(arguments);
    for strategy in STRATEGIES {
        let run = measure(arguments, strategy)?;
        text.push_str(&line(strategy, arguments.rows, &run));
    }
    files::publish(REPORT, &text)
}

fn measure(arguments: &Arguments, strategy: &'static str) -> Result<Run, TaskError> {
    let options = node_options(&arguments.memory, "periodic");
    let node = Node::start(&Target::Helenus, NAME, &options)?;
    let workload = Workload {
        rows: arguments.rows,
        distribution: Distribution::Uniform,
        ttl_s: 0,
        compaction: Some(strategy),
    };
    let phase =
        |phase, duration| measure_phase(&node, strategy, &workload, phase, arguments.rate, duration, CORES);
    let run = Run {
        fill: phase(Phase::Fill, workload.fill_duration(arguments.rate))?,
        churn: phase(Phase::Churn, minutes(arguments.minutes))?,
        read: phase(Phase::Read, minutes(READ_MINUTES))?,
    };
    node.check_panics()?;
    node.stop()?;
    Ok(run)
}

fn head(arguments: &Arguments) -> String {
    format!(
        "# Strategies of compaction\n\n\
         `cargo xtask compare storage strategies --minutes {} --rows {} --rate {} --memory {}`: five blobs of 34 bytes and a key of 8, {} rows \
         once each, then again at random for {} minutes, then read at random for half a minute while merging goes on; {} requests a second \
         offered (open loop), a log that is synced now and then, otherwise default options. \"Written\" is by the process, for a byte of \
         the client's: in all (the log, and zeros ahead of it, too), and by compactions. Files are those of tables; beside them what all rows \
         take uncompressed. One core for the server, another one for the generator.\n\n\
         | strategy | written: fill, churn | by compactions: fill, churn | CPU us a write in churn | of it compaction | files behind churn, MiB | behind reads, MiB | \
         rows, MiB | reads of files a row | p99 us of churn, reads | failed or not sent |\n|{}\n",
        arguments.minutes,
        arguments.rows,
        arguments.rate,
        arguments.memory,
        arguments.rows,
        arguments.minutes,
        arguments.rate,
        "---|".repeat(11),
    )
}

fn line(strategy: &str, rows: u64, run: &Run) -> String {
    let Run { fill, churn, read } = run;
    let compacted = |measured: &Measured| {
        measured.last().compacted_bytes / (measured.report.ops.max(1) * ROW_BYTES as u64) as f64
    };
    let written = |measured: &Measured| measured.write_amplification().unwrap_or_default();
    let cpu_us = churn.cpu_us();
    let mut text = String::new();
    let _infallible = writeln!(
        text,
        "| {strategy} | {:.2}, {:.2} | {:.2}, {:.2} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.2} | {}, {} | {} |",
        written(fill),
        written(churn),
        compacted(fill),
        compacted(churn),
        cpu_us.iter().sum::<f64>(),
        cpu_us[Purpose::Compaction as usize],
        churn.last().table_bytes as f64 / MIB,
        read.last().table_bytes as f64 / MIB,
        (rows * ROW_BYTES as u64) as f64 / MIB,
        read.last().disk_reads / read.report.ops.max(1) as f64,
        churn.report.latency_us.p99,
        read.report.latency_us.p99,
        fill.failed() + churn.failed() + read.failed(),
    );
    text
}
