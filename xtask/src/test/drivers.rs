//! Unmodified drivers in their own languages, each a program that is installed, built and run here.

use std::process::Command;

use super::Context;
use crate::node::Node;
use crate::program::{self, Tally};
use crate::{TaskError, runtime, workspace};

pub fn python(context: &Context) -> Result<Tally, TaskError> {
    let folder = workspace::path("tests/drivers/python");
    let bin = runtime::python_environment("python", &folder.join("requirements.txt"))?;
    let mut command = Command::new(bin.join("python"));
    command.arg("-u").arg(folder.join("driver_test.py"));
    run("python", command, context)
}

pub fn java(context: &Context) -> Result<Tally, TaskError> {
    let mut command = runtime::java_program("java-driver", &workspace::path("tests/drivers/java"))?;
    command.arg("DriverTest");
    run("java", command, context)
}

pub fn go(context: &Context) -> Result<Tally, TaskError> {
    let command = runtime::go_program("go-driver", &workspace::path("tests/drivers/go"))?;
    run("go", command, context)
}

pub fn node(context: &Context) -> Result<Tally, TaskError> {
    let folder = workspace::path("tests/drivers/node");
    let packages = runtime::node_packages("node-driver", &folder)?;
    let mut command = Command::new("node");
    command
        .env("NODE_PATH", packages.join("node_modules"))
        .arg(folder.join("driver_test.js"));
    run("node", command, context)
}

/// Runs a driver's program against a node of its own.
fn run(name: &str, mut command: Command, context: &Context) -> Result<Tally, TaskError> {
    let mut node = Node::start(&context.target, name, &[])?;
    command.current_dir(workspace::root());
    let mut tally = program::run(name, command, &mut node, &program::log_path(name))?;
    tally.check(&format!("{name}: the server stops cleanly"), node.stop());
    Ok(tally)
}
