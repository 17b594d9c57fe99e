//! Writes to tables that have materialized views: what the views become is written with the base rows, all of it or nothing.
//!
//! The shard that owns the base partition reads the rows that a write touches and computes the difference
//! ([`helenus_engine::views`]). Where all of it is one shard's and in memory, that is one turn and one record of the log. Else
//! the write takes the partition's turn: whatever else is written to the partition waits until the views' shards have their
//! parts of the write set ([`crate::write_set`]). All that writes to such tables comes this way, conditional statements and
//! batches included ([decision 21](../../../docs/decisions/0021-materialized-views.md)).

mod at_once;
mod logged;
mod turn_queue;
pub(crate) mod turns;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use helenus_engine::functions::Clock;
use helenus_engine::views::{BaseViews, PointScratch, ViewsByTable};
use helenus_rows::update::PackedUpdate;
use helenus_schema::{Schema, TableId};
use helenus_types::Token;
use tokio::sync::Notify;

use self::turn_queue::TurnQueue;
use crate::written_partitions::WrittenPartition;

/// The tables with views, as this shard knows them, and who writes to them.
#[derive(Default)]
pub(crate) struct Views {
    by_table: RefCell<Rc<ViewsByTable>>,
    has_any: Cell<bool>,
    /// True while anybody has taken a partition.
    has_taken: Cell<bool>,
    /// Changes with the views.
    epoch: Cell<u64>,
    /// Partitions whose views are being computed and written in several steps, and those of transactions.
    turns: RefCell<TurnQueue>,
    /// Tables that nobody writes to while they are truncated.
    held: RefCell<HashSet<TableId>>,
    /// How often a table with views was begun to be truncated; the same on all shards once they have heard of it.
    truncations: RefCell<HashMap<TableId, u64>>,
    given_back: Notify,
    scratch: RefCell<ViewScratch>,
}

/// For writes of one row, so that they take nothing from the heap.
#[derive(Default)]
struct ViewScratch {
    point: PointScratch,
    /// Tokens of the changes in it.
    tokens: Vec<Token>,
}

impl Views {
    pub fn of_schema(schema: &Schema, now: Clock) -> Self {
        let views = Views::default();
        views.set_schema(schema, now);
        views
    }

    /// Views that cannot be planned were checked when they were made: a table with such takes no writes.
    pub fn set_schema(&self, schema: &Schema, now: Clock) {
        let before = self.by_table.borrow().clone();
        let after = BaseViews::of_schema(schema, &before, now);
        let is_same = before.len() == after.len()
            && after
                .iter()
                .all(|(table, views)| before.get(table).is_some_and(|known| Rc::ptr_eq(known, views)));
        if is_same {
            return;
        }
        self.has_any.set(!after.is_empty());
        self.epoch.set(self.epoch.get() + 1);
        self.truncations
            .borrow_mut()
            .retain(|table, _| after.contains_key(table));
        *self.by_table.borrow_mut() = Rc::new(after);
    }

    /// Returns whether a write may have to take turns.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.has_any.get() || self.has_taken.get()
    }

    pub fn of_table(&self, table: TableId) -> Option<Rc<BaseViews>> {
        self.by_table.borrow().get(&table).cloned()
    }

    /// Returns whether a write takes its partition's turn: it is of a table with views, or somebody else has the turn.
    #[inline]
    pub fn concern(&self, partition: WrittenPartition) -> bool {
        self.has_any() && (self.has_table(partition.0) || self.is_taken(partition))
    }

    pub fn concern_any_of<'u>(&self, mut updates: impl Iterator<Item = &'u PackedUpdate>) -> bool {
        self.has_any() && updates.any(|update| self.concern(update.partition()))
    }

    pub fn has_one_of_tables(&self, partitions: &[WrittenPartition]) -> bool {
        partitions.iter().any(|(table, _)| self.has_table(*table))
    }

    fn has_table(&self, table: TableId) -> bool {
        self.by_table.borrow().contains_key(&table)
    }

    fn is_taken(&self, (table, token): WrittenPartition) -> bool {
        self.turns.borrow().is_taken((table, token)) || self.is_held(table)
    }

    /// Returns whether nobody writes to the table while it is truncated.
    fn is_held(&self, table: TableId) -> bool {
        let held = self.held.borrow();
        !held.is_empty() && held.contains(&table)
    }

    fn are_held(&self, partitions: &[WrittenPartition]) -> bool {
        !self.held.borrow().is_empty() && partitions.iter().any(|(table, _)| self.is_held(*table))
    }

    /// Returns whether anybody has a partition of the table.
    pub fn is_written_to(&self, table: TableId) -> bool {
        self.turns.borrow().taken().any(|(taken, _)| *taken == table)
    }

    pub fn hold(&self, table: TableId) {
        self.held.borrow_mut().insert(table);
    }

    pub fn note_truncation(&self, table: TableId, number: Option<u64>) {
        if let Some(number) = number {
            let mut truncations = self.truncations.borrow_mut();
            let known = truncations.entry(table).or_default();
            *known = number.max(*known);
        }
    }

    /// Returns the number of the table's truncations. What is built of a view under another number than it was begun with
    /// may be gone, or be about to go.
    pub fn truncations_of(&self, table: TableId) -> u64 {
        self.truncations.borrow().get(&table).copied().unwrap_or_default()
    }

    pub fn let_go(&self, table: TableId) {
        self.held.borrow_mut().remove(&table);
        self.given_back.notify_waiters();
    }

    /// Waits until somebody has given partitions back.
    pub async fn given_back(&self) {
        self.given_back.notified().await;
    }
}
