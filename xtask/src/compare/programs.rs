//! The programs that the pages are made with: built, started, each on its core.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::process::{self, Process, ProcessError};
use crate::{TaskError, workspace};

/// The server's core where the generator has another one.
pub const SERVER_CORE: &str = "0";
pub const GENERATOR_CORE: &str = "1";

/// Builds what all pages are made with.
pub fn build() -> Result<(), ProcessError> {
    process::run(
        Command::new("cargo")
            .args(["build", "--release", "--quiet"])
            .args(["--package", "helenus", "--package", "helenus-perf"])
            .current_dir(workspace::root()),
    )
}

pub fn helenus() -> Command {
    Command::new(workspace::program("helenus"))
}

/// The command for a program that is kept to these cores, to be completed by its arguments.
pub fn on_cores(cores: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cores]).arg(program);
    command
}

pub fn helenus_on_cores(cores: &str) -> Command {
    on_cores(cores, workspace::program("helenus"))
}

/// Cores of this machine, for the pages on which everything shares them.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

/// One of the dummy servers of `helenus-perf`, and where it listens.
pub fn start_floor(name: &str) -> Result<(Process, SocketAddr), TaskError> {
    let mut command = Command::new(workspace::program("helenus-perf"));
    command.arg(name).stdout(Stdio::piped());
    let mut server = Process::start(&mut command)?;
    let mut line = String::new();
    if let Some(output) = server.child().stdout.take() {
        let read = BufReader::new(output).read_line(&mut line);
        read.map_err(|error| TaskError::Report {
            text: error.to_string(),
        })?;
    }
    let address = line
        .trim()
        .rsplit(' ')
        .next()
        .and_then(|address| address.parse().ok());
    let address = address.ok_or_else(|| TaskError::Report {
        text: format!("no address in {line:?}"),
    })?;
    Ok((server, address))
}
