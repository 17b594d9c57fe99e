//! Leveled compaction: levels of SSTables of one size without overlaps, each level some times larger than the one
//! below, so that a read touches few files and space is hardly wasted, for more rewriting.

use std::cmp::Reverse;

use helenus_types::Token;

use super::candidate::{Candidate, IdleLevels, LEVELS, Moment, OutputShape, Split, Task, bytes_of};
use super::options::{CompactionOptions, LeveledOptions};
use super::{size_tiered, tombstones};

/// From this many SSTables on, level 0 is merged within itself first: merging it up rewrites the level above each time.
const LEVEL_0_SSTABLES_MAX: usize = 32;
/// A level is too large from this part of its bound on.
const SCORE_MIN: f64 = 1.001;
/// A level that nothing was sent to so often, while others were sent to, starves; Cassandra's bound.
const IDLE_MAX: u32 = 25;

/// SSTables by level, those above 0 in token order and without overlaps.
struct Levels<'a> {
    options: &'a LeveledOptions,
    max_threshold: usize,
    levels: [Vec<&'a Candidate>; LEVELS],
}

pub(super) fn choose(
    options: &CompactionOptions,
    leveled: &LeveledOptions,
    candidates: &[Candidate],
    moment: &Moment,
) -> Option<Task> {
    let levels = Levels::of(options, leveled, candidates);
    let tiers = levels.level_0_tiers(options);
    for level in (1..LEVELS - 1).rev() {
        let free = levels.levels[level].iter().filter(|member| !member.is_busy);
        let score = bytes_of(free.copied()) as f64 / leveled.bytes_max(level);
        if score <= SCORE_MIN {
            continue;
        }
        if !tiers.is_empty() {
            return Some(Task::merge(tiers, OutputShape::WHOLE));
        }
        if let Some(inputs) = levels.upwards(level) {
            return Some(levels.task_upwards(inputs, moment.idle_levels));
        }
    }
    let of_level_0 = levels.of_level_0();
    if !of_level_0.is_empty() {
        return Some(levels.task(of_level_0));
    }
    if !tiers.is_empty() {
        return Some(Task::merge(tiers, OutputShape::WHOLE));
    }
    levels.most_tombstones(options, candidates, moment)
}

/// SSTables beyond the bounds of their levels, in SSTables of the wanted size.
pub(super) fn pending(
    options: &CompactionOptions,
    leveled: &LeveledOptions,
    candidates: &[Candidate],
) -> usize {
    let levels = Levels::of(options, leveled, candidates);
    let beyond = levels.levels.iter().enumerate().map(|(level, members)| {
        let above = bytes_of(members.iter().copied()) as f64 - leveled.bytes_max(level) * SCORE_MIN;
        (above.max(0.0) / leveled.sstable_bytes as f64).ceil() as usize
    });
    let level_0 = levels.levels[0].len();
    beyond.sum::<usize>()
        + if level_0 > options.max_threshold {
            level_0 / options.max_threshold
        } else {
            0
        }
}

/// How many SSTables are in level 0: a read looks into all of them.
pub(super) fn waiting(
    options: &CompactionOptions,
    leveled: &LeveledOptions,
    candidates: &[Candidate],
) -> usize {
    Levels::of(options, leveled, candidates).levels[0].len()
}

impl LeveledOptions {
    fn bytes_max(&self, level: usize) -> f64 {
        if level == 0 {
            return 4.0 * self.sstable_bytes as f64;
        }
        f64::from(self.fanout).powi(level as i32) * self.sstable_bytes as f64
    }

    fn shape(&self, level: u32) -> OutputShape {
        OutputShape {
            level,
            split: Split::BySize {
                sstable_bytes: self.sstable_bytes,
            },
        }
    }

    /// Everything merged goes to the first level that has room for it.
    pub(super) fn major_shape(&self, bytes: u64) -> OutputShape {
        let level = (1..LEVELS - 1).find(|&level| bytes as f64 <= self.bytes_max(level));
        self.shape(level.unwrap_or(LEVELS - 1) as u32)
    }
}

impl<'a> Levels<'a> {
    /// Sorts candidates into levels. One that overlaps another SSTable of its level was copied in or comes from another
    /// strategy: it counts as level 0.
    fn of(options: &CompactionOptions, leveled: &'a LeveledOptions, candidates: &'a [Candidate]) -> Self {
        let mut levels: [Vec<&Candidate>; LEVELS] = Default::default();
        let mut sorted: Vec<&Candidate> = candidates.iter().collect();
        sorted.sort_by_key(|candidate| (candidate.first, candidate.generation));
        for candidate in sorted {
            let level = (candidate.level as usize).min(LEVELS - 1);
            let overlaps = levels[level]
                .last()
                .is_some_and(|before| before.last >= candidate.first);
            levels[if overlaps { 0 } else { level }].push(candidate);
        }
        Levels {
            options: leveled,
            max_threshold: options.max_threshold,
            levels,
        }
    }

    fn level_of(&self, candidate: &Candidate) -> usize {
        let is_it = |other: &&Candidate| other.generation == candidate.generation;
        self.levels
            .iter()
            .position(|level| level.iter().any(is_it))
            .unwrap_or(0)
    }

    fn level_0_tiers(&self, options: &CompactionOptions) -> Vec<&'a Candidate> {
        if self.levels[0].len() <= LEVEL_0_SSTABLES_MAX {
            return Vec::new();
        }
        let free = self.levels[0].iter().copied().filter(|member| !member.is_busy);
        size_tiered::most_interesting(options, &self.options.size_tiered, free)
    }

    /// Level 0 with what it overlaps in level 1.
    fn of_level_0(&self) -> Vec<&'a Candidate> {
        let busy = span(self.levels[0].iter().copied().filter(|member| member.is_busy));
        let mut by_age = self.levels[0].clone();
        by_age.sort_by_key(|member| (member.timestamp_max, member.generation));
        let mut inputs: Vec<&Candidate> = Vec::new();
        for oldest in &by_age {
            let is_taken = |member: &Candidate, inputs: &[&Candidate]| {
                inputs.iter().any(|input| input.generation == member.generation)
            };
            if oldest.is_busy || is_taken(oldest, &inputs) {
                continue;
            }
            let together: Vec<&Candidate> = by_age
                .iter()
                .copied()
                .filter(|member| member.overlaps(oldest) && !is_taken(member, &inputs))
                .collect();
            if together.iter().any(|member| member.is_busy) {
                continue;
            }
            inputs.extend(together.into_iter().filter(|member| !touches(member, busy)));
            if inputs.len() > self.max_threshold {
                inputs.sort_by_key(|member| (member.timestamp_max, member.generation));
                inputs.truncate(self.max_threshold);
                break;
            }
        }
        if bytes_of(inputs.iter().copied()) > self.options.sstable_bytes {
            let range = span(inputs.iter().copied());
            let above: Vec<&Candidate> = self.levels[1]
                .iter()
                .copied()
                .filter(|member| touches(member, range))
                .collect();
            if above.iter().any(|member| member.is_busy) {
                return Vec::new();
            }
            inputs.extend(above);
        }
        if inputs.len() < 2 { Vec::new() } else { inputs }
    }

    /// One SSTable of a level with what it overlaps in the next: the first after the one that went up last, so that
    /// all of the level has its turn.
    fn upwards(&self, level: usize) -> Option<Vec<&'a Candidate>> {
        let (members, next) = (&self.levels[level], &self.levels[level + 1]);
        let last = next.iter().max_by_key(|member| member.generation);
        let start = last.map_or(0, |last| {
            members.partition_point(|member| member.first <= last.last)
        });
        let in_turn = members[start..].iter().chain(&members[..start]);
        in_turn.copied().find_map(|member| {
            let mut inputs = vec![member];
            inputs.extend(next.iter().copied().filter(|other| other.overlaps(member)));
            inputs.iter().all(|input| !input.is_busy).then_some(inputs)
        })
    }

    fn task_upwards(&self, inputs: Vec<&'a Candidate>, idle: IdleLevels) -> Task {
        let starved = self.starved(&inputs, idle);
        let mut task = self.task(inputs);
        task.is_relabelling = self.options.uplevels_single && starved.is_none() && task.inputs.len() == 1;
        if let Some(starved) = starved
            && !task.inputs.contains(&starved.generation)
        {
            task.inputs.push(starved.generation);
            task.inputs.sort_unstable();
        }
        task
    }

    /// An SSTable of the highest level, where that starves, that lies within the tokens of some that go up: it may join
    /// them without making overlaps. Else a level that became too small for its place would never be compacted again.
    fn starved(&self, inputs: &[&'a Candidate], idle: IdleLevels) -> Option<&'a Candidate> {
        let highest = (1..LEVELS).rev().find(|&level| !self.levels[level].is_empty())?;
        if idle.0[highest] <= IDLE_MAX {
            return None;
        }
        let (first, last) = span(inputs.iter().copied())?;
        let mut members = self.levels[highest].iter().copied();
        members
            .find(|member| first != last && !member.is_busy && first <= member.first && member.last <= last)
    }

    fn task(&self, inputs: Vec<&'a Candidate>) -> Task {
        let levels = inputs.iter().map(|input| self.level_of(input));
        let (lowest, highest) = levels.fold((LEVELS, 0), |(low, high), level| {
            (low.min(level), high.max(level))
        });
        let is_small = bytes_of(inputs.iter().copied()) < self.options.sstable_bytes;
        let level = match (lowest, highest) {
            (0, 0) if is_small => 0,
            _ if lowest == highest => highest + 1,
            _ => highest,
        };
        Task::merge(inputs, self.options.shape(level.min(LEVELS - 1) as u32))
    }

    /// From the highest level down: tombstones there hide least.
    fn most_tombstones(
        &self,
        options: &CompactionOptions,
        all: &[Candidate],
        moment: &Moment,
    ) -> Option<Task> {
        self.levels.iter().enumerate().rev().find_map(|(level, members)| {
            let mut members = members.clone();
            members.sort_by(|left, right| {
                let by_share = right.droppable_tombstones.total_cmp(&left.droppable_tombstones);
                by_share.then(Reverse(left.generation).cmp(&Reverse(right.generation)))
            });
            let found = members
                .into_iter()
                .find(|member| tombstones::is_worth_it(&options.tombstones, member, all, moment))?;
            Some(Task::merge([found], self.options.shape(level as u32)))
        })
    }
}

/// The tokens from the first to the last of several.
fn span<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> Option<(Token, Token)> {
    candidates.fold(None, |span, candidate| match span {
        None => Some((candidate.first, candidate.last)),
        Some((first, last)) => Some((candidate.first.min(first), candidate.last.max(last))),
    })
}

fn touches(candidate: &Candidate, span: Option<(Token, Token)>) -> bool {
    span.is_some_and(|(first, last)| candidate.first <= last && first <= candidate.last)
}
