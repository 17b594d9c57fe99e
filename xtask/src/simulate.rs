//! `cargo xtask simulate`: a whole node on a simulated disk, clock and scheduler, seed by seed.

use std::fs::File;

use clap::Args;

use crate::process::ProcessError;
use crate::program::Tally;
use crate::{TaskError, process, workspace};

/// Seeds in the test command: some two minutes of the dev build on two cores.
const SEEDS_SHORT: &str = "300";

#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// What the simulation is told, its own --help included.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let mut simulate = workspace::release_program("helenus-simulation");
    simulate.args(&arguments.arguments).stderr(log()?);
    process::run(&mut simulate)?;
    Ok(())
}

/// From a fresh seed, in the build that the unit tests have made.
pub fn short() -> Result<Tally, TaskError> {
    let mut simulate = workspace::unit_program("simulate")?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    simulate
        .args(["--seeds", SEEDS_SHORT, "--jobs", &jobs.to_string()])
        .stderr(log()?);
    let outcome: Result<(), ProcessError> = process::run(&mut simulate);
    let mut tally = Tally::default();
    tally.check("300 seeds", outcome);
    Ok(tally)
}

/// What the nodes have to say of disks that fail goes to a file: there are thousands.
fn log() -> Result<File, ProcessError> {
    process::log_file(&workspace::target().join("simulation").join("nodes.log"))
}
