//! Errors, by whose fault they are.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use helenus_protocol::ErrorCode;
use helenus_protocol::wire::DecodeError;

use crate::values::{BindError, RowError};

/// A request has no answer to show for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server said no.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The deadline has passed. Whether the server has run the request is unknown only where `was_sent`.
    #[error("no answer within {timeout_ms} ms; {}", sent(*was_sent))]
    DeadlinePassed { timeout_ms: u64, was_sent: bool },
    /// The connection went away while the server may have been running the request.
    #[error("the connection to {address} was lost with the request under way: {reason}")]
    ConnectionLost {
        address: SocketAddr,
        reason: Arc<ConnectError>,
    },
    /// No node can be reached; the last attempt says why.
    #[error("no node can be reached: {0}")]
    Unreachable(Arc<ConnectError>),
    /// More callers wait than the queue may hold.
    #[error("{waiting_max} callers wait for their turn already; offer less, or raise `waiting_max`")]
    QueueFull { waiting_max: usize },
    /// The caller's values do not fit the statement.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The server's answer cannot be read, or is not an answer to the request.
    #[error("the answer of {address} cannot be read: {source}")]
    Unreadable {
        address: SocketAddr,
        source: DecodeError,
    },
    #[error("{address} answered with {found}, not with {wanted}")]
    Unexpected {
        address: SocketAddr,
        wanted: &'static str,
        found: &'static str,
    },
    /// The rows are not of the types that were asked for.
    #[error(transparent)]
    Row(#[from] RowError),
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} refused: {message} ({})", name(*code, *number))]
pub struct ServerError {
    pub address: SocketAddr,
    /// `None` for a code that the specification does not know; see `number`.
    pub code: Option<ErrorCode>,
    pub number: u32,
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
    #[error("{0} is not an address: give HOST:PORT")]
    Address(String),
    #[error("cannot connect to {address}: {source}")]
    Io { address: SocketAddr, source: io::Error },
    /// The server does not speak TLS, its certificate is not trusted, or it does not trust the client's.
    #[error("no TLS with {address}: {source}")]
    Tls { address: SocketAddr, source: io::Error },
    #[error("{address} did not answer within {timeout_ms} ms")]
    Timeout { address: SocketAddr, timeout_ms: u64 },
    #[error("{address} closed the connection")]
    ClosedByServer { address: SocketAddr },
    /// The bytes make no sense; nothing of the connection is believed any more.
    #[error("{address} does not follow the protocol: {reason}")]
    Protocol { address: SocketAddr, reason: String },
    #[error("{address} refused the connection: {message}")]
    Refused { address: SocketAddr, message: String },
    #[error("{address} asks for a password; give one with `credentials`")]
    CredentialsNeeded { address: SocketAddr },
    /// So many abandoned requests are unanswered that the connection is given up.
    #[error("{address} leaves {abandoned} abandoned requests unanswered")]
    Unresponsive { address: SocketAddr, abandoned: usize },
    #[error("the session was closed")]
    SessionClosed,
    #[error("no node was named: give at least one with `node`")]
    NoNodes,
}
