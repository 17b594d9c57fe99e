//! `cargo xtask compare callers client`: 50,000 workers share one client object, and each reads one row
//! 200 times, with the drivers that applications use. The servers run on this machine, in turns, and
//! share it with the client.

use std::fmt::Write;

use clap::{Args, ValueEnum};

use crate::compare::drivers::{Driver, Figures, Server};
use crate::compare::{files, programs};
use crate::node::Node;
use crate::{TaskError, process};

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

/// One driver's run on one server.
struct Run {
    driver: Driver,
    server: Server,
    figures: Figures,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    let servers = match arguments.target {
        TargetChoice::Helenus => vec![Server::Helenus],
        TargetChoice::Cassandra => vec![Server::Cassandra],
        TargetChoice::Both => vec![Server::Helenus, Server::Cassandra],
    };
    if servers.contains(&Server::Helenus) {
        programs::build()?;
    }
    let mut runs = Vec::new();
    for driver in drivers(arguments) {
        for server in &servers {
            runs.push(measure(driver, *server, arguments)?);
        }
    }
    let report = render(arguments, &runs);
    match arguments.target {
        TargetChoice::Both => files::publish(REPORT, &report),
        TargetChoice::Helenus | TargetChoice::Cassandra => {
            println!("{report}");
            Ok(())
        }
    }
}

fn drivers(arguments: &Arguments) -> Vec<Driver> {
    let gocql = [Driver::Gocql].into_iter();
    let java = arguments
        .throttle
        .iter()
        .map(|throttle| Driver::Java { throttle: *throttle });
    match arguments.client {
        ClientChoice::Gocql => gocql.collect(),
        ClientChoice::Java => java.collect(),
        ClientChoice::All => gocql.chain(java).collect(),
    }
}

/// Runs the driver against a server of its own, so that no run profits from what another one warmed up.
fn measure(driver: Driver, server: Server, arguments: &Arguments) -> Result<Run, TaskError> {
    println!(
        "{} on {}: {} x {} reads",
        driver.label(),
        server.label(),
        arguments.workers,
        arguments.queries
    );
    let node = Node::start(&server.target(), "concurrent-client", &[])?;
    let mut command = driver.command(arguments.workers, arguments.queries, node.address())?;
    let output = process::run_quietly(&mut command)?;
    let last = output.lines().last().unwrap_or_default();
    println!("  {last}");
    let figures = files::parse(last)?;
    node.check_panics()?;
    node.stop()?;
    Ok(Run {
        driver,
        server,
        figures,
    })
}

/// Returns the command line that runs a driver alone, from the project's folder.
fn typed(driver: Driver, arguments: &Arguments) -> String {
    let Arguments { workers, queries, .. } = arguments;
    match driver {
        Driver::Gocql => format!("go run -C xtask/clients/go . {workers} {queries}"),
        Driver::Java { throttle } => {
            format!(
                "java -cp \"$classes:$(cat $classes/path)\" ConcurrentClient {workers} {queries} {throttle}"
            )
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
    let cores = programs::cores();
    let throttle: Vec<String> = throttle.iter().map(u32::to_string).collect();
    let mut commands: Vec<String> = runs.iter().map(|run| typed(run.driver, arguments)).collect();
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
        "\n`cargo xtask compare callers client --workers {workers} --queries {queries} --throttle {}` runs, with \
         the server's\naddress in `CQL_HOST` and `CQL_PORT`:\n\n{JAVA_BUILD}\n    {}\n",
        throttle.join(","),
        commands.join("\n    ")
    );
    report
}

fn row(run: &Run) -> String {
    let Run {
        driver,
        server,
        figures,
    } = run;
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
    let driver = match driver {
        Driver::Gocql | Driver::Java { throttle: 0 } => figures.client.clone(),
        Driver::Java { throttle } => format!("{}, throttle {throttle}", figures.client),
    };
    let ms = |us: u64| us as f64 / 1e3;
    format!(
        "| {driver} | {} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} | {errors} |\n",
        server.label(),
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
            driver: Driver::Gocql,
            server: Server::Helenus,
            figures,
        };
        assert_eq!(
            row(&run),
            "| gocql v2 | Helenus | 2.0 | 2 | 2 | 20 | 20 | 3 (50.0 %): 1 closed, 2 timeout |\n"
        );
    }
}
