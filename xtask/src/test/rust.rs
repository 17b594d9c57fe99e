//! Format, lints, unit tests and the optimised build: everything that cargo alone can tell.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::Context;
use crate::TaskError;
use crate::process::{self, Process, ProcessError};
use crate::program::Tally;
use crate::workspace;

pub fn format(_: &Context) -> Result<Tally, TaskError> {
    Ok(one(process::run(cargo().args(["fmt", "--all", "--check"]))))
}

pub fn lints(_: &Context) -> Result<Tally, TaskError> {
    let mut clippy = cargo();
    clippy.args([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]);
    let mut tally = one(process::run(&mut clippy));
    // A workspace of its own that nothing else builds: checked here, without the fuzzer, so that it does not rot.
    let mut fuzz_targets = cargo();
    fuzz_targets
        .args(["clippy", "--quiet", "--locked", "--no-default-features"])
        .args(["--manifest-path", "fuzz/Cargo.toml"])
        .arg("--target-dir")
        .arg(workspace::target())
        .args(["--", "-D", "warnings"]);
    tally.check("fuzz targets", process::run(&mut fuzz_targets));
    let mut documents = cargo();
    documents
        .args(["doc", "--quiet", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings");
    tally.check("documentation", process::run(&mut documents));
    Ok(tally)
}

pub fn build(_: &Context) -> Result<Tally, TaskError> {
    Ok(one(process::run(cargo().args([
        "build",
        "--profile",
        workspace::TEST_PROFILE,
        "--package",
        "helenus",
        // For what is counted under callgrind.
        "--package",
        "helenus-perf",
        "--package",
        "helenus-simulation",
    ]))))
}

/// Runs the workspace's tests and adds up the counts that the test binaries print.
pub fn unit(_: &Context) -> Result<Tally, TaskError> {
    run_tests(cargo().args(["test", "--workspace", "--no-fail-fast"]))
}

/// Runs the tests that hand SSTables to Cassandra's own tools, which this program can run.
pub fn sstable_tools(_: &Context) -> Result<Tally, TaskError> {
    let this_program = std::env::current_exe().map_err(|source| ProcessError::Wait {
        program: "xtask".to_owned(),
        source,
    })?;
    let tool = format!("{} peer tool", this_program.display());
    run_tests(
        cargo()
            .args([
                "test",
                // With `--package` it would be built once more, as in `workspace::unit_program`.
                "--workspace",
                "--test",
                "sstable",
                "peer",
            ])
            .env("HELENUS_PEER_TOOL", tool),
    )
}

fn run_tests(command: &mut Command) -> Result<Tally, TaskError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = Process::start(command)?;
    let mut tally = Tally::default();
    if let Some(output) = process.child().stdout.take() {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            read_line(&line, &mut tally);
        }
    }
    let status = process.child().wait().map_err(|source| ProcessError::Wait {
        program: "cargo".to_owned(),
        source,
    })?;
    if !status.success() && tally.failed == 0 {
        tally.check("unit", Err(format!("cargo test ended with {status}")));
    }
    Ok(tally)
}

/// Seconds from which on a test program is slow.
const SLOW_TESTS_S: f64 = 10.0;

/// Counts from `test result: ok. 3 passed; 0 failed; ...`; shows everything but passed tests.
fn read_line(line: &str, tally: &mut Tally) {
    let Some(counts) = line.strip_prefix("test result: ") else {
        if !line.ends_with("... ok") && !line.is_empty() && !line.starts_with("running ") {
            println!("  {line}");
        }
        return;
    };
    // The slow ones are seen in the log, behind their name.
    let took_s = counts.rsplit_once("finished in ");
    let took_s = took_s.and_then(|(_, took)| took.trim_end_matches('s').parse::<f64>().ok());
    if took_s.is_some_and(|took_s| took_s >= SLOW_TESTS_S) {
        println!("  {line}");
    }
    for (word, count) in [("passed", &mut tally.passed), ("failed", &mut tally.failed)] {
        let found = counts.split([' ', ';']).collect::<Vec<_>>();
        let number = found.windows(2).find(|pair| pair.last() == Some(&word));
        *count += number
            .and_then(|pair| pair.first()?.parse::<usize>().ok())
            .unwrap_or(0);
    }
}

fn one(outcome: Result<(), ProcessError>) -> Tally {
    let mut tally = Tally::default();
    tally.check("cargo", outcome);
    tally
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace::root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_result_line() {
        let mut tally = Tally::default();
        read_line(
            "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out",
            &mut tally,
        );
        read_line("test result: ok. 1 passed; 0 failed; 0 ignored", &mut tally);
        assert_eq!((tally.passed, tally.failed), (13, 3));
    }
}
