//! The error type itself, and its text.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use helenus_cql::SyntaxError;
use helenus_protocol::extensions::RateLimitedOperation;
use helenus_protocol::{Consistency, WriteType};
use helenus_schema::TableMetadata;

use super::failure::{AlreadyExists, FunctionFailure, PreparedId, ReplicaFailure};
use super::message::Message;

/// An error as the client sees it. Small, because every `Result` of the request path carries it; what is rare or
/// large is boxed.
#[derive(Debug)]
#[non_exhaustive]
pub enum CqlError {
    Syntax(Box<SyntaxError>),
    /// A rule of the syntax that only execution checks, such as the names of properties.
    SyntaxRule(Message),
    BadCredentials(Message),
    /// The statement is CQL, but not for this schema or not with these values.
    Invalid(Message),
    /// As `Invalid`: a prepared statement was executed with another number of values than it has markers.
    MarkerCount {
        markers: u32,
        values: u32,
    },
    Unauthorized(Message),
    /// A keyspace or table cannot have such options.
    Config(Message),
    AlreadyExists(Box<AlreadyExists>),
    /// The statement with this id is not in the cache of prepared statements.
    Unprepared(PreparedId),
    FunctionFailure(Box<FunctionFailure>),
    Truncate(Message),
    Overloaded(Message),
    Unavailable {
        consistency: Consistency,
        required: i32,
        alive: i32,
    },
    ReadTimeout {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        data_present: bool,
    },
    WriteTimeout {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        write_type: WriteType,
    },
    /// A lightweight transaction that lost too many races.
    CasWriteTimeout {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        contentions: u16,
    },
    CasWriteUnknown {
        consistency: Consistency,
        received: i32,
        block_for: i32,
    },
    CdcWriteFailure(Message),
    /// One partition is asked for more often than its table allows; nothing was done.
    RateLimited {
        table: Arc<TableMetadata>,
        operation: RateLimitedOperation,
    },
    ReadFailure(Box<ReplicaFailure<bool>>),
    WriteFailure(Box<ReplicaFailure<WriteType>>),
    /// The client broke the protocol's rules in a way only the statement shows.
    Protocol(Message),
    /// Our own fault: storage failed, or a bug was caught.
    Server(Message),
}

// A `Result<(), CqlError>` travels in three registers' worth of memory.
const _: () = assert!(size_of::<CqlError>() <= 24);

impl CqlError {
    /// Returns whether drivers take it for a promise that nothing was done, and send the statement again.
    pub fn promises_nothing_was_done(&self) -> bool {
        matches!(
            self,
            CqlError::Overloaded(_) | CqlError::RateLimited { .. } | CqlError::Unavailable { .. }
        )
    }

    /// `CqlError::invalid(format_args!("Unknown property '{name}'"))`; likewise for the other kinds.
    pub fn invalid(text: fmt::Arguments<'_>) -> Self {
        CqlError::Invalid(Message::from(text))
    }

    pub fn syntax_rule(text: fmt::Arguments<'_>) -> Self {
        CqlError::SyntaxRule(Message::from(text))
    }

    pub fn unauthorized(text: fmt::Arguments<'_>) -> Self {
        CqlError::Unauthorized(Message::from(text))
    }

    pub fn config(text: fmt::Arguments<'_>) -> Self {
        CqlError::Config(Message::from(text))
    }

    pub fn overloaded(text: fmt::Arguments<'_>) -> Self {
        CqlError::Overloaded(Message::from(text))
    }

    pub fn protocol(text: fmt::Arguments<'_>) -> Self {
        CqlError::Protocol(Message::from(text))
    }

    pub fn server(text: fmt::Arguments<'_>) -> Self {
        CqlError::Server(Message::from(text))
    }

    pub fn truncate(text: fmt::Arguments<'_>) -> Self {
        CqlError::Truncate(Message::from(text))
    }
}

impl fmt::Display for CqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqlError::Syntax(error) => error.fmt(f),
            CqlError::SyntaxRule(message)
            | CqlError::BadCredentials(message)
            | CqlError::Invalid(message)
            | CqlError::CdcWriteFailure(message)
            | CqlError::Unauthorized(message)
            | CqlError::Config(message)
            | CqlError::Overloaded(message)
            | CqlError::Protocol(message)
            | CqlError::Server(message) => message.fmt(f),
            CqlError::MarkerCount { markers, values } => write!(
                f,
                "there were {markers} markers(?) in CQL but {values} bound variables"
            ),
            CqlError::Truncate(message) => write!(f, "Error during truncate: {message}"),
            CqlError::AlreadyExists(existing) => existing.fmt(f),
            CqlError::Unprepared(id) => write!(
                f,
                "Prepared query with ID {id} not found (either the query was not prepared on this host (maybe the \
                 host has been restarted?) or you have prepared too many queries and it has been evicted from the \
                 internal cache)"
            ),
            CqlError::FunctionFailure(failure) => failure.fmt(f),
            CqlError::RateLimited { table, operation } => write_rate_limited(f, table, *operation),
            CqlError::Unavailable { consistency, .. } => {
                write!(f, "Cannot achieve consistency level {consistency}")
            }
            CqlError::ReadTimeout { received, .. } | CqlError::WriteTimeout { received, .. } => {
                write!(f, "Operation timed out - received only {received} responses.")
            }
            CqlError::CasWriteTimeout {
                received,
                block_for,
                contentions,
                ..
            } => write!(
                f,
                "CAS operation timed out: received {received} of {block_for} required responses after {contentions} \
                 contention retries"
            ),
            CqlError::CasWriteUnknown { received, .. } => write!(
                f,
                "CAS operation result is unknown - proposal accepted by {received} but not a quorum."
            ),
            CqlError::ReadFailure(failure) => failure.fmt(f),
            CqlError::WriteFailure(failure) => failure.fmt(f),
        }
    }
}

fn write_rate_limited(
    f: &mut fmt::Formatter<'_>,
    table: &TableMetadata,
    operation: RateLimitedOperation,
) -> fmt::Result {
    let limit = table.params.per_partition_rate_limit.unwrap_or_default();
    let (kind, number) = match operation {
        RateLimitedOperation::Read => ("reads", limit.max_reads_per_second),
        RateLimitedOperation::Write => ("writes", limit.max_writes_per_second),
    };
    write!(
        f,
        "Per-partition rate limit of {}.{} reached: {} {kind} per second",
        table.keyspace,
        table.name,
        number.map_or(0, NonZeroU32::get)
    )
}

impl std::error::Error for CqlError {}

impl From<SyntaxError> for CqlError {
    fn from(error: SyntaxError) -> Self {
        CqlError::Syntax(Box::new(error))
    }
}
