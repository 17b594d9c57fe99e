//! Choosing what to compact: pure functions over metadata.

use super::candidate::{Candidate, Moment, OutputShape, Split, Task, bytes_of};
use super::options::{CompactionOptions, Strategy};
use super::parts::Parts;
use super::{leveled, redundancy, size_tiered, time_window, tombstones, unified};

/// The smallest SSTable that a major compaction with split output makes, as in Cassandra.
const SPLIT_SSTABLE_BYTES_MIN: u64 = 50 << 20;

impl CompactionOptions {
    /// The next compaction that the strategy wants, if any.
    pub fn choose(&self, candidates: &[Candidate], moment: &Moment) -> Option<Task> {
        if !self.is_enabled {
            return None;
        }
        let expired = tombstones::fully_expired(&self.tombstones, candidates, moment);
        let expired: Vec<u64> = expired
            .into_iter()
            .map(|candidate| candidate.generation)
            .collect();
        // These look for expired SSTables; the others drop those they come across.
        let seeks_expired = matches!(self.strategy, Strategy::TimeWindow(_) | Strategy::Unified(_));
        let is_free = |candidate: &Candidate| {
            !(candidate.is_busy || seeks_expired && expired.contains(&candidate.generation))
        };
        let chosen = self.choose_inputs(candidates, moment, is_free);
        if !seeks_expired {
            let mut task = chosen?;
            task.expired = task
                .inputs
                .extract_if(.., |input| expired.contains(input))
                .collect();
            return Some(task);
        }
        match chosen {
            None if expired.is_empty() => None,
            None => Some(Task {
                expired,
                ..Task::merge([], OutputShape::WHOLE)
            }),
            Some(task) => Some(Task { expired, ..task }),
        }
    }

    fn choose_inputs(
        &self,
        candidates: &[Candidate],
        moment: &Moment,
        is_free: impl Fn(&Candidate) -> bool,
    ) -> Option<Task> {
        let free = || candidates.iter().filter(|candidate| is_free(candidate));
        let (inputs, shape) = match &self.strategy {
            Strategy::Leveled(options) => return leveled::choose(self, options, candidates, moment),
            Strategy::Unified(options) => {
                let inputs = unified::choose(options, free(), moment);
                let shape = unified::shape(options, &inputs);
                return (!inputs.is_empty()).then(|| Task::merge(inputs, shape));
            }
            Strategy::SizeTiered(options) => {
                let parts = Parts::of_free(options, candidates, moment);
                let redundant = redundancy::most_redundant(self, options, &parts, moment.merge_yield);
                let inputs = if redundant.is_empty() {
                    size_tiered::most_interesting_of(self, options, &parts)
                } else {
                    redundant
                };
                let shape = parts.shape(&inputs);
                (inputs, shape)
            }
            Strategy::TimeWindow(options) => {
                let inputs = time_window::choose(self, options, candidates, &is_free);
                (inputs, OutputShape::WHOLE)
            }
        };
        if !inputs.is_empty() {
            return Some(Task::merge(inputs, shape));
        }
        let worthy = free()
            .filter(|candidate| tombstones::is_worth_it(&self.tombstones, candidate, candidates, moment));
        let by_size = |candidate: &&Candidate| (candidate.bytes, candidate.generation);
        let alone = match &self.strategy {
            Strategy::TimeWindow(_) => worthy.min_by_key(by_size),
            _ => worthy.max_by_key(by_size),
        };
        alone.map(|candidate| Task::merge([candidate], OutputShape::WHOLE))
    }

    /// How many compactions the strategy wants, roughly.
    pub fn pending(&self, candidates: &[Candidate], moment: &Moment) -> usize {
        if !self.is_enabled {
            return 0;
        }
        let free = || candidates.iter().filter(|candidate| !candidate.is_busy);
        match &self.strategy {
            Strategy::SizeTiered(options) => {
                let parts = Parts::of_free(options, candidates, moment);
                let redundant = redundancy::most_redundant(self, options, &parts, moment.merge_yield);
                size_tiered::pending_of(self, options, &parts).max(usize::from(!redundant.is_empty()))
            }
            Strategy::Leveled(options) => leveled::pending(self, options, candidates),
            Strategy::TimeWindow(options) => time_window::pending(self, options, candidates),
            Strategy::Unified(options) => unified::pending(options, free(), moment),
        }
    }

    /// How many SSTables reads look into that they would not if all that the strategy wants were done.
    pub fn waiting(&self, candidates: &[Candidate], moment: &Moment) -> usize {
        if !self.is_enabled {
            return 0;
        }
        match &self.strategy {
            Strategy::SizeTiered(options) => {
                size_tiered::waiting_of(self, options, &Parts::of_all(options, candidates, moment))
            }
            Strategy::Leveled(options) => leveled::waiting(self, options, candidates),
            Strategy::TimeWindow(options) => time_window::waiting(self, options, candidates),
            Strategy::Unified(options) => unified::waiting(options, candidates, moment),
        }
    }

    /// All SSTables merged into what the strategy would want of so much data.
    pub fn major(&self, candidates: &[Candidate], split_output: bool) -> Option<Task> {
        if candidates.is_empty() {
            return None;
        }
        let bytes = bytes_of(candidates);
        let shape = match &self.strategy {
            Strategy::Leveled(options) => options.major_shape(bytes),
            Strategy::Unified(options) => unified::shape(options, &candidates.iter().collect::<Vec<_>>()),
            Strategy::SizeTiered(_) if split_output => OutputShape {
                level: 0,
                split: Split::Halving {
                    bytes_total: bytes,
                    sstable_bytes_min: SPLIT_SSTABLE_BYTES_MIN,
                },
            },
            Strategy::SizeTiered(_) | Strategy::TimeWindow(_) => OutputShape::WHOLE,
        };
        Some(Task::merge(candidates, shape))
    }
}
