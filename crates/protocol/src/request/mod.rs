//! Requests: decoded by a server as views of the received bytes, encoded by a client.

mod batch;
mod encode;
mod query;
mod query_parameters;
mod session;
mod values;

pub use batch::{Batch, BatchKind, BatchQueries, BatchQuery, BatchStatement};
pub use encode::{
    BindValues, write_auth_response, write_batch, write_execute, write_prepare, write_query, write_register,
    write_startup,
};
pub use query::{Execute, Prepare, Query};
pub use query_parameters::{QueryFlags, QueryParameters};
pub use session::{EventKind, Register, Startup, StartupError};
pub use values::{NamedValues, Value, Values, ValuesIter};

use crate::frame::{Envelope, EnvelopeFlags};
use crate::opcode::Opcode;
use crate::version::ProtocolVersion;
use crate::wire::{DecodeError, WireReader};

/// A request's message, borrowed from the bytes it arrived in.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    Startup(Startup<'a>),
    Options,
    /// The SASL token; null is as empty.
    AuthResponse(&'a [u8]),
    Query(Query<'a>),
    Prepare(Prepare<'a>),
    Execute(Execute<'a>),
    Batch(Batch<'a>),
    Register(Register),
}

impl<'a> Request<'a> {
    /// Decodes the body of a request. Bytes after the message are ignored, as Cassandra ignores them.
    #[inline]
    pub fn decode(envelope: &Envelope<'a>) -> Result<(Request<'a>, CustomPayload<'a>), DecodeError> {
        let header = &envelope.header;
        let mut reader = WireReader::new(envelope.body);
        let payload = CustomPayload::decode(&mut reader, header.flags, header.version)?;
        let request = match header.opcode {
            Opcode::Execute => Request::Execute(Execute::decode(&mut reader, header.version)?),
            Opcode::Query => Request::Query(Query::decode(&mut reader, header.version)?),
            Opcode::Batch => Request::Batch(Batch::decode(&mut reader, header.version)?),
            Opcode::Prepare => Request::Prepare(Prepare::decode(&mut reader, header.version)?),
            Opcode::Startup => Request::Startup(Startup::decode(&mut reader)?),
            Opcode::Options => Request::Options,
            Opcode::Register => Request::Register(Register::decode(&mut reader, header.version)?),
            Opcode::AuthResponse => Request::AuthResponse(reader.bytes("a token")?.unwrap_or_default()),
            Opcode::Credentials => return Err(DecodeError::UnsupportedMessage),
            other => return Err(DecodeError::UnexpectedMessage(other)),
        };
        Ok((request, payload))
    }
}

/// A custom payload (v4 and later): names and bytes that a server without plug-ins carries and ignores. A view of
/// validated bytes; empty if there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct CustomPayload<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> CustomPayload<'a> {
    #[inline]
    pub(crate) fn decode(
        reader: &mut WireReader<'a>,
        flags: EnvelopeFlags,
        version: ProtocolVersion,
    ) -> Result<Self, DecodeError> {
        if !flags.contains(EnvelopeFlags::CUSTOM_PAYLOAD) {
            return Ok(CustomPayload::default());
        }
        if version < ProtocolVersion::V4 {
            return Err(DecodeError::CustomPayloadBeforeV4);
        }
        // An entry is at least an empty name (2 bytes) and a null (4 bytes).
        let count = reader.count("custom payload", 6)?;
        let bytes = reader.rest();
        for _ in 0..count {
            reader.string()?;
            reader.bytes("a custom payload")?;
        }
        let used = bytes.len() - reader.rest().len();
        Ok(CustomPayload {
            count,
            bytes: &bytes[..used],
        })
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Option<&'a [u8]>)> {
        let mut reader = WireReader::new(self.bytes);
        (0..self.count)
            .map_while(move |_| Some((reader.string().ok()?, reader.bytes("a custom payload").ok()?)))
    }
}
