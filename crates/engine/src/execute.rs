//! Options and buffers for executing a statement, and the stores it runs on.

use std::net::{IpAddr, Ipv4Addr};

use helenus_protocol::Consistency;
use helenus_protocol::ProtocolVersion;
use helenus_protocol::response::MetadataForm;
use helenus_rows::clustering::Slice;
use helenus_schema::{IndexId, TableId};
use helenus_sstable::error::ReadError;
use helenus_storage::ShardStore;
use helenus_storage::read::{ReadCommand, ReadSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_storage::vectors::{NearestSearch, NextNearest};

use crate::CqlError;
use crate::functions::Clock;
use crate::modify::ReadBuffers;
use crate::term::{BoundValues, EvaluationContext};

/// The parameters of one execution besides the values.
#[derive(Clone, Copy, Debug)]
pub struct QueryOptions<'a> {
    pub version: ProtocolVersion,
    pub consistency: Consistency,
    pub serial_consistency: Option<Consistency>,
    /// As sent; zero and below mean no paging.
    pub page_size: Option<i32>,
    pub paging_state: Option<&'a [u8]>,
    /// The client's timestamp for writes, in microseconds since 1970.
    pub timestamp_us: Option<i64>,
    /// Time that expiration is judged by and that deletions carry, in seconds since 1970.
    pub now_s: u32,
    /// The server's clock when the request arrived, in microseconds since 1970.
    pub server_timestamp_us: i64,
    /// When nobody waits for the answer any more, on the node's monotonic clock.
    pub deadline_ns: u64,
    /// Bytes of memory that the answer's rows may take: a page with more ends early, and an answer that is not paged is
    /// refused. A row alone may be longer.
    pub answer_bytes_max: usize,
    /// How much of the metadata the client wants with the rows.
    pub metadata_form: MetadataForm<'a>,
}

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

    /// A search for the rows whose indexed vectors are nearest to one, so many at once; `None` where all rows are to be looked
    /// at.
    fn begin_nearest(
        &mut self,
        _table: TableId,
        _index: IndexId,
        _vector: &[f32],
        _count: usize,
    ) -> Option<NearestSearch> {
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

    /// Vectors that the search's index has.
    fn nearest_count(&mut self, _search: &NearestSearch) -> u32 {
        0
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

    fn begin_nearest(
        &mut self,
        table: TableId,
        index: IndexId,
        vector: &[f32],
        count: usize,
    ) -> Option<NearestSearch> {
        ShardStore::begin_nearest(self, table, index, vector, count)
    }

    fn next_nearest(&mut self, search: &mut NearestSearch, now_s: u32, units_left: &mut u32) -> NextNearest {
        ShardStore::next_nearest(self, search, now_s, units_left)
    }

    fn nearest_count(&mut self, search: &NearestSearch) -> u32 {
        ShardStore::nearest_count(self, search)
    }

    fn note_nearest_gone(&mut self, search: &NearestSearch) {
        ShardStore::note_nearest_gone(self, search);
    }
}

/// Longest buffer, in bytes, that a shard keeps for an update that waits to be applied, and for an answer: nearly all are
/// smaller.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Buffers that live as long as a shard, so that executing a statement takes nothing from the heap.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) partition_key: Vec<u8>,
    pub(crate) clustering: Vec<u8>,
    pub(crate) update: Vec<u8>,
    pub(crate) slices: Vec<Slice>,
    pub(crate) rows_read: ReadBuffers,
    /// Update that a conditional statement writes.
    pub(crate) decided: Vec<u8>,
    /// Body of the RESULT that it answers.
    answer: Vec<u8>,
}

impl Scratch {
    /// Takes an update of [`crate::modify::ConditionalOutcome`] back, whose memory the next one uses.
    pub fn give_back(&mut self, update: Vec<u8>) {
        keep(&mut self.decided, update);
    }

    pub(crate) fn take_answer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answer)
    }

    /// Takes an answer of [`crate::modify::ConditionalOutcome`] back, likewise.
    pub fn give_back_answer(&mut self, body: Vec<u8>) {
        keep(&mut self.answer, body);
    }
}

fn keep(place: &mut Vec<u8>, mut buffer: Vec<u8>) {
    if buffer.capacity() <= KEPT_BYTES_MAX {
        buffer.clear();
        *place = buffer;
    }
}

impl<'a> QueryOptions<'a> {
    pub fn clock(&self) -> Clock {
        Clock {
            server_timestamp_us: self.server_timestamp_us,
        }
    }

    /// For a statement that knows neither pages nor metadata that a client keeps.
    pub fn without_paging(&self) -> QueryOptions<'static> {
        QueryOptions {
            version: self.version,
            consistency: self.consistency,
            serial_consistency: self.serial_consistency,
            page_size: None,
            paging_state: None,
            timestamp_us: self.timestamp_us,
            now_s: self.now_s,
            server_timestamp_us: self.server_timestamp_us,
            deadline_ns: self.deadline_ns,
            answer_bytes_max: self.answer_bytes_max,
            metadata_form: MetadataForm::Full,
        }
    }

    /// Returns the context in which terms outside a select clause are evaluated.
    pub(crate) fn evaluation<'e>(&self, values: &'e BoundValues<'e>) -> EvaluationContext<'e> {
        EvaluationContext {
            values,
            clock: self.clock(),
            row: None,
            aggregates: &[],
        }
    }

    /// Refuses consistency levels that a read cannot have.
    #[inline]
    pub(crate) fn check_read(&self) -> Result<(), CqlError> {
        match self.consistency {
            Consistency::Any => Err(invalid!("ANY ConsistencyLevel is only supported for writes")),
            _ => Ok(()),
        }
    }

    /// As [`check_read`](Self::check_read), for a write.
    #[inline]
    pub(crate) fn check_write(&self) -> Result<(), CqlError> {
        if self.consistency.is_serial() {
            return Err(invalid!(
                "You must use conditional updates for serializable writes"
            ));
        }
        Ok(())
    }

    /// The answer takes more than it may, and cannot end here.
    pub(crate) fn answer_too_long(&self) -> CqlError {
        let bytes = self.answer_bytes_max;
        match self.page_rows() {
            None => answer_too_long(bytes),
            Some(_) => {
                invalid!("A page of the result is longer than {bytes} bytes; read it in smaller pages")
            }
        }
    }

    pub(crate) fn check_page_size(&self) -> Result<(), CqlError> {
        match self.page_size {
            Some(0) => Err(CqlError::protocol(format_args!("The page size cannot be 0"))),
            _ => Ok(()),
        }
    }

    /// Rows per page, if the result is to be paged.
    pub fn page_rows(&self) -> Option<u32> {
        self.page_size
            .and_then(|size| u32::try_from(size).ok())
            .filter(|size| *size > 0)
    }
}

/// The rows of an answer take more than so many bytes.
pub(crate) fn answer_too_long(bytes: usize) -> CqlError {
    invalid!("The result is longer than {bytes} bytes; read it in pages")
}

/// A failed read is the server's fault.
pub fn read_failure(error: ReadError) -> CqlError {
    CqlError::server(format_args!("{error}"))
}
