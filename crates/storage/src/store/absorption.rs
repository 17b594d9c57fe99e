//! Flushed memtables on their way into the row cache.
//!
//! What is cached is the state of all SSTables, so it has to learn what a flush has added to them before the memtable
//! goes. With millions of rows in it that takes longer than a shard may stand still: the memtable stays among those
//! that reads merge, which changes nothing since it is in an SSTable too, and is taken over in steps.

use std::sync::Arc;

use helenus_schema::TableId;
use helenus_types::Token;

use super::shard::ShardStore;
use super::table::Absorption;
use crate::memtable::Memtable;
use crate::row_cache::{AbsorbedTo, RowCacheCounts};
use helenus_sstable::{PageLevel, ReadCost};

/// Places of the cache that one step looks through for what dropped tables have left: some microseconds.
const CLEARED_SLOTS_PER_STEP: u32 = 512;

impl ShardStore {
    /// Does some of the row cache's own work, about 100 microseconds; whether there is more to do.
    pub fn tend_row_cache(&mut self) -> bool {
        if let Some(&id) = self.absorbing.front()
            && self.absorb_step(id)
        {
            self.absorbing.pop_front();
        }
        self.borrow_from_memtables();
        let has_dropped = self.row_cache.clear_dropped(CLEARED_SLOTS_PER_STEP);
        has_dropped || !self.absorbing.is_empty()
    }

    /// Bytes that the row cache holds.
    pub fn row_cache_bytes(&self) -> usize {
        self.row_cache.bytes()
    }

    /// Bytes that a level of the page cache holds.
    pub fn page_cache_bytes(&self, level: PageLevel) -> usize {
        self.cache.bytes(level)
    }

    pub fn row_cache_counts(&self) -> RowCacheCounts {
        self.row_cache.counts()
    }

    /// Forgets all rows and pages that could be read again: for measurements that begin cold.
    pub fn clear_caches(&mut self) {
        self.row_cache.clear();
        self.cache.clear();
    }

    /// Returns the cost of reads so far.
    pub fn read_cost(&self) -> ReadCost {
        self.cache.cost()
    }

    /// Begins with a memtable that is an SSTable now.
    pub(super) fn absorb(&mut self, id: TableId, memtable: &Arc<Memtable>) {
        if let Some(table) = self.tables.get_mut(&id) {
            table.absorbing.push(Absorption {
                memtable: Arc::clone(memtable),
                from: Token::MINIMUM,
            });
            self.absorbing.push_back(id);
            self.tend_row_cache();
        }
    }

    /// To the end with a table of which nothing is cached.
    pub(super) fn absorb_all(&mut self, id: TableId) {
        let count = self.absorbing.len();
        self.absorbing.retain(|other| *other != id);
        for _ in self.absorbing.len()..count {
            let is_done = self.absorb_step(id);
            debug_assert!(is_done, "something is cached");
        }
    }

    /// Goes on with the oldest memtable of a table; whether it is done.
    fn absorb_step(&mut self, id: TableId) -> bool {
        let Some(table) = self.tables.get_mut(&id) else {
            return true;
        };
        let Some(oldest) = table.absorbing.first_mut() else {
            return true;
        };
        let layout = Arc::clone(&table.layout);
        match self.row_cache.absorb(&layout, &oldest.memtable, oldest.from) {
            AbsorbedTo::Token(from) => {
                oldest.from = from;
                false
            }
            AbsorbedTo::End => {
                let memtable = table.absorbing.remove(0).memtable;
                self.schedule.release(&layout, [memtable]);
                true
            }
        }
    }
}
