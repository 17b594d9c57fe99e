//! Error codes and the words that travel with them.

use std::fmt;

use crate::extensions::RATE_LIMIT_ERROR_NUMBER;

/// The code of an ERROR message: the one list of them in Helenus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    ServerError = 0x0000,
    ProtocolError = 0x000A,
    BadCredentials = 0x0100,
    Unavailable = 0x1000,
    Overloaded = 0x1001,
    IsBootstrapping = 0x1002,
    TruncateError = 0x1003,
    WriteTimeout = 0x1100,
    ReadTimeout = 0x1200,
    ReadFailure = 0x1300,
    FunctionFailure = 0x1400,
    WriteFailure = 0x1500,
    CdcWriteFailure = 0x1600,
    CasWriteUnknown = 0x1700,
    SyntaxError = 0x2000,
    Unauthorized = 0x2100,
    Invalid = 0x2200,
    ConfigError = 0x2300,
    AlreadyExists = 0x2400,
    Unprepared = 0x2500,
    /// ScyllaDB's; sent to clients that have negotiated it, see `RATE_LIMIT_ERROR_NUMBER`.
    RateLimited = RATE_LIMIT_ERROR_NUMBER,
}

impl ErrorCode {
    pub const ALL: [ErrorCode; 21] = [
        Self::ServerError,
        Self::ProtocolError,
        Self::BadCredentials,
        Self::Unavailable,
        Self::Overloaded,
        Self::IsBootstrapping,
        Self::TruncateError,
        Self::WriteTimeout,
        Self::ReadTimeout,
        Self::ReadFailure,
        Self::FunctionFailure,
        Self::WriteFailure,
        Self::CdcWriteFailure,
        Self::CasWriteUnknown,
        Self::SyntaxError,
        Self::Unauthorized,
        Self::Invalid,
        Self::ConfigError,
        Self::AlreadyExists,
        Self::Unprepared,
        Self::RateLimited,
    ];

    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }

    #[inline]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Returns whether the error is of the statement, or of who sent it, so that it comes again: not of the server, its load or a
    /// connection.
    pub fn is_of_statement(self) -> bool {
        matches!(
            self,
            Self::SyntaxError
                | Self::Unauthorized
                | Self::Invalid
                | Self::ConfigError
                | Self::AlreadyExists
                | Self::FunctionFailure
        )
    }

    /// Cassandra's name for the code, e.g. `READ_TIMEOUT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ServerError => "SERVER_ERROR",
            Self::ProtocolError => "PROTOCOL_ERROR",
            Self::BadCredentials => "BAD_CREDENTIALS",
            Self::Unavailable => "UNAVAILABLE",
            Self::Overloaded => "OVERLOADED",
            Self::IsBootstrapping => "IS_BOOTSTRAPPING",
            Self::TruncateError => "TRUNCATE_ERROR",
            Self::WriteTimeout => "WRITE_TIMEOUT",
            Self::ReadTimeout => "READ_TIMEOUT",
            Self::ReadFailure => "READ_FAILURE",
            Self::FunctionFailure => "FUNCTION_FAILURE",
            Self::WriteFailure => "WRITE_FAILURE",
            Self::CdcWriteFailure => "CDC_WRITE_FAILURE",
            Self::CasWriteUnknown => "CAS_WRITE_UNKNOWN",
            Self::SyntaxError => "SYNTAX_ERROR",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Invalid => "INVALID",
            Self::ConfigError => "CONFIG_ERROR",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::Unprepared => "UNPREPARED",
            Self::RateLimited => "RATE_LIMIT_ERROR",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The kind of write that timed out or failed; a word on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteType {
    Simple,
    Batch,
    UnloggedBatch,
    Counter,
    BatchLog,
    Cas,
    View,
    Cdc,
}

impl WriteType {
    pub const ALL: [WriteType; 8] = [
        Self::Simple,
        Self::Batch,
        Self::UnloggedBatch,
        Self::Counter,
        Self::BatchLog,
        Self::Cas,
        Self::View,
        Self::Cdc,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Batch => "BATCH",
            Self::UnloggedBatch => "UNLOGGED_BATCH",
            Self::Counter => "COUNTER",
            Self::BatchLog => "BATCH_LOG",
            Self::Cas => "CAS",
            Self::View => "VIEW",
            Self::Cdc => "CDC",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|write_type| write_type.name() == name)
    }
}

/// Why one replica failed a request; v5's reason map carries these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum FailureReason {
    Unknown = 0,
    ReadTooManyTombstones = 1,
    Timeout = 2,
    IncompatibleSchema = 3,
    ReadSize = 4,
    NodeDown = 5,
    IndexNotAvailable = 6,
    ReadTooManyIndexes = 7,
}

impl FailureReason {
    const ALL: [FailureReason; 8] = [
        Self::Unknown,
        Self::ReadTooManyTombstones,
        Self::Timeout,
        Self::IncompatibleSchema,
        Self::ReadSize,
        Self::NodeDown,
        Self::IndexNotAvailable,
        Self::ReadTooManyIndexes,
    ];

    #[inline]
    pub fn number(self) -> u16 {
        self as u16
    }

    /// A number a newer server may have added reads as [`FailureReason::Unknown`], as in Cassandra.
    pub fn from_number(number: u16) -> Self {
        Self::ALL
            .get(usize::from(number))
            .copied()
            .unwrap_or(Self::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_and_write_types_round_trip() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_number(code.number()), Some(code));
        }
        assert_eq!(ErrorCode::from_number(0x1004), None);
        for write_type in WriteType::ALL {
            assert_eq!(WriteType::from_name(write_type.name()), Some(write_type));
        }
        assert_eq!(WriteType::from_name("simple"), None);
    }

    #[test]
    fn unknown_failure_reasons_read_as_unknown() {
        assert_eq!(FailureReason::from_number(7), FailureReason::ReadTooManyIndexes);
        assert_eq!(FailureReason::from_number(8), FailureReason::Unknown);
    }
}
