//! The tenths of a second of runs in which limits take turns, and what they come to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::compare::load_generator::parse_trace;

/// Settling time of the adaptive limit after a change, of its own time, in seconds.
const SETTLE_S: f64 = 2.0;

/// A tenth of a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slice {
    phase: usize,
    /// How long the adaptive limit has had its turn in this phase, in seconds.
    own_s: f64,
    /// `None` is the adaptive one.
    limit: Option<usize>,
    ops_per_s: f64,
    p99_us: u64,
    is_undisturbed: bool,
}

/// The slices of a trace that are not the first of a turn, and within one phase.
pub(super) fn parse(trace: &str, changes_us: &[u64]) -> Vec<Slice> {
    let phase_at = |at_us| {
        let changes = changes_us.iter().filter(|change| **change <= at_us);
        changes.count().max(1) - 1
    };
    let mut slices = Vec::new();
    let mut last_limit = None;
    let (mut last_phase, mut own_s) = (0, 0.0);
    for traced in parse_trace(trace) {
        let length_us = (traced.at_us.end - traced.at_us.start).max(1);
        let phase = phase_at(traced.at_us.start);
        if phase != last_phase {
            (last_phase, own_s) = (phase, 0.0);
        }
        if traced.limit.is_none() {
            own_s += length_us as f64 / 1e6;
        }
        let is_first = last_limit.replace(traced.limit) != Some(traced.limit);
        if !is_first && phase == phase_at(traced.at_us.end) {
            slices.push(Slice {
                phase,
                own_s,
                limit: traced.limit,
                ops_per_s: traced.ops as f64 * 1e6 / length_us as f64,
                p99_us: traced.p99_us,
                is_undisturbed: traced.is_undisturbed,
            });
        }
    }
    slices
}

/// One limit in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    /// The mean.
    ops_per_s: f64,
    /// The slices' median, and that of their worst tenth.
    p99_us: u64,
    worst_p99_us: u64,
    slices: usize,
}

/// Computes the figures of one limit in one phase, while the adaptive limit has been there for this long.
fn figures(slices: &[Slice], phase: usize, limit: Option<usize>, own_s: (f64, f64)) -> Option<Figures> {
    let is_wanted = |slice: &&Slice| {
        slice.phase == phase && slice.limit == limit && slice.own_s > own_s.0 && slice.own_s <= own_s.1
    };
    let wanted: Vec<&Slice> = slices.iter().filter(is_wanted).collect();
    let mut p99: Vec<u64> = wanted.iter().map(|slice| slice.p99_us).collect();
    p99.sort_unstable();
    Some(Figures {
        ops_per_s: wanted.iter().map(|slice| slice.ops_per_s).sum::<f64>() / wanted.len().max(1) as f64,
        p99_us: *p99.get(p99.len() / 2)?,
        worst_p99_us: *p99.get(p99.len() * 9 / 10)?,
        slices: wanted.len(),
    })
}

const SETTLED: (f64, f64) = (SETTLE_S, f64::INFINITY);

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

pub(super) fn render(slices: &[Slice], phases: &[&str]) -> String {
    let (slices, which) = counted(slices);
    let slices = &slices[..];
    let mut text = format!("Of the {which}.\n\n| limit |");
    for phase in phases {
        let _infallible = write!(text, " {phase}: reads/s | p99 ms | worst tenth |");
    }
    let _infallible = writeln!(text, "\n|---|{}", "---|---|---|".repeat(phases.len()));
    let limits: BTreeMap<Option<usize>, ()> = slices.iter().map(|slice| (slice.limit, ())).collect();
    for limit in limits.keys() {
        let _infallible = write!(text, "| {} |", label(*limit));
        for phase in 0..phases.len() {
            let of = figures(slices, phase, *limit, SETTLED).unwrap_or_default();
            let (p99_ms, worst_ms) = (of.p99_us as f64 / 1e3, of.worst_p99_us as f64 / 1e3);
            let _infallible = write!(text, " {:.0} | {p99_ms:.1} | {worst_ms:.1} |", of.ops_per_s);
        }
        text.push('\n');
    }
    text.push('\n');
    for (phase, name) in phases.iter().enumerate() {
        let settled = |limit| figures(slices, phase, limit, SETTLED).unwrap_or_default();
        let fixed = limits.keys().filter(|limit| limit.is_some());
        let best = fixed.max_by(|one, other| settled(**one).ops_per_s.total_cmp(&settled(**other).ops_per_s));
        let (Some(found), Some(limit)) = (figures(slices, phase, None, SETTLED), best) else {
            continue;
        };
        let best = settled(*limit);
        let _infallible = writeln!(
            text,
            "- {name}: adaptive brings {:.1}% of the best fixed limit's throughput ({}), with {:.2} of its p99, {:.2} in the worst \
             tenth\n  ({} and {} slices).",
            100.0 * found.ops_per_s / best.ops_per_s.max(1e-9),
            label(*limit),
            found.p99_us as f64 / best.p99_us.max(1) as f64,
            found.worst_p99_us as f64 / best.worst_p99_us.max(1) as f64,
            found.slices,
            best.slices,
        );
        if phases.len() > 1 {
            text.push_str(&by_second(slices, phase, *limit));
        }
    }
    text
}

/// The adaptive limit's throughput in each of its own seconds since a change, beside that of another one.
fn by_second(slices: &[Slice], phase: usize, limit: Option<usize>) -> String {
    let mut text = String::from("  By its own seconds since the change:");
    let longest_s = slices.iter().map(|slice| slice.own_s).fold(0.0, f64::max);
    for second in 0..longest_s.ceil() as u32 {
        let own_s = (f64::from(second), f64::from(second) + 1.0);
        let of = |limit| figures(slices, phase, limit, own_s);
        if let (Some(found), Some(best)) = (of(None), of(limit)) {
            let _infallible = write!(
                text,
                " {:.0}%",
                100.0 * found.ops_per_s / best.ops_per_s.max(1e-9)
            );
        }
    }
    text.push_str(".\n");
    text
}

fn label(limit: Option<usize>) -> String {
    limit.map_or("adaptive".to_owned(), |limit| limit.to_string())
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
        let text = render(&slices, &["full", "half", "full again"]);
        let wanted = "- half: adaptive brings 96.0% of the best fixed limit's throughput (64), with 1.00 of its p99, 1.00 in \
            the worst tenth\n  (1 and 1 slices).\n  By its own seconds since the change: 10% 96%.\n";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("| 64 | 100 | 1.0 | 1.0 | 100 |"), "{text}");
    }

    #[test]
    fn the_best_fixed_limit_is_what_adaptive_is_measured_by() {
        let slice = |limit, ops_per_s, p99_us| Slice {
            phase: 0,
            own_s: 3.0,
            limit,
            ops_per_s,
            p99_us,
            is_undisturbed: true,
        };
        let mut slices = vec![slice(Some(16), 50.0, 2), slice(Some(600), 100.0, 10)];
        slices.extend((0..19).map(|nth| slice(None, 95.0, if nth < 2 { 20 } else { 9 })));
        let text = render(&slices, &["steady"]);
        let wanted = "- steady: adaptive brings 95.0% of the best fixed limit's throughput (600), with 0.90 of its p99, 2.00 in the \
            worst tenth\n  (19 and 1 slices).\n";
        assert!(text.ends_with(wanted), "{text}");
    }
}
