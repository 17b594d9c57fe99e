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

use helenus_engine::CqlError;
use helenus_schema::TableId;
use helenus_storage::commitlog::{ResolvedWriteSets, WriteSetId, WriteSetNumbers, WriteSetPart};
use helenus_types::{ShardId, Token};
use tokio::sync::{Notify, oneshot};

use crate::written_partitions::partition_of;

/// The write sets that this shard coordinates.
pub(crate) struct WriteSets {
    numbers: RefCell<WriteSetNumbers>,
    /// By number. As many as batches are in flight, and those that wait longer for a log than their clients do.
    under_way: RefCell<HashMap<u64, UnderWay>>,
    resolved: Notify,
    /// Of all coordinators.
    resolved_sets: Arc<ResolvedWriteSets>,
    /// What sets that were not resolved when it was last looked at have changed on this shard. Bounded by the sets in flight:
    /// it is gone through whenever it has doubled.
    changed: RefCell<ChangedPartitions>,
}

#[derive(Default)]
struct ChangedPartitions {
    by_set: Vec<(WriteSetId, Vec<Token>)>,
    /// How long the list may get until those that are resolved are taken out.
    length_max: usize,
}

/// So many are not worth looking through for resolved ones.
const CHANGED_MIN: usize = 64;

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
    pub updates: Arc<Vec<Vec<u8>>>,
    /// Who writes it has the turns of its partitions.
    pub has_turns: bool,
}

/// Tables that every shard of an atomic write must know. Others are views, computed by a shard that knows them: one that does not
/// has heard of their end already, or not yet of their beginning, after which they are emptied and built.
#[derive(Clone)]
pub(crate) enum RequiredTables {
    All,
    Only(Arc<[TableId]>),
}

impl RequiredTables {
    pub fn of(updates: &[Vec<u8>]) -> Self {
        let tables = updates.iter().filter_map(|update| partition_of(update));
        RequiredTables::Only(tables.map(|(table, _)| table).collect())
    }

    fn has(&self, table: TableId) -> bool {
        match self {
            RequiredTables::All => true,
            RequiredTables::Only(tables) => tables.contains(&table),
        }
    }
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
    fn note_changed(&self, id: WriteSetId, tokens: Vec<Token>) {
        let changed = &mut *self.changed.borrow_mut();
        if changed.by_set.len() >= changed.length_max {
            changed
                .by_set
                .retain(|(id, _)| !self.resolved_sets.is_resolved(*id));
            changed.length_max = (2 * changed.by_set.len()).max(CHANGED_MIN);
        }
        changed.by_set.push((id, tokens));
    }

    /// The sets that have changed one of these partitions and that a crash may still undo.
    pub fn unresolved_of(&self, tokens: &[Token]) -> Vec<WriteSetId> {
        let changed = self.changed.borrow();
        let touches = |of_set: &[Token]| of_set.iter().any(|token| tokens.contains(token));
        let unresolved = changed
            .by_set
            .iter()
            .filter(|(id, of_set)| touches(of_set) && !self.resolved_sets.is_resolved(*id));
        unresolved.map(|(id, _)| *id).collect()
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
