//! Where things are: the project's root, its `target` folder and what the tasks keep inside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::process::{self, ProcessError};

/// Profile of the optimised programs that the test command builds and runs: as the release build, but for the linking of the
/// whole, which takes most of its time.
pub const TEST_PROFILE: &str = "ci";

static PROFILE: OnceLock<&str> = OnceLock::new();

/// The folder that holds the workspace's `Cargo.toml`.
pub fn root() -> &'static Path {
    // xtask is a direct child of the root, so its manifest folder always has a parent.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// A path below the root, written with `/`.
pub fn path(below_root: &str) -> PathBuf {
    root().join(below_root)
}

/// Cargo's target folder: everything the tasks make lands below it.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => path("target"),
    }
}

/// From here on, [`program`] is of the test command's build.
pub fn use_test_profile() {
    PROFILE.get_or_init(|| TEST_PROFILE);
}

/// An optimised program of the workspace: of the release build, but in the test command.
pub fn program(name: &str) -> PathBuf {
    target().join(PROFILE.get().unwrap_or(&"release")).join(name)
}

/// A program that is a package of its own, in its release build.
pub fn release_program(package: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(root())
        .args(["run", "--release", "--package", package, "--"]);
    cargo
}

/// A program of the workspace in the build of the unit tests, which is completed if need be. Were it chosen by `--package`, dependencies
/// would lack the features that only other packages ask for, and everything above them would be built once more.
pub fn unit_program(name: &str) -> Result<Command, ProcessError> {
    process::run(
        Command::new("cargo")
            .args(["build", "--quiet", "--workspace", "--bins", "--tests"])
            .current_dir(root()),
    )?;
    let mut command = Command::new(target().join("debug").join(name));
    command.current_dir(root());
    Ok(command)
}

/// Interpreters, driver packages and other things that tests install; kept between runs.
pub fn installed() -> PathBuf {
    target().join("installed")
}

/// Build folder of one of the project's programs in other languages.
pub fn built(name: &str) -> PathBuf {
    target().join("built").join(name)
}

/// Data folders and logs of the servers that tests start; remade by each run.
pub fn scratch(name: &str) -> PathBuf {
    target().join("blackbox").join(name)
}
