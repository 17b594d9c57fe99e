//! `cargo xtask compare restarts replacements`: one node whose place is taken by another process again and again, or that is restarted, under loads
//! of unmodified clients that know nothing of it. Each of their workers adds to a counter of its own: what was lost or done twice is seen
//! in the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Deserialize;

use crate::compare::{files, programs};
use crate::native::Connection;
use crate::node::{Node, Target, free_address};
use crate::process::Process;
use crate::program::Tally;
use crate::{TaskError, runtime, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// Replacement or restart of the node
    #[arg(long, value_enum, default_value = "replaced")]
    node: Fate,
    /// How often
    #[arg(long, default_value_t = 50)]
    replacements: u32,
    /// Requests a second of each client
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
    /// Workers of each client, with one request at a time each
    #[arg(long, default_value_t = 50)]
    workers: u32,
    /// Milliseconds between two of them
    #[arg(long, default_value_t = 500)]
    pause_ms: u64,
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "gocql,python,node,grpc-go"
    )]
    client: Vec<Client>,
}

/// Replacement or restart of a node under its clients.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Another process takes its place
    Replaced,
    /// It stops, and is started again: for a while nobody is there
    Restarted,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum Client {
    Gocql,
    Python,
    Node,
    GrpcGo,
    /// Its calls wait for a connection (wait-for-ready)
    GrpcGoWaiting,
}

/// Final report of a client.
#[derive(Deserialize)]
struct Figures {
    client: String,
    /// By worker.
    acknowledged: Vec<u64>,
    errors: BTreeMap<String, u64>,
    p99_us: u64,
    max_us: u64,
}

/// Time for a client's runtime to start, connect and prepare.
const BEFORE: Duration = Duration::from_secs(3);

/// A client that was told to end has its last answers by then.
const ENDING: Duration = Duration::from_secs(60);

const TIMEOUT: Duration = Duration::from_secs(30);

impl Client {
    fn command(self) -> Result<Command, TaskError> {
        let go = || runtime::go_program("ledger-go", &workspace::path("xtask/clients/ledger/go"));
        Ok(match self {
            Client::Gocql | Client::GrpcGo | Client::GrpcGoWaiting => {
                let mut command = go()?;
                command.arg(match self {
                    Client::GrpcGo => "grpc",
                    Client::GrpcGoWaiting => "grpc-waiting",
                    _ => "gocql",
                });
                command
            }
            Client::Python => {
                let requirements = workspace::path("tests/drivers/python/requirements.txt");
                let environment = runtime::python_environment("python", &requirements)?;
                let mut command = Command::new(environment.join("python"));
                command.arg(workspace::path("xtask/clients/ledger/python/ledger.py"));
                command
            }
            Client::Node => {
                let packages = runtime::node_packages("node-driver", &workspace::path("tests/drivers/node"))?;
                let mut command = Command::new("node");
                command
                    .arg(workspace::path("xtask/clients/ledger/node/ledger.js"))
                    .env("NODE_PATH", packages.join("node_modules"));
                command
            }
        })
    }
}

/// A client that runs.
struct Load {
    process: Process,
    output: BufReader<std::process::ChildStdout>,
}

impl Load {
    /// Returns when it has connected.
    fn start(
        client: Client,
        addresses: [SocketAddr; 2],
        arguments: &Arguments,
        first_id: u32,
    ) -> Result<Load, TaskError> {
        let [cql, doors] = addresses;
        let address = match client {
            Client::GrpcGo | Client::GrpcGoWaiting => doors,
            _ => cql,
        };
        let mut command = client.command()?;
        command
            .arg(address.to_string())
            .args([arguments.rate, arguments.workers, first_id].map(|number| number.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Process::start(&mut command)?;
        let output = process.child().stdout.take().ok_or_else(|| report("no output"))?;
        let mut load = Load {
            process,
            output: BufReader::new(output),
        };
        match load.line()?.trim() {
            "ready" => Ok(load),
            other => Err(report(&format!("a client says {other:?}"))),
        }
    }

    fn line(&mut self) -> Result<String, TaskError> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.map_err(|error| report(&error.to_string()))?;
        Ok(line)
    }

    fn stop(mut self) -> Result<Figures, TaskError> {
        // The end of its input.
        drop(self.process.child().stdin.take());
        let line = self.line()?;
        self.process.wait_until(Instant::now() + ENDING)?;
        files::parse(&line)
    }
}

fn report(text: &str) -> TaskError {
    TaskError::Report {
        text: text.to_owned(),
    }
}

impl Fate {
    fn report(self) -> &'static str {
        match self {
            Fate::Replaced => "docs/measurements/concurrency/replacements.md",
            Fate::Restarted => "docs/measurements/concurrency/restarts.md",
        }
    }

    fn befalls(self, node: &mut Node) -> Result<(), TaskError> {
        match self {
            Fate::Replaced => node.replace()?,
            Fate::Restarted => drop(node.restart()?),
        }
        Ok(())
    }
}

/// Result of the measurement.
struct Outcome {
    clients: Vec<Figures>,
    executed: BTreeMap<u32, u64>,
    away_ms: Vec<u64>,
    seconds: f64,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    programs::build()?;
    let outcome = measure(arguments)?;
    let text = render(arguments, &outcome);
    if failures(arguments, &outcome).is_some() {
        return Err(TaskError::Report { text });
    }
    files::publish(arguments.node.report(), &text)
}

/// A part of the test command: a few replacements under every kind of client, of which none may notice.
pub fn short(target: &Target) -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    if *target != Target::Helenus {
        tally.skipped += 1;
        return Ok(tally);
    }
    let arguments = Arguments {
        node: Fate::Replaced,
        replacements: 4,
        rate: 200,
        workers: 10,
        pause_ms: 300,
        client: vec![Client::Gocql, Client::Python, Client::Node, Client::GrpcGo],
    };
    let outcome = measure(&arguments)?;
    for client in &outcome.clients {
        let answered = client.acknowledged.iter().sum::<u64>();
        let is_answered = (answered > 0).then_some(()).ok_or("was answered nothing");
        tally.check(&client.client, is_answered);
    }
    let failed = failures(&arguments, &outcome);
    tally.check("no client notices", failed.map_or(Ok(()), Err));
    Ok(tally)
}

/// Returns the wrong counts and the errors that clients have noticed, if any.
fn failures(arguments: &Arguments, outcome: &Outcome) -> Option<String> {
    let (missing, too_many) = wrong(&outcome.clients, &outcome.executed, arguments.workers);
    let errors: Vec<_> = outcome
        .clients
        .iter()
        .filter(|client| !client.errors.is_empty())
        .map(|client| format!("{}: {:?}", client.client, client.errors))
        .collect();
    let is_right = (missing, too_many) == (0, 0) && errors.is_empty();
    (!is_right).then(|| format!("{missing} increments are missing, {too_many} too many; {errors:?}"))
}

fn measure(arguments: &Arguments) -> Result<Outcome, TaskError> {
    let doors = free_address()?;
    let options = ["--commitlog-sync", "periodic", "--grpc", &doors.to_string()];
    let mut node = Node::start(&Target::Helenus, "replacements", &options)?;
    let mut asking = Connection::open(node.address(), TIMEOUT)?;
    for statement in [
        "CREATE KEYSPACE ledger WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ledger.counts (id int PRIMARY KEY, count counter)",
    ] {
        asking.query(statement)?;
    }
    let begun = Instant::now();
    let mut loads = Vec::new();
    for (client, first_id) in arguments
        .client
        .iter()
        .zip((0..).step_by(arguments.workers as usize))
    {
        loads.push(Load::start(
            *client,
            [node.address(), doors],
            arguments,
            first_id,
        )?);
    }
    thread::sleep(BEFORE);
    for number in 1..=arguments.replacements {
        arguments.node.befalls(&mut node)?;
        println!("{number} of {}", arguments.replacements);
        thread::sleep(Duration::from_millis(arguments.pause_ms));
    }
    let mut clients = Vec::new();
    for load in loads {
        clients.push(load.stop()?);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let executed = ledger(&mut Connection::open(node.address(), TIMEOUT)?)?;
    let away_ms = node.times_away_ms();
    node.check_panics()?;
    node.stop()?;
    Ok(Outcome {
        clients,
        executed,
        away_ms,
        seconds,
    })
}

/// Reads each counter's value, by its id.
fn ledger(asking: &mut Connection) -> Result<BTreeMap<u32, u64>, TaskError> {
    let rows = asking.query("SELECT id, count FROM ledger.counts")?;
    let counts = rows.into_iter().filter_map(|row| {
        let mut cells = row.into_iter();
        let id = u32::from_be_bytes(cells.next()??.try_into().ok()?);
        let count = u64::from_be_bytes(cells.next()??.try_into().ok()?);
        Some((id, count))
    });
    Ok(counts.collect())
}

/// Increments that were acknowledged and are not there, and those that are there and were not acknowledged.
fn wrong(clients: &[Figures], executed: &BTreeMap<u32, u64>, workers: u32) -> (u64, u64) {
    let (mut missing, mut too_many) = (0, 0);
    for (client, first_id) in clients.iter().zip((0..).step_by(workers as usize)) {
        for (&acknowledged, id) in client.acknowledged.iter().zip(first_id..) {
            let executed = executed.get(&id).copied().unwrap_or_default();
            missing += acknowledged.saturating_sub(executed);
            too_many += executed.saturating_sub(acknowledged);
        }
    }
    (missing, too_many)
}

fn render(arguments: &Arguments, outcome: &Outcome) -> String {
    let Arguments {
        node,
        replacements,
        rate,
        workers,
        pause_ms,
        ..
    } = arguments;
    let Outcome {
        clients,
        executed,
        seconds,
        ..
    } = outcome;
    let (missing, too_many) = wrong(clients, executed, *workers);
    let said = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        value().map_or_else(String::new, |value| value.get_name().to_owned())
    };
    let names: Vec<String> = arguments
        .client
        .iter()
        .map(|client| said(&|| client.to_possible_value()))
        .collect();
    let names = names.join(",");
    let fate = said(&|| node.to_possible_value());
    let how = match node {
        Fate::Replaced => "replaced by `helenus serve --replace`",
        Fate::Restarted => "stopped (SIGTERM) and started again",
    };
    let mut text = format!(
        "# A node that is {fate} under load\n\n\
         `cargo xtask compare restarts replacements --node {fate} --replacements {replacements} --rate {rate} --workers {workers} \
         --pause-ms {pause_ms} --client {names}`:\none node with the log synced\nperiodically, {how} {replacements} times under all \
         clients at once, each as it comes: {workers} workers that together\nsend at most {rate} increments/s, of a counter each, for \
         {seconds:.0} s in all. Everything shares {} cores. {}\n\n\
         | client | answered | errors | p99 ms | max ms |\n|---|---|---|---|---|\n",
        programs::cores(),
        away(&outcome.away_ms),
    );
    for client in clients {
        // Writing to a String cannot fail.
        let _infallible = writeln!(
            text,
            "| {} | {} | {} | {:.1} | {:.0} |",
            client.client,
            client.acknowledged.iter().sum::<u64>(),
            client.errors.values().sum::<u64>(),
            client.p99_us as f64 / 1e3,
            client.max_us as f64 / 1e3
        );
    }
    let _infallible = writeln!(
        text,
        "\nThe ledger: {missing} acknowledged increments are missing, {too_many} are there that were not acknowledged.",
    );
    for client in clients.iter().filter(|client| !client.errors.is_empty()) {
        let _infallible = writeln!(text, "\n{}: {:?}", client.client, client.errors);
    }
    text
}

/// For how long nobody was answered, where the node says so.
fn away(away_ms: &[u64]) -> String {
    let mut sorted = away_ms.to_vec();
    sorted.sort_unstable();
    let at = |share: usize| {
        sorted
            .get(sorted.len() * share / 100)
            .copied()
            .unwrap_or_default()
    };
    match sorted.last() {
        None => String::new(),
        Some(most) => format!(
            "Nobody was answered, each time: median {} ms, p90 {} ms, at\nmost {most} ms.",
            at(50),
            at(90),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_was_done_twice_are_told_apart() {
        let client = |acknowledged: [u64; 2]| Figures {
            client: "c".to_owned(),
            acknowledged: acknowledged.to_vec(),
            errors: BTreeMap::new(),
            p99_us: 0,
            max_us: 0,
        };
        let clients = [client([5, 5]), client([7, 7])];
        let executed = |counts: [u64; 4]| (0..).zip(counts).collect();
        assert_eq!(wrong(&clients, &executed([5, 5, 7, 7]), 2), (0, 0));
        assert_eq!(wrong(&clients, &executed([5, 4, 7, 9]), 2), (1, 2));
    }
}
