//! Errors, by whose fault they are.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use helenus_protocol::ErrorCode;
use helenus_protocol::wire::DecodeError;

use crate::values::{BindError, RowError};

/// A request has no answer to show for.
///
/// Nothing was done after `Unreachable`, `QueueFull`, `Bind`, `Closed`, and `DeadlinePassed` without
/// `was_sent`; after the others the request may have run. A request that is retried, being idempotent, may
/// have run in an earlier attempt: of that only `was_sent` tells.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server said no.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The deadline has passed. Whether the server has run the request is unknown only where `was_sent`.
    #[error("no answer within {timeout_ms} ms; {}", sent(*was_sent))]
    DeadlinePassed {
        /// Time given, in milliseconds: the statement's timeout, or 5,000 for a look at the cluster while
        /// connecting.
        timeout_ms: u64,
        /// True if any attempt may have run; false if nothing was done.
        was_sent: bool,
    },
    /// The connection went away while the server may have been running the request.
    #[error("the connection to {address} was lost with the request under way: {reason}")]
    ConnectionLost {
        /// Node that had the request.
        address: SocketAddr,
        /// Cause of the connection's end.
        reason: Arc<ConnectError>,
    },
    /// No node can be reached; the last attempt says why.
    #[error("no node can be reached: {0}")]
    Unreachable(Arc<ConnectError>),
    /// More callers wait than the queue may hold.
    #[error("{waiting_max} callers wait for their turn already; offer less, or raise `waiting_max`")]
    QueueFull {
        /// Callers that may wait for one node:
        /// [`SessionBuilder::waiting_max`](crate::SessionBuilder::waiting_max).
        waiting_max: usize,
    },
    /// The caller's values do not fit the statement.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The server's answer cannot be read, or is not an answer to the request.
    #[error("the answer of {address} cannot be read: {source}")]
    Unreadable {
        /// Node that answered.
        address: SocketAddr,
        /// Fault in the answer's body.
        source: DecodeError,
    },
    /// A PREPARE was answered with something else; preparing changes nothing.
    #[error("{address} answered with {found}, not with {wanted}")]
    Unexpected {
        /// Node that answered.
        address: SocketAddr,
        /// Answer that the request asks for, in words.
        wanted: &'static str,
        /// Opcode of the answer that came, by its name.
        found: &'static str,
    },
    /// The rows are not of the types that were asked for.
    #[error(transparent)]
    Row(#[from] RowError),
    /// [`Session::close`](crate::Session::close) came before the request was sent.
    #[error("the session is closed")]
    Closed,
}

fn sent(was_sent: bool) -> &'static str {
    if was_sent {
        "the request was sent and may have been executed"
    } else {
        "the request was not sent"
    }
}

/// An ERROR that a server answered with.
///
/// The request may have run, at least in part, after a timeout, a failure (`ReadFailure`, `WriteFailure`,
/// `CdcWriteFailure`, `FunctionFailure`, `CasWriteUnknown`), `Unavailable`, `Overloaded`, `ServerError` and
/// `TruncateError`. Nothing was done where the statement itself is refused, as by a syntax error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} refused: {message} ({})", name(*code, *number))]
pub struct ServerError {
    /// Node that answered.
    pub address: SocketAddr,
    /// `None` for a code that the specification does not know; see `number`.
    pub code: Option<ErrorCode>,
    /// Code as it was received, e.g. 0x1200 for a read timeout; 0 if the answer was too short for one.
    pub number: u32,
    /// Server's words, for people; empty if they cannot be read.
    pub message: String,
}

fn name(code: Option<ErrorCode>, number: u32) -> String {
    match code {
        Some(code) => code.name().to_owned(),
        None => format!("error code {number:#06x}"),
    }
}

/// A connection could not be made, or did not last.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A node was not named as `HOST:PORT`, or the name of its host cannot be resolved.
    #[error("{0} is not an address: give HOST:PORT")]
    Address(String),
    /// Connecting, reading or writing failed.
    #[error("cannot connect to {address}: {source}")]
    Io {
        /// Node at the other end.
        address: SocketAddr,
        /// Error of the socket.
        source: io::Error,
    },
    /// The server does not speak TLS, its certificate is not trusted, or it does not trust the client's.
    #[error("no TLS with {address}: {source}")]
    Tls {
        /// Node that was connected to.
        address: SocketAddr,
        /// Error of the TLS handshake.
        source: io::Error,
    },
    /// Opening the connection took too long, or a silent connection did not answer a heartbeat.
    #[error("{address} did not answer within {timeout_ms} ms")]
    Timeout {
        /// Node that was waited for.
        address: SocketAddr,
        /// Milliseconds: [`SessionBuilder::connect_timeout`](crate::SessionBuilder::connect_timeout), or a
        /// heartbeat's 5,000.
        timeout_ms: u64,
    },
    /// The server ended the stream: it stops, or does not want this connection.
    #[error("{address} closed the connection")]
    ClosedByServer {
        /// Node that closed it.
        address: SocketAddr,
    },
    /// The bytes make no sense; nothing of the connection is believed any more.
    #[error("{address} does not follow the protocol: {reason}")]
    Protocol {
        /// Node that sent them.
        address: SocketAddr,
        /// Fault, in words.
        reason: String,
    },
    /// The server answered OPTIONS, STARTUP, the login or REGISTER with an ERROR: a wrong password, for one.
    #[error("{address} refused the connection: {message}")]
    Refused {
        /// Node that refused.
        address: SocketAddr,
        /// Server's words.
        message: String,
    },
    /// The server asks for a login, and [`SessionBuilder::credentials`](crate::SessionBuilder::credentials)
    /// was not called.
    #[error("{address} asks for a password; give one with `credentials`")]
    CredentialsNeeded {
        /// Node that asks.
        address: SocketAddr,
    },
    /// So many abandoned requests are unanswered that the connection is given up.
    #[error("{address} leaves {abandoned} abandoned requests unanswered")]
    Unresponsive {
        /// Node that does not answer.
        address: SocketAddr,
        /// Requests that their callers gave up and that are unanswered. One is enough if the connection has
        /// answered nothing for 5 s; more than 256 are after 1 s.
        abandoned: usize,
    },
    /// [`Session::close`](crate::Session::close) was called, or the async runtime has ended.
    #[error("the session was closed")]
    SessionClosed,
    /// There is no address to connect to: [`SessionBuilder::node`](crate::SessionBuilder::node) was not
    /// called.
    #[error("no node was named: give at least one with `node`")]
    NoNodes,
}
