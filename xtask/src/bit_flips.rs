//! The long form of the test that flips bits in SSTables: every component of every format, reported as a table.

use std::process::Command;

use clap::Args;

use crate::{TaskError, process, workspace};

#[derive(Args)]
pub struct Arguments {
    /// Random SSTables per format, each as ours and as Cassandra's come
    #[arg(long, default_value_t = 40)]
    files: u64,
    /// Bits to flip per component of a file: all of them where it has no more
    #[arg(long, default_value_t = 400)]
    flips: u64,
    /// The first file's seed; the others follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let report = workspace::path("docs/measurements/bit-flips.md");
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(workspace::root())
        .args([
            "test",
            "--release",
            "--package",
            "helenus-storage-model",
            "--test",
            "bit_flips",
        ])
        .args(["--", "--nocapture"])
        .env("HELENUS_BIT_FLIPS_FILES", arguments.files.to_string())
        .env("HELENUS_BIT_FLIPS", arguments.flips.to_string())
        .env("HELENUS_BIT_FLIPS_SEED", arguments.seed.to_string())
        .env("HELENUS_BIT_FLIPS_REPORT", &report);
    process::run(&mut cargo)?;
    println!("{}", report.display());
    Ok(())
}
