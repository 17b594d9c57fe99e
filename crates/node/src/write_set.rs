//! Atomic batches: what a LOGGED batch writes to several partitions is there whole or not at all, also after a crash.
//!
//! Updates of one shard are one record of its log. Of several shards, the one that coordinates the batch first has all
//! owners promise to take their share ([`shares`]): they look at deadline, rate limits, memory and log, so
//! that a refusal leaves nothing behind. Then each takes its share, whatever has happened since;
//! and says when that is durable, which resolves the batch ([`helenus_storage::commitlog::WriteSetNumbers`]). Other
//! clients may see one share before another.
//!
//! What a batch was refused for is told; once its shares are on their way its client learns success, or a timeout.

mod shares;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::{FixedState, RandomState};
use helenus_engine::CqlError;
use helenus_rows::update::PackedUpdate;
use helenus_schema::TableId;
use helenus_storage::commitlog::{ResolvedWriteSets, WriteSetId, WriteSetNumbers, WriteSetPart};
use helenus_types::{ShardId, Token};
use tokio::sync::{Notify, oneshot};

/// The write sets that this shard coordinates.
pub(crate) struct WriteSets {
    numbers: RefCell<WriteSetNumbers>,
    /// By number. As many as batches are in flight, and those that wait longer for a log than their clients do.
    under_way: RefCell<HashMap<u64, UnderWay, FixedState>>,
    resolved: Notify,
    /// Resolved sets of all coordinators.
    resolved_sets: Arc<ResolvedWriteSets>,
    /// Partitions of this shard changed by sets that were not resolved at the last look. Bounded by the partitions of the
    /// sets in flight, and of those that wait for a log: it is gone through whenever it has doubled.
    changed: RefCell<ChangedPartitions>,
}

/// Found by partition: where logs are synced after seconds, thousands of sets may be on their way.
#[derive(Default)]
struct ChangedPartitions {
    by_token: HashMap<Token, LastSets, RandomState>,
    /// How many there may be until those that are resolved are taken out.
    count_max: usize,
}

/// Last set of each coordinator that has changed a partition; a coordinator's sets are resolved in their order.
struct LastSets {
    one: WriteSetId,
    /// Last sets of the other coordinators.
    others: Vec<WriteSetId>,
}

/// So many are not worth looking through for resolved ones.
const CHANGED_MIN: usize = 64;

impl LastSets {
    fn iter(&self) -> impl Iterator<Item = &WriteSetId> {
        std::iter::once(&self.one).chain(&self.others)
    }

    fn note(&mut self, id: WriteSetId) {
        let mut known = std::iter::once(&mut self.one).chain(&mut self.others);
        match known.find(|known| known.coordinator == id.coordinator) {
            Some(known) => *known = id.max(*known),
            None => self.others.push(id),
        }
    }
}

struct UnderWay {
    /// Shares whose owners have not acknowledged them yet.
    shares_left: usize,
    /// Parts that are not durable yet.
    parts_left: usize,
    first_error: Result<(), CqlError>,
    acknowledged: Option<oneshot::Sender<Result<(), CqlError>>>,
}

/// A shard's share of a write set, on its way to it.
pub(crate) struct Share {
    coordinator: ShardId,
    number: u64,
    /// `None` where no log takes any of it.
    part: Option<WriteSetPart>,
    pub updates: Arc<Vec<PackedUpdate>>,
    /// True if the writer has the turns of its partitions.
    pub has_turns: bool,
}

/// Tables that every shard of an atomic write must know. Others are views, computed by a shard that knows them: one that does not
/// has heard of their end already, or not yet of their beginning, after which they are emptied and built.
#[derive(Clone)]
pub(crate) struct RequiredTables(Arc<[TableId]>);

impl RequiredTables {
    /// Returns no tables, for a write that is all of views.
    pub fn none() -> Self {
        RequiredTables(Arc::default())
    }

    pub fn one(table: TableId) -> Self {
        RequiredTables([table].into())
    }

    pub fn of(updates: &[PackedUpdate]) -> Self {
        let partitions = updates.iter().map(PackedUpdate::partition);
        RequiredTables(partitions.map(|(table, _)| table).collect())
    }

    fn has(&self, table: TableId) -> bool {
        self.0.contains(&table)
    }
}

/// Terms of a write whose writer has the turns of the partitions, but for those of views.
#[derive(Clone)]
pub(crate) struct InTurn {
    pub required: RequiredTables,
    /// Exclusive lower bound of the timestamps that the owners give out from now on.
    pub ballot_us: Option<i64>,
}

impl InTurn {
    /// With timestamps that the owners of the partitions have given out themselves.
    pub fn new(required: RequiredTables) -> Self {
        InTurn {
            required,
            ballot_us: None,
        }
    }
}

/// How a write set goes about turns.
pub(crate) enum Turns {
    /// It waits while others have them. Its coordinator knows the views of this epoch.
    Awaited {
        views_epoch: u64,
    },
    Had(InTurn),
}

/// Finds the set that a part belongs to, once the part is durable.
#[derive(Clone, Copy, Debug)]
pub struct PartOfSet {
    coordinator: ShardId,
    number: u64,
    /// The client waits for this, too.
    acknowledges: bool,
}

impl WriteSets {
    pub fn new(coordinator: ShardId, resolved: Arc<ResolvedWriteSets>) -> Self {
        WriteSets {
            numbers: RefCell::new(WriteSetNumbers::new(coordinator, resolved.clone())),
            under_way: RefCell::default(),
            resolved: Notify::new(),
            resolved_sets: resolved,
            changed: RefCell::default(),
        }
    }

    /// A part of a set was applied here.
    fn note_changed(&self, id: WriteSetId, tokens: impl Iterator<Item = Token>) {
        let ChangedPartitions { by_token, count_max } = &mut *self.changed.borrow_mut();
        if by_token.len() >= *count_max {
            by_token.retain(|_, sets| sets.iter().any(|id| !self.resolved_sets.is_resolved(*id)));
            *count_max = (2 * by_token.len()).max(CHANGED_MIN);
        }
        for token in tokens {
            let one = LastSets {
                one: id,
                others: Vec::new(),
            };
            by_token
                .entry(token)
                .and_modify(|known| known.note(id))
                .or_insert(one);
        }
    }

    /// Sets that have changed one of these partitions and that a crash may still undo: those that are resolved after all others
    /// of the same coordinator.
    pub fn unresolved_of(&self, tokens: &[Token]) -> Vec<WriteSetId> {
        let ChangedPartitions { by_token, .. } = &*self.changed.borrow();
        if by_token.is_empty() {
            return Vec::new();
        }
        let sets = tokens.iter().filter_map(|token| by_token.get(token));
        let unresolved = sets
            .flat_map(LastSets::iter)
            .filter(|id| !self.resolved_sets.is_resolved(**id));
        unresolved.copied().collect()
    }

    pub fn are_resolved(&self) -> bool {
        self.under_way.borrow().is_empty()
    }

    /// An owner has acknowledged its share, or told why it could not.
    fn share_acknowledged(&self, number: u64, result: Result<(), CqlError>) {
        let mut under_way = self.under_way.borrow_mut();
        let Some(set) = under_way.get_mut(&number) else {
            return;
        };
        set.shares_left = set.shares_left.saturating_sub(1);
        if set.first_error.is_ok() {
            set.first_error = result;
        }
        if set.shares_left == 0
            && let Some(acknowledged) = set.acknowledged.take()
        {
            let result = std::mem::replace(&mut set.first_error, Ok(()));
            // Its client may have been told that it is late.
            let _gone = acknowledged.send(result);
        }
        drop(under_way);
        self.resolve_if_done(number);
    }

    /// A part of the set is durable.
    fn part_durable(&self, number: u64) {
        if let Some(set) = self.under_way.borrow_mut().get_mut(&number) {
            set.parts_left = set.parts_left.saturating_sub(1);
        }
        self.resolve_if_done(number);
    }

    fn resolve_if_done(&self, number: u64) {
        let mut under_way = self.under_way.borrow_mut();
        if under_way
            .get(&number)
            .is_some_and(|set| set.parts_left == 0 && set.shares_left == 0)
        {
            under_way.remove(&number);
            self.numbers.borrow_mut().resolve(number);
            self.resolved.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sets_have_changed_is_found_by_partition_until_they_are_resolved() {
        let resolved = ResolvedWriteSets::new(7, 2);
        let sets = WriteSets::new(ShardId(0), resolved.clone());
        let mut of_other = WriteSetNumbers::new(ShardId(1), resolved);
        let (first, second) = {
            let mut own = sets.numbers.borrow_mut();
            (own.begin(), own.begin())
        };
        let other = of_other.begin();
        let [a, b, c] = [1, 2, 3].map(Token);
        sets.note_changed(first, [a, b].into_iter());
        sets.note_changed(other, [b].into_iter());
        sets.note_changed(second, [b].into_iter());
        // Before `first` of the same coordinator nothing else is resolved.
        sets.note_changed(first, [b].into_iter());
        assert_eq!(sets.unresolved_of(&[a]), [first]);
        assert_eq!(sets.unresolved_of(&[b]), [second, other]);
        assert_eq!(sets.unresolved_of(&[c]), []);
        sets.numbers.borrow_mut().resolve(second.number);
        assert_eq!(sets.unresolved_of(&[a, b]), [first, second, other]);
        sets.numbers.borrow_mut().resolve(first.number);
        assert_eq!(sets.unresolved_of(&[a, b]), [other]);
        of_other.resolve(other.number);
        assert_eq!(sets.unresolved_of(&[a, b, c]), []);
    }

    #[test]
    fn of_sets_that_are_resolved_nothing_is_kept_for_long() {
        let sets = WriteSets::new(ShardId(0), ResolvedWriteSets::new(7, 1));
        for token in 0..10_000 {
            let id = sets.numbers.borrow_mut().begin();
            sets.note_changed(id, [Token(token)].into_iter());
            sets.numbers.borrow_mut().resolve(id.number);
        }
        assert!(sets.changed.borrow().by_token.len() <= CHANGED_MIN);
    }
}
