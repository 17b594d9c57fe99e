//! `cargo xtask statements`: random statements of every kind to whole nodes, see `crates/statement-fuzz`.
//!
//! `--beside cassandra`: the same statements to a real Cassandra, and in what the answers differ, by kind.
//!
//! What fails is shrunk and left in `target/statements`; `--replay` runs it again.

use std::process::Command;

use clap::Args;

use crate::process::ProcessError;
use crate::program::Tally;
use crate::{TaskError, metamorphic, process, workspace};

#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// Compare what a node answers with Cassandra: `cassandra` starts one, HOST:PORT uses one that runs
    #[arg(long, value_name = "cassandra|HOST:PORT")]
    beside: Option<String>,
    /// Arguments of the program, its own --help included: --seed S, --count N, --minutes M, --replay FILE
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// In the test command: about a minute of the dev build, for panics and answers; only an optimised build judges stalls.
const SHORT: [&str; 4] = ["--count", "10000", "--shrink-runs", "20"];

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let mut statements = with_folder(workspace::release_program("helenus-statement-fuzz"))?;
    statements.args(&arguments.arguments);
    match &arguments.beside {
        Some(cassandra) => metamorphic::run_beside(statements, cassandra),
        None => Ok(process::run(&mut statements)?),
    }
}

/// From a fresh seed, in the build that the unit tests have made.
pub fn short() -> Result<Tally, TaskError> {
    let mut statements = with_folder(workspace::unit_program("statements")?)?;
    statements.args(SHORT);
    let outcome: Result<(), ProcessError> = process::run(&mut statements);
    let mut tally = Tally::default();
    tally.check("random statements", outcome);
    Ok(tally)
}

/// Adds the folder, and sends the nodes' messages of panics to a file.
fn with_folder(mut program: Command) -> Result<Command, TaskError> {
    let folder = workspace::target().join("statements");
    program
        .arg("--folder")
        .arg(&folder)
        .stderr(process::log_file(&folder.join("nodes.log"))?);
    Ok(program)
}
