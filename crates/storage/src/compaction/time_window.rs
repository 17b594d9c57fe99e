//! Time-window compaction: one SSTable for each window that is over, so that a whole window expires at once.

use std::collections::BTreeMap;

use super::candidate::Candidate;
use super::options::{CompactionOptions, TimeWindowOptions};
use super::size_tiered;

/// SSTables by the window of their newest write; windows are named by their start in seconds.
struct Windows<'a> {
    by_start_s: BTreeMap<i64, Vec<&'a Candidate>>,
    /// The newest there is, also among SSTables that are being compacted.
    current_s: i64,
}

/// Chooses the SSTables to merge next, newest window first; empty if none.
pub(super) fn choose<'a>(
    options: &CompactionOptions,
    windows: &TimeWindowOptions,
    candidates: &'a [Candidate],
    is_free: impl Fn(&Candidate) -> bool,
) -> Vec<&'a Candidate> {
    let Windows {
        by_start_s,
        current_s,
    } = Windows::of(windows, candidates, is_free);
    for (start_s, mut members) in by_start_s.into_iter().rev() {
        if start_s < current_s {
            if members.len() >= 2 {
                members.sort_by_key(|member| (member.bytes, member.generation));
                members.truncate(options.max_threshold);
                return members;
            }
            continue;
        }
        let tier = size_tiered::most_interesting(options, &windows.size_tiered, members);
        if !tier.is_empty() {
            return tier;
        }
    }
    Vec::new()
}

/// How many windows want a compaction.
pub(super) fn pending(
    options: &CompactionOptions,
    windows: &TimeWindowOptions,
    candidates: &[Candidate],
) -> usize {
    Windows::of(windows, candidates, |candidate| !candidate.is_busy).sum(
        |members| size_tiered::pending(options, &windows.size_tiered, members),
        |several| several.div_ceil(options.max_threshold),
    )
}

/// How many SSTables are in windows that want a compaction, or in full buckets of the current one.
pub(super) fn waiting(
    options: &CompactionOptions,
    windows: &TimeWindowOptions,
    candidates: &[Candidate],
) -> usize {
    Windows::of(windows, candidates, |_| true).sum(
        |members| size_tiered::waiting(options, &windows.size_tiered, members),
        |several| several,
    )
}

impl<'a> Windows<'a> {
    /// Adds up what the current window counts for, and past ones of several SSTables.
    fn sum(self, current: impl Fn(Vec<&'a Candidate>) -> usize, past: impl Fn(usize) -> usize) -> usize {
        let counts = self
            .by_start_s
            .into_iter()
            .map(|(start_s, members)| match members.len() {
                _ if start_s >= self.current_s => current(members),
                0 | 1 => 0,
                several => past(several),
            });
        counts.sum()
    }

    fn of(
        windows: &TimeWindowOptions,
        candidates: &'a [Candidate],
        is_free: impl Fn(&Candidate) -> bool,
    ) -> Self {
        let start_s = |candidate: &Candidate| {
            let newest_s = candidate.timestamp_max / windows.timestamps_per_s;
            newest_s - newest_s % windows.window_s
        };
        let mut by_start_s: BTreeMap<i64, Vec<&Candidate>> = BTreeMap::new();
        for candidate in candidates.iter().filter(|candidate| is_free(candidate)) {
            by_start_s.entry(start_s(candidate)).or_default().push(candidate);
        }
        Windows {
            by_start_s,
            current_s: candidates.iter().map(start_s).max().unwrap_or(0),
        }
    }
}
