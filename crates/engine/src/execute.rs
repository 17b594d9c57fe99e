//! Options and buffers for executing a statement.

use helenus_index::IndexPredicate;
use helenus_protocol::Consistency;
use helenus_protocol::ProtocolVersion;
use helenus_protocol::response::MetadataForm;
use helenus_rows::clustering::Slice;

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
    /// The one that was asked last, whose memory the next one takes.
    pub(crate) predicate: Option<IndexPredicate>,
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
