//! What the adaptive limit does when the server's speed halves and doubles: a burning process on the server's core
//! takes half of it away, and gives it back. The fixed limits take turns with the adaptive one within each run, so that
//! all meet the same machine: the speed of a shared one changes by half within seconds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::{Arguments, Part, how, label};
use crate::bench::{load_generator, now_us};
use crate::node::{Node, Target};
use crate::process::{self, Process};
use crate::{TaskError, workspace};

/// The core of the server and of what slows it down; the client has the other one.
const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";

/// At full speed, at half, at full again: so many seconds each, of which the adaptive limit has half.
const PHASE_SECONDS: u64 = 12;
const PHASES: [&str; 3] = ["full", "half", "full again"];

/// What the adaptive limit may take after a change, of its own time.
const SETTLE_S: f64 = 2.0;

/// A tenth of a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    phase: usize,
    /// How long the adaptive limit has had its turn in this phase, in seconds.
    own_s: f64,
    /// `None` is the adaptive one.
    limit: Option<usize>,
    ops_per_s: f64,
    p99_us: u64,
    is_undisturbed: bool,
}

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
    let mut slices = Vec::new();
    super::load(node.address(), arguments, None, true)?;
    for round in 0..arguments.rounds {
        let run = changing_run(node.address(), arguments, round)?;
        println!("round {}\n{}", round + 1, render(&run));
        slices.extend(run);
    }
    node.check_panics()?;
    node.stop()?;
    Ok(how(Part::Change, arguments) + &introduction() + &render(&slices))
}

/// One run through the three phases.
fn changing_run(address: SocketAddr, arguments: &Arguments, round: usize) -> Result<Vec<Slice>, TaskError> {
    let folder = workspace::scratch("bench-throttle-change");
    let trace = folder.join(format!("trace-{}.csv", round + 1));
    std::fs::create_dir_all(&folder).map_err(|source| TaskError::File { path: folder, source })?;
    // Whoever comes after a change comes at another time in each round.
    let mut beside: Vec<String> = arguments.limits.iter().map(usize::to_string).collect();
    let length = beside.len().max(1);
    beside.rotate_left(round % length);
    let mut command = load_generator::command_on_core(CLIENT_CORE, &[address]);
    command
        .args(["--no-set-up", "--preset", "concurrent-client"])
        .args(["--warm-up", "0s", "--threads", "1"])
        .args(["--concurrency", &arguments.workers.to_string()])
        .args(["--duration", &format!("{}s", PHASE_SECONDS * PHASES.len() as u64)])
        .args(["--beside", &beside.join(",")])
        .args(["--trace-over", "1h", "--trace"])
        .arg(&trace);
    let phase = Duration::from_secs(PHASE_SECONDS);
    let start = Instant::now();
    let mut changes_us = vec![now_us()];
    let mut client = Process::start(&mut command)?;
    thread::sleep(phase.saturating_sub(start.elapsed()));
    let mut burner =
        Process::start(Command::new("taskset").args(["-c", SERVER_CORE, "sh", "-c", "while :; do :; done"]))?;
    changes_us.push(now_us());
    thread::sleep((2 * phase).saturating_sub(start.elapsed()));
    burner.kill();
    changes_us.push(now_us());
    client.wait_until(start + 4 * phase)?;
    let text = std::fs::read_to_string(&trace).map_err(|source| TaskError::File { path: trace, source })?;
    Ok(parse(&text, &changes_us))
}

/// The slices of a trace that are not the first of a turn, and within one phase.
fn parse(trace: &str, changes_us: &[u64]) -> Vec<Slice> {
    let mut slices = Vec::new();
    let mut last_limit = Some("");
    let (mut last_phase, mut own_s) = (0, 0.0);
    for line in trace.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let ["slice", end, length, counts, ops, p99, limit] = fields[..] else {
            continue;
        };
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        let (end_us, length_us) = (number(end), number(length).max(1));
        let phase_at = |at_us| {
            changes_us
                .iter()
                .filter(|change| **change <= at_us)
                .count()
                .max(1)
                - 1
        };
        let phase = phase_at(end_us.saturating_sub(length_us));
        if phase != last_phase {
            (last_phase, own_s) = (phase, 0.0);
        }
        let limit_number = limit.parse().ok();
        if limit_number.is_none() {
            own_s += length_us as f64 / 1e6;
        }
        let is_first = last_limit.replace(limit) != Some(limit);
        if !is_first && phase == phase_at(end_us) {
            slices.push(Slice {
                phase,
                own_s,
                limit: limit_number,
                ops_per_s: number(ops) as f64 * 1e6 / length_us as f64,
                p99_us: number(p99),
                is_undisturbed: counts == "1",
            });
        }
    }
    slices
}

/// Throughput in the mean, the median of the slices' p99, how many there are: of one limit in one phase, while the adaptive
/// limit has been there for this long.
fn figures(
    slices: &[Slice],
    phase: usize,
    limit: Option<usize>,
    own_s: (f64, f64),
) -> Option<(f64, u64, usize)> {
    let is_wanted = |slice: &&Slice| {
        slice.phase == phase && slice.limit == limit && slice.own_s > own_s.0 && slice.own_s <= own_s.1
    };
    let wanted: Vec<&Slice> = slices.iter().filter(is_wanted).collect();
    let mut p99: Vec<u64> = wanted.iter().map(|slice| slice.p99_us).collect();
    p99.sort_unstable();
    let mean = wanted.iter().map(|slice| slice.ops_per_s).sum::<f64>() / wanted.len().max(1) as f64;
    Some((mean, *p99.get(p99.len() / 2)?, wanted.len()))
}

const SETTLED: (f64, f64) = (SETTLE_S, f64::INFINITY);

fn introduction() -> String {
    format!(
        "The server has core {SERVER_CORE} and the client core {CLIENT_CORE}. After {PHASE_SECONDS} s a process that \
         only burns time comes onto the server's\ncore, and {PHASE_SECONDS} s later it goes again. Within each run the \
         fixed limits take turns of 0.3 s with the adaptive one, which\nlearns nothing meanwhile and has every other turn; the \
         first tenth of a turn does not count.\nFigures are of what comes after the adaptive \
         limit's first {SETTLE_S} s of a phase: reads/s, the median of the p99 of\neach tenth of a second in ms.\n\n"
    )
}

/// The undisturbed slices, if there are at least [`UNDISTURBED_SHARE_MIN`] of all: they take turns, so the others meet all limits
/// alike, too.
fn counted(slices: &[Slice]) -> (Vec<Slice>, &'static str) {
    let undisturbed = slices.iter().copied().filter(|slice| slice.is_undisturbed);
    let undisturbed: Vec<Slice> = undisturbed.collect();
    if undisturbed.len() as f64 >= UNDISTURBED_SHARE_MIN * slices.len() as f64 {
        (undisturbed, "undisturbed slices only")
    } else {
        (
            slices.to_vec(),
            "disturbed slices, too: there were hardly any others",
        )
    }
}

/// With less, single limits have none in some phase.
const UNDISTURBED_SHARE_MIN: f64 = 0.4;

fn render(slices: &[Slice]) -> String {
    let (slices, which) = counted(slices);
    let slices = &slices[..];
    let mut text = format!(
        "Of the {which}.\n\n| limit | {} |\n|---|---|---|---|\n",
        PHASES.join(" | ")
    );
    let limits: BTreeMap<Option<usize>, ()> = slices.iter().map(|slice| (slice.limit, ())).collect();
    for limit in limits.keys() {
        let _infallible = write!(text, "| {} |", label(*limit));
        for phase in 0..PHASES.len() {
            let (throughput, p99, _) = figures(slices, phase, *limit, SETTLED).unwrap_or_default();
            let _infallible = write!(text, " {throughput:.0}, {:.1} |", p99 as f64 / 1e3);
        }
        text.push('\n');
    }
    text.push('\n');
    for (phase, name) in PHASES.iter().enumerate() {
        let throughput = |limit| figures(slices, phase, limit, SETTLED).unwrap_or_default().0;
        let fixed = limits.keys().filter(|limit| limit.is_some());
        let best = fixed.max_by(|one, other| throughput(**one).total_cmp(&throughput(**other)));
        let (Some(found), Some(best)) = (figures(slices, phase, None, SETTLED), best) else {
            continue;
        };
        let (best_throughput, p99, count) = figures(slices, phase, *best, SETTLED).unwrap_or_default();
        let _infallible = write!(
            text,
            "- {name}: adaptive brings {:.1}% of the best fixed limit's throughput ({}), with {:.2} of its p99 ({} and {count} \
             slices).\n  By its own seconds since the change:",
            100.0 * found.0 / best_throughput.max(1e-9),
            label(*best),
            found.1 as f64 / p99.max(1) as f64,
            found.2,
        );
        for second in 0..PHASE_SECONDS / 2 {
            let own_s = (second as f64, second as f64 + 1.0);
            let of = |limit| figures(slices, phase, limit, own_s).map(|(throughput, ..)| throughput);
            if let (Some(found), Some(best)) = (of(None), of(*best)) {
                let _infallible = write!(text, " {:.0}%", 100.0 * found / best.max(1e-9));
            }
        }
        text.push_str(".\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "slice,100000,100000,1,10,900,adaptive\nslice,200000,100000,1,20,900,adaptive\n\
        request,1,2,3,127.0.0.1:1\nslice,300000,100000,1,30,900,64\nslice,400000,100000,0,40,900,64\n\
        slice,500000,100000,1,50,900,64\nslice,600000,100000,1,60,900,64\nslice,700000,100000,1,70,900,64\n";

    #[test]
    fn slices_are_in_one_phase_and_not_the_first_of_a_turn() {
        let slices = parse(TRACE, &[0, 550_000]);
        let phases: Vec<_> = slices
            .iter()
            .map(|slice| (slice.phase, slice.limit, slice.ops_per_s))
            .collect();
        let wanted = [
            (0, None, 200.0),
            (0, Some(64), 400.0),
            (0, Some(64), 500.0),
            (1, Some(64), 700.0),
        ];
        assert_eq!(phases, wanted);
        assert_eq!(slices[0].own_s, 0.2);
    }

    #[test]
    fn disturbed_slices_count_where_there_are_hardly_any_others() {
        let mut slices = parse(TRACE, &[0, 550_000]);
        assert_eq!(counted(&slices).0.len(), 3);
        for slice in &mut slices[1..] {
            slice.is_undisturbed = false;
        }
        assert_eq!(counted(&slices).0.len(), 4);
    }

    #[test]
    fn what_comes_two_seconds_after_a_change_counts() {
        let slice = |phase, own_s, limit, ops_per_s| Slice {
            phase,
            own_s,
            limit,
            ops_per_s,
            p99_us: 1000,
            is_undisturbed: true,
        };
        let mut slices = Vec::new();
        for phase in 0..3 {
            slices.push(slice(phase, 0.5, None, 10.0));
            slices.push(slice(phase, 0.5, Some(64), 100.0));
            slices.push(slice(phase, 2.5, None, 96.0));
            slices.push(slice(phase, 2.5, Some(64), 100.0));
        }
        let text = render(&slices);
        let wanted = "- half: adaptive brings 96.0% of the best fixed limit's throughput (64), with 1.00 of its p99 (1 and 1 \
            slices).\n  By its own seconds since the change: 10% 96%.\n";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("| 64 | 100, 1.0 | 100, 1.0 | 100, 1.0 |"), "{text}");
    }
}
