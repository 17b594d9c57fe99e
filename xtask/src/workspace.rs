//! Where things are: the project's root, its `target` folder and what the tasks keep inside it.

use std::path::{Path, PathBuf};

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

/// Interpreters, driver packages and other things that tests install; kept between runs.
pub fn installed() -> PathBuf {
    target().join("installed")
}

/// What is compiled from the project's programs in other languages.
pub fn built(name: &str) -> PathBuf {
    target().join("built").join(name)
}

/// Data folders and logs of the servers that tests start; remade by each run.
pub fn scratch(name: &str) -> PathBuf {
    target().join("blackbox").join(name)
}
