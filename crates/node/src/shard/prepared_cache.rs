//! The statements a shard has plans for.

use std::sync::Arc;

use hashbrown::HashMap;
use helenus_engine::error::PreparedId;
use helenus_engine::{Plan, Prepared};
use helenus_schema::{Schema, TableMetadata};

/// Plans by id: the same on every shard, because drivers execute on one connection what they prepared on another.
///
/// Bounded by [`PREPARED_STATEMENTS_MAX`]; beyond it the least recently used of a sample makes room, and its clients
/// are told to prepare it again.
#[derive(Default)]
pub struct PreparedCache {
    plans: HashMap<PreparedId, Entry, foldhash::fast::RandomState>,
    /// Counts look-ups; an entry's stamp is its last one.
    clock: u64,
}

struct Entry {
    prepared: Arc<Prepared>,
    last_used: u64,
}

/// Cassandra bounds its cache to 1/256 of the heap, some 10,000 statements at its default sizes. An application has
/// tens; one that puts values into the text of its statements has no use for any bound.
pub const PREPARED_STATEMENTS_MAX: usize = 16_384;

/// Entries looked at to find one to evict: the oldest of 16 is in the oldest quarter with 99% certainty.
const EVICTION_SAMPLE: usize = 16;

impl PreparedCache {
    #[inline]
    pub fn find(&mut self, id: &PreparedId) -> Option<&Arc<Prepared>> {
        self.clock += 1;
        let entry = self.plans.get_mut(id)?;
        entry.last_used = self.clock;
        Some(&entry.prepared)
    }

    pub fn insert(&mut self, prepared: Arc<Prepared>) {
        self.clock += 1;
        if self.plans.len() >= PREPARED_STATEMENTS_MAX && !self.plans.contains_key(&prepared.id) {
            let oldest = self
                .plans
                .iter()
                .take(EVICTION_SAMPLE)
                .min_by_key(|(_, entry)| entry.last_used);
            if let Some(id) = oldest.map(|(&id, _)| id) {
                self.plans.remove(&id);
            }
        }
        self.plans.insert(
            prepared.id,
            Entry {
                prepared,
                last_used: self.clock,
            },
        );
    }

    /// Forgets what was planned against tables or types that are not in `schema` as they were.
    pub fn retain_valid(&mut self, schema: &Schema) {
        self.plans
            .retain(|_, entry| is_valid(&entry.prepared.plan, schema));
    }

    pub fn len(&self) -> usize {
        self.plans.len()
    }
}

/// Whether the tables that a plan was made for are still the same.
fn is_valid(plan: &Plan, schema: &Schema) -> bool {
    let is_current = |table: &Arc<TableMetadata>| {
        schema
            .table(&table.keyspace, &table.name)
            .is_some_and(|current| Arc::ptr_eq(current, table))
    };
    match plan {
        Plan::Select(plan) => is_current(&plan.table),
        Plan::Modify(plan) => is_current(&plan.table),
        Plan::Batch(plan) => plan
            .statements
            .iter()
            .all(|statement| is_current(&statement.table)),
        Plan::Truncate(table) => is_current(table),
        Plan::Use(_) | Plan::Other(_) => true,
    }
}
