//! Counters of one shard. Plain integers that only their shard touches.

use std::cell::Cell;
use std::sync::Arc;

use helenus_protocol::ErrorCode;
use helenus_sstable::ReadCost;
use helenus_storage::read::ReadStatistics;
use helenus_storage::row_cache::RowCacheCounts;
use helenus_vfs::Clock;

use super::latencies::Latencies;
use super::request_kind::RequestKind;
use crate::session::RequestContext;
use crate::traced_reads::ReadCounts;

pub(crate) struct ShardMetrics {
    pub(super) requests: [Cell<u64>; RequestKind::NAMES.len()],
    pub(super) latencies: Latencies,
    pub(super) errors: [Cell<u64>; ErrorCode::ALL.len()],
    pub(super) prepared_executed: Cell<u64>,
    pub(super) texts_executed: Cell<u64>,
    pub(super) forwarded: Cell<u64>,
    pub(super) rows_read: Cell<u64>,
    pub(super) tombstones_read: Cell<u64>,
    pub(super) index_reads: Cell<u64>,
    pub(super) expired_rows_deleted: Cell<u64>,
    pub(super) read_cost: Cell<ReadCost>,
    sstables_opened: Cell<u64>,
    pub(super) read_suspensions: Cell<u64>,
    pub(super) selects_at_once: Cell<u64>,
}

impl ShardMetrics {
    /// Latencies end on `clock`.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Self {
        ShardMetrics {
            requests: Default::default(),
            latencies: Latencies::new(clock),
            errors: Default::default(),
            prepared_executed: Cell::default(),
            texts_executed: Cell::default(),
            forwarded: Cell::default(),
            rows_read: Cell::default(),
            tombstones_read: Cell::default(),
            index_reads: Cell::default(),
            expired_rows_deleted: Cell::default(),
            read_cost: Cell::default(),
            sstables_opened: Cell::default(),
            read_suspensions: Cell::default(),
            selects_at_once: Cell::default(),
        }
    }

    #[inline]
    pub(crate) fn count_request(&self, kind: RequestKind, request: &RequestContext<'_>) {
        add(&self.requests[kind as usize], 1);
        self.latencies.pass(kind, request);
    }

    /// One that was counted was put back, and will be counted when it comes again.
    pub(crate) fn forget_request(&self, kind: RequestKind) {
        let count = &self.requests[kind as usize];
        count.set(count.get().saturating_sub(1));
    }

    pub fn count_error(&self, code: ErrorCode) {
        if let Some(index) = ErrorCode::ALL.iter().position(|&known| known == code) {
            add(&self.errors[index], 1);
        }
    }

    /// A prepared statement is executed.
    pub(crate) fn count_prepared(&self) {
        add(&self.prepared_executed, 1);
    }

    /// A statement that came as text is executed.
    pub(crate) fn count_text(&self) {
        add(&self.texts_executed, 1);
    }

    pub(crate) fn count_forwarded(&self) {
        add(&self.forwarded, 1);
    }

    pub fn count_read(&self, statistics: &ReadStatistics) {
        add(&self.rows_read, statistics.rows_live);
        add(&self.tombstones_read, statistics.tombstones);
        add(&self.index_reads, u64::from(statistics.by_index));
        // Of what was in a memtable there is nothing to add.
        if statistics.cost != ReadCost::default() {
            self.add_cost(statistics);
        }
    }

    /// Counts so far, with those of the row cache.
    pub(crate) fn read_counts(&self, row_cache: RowCacheCounts) -> ReadCounts {
        let cost = self.read_cost.get();
        ReadCounts([
            self.rows_read.get(),
            self.tombstones_read.get(),
            self.index_reads.get(),
            self.sstables_opened.get(),
            cost.reads,
            cost.read_bytes,
            cost.index_hits,
            cost.index_misses,
            cost.cache_hits,
            cost.cache_misses,
            row_cache.hits,
            row_cache.misses,
        ])
    }

    pub fn count_expired_rows(&self, deleted: u64) {
        add(&self.expired_rows_deleted, deleted);
    }

    #[inline(never)]
    fn add_cost(&self, of_read: &ReadStatistics) {
        let mut cost = self.read_cost.get();
        cost.add(of_read.cost);
        self.read_cost.set(cost);
        add(&self.sstables_opened, u64::from(of_read.sstables_touched));
    }

    pub(crate) fn count_select_at_once(&self) {
        add(&self.selects_at_once, 1);
    }

    pub(crate) fn count_suspension(&self) {
        add(&self.read_suspensions, 1);
    }
}

fn add(counter: &Cell<u64>, amount: u64) {
    counter.set(counter.get() + amount);
}
