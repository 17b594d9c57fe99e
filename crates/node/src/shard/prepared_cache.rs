//! The statements a shard has plans for.

use std::sync::Arc;

use hashbrown::HashMap;
use helenus_engine::error::PreparedId;
use helenus_engine::{CqlError, Plan, Prepared};
use helenus_schema::{Schema, TableMetadata};

/// Plans by id: the same on every shard, because drivers execute on one connection what they prepared on another.
///
/// Bounded by [`PREPARED_STATEMENTS_MAX`] and in bytes; beyond it the least recently used of a sample makes room, and its
/// clients are told to prepare it again.
pub struct PreparedCache {
    plans: HashMap<PreparedId, Entry, foldhash::fast::RandomState>,
    /// The ids of all plans, in no order: a sample can be drawn of them.
    places: Vec<PreparedId>,
    bytes: usize,
    bytes_max: usize,
    /// Counts look-ups; an entry's stamp is its last one.
    clock: u64,
    /// Statements that made room for others, ever.
    evicted: u64,
}

struct Entry {
    prepared: Arc<Prepared>,
    /// Its id's among the places.
    place: usize,
    bytes: usize,
    last_used: u64,
    /// `None` until an execution was measured.
    cost: Option<LearnedCost>,
    /// Executions that missed all caches while the disk had much to do, in thousandths of all.
    misses_permille: u32,
}

/// Cost of a statement that is not answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedCost {
    /// Time of its shard, smoothed.
    pub cost_ns: u64,
    /// The last one was found to be long when it was tried at once; else it is known from its plan and values.
    pub was_tried: bool,
}

/// Some 10,000 statements fit Cassandra's cache at its default sizes. An application has tens; one that puts values into
/// the text of its statements has no use for any bound.
pub const PREPARED_STATEMENTS_MAX: usize = 16_384;

/// Characters of a refused statement that the client is told, as in Cassandra.
const QUOTED_CHARACTERS: usize = 200;

/// Entries looked at to find one to evict: the oldest of 16 is in the oldest quarter with 99% certainty.
const EVICTION_SAMPLE: usize = 16;

/// Divisor of the node's memory for the part that plans may take, as in Cassandra; shards share them.
const MEMORY_SHARE: u64 = 256;

/// Cassandra's least, in bytes.
const CACHE_BYTES_MIN: u64 = 10 << 20;

/// Divisor of the cache for the part that one plan may take: a plan that others have to make room for is no use for long.
const STATEMENT_SHARE: usize = 4;

/// Executions that a statement's cost is known from: a change is seen soon, and one that found nothing or a stolen
/// processor says little.
const COSTS_SMOOTHED: u64 = 8;

/// How often a statement misses is known from as many executions.
const MISSES_SMOOTHED: u32 = 16;

impl PreparedCache {
    pub fn of_memory(memory_bytes: u64) -> Self {
        let bytes_max = (memory_bytes / MEMORY_SHARE).max(CACHE_BYTES_MIN);
        PreparedCache {
            plans: HashMap::default(),
            places: Vec::new(),
            bytes: 0,
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            clock: 0,
            evicted: 0,
        }
    }

    /// Returns the bytes of a statement's plan; an error if that is more than any may take.
    pub fn weigh(&self, prepared: &Prepared) -> Result<usize, CqlError> {
        let (bytes, bytes_max) = (prepared.heap_bytes(), self.bytes_max / STATEMENT_SHARE);
        if bytes <= bytes_max {
            return Ok(bytes);
        }
        let beginning: String = prepared.query.chars().take(QUOTED_CHARACTERS).collect();
        Err(CqlError::invalid(format_args!(
            "Prepared statement of size {bytes} bytes is larger than allowed maximum of {bytes_max} bytes: {beginning}..."
        )))
    }

    #[inline]
    pub fn find(&mut self, id: &PreparedId) -> Option<&Arc<Prepared>> {
        self.clock += 1;
        let entry = self.plans.get_mut(id)?;
        entry.last_used = self.clock;
        Some(&entry.prepared)
    }

    /// `bytes` is what [`PreparedCache::weigh`] said.
    pub fn insert(&mut self, prepared: Arc<Prepared>, bytes: usize) {
        self.clock += 1;
        self.remove(&prepared.id);
        while self.plans.len() >= PREPARED_STATEMENTS_MAX || self.bytes + bytes > self.bytes_max {
            let Some(id) = self.oldest_of_sample() else {
                break;
            };
            self.remove(&id);
            self.evicted += 1;
        }
        self.bytes += bytes;
        let place = self.places.len();
        self.places.push(prepared.id);
        self.plans.insert(
            prepared.id,
            Entry {
                prepared,
                place,
                bytes,
                last_used: self.clock,
                cost: None,
                misses_permille: 0,
            },
        );
    }

    /// Draws a sample, another one each time: of the same places again and again only what is always used would be left, and a batch of as
    /// many statements would make room for itself without end.
    fn oldest_of_sample(&self) -> Option<PreparedId> {
        let drawn = self.clock.wrapping_add(self.evicted);
        let sample = (0..EVICTION_SAMPLE as u64).filter_map(|number| {
            let number = drawn.wrapping_mul(EVICTION_SAMPLE as u64).wrapping_add(number);
            let place = scattered(number) % self.places.len().max(1) as u64;
            let id = self.places.get(place as usize)?;
            Some((self.plans.get(id)?.last_used, *id))
        });
        sample.min_by_key(|(last_used, _)| *last_used).map(|(_, id)| id)
    }

    /// Statements that made room for others, ever.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Cost of an execution, where any was measured.
    pub fn learned_cost(&self, id: &PreparedId) -> Option<LearnedCost> {
        self.plans.get(id)?.cost
    }

    /// One execution took so much.
    pub fn learn_cost(&mut self, id: &PreparedId, cost: LearnedCost) {
        if let Some(entry) = self.plans.get_mut(id) {
            let known_ns = entry.cost.map_or(cost.cost_ns, |known| known.cost_ns);
            let cost_ns = (known_ns * (COSTS_SMOOTHED - 1) + cost.cost_ns).div_ceil(COSTS_SMOOTHED);
            entry.cost = Some(LearnedCost { cost_ns, ..cost });
        }
    }

    pub fn misses_permille(&self, id: &PreparedId) -> u32 {
        self.plans.get(id).map_or(0, |entry| entry.misses_permille)
    }

    /// An execution has missed all caches, or not.
    pub fn learn_miss(&mut self, id: &PreparedId, has_missed: bool) {
        if let Some(entry) = self.plans.get_mut(id) {
            let seen = if has_missed { 1_000 } else { 0 };
            entry.misses_permille =
                (entry.misses_permille * (MISSES_SMOOTHED - 1) + seen).div_ceil(MISSES_SMOOTHED);
        }
    }

    fn remove(&mut self, id: &PreparedId) {
        let Some(removed) = self.plans.remove(id) else {
            return;
        };
        self.bytes -= removed.bytes;
        self.places.swap_remove(removed.place);
        let moved = self.places.get(removed.place);
        if let Some(moved) = moved.and_then(|id| self.plans.get_mut(id)) {
            moved.place = removed.place;
        }
    }

    /// Forgets what was planned against tables or types that are not in `schema` as they were.
    pub fn retain_valid(&mut self, schema: &Schema) {
        let bytes = &mut self.bytes;
        self.plans.retain(|_, entry| {
            let is_valid = is_valid(&entry.prepared.plan, schema);
            *bytes -= if is_valid { 0 } else { entry.bytes };
            is_valid
        });
        self.places.clear();
        for (id, entry) in &mut self.plans {
            entry.place = self.places.len();
            self.places.push(*id);
        }
    }

    pub fn len(&self) -> usize {
        self.plans.len()
    }
}

/// Numbers one after the other to numbers all over (the last steps of SplitMix64, Steele, Lea and Flood 2014).
fn scattered(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Returns whether the tables that a plan was made for are still the same.
pub fn is_valid(plan: &Plan, schema: &Schema) -> bool {
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
        Plan::Transaction(plan) => plan.tables().all(is_current),
        Plan::Truncate(table) => is_current(table),
        Plan::Prune(plan) => is_current(plan.view()),
        Plan::Use(_) | Plan::Schema(_) | Plan::Role(_) | Plan::Describe(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use helenus_engine::functions::Clock;
    use helenus_engine::prepare::prepare;

    use super::*;

    /// Bytes of each plan: some 300 fit.
    const BYTES: usize = (CACHE_BYTES_MIN / 300) as usize;

    fn prepared(number: u64) -> Arc<Prepared> {
        let schema = Arc::new(Schema::default());
        let text = format!("DROP KEYSPACE k{number}");
        let prepared = prepare(&schema, None, Clock::default(), &text).unwrap();
        Arc::new(prepared)
    }

    /// Executes a batch of these as clients do: what is not known any more is prepared again, one at a time. How many were.
    fn prepared_again(cache: &mut PreparedCache, batch: &[Arc<Prepared>]) -> usize {
        for again in 0..1_000 {
            let Some(missing) = batch.iter().find(|member| cache.find(&member.id).is_none()) else {
                return again;
            };
            cache.insert(missing.clone(), BYTES);
        }
        panic!("a batch that is prepared again without end");
    }

    /// Symptom: Temporal's conflict tests never ended, and took all memory: a batch of twenty statements was answered with UNPREPARED for each of
    /// them in turn. One of the same sixteen places had made room each time, until nothing was left in those but what is always used.
    #[test]
    fn what_is_always_used_does_not_make_room_for_itself() {
        let mut cache = PreparedCache::of_memory(0);
        let batch: Vec<Arc<Prepared>> = (0..20).map(prepared).collect();
        let mut again = 0;
        for number in 0..20_000 {
            cache.insert(prepared(1_000 + number), BYTES);
            if number % 10 == 0 {
                again += prepared_again(&mut cache, &batch);
            }
        }
        assert!(again < 100, "{again} times in 2,000");
        assert!(cache.bytes <= cache.bytes_max && cache.len() == cache.places.len());
    }
}
