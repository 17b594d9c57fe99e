//! Stores that statements read from.

use std::net::{IpAddr, Ipv4Addr};

use helenus_schema::{IndexId, TableId};
use helenus_sstable::error::ReadError;
use helenus_storage::ShardStore;
use helenus_storage::read::{ReadCommand, ReadSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_storage::store::FilterGathering;
use helenus_storage::vectors::{NearestRequest, NearestSearch, NextNearest};

use crate::CqlError;

/// Rows by partition: a shard's store, or rows generated for a virtual table.
pub trait RowStore {
    /// One step of a read, as [`ShardStore::read_step`].
    fn read_step<S: ReadSink>(
        &mut self,
        command: &ReadCommand<'_>,
        state: &mut ReadState,
        sink: &mut S,
    ) -> Result<ReadProgress, ReadError>;

    /// Returns whether an index has all that its table had when it was made.
    fn is_index_ready(&mut self, _table: TableId, _index: IndexId) -> bool {
        true
    }

    /// One step of what a search for the nearest rows is prepared by, as [`ShardStore::gather_nearest_filters`].
    fn gather_nearest_filters(
        &mut self,
        _request: &NearestRequest<'_>,
        _gathering: &mut FilterGathering,
        _state: &mut ReadState,
    ) -> Result<ReadProgress, ReadError> {
        Ok(ReadProgress::Done)
    }

    /// A search for the rows whose indexed vectors are nearest to one; `None` where all rows are to be looked at.
    fn begin_nearest(&mut self, _request: &NearestRequest<'_>) -> Option<NearestSearch> {
        None
    }

    /// The next row of a search.
    fn next_nearest(
        &mut self,
        _search: &mut NearestSearch,
        _now_s: u32,
        _units_left: &mut u32,
    ) -> NextNearest {
        NextNearest::Lost
    }

    /// The row that was found last is not there, or without its vector.
    fn note_nearest_gone(&mut self, _search: &NearestSearch) {}

    /// Returns the address that errors of this copy are told to come from.
    fn address(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }

    /// The largest product of INs on clustering columns that nobody has anything to say of.
    fn in_product_unwarned(&self) -> u64 {
        u64::MAX
    }

    /// How many tombstones a read may meet.
    fn tombstone_limits(&self) -> TombstoneLimits {
        TombstoneLimits::NONE
    }
}

/// How many tombstones one read of a shard may meet; Cassandra's `tombstone_warn_threshold` and
/// `tombstone_failure_threshold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TombstoneLimits {
    /// With more than so many the client is warned.
    pub warn: u64,
    /// With more than so many a page ends early, and what is not paged fails.
    pub fail: u64,
}

impl TombstoneLimits {
    pub const NONE: TombstoneLimits = TombstoneLimits {
        warn: u64::MAX,
        fail: u64::MAX,
    };
}

impl Default for TombstoneLimits {
    fn default() -> Self {
        TombstoneLimits {
            warn: 1_000,
            fail: 100_000,
        }
    }
}

impl RowStore for ShardStore {
    #[inline]
    fn read_step<S: ReadSink>(
        &mut self,
        command: &ReadCommand<'_>,
        state: &mut ReadState,
        sink: &mut S,
    ) -> Result<ReadProgress, ReadError> {
        ShardStore::read_step(self, command, state, sink)
    }

    fn gather_nearest_filters(
        &mut self,
        request: &NearestRequest<'_>,
        gathering: &mut FilterGathering,
        state: &mut ReadState,
    ) -> Result<ReadProgress, ReadError> {
        ShardStore::gather_nearest_filters(self, request, gathering, state)
    }

    fn begin_nearest(&mut self, request: &NearestRequest<'_>) -> Option<NearestSearch> {
        ShardStore::begin_nearest(self, request)
    }

    fn next_nearest(&mut self, search: &mut NearestSearch, now_s: u32, units_left: &mut u32) -> NextNearest {
        ShardStore::next_nearest(self, search, now_s, units_left)
    }

    fn note_nearest_gone(&mut self, search: &NearestSearch) {
        ShardStore::note_nearest_gone(self, search);
    }
}

/// A failed read is the server's fault.
pub fn read_failure(error: ReadError) -> CqlError {
    CqlError::server(format_args!("{error}"))
}
