//! ERROR: a code, a message, and what some codes add (native_protocol_v5.spec, section 9).

use std::fmt::Display;
use std::net::IpAddr;

use crate::consistency::Consistency;
use crate::error_code::{ErrorCode, FailureReason, WriteType};
use crate::extensions::RateLimitedOperation;
use crate::frame::ResponseTooBig;
use crate::version::ProtocolVersion;
use crate::wire::{
    put_byte, put_consistency, put_formatted, put_inet_address, put_int, put_short, put_short_bytes,
    put_string, put_string_list,
};

/// An error of a service that a request can be answered with.
pub trait WireError: From<ResponseTooBig> {
    /// Its code.
    fn code(&self) -> ErrorCode;

    /// Appends the body of an ERROR message. A client that does not know the rate-limit error is told in another way.
    fn write(&self, out: &mut Vec<u8>, version: ProtocolVersion, knows_rate_limit_error: bool);
}

/// An error's code and the fields that travel behind its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorBody<'a> {
    ServerError,
    ProtocolError,
    BadCredentials,
    Unavailable {
        consistency: Consistency,
        required: i32,
        alive: i32,
    },
    Overloaded,
    IsBootstrapping,
    TruncateError,
    WriteTimeout {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        write_type: WriteType,
        /// How often a lightweight transaction had to start again; sent in v5 with [`WriteType::Cas`] only.
        contentions: Option<u16>,
    },
    ReadTimeout {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        data_present: bool,
    },
    ReadFailure {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        failures: Vec<(IpAddr, FailureReason)>,
        data_present: bool,
    },
    FunctionFailure {
        keyspace: &'a str,
        function: &'a str,
        argument_types: Vec<&'a str>,
    },
    WriteFailure {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        failures: Vec<(IpAddr, FailureReason)>,
        write_type: WriteType,
    },
    CdcWriteFailure,
    CasWriteUnknown {
        consistency: Consistency,
        received: i32,
        block_for: i32,
    },
    SyntaxError,
    Unauthorized,
    Invalid,
    ConfigError,
    AlreadyExists {
        keyspace: &'a str,
        /// Empty if it is the keyspace that exists.
        table: &'a str,
    },
    Unprepared {
        statement_id: &'a [u8],
    },
    RateLimited {
        operation: RateLimitedOperation,
        is_by_coordinator: bool,
    },
}

impl ErrorBody<'_> {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::ServerError => ErrorCode::ServerError,
            Self::ProtocolError => ErrorCode::ProtocolError,
            Self::BadCredentials => ErrorCode::BadCredentials,
            Self::Unavailable { .. } => ErrorCode::Unavailable,
            Self::Overloaded => ErrorCode::Overloaded,
            Self::IsBootstrapping => ErrorCode::IsBootstrapping,
            Self::TruncateError => ErrorCode::TruncateError,
            Self::WriteTimeout { .. } => ErrorCode::WriteTimeout,
            Self::ReadTimeout { .. } => ErrorCode::ReadTimeout,
            Self::ReadFailure { .. } => ErrorCode::ReadFailure,
            Self::FunctionFailure { .. } => ErrorCode::FunctionFailure,
            Self::WriteFailure { .. } => ErrorCode::WriteFailure,
            Self::CdcWriteFailure => ErrorCode::CdcWriteFailure,
            Self::CasWriteUnknown { .. } => ErrorCode::CasWriteUnknown,
            Self::SyntaxError => ErrorCode::SyntaxError,
            Self::Unauthorized => ErrorCode::Unauthorized,
            Self::Invalid => ErrorCode::Invalid,
            Self::ConfigError => ErrorCode::ConfigError,
            Self::AlreadyExists { .. } => ErrorCode::AlreadyExists,
            Self::Unprepared { .. } => ErrorCode::Unprepared,
            Self::RateLimited { .. } => ErrorCode::RateLimited,
        }
    }

    /// The level that was asked for, the responses that came (of an unavailable one those that are required), and those needed
    /// (alive).
    fn counts(&self) -> Option<(Consistency, i32, i32)> {
        match *self {
            Self::Unavailable {
                consistency,
                required: first,
                alive: second,
            }
            | Self::WriteTimeout {
                consistency,
                received: first,
                block_for: second,
                ..
            }
            | Self::ReadTimeout {
                consistency,
                received: first,
                block_for: second,
                ..
            }
            | Self::ReadFailure {
                consistency,
                received: first,
                block_for: second,
                ..
            }
            | Self::WriteFailure {
                consistency,
                received: first,
                block_for: second,
                ..
            }
            | Self::CasWriteUnknown {
                consistency,
                received: first,
                block_for: second,
            } => Some((consistency, first, second)),
            _ => None,
        }
    }

    fn failures(&self) -> Option<&[(IpAddr, FailureReason)]> {
        match self {
            Self::ReadFailure { failures, .. } | Self::WriteFailure { failures, .. } => Some(failures),
            _ => None,
        }
    }

    /// The error that stands for this one in a version that does not know it, as Cassandra chooses it.
    fn stand_in(&self, version: ProtocolVersion) -> Option<ErrorBody<'static>> {
        let is_v3 = version < ProtocolVersion::V4;
        match *self {
            Self::ReadFailure {
                consistency,
                received,
                block_for,
                data_present,
                ..
            } if is_v3 => Some(ErrorBody::ReadTimeout {
                consistency,
                received,
                block_for,
                data_present,
            }),
            Self::WriteFailure {
                consistency,
                received,
                block_for,
                write_type,
                ..
            } if is_v3 => Some(write_timeout(consistency, received, block_for, write_type)),
            Self::FunctionFailure { .. } | Self::CdcWriteFailure if is_v3 => Some(ErrorBody::Invalid),
            Self::CasWriteUnknown {
                consistency,
                received,
                block_for,
            }
            | Self::WriteTimeout {
                consistency,
                received,
                block_for,
                contentions: Some(_),
                ..
            } if version < ProtocolVersion::V5 => {
                Some(write_timeout(consistency, received, block_for, WriteType::Cas))
            }
            _ => None,
        }
    }
}

fn write_timeout(
    consistency: Consistency,
    received: i32,
    block_for: i32,
    write_type: WriteType,
) -> ErrorBody<'static> {
    ErrorBody::WriteTimeout {
        consistency,
        received,
        block_for,
        write_type,
        contentions: None,
    }
}

/// Writes the body of ERROR. `message` is formatted straight into `out`; pass `format_args!` to allocate nothing.
///
/// Where `version` does not know the error, its nearest relative is sent instead, with the words Cassandra uses.
pub fn write_error(out: &mut Vec<u8>, version: ProtocolVersion, body: &ErrorBody<'_>, message: impl Display) {
    let stand_in = body.stand_in(version);
    let sent = stand_in.as_ref().unwrap_or(body);
    put_int(out, sent.code().number().cast_signed());
    match &stand_in {
        None => put_formatted(out, message),
        Some(ErrorBody::ReadTimeout { received, .. } | ErrorBody::WriteTimeout { received, .. }) => {
            put_formatted(
                out,
                format_args!("Operation timed out - received only {received} responses."),
            );
        }
        Some(_) => put_formatted(out, format_args!("ERROR {}: {message}", body.code())),
    }
    put_fields(out, version, sent);
}

/// Behind the message: responses counted, then replicas that failed, then what only this error has.
fn put_fields(out: &mut Vec<u8>, version: ProtocolVersion, body: &ErrorBody<'_>) {
    if let Some((consistency, received, block_for)) = body.counts() {
        put_consistency(out, consistency);
        put_int(out, received);
        put_int(out, block_for);
    }
    if let Some(failures) = body.failures() {
        put_failures(out, version, failures);
    }
    match body {
        ErrorBody::WriteTimeout {
            write_type,
            contentions,
            ..
        } => {
            put_string(out, write_type.name());
            if let Some(contentions) = contentions.filter(|_| version >= ProtocolVersion::V5) {
                put_short(out, contentions);
            }
        }
        ErrorBody::ReadTimeout { data_present, .. } | ErrorBody::ReadFailure { data_present, .. } => {
            put_byte(out, u8::from(*data_present));
        }
        ErrorBody::WriteFailure { write_type, .. } => put_string(out, write_type.name()),
        ErrorBody::FunctionFailure {
            keyspace,
            function,
            argument_types,
        } => {
            put_string(out, keyspace);
            put_string(out, function);
            put_string_list(out, argument_types);
        }
        ErrorBody::AlreadyExists { keyspace, table } => {
            put_string(out, keyspace);
            put_string(out, table);
        }
        ErrorBody::Unprepared { statement_id } => put_short_bytes(out, statement_id),
        ErrorBody::RateLimited {
            operation,
            is_by_coordinator,
        } => {
            put_byte(out, *operation as u8);
            put_byte(out, u8::from(*is_by_coordinator));
        }
        ErrorBody::Unavailable { .. }
        | ErrorBody::CasWriteUnknown { .. }
        | ErrorBody::ServerError
        | ErrorBody::ProtocolError
        | ErrorBody::BadCredentials
        | ErrorBody::Overloaded
        | ErrorBody::IsBootstrapping
        | ErrorBody::TruncateError
        | ErrorBody::CdcWriteFailure
        | ErrorBody::SyntaxError
        | ErrorBody::Unauthorized
        | ErrorBody::Invalid
        | ErrorBody::ConfigError => {}
    }
}

/// Replicas that failed: their number, and in v5 the reason each gave.
fn put_failures(out: &mut Vec<u8>, version: ProtocolVersion, failures: &[(IpAddr, FailureReason)]) {
    // One per replica, so far below 2^31.
    put_int(out, failures.len() as i32);
    if version >= ProtocolVersion::V5 {
        for (address, reason) in failures {
            put_inet_address(out, *address);
            put_short(out, reason.number());
        }
    }
}
