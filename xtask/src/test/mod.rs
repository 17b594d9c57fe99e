//! `cargo xtask test`: everything that a change must pass.

mod doors;
mod drivers;
mod grpcurl;
mod interop;
mod load;
mod operator;
mod part;
mod refusal;
mod rust;
mod side_by_side;
mod temporal;
mod vector_stores;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};

pub use part::{Context, Part};

use crate::node::Target;
use crate::program::Tally;
use crate::runtime::Runtime;
use crate::{TaskError, workspace};

#[derive(Args)]
pub struct Arguments {
    /// Run only this part; may be given several times
    #[arg(long = "only", value_name = "NAME")]
    only: Vec<String>,
    /// Name the parts and run nothing
    #[arg(long)]
    list: bool,
    /// Parts that run at the same time [default: one per core, and one where parts are named]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Write what each part came to, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// One line of the summary.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    name: String,
    #[serde(flatten)]
    tally: Tally,
    elapsed: Duration,
    note: Option<String>,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    workspace::use_test_profile();
    let parts = chosen(&arguments.only)?;
    if arguments.list {
        for part in &parts {
            println!("{:<16} {}", part.name, part.about);
        }
        return Ok(());
    }
    let begun = Instant::now();
    let jobs = arguments
        .jobs
        .map_or_else(|| usual_jobs(&parts), NonZeroUsize::get);
    let lines = if jobs == 1 {
        let context = Context {
            target: Target::from_environment()?,
        };
        parts.iter().map(|part| run_part(part, &context)).collect()
    } else {
        side_by_side::run(&parts, jobs)?
    };
    if let Some(path) = &arguments.report {
        store(path, &lines)?;
    }
    let total = summarise(&lines, begun.elapsed());
    if total.failed == 0 {
        Ok(())
    } else {
        Err(TaskError::Failures { count: total.failed })
    }
}

/// Default number of parts at a time: one if parts are named, whose output is to be seen as it comes.
fn usual_jobs(parts: &[&'static Part]) -> usize {
    if parts.len() < part::ALL.len() {
        return 1;
    }
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn store(path: &Path, lines: &[Line]) -> Result<(), TaskError> {
    let file = |source| TaskError::File {
        path: path.to_owned(),
        source,
    };
    let text = serde_json::to_string(lines).map_err(|error| file(error.into()))?;
    std::fs::write(path, text).map_err(file)
}

fn chosen(only: &[String]) -> Result<Vec<&'static Part>, TaskError> {
    let known = || part::ALL.iter();
    if let Some(name) = only.iter().find(|name| !known().any(|part| part.name == **name)) {
        return Err(TaskError::NoSuchPart { name: name.clone() });
    }
    Ok(known()
        .filter(|part| only.is_empty() || only.iter().any(|name| name == part.name))
        .collect())
}

fn run_part(part: &Part, context: &Context) -> Line {
    println!("== {}: {}", part.name, part.about);
    let start = Instant::now();
    let mut line = Line {
        name: part.name.to_owned(),
        tally: Tally::default(),
        elapsed: Duration::ZERO,
        note: None,
    };
    match part.runtimes.iter().find(|runtime| !runtime.present()) {
        Some(missing) => skip(&mut line, *missing),
        None => match (part.run)(context) {
            Ok(tally) => line.tally = tally,
            Err(error) => {
                println!("  FAIL {}: {error}", part.name);
                line.tally.failed += 1;
            }
        },
    }
    line.elapsed = start.elapsed();
    line
}

/// A machine without a language skips that language's tests; CI must have them all.
fn skip(line: &mut Line, missing: Runtime) {
    let note = format!("{} IS MISSING ON THIS MACHINE", missing.name());
    println!("  SKIPPED: {note}");
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        line.tally.failed += 1;
    } else {
        line.tally.skipped += 1;
    }
    line.note = Some(note);
}

fn summarise(lines: &[Line], elapsed: Duration) -> Tally {
    println!("== summary");
    let mut total = Tally::default();
    for Line {
        name,
        tally,
        elapsed: took,
        note,
    } in lines
    {
        let note = note.as_deref().unwrap_or_default();
        println!(
            "{name:<16} {:>6} passed {:>4} failed {:>4} skipped {:>6.1} s  {note}",
            tally.passed,
            tally.failed,
            tally.skipped,
            took.as_secs_f64()
        );
        total.add(tally);
    }
    let (minutes, seconds) = (elapsed.as_secs() / 60, elapsed.as_secs() % 60);
    println!(
        "{} passed, {} failed in {minutes} min {seconds} s",
        total.passed, total.failed
    );
    println!("{}", as_libtest(&total, elapsed));
    total
}

/// The line that cargo's own test programs end with: machines that read the output of tests know it.
fn as_libtest(total: &Tally, elapsed: Duration) -> String {
    format!(
        "test result: {}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; finished in {:.2}s",
        if total.failed == 0 { "ok" } else { "FAILED" },
        total.passed,
        total.failed,
        total.skipped,
        elapsed.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_came_to_is_said_as_cargo_test_says_it() {
        let mut tally = Tally {
            passed: 4_928,
            failed: 0,
            skipped: 2,
        };
        assert_eq!(
            as_libtest(&tally, Duration::from_millis(1_654_004)),
            "test result: ok. 4928 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1654.00s"
        );
        tally.failed = 1;
        assert!(
            as_libtest(&tally, Duration::ZERO).starts_with("test result: FAILED. 4928 passed; 1 failed;")
        );
    }
}
