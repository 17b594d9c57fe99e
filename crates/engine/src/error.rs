//! Why a statement was refused or could not be executed: the one error type of everything in this crate.
//!
//! The kinds are those of the protocol's ERROR message. Refusals that an overloaded node makes by the hundred
//! thousand carry numbers only; nothing is formatted before the response is written.

use std::fmt;
use std::net::IpAddr;

use helenus_cql::SyntaxError;
use helenus_protocol::response::{ErrorBody, write_error};
use helenus_protocol::{Consistency, ErrorCode, FailureReason, ProtocolVersion, WriteType};

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
    ReadFailure(Box<ReplicaFailure<bool>>),
    WriteFailure(Box<ReplicaFailure<WriteType>>),
    /// The client broke the protocol's rules in a way only the statement shows.
    Protocol(Message),
    /// Our own fault: storage failed, or a bug was caught.
    Server(Message),
}

/// The name of a prepared statement on the wire: an MD5 digest, as in Cassandra.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PreparedId(pub [u8; 16]);

/// What `CREATE` without `IF NOT EXISTS` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlreadyExists {
    Keyspace { keyspace: String },
    Table { keyspace: String, table: String },
}

/// A function or aggregate that failed while it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionFailure {
    pub keyspace: String,
    pub function: String,
    /// In CQL syntax.
    pub argument_types: Vec<String>,
    pub detail: String,
}

/// A read or write that replicas answered with a failure; `detail` is whether data was present, or the kind of write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaFailure<Detail> {
    pub consistency: Consistency,
    pub received: i32,
    pub block_for: i32,
    pub failures: Vec<(IpAddr, FailureReason)>,
    pub detail: Detail,
}

/// The text of an error. Fixed texts cost nothing; others are formatted where the names they mention are at hand.
#[derive(Clone, PartialEq, Eq)]
pub struct Message(MessageText);

#[derive(Clone, PartialEq, Eq)]
enum MessageText {
    Fixed(&'static str),
    #[expect(
        clippy::box_collection,
        reason = "in two steps, so that a Message has the size of a &str"
    )]
    Formatted(Box<String>),
}

// A `Result<(), CqlError>` travels in three registers' worth of memory.
const _: () = assert!(size_of::<CqlError>() <= 24);

impl CqlError {
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

    /// Appends the body of an ERROR message.
    pub fn write(&self, out: &mut Vec<u8>, version: ProtocolVersion) {
        write_error(out, version, &self.body(), self);
    }

    pub fn code(&self) -> ErrorCode {
        self.body().code()
    }

    /// The one place where errors of execution become errors of the protocol.
    fn body(&self) -> ErrorBody<'_> {
        match self {
            CqlError::Syntax(_) | CqlError::SyntaxRule(_) => ErrorBody::SyntaxError,
            CqlError::BadCredentials(_) => ErrorBody::BadCredentials,
            CqlError::Invalid(_) => ErrorBody::Invalid,
            CqlError::Unauthorized(_) => ErrorBody::Unauthorized,
            CqlError::Config(_) => ErrorBody::ConfigError,
            CqlError::AlreadyExists(existing) => ErrorBody::AlreadyExists {
                keyspace: existing.keyspace(),
                table: existing.table(),
            },
            CqlError::Unprepared(id) => ErrorBody::Unprepared { statement_id: &id.0 },
            CqlError::FunctionFailure(failure) => failure.body(),
            CqlError::Truncate(_) => ErrorBody::TruncateError,
            CqlError::Overloaded(_) => ErrorBody::Overloaded,
            &CqlError::Unavailable {
                consistency,
                required,
                alive,
            } => ErrorBody::Unavailable {
                consistency,
                required,
                alive,
            },
            &CqlError::ReadTimeout {
                consistency,
                received,
                block_for,
                data_present,
            } => ErrorBody::ReadTimeout {
                consistency,
                received,
                block_for,
                data_present,
            },
            &CqlError::WriteTimeout {
                consistency,
                received,
                block_for,
                write_type,
            } => ErrorBody::WriteTimeout {
                consistency,
                received,
                block_for,
                write_type,
                contentions: None,
            },
            &CqlError::CasWriteTimeout {
                consistency,
                received,
                block_for,
                contentions,
            } => ErrorBody::WriteTimeout {
                consistency,
                received,
                block_for,
                write_type: WriteType::Cas,
                contentions: Some(contentions),
            },
            &CqlError::CasWriteUnknown {
                consistency,
                received,
                block_for,
            } => ErrorBody::CasWriteUnknown {
                consistency,
                received,
                block_for,
            },
            CqlError::CdcWriteFailure(_) => ErrorBody::CdcWriteFailure,
            CqlError::ReadFailure(failure) => ErrorBody::ReadFailure {
                consistency: failure.consistency,
                received: failure.received,
                block_for: failure.block_for,
                failures: failure.failures.clone(),
                data_present: failure.detail,
            },
            CqlError::WriteFailure(failure) => ErrorBody::WriteFailure {
                consistency: failure.consistency,
                received: failure.received,
                block_for: failure.block_for,
                failures: failure.failures.clone(),
                write_type: failure.detail,
            },
            CqlError::Protocol(_) => ErrorBody::ProtocolError,
            CqlError::Server(_) => ErrorBody::ServerError,
        }
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
            CqlError::Truncate(message) => write!(f, "Error during truncate: {message}"),
            CqlError::AlreadyExists(existing) => existing.fmt(f),
            CqlError::Unprepared(id) => write!(
                f,
                "Prepared query with ID {id} not found (either the query was not prepared on this host (maybe the \
                 host has been restarted?) or you have prepared too many queries and it has been evicted from the \
                 internal cache)"
            ),
            CqlError::FunctionFailure(failure) => failure.fmt(f),
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

impl std::error::Error for CqlError {}

impl From<SyntaxError> for CqlError {
    fn from(error: SyntaxError) -> Self {
        CqlError::Syntax(Box::new(error))
    }
}

impl fmt::Display for PreparedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl AlreadyExists {
    pub fn keyspace(&self) -> &str {
        match self {
            AlreadyExists::Keyspace { keyspace } | AlreadyExists::Table { keyspace, .. } => keyspace,
        }
    }

    /// Empty for a keyspace, as the protocol wants it.
    pub fn table(&self) -> &str {
        match self {
            AlreadyExists::Keyspace { .. } => "",
            AlreadyExists::Table { table, .. } => table,
        }
    }
}

impl fmt::Display for AlreadyExists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlreadyExists::Keyspace { keyspace } => write!(f, "Cannot add existing keyspace \"{keyspace}\""),
            AlreadyExists::Table { keyspace, table } => {
                write!(
                    f,
                    "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\""
                )
            }
        }
    }
}

impl FunctionFailure {
    fn body(&self) -> ErrorBody<'_> {
        ErrorBody::FunctionFailure {
            keyspace: &self.keyspace,
            function: &self.function,
            argument_types: self.argument_types.iter().map(String::as_str).collect(),
        }
    }
}

impl<Detail> fmt::Display for ReplicaFailure<Detail> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReplicaFailure {
            received, failures, ..
        } = self;
        write!(
            f,
            "Operation failed - received {received} responses and {} failures",
            failures.len()
        )?;
        for (index, (address, reason)) in failures.iter().enumerate() {
            let separator = if index == 0 { ": " } else { ", " };
            write!(f, "{separator}{} from {address}", reason_name(*reason))?;
        }
        Ok(())
    }
}

fn reason_name(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::Unknown => "UNKNOWN",
        FailureReason::ReadTooManyTombstones => "READ_TOO_MANY_TOMBSTONES",
        FailureReason::Timeout => "TIMEOUT",
        FailureReason::IncompatibleSchema => "INCOMPATIBLE_SCHEMA",
        FailureReason::ReadSize => "READ_SIZE",
        FailureReason::NodeDown => "NODE_DOWN",
        FailureReason::IndexNotAvailable => "INDEX_NOT_AVAILABLE",
        FailureReason::ReadTooManyIndexes => "READ_TOO_MANY_INDEXES",
    }
}

impl fmt::Display for FunctionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FunctionFailure {
            keyspace,
            function,
            argument_types,
            detail,
        } = self;
        // Operators are functions without a name; their detail is the whole message.
        if function.starts_with('_') {
            return f.write_str(detail);
        }
        write!(
            f,
            "execution of '{keyspace}.{function}[{}]' failed: {detail}",
            argument_types.join(", ")
        )
    }
}

impl From<fmt::Arguments<'_>> for Message {
    fn from(text: fmt::Arguments<'_>) -> Self {
        Message(match text.as_str() {
            Some(fixed) => MessageText::Fixed(fixed),
            None => MessageText::Formatted(Box::new(text.to_string())),
        })
    }
}

impl From<&'static str> for Message {
    fn from(text: &'static str) -> Self {
        Message(MessageText::Fixed(text))
    }
}

impl Message {
    pub fn as_str(&self) -> &str {
        match &self.0 {
            MessageText::Fixed(text) => text,
            MessageText::Formatted(text) => text,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_written_with_its_code_and_message() {
        let mut out = Vec::new();
        CqlError::invalid(format_args!("no {}", 7)).write(&mut out, ProtocolVersion::V5);
        assert_eq!(out, b"\0\0\x22\0\0\x04no 7");
        assert_eq!(
            CqlError::Unprepared(PreparedId([0; 16])).code(),
            ErrorCode::Unprepared
        );
    }

    #[test]
    fn messages_are_cassandras() {
        let table = AlreadyExists::Table {
            keyspace: "ks".to_owned(),
            table: "t".to_owned(),
        };
        let keyspace = AlreadyExists::Keyspace {
            keyspace: "ks".to_owned(),
        };
        let failure = FunctionFailure {
            keyspace: "ks".to_owned(),
            function: "f".to_owned(),
            argument_types: vec!["int".to_owned(), "text".to_owned()],
            detail: "boom".to_owned(),
        };
        let cases = [
            (CqlError::invalid(format_args!("fixed")), "fixed"),
            (CqlError::config(format_args!("{} formatted", 1)), "1 formatted"),
            (
                CqlError::AlreadyExists(Box::new(table)),
                "Cannot add already existing table \"t\" to keyspace \"ks\"",
            ),
            (
                CqlError::AlreadyExists(Box::new(keyspace)),
                "Cannot add existing keyspace \"ks\"",
            ),
            (
                CqlError::FunctionFailure(Box::new(failure)),
                "execution of 'ks.f[int, text]' failed: boom",
            ),
        ];
        for (error, message) in cases {
            assert_eq!(error.to_string(), message);
        }
        let timeout = CqlError::ReadTimeout {
            consistency: Consistency::Quorum,
            received: 1,
            block_for: 2,
            data_present: false,
        };
        assert_eq!(
            timeout.to_string(),
            "Operation timed out - received only 1 responses."
        );
        let id = PreparedId(std::array::from_fn(|index| 0xf0 + index as u8));
        assert!(
            CqlError::Unprepared(id)
                .to_string()
                .starts_with("Prepared query with ID f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff not found (either")
        );
    }
}
