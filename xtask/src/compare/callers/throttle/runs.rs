//! Runs of the load generator in which the limits take turns. Where the server's speed is to change, a burning process on
//! its core takes half of it away, and gives it back.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::slices::{self, Slice};
use super::{Arguments, Part};
use crate::compare::load_generator::{self, now_us};
use crate::compare::programs::{GENERATOR_CORE, SERVER_CORE};
use crate::compare::{files, programs};
use crate::node::Node;
use crate::process::{self, Process};
use crate::{TaskError, workspace};

/// Longest time of a run beyond its phases.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn measure(part: Part, arguments: &Arguments) -> Result<Vec<Slice>, TaskError> {
    let options: &[&str] = if part == Part::Change {
        &["--shards", "1"]
    } else {
        &[]
    };
    let node = Node::start(&part.target(), "bench-throttle", options)?;
    if part == Part::Change {
        node.keep_to_core(SERVER_CORE)?;
    }
    write_rows(node.address(), arguments)?;
    let mut slices = Vec::new();
    for round in 0..arguments.rounds {
        let run = one_run(part, node.address(), arguments, round)?;
        println!("round {}\n{}", round + 1, slices::render(&run, part.phases()));
        slices.extend(run);
    }
    node.check_panics()?;
    node.stop()?;
    Ok(slices)
}

/// The rows that will be read, and the load before everything that counts.
fn write_rows(address: SocketAddr, arguments: &Arguments) -> Result<(), TaskError> {
    let mut command = load_generator::command(&[address]);
    command
        .args(["--preset", "concurrent-client", "--threads", "1"])
        .args(["--concurrency", &arguments.workers.to_string()])
        .args(["--duration", &format!("{}s", arguments.warm_up)]);
    process::run(&mut command)?;
    Ok(())
}

/// One run through the phases; the server is slowed down in the second.
fn one_run(
    part: Part,
    address: SocketAddr,
    arguments: &Arguments,
    round: usize,
) -> Result<Vec<Slice>, TaskError> {
    let phase = Duration::from_secs(arguments.seconds.into());
    let phases = part.phases().len() as u32;
    let trace = trace_path(round)?;
    // Whoever comes after a change comes at another time in each round.
    let mut beside: Vec<String> = arguments.limits.iter().map(usize::to_string).collect();
    let length = beside.len().max(1);
    beside.rotate_left(round % length);
    let mut command = match part {
        Part::Change => load_generator::command_on_core(GENERATOR_CORE, &[address]),
        Part::Helenus | Part::Cassandra => load_generator::command(&[address]),
    };
    command
        .args(["--no-set-up", "--preset", "concurrent-client"])
        .args(["--warm-up", "0s", "--threads", "1"])
        .args(["--concurrency", &arguments.workers.to_string()])
        .args(["--duration", &format!("{}s", (phase * phases).as_secs())])
        .args(["--beside", &beside.join(",")])
        .args(["--trace-over", "1h", "--trace"])
        .arg(&trace);
    let start = Instant::now();
    let mut changes_us = vec![now_us()];
    let mut client = Process::start(&mut command)?;
    let mut burner: Option<Process> = None;
    for ended in 1..phases {
        thread::sleep((ended * phase).saturating_sub(start.elapsed()));
        // One that burned in this phase is killed as it is dropped.
        if burner.take().is_none() {
            burner = Some(burn_time()?);
        }
        changes_us.push(now_us());
    }
    client.wait_until(start + phases * phase + PATIENCE)?;
    Ok(slices::parse(&files::read_text(&trace)?, &changes_us))
}

fn burn_time() -> Result<Process, TaskError> {
    let mut command = programs::on_cores(SERVER_CORE, "sh");
    command.args(["-c", "while :; do :; done"]);
    Ok(Process::start(&mut command)?)
}

fn trace_path(round: usize) -> Result<PathBuf, TaskError> {
    let folder = workspace::scratch("bench-throttle-traces");
    files::create_folder(&folder)?;
    Ok(folder.join(format!("trace-{}.csv", round + 1)))
}
