//! The project's own tools: `cargo xtask COMMAND`.
//!
//! Everything that tests, compares, breaks or measures Helenus from the outside starts here, on a
//! developer's machine and in CI alike.

mod attack;
mod bit_flips;
mod bystander;
mod compare;
mod crash;
mod differential;
mod fuzz_corpus;
mod interchange;
mod metamorphic;
mod mutate_doors;
mod mutate_frames;
mod native;
mod node;
mod peer;
mod ports;
mod process;
mod program;
mod runtime;
mod simulate;
mod statements;
mod test;
mod tidy;
mod wire;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Tests, comparisons and measurements of Helenus from the outside"
)]
struct CommandLine {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run everything a change must pass: format, lints, unit tests, black-box tests
    Test(test::Arguments),
    /// Fetch and run a real Apache Cassandra 5.0 to compare with
    #[command(subcommand)]
    Peer(peer::Command),
    /// Run generated or recorded statements on Helenus and compare the answers with Cassandra's
    Differential(differential::Arguments),
    /// Kill the server under write load and look for acknowledged writes that went missing
    Crash(crash::Arguments),
    /// Exchange SSTables of random tables with a real Cassandra, both ways
    Interchange(interchange::Arguments),
    /// Flip bits in SSTables of every format and see that they are found
    BitFlips(bit_flips::Arguments),
    /// Run random histories on many nodes that must agree, and shrink those on which they do not
    Metamorphic(metamorphic::Arguments),
    /// Send random statements of every kind to nodes: none may panic, stall a shard or be late
    Statements(statements::Arguments),
    /// Send damaged messages to a live node and see that nobody is harmed
    MutateFrames(mutate_frames::Arguments),
    /// Send damaged frames of HTTP/2 and gRPC to the door of a live node and see that nobody is harmed
    MutateDoors(mutate_doors::Arguments),
    /// Attack a live node in many ways and see that a polite client beside it notices little
    Attack(attack::Arguments),
    /// Run a whole node on a simulated disk, clock and scheduler, seed by seed
    Simulate(simulate::Arguments),
    /// Write anew what fuzzing of files begins with: `fuzz/corpus`
    FuzzCorpus,
    /// See that the rules of STYLE.md are kept that a program can look after
    Tidy(tidy::Arguments),
    /// Measure Helenus beside Cassandra
    #[command(subcommand)]
    #[command(alias = "bench")]
    Compare(compare::Command),
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().task {
        Task::Test(arguments) => test::run(&arguments),
        Task::Peer(command) => peer::run(&command).map_err(Into::into),
        Task::Differential(arguments) => differential::run(&arguments),
        Task::Crash(arguments) => crash::run(&arguments),
        Task::Interchange(arguments) => interchange::run(&arguments),
        Task::BitFlips(arguments) => bit_flips::run(&arguments),
        Task::Metamorphic(arguments) => metamorphic::run(&arguments),
        Task::Statements(arguments) => statements::run(&arguments),
        Task::MutateFrames(arguments) => mutate_frames::run(&arguments),
        Task::MutateDoors(arguments) => mutate_doors::run(&arguments),
        Task::Attack(arguments) => attack::run(&arguments),
        Task::Simulate(arguments) => simulate::run(&arguments),
        Task::FuzzCorpus => fuzz_corpus::run(),
        Task::Tidy(arguments) => tidy::run(&arguments),
        Task::Compare(command) => compare::run(command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why a task could not do its work; each task's own errors keep their types underneath.
#[derive(Debug, thiserror::Error)]
enum TaskError {
    #[error(transparent)]
    Process(#[from] process::ProcessError),
    #[error(transparent)]
    Runtime(#[from] runtime::RuntimeError),
    #[error(transparent)]
    Node(#[from] node::NodeError),
    #[error(transparent)]
    Peer(#[from] peer::PeerError),
    #[error(transparent)]
    Native(#[from] native::NativeError),
    #[error("{path}: {source}")]
    File {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("a benchmark's report cannot be used: {text}")]
    Report { text: String },
    #[error("the exchange cannot go on: {reason}")]
    Interchange { reason: String },
    #[error("{path}: {reason}")]
    Tidy {
        path: std::path::PathBuf,
        reason: String,
    },
    #[error("{count} failed")]
    Failures { count: usize },
    #[error("no part is called {name:?}; `cargo xtask test --list` names them")]
    NoSuchPart { name: String },
    #[error("{what} is not installed")]
    RuntimeMissing { what: &'static str },
}
