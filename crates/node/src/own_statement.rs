//! Statements that the node executes for itself, the way a client's are executed: parsed, planned, sent to the shards
//! that own what they are about. For what is rare and lives in tables, such as roles.

use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_protocol::frame::{ENVELOPE_HEADER_BYTES, Envelope, EnvelopeFlags, EnvelopeHeader};
use helenus_protocol::request::{BindValues, QueryParameters, Value, write_query};
use helenus_protocol::response::{ReceivedResult, Response};
use helenus_protocol::{Consistency, Direction, Opcode, ProtocolVersion};

use crate::session::{RequestContext, Session};
use crate::shard::Shard;
use crate::tracing::answer_of;

/// A row's values, in the order of the selection; `None` is null.
pub(crate) type OwnRow = Vec<Option<Vec<u8>>>;

impl Shard {
    /// Executes a statement of the node's own; empty unless it selects. Not paged: the caller bounds what it asks for.
    ///
    /// An error of the statement is the node's fault, whatever its code was.
    pub(crate) async fn execute_own(
        self: &Rc<Self>,
        text: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<OwnRow>, CqlError> {
        let version = ProtocolVersion::CURRENT;
        let mut body = Vec::new();
        let parameters = QueryParameters::new(Consistency::One);
        write_query(
            &mut body,
            version,
            text,
            &parameters,
            BindValues::Positional(values),
        );
        let header = EnvelopeHeader {
            version,
            flags: EnvelopeFlags::NONE,
            stream: 0,
            opcode: Opcode::Query,
            body_bytes: u32::try_from(body.len())
                .map_err(|_| CqlError::server(format_args!("The node's own statement is too long")))?,
        };
        let session = Rc::new(Session::new(version));
        let context = RequestContext {
            session: &session,
            stream: header.stream,
            received_ns: self.clock.monotonic_ns(),
        };
        let envelope = Envelope { header, body: &body };
        self.handle_untraced(context, &envelope)
            .map_err(|error| CqlError::server(format_args!("{error}")))?;
        rows_of(&answer_of(&session).await)
    }
}

fn rows_of(answer: &[u8]) -> Result<Vec<OwnRow>, CqlError> {
    let lost = || CqlError::server(format_args!("The answer to the node's own statement was lost"));
    let (head, body) = answer
        .split_first_chunk::<ENVELOPE_HEADER_BYTES>()
        .ok_or_else(lost)?;
    let header = EnvelopeHeader::decode(head, Direction::Response).map_err(|_| lost())?;
    match Response::decode(&Envelope { header, body }) {
        Ok((Response::Result(ReceivedResult::Rows(rows)), _)) => Ok(rows
            .iter()
            .map(|row| row.map(|value| value.map(<[u8]>::to_vec)).collect())
            .collect()),
        Ok((Response::Result(_), _)) => Ok(Vec::new()),
        Ok((Response::Error(error), _)) => Err(CqlError::server(format_args!("{}", error.message))),
        _ => Err(lost()),
    }
}
