//! What the adaptive limit does when the server's speed halves and doubles: a burning process on the server's core
//! takes half of it away, and gives it back.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::{Arguments, Part, how, label};
use crate::bench::load_generator::{self, Figures, Second};
use crate::node::{Node, Target};
use crate::process::{self, Process};
use crate::{TaskError, workspace};

/// The core of the server and of what slows it down; the client has the other one.
const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";

/// At full speed, at half, at full again: so many seconds each.
const PHASE_SECONDS: usize = 6;
const PHASES: [&str; 3] = ["full", "half", "full again"];

/// What the adaptive limit may take after a change.
const SETTLE_SECONDS: usize = 2;

/// By limit: the seconds of each run.
type Runs = BTreeMap<Option<usize>, Vec<Figures>>;

pub(super) fn measure(arguments: &Arguments) -> Result<String, TaskError> {
    let node = Node::start(&Target::Helenus, "bench-throttle", &["--shards", "1"])?;
    if let Some(server) = node.process_id() {
        process::run_quietly(Command::new("taskset").args([
            "-a",
            "-c",
            "-p",
            SERVER_CORE,
            &server.to_string(),
        ]))?;
    }
    let mut runs = Runs::new();
    super::load(node.address(), arguments, None, true)?;
    for round in 0..arguments.rounds {
        let mut order: Vec<Option<usize>> = arguments.limits.iter().copied().map(Some).collect();
        order.push(None);
        let length = order.len();
        order.rotate_left(round % length);
        for limit in order {
            let figures = changing_run(node.address(), arguments, limit)?;
            runs.entry(limit).or_default().push(figures);
        }
    }
    node.check_panics()?;
    node.stop()?;
    Ok(how(Part::Change, arguments) + &render(&runs))
}

/// One run through the three phases. Its seconds count from its first request.
fn changing_run(
    address: SocketAddr,
    arguments: &Arguments,
    limit: Option<usize>,
) -> Result<Figures, TaskError> {
    let json = workspace::scratch("bench-throttle-change").with_extension("json");
    let seconds = PHASE_SECONDS * PHASES.len();
    let mut command = load_generator::command_on_core(CLIENT_CORE, &[address]);
    command
        .args(["--no-set-up", "--preset", "concurrent-client"])
        .args(["--warm-up", "0s", "--threads", "1"])
        .args(["--concurrency", &arguments.workers.to_string()])
        .args(["--duration", &format!("{seconds}s"), "--throttle", &label(limit)])
        .arg("--json")
        .arg(&json);
    let start = Instant::now();
    let mut client = Process::start(&mut command)?;
    let phase = Duration::from_secs(PHASE_SECONDS as u64);
    thread::sleep(phase.saturating_sub(start.elapsed()));
    let mut burner =
        Process::start(Command::new("taskset").args(["-c", SERVER_CORE, "sh", "-c", "while :; do :; done"]))?;
    thread::sleep((2 * phase).saturating_sub(start.elapsed()));
    burner.kill();
    client.wait_until(start + 4 * phase)?;
    let text = std::fs::read_to_string(&json).map_err(|source| TaskError::File { path: json, source })?;
    let figures = Figures::parse(&text)?;
    for second in &figures.seconds {
        print!("{:.0}/{} ", second.ops_per_s, second.throttle_limit.unwrap_or(0));
    }
    println!("({})", label(limit));
    Ok(figures)
}

/// The seconds of a phase in which the limit should have settled, the undisturbed ones if there are any: throughput in
/// the mean, the median p99.
fn settled(runs: &[Figures], phase: usize) -> Option<(f64, u64)> {
    let from = phase * PHASE_SECONDS + SETTLE_SECONDS;
    let until = (phase + 1) * PHASE_SECONDS;
    let seconds: Vec<&Second> = runs
        .iter()
        .flat_map(|run| run.seconds.get(from..until))
        .flatten()
        .collect();
    let undisturbed: Vec<&Second> = seconds
        .iter()
        .copied()
        .filter(|second| !second.is_disturbed)
        .collect();
    let seconds = if undisturbed.is_empty() {
        seconds
    } else {
        undisturbed
    };
    let mut p99: Vec<u64> = seconds.iter().map(|second| second.p99_us).collect();
    p99.sort_unstable();
    let mean = seconds.iter().map(|second| second.ops_per_s).sum::<f64>() / seconds.len() as f64;
    Some((mean, *p99.get(p99.len() / 2)?))
}

fn render(runs: &Runs) -> String {
    let mut text = format!(
        "The server has core {SERVER_CORE} and the client core {CLIENT_CORE}. After {PHASE_SECONDS} s a process that \
         only burns time comes onto the server's\ncore, and {PHASE_SECONDS} s later it goes again. Figures are of what \
         comes {SETTLE_SECONDS} s after the beginning of a phase: reads/s, p99 in ms.\n\n\
         | limit | {} | errors |\n|---|---|---|---|---|\n",
        PHASES.join(" | ")
    );
    for (limit, runs) in runs {
        let _infallible = write!(text, "| {} |", label(*limit));
        for phase in 0..PHASES.len() {
            let (throughput, p99) = settled(runs, phase).unwrap_or_default();
            let _infallible = write!(text, " {throughput:.0}, {:.1} |", p99 as f64 / 1e3);
        }
        let errors: u64 = runs.iter().map(|run| run.errors).sum();
        let _infallible = writeln!(text, " {errors} |");
    }
    text.push('\n');
    for (phase, name) in PHASES.iter().enumerate() {
        let of = |limit: Option<usize>| runs.get(&limit).and_then(|runs| settled(runs, phase));
        let fixed = runs.keys().filter(|limit| limit.is_some());
        let best = fixed.max_by(|one, other| {
            let throughput = |limit: &Option<usize>| of(*limit).unwrap_or_default().0;
            throughput(one).total_cmp(&throughput(other))
        });
        let (Some(found), Some(best)) = (of(None), best) else {
            continue;
        };
        let (throughput, p99) = of(*best).unwrap_or_default();
        let _infallible = writeln!(
            text,
            "- {name}: adaptive brings {:.1}% of the best fixed limit's throughput ({}), with {:.2} of its p99.",
            100.0 * found.0 / throughput.max(1e-9),
            label(*best),
            found.1 as f64 / p99.max(1) as f64
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load_generator::Measured;

    #[test]
    fn what_comes_two_seconds_after_a_change_counts() {
        let run = |speed: f64, late: usize| {
            let seconds = (0..3 * PHASE_SECONDS).map(|second| Second {
                ops_per_s: if second % PHASE_SECONDS < late { 1.0 } else { speed },
                p99_us: 1000,
                throttle_limit: None,
                is_disturbed: false,
            });
            Figures::of(Measured::default(), seconds.collect())
        };
        let runs = Runs::from([(None, vec![run(96.0, 2)]), (Some(64), vec![run(100.0, 0)])]);
        let text = render(&runs);
        assert!(
            text.contains(
                "- half: adaptive brings 96.0% of the best fixed limit's throughput (64), with 1.00"
            )
        );
        assert!(
            text.contains("| 64 | 100, 1.0 | 100, 1.0 | 100, 1.0 | 0 |"),
            "{text}"
        );
    }
}
