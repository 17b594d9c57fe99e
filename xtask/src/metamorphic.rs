//! `cargo xtask metamorphic`: random histories on many nodes that must agree, see `crates/metamorphic`.
//!
//! A history that fails is shrunk and left in `target/metamorphic`; `--replay` runs it again. Once what it shows is
//! mended, it goes to `crates/metamorphic/scripts`, whose histories are tests.
//!
//! `--beside cassandra`: a real Cassandra takes part, and must answer as the nodes do. For long runs: the test command has none.
//!
//! `--index-queries N`: histories that are mostly questions to secondary indexes, until N of them were answered by one; a node without
//! indexes answers the same by filtering.

use std::process::Command;

use clap::Args;

use crate::node::{Node, Target};
use crate::process::ProcessError;
use crate::program::Tally;
use crate::{TaskError, process, workspace};

#[derive(Args)]
pub struct Arguments {
    /// Show the options of the histories: `cargo xtask metamorphic --help-metamorphic`
    #[arg(long)]
    help_metamorphic: bool,
    /// A Cassandra takes part: `cassandra` starts one, HOST:PORT uses one that runs, whose keyspace `interchange` is dropped
    #[arg(long, value_name = "cassandra|HOST:PORT")]
    beside: Option<String>,
    /// --seed S, --steps N, --index-queries N, --minutes M, --history N, --failures N, --replay FILE, --print, --no-shrink
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// In the test command: one history that is the same each time, then others.
const SHORT: [&str; 5] = ["--seed", "1", "--fresh", "--minutes", "0.8"];
/// And a few seconds of questions to indexes.
const SHORT_INDEX_QUERIES: [&str; 5] = ["--seed", "1", "--fresh", "--index-queries", "2000"];
/// And as many of those for Cassandra.
const SHORT_BESIDE: [&str; 5] = ["--seed", "1", "--fresh", "--steps", "2000"];

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let mut metamorphic = with_folder(workspace::release_program("helenus-metamorphic"))?;
    metamorphic.args(&arguments.arguments);
    if arguments.help_metamorphic {
        metamorphic.arg("--help");
    }
    match &arguments.beside {
        Some(cassandra) => run_beside(metamorphic, cassandra),
        None => Ok(process::run(&mut metamorphic)?),
    }
}

/// Runs a program that compares with a Cassandra: one that is started, if its name is `cassandra`, or that at an address.
pub fn run_beside(program: Command, cassandra: &str) -> Result<(), TaskError> {
    let cassandra = match Target::parse(cassandra)? {
        Target::Cassandra => Node::start_cassandra(HEAP, &[], &PEER_SETTINGS)?,
        target => Node::start(&target, "compared-peer", &[])?,
    };
    run_beside_node(program, &cassandra)?;
    Ok(cassandra.stop()?)
}

fn run_beside_node(mut program: Command, node: &Node) -> Result<(), ProcessError> {
    program.args(["--cassandra", &node.address().to_string()]);
    process::run(&mut program)
}

/// Java heap of a Cassandra beside histories.
const HEAP: &str = "2g";
/// It drops the keyspace of every history, and has a busy machine.
const PEER_SETTINGS: [&str; 2] = ["auto_snapshot: false", "cas_contention_timeout: 20s"];

/// In the build that the unit tests have made.
pub fn short() -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    for (name, arguments) in [
        ("random histories", SHORT),
        ("index queries", SHORT_INDEX_QUERIES),
    ] {
        let mut metamorphic = with_folder(workspace::unit_program("metamorphic")?)?;
        metamorphic.args(arguments);
        let outcome: Result<(), ProcessError> = process::run(&mut metamorphic);
        tally.check(name, outcome);
    }
    // What Cassandra is sent in long runs is sent to a node here: through its sockets it answers as nodes in this process do.
    let node = Node::start(&Target::Helenus, "metamorphic", &[])?;
    let mut metamorphic = with_folder(workspace::unit_program("metamorphic")?)?;
    metamorphic.args(SHORT_BESIDE);
    tally.check(
        "histories beside a served node",
        run_beside_node(metamorphic, &node),
    );
    node.check_panics()?;
    node.stop()?;
    Ok(tally)
}

/// Adds the folder, and sends the nodes' messages of their flushes and restarts to a file: there are hundreds.
fn with_folder(mut program: Command) -> Result<Command, TaskError> {
    let folder = workspace::target().join("metamorphic");
    program
        .arg("--folder")
        .arg(&folder)
        .stderr(process::log_file(&folder.join("nodes.log"))?);
    Ok(program)
}
