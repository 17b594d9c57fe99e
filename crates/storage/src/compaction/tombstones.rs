//! SSTables that are worth a compaction for what they have deleted.

use super::candidate::{Candidate, Moment};
use super::options::TombstoneOptions;

/// SSTables whose content has expired altogether and hides nothing older anywhere: they may go unread.
pub(super) fn fully_expired<'a>(
    tombstones: &TombstoneOptions,
    all: &'a [Candidate],
    moment: &Moment,
) -> Vec<&'a Candidate> {
    if tombstones.only_purge_repaired {
        return Vec::new();
    }
    let has_expired = |candidate: &Candidate| candidate.local_deletion_s_max < moment.gc_before_s;
    // Other expired SSTables do not count: what they hold nobody sees, with or without this one.
    let living_timestamp_min = all
        .iter()
        .filter(|candidate| !has_expired(candidate))
        .map(|candidate| candidate.timestamp_min)
        .fold(moment.memtable_timestamp_min, i64::min);
    all.iter()
        .filter(|candidate| !candidate.is_busy && has_expired(candidate))
        .filter(|candidate| candidate.timestamp_max < living_timestamp_min)
        .collect()
}

/// Returns whether a compaction of this SSTable alone is likely to drop enough of it.
pub(super) fn is_worth_it(
    options: &TombstoneOptions,
    candidate: &Candidate,
    all: &[Candidate],
    moment: &Moment,
) -> bool {
    if !options.is_enabled
        || options.only_purge_repaired
        || candidate.is_busy
        || candidate.droppable_tombstones <= options.threshold
        || moment.now_s < candidate.created_at_s.saturating_add(options.interval_s)
    {
        return false;
    }
    if options.is_unchecked {
        return true;
    }
    let others: Vec<&Candidate> = all
        .iter()
        .filter(|other| other.generation != candidate.generation && other.overlaps(candidate))
        .collect();
    // What lies in the token ranges of others may have to stay; keys are taken as evenly spread.
    free_share(candidate, &others) * candidate.droppable_tombstones > options.threshold
}

/// The share of an SSTable's tokens that no other SSTable covers.
fn free_share(candidate: &Candidate, others: &[&Candidate]) -> f64 {
    let (first, last) = (i128::from(candidate.first.0), i128::from(candidate.last.0));
    let mut covered: Vec<(i128, i128)> = others
        .iter()
        .map(|other| {
            (
                i128::from(other.first.0).max(first),
                i128::from(other.last.0).min(last),
            )
        })
        .collect();
    covered.sort_unstable();
    let (mut free, mut from) = (0, first);
    for (start, end) in covered {
        free += (start - from).max(0);
        from = from.max(end + 1);
    }
    free += (last + 1 - from).max(0);
    free as f64 / (last + 1 - first) as f64
}
