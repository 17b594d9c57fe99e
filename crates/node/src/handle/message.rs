//! Requests as they travel.

use helenus_protocol::request::{
    BatchKind, BatchStatement, BindValues, QueryParameters, write_auth_response, write_batch, write_execute,
    write_prepare, write_query,
};
use helenus_protocol::{Consistency, Opcode};
use helenus_values::BoundValues;

use super::VERSION;
use super::answer::Columns;
use super::options::RequestOptions;

/// A request of the native protocol: a QUERY, PREPARE, EXECUTE, BATCH or AUTH_RESPONSE, in the version of
/// [`Reply::decode`](super::Reply::decode).
#[derive(Clone, Debug)]
pub struct Message {
    pub(crate) opcode: Opcode,
    pub(crate) body: Vec<u8>,
}

/// Bytes of a body beside texts and values, but for paging states: ids of 16 bytes, options of 8 at most, and their lengths.
const REST_BYTES: usize = 96;

/// Bytes of a batch's statement beside its text and its values: its kind, an id of 16 bytes, and lengths.
const STATEMENT_BYTES: usize = 32;

impl Message {
    /// `long_bytes` are those of texts and values; a body that grows behind a long value would be copied.
    fn new(opcode: Opcode, long_bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut body = Vec::with_capacity(long_bytes + REST_BYTES);
        write(&mut body);
        Message { opcode, body }
    }

    /// Which kind of request it is.
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// A statement's text with its values.
    pub fn query(text: &str, values: &BoundValues, options: &RequestOptions) -> Self {
        Message::new(Opcode::Query, text.len() + values.as_bytes().len(), |body| {
            write_query(body, VERSION, text, &parameters(options), encoded(values));
        })
    }

    /// A statement's text, to be prepared with names that are of `keyspace` unless they say another.
    pub fn prepare(text: &str, keyspace: Option<&str>) -> Self {
        Message::new(Opcode::Prepare, text.len(), |body| {
            write_prepare(body, VERSION, text, keyspace)
        })
    }

    /// A prepared statement by its id; its rows come with their columns.
    pub fn execute(id: &[u8], values: &BoundValues, options: &RequestOptions) -> Self {
        Message::execute_by(id, &UNKNOWN_METADATA_ID, &parameters(options), values)
    }

    /// As [`Message::execute`], of a statement whose columns the client knows: they are left out where they are still these.
    pub(super) fn execute_known(
        id: &[u8],
        known: &Columns,
        values: &BoundValues,
        options: &RequestOptions,
    ) -> Self {
        let mut parameters = parameters(options);
        parameters.skip_metadata = !known.columns.is_empty();
        Message::execute_by(id, &known.metadata_id, &parameters, values)
    }

    fn execute_by(
        id: &[u8],
        metadata_id: &[u8],
        parameters: &QueryParameters<'_>,
        values: &BoundValues,
    ) -> Self {
        Message::new(Opcode::Execute, values.as_bytes().len(), |body| {
            write_execute(body, VERSION, id, metadata_id, parameters, encoded(values));
        })
    }

    /// Several writes together.
    pub fn batch<'s>(
        kind: BatchKind,
        members: impl Iterator<Item = (BatchStatement<'s>, &'s BoundValues)>,
        options: &RequestOptions,
    ) -> Self {
        let mut long_bytes = 0;
        let members = members.map(|(statement, values)| {
            long_bytes += values.as_bytes().len() + STATEMENT_BYTES;
            if let BatchStatement::Text(text) = statement {
                long_bytes += text.len();
            }
            (statement, encoded(values))
        });
        let members: Vec<_> = members.collect();
        Message::new(Opcode::Batch, long_bytes, |body| {
            write_batch(body, VERSION, kind, &members, &parameters(options));
        })
    }

    pub(super) fn auth_response(token: &[u8]) -> Self {
        Message::new(Opcode::AuthResponse, token.len(), |body| {
            write_auth_response(body, token)
        })
    }
}

/// No metadata has this id: an MD5 sum, which nobody has found a text for.
const UNKNOWN_METADATA_ID: [u8; 16] = [0; 16];

fn encoded(values: &BoundValues) -> BindValues<'_> {
    BindValues::Encoded {
        count: values.count(),
        bytes: values.as_bytes(),
    }
}

fn parameters(options: &RequestOptions) -> QueryParameters<'_> {
    let mut parameters = QueryParameters::new(options.consistency);
    let serial = options.serial_consistency;
    parameters.serial_consistency = serial.filter(|serial| *serial != Consistency::Serial);
    let page_size = options.page_size;
    parameters.page_size = page_size.map(|rows| i32::try_from(rows).unwrap_or(i32::MAX));
    parameters.paging_state = options.paging_state.as_deref();
    parameters.default_timestamp = options.timestamp_us;
    parameters.now_in_seconds = options.now_s;
    parameters.keyspace = options.keyspace.as_deref();
    parameters
}
