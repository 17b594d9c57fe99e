//! Test programs in other languages, and the lines that they speak with the harness.
//!
//! A program finds the node in `CQL_HOST` and `CQL_PORT` and prints `ok NAME`, `FAIL NAME: why` or
//! `skip NAME: why` per check. A line `restart` asks for a restart of the node and is answered, on
//! the program's standard input, with `restarted`, or with `unavailable` for a node that somebody
//! else runs. Everything else goes to the log.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::TaskError;
use crate::node::{Node, NodeError};
use crate::process::{self, Process};

/// The longest that one program may run; the slowest takes about a minute against Cassandra.
const PROGRAM_SECONDS_MAX: u64 = 600;
/// How often a running program reports how far it got.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);

/// Counts of one part's checks, by outcome.
#[derive(Default, Debug, Serialize, Deserialize)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Counts one check and reports it when it failed.
    pub fn check(&mut self, name: &str, outcome: Result<(), impl std::fmt::Display>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(error) => {
                self.failed += 1;
                println!("  FAIL {name}: {error}");
            }
        }
    }
}

/// Runs a test program against `node` and counts its checks.
pub fn run(name: &str, mut command: Command, node: &mut Node, log: &Path) -> Result<Tally, TaskError> {
    let address = node.address();
    command
        .env("CQL_HOST", address.ip().to_string())
        .env("CQL_PORT", address.port().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(process::log_file(log)?);
    let mut conversation = Conversation::start(&mut command)?;
    let mut tally = Tally::default();
    let deadline = Instant::now() + Duration::from_secs(PROGRAM_SECONDS_MAX);
    let outcome = conversation.hold(name, node, &mut tally, deadline)?;
    tally.check(name, outcome.map_err(|why| format!("{why}; {}", log_hint(log))));
    tally.check(
        &format!("{name} left no panic in the server"),
        node.check_panics(),
    );
    Ok(tally)
}

/// Where to look, and the end of what is to be seen there.
fn log_hint(log: &Path) -> String {
    format!("log {}:\n{}", log.display(), process::log_tail(log, 15))
}

struct Conversation {
    process: Process,
    lines: mpsc::Receiver<String>,
}

impl Conversation {
    fn start(command: &mut Command) -> Result<Self, TaskError> {
        let mut process = Process::start(command)?;
        let (sender, lines) = mpsc::channel();
        if let Some(output) = process.child().stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Self { process, lines })
    }

    /// Listens until the program ends; the inner error says what was wrong with the program itself.
    fn hold(
        &mut self,
        name: &str,
        node: &mut Node,
        tally: &mut Tally,
        deadline: Instant,
    ) -> Result<Result<(), String>, TaskError> {
        let failed_before = tally.failed;
        let mut progress_at = Instant::now() + PROGRESS_INTERVAL;
        loop {
            match self.lines.recv_timeout(PROGRESS_INTERVAL) {
                Ok(line) => self.hear(&line, node, tally)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() > deadline {
                self.process.kill();
                return Ok(Err(format!("did not end within {PROGRAM_SECONDS_MAX} s")));
            }
            if Instant::now() > progress_at {
                println!("  {name}: {} checks passed so far", tally.passed);
                progress_at = Instant::now() + PROGRESS_INTERVAL;
            }
        }
        Ok(match self.process.wait_until(deadline)? {
            Some(status) if status.success() || tally.failed > failed_before => Ok(()),
            Some(status) => Err(format!("ended with {status} although no check failed")),
            None => Err("closed its output but did not end".to_owned()),
        })
    }

    fn hear(&mut self, line: &str, node: &mut Node, tally: &mut Tally) -> Result<(), NodeError> {
        if line.starts_with("ok ") {
            tally.passed += 1;
        } else if line.starts_with("FAIL ") {
            tally.failed += 1;
            println!("  {line}");
        } else if line.starts_with("skip ") {
            tally.skipped += 1;
            println!("  {line}");
        } else if line == "restart" {
            let reply = if node.restart()? {
                "restarted"
            } else {
                "unavailable"
            };
            if let Some(input) = &mut self.process.child().stdin {
                // A program that left meanwhile is noticed by its exit status.
                let _ = writeln!(input, "{reply}").and_then(|()| input.flush());
            }
        } else {
            println!("  | {line}");
        }
        Ok(())
    }
}

/// The log of a test program called `name`.
pub fn log_path(name: &str) -> PathBuf {
    crate::workspace::scratch("logs").join(format!("{name}.log"))
}
