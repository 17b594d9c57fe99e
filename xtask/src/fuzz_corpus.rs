//! The inputs that fuzzing of files begins with: undamaged components of small SSTables of several versions.

use std::process::Command;

use crate::{TaskError, process, workspace};

/// The test that compares them with those in the tree writes them instead.
pub fn run() -> Result<(), TaskError> {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(workspace::root())
        .args(["test", "--package", "helenus-fuzz-targets", "--test", "smoke"])
        .args(["--", "the_corpus_is_of_today"])
        .env("HELENUS_FUZZ_CORPUS", "write");
    process::run(&mut cargo)?;
    println!("{}", workspace::path("fuzz/corpus").display());
    Ok(())
}
