//! `cargo xtask simulate`: a whole node on a simulated disk, clock and scheduler, seed by seed.

use std::fs::File;
use std::process::Command;

use clap::Args;

use crate::process::ProcessError;
use crate::program::Tally;
use crate::{TaskError, process, workspace};

/// Seeds in the test command of the unit tests' build, whose assertions and overflow checks are on: half a minute on two cores.
const SEEDS_ASSERTED: u32 = 60;
/// And of the optimised build, which needs a quarter of the time for each: a minute on two cores.
const SEEDS_OPTIMISED: u32 = 500;

#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// Arguments of the simulation, its own --help included.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let mut simulate = workspace::release_program("helenus-simulation");
    simulate.args(&arguments.arguments).stderr(log("nodes.log")?);
    process::run(&mut simulate)?;
    Ok(())
}

/// From fresh seeds, in both builds.
pub fn short() -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    let asserted = workspace::unit_program("simulate")?;
    let optimised = Command::new(workspace::program("simulate"));
    for (name, file, program, seeds) in [
        ("seeds with assertions", "asserted.log", asserted, SEEDS_ASSERTED),
        (
            "seeds of the optimised build",
            "optimised.log",
            optimised,
            SEEDS_OPTIMISED,
        ),
    ] {
        tally.check(&format!("{seeds} {name}"), run_seeds(program, seeds, file));
    }
    Ok(tally)
}

fn run_seeds(mut simulate: Command, seeds: u32, file: &str) -> Result<(), ProcessError> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    simulate
        .current_dir(workspace::root())
        .args(["--seeds", &seeds.to_string(), "--jobs", &jobs.to_string()])
        .stderr(log(file)?);
    process::run(&mut simulate)
}

/// Opens the file for the nodes' messages of disks that fail: there are thousands.
fn log(file: &str) -> Result<File, ProcessError> {
    process::log_file(&workspace::target().join("simulation").join(file))
}
