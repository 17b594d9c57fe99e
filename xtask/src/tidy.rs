//! `cargo xtask tidy`: the rules of STYLE.md that a program can look after.
//!
//! Everything is found in the sources themselves: files are parsed, nothing is built. Each finding is a line
//! `file:line: what to do`, so that editors jump to it.

mod exports;
mod graph;
mod items;
mod rules;
mod sources;

use std::fmt;
use std::path::PathBuf;

use crate::TaskError;
use crate::program::Tally;
use sources::Sources;

#[derive(clap::Args)]
pub struct Arguments {
    /// Prints the imports between crates and between the modules of a crate, as layers
    #[arg(long)]
    graph: Option<Option<String>>,
}

/// A place where a rule is not kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub file: PathBuf,
    pub line: usize,
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file.display(), self.line, self.text)
    }
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let sources = Sources::load()?;
    match &arguments.graph {
        Some(None) => {
            print!("{}", graph::crates(&sources));
            return Ok(());
        }
        Some(Some(name)) => {
            print!("{}", graph::modules(&sources, name));
            return Ok(());
        }
        None => {}
    }
    let tally = check(&sources);
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if tally.failed == 0 {
        Ok(())
    } else {
        Err(TaskError::Failures { count: tally.failed })
    }
}

/// A part of the test command.
pub fn all() -> Result<Tally, TaskError> {
    Ok(check(&Sources::load()?))
}

fn check(sources: &Sources) -> Tally {
    let mut tally = Tally::default();
    for rule in rules::ALL {
        let mut findings = (rule.check)(sources);
        findings.sort();
        let outcome = match findings.len() {
            0 => Ok(()),
            count => {
                findings.iter().for_each(|finding| println!("{finding}"));
                Err(format!("{count} places; {}", rule.because))
            }
        };
        tally.check(rule.name, outcome);
    }
    tally
}
