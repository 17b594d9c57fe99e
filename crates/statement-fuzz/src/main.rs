//! Rounds of one seed after another, until there were enough statements; what fails is shrunk and kept as a script.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use helenus_statement_fuzz::{
    Bounds, Differences, Outcome, Round, Script, ScriptError, Totals, compare, replay, shrink,
};
use helenus_vfs::process_time;

#[derive(Parser)]
#[command(
    name = "statements",
    about = "Sends random statements of every kind to nodes, and watches what they cost"
)]
struct Arguments {
    /// Seed of the first node's statements; the others follow. A fresh one by default
    #[arg(long)]
    seed: Option<u64>,
    /// Statements of all nodes together
    #[arg(long, default_value_t = 100_000)]
    count: u64,
    /// Goes on for so many minutes instead
    #[arg(long)]
    minutes: Option<f64>,
    /// Statements to one node
    #[arg(long, default_value_t = 4_000)]
    round: usize,
    /// A shard may be held so long; 1 in a release build, and not judged in others
    #[arg(long)]
    stall_ms: Option<f64>,
    /// The node's timeouts; an answer may take 10 ms longer in processor time, which a release build judges
    #[arg(long, default_value_t = 200)]
    timeout_ms: u64,
    /// The process may take so much
    #[arg(long, default_value_t = 1_536)]
    memory_mib: u64,
    /// Goes on after so many failures
    #[arg(long, default_value_t = 0)]
    failures: usize,
    /// Runs of a history while it shrinks
    #[arg(long, default_value_t = 150)]
    shrink_runs: usize,
    /// Says why statements were refused, the most frequent reasons last
    #[arg(long)]
    refusals: bool,
    /// Says which statements have held a shard longest, whether they may or not, the longest last
    #[arg(long)]
    holds: bool,
    /// Compares what a node answers with what this Cassandra does instead; its keyspaces of the same names are dropped
    #[arg(long, value_name = "HOST:PORT")]
    cassandra: Option<SocketAddr>,
    /// Runs this script instead
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Where histories that fail are written
    #[arg(long, value_name = "FOLDER", default_value = "target/statements")]
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Script { path: PathBuf, source: ScriptError },
}

/// How often it says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// How much later than its deadline an answer may come.
const LATE_MAX: Duration = Duration::from_millis(10);

/// Longest hold of a shard in an optimised build, in ms; another build takes ten times as long.
const STALL_MS: f64 = 1.0;

fn main() -> ExitCode {
    match go(&Arguments::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// How many rounds failed.
fn go(arguments: &Arguments) -> Result<usize, Error> {
    let is_optimised = !cfg!(debug_assertions);
    let stall_ms = arguments.stall_ms.or(is_optimised.then_some(STALL_MS));
    let bounds = Bounds {
        stall: stall_ms.map(|stall_ms| Duration::from_secs_f64(stall_ms / 1_000.0)),
        timeout: Duration::from_millis(arguments.timeout_ms),
        late: is_optimised.then_some(LATE_MAX),
        memory_bytes: arguments.memory_mib << 20,
    };
    if let Some(path) = &arguments.replay {
        let outcome = replay(&read(path)?, &bounds);
        match &outcome.failure {
            Some(failure) => println!("step {}: {failure}", outcome.script.steps.len()),
            None => println!("nothing failed"),
        }
        return Ok(usize::from(outcome.failure.is_some()));
    }
    if let Some(address) = arguments.cassandra {
        compare_rounds(arguments, address);
        return Ok(0);
    }
    go_through_rounds(arguments, &bounds)
}

/// Rounds are short: a statement that only one of the two did ends them.
const COMPARED_ROUND: usize = 150;

/// Prints the differences, the most frequent last.
fn compare_rounds(arguments: &Arguments, address: SocketAddr) {
    let start = Instant::now();
    let time = arguments
        .minutes
        .map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let mut differences = Differences::default();
    let mut seed = arguments.seed.unwrap_or(1);
    while match time {
        Some(time) => start.elapsed() < time,
        None => differences.statements < arguments.count,
    } {
        // Now and then Cassandra quotes half a character of a statement, which is no answer to a client.
        let round = || compare(seed, COMPARED_ROUND, address, &mut differences);
        let _unreadable = catch_unwind(AssertUnwindSafe(round));
        seed += 1;
    }
    let mut by_count: Vec<_> = differences.by_kind.values().collect();
    by_count.sort_by_key(|(count, _)| *count);
    for (count, example) in by_count {
        println!("{count:>6}  {}", example.text);
        println!("          a node:    {}", example.of_node);
        println!("          Cassandra: {}", example.of_cassandra);
    }
    println!(
        "{} statements, {} refused by the node, {} rounds ended by Cassandra, {} kinds of differences, seeds to {seed}",
        differences.statements,
        differences.refused,
        differences.unknown,
        differences.by_kind.len()
    );
}

fn go_through_rounds(arguments: &Arguments, bounds: &Bounds) -> Result<usize, Error> {
    let (start, used) = (Instant::now(), process_time());
    let time = arguments
        .minutes
        .map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let fresh = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let mut seed = arguments.seed.unwrap_or(fresh);
    println!("seed {seed}");
    let (mut totals, mut failed, mut said) = (Totals::default(), 0, Instant::now());
    loop {
        let statements = arguments.round.max(1);
        let outcome = Round { seed, statements }.run(bounds, &mut totals);
        if outcome.failure.is_some() {
            failed += 1;
            keep(&outcome, seed, bounds, arguments)?;
        }
        let is_over = match time {
            Some(time) => start.elapsed() >= time,
            None => totals.statements >= arguments.count,
        };
        if is_over || failed > arguments.failures {
            if arguments.holds {
                print_holds(&totals);
            }
            if arguments.refusals {
                print_refusals(&totals);
            }
            println!("{}", summary(&totals, failed, process_time() - used));
            return Ok(failed);
        }
        if said.elapsed() >= PROGRESS_INTERVAL {
            said = Instant::now();
            println!(
                "  seed {seed}: {}",
                summary(&totals, failed, process_time() - used)
            );
        }
        seed = seed.wrapping_add(1);
    }
}

fn print_holds(totals: &Totals) {
    let mut holds: Vec<_> = totals.holds.iter().collect();
    holds.sort_by_key(|(_, hold)| **hold);
    for (kind, (took, text_bytes)) in holds {
        println!("{took:.1?}, {text_bytes} bytes, {kind}");
    }
}

fn print_refusals(totals: &Totals) {
    let mut refusals: Vec<_> = totals.refusals.iter().collect();
    refusals.sort_by_key(|(_, count)| **count);
    for (beginning, count) in refusals {
        println!("{count} times: {beginning}");
    }
}

fn summary(totals: &Totals, failed: usize, used: Duration) -> String {
    let mut text = format!(
        "{} statements, {failed} failed; {} answers and {} refusals; a shard held {:.2?} at most, an answer {:.1?}, \
         {} slow only once, {} MiB at most, {:.0} s of processor time",
        totals.statements,
        totals.answered,
        totals.refused,
        totals.longest,
        totals.latest,
        totals.unrepeated,
        totals.memory_bytes_max >> 20,
        used.as_secs_f64()
    );
    for (message, count) in &totals.server_errors {
        text.push_str(&format!("\n    {count} times: {message}"));
    }
    text
}

fn keep(outcome: &Outcome, seed: u64, bounds: &Bounds, arguments: &Arguments) -> Result<(), Error> {
    let Some(failure) = &outcome.failure else {
        return Ok(());
    };
    println!(
        "  FAIL seed {seed} after {} statements: {failure}",
        outcome.script.steps.len()
    );
    save(&outcome.script, arguments, &format!("seed-{seed}"))?;
    let (small, failure) = shrink(&outcome.script, failure, bounds, arguments.shrink_runs);
    println!("  shrunk to {} statements: {failure}", small.steps.len());
    if let Some(last) = small.steps.last() {
        let beginning: String = last.to_string().chars().take(1_000).collect();
        println!("{beginning}");
    }
    save(&small, arguments, &format!("seed-{seed}-small"))
}

fn save(script: &Script, arguments: &Arguments, name: &str) -> Result<(), Error> {
    let path = arguments.folder.join(format!("{name}.txt"));
    let written =
        std::fs::create_dir_all(&arguments.folder).and_then(|()| std::fs::write(&path, script.to_string()));
    println!("  {}", path.display());
    written.map_err(|source| Error::File { path, source })
}

fn read(path: &Path) -> Result<Script, Error> {
    let path = path.to_owned();
    match std::fs::read_to_string(&path) {
        Ok(text) => text.parse().map_err(|source| Error::Script { path, source }),
        Err(source) => Err(Error::File { path, source }),
    }
}
