//! `cargo xtask compare goodput curve` and `goodput cassandra`: what is answered in time, from a quarter to ten times of what a
//! server on one core can do; with and without admission, and of Cassandra, on the same axes.

use std::fmt::Write as _;
use std::process::Command;

use clap::ValueEnum;
use helenus_loadgen::goodput::{self, Curve, GoodputReport};

use super::server::{self, FOLDER, store, stored, write_picture};
use crate::compare::programs::{GENERATOR_CORE, SERVER_CORE};
use crate::compare::{files, programs};
use crate::node::{Node, Target};
use crate::{TaskError, process};

#[derive(clap::Args)]
pub struct Arguments {
    /// Servers to measure now; what was measured before stays on the page
    #[arg(long, value_enum, value_delimiter = ',', default_value = "on,off")]
    admission: Vec<Admission>,
    #[command(flatten)]
    load: LoadArguments,
}

#[derive(clap::Args)]
pub struct LoadArguments {
    /// Seconds of each load
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Seconds of ten times the load before the recovery is measured
    #[arg(long, default_value_t = 10)]
    overload: u32,
    /// How much work a request is
    #[arg(long, value_enum, default_value_t = Requests::Heavy)]
    requests: Requests,
    /// As of `helenus bench goodput`
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "single-partition,uniform-writes,uniform-reads,hot-partition"
    )]
    workload: Vec<String>,
    /// Requests in flight on a connection at most
    #[arg(long, default_value_t = goodput::STREAMS)]
    in_flight: usize,
    /// Measure nothing: draw the page anew from what was measured before
    #[arg(long)]
    draw: bool,
}

/// Loads, in multiples of the capacity.
const MULTIPLES: &str = "0.25,0.5,0.75,1,1.4,2,5,10";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Admission {
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Requests {
    Small,
    Heavy,
}

impl Requests {
    fn name(self) -> &'static str {
        match self {
            Requests::Small => "small",
            Requests::Heavy => "heavy",
        }
    }
}

/// The loads take turns so often, each with this much that does not count: rounds of one load differ by a tenth and more,
/// and the median of five of them by 5 %.
const PACE: Pace = Pace {
    rounds: "12",
    warm_up: "700ms",
};

/// Cassandra is busy with a load for seconds after it has ended: with Helenus' rounds a quarter of the load looked like the ten
/// times before it.
const PEER_PACE: Pace = Pace {
    rounds: "3",
    warm_up: "4s",
};

/// Heavy requests a second and for how long, of each workload on all cores before anything is measured: on its one core, and
/// with these not yet compiled, Cassandra answered 2 to 1,600 a second, and the loads, multiples of that, said nothing.
const JVM_WARM_UP: [(&str, &str); 4] = [("1500", "20s"), ("3000", "10s"), ("6000", "10s"), ("1500", "5s")];

/// A gigabyte is full of garbage after some thousand heavy writes a second.
const JVM_HEAP: &str = "4g";

/// How the loads of one server take turns.
struct Pace {
    rounds: &'static str,
    warm_up: &'static str,
}

/// In the order of the page: a file's name, and the server's in tables and charts.
const SERVERS: [(&str, &str); 3] = [
    ("on", "Helenus"),
    ("off", "Helenus without admission"),
    ("cassandra", "Cassandra 5.0"),
];

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    if arguments.load.draw {
        return draw(arguments.load.requests);
    }
    programs::build()?;
    for admission in &arguments.admission {
        let name = match admission {
            Admission::On => "on",
            Admission::Off => "off",
        };
        let options = [
            "--shards",
            "1",
            "--in-memory",
            "--memory",
            "4GiB",
            "--admission",
            name,
        ];
        let node = Node::start(&Target::Helenus, "bench-goodput", &options)?;
        measure(&node, name, &PACE, &arguments.load)?;
        node.stop()?;
    }
    draw(arguments.load.requests)
}

pub fn run_cassandra(load: &LoadArguments) -> Result<(), TaskError> {
    if load.draw {
        return draw(load.requests);
    }
    programs::build()?;
    let node = Node::start_cassandra(JVM_HEAP, &["--commitlog-sync", "periodic"], &[])?;
    for (per_s, length) in JVM_WARM_UP {
        let mut command = generator(&node, load);
        command.args(["--capacity", per_s, "--multiples", "1", "--rounds", "1"]);
        command.args(["--duration", length, "--duration-max", length, "--overload", "0s"]);
        process::run_quietly(&mut command)?;
    }
    measure(&node, "cassandra", &PEER_PACE, load)?;
    node.stop()?;
    draw(load.requests)
}

fn report(file: &str, requests: Requests) -> String {
    format!("{file}-{}", requests.name())
}

/// The load generator with what all its loads have in common.
fn generator(node: &Node, arguments: &LoadArguments) -> Command {
    let mut command = server::generator(GENERATOR_CORE, node);
    command
        .args(["--requests", arguments.requests.name()])
        .args(["--workload", &arguments.workload.join(",")])
        .args(["--in-flight", &arguments.in_flight.to_string()]);
    command
}

fn measure(node: &Node, file: &str, pace: &Pace, arguments: &LoadArguments) -> Result<(), TaskError> {
    let label = SERVERS
        .iter()
        .find(|(name, _)| *name == file)
        .map_or(file, |(_, label)| label);
    node.keep_to_core(SERVER_CORE)?;
    let mut command = generator(node, arguments);
    command
        .args(["--multiples", MULTIPLES])
        .args(["--duration", &format!("{}s", arguments.seconds)])
        .args(["--overload", &format!("{}s", arguments.overload)])
        .args(["--rounds", pace.rounds, "--warm-up", pace.warm_up]);
    store(
        &report(file, arguments.requests),
        server::measure(command, node, label)?,
    )
}

/// Puts everything that was measured on one page.
fn draw(requests: Requests) -> Result<(), TaskError> {
    let mut reports = Vec::new();
    for (file, _) in SERVERS {
        reports.extend(stored(&report(file, requests))?);
    }
    write_picture(requests.name(), &goodput::to_svg(&reports))?;
    let tables = goodput::to_markdown(&reports);
    let mut page = String::new();
    let _infallible = write!(
        page,
        "# Goodput: what is answered in time, whatever is offered ({name} requests)\n\n\
         `cargo xtask compare goodput curve --requests {name}`, `cargo xtask compare goodput cassandra --requests {name} --overload 0 --seconds 6`: server on one \
         core\n(Helenus: one shard, in memory), generator on another. Latency counts from the moment that a request was to be sent, and the line\n\
         above each server's tables says under which bounds its figures were measured. **At most 1,024 requests in flight on a connection**, the Java\n\
         driver's bound, was the rule of the generator until it had none: of ten times the load such clients held most back themselves, and they\n\
         gave it up after the deadline, so those figures say little of clients that send whatever is due. Those are measured by\n\
         `cargo xtask compare goodput statements` ([page](statements.md); [two shards](two-shards.md), on one core; [reads from a disk](cold.md), of \
         twenty times the memory); what a stall or a burst does to them is [another page](disturbed.md). Heavy requests are writes of 100 values and reads of 100 rows, of 50 bytes on the wire, so that one core can offer ten\n\
         times what another serves; small ones have five values of 34 bytes. Held back: not sent because as many were in flight as may be (with the\n\
         old rule also: because the server did not read the connection); not generated: because the generator was too slow. p50 and p99 are of what\n\
         was served, late or not. The \
         control connection asks OPTIONS and `system.local` in turns, every 50 ms.\n\nEach workload was measured by itself (`--workload`). Cassandra had 45 s of each workload on both cores before, \
         and its loads take turns in three\nrounds. The loads of the others take turns in twelve \
         rounds, each in another order; in time is the median of the rounds (and the least and the most), of the best load\nthe \
         median of the rounds' shares. Which load is the best is asked of the other rounds: else the luckiest of eight equal ones is. Only time in which the hypervisor left both processors alone counts: \"counted s\". What\nadmission costs where \
         nothing is overloaded is on [a page of its own](cost.md).\n\n\
         ![goodput]({name}.svg)\n{summary}\n{tables}",
        name = requests.name(),
        summary = summary(&reports),
    );
    let file = match requests {
        Requests::Heavy => "README",
        Requests::Small => "small",
    };
    files::write_page(&format!("{FOLDER}/{file}.md"), &page)
}

/// Renders the table of the curves' results, in percent of the best load of each in the same round.
fn summary(reports: &[GoodputReport]) -> String {
    let mut table = String::from(
        "\n| server, workload | in time at 2x | 5x | 10x | p99 ms at 2x, 5x, 10x | normal again after 1.4x, 10x: median of seven looks |\n\
         |---|---|---|---|---|---|\n",
    );
    for report in reports {
        for curve in &report.curves {
            table.push_str(&summary_row(&report.label, curve));
        }
    }
    table
}

fn summary_row(label: &str, curve: &Curve) -> String {
    let share = |multiple| {
        curve.point(multiple).map_or(String::new(), |point| {
            let share = point
                .of_best
                .unwrap_or(point.good_per_s / curve.peak_per_s().max(1.0));
            format!("{:.1} %", 100.0 * share)
        })
    };
    let p99 = [2.0, 5.0, 10.0].map(|multiple| {
        let point = curve.point(multiple);
        point.map_or(String::new(), |point| format!("{:.1}", point.p99_us as f64 / 1e3))
    });
    let told = |ms: Option<u32>| ms.map_or("not within a second".to_owned(), |ms| format!("{ms} ms"));
    let recoveries: Vec<String> = curve
        .recoveries
        .iter()
        .map(|recovery| match recovery.all_ms.last() {
            Some(worst) => format!("{} (worst {})", told(recovery.recovery_ms), told(*worst)),
            None => told(recovery.recovery_ms),
        })
        .collect();
    let has_rounds = curve.points.iter().all(|point| point.of_best.is_some());
    let order = if has_rounds {
        ""
    } else {
        " (one round, loads in rising order)"
    };
    format!(
        "| {label}, {}{order} | {} | {} | {} | {} | {} |\n",
        curve.workload.name(),
        share(2.0),
        share(5.0),
        share(10.0),
        p99.join(", "),
        recoveries.join(", ")
    )
}
