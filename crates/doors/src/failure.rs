//! Why a request is not answered with what it asked for, whatever it came through.

use std::borrow::Cow;

use helenus_node::handle::{RequestError, ServerError};
use helenus_protocol::ErrorCode;
use helenus_protocol::response::ErrorBody;
use helenus_values::BindError;

use crate::bounds::BODY_BYTES_MAX;
use crate::memory::NoRoom;

/// A request failed.
#[derive(Debug)]
pub enum Failure {
    /// The node said no, in the words that it has for every client.
    Server(Box<ServerError>),
    /// The request is one, but what it says cannot be done.
    Invalid(String),
    /// The request cannot be read.
    Malformed(String),
    /// Nobody knows who asks.
    Unauthenticated(&'static str),
    /// The requester is known and not permitted.
    Forbidden(&'static str),
    /// There is nothing of that name.
    NotFound,
    /// Only these methods are known of what is asked for.
    Method(&'static str),
    /// The body is of a type that is not understood here.
    MediaType(&'static str),
    /// More than [`Memory::body_bytes_max`](crate::memory::Memory::body_bytes_max), or than the node's protocol has room for.
    TooLarge {
        /// `None` where it is the protocol's.
        bytes_max: Option<usize>,
    },
    /// See [`BODY_TIMEOUT`](crate::bounds::BODY_TIMEOUT).
    Slow,
    /// See [`MEMORY_SHARE`](crate::bounds::MEMORY_SHARE).
    NoRoom,
    /// The node is on its way out; nothing was done.
    Stopping,
    /// A bug of ours.
    Internal(String),
}

impl Failure {
    /// The native protocol's code for it.
    pub fn code(&self) -> ErrorCode {
        match self {
            Failure::Server(error) => error.code,
            Failure::Invalid(_) | Failure::TooLarge { .. } => ErrorCode::Invalid,
            Failure::Malformed(_)
            | Failure::NotFound
            | Failure::Method(_)
            | Failure::MediaType(_)
            | Failure::Slow => ErrorCode::ProtocolError,
            Failure::Unauthenticated(_) => ErrorCode::BadCredentials,
            Failure::Forbidden(_) => ErrorCode::Unauthorized,
            Failure::NoRoom => ErrorCode::Overloaded,
            Failure::Stopping | Failure::Internal(_) => ErrorCode::ServerError,
        }
    }

    /// In words.
    pub fn message(&self) -> Cow<'_, str> {
        match self {
            Failure::Server(error) => Cow::Borrowed(&error.message),
            Failure::Invalid(text) | Failure::Malformed(text) | Failure::Internal(text) => {
                Cow::Borrowed(text)
            }
            Failure::Unauthenticated(text) | Failure::Forbidden(text) => Cow::Borrowed(text),
            Failure::NotFound => Cow::Borrowed("There is nothing here; /v1/openapi.json says what there is"),
            Failure::Method(allowed) => Cow::Owned(format!("Only {allowed} can be asked for here")),
            Failure::MediaType(wanted) => Cow::Owned(format!("The body has to be {wanted}")),
            Failure::TooLarge { bytes_max: None } => Cow::Borrowed(
                "The request is larger than a message of the native protocol; send less at a time",
            ),
            Failure::TooLarge {
                bytes_max: Some(bytes),
            } if *bytes >= BODY_BYTES_MAX => {
                Cow::Borrowed("The request is larger than 4 MiB; send less at a time")
            }
            Failure::TooLarge {
                bytes_max: Some(bytes),
            } => Cow::Owned(format!(
                "The request is larger than {} KiB, which this node has room for; send less at a time, or give the node \
                 more memory (`memory`)",
                bytes >> 10
            )),
            Failure::Slow => Cow::Borrowed("The request did not come in time"),
            Failure::NoRoom => Cow::Borrowed("Too much is on its way to and from clients; try again later"),
            Failure::Stopping => Cow::Borrowed("The node is stopping"),
        }
    }

    /// Details of the node's error besides its words.
    pub fn details(&self) -> Option<ErrorBody<'_>> {
        match self {
            Failure::Server(error) => error.details(),
            _ => None,
        }
    }

    /// Returns whether the statement is not known to the node any more.
    pub fn is_unprepared(&self) -> bool {
        self.code() == ErrorCode::Unprepared
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Server(error) => Failure::Server(Box::new(error)),
            RequestError::TooLong { .. } => Failure::TooLarge { bytes_max: None },
            RequestError::Stopped => Failure::Stopping,
            RequestError::Bind(error) => error.into(),
            other => Failure::Internal(other.to_string()),
        }
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        Failure::Invalid(error.to_string())
    }
}

impl From<NoRoom> for Failure {
    fn from(_: NoRoom) -> Self {
        Failure::NoRoom
    }
}
