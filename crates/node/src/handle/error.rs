//! Why a request has no answer, by whose fault it is.

use helenus_protocol::frame::{Envelope, EnvelopeFlags, EnvelopeHeader};
use helenus_protocol::response::{ErrorBody, Response, write_error};
use helenus_protocol::wire::DecodeError;
use helenus_protocol::{ErrorCode, Opcode};
use helenus_values::{BindError, RowError};

use super::VERSION;

/// A request has no answer to show for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The node said no, in the words that it has for every client.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The caller's values do not fit the statement.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The rows are not of the types that were asked for.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The request is larger than a message of the protocol may be.
    #[error("the request has {bytes} bytes, and at most {bytes_max} fit a message; send less at a time")]
    TooLong {
        /// Bytes of the request.
        bytes: usize,
        /// Bytes that a message may have.
        bytes_max: usize,
    },
    /// The node has stopped. What was under way may have been done.
    #[error("the node has stopped")]
    Stopped,
    /// The answer is not one of the protocol's: a bug of the node.
    #[error("the node's answer cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
    /// The answer is none to such a request: a bug of the node.
    #[error("the node answered with {found}, which is no answer to {asked}")]
    Unexpected {
        /// Opcode of the request.
        asked: Opcode,
        /// Opcode of the answer.
        found: Opcode,
    },
}

impl RequestError {
    /// The protocol's code, where the node refused.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            RequestError::Server(error) => Some(error.code),
            _ => None,
        }
    }
}

/// An error that the node answered with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({})", code.name())]
pub struct ServerError {
    /// Its number and name in the protocol.
    pub code: ErrorCode,
    /// Cassandra's words, where Cassandra has them.
    pub message: String,
    flags: EnvelopeFlags,
    body: Box<[u8]>,
}

impl ServerError {
    /// Decodes an ERROR's body.
    pub(super) fn decode(flags: EnvelopeFlags, body: &[u8]) -> Result<Self, RequestError> {
        match Response::decode(&envelope(flags, body))? {
            (Response::Error(error), _) => Ok(ServerError {
                code: error.body.code(),
                message: error.message.to_owned(),
                flags,
                body: body.into(),
            }),
            _ => Err(DecodeError::UnexpectedMessage(Opcode::Error).into()),
        }
    }

    /// Makes the error of a request that was refused before it got to a shard.
    pub fn refused(body: &ErrorBody<'_>, message: &str) -> Self {
        let mut written = Vec::new();
        write_error(&mut written, VERSION, body, message);
        ServerError {
            code: body.code(),
            message: message.to_owned(),
            flags: EnvelopeFlags::NONE,
            body: written.into(),
        }
    }

    /// Details of the error besides its words: counts, the id of a statement, the name of what exists already.
    pub fn details(&self) -> Option<ErrorBody<'_>> {
        match Response::decode(&envelope(self.flags, &self.body)) {
            Ok((Response::Error(error), _)) => Some(error.body),
            _ => None,
        }
    }
}

fn envelope(flags: EnvelopeFlags, body: &[u8]) -> Envelope<'_> {
    Envelope {
        header: EnvelopeHeader {
            version: VERSION,
            flags,
            stream: 0,
            opcode: Opcode::Error,
            body_bytes: u32::try_from(body.len()).unwrap_or(u32::MAX),
        },
        body,
    }
}
