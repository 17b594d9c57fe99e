//! `cargo xtask differential`: the same statements on Helenus and on Cassandra, answers compared.
//!
//! Generation, comparison and shrinking are in `tests/differential`; here the two servers are started.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::node::{Node, Target};
use crate::program::{self, Tally};
use crate::{TaskError, process, runtime, workspace};

#[derive(Args)]
pub struct Arguments {
    /// Start of the random sequence; the same seed gives the same statements
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many statements to generate
    #[arg(long, default_value_t = 1000)]
    statements: usize,
    /// Compare (or record) these case files instead of generated statements
    #[arg(long = "cases", value_name = "FILE", num_args = 1..)]
    cases: Vec<PathBuf>,
    /// Record Cassandra's answers to the case files (all of them unless --cases names some)
    #[arg(long)]
    record: bool,
    /// The node to compare with: `cassandra` starts one, HOST:PORT uses one that runs
    #[arg(long, default_value = "cassandra")]
    peer: String,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let peer = Node::start(&Target::parse(&arguments.peer)?, "differential-peer", &[])?;
    let mut script = script()?;
    script.args(["--peer", &peer.address().to_string()]);
    if arguments.record {
        script.arg("record").args(&arguments.cases);
        return Ok(process::run(&mut script)?);
    }
    let node = Node::start(&Target::from_environment()?, "differential", &[])?;
    script.args(["--node", &node.address().to_string()]);
    if arguments.cases.is_empty() {
        script.arg("generate");
        script.args(["--seed", &arguments.seed.to_string()]);
        script.args(["--statements", &arguments.statements.to_string()]);
    } else {
        script.arg("compare").args(&arguments.cases);
    }
    process::run(&mut script)?;
    node.check_panics()?;
    Ok(node.stop()?)
}

/// Replays the recorded case files on `node`; needs no Cassandra.
pub fn replay(node: &mut Node) -> Result<Tally, TaskError> {
    let mut script = script()?;
    script.args(["--node", &node.address().to_string(), "replay"]);
    program::run(
        "differential-replay",
        script,
        node,
        &program::log_path("differential-replay"),
    )
}

fn script() -> Result<Command, TaskError> {
    let python = runtime::python().ok_or(TaskError::RuntimeMissing {
        what: runtime::Runtime::Python.name(),
    })?;
    let mut command = Command::new(python);
    command
        .arg("-u")
        .arg(workspace::path("tests/differential/differential.py"));
    Ok(command)
}
