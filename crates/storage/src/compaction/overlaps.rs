//! Sections of the token range, each with the SSTables that overlap there.

use std::collections::BTreeSet;

use super::candidate::Candidate;
use super::options::OverlapInclusion;

/// Indexes into the candidates that were given.
pub(super) type Section = BTreeSet<usize>;

/// The largest sets of SSTables that share a token, in token order. A set within another one is not listed.
pub(super) fn sections(candidates: &[&Candidate]) -> Vec<Section> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|&index| (candidates[index].first, candidates[index].generation));
    let mut sections = Vec::new();
    let mut active = Section::new();
    for index in order {
        let first = candidates[index].first;
        let has_ended = |other: &usize| candidates[*other].last < first;
        if active.iter().any(has_ended) {
            sections.push(active.clone());
            active.retain(|other| !has_ended(other));
        }
        active.insert(index);
    }
    if !active.is_empty() {
        sections.push(active);
    }
    sections
}

/// Runs of sections around those with at least `threshold` SSTables, as ranges of sections.
pub(super) fn buckets(
    sections: &[Section],
    threshold: usize,
    inclusion: OverlapInclusion,
) -> Vec<std::ops::Range<usize>> {
    let mut buckets = Vec::new();
    let mut free_from = 0;
    let mut at = 0;
    while let Some(crowded) = sections.get(at) {
        if crowded.len() < threshold {
            at += 1;
            continue;
        }
        let (mut start, mut end) = (at, at + 1);
        if inclusion != OverlapInclusion::None {
            let mut reached = crowded.clone();
            let mut reaches = |section: &Section| {
                let is_hit = !section.is_disjoint(&reached);
                if is_hit && inclusion == OverlapInclusion::Transitive {
                    reached.extend(section);
                }
                is_hit
            };
            while start > free_from && reaches(&sections[start - 1]) {
                start -= 1;
            }
            while end < sections.len() && reaches(&sections[end]) {
                end += 1;
            }
        }
        buckets.push(start..end);
        free_from = end;
        at = end;
    }
    buckets
}
