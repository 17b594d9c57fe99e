//! `cargo xtask bench throttle`: the limit that the client finds beside limits that were chosen by hand, in turns on
//! one server, so that what else the machine does meets all of them; and what it does when the server's speed changes.
//! Each part of the page can be measured by itself.

mod change;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;

use clap::ValueEnum;

use super::load_generator::{self, Figures};
use crate::node::{Node, Target};
use crate::{TaskError, process, workspace};

const REPORT: &str = "bench/results/concurrency/throttle.md";

#[derive(clap::Args)]
pub struct Arguments {
    /// Workers with one read at a time each
    #[arg(long, default_value_t = 4096)]
    workers: u32,
    /// Times that every limit is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each measurement, after two to warm up
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Seconds of load before all measurements, in which a virtual machine compiles what is hot
    #[arg(long, default_value_t = 15)]
    warm_up: u32,
    /// Limits chosen by hand
    #[arg(long, value_delimiter = ',', default_value = "16,64,256,600,1024,2048")]
    limits: Vec<usize>,
    /// Threads of the client, each with a session and a limit of its own
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// What to measure; the page keeps what it has of the others
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "helenus,cassandra,change"
    )]
    part: Vec<Part>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Helenus,
    Cassandra,
    /// Helenus at full speed, at half, and at full again.
    Change,
}

impl Part {
    const ALL: [Part; 3] = [Part::Helenus, Part::Cassandra, Part::Change];

    fn title(self) -> &'static str {
        match self {
            Part::Helenus => "Helenus",
            Part::Cassandra => "Cassandra 5.0",
            Part::Change => "Helenus at full speed, at half, and at full again",
        }
    }
}

/// Every run on one server; `None` is the limit that the client finds.
type Runs = BTreeMap<Option<usize>, Vec<Figures>>;

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    super::build_helenus()?;
    for part in &arguments.part {
        let section = match part {
            Part::Helenus => section(*part, &Target::Helenus, arguments)?,
            Part::Cassandra => section(*part, &Target::Cassandra, arguments)?,
            Part::Change => change::measure(arguments)?,
        };
        println!("{section}");
        let old = std::fs::read_to_string(workspace::path(REPORT)).unwrap_or_default();
        super::write_report(REPORT, &page_with(&old, *part, &section))?;
    }
    Ok(())
}

fn section(part: Part, target: &Target, arguments: &Arguments) -> Result<String, TaskError> {
    let node = Node::start(target, "bench-throttle", &[])?;
    let runs = measure(part.title(), node.address(), arguments)?;
    node.check_panics()?;
    node.stop()?;
    let mut text = how(part, arguments);
    render(&mut text, &runs);
    Ok(text)
}

/// The page with one part of it replaced, or added.
fn page_with(old: &str, part: Part, section: &str) -> String {
    let title = |part: Part| format!("\n## {}\n\n", part.title());
    let mut page = HEAD.to_owned();
    for known in Part::ALL {
        let body = if known == part {
            Some(section)
        } else {
            let after = old.split_once(&title(known)).map(|(_, after)| after);
            after.map(|after| after.split("\n## ").next().unwrap_or(after))
        };
        if let Some(body) = body {
            page.push_str(&title(known));
            page.push_str(body.trim_end());
            page.push('\n');
        }
    }
    page
}

const HEAD: &str = "# The limit that the client finds, beside limits chosen by hand\n\n\
    The limits take turns on one server, `adaptive` twice as often; medians. Latency is the caller's, its wait for a \
    turn\nincluded. Client and server share the machine: hold as ratios only. Figures are of the time in which the \
    hypervisor took\nno processor away, as far as there was enough of it.\n";

fn measure(name: &str, address: SocketAddr, arguments: &Arguments) -> Result<Runs, TaskError> {
    let mut runs = Runs::new();
    // Writes the rows, too.
    load(address, arguments, None, true)?;
    for round in 0..arguments.rounds {
        // The first and the last of a round would get what the machine does then; so they move.
        let mut order: Vec<Option<usize>> = arguments.limits.iter().copied().map(Some).collect();
        order.insert(order.len() / 2, None);
        order.push(None);
        let length = order.len();
        order.rotate_left(3 * round % length);
        for limit in order {
            let figures = load(address, arguments, limit, false)?;
            println!(
                "{name}, {}: {:.0} reads/s, p99 {} us, {:.1} s undisturbed",
                label(limit),
                figures.measured().ops_per_s,
                figures.measured().latency_us.p99,
                figures.undisturbed_s()
            );
            runs.entry(limit).or_default().push(figures);
        }
    }
    Ok(runs)
}

fn load(
    address: SocketAddr,
    arguments: &Arguments,
    limit: Option<usize>,
    is_first: bool,
) -> Result<Figures, TaskError> {
    let seconds = if is_first {
        arguments.warm_up
    } else {
        arguments.seconds
    };
    let mut command = load_generator::command(&[address]);
    command
        .args(["--json", "-", "--preset", "concurrent-client", "--warm-up", "2s"])
        .stdout(Stdio::piped())
        .args(["--concurrency", &arguments.workers.to_string()])
        .args(["--threads", &arguments.threads.to_string()])
        .args(["--duration", &format!("{seconds}s"), "--throttle", &label(limit)]);
    if !is_first {
        command.arg("--no-set-up");
    }
    let output = process::run_quietly(&mut command)?;
    Figures::parse(&output)
}

fn label(limit: Option<usize>) -> String {
    limit.map_or("adaptive".to_owned(), |limit| limit.to_string())
}

fn how(part: Part, arguments: &Arguments) -> String {
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let Arguments {
        workers,
        rounds,
        seconds,
        threads,
        warm_up,
        ..
    } = arguments;
    let limits: Vec<String> = arguments.limits.iter().map(usize::to_string).collect();
    format!(
        "`cargo xtask bench throttle --part {} --workers {workers} --rounds {rounds} --seconds {seconds} --threads \
         {threads} --warm-up {warm_up} --limits {}`\n\n\
         {workers} workers, each with one read of one row at a time; {threads} thread(s) of `helenus bench run` and \
         the server share {cores} cores.\n{rounds} rounds of {seconds} s for each limit, after 2 s of warm-up.\n\n",
        part.to_possible_value()
            .map_or(String::new(), |value| value.get_name().to_owned()),
        limits.join(","),
    )
}

/// Of the undisturbed runs, if there are any.
fn median<T: Copy + PartialOrd>(runs: &[Figures], value: impl Fn(&Figures) -> T) -> Option<T> {
    let none_is = !runs.iter().any(Figures::is_undisturbed);
    let chosen = runs.iter().filter(|run| none_is || run.is_undisturbed());
    let mut values: Vec<T> = chosen.map(value).collect();
    values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied()
}

fn render(report: &mut String, runs: &Runs) {
    report.push_str("| limit | reads/s | p50 ms | p99 ms | errors |\n|---|---|---|---|---|\n");
    let mut best: Option<(usize, f64, u64)> = None;
    let mut found = None;
    for (limit, runs) in runs {
        let (Some(throughput), Some(p50), Some(p99)) = (
            median(runs, |run| run.measured().ops_per_s),
            median(runs, |run| run.measured().latency_us.p50),
            median(runs, |run| run.measured().latency_us.p99),
        ) else {
            continue;
        };
        let errors: u64 = runs.iter().map(|run| run.errors).sum();
        let _infallible = writeln!(
            report,
            "| {} | {throughput:.0} | {:.2} | {:.2} | {errors} |",
            label(*limit),
            p50 as f64 / 1e3,
            p99 as f64 / 1e3
        );
        match limit {
            None => found = Some((throughput, p99)),
            Some(limit) if best.is_none_or(|(_, best, _)| throughput > best) => {
                best = Some((*limit, throughput, p99));
            }
            Some(_) => {}
        }
    }
    if let (Some((throughput, p99)), Some((limit, best, best_p99))) = (found, best) {
        let _infallible = writeln!(
            report,
            "\nAdaptive brings {:.1}% of the best fixed limit's throughput ({limit}), with {:.2} of its p99.",
            100.0 * throughput / best,
            p99 as f64 / best_p99.max(1) as f64
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::load_generator::{Latencies, Measured};
    use super::*;

    #[test]
    fn the_best_fixed_limit_is_what_adaptive_is_measured_by() {
        let figures = |ops_per_s, p99| {
            let latency_us = Latencies { p50: 1000, p99 };
            let measured = Measured {
                ops: 1,
                ops_per_s,
                latency_us,
            };
            Figures::of(measured)
        };
        let runs = Runs::from([
            (None, vec![figures(95.0, 9), figures(96.0, 8), figures(10.0, 99)]),
            (Some(16), vec![figures(50.0, 20)]),
            (Some(600), vec![figures(100.0, 10)]),
        ]);
        let mut report = String::new();
        render(&mut report, &runs);
        let last = report.lines().last().unwrap();
        assert_eq!(
            last,
            "Adaptive brings 95.0% of the best fixed limit's throughput (600), with 0.90 of its p99."
        );
    }

    #[test]
    fn a_part_that_is_measured_again_leaves_the_others_as_they_are() {
        let page = page_with("", Part::Change, "changes\n");
        let page = page_with(&page, Part::Helenus, "| 1 |\n| 2 |\n");
        let page = page_with(&page, Part::Helenus, "| 3 |\n");
        let wanted = format!(
            "{HEAD}\n## Helenus\n\n| 3 |\n\n## {}\n\nchanges\n",
            Part::Change.title()
        );
        assert_eq!(page, wanted);
    }
}
