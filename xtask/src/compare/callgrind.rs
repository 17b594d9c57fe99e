//! `helenus-perf` as it is, and under callgrind, which counts every instruction of its process.

use std::process::Command;

use crate::TaskError;
use crate::process::ProcessError;
use crate::workspace;

/// Instructions of a whole run of `helenus-perf` with these arguments.
pub fn instructions(arguments: &[&str]) -> Result<u64, TaskError> {
    let folder = workspace::scratch("callgrind");
    std::fs::create_dir_all(&folder).map_err(|source| TaskError::File {
        path: folder.clone(),
        source,
    })?;
    let out_file = folder.join("callgrind.out");
    let mut command = Command::new("valgrind");
    command.args([
        "--tool=callgrind",
        &format!("--callgrind-out-file={}", out_file.display()),
    ]);
    command.arg(workspace::program("helenus-perf"));
    let output = command
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

/// The instructions that callgrind's log tells.
pub fn collected(log: &str) -> Option<u64> {
    log.lines()
        .find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

/// Counts the instructions of one operation: the difference of two runs, without how they start. `arguments` makes the
/// arguments of a run.
pub fn instructions_per_operation(
    few: u64,
    many: u64,
    arguments: impl Fn(&str) -> Vec<String>,
) -> Result<u64, TaskError> {
    let count = |operations: u64| {
        let arguments = arguments(&operations.to_string());
        instructions(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    Ok(count(many)?.saturating_sub(count(few)?) / (many - few).max(1))
}

/// The report that `helenus-perf` prints with `--json` among these arguments.
pub fn report(arguments: &[&str]) -> Result<serde_json::Value, TaskError> {
    let program = || format!("helenus-perf {}", arguments.join(" "));
    let output = Command::new(workspace::program("helenus-perf"))
        .args(arguments)
        .output()
        .map_err(|source| ProcessError::Start {
            program: program(),
            source,
        })?;
    if !output.status.success() {
        return Err(TaskError::Report {
            text: format!("{}: {}", program(), String::from_utf8_lossy(&output.stderr)),
        });
    }
    serde_json::from_slice(&output.stdout).map_err(|error| TaskError::Report {
        text: error.to_string(),
    })
}
