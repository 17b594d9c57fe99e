//! `cargo xtask compare concurrent-client`: 50,000 workers share one client object, and each reads one row
//! 200 times, with the drivers that applications use. The servers run on this machine, in turns, and
//! share it with the client.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::node::{Node, Target};
use crate::process;
use crate::{TaskError, runtime, workspace};

const REPORT: &str = "docs/measurements/concurrent-client.md";

#[derive(Args)]
pub struct Arguments {
    /// Workers that share the client
    #[arg(long, default_value_t = 50_000)]
    workers: u32,
    /// Reads of each worker, one after the other
    #[arg(long, default_value_t = 200)]
    queries: u32,
    /// Drivers to run
    #[arg(long, value_enum, default_value_t = ClientChoice::All)]
    client: ClientChoice,
    /// Servers to run; the report is written when both are
    #[arg(long, value_enum, default_value_t = TargetChoice::Both)]
    target: TargetChoice,
    /// Requests that the Java driver's throttle lets through at a time, the others queue inside the driver;
    /// 0 is no throttle, several values are run one after the other
    #[arg(long, value_delimiter = ',', default_value = "600")]
    throttle: Vec<u32>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum ClientChoice {
    Gocql,
    Java,
    All,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum TargetChoice {
    Helenus,
    Cassandra,
    Both,
}

/// A driver as it is configured for one run.
#[derive(Clone, Copy)]
pub(super) enum Client {
    Gocql,
    Java { throttle: u32 },
}

/// Report of a client, printed when all its workers have ended; latencies are those of successful reads.
#[derive(Deserialize)]
pub(super) struct Figures {
    pub client: String,
    pub elapsed_s: f64,
    pub ok: u64,
    pub errors: BTreeMap<String, u64>,
    pub ops_per_s: f64,
    pub latency_us_p50: u64,
    pub latency_us_p99: u64,
    pub latency_us_p999: u64,
}

/// One client's run on one server.
struct Run {
    client: Client,
    server: &'static str,
    figures: Figures,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let servers = servers(arguments.target);
    if servers.iter().any(|(_, target)| *target == Target::Helenus) {
        super::build_helenus()?;
    }
    let mut runs = Vec::new();
    for client in clients(arguments) {
        for (server, target) in &servers {
            runs.push(measure(client, server, target, arguments)?);
        }
    }
    let report = render(arguments, &runs);
    println!("{report}");
    if arguments.target == TargetChoice::Both {
        super::write_report(REPORT, &report)?;
    }
    Ok(())
}

fn clients(arguments: &Arguments) -> Vec<Client> {
    let gocql = [Client::Gocql].into_iter();
    let java = arguments
        .throttle
        .iter()
        .map(|throttle| Client::Java { throttle: *throttle });
    match arguments.client {
        ClientChoice::Gocql => gocql.collect(),
        ClientChoice::Java => java.collect(),
        ClientChoice::All => gocql.chain(java).collect(),
    }
}

fn servers(choice: TargetChoice) -> Vec<(&'static str, Target)> {
    let helenus = ("Helenus", Target::Helenus);
    let cassandra = ("Cassandra 5.0", Target::Cassandra);
    match choice {
        TargetChoice::Helenus => vec![helenus],
        TargetChoice::Cassandra => vec![cassandra],
        TargetChoice::Both => vec![helenus, cassandra],
    }
}

/// Runs the client against a server of its own, so that no run profits from what another one warmed up.
fn measure(
    client: Client,
    server: &'static str,
    target: &Target,
    arguments: &Arguments,
) -> Result<Run, TaskError> {
    println!(
        "{} on {server}: {} x {} reads",
        client.label(),
        arguments.workers,
        arguments.queries
    );
    let mut command = client.command(arguments.workers, arguments.queries)?;
    let node = Node::start(target, "concurrent-client", &[])?;
    let address = node.address();
    command
        .env("CQL_HOST", address.ip().to_string())
        .env("CQL_PORT", address.port().to_string());
    let output = process::run_quietly(&mut command)?;
    let last = output.lines().last().unwrap_or_default();
    println!("  {last}");
    let figures = serde_json::from_str(last).map_err(|error| TaskError::Report {
        text: format!("{error} in {last:?}"),
    })?;
    node.check_panics()?;
    node.stop()?;
    Ok(Run {
        client,
        server,
        figures,
    })
}

impl Client {
    pub fn label(self) -> String {
        match self {
            Self::Gocql => "gocql".to_owned(),
            Self::Java { throttle: 0 } => "Java driver without throttle".to_owned(),
            Self::Java { throttle } => format!("Java driver throttled to {throttle}"),
        }
    }

    /// The client's program, which finds the server in its environment and prints `Figures` last.
    pub fn command(self, workers: u32, queries: u32) -> Result<Command, TaskError> {
        let mut command = match self {
            Self::Gocql => runtime::go_program("bench-go", &workspace::path("xtask/clients/go"))?,
            Self::Java { .. } => {
                let mut java = runtime::java_program("bench-java", &workspace::path("xtask/clients/java"))?;
                java.arg("ConcurrentClient");
                java
            }
        };
        command.args([workers.to_string(), queries.to_string()]);
        if let Self::Java { throttle } = self {
            command.arg(throttle.to_string());
        }
        Ok(command)
    }

    /// Returns the command line that runs this client alone, from the project's folder.
    fn typed(self, arguments: &Arguments) -> String {
        let Arguments { workers, queries, .. } = arguments;
        match self {
            Self::Gocql => format!("go run -C xtask/clients/go . {workers} {queries}"),
            Self::Java { throttle } => format!(
                "java -cp \"$classes:$(cat $classes/path)\" ConcurrentClient {workers} {queries} {throttle}"
            ),
        }
    }
}

/// Builds the Java client by hand for the commands above.
const JAVA_BUILD: &str = "\
    classes=target/built/bench-java
    mvn -q -f xtask/clients/java dependency:build-classpath -Dmdep.outputFile=$PWD/$classes/path
    javac -cp \"$(cat $classes/path)\" -d $classes xtask/clients/java/src/ConcurrentClient.java";

fn render(arguments: &Arguments, runs: &[Run]) -> String {
    let Arguments {
        workers,
        queries,
        throttle,
        ..
    } = arguments;
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let throttle: Vec<String> = throttle.iter().map(u32::to_string).collect();
    let mut commands: Vec<String> = runs.iter().map(|run| run.client.typed(arguments)).collect();
    commands.dedup();
    let mut report = format!(
        "# One client, many workers\n\n\
         {workers} workers share one client object and each reads the same row {queries} times by a prepared query, \
         one\nread after the other. Server and client share {cores} cores, and the servers run one after the other, \
         each started\nanew for each client. gocql is as it comes; the Java driver has its throttle on requests in \
         flight and room in\nits queue for every worker, is as it comes otherwise, and warms its JVM up with 400,000 reads. Latencies are those of \
         successful reads as the worker\nsees them, with the time in the driver's queues. Hold as ratios only.\n\n\
         | client | server | elapsed s | reads/s | p50 ms | p99 ms | p99.9 ms | errors |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for run in runs {
        report.push_str(&row(run));
    }
    // Writing to a String cannot fail.
    let _ = write!(
        report,
        "\n`cargo xtask compare concurrent-client --workers {workers} --queries {queries} --throttle {}` runs, with \
         the server's\naddress in `CQL_HOST` and `CQL_PORT`:\n\n{JAVA_BUILD}\n    {}\n",
        throttle.join(","),
        commands.join("\n    ")
    );
    report
}

fn row(
    Run {
        client,
        server,
        figures,
    }: &Run,
) -> String {
    let failed: u64 = figures.errors.values().sum();
    let mut errors = failed.to_string();
    if failed > 0 {
        let share = 100.0 * failed as f64 / (failed + figures.ok) as f64;
        let kinds: Vec<String> = figures
            .errors
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        errors = format!("{failed} ({share:.1} %): {}", kinds.join(", "));
    }
    let driver = match client {
        Client::Gocql | Client::Java { throttle: 0 } => figures.client.clone(),
        Client::Java { throttle } => format!("{}, throttle {throttle}", figures.client),
    };
    let ms = |us: u64| us as f64 / 1e3;
    format!(
        "| {driver} | {server} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} | {errors} |\n",
        figures.elapsed_s,
        figures.ops_per_s,
        ms(figures.latency_us_p50),
        ms(figures.latency_us_p99),
        ms(figures.latency_us_p999)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_kind() {
        let line = r#"{"client": "gocql v2", "workers": 2, "queries": 3, "elapsed_s": 2.0, "ok": 3,
            "errors": {"timeout": 2, "closed": 1}, "ops_per_s": 1.5, "latency_us_p50": 1500,
            "latency_us_p99": 20000, "latency_us_p999": 20000}"#;
        let figures = serde_json::from_str(line).unwrap();
        let run = Run {
            client: Client::Gocql,
            server: "Helenus",
            figures,
        };
        assert_eq!(
            row(&run),
            "| gocql v2 | Helenus | 2.0 | 2 | 2 | 20 | 20 | 3 (50.0 %): 1 closed, 2 timeout |\n"
        );
    }
}
