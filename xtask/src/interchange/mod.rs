//! SSTables to and from a real Cassandra: random tables with random contents, proved by Cassandra's own programs.

mod format;
mod large;
mod live;
mod outcome;
mod tools;

use std::fs;
use std::time::Instant;

use clap::Args;
use helenus_sstable::SsTableFormat;

use crate::TaskError;
use crate::program::Tally;
use crate::workspace;
use outcome::Outcome;

#[derive(Args)]
pub struct Arguments {
    /// Random cases per version
    #[arg(long, default_value_t = 1000)]
    cases: usize,
    /// Tables of these, per version, that go through a running Cassandra, both ways
    #[arg(long, default_value_t = 60)]
    live: usize,
    /// The first case's seed; the others follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Versions to write and read, by comma
    #[arg(long, value_delimiter = ',', value_parser = format::parse, default_value = "me,nb,oa,da")]
    formats: Vec<SsTableFormat>,
    /// Only one partition beyond 2 GiB, written in `nb` and `da`; prints its table
    #[arg(long)]
    large: bool,
    /// Leave the report in `docs/measurements` as it is
    #[arg(long)]
    no_report: bool,
}

/// The cases per version of the test command: with the tables below, a minute in all.
const SHORT_CASES: usize = 15;
/// Through a running Cassandra, in the version it writes by default; its start alone takes as long as all else.
const SHORT_LIVE: usize = 4;

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    if arguments.large {
        println!("{}", large::prove()?);
        return Ok(());
    }
    let start = Instant::now();
    let outcome = prove(
        &arguments.formats,
        arguments.seed,
        arguments.cases,
        arguments.live,
    )?;
    let heading = format!(
        "`cargo xtask interchange --cases {} --live {} --seed {}`: {:.0} s.",
        arguments.cases,
        arguments.live,
        arguments.seed,
        start.elapsed().as_secs_f64()
    );
    let report = outcome.report(&heading);
    println!("{report}");
    if !arguments.no_report {
        let path = workspace::path("docs/measurements/interchange.md");
        fs::write(&path, report).map_err(|source| TaskError::File { path, source })?;
    }
    match outcome.failed() {
        0 => Ok(()),
        count => Err(TaskError::Failures { count }),
    }
}

/// The part of the test command.
pub fn short() -> Result<Tally, TaskError> {
    let mut outcome = prove(&SsTableFormat::ALL, 1, SHORT_CASES, 0)?;
    let seeds: Vec<u64> = (1..).take(SHORT_LIVE).collect();
    live::prove(SsTableFormat::Nb, &seeds, &mut outcome)?;
    Ok(Tally {
        passed: outcome.passed(),
        failed: outcome.failed(),
        ..Tally::default()
    })
}

fn prove(
    formats: &[SsTableFormat],
    first_seed: u64,
    cases: usize,
    live: usize,
) -> Result<Outcome, TaskError> {
    let seeds: Vec<u64> = (first_seed..).take(cases).collect();
    let mut outcome = Outcome::default();
    for &format in formats {
        tools::prove(format, &seeds, &mut outcome)?;
        if let Some(seeds) = seeds
            .get(..live.min(seeds.len()))
            .filter(|seeds| !seeds.is_empty())
        {
            live::prove(format, seeds, &mut outcome)?;
        }
    }
    Ok(outcome)
}
