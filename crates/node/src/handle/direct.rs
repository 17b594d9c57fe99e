//! Requests of whoever is on a shard's thread: the node's own statements, and tests that hold a shard.

use std::rc::Rc;

use helenus_protocol::frame::{ENVELOPE_HEADER_BYTES, Envelope, EnvelopeFlags, EnvelopeHeader};
use helenus_protocol::response::{ErrorBody, write_error};
use helenus_protocol::{Direction, Opcode};

use super::VERSION;
use super::answer::Reply;
use super::error::{RequestError, ServerError};
use super::message::Message;
use crate::session::{RequestContext, Session};
use crate::shard::Shard;
use crate::tracing::answer_of;

impl Shard {
    /// Answers one message in a session of its own, which is nobody's: without admission, and charged to nobody. Its bytes
    /// came at `received_ns`.
    pub async fn answer(
        self: &Rc<Self>,
        message: &Message,
        flags: EnvelopeFlags,
        received_ns: u64,
    ) -> Result<Reply, RequestError> {
        let session = Rc::new(Session::new(VERSION));
        let context = RequestContext {
            session: &session,
            stream: 0,
            received_ns,
            latest_ns: u64::MAX,
            may_be_put_back: false,
        };
        let handled = message.with_envelope(flags, |envelope| {
            self.context
                .watching_stalls("a request", || self.handle(context, envelope))
        });
        if let Err(error) = handled {
            let mut body = Vec::new();
            write_error(&mut body, VERSION, &ErrorBody::ProtocolError, error);
            return Ok(Reply {
                flags: EnvelopeFlags::NONE,
                opcode: Opcode::Error,
                body,
            });
        }
        let mut answer = answer_of(&session).await;
        let lost = || ServerError::refused(&ErrorBody::ServerError, "The answer was lost");
        let head = answer.first_chunk::<ENVELOPE_HEADER_BYTES>().ok_or_else(lost)?;
        let header = EnvelopeHeader::decode(head, Direction::Response).map_err(|_| lost())?;
        answer.drain(..ENVELOPE_HEADER_BYTES);
        Ok(Reply::of(&header, answer))
    }
}

impl Message {
    /// Lends the message as a connection would.
    pub fn with_envelope<T>(&self, flags: EnvelopeFlags, work: impl FnOnce(&Envelope<'_>) -> T) -> T {
        work(&Envelope {
            header: EnvelopeHeader {
                version: VERSION,
                flags,
                stream: 0,
                opcode: self.opcode,
                body_bytes: u32::try_from(self.body.len()).unwrap_or(u32::MAX),
            },
            body: &self.body,
        })
    }
}
