//! Unmodified drivers in their own languages, each a program that is installed, built and run here.

use std::fs;
use std::process::Command;

use super::Context;
use super::doors::{self, folder};
use crate::node::{Node, NodeError};
use crate::program::{self, Tally};
use crate::{TaskError, process, runtime, workspace};

/// Clients of the door have to say who they are.
const LOGIN: &[&str] = &["--authenticator", "password"];

pub fn python(context: &Context) -> Result<Tally, TaskError> {
    python_driver("python", context)
}

pub fn scylla_python(context: &Context) -> Result<Tally, TaskError> {
    python_driver("scylla-python", context)
}

/// Both Python drivers install the same package, so they share the test but not the environment.
fn python_driver(name: &str, context: &Context) -> Result<Tally, TaskError> {
    let bin = runtime::python_environment(name, &folder(name).join("requirements.txt"))?;
    let mut command = Command::new(bin.join("python"));
    command.arg("-u").arg(folder("python").join("driver_test.py"));
    run(name, command, context)
}

pub fn cqlsh(context: &Context) -> Result<Tally, TaskError> {
    let bin = runtime::python_environment("cqlsh", &folder("cqlsh").join("requirements.txt"))?;
    let mut command = Command::new(bin.join("python"));
    command
        .arg("-u")
        .arg(folder("cqlsh").join("cqlsh_test.py"))
        .env("CQLSH", bin.join("cqlsh"));
    run("cqlsh", command, context)
}

pub fn java(context: &Context) -> Result<Tally, TaskError> {
    let mut command = runtime::java_program("java-driver", &folder("java"))?;
    command.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "DriverTest"]);
    run("java", command, context)
}

pub fn go(context: &Context) -> Result<Tally, TaskError> {
    run("go", runtime::go_program("go-driver", &folder("go"))?, context)
}

pub fn node(context: &Context) -> Result<Tally, TaskError> {
    let packages = runtime::node_packages("node-driver", &folder("node"))?;
    let mut command = Command::new("node");
    command
        .arg(folder("node").join("driver_test.js"))
        .env("NODE_PATH", packages.join("node_modules"));
    run("node", command, context)
}

/// A client of the gRPC door, which has to log in.
pub fn stargate_node(context: &Context) -> Result<Tally, TaskError> {
    doors_driver("stargate-node", "driver_test.js", LOGIN, context)
}

pub fn stargate_go(context: &Context) -> Result<Tally, TaskError> {
    let command = runtime::go_program("stargate-go", &folder("stargate-go"))?;
    doors::run("stargate-go", command, LOGIN, context)
}

pub fn stargate_java(context: &Context) -> Result<Tally, TaskError> {
    let mut command = runtime::java_program("stargate-java", &folder("stargate-java"))?;
    command.arg("StargateTest");
    doors::run("stargate-java", command, LOGIN, context)
}

pub fn stargate_rust(context: &Context) -> Result<Tally, TaskError> {
    let command = rust_program("stargate-rust", "helenus-stargate-rust-test")?;
    doors::run("stargate-rust", command, LOGIN, context)
}

/// Tests the console as a browser sees it, on a node for which every SELECT is slow that has to take its turn.
pub fn console(context: &Context) -> Result<Tally, TaskError> {
    const SETTINGS: &str = "slow_query_log_timeout: 1us\n";
    let config = workspace::target().join("console.yaml");
    fs::write(&config, SETTINGS).map_err(|source| NodeError::File {
        path: config.clone(),
        source,
    })?;
    let config = config.display().to_string();
    let options = [LOGIN, &["--config", &config]].concat();
    doors_driver("console", "console_test.js", &options, context)
}

/// Tests what the HTTP door streams as Arrow, by Arrow's own library.
pub fn arrow(context: &Context) -> Result<Tally, TaskError> {
    let bin = runtime::python_environment("arrow", &folder("arrow").join("requirements.txt"))?;
    let mut command = Command::new(bin.join("python"));
    command.arg("-u").arg(folder("arrow").join("arrow_test.py"));
    doors::run("arrow", command, &[], context)
}

/// Runs a program of Node.js against a node's doors.
fn doors_driver(name: &str, program: &str, options: &[&str], context: &Context) -> Result<Tally, TaskError> {
    let packages = runtime::node_packages(name, &folder(name))?;
    let mut command = Command::new("node");
    command
        .arg(folder(name).join(program))
        .env("NODE_PATH", packages.join("node_modules"));
    doors::run(name, command, options, context)
}

pub fn rust(context: &Context) -> Result<Tally, TaskError> {
    run("rust", rust_program("rust", "helenus-rust-driver-test")?, context)
}

/// Rust drivers are workspaces of their own: their dependencies are none of Helenus'.
fn rust_program(name: &str, program: &str) -> Result<Command, TaskError> {
    let target = workspace::target();
    process::run_quietly(
        Command::new("cargo")
            .args(["build", "--quiet", "--locked"])
            .current_dir(folder(name))
            .env("CARGO_TARGET_DIR", &target),
    )?;
    Ok(Command::new(target.join("debug").join(program)))
}

/// Runs a driver's program against a node of its own.
fn run(name: &str, mut command: Command, context: &Context) -> Result<Tally, TaskError> {
    let mut node = Node::start(&context.target, name, &[])?;
    command.current_dir(workspace::root());
    let mut tally = program::run(name, command, &mut node, &program::log_path(name))?;
    tally.check(&format!("{name}: the server stops cleanly"), node.stop());
    Ok(tally)
}
