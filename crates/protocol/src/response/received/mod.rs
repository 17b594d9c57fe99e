//! Responses as a client reads them: views of the bytes they arrived in.

mod error;
mod event;
mod rows;
mod session;

pub use error::ReceivedError;
pub use rows::{
    ReceivedColumn, ReceivedColumns, ReceivedMarkers, ReceivedPrepared, ReceivedResult, ReceivedRow,
    ReceivedRows,
};
pub use session::{StringList, Supported};

use super::event::Event;
use crate::frame::{Envelope, EnvelopeFlags};
use crate::opcode::Opcode;
use crate::request::CustomPayload;
use crate::wire::{DecodeError, WireReader};

/// A response's message.
#[derive(Clone, Debug)]
pub enum Response<'a> {
    Error(ReceivedError<'a>),
    Ready,
    /// The authenticator's class.
    Authenticate(&'a str),
    Supported(Supported<'a>),
    Result(ReceivedResult<'a>),
    Event(Event<'a>),
    AuthChallenge(Option<&'a [u8]>),
    AuthSuccess(Option<&'a [u8]>),
}

/// Optional parts that stood in front of the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceivedPrelude<'a> {
    pub tracing_id: Option<[u8; 16]>,
    pub warnings: StringList<'a>,
    pub custom_payload: CustomPayload<'a>,
}

impl<'a> Response<'a> {
    /// Decodes the body of a response.
    pub fn decode(envelope: &Envelope<'a>) -> Result<(Response<'a>, ReceivedPrelude<'a>), DecodeError> {
        let header = &envelope.header;
        let mut reader = WireReader::new(envelope.body);
        let mut prelude = ReceivedPrelude::default();
        if header.flags.contains(EnvelopeFlags::TRACING) {
            prelude.tracing_id = Some(reader.uuid("a tracing id")?);
        }
        if header.flags.contains(EnvelopeFlags::WARNING) {
            prelude.warnings = StringList::decode(&mut reader)?;
        }
        prelude.custom_payload = CustomPayload::decode(&mut reader, header.flags, header.version)?;
        let response = match header.opcode {
            Opcode::Result => Response::Result(ReceivedResult::decode(&mut reader, header.version)?),
            Opcode::Error => Response::Error(ReceivedError::decode(&mut reader, header.version)?),
            Opcode::Ready => Response::Ready,
            Opcode::Authenticate => Response::Authenticate(reader.string()?),
            Opcode::Supported => Response::Supported(Supported::decode(&mut reader)?),
            Opcode::Event => Response::Event(event::read_event(&mut reader)?),
            Opcode::AuthChallenge => Response::AuthChallenge(reader.bytes("a token")?),
            Opcode::AuthSuccess => Response::AuthSuccess(reader.bytes("a token")?),
            other => return Err(DecodeError::UnexpectedMessage(other)),
        };
        Ok((response, prelude))
    }
}
