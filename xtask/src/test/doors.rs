//! A node whose HTTP and gRPC door has an address that the test knows, and the programs that go through it.

use std::path::PathBuf;
use std::process::Command;

use super::Context;
use crate::node::{Node, free_address};
use crate::program::{self, Tally};
use crate::{TaskError, workspace};

/// A node, and where its door is.
pub struct Door {
    pub node: Node,
    pub address: String,
}

impl Door {
    pub fn start(context: &Context, name: &str, options: &[&str]) -> Result<Self, TaskError> {
        let address = free_address()?.to_string();
        let mut all = vec!["--grpc", &address];
        all.extend(options);
        let node = Node::start(&context.target, name, &all)?;
        Ok(Self { node, address })
    }

    /// Stops the node, which must not have panicked.
    pub fn stop(self, name: &str, tally: &mut Tally) {
        let panics = self.node.check_panics();
        tally.check(&format!("{name} left no panic in the server"), panics);
        let stopped = self.node.stop();
        tally.check(&format!("{name}: the server stops cleanly"), stopped);
    }
}

/// The Go module that pins programs of others.
pub fn go_tools() -> PathBuf {
    folder("grpc-tools")
}

/// A program of the tests in a folder of its own.
pub fn folder(name: &str) -> PathBuf {
    workspace::path("tests/drivers").join(name)
}

/// Runs a program that finds the door's address in `DOORS`, against a node of its own.
pub fn run(
    name: &str,
    mut command: Command,
    options: &[&str],
    context: &Context,
) -> Result<Tally, TaskError> {
    let mut door = Door::start(context, name, options)?;
    command.current_dir(workspace::root()).env("DOORS", &door.address);
    let mut tally = program::run(name, command, &mut door.node, &program::log_path(name))?;
    tally.check(&format!("{name}: the server stops cleanly"), door.node.stop());
    Ok(tally)
}
