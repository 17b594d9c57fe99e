//! `cargo xtask bench concurrent-client`: 50,000 workers share one client object, and each reads one row
//! 200 times, with the drivers that applications use. Both servers run on this machine, in turns, and
//! share it with the client.

use std::fmt::Write;
use std::process::Command;

use clap::Args;
use serde_json::Value;

use crate::node::{Node, Target};
use crate::process::{self, ProcessError};
use crate::{TaskError, runtime, workspace};

#[derive(Args)]
pub struct Arguments {
    /// Workers that share the client
    #[arg(long, default_value_t = 50_000)]
    workers: u32,
    /// Reads of each worker, one after the other
    #[arg(long, default_value_t = 200)]
    queries: u32,
    /// Requests that the Java driver's throttle lets through at a time; the others queue inside the driver
    #[arg(long, default_value_t = 600)]
    throttle: u32,
    /// Clients to run
    #[arg(long, value_delimiter = ',', default_value = "go,java")]
    clients: Vec<String>,
    /// Leave Cassandra out, and the report unwritten
    #[arg(long)]
    only_helenus: bool,
    /// Leave Helenus out, and the report unwritten
    #[arg(long, conflicts_with = "only_helenus")]
    only_cassandra: bool,
}

const REPORT: &str = "bench/results/concurrent-client.md";

/// One client's run on one server.
struct Run {
    client: String,
    server: &'static str,
    figures: Value,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let mut runs = Vec::new();
    for client in &arguments.clients {
        if !arguments.only_cassandra {
            build_helenus()?;
            runs.push(measure(client, "Helenus", &Target::Helenus, arguments)?);
        }
        if !arguments.only_helenus {
            runs.push(measure(client, "Cassandra 5.0.5", &Target::Cassandra, arguments)?);
        }
    }
    let report = render(arguments, &runs);
    println!("{report}");
    if !arguments.only_helenus && !arguments.only_cassandra {
        let path = workspace::path(REPORT);
        std::fs::write(&path, &report).map_err(|source| TaskError::File { path, source })?;
        println!("written to {REPORT}");
    }
    Ok(())
}

fn build_helenus() -> Result<(), ProcessError> {
    process::run(
        Command::new("cargo")
            .args(["build", "--release", "--quiet", "--package", "helenus"])
            .current_dir(workspace::root()),
    )
}

fn measure(
    client: &str,
    server: &'static str,
    target: &Target,
    arguments: &Arguments,
) -> Result<Run, TaskError> {
    println!(
        "{client} on {server}: {} x {} reads",
        arguments.workers, arguments.queries
    );
    let mut command = client_command(client, arguments)?;
    let node = Node::start(target, "concurrent-client", &[])?;
    let address = node.address();
    command
        .env("CQL_HOST", address.ip().to_string())
        .env("CQL_PORT", address.port().to_string());
    let output = process::run_quietly(&mut command)?;
    let last = output.lines().last().unwrap_or_default();
    let figures = serde_json::from_str(last).map_err(|error| TaskError::Report {
        text: format!("{error} in {last:?}"),
    })?;
    println!("  {last}");
    node.check_panics()?;
    node.stop()?;
    Ok(Run {
        client: client.to_owned(),
        server,
        figures,
    })
}

fn client_command(client: &str, arguments: &Arguments) -> Result<Command, TaskError> {
    let folder = workspace::path("bench/clients").join(client);
    let (workers, queries) = (arguments.workers.to_string(), arguments.queries.to_string());
    match client {
        "go" => {
            let mut command = runtime::go_program("bench-go", &folder)?;
            command.args(["-workers", &workers, "-queries", &queries]);
            Ok(command)
        }
        "java" => {
            let mut command = runtime::java_program("bench-java", &folder)?;
            command
                .args([
                    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                    "ConcurrentClient",
                ])
                .args([&workers, &queries, &arguments.throttle.to_string()]);
            Ok(command)
        }
        _ => Err(TaskError::NoSuchPart {
            name: client.to_owned(),
        }),
    }
}

fn render(arguments: &Arguments, runs: &[Run]) -> String {
    let Arguments {
        workers,
        queries,
        throttle,
        ..
    } = arguments;
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let mut report = format!(
        "# One client, many workers

{workers} workers share one client and each reads one row {queries} times with a prepared point query.
Server and client share {cores} cores; the servers run one after the other. `go` is gocql as it comes;
`java` is the Java driver 4 with its concurrency throttle at {throttle} and room for everybody in its queue.

    cargo xtask bench concurrent-client --workers {workers} --queries {queries} --throttle {throttle}

| client | server | elapsed s | reads/s | errors | p50 ms | p99 ms | p99.9 ms | first error |
|---|---|---|---|---|---|---|---|---|
"
    );
    for Run {
        client,
        server,
        figures,
    } in runs
    {
        let number = |key: &str| figures.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let seconds = number("elapsed_ms") / 1e3;
        let failed = number("failed");
        let share = 100.0 * failed / (failed + number("succeeded"));
        let ms = |key: &str| number(key) / 1e3;
        let error = figures.get("first_error").and_then(Value::as_str).unwrap_or("-");
        // Writing to a String cannot fail.
        let _ = writeln!(
            report,
            "| {client} | {server} | {seconds:.1} | {:.0} | {failed:.0} ({share:.1} %) | {:.0} | {:.0} | {:.0} | {error} |",
            number("succeeded") / seconds,
            ms("latency_us_p50"),
            ms("latency_us_p99"),
            ms("latency_us_p999"),
        );
    }
    report
}
