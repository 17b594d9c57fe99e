//! `helenus-perf` as it is, and under callgrind, which counts every instruction of its process.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::process::Command;

use super::files;
use crate::process::ProcessError;
use crate::{TaskError, process, workspace};

/// Instructions of a whole run of `helenus-perf` with these arguments.
fn instructions(arguments: &[impl AsRef<OsStr> + Debug]) -> Result<u64, TaskError> {
    let output = command("callgrind.out")?
        .arg(workspace::program("helenus-perf"))
        .args(arguments)
        .output()
        .map_err(|source| ProcessError::Start {
            program: "valgrind (install it from your distribution)".to_owned(),
            source,
        })?;
    let text = String::from_utf8_lossy(&output.stderr);
    collected(&text)
        .filter(|_| output.status.success())
        .ok_or_else(|| TaskError::Report {
            text: format!("callgrind counted nothing for {arguments:?}:\n{text}"),
        })
}

/// The command for a program under callgrind, which keeps its counts in `file`; to be completed by the program.
pub fn command(file: &str) -> Result<Command, TaskError> {
    let folder = workspace::scratch("callgrind");
    files::create_folder(&folder)?;
    let file = folder.join(file);
    let mut command = Command::new("valgrind");
    command
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", file.display()));
    Ok(command)
}

/// The instructions that callgrind's log tells.
pub fn collected(log: &str) -> Option<u64> {
    log.lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

/// Counts the instructions of one operation: the difference of two runs, divided by the difference of their counts, without
/// how they start. `arguments` makes the arguments of a run.
pub fn instructions_per_operation(
    few: u64,
    many: u64,
    arguments: impl Fn(&str) -> Vec<String>,
) -> Result<u64, TaskError> {
    let count = |operations: u64| instructions(&arguments(&operations.to_string()));
    Ok(count(many)?.saturating_sub(count(few)?) / (many - few).max(1))
}

/// Arguments of operations on a table with indexes, likewise.
pub fn indexed(operation: &str, operations: &str) -> Vec<String> {
    [
        "indexed",
        "--json",
        "--operation",
        operation,
        "--operations",
        operations,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Arguments of operations on one node in process, from frame to frame.
pub fn simple_query(flags: &[&str], operations: &str) -> Vec<String> {
    ["simple-query", "--json", "--operations", operations]
        .iter()
        .chain(flags)
        .map(|argument| (*argument).to_owned())
        .collect()
}

/// The report that `helenus-perf` prints with `--json` among these arguments.
pub fn report(arguments: &[impl AsRef<OsStr>]) -> Result<serde_json::Value, TaskError> {
    let mut command = Command::new(workspace::program("helenus-perf"));
    let output = process::run_quietly(command.args(arguments))?;
    files::parse(&output)
}
