//! `simulate`: runs seeds until there are no more, or some have failed. What the nodes have to say goes to standard error.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use helenus_simulation::{Failure, Report, run};

/// Run a whole node on a simulated disk, clock and scheduler: each seed is one run, the same every time
#[derive(Parser)]
#[command(after_help = "Examples:
  simulate --seeds 300             300 seeds, from a fresh one that is printed
  simulate --seed 17 --trace       one seed again, with what happened
  simulate --minutes 60 --jobs 2   as many seeds as fit into an hour on two cores")]
struct Arguments {
    /// The first seed; a fresh one if it is not given
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds; one if --seed is given, else 300
    #[arg(long)]
    seeds: Option<u64>,
    /// End after so many minutes, whatever is left
    #[arg(long)]
    minutes: Option<f64>,
    /// Seeds that run at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Run each seed twice and see that the same happens
    #[arg(long)]
    twice: bool,
    /// Show what happened, also where nothing failed
    #[arg(long)]
    trace: bool,
    /// Print the totals as JSON
    #[arg(long)]
    json: bool,
}

/// How often the seeds done are told.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Failures that are shown before the rest is given up.
const FAILURES_MAX: usize = 5;

/// Without a seed, a number or a time.
const SEEDS_USUAL: u64 = 300;

fn fresh_seed() -> u64 {
    use helenus_vfs::Random;
    // Short enough to be typed.
    helenus_vfs::SystemRandom::new().below(1 << 40)
}

fn run_seed(seed: u64, twice: bool) -> Result<Report, Failure> {
    let report = run(seed)?;
    if twice && run(seed)? != report {
        return Err(Failure {
            seed,
            what: "the same seed ran differently the second time".to_owned(),
            trace: Vec::new(),
        });
    }
    Ok(report)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let first = arguments.seed.unwrap_or_else(fresh_seed);
    let count = seeds_wanted(&arguments);
    let say = |text: &str| say(arguments.json, text);
    say(&format!("seeds from {first}"));
    let begun = Instant::now();
    let until = arguments
        .minutes
        .map(|minutes| begun + Duration::from_secs_f64(minutes * 60.0));
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let total: Mutex<(Report, u64)> = Mutex::default();
    let failures: Mutex<Vec<Failure>> = Mutex::default();
    let work = || {
        while !is_over.load(Ordering::Relaxed) && until.is_none_or(|until| Instant::now() < until) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count {
                break;
            }
            match run_seed(first.wrapping_add(place), arguments.twice) {
                Ok(report) => {
                    let mut total = total.lock().expect("no seed panics while it adds");
                    total.0 = add(&total.0, &report);
                    total.1 += 1;
                }
                Err(failure) => {
                    let mut failures = failures.lock().expect("no seed panics while it adds");
                    show(&failure, say);
                    failures.push(failure);
                    if failures.len() >= FAILURES_MAX {
                        is_over.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let mut told = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(20));
            if told.elapsed() >= PROGRESS_INTERVAL {
                told = Instant::now();
                let seeds = total.lock().expect("no seed panics while it adds").1;
                say(&format!(
                    "{seeds} seeds in {:.0} s",
                    begun.elapsed().as_secs_f64()
                ));
            }
        }
    });
    let (total, seeds) = total.into_inner().expect("no seed panics while it adds");
    let failures = failures.into_inner().expect("no seed panics while it adds");
    if arguments.trace
        && let (Some(seed), true) = (arguments.seed, failures.is_empty())
    {
        for line in helenus_simulation::trace(seed) {
            println!("{line}");
        }
    }
    tell(&arguments, &total, seeds, failures.len(), begun.elapsed());
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A seed that is named once, in a time as many as fit it, else some.
fn seeds_wanted(arguments: &Arguments) -> u64 {
    let usual = match (arguments.seed, arguments.minutes) {
        (Some(_), _) => 1,
        (None, Some(_)) => u64::MAX,
        (None, None) => SEEDS_USUAL,
    };
    arguments.seeds.unwrap_or(usual)
}

fn add(total: &Report, report: &Report) -> Report {
    Report {
        simulated: total.simulated + report.simulated,
        statements: total.statements + report.statements,
        acknowledged: total.acknowledged + report.acknowledged,
        refused: total.refused + report.refused,
        timed_out: total.timed_out + report.timed_out,
        reads_checked: total.reads_checked + report.reads_checked,
        starts: total.starts + report.starts,
        sstables: total.sstables + report.sstables,
        fingerprint: total.fingerprint ^ report.fingerprint,
    }
}

/// Beside JSON nothing else goes to standard output.
fn say(is_json: bool, text: &str) {
    if is_json {
        eprintln!("{text}");
    } else {
        println!("{text}");
    }
}

fn show(failure: &Failure, say: impl Fn(&str)) {
    for line in &failure.trace {
        say(line);
    }
    say(&format!(
        "{failure}\nagain: cargo xtask simulate --seed {}",
        failure.seed
    ));
}

fn tell(arguments: &Arguments, total: &Report, seeds: u64, failures: usize, took: Duration) {
    let simulated_s = total.simulated.as_secs_f64();
    if arguments.json {
        println!(
            "{{\"seeds\": {seeds}, \"failures\": {failures}, \"seconds\": {:.1}, \"simulated_seconds\": {simulated_s:.1}, \
             \"statements\": {}, \"acknowledged\": {}, \"refused\": {}, \"timed_out\": {}, \"reads_checked\": {}, \
             \"starts\": {}, \"sstables\": {}}}",
            took.as_secs_f64(),
            total.statements,
            total.acknowledged,
            total.refused,
            total.timed_out,
            total.reads_checked,
            total.starts,
            total.sstables,
        );
        return;
    }
    println!(
        "{seeds} seeds, {failures} failed, in {:.1} s: {simulated_s:.0} simulated s, {} starts, {} SSTables found by them\n\
         {} statements: {} acknowledged, {} refused, {} timed out; {} reads compared with the model",
        took.as_secs_f64(),
        total.starts,
        total.sstables,
        total.statements,
        total.acknowledged,
        total.refused,
        total.timed_out,
        total.reads_checked,
    );
}
