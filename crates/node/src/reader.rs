//! Resources of a shard's reads: its store, its caches of plans, and the queues of what is not answered at once.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::execute::Scratch;
use helenus_engine::{RowStore, TombstoneLimits};
use helenus_schema::{IndexId, TableId};
use helenus_sstable::error::ReadError;
use helenus_storage::ShardStore;
use helenus_storage::read::{ReadCommand, ReadSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_storage::store::{FilterGathering, IndexStatus};
use helenus_storage::vectors::{NearestRequest, NearestSearch, NextNearest};

use crate::context::ShardContext;
use crate::disk_reads::DiskReads;
use crate::long_reads::LongReads;
use crate::shard::prepared_cache::PreparedCache;
use crate::traced_reads::{TracedReads, counted};

/// Bytes of a read that goes the general way before it has a row: the futures of both sides, and the plan's state.
pub(crate) const READ_TASK_BYTES: usize = 16 * 1024;

/// Reads of one partition that wait for the disk ([`crate::disk_reads`], [`crate::suspended_read`]), and those that take their
/// turns ([`crate::long_reads`]).
pub(crate) struct Reader {
    pub context: Rc<ShardContext>,
    pub store: Rc<RefCell<ShardStore>>,
    pub prepared: Rc<RefCell<PreparedCache>>,
    pub scratch: Rc<RefCell<Scratch>>,
    pub disk_reads: RefCell<DiskReads>,
    pub long_reads: LongReads,
    /// Reads wait until the disk has less to do.
    pub disk_is_busy: Cell<bool>,
}

impl Reader {
    pub fn new(
        context: Rc<ShardContext>,
        store: Rc<RefCell<ShardStore>>,
        prepared: Rc<RefCell<PreparedCache>>,
        scratch: Rc<RefCell<Scratch>>,
        disk_reads: DiskReads,
    ) -> Self {
        Reader {
            context,
            store,
            prepared,
            scratch,
            disk_reads: RefCell::new(disk_reads),
            long_reads: LongReads::default(),
            disk_is_busy: Cell::new(false),
        }
    }

    /// Runs a step that is made for a request, and counts what it reads if the request is traced.
    #[inline]
    pub fn counted<T>(&self, reads: Option<&Arc<TracedReads>>, step: impl FnOnce() -> T) -> T {
        let counts = || {
            let row_cache = self.store.borrow().row_cache_counts();
            self.context.metrics.read_counts(row_cache)
        };
        counted(reads, counts, step)
    }

    #[inline]
    pub fn counting_store(&self) -> CountingStore<'_> {
        CountingStore {
            store: &self.store,
            context: &self.context,
        }
    }
}

/// A shard's store that counts what it reads.
pub(crate) struct CountingStore<'a> {
    store: &'a RefCell<ShardStore>,
    context: &'a ShardContext,
}

impl RowStore for CountingStore<'_> {
    #[inline]
    fn read_step<S: ReadSink>(
        &mut self,
        command: &ReadCommand<'_>,
        state: &mut ReadState,
        sink: &mut S,
    ) -> Result<ReadProgress, ReadError> {
        let progress = self.store.borrow_mut().read_step(command, state, sink)?;
        match progress {
            ReadProgress::Done => self.context.metrics.count_read(&state.statistics),
            ReadProgress::Yield | ReadProgress::Absent(_) => self.context.metrics.count_suspension(),
        }
        Ok(progress)
    }

    fn is_index_ready(&mut self, table: TableId, index: IndexId) -> bool {
        let status = self.store.borrow_mut().index_status(table, index);
        // One that is gone is noticed when the statement is planned again.
        status != Some(IndexStatus::Building)
    }

    fn gather_nearest_filters(
        &mut self,
        request: &NearestRequest<'_>,
        gathering: &mut FilterGathering,
        state: &mut ReadState,
    ) -> Result<ReadProgress, ReadError> {
        let mut store = self.store.borrow_mut();
        store.gather_nearest_filters(request, gathering, state)
    }

    fn begin_nearest(&mut self, request: &NearestRequest<'_>) -> Option<NearestSearch> {
        self.store.borrow().begin_nearest(request)
    }

    fn next_nearest(&mut self, search: &mut NearestSearch, now_s: u32, units_left: &mut u32) -> NextNearest {
        self.store.borrow().next_nearest(search, now_s, units_left)
    }

    fn note_nearest_gone(&mut self, search: &NearestSearch) {
        self.store.borrow_mut().note_nearest_gone(search);
    }

    fn address(&self) -> IpAddr {
        self.context.options.advertised_address.ip()
    }

    fn in_product_unwarned(&self) -> u64 {
        let product = &self.context.options.guardrails.in_select_cartesian_product;
        product.warn.min(product.fail)
    }

    fn tombstone_limits(&self) -> TombstoneLimits {
        self.context.options.tombstones
    }
}
