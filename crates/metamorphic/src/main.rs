//! Histories of one seed after another; what fails is shrunk and kept as a script.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use helenus_metamorphic::{
    Audience, Cassandra, Failure, Report, Script, ScriptError, generate, generate_index_queries, run,
    run_beside, shrink,
};
use helenus_vfs::process_time;

#[derive(Parser)]
#[command(
    name = "metamorphic",
    about = "Runs random histories on many nodes that must agree"
)]
struct Arguments {
    /// Seed of the first history; the others follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// After the history of the seed come others each time
    #[arg(long)]
    fresh: bool,
    /// Steps of all histories together
    #[arg(long, default_value_t = 10_000)]
    steps: usize,
    /// Histories of questions to secondary indexes instead, until so many were answered by one
    #[arg(long, value_name = "COUNT")]
    index_queries: Option<usize>,
    /// Goes on for so many minutes instead
    #[arg(long)]
    minutes: Option<f64>,
    /// Steps of one history: short ones are many, and shrink in seconds
    #[arg(long, default_value_t = 300)]
    history: usize,
    /// Goes on after so many histories that fail
    #[arg(long, default_value_t = 0)]
    failures: usize,
    /// Prints the history of the seed and runs nothing
    #[arg(long)]
    print: bool,
    /// Leaves histories that fail as long as they are
    #[arg(long)]
    no_shrink: bool,
    /// Runs this script instead, and shrinks it if it fails
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// A Cassandra answers as well, and must do so as the nodes do; what it has in the keyspace `interchange` is dropped
    #[arg(long, value_name = "HOST:PORT")]
    cassandra: Option<SocketAddr>,
    /// Where histories that fail are written
    #[arg(long, value_name = "FOLDER", default_value = "target/metamorphic")]
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}")]
    Script { path: PathBuf, source: ScriptError },
}

/// Runs of one history while it shrinks: a few minutes at most.
const SHRINK_RUNS_MAX: usize = 600;

/// Time between two lines that say how far the run is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// Totals of all histories.
#[derive(Default)]
struct Totals {
    histories: u64,
    failed: usize,
    steps: usize,
    refused: usize,
    modelled: usize,
    by_index: usize,
    unknown: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match go(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// How many histories failed.
fn go(arguments: &Arguments) -> Result<usize, Error> {
    if arguments.print {
        print!("{}", arguments.history_of(arguments.seed));
        return Ok(0);
    }
    let start = Instant::now();
    let mut totals = Totals::default();
    if let Some(path) = &arguments.replay {
        totals.go_through(&read(path)?, "replayed", arguments)?;
    } else {
        go_through_seeds(arguments, start, &mut totals)?;
    }
    let Totals {
        histories,
        failed,
        steps,
        refused,
        modelled,
        by_index,
        unknown,
    } = totals;
    println!(
        "{histories} histories, {failed} failed, {steps} steps, {refused} of them refused by all, {modelled} with the rows of the \
         model, {by_index} answered by an index, {:.0} s, {:.0} s of processor time",
        start.elapsed().as_secs_f64(),
        process_time().as_secs_f64()
    );
    if arguments.cassandra.is_some() {
        println!("{unknown} statements had no answer of Cassandra, which had failed");
    }
    Ok(failed)
}

fn go_through_seeds(arguments: &Arguments, start: Instant, totals: &mut Totals) -> Result<(), Error> {
    let mut next = arguments.seed;
    if arguments.fresh {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        next = since_epoch.as_secs();
        println!("seed {}, then {next} and on", arguments.seed);
    }
    let time = arguments
        .minutes
        .map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let mut seed = arguments.seed;
    let mut said = start;
    loop {
        let script = arguments.history_of(seed);
        let name = match arguments.index_queries {
            Some(_) => format!("index-queries-{seed}"),
            None => format!("seed-{seed}"),
        };
        totals.go_through(&script, &name, arguments)?;
        let has_time = match (time, arguments.index_queries) {
            (Some(time), _) => start.elapsed() < time,
            (None, Some(wanted)) => totals.by_index < wanted,
            (None, None) => totals.steps < arguments.steps,
        };
        if !has_time || totals.failed > arguments.failures {
            return Ok(());
        }
        if said.elapsed() >= PROGRESS_INTERVAL {
            said = Instant::now();
            println!(
                "{} histories, {} steps up to seed {seed}, {:.0} s of processor time",
                totals.histories,
                totals.steps,
                process_time().as_secs_f64()
            );
        }
        // The first of the fresh ones follows the given one, which is a history of its own.
        if !arguments.fresh {
            next = seed.wrapping_add(1);
        }
        seed = next;
        next = next.wrapping_add(1);
    }
}

impl Arguments {
    fn audience(&self) -> Audience {
        match self.cassandra {
            Some(_) => Audience::Cassandra,
            None => Audience::Nodes,
        }
    }

    fn run(&self, script: &Script) -> Report {
        match self.cassandra {
            Some(address) => run_beside(script, &mut Cassandra::connect(address)),
            None => run(script),
        }
    }

    fn history_of(&self, seed: u64) -> Script {
        match self.index_queries {
            Some(_) => generate_index_queries(seed, self.history),
            None => generate(seed, self.history, self.audience()),
        }
    }
}

impl Totals {
    fn go_through(&mut self, script: &Script, name: &str, arguments: &Arguments) -> Result<(), Error> {
        let report = arguments.run(script);
        self.histories += 1;
        self.steps += report.steps;
        self.refused += report.refused;
        self.modelled += report.modelled;
        self.by_index += report.by_index;
        self.unknown += report.unknown;
        let Some(failure) = report.failure else {
            return Ok(());
        };
        self.failed += 1;
        println!("  FAIL {name} after {} steps in all: {failure}", self.steps);
        save(script, &failure, arguments, name)?;
        if arguments.no_shrink {
            return Ok(());
        }
        let (small, failure) = shrink(script, &failure, SHRINK_RUNS_MAX, &mut |script| {
            arguments.run(script)
        });
        println!("  shrunk to {} steps: {failure}", small.steps.len());
        save(&small, &failure, arguments, &format!("{name}-small"))
    }
}

fn save(script: &Script, failure: &Failure, arguments: &Arguments, name: &str) -> Result<(), Error> {
    let folder = &arguments.folder;
    let path = folder.join(format!("{name}.txt"));
    let mut script = script.clone();
    script.comment.truncate(1);
    script
        .comment
        .extend(failure.to_string().lines().map(str::to_owned));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, script.to_string()));
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
