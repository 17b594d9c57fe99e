//! Write sets: updates of several partitions that a crash leaves whole or not at all.
//!
//! Updates of one shard are one record, which the log has or has not. A set over several shards has one part in the log
//! of each of them. All parts are synced at the same time, and the set is *resolved* once all of them are durable; there
//! is no second write. Replay finds out which sets are whole before it applies any part ([`Census`]).
//!
//! Three rules keep a set whole however its logs end:
//! 1. A memtable is not flushed while it holds a part of a set that is not resolved, else half of a set that a crash
//!    undoes would be in an SSTable ([`UnresolvedParts`], [`CommitLog::resolved`](super::CommitLog::resolved)).
//! 2. A segment with such a part is not removed. Before one with parts of resolved sets is removed, it is durable up to
//!    which number the sets of each coordinator are resolved ([`super::FlushedPositions`]): the parts in other logs would
//!    miss it.
//! 3. A log that fails while it owes a part makes all shards refuse writes until a restart, which undoes the set.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helenus_types::ShardId;

use super::{FlushedPositions, LogPosition};

/// Names a write set among all that any log of the node may still have parts of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteSetId {
    /// The start of the node that it was written after.
    pub run: u64,
    /// The shard that numbered it.
    pub coordinator: ShardId,
    /// From 1, in the order in which the coordinator began them.
    pub number: u64,
}

/// One shard's part of a write set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteSetPart {
    pub id: WriteSetId,
    /// From 0.
    pub part: u16,
    pub parts: u16,
}

/// Run 8, coordinator 2, number 8, part 2, parts 2.
pub(super) const PART_BYTES: usize = 22;

impl WriteSetPart {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.run.to_le_bytes());
        out.extend_from_slice(&self.id.coordinator.0.to_le_bytes());
        out.extend_from_slice(&self.id.number.to_le_bytes());
        out.extend_from_slice(&self.part.to_le_bytes());
        out.extend_from_slice(&self.parts.to_le_bytes());
    }

    /// The part and what follows it.
    pub(super) fn decode(bytes: &[u8]) -> Option<(WriteSetPart, &[u8])> {
        let (run, bytes) = bytes.split_first_chunk()?;
        let (coordinator, bytes) = bytes.split_first_chunk()?;
        let (number, bytes) = bytes.split_first_chunk()?;
        let (part, bytes) = bytes.split_first_chunk()?;
        let (parts, bytes) = bytes.split_first_chunk()?;
        let id = WriteSetId {
            run: u64::from_le_bytes(*run),
            coordinator: ShardId(u16::from_le_bytes(*coordinator)),
            number: u64::from_le_bytes(*number),
        };
        let part = WriteSetPart {
            id,
            part: u16::from_le_bytes(*part),
            parts: u16::from_le_bytes(*parts),
        };
        Some((part, bytes))
    }
}

/// Up to which number the write sets of each coordinator are resolved, in this run of the node. Written by the
/// coordinators' threads, read by all shards.
#[derive(Debug)]
pub struct ResolvedWriteSets {
    run: u64,
    through: Box<[AtomicU64]>,
}

impl ResolvedWriteSets {
    /// `run` was never used in this data folder before.
    pub fn new(run: u64, shard_count: u16) -> Arc<Self> {
        Arc::new(ResolvedWriteSets {
            run,
            through: (0..shard_count).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Returns whether all parts of a set of this run are durable.
    pub fn is_resolved(&self, id: WriteSetId) -> bool {
        id.number <= self.through(id.coordinator)
    }

    fn through(&self, coordinator: ShardId) -> u64 {
        let through = self.through.get(usize::from(coordinator.0));
        // What the coordinator has seen durable is durable for whoever sees its number.
        through.map_or(0, |through| through.load(Ordering::Acquire))
    }

    /// The coordinators that have resolved any.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, ShardId, u64)> {
        let shards = (0..).map(ShardId).take(self.through.len());
        let all = shards.map(|shard| (self.run, shard, self.through(shard)));
        all.filter(|(_, _, through)| *through > 0)
    }
}

/// Numbers the write sets of one coordinator. Owned by its thread.
#[derive(Debug)]
pub struct WriteSetNumbers {
    coordinator: ShardId,
    last: u64,
    /// Begun and not resolved: as many as requests are in flight, and those whose requests have timed out.
    unresolved: BTreeSet<u64>,
    resolved: Arc<ResolvedWriteSets>,
}

impl WriteSetNumbers {
    pub fn new(coordinator: ShardId, resolved: Arc<ResolvedWriteSets>) -> Self {
        WriteSetNumbers {
            coordinator,
            last: 0,
            unresolved: BTreeSet::new(),
            resolved,
        }
    }

    /// To be resolved, or the shards that have parts of it never flush them.
    pub fn begin(&mut self) -> WriteSetId {
        self.last += 1;
        self.unresolved.insert(self.last);
        WriteSetId {
            run: self.resolved.run,
            coordinator: self.coordinator,
            number: self.last,
        }
    }

    pub fn is_resolved(&self, number: u64) -> bool {
        number <= self.resolved.through(self.coordinator)
    }

    /// All parts of it are durable.
    pub fn resolve(&mut self, number: u64) {
        self.unresolved.remove(&number);
        let through = self.unresolved.first().map_or(self.last, |first| first - 1);
        if let Some(published) = self.resolved.through.get(usize::from(self.coordinator.0)) {
            published.store(through, Ordering::Release);
        }
    }
}

/// The parts in one log whose sets were not resolved when they were last looked at, in the order of the log.
#[derive(Debug)]
pub(super) struct UnresolvedParts {
    parts: VecDeque<(LogPosition, WriteSetId)>,
    resolved: Option<Arc<ResolvedWriteSets>>,
    /// News last given by [`UnresolvedParts::news`].
    said: Vec<(ShardId, u64)>,
    has_parts: bool,
}

impl UnresolvedParts {
    pub fn new(resolved: Option<Arc<ResolvedWriteSets>>) -> Self {
        UnresolvedParts {
            parts: VecDeque::new(),
            resolved,
            said: Vec::new(),
            has_parts: false,
        }
    }

    pub fn push(&mut self, position: LogPosition, id: WriteSetId) {
        self.has_parts = true;
        self.parts.push_back((position, id));
    }

    /// Returns, for each coordinator, the last set that is not resolved.
    pub fn ids(&self) -> Vec<WriteSetId> {
        let mut last: BTreeMap<ShardId, WriteSetId> = BTreeMap::new();
        let is_unresolved = |id: &WriteSetId| {
            let resolved = self.resolved.as_ref();
            resolved.is_some_and(|resolved| !resolved.is_resolved(*id))
        };
        // Another coordinator's set may keep resolved ones in the queue.
        for id in self.parts.iter().map(|(_, id)| *id).filter(is_unresolved) {
            let known = last.entry(id.coordinator).or_insert(id);
            *known = (*known).max(id);
        }
        last.into_values().collect()
    }

    pub fn note_resolved(&self, flushed: &mut FlushedPositions) {
        if let Some(resolved) = self.resolved.as_ref().filter(|_| self.has_parts) {
            flushed.note_resolved(resolved);
        }
    }

    /// The first part in the log that waits for another.
    pub fn first(&mut self) -> Option<LogPosition> {
        let resolved = self.resolved.as_ref()?;
        while self
            .parts
            .front()
            .is_some_and(|(_, id)| resolved.is_resolved(*id))
        {
            self.parts.pop_front();
        }
        self.parts.front().map(|(position, _)| *position)
    }

    /// The run, and up to which numbers sets are resolved, where that has changed since the last call. Nothing in a log
    /// without parts.
    pub fn news(&mut self) -> Option<(u64, &[(ShardId, u64)])> {
        let resolved = self.resolved.as_ref().filter(|_| self.has_parts)?;
        let is_old = resolved.all().eq(self
            .said
            .iter()
            .map(|(shard, through)| (resolved.run, *shard, *through)));
        if is_old {
            return None;
        }
        self.said = resolved
            .all()
            .map(|(_, shard, through)| (shard, through))
            .collect();
        Some((resolved.run, &self.said))
    }
}

/// Up to which number sets are known to be resolved, by run and coordinator.
pub(super) type ResolvedThrough = BTreeMap<(u64, ShardId), u64>;

/// Which of the write sets in the logs of the last run are not whole.
///
/// Holds the sets that some log has a part of and the logs read so far have not all parts of, as far as those logs do
/// not say that the set was resolved: of each log what was under way between two of its marks, and its end.
#[derive(Debug, Default)]
pub(super) struct Census {
    incomplete: BTreeMap<WriteSetId, BTreeSet<u16>>,
    resolved: ResolvedThrough,
}

impl Census {
    pub fn part(&mut self, part: WriteSetPart) {
        let WriteSetId { run, coordinator, .. } = part.id;
        let resolved = self.resolved.get(&(run, coordinator));
        if resolved.is_some_and(|through| part.id.number <= *through) {
            return;
        }
        let found = self.incomplete.entry(part.id).or_default();
        found.insert(part.part);
        if found.len() >= usize::from(part.parts) {
            self.incomplete.remove(&part.id);
        }
    }

    /// All sets of a coordinator up to this number are known to be whole.
    pub fn resolved(&mut self, run: u64, coordinator: ShardId, through: u64) {
        let known = self.resolved.entry((run, coordinator)).or_default();
        *known = through.max(*known);
        let id = |number| WriteSetId {
            run,
            coordinator,
            number,
        };
        let whole: Vec<_> = self.incomplete.range(..=id(through)).map(|(id, _)| *id).collect();
        for id in whole.iter().filter(|whole| **whole >= id(0)) {
            self.incomplete.remove(id);
        }
    }

    /// Once all logs were read.
    pub fn is_whole(&self, id: WriteSetId) -> bool {
        !self.incomplete.contains_key(&id)
    }

    pub fn incomplete(&self) -> usize {
        self.incomplete.len()
    }

    /// The largest run that was met.
    pub fn last_run(&self) -> u64 {
        let incomplete = self.incomplete.last_key_value().map_or(0, |(id, _)| id.run);
        let resolved = self.resolved.last_key_value().map_or(0, |((run, _), _)| *run);
        incomplete.max(resolved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u64, part: u16) -> WriteSetPart {
        let id = WriteSetId {
            run: 7,
            coordinator: ShardId(1),
            number,
        };
        WriteSetPart { id, part, parts: 2 }
    }

    #[test]
    fn a_part_is_read_back() {
        let mut bytes = Vec::new();
        part(3, 1).encode(&mut bytes);
        assert_eq!(bytes.len(), PART_BYTES);
        bytes.extend_from_slice(b"rest");
        assert_eq!(
            WriteSetPart::decode(&bytes),
            Some((part(3, 1), b"rest".as_slice()))
        );
        assert_eq!(WriteSetPart::decode(&bytes[..PART_BYTES - 1]), None);
    }

    #[test]
    fn a_set_is_resolved_once_those_before_it_are() {
        let resolved = ResolvedWriteSets::new(7, 2);
        let mut numbers = WriteSetNumbers::new(ShardId(1), resolved.clone());
        let ids = [numbers.begin(), numbers.begin(), numbers.begin()];
        numbers.resolve(2);
        assert!(!ids.iter().any(|id| resolved.is_resolved(*id)));
        numbers.resolve(1);
        assert_eq!(ids.map(|id| resolved.is_resolved(id)), [true, true, false]);
        numbers.resolve(3);
        assert!(resolved.is_resolved(ids[2]));
        assert!(!resolved.is_resolved(numbers.begin()));
    }

    #[test]
    fn parts_wait_in_the_order_of_the_log() {
        let resolved = ResolvedWriteSets::new(7, 2);
        let mut numbers = WriteSetNumbers::new(ShardId(1), resolved.clone());
        let mut parts = UnresolvedParts::new(Some(resolved));
        let at = |offset| LogPosition { segment: 1, offset };
        assert_eq!(parts.first(), None);
        parts.push(at(10), numbers.begin());
        parts.push(at(20), numbers.begin());
        numbers.resolve(2);
        assert_eq!((parts.first(), parts.news().is_some()), (Some(at(10)), false));
        numbers.resolve(1);
        assert_eq!(parts.first(), None);
        assert_eq!(parts.news(), Some((7, [(ShardId(1), 2)].as_slice())));
        assert_eq!(parts.news(), None);
    }

    /// A node that stopped left its memtables to the log: a coordinator that had ended with all its sets resolved was taken for
    /// one that is missing, where a part of another's set stood before a part of its own.
    #[test]
    fn a_resolved_set_behind_another_coordinators_is_resolved() {
        let resolved = ResolvedWriteSets::new(7, 2);
        let [mut of_0, mut of_1] = [0, 1].map(|shard| WriteSetNumbers::new(ShardId(shard), resolved.clone()));
        let mut parts = UnresolvedParts::new(Some(resolved));
        let waiting = of_0.begin();
        parts.push(
            LogPosition {
                segment: 1,
                offset: 10,
            },
            waiting,
        );
        parts.push(
            LogPosition {
                segment: 1,
                offset: 20,
            },
            of_1.begin(),
        );
        of_1.resolve(1);
        assert_eq!(parts.ids(), [waiting]);
        of_0.resolve(1);
        assert!(parts.ids().is_empty());
    }

    #[test]
    fn a_census_knows_sets_by_their_parts_or_by_what_a_log_says() {
        let mut census = Census::default();
        census.part(part(1, 0));
        census.part(part(2, 0));
        census.part(part(2, 0));
        census.part(part(3, 1));
        assert_eq!(census.incomplete(), 3);
        census.part(part(3, 0));
        census.resolved(7, ShardId(1), 1);
        // Of another coordinator and another run.
        census.resolved(7, ShardId(2), 9);
        census.resolved(6, ShardId(1), 9);
        let whole = [1, 2, 3].map(|number| census.is_whole(part(number, 0).id));
        assert_eq!(whole, [true, false, true]);
        assert_eq!(census.last_run(), 7);
        // A log that is read later has a part of a set that was resolved.
        census.part(part(1, 1));
        assert!(census.is_whole(part(1, 0).id));
    }
}
