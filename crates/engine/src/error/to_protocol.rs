//! The one place where errors of execution become errors of the protocol.

use helenus_protocol::frame::ResponseTooBig;
use helenus_protocol::response::{ErrorBody, WireError, write_error};
use helenus_protocol::{ErrorCode, ProtocolVersion, WriteType};

use super::cql_error::CqlError;
use super::failure::FunctionFailure;

impl From<ResponseTooBig> for CqlError {
    fn from(too_big: ResponseTooBig) -> Self {
        CqlError::invalid(format_args!("{too_big}; ask for it in pages"))
    }
}

impl WireError for CqlError {
    fn code(&self) -> ErrorCode {
        CqlError::code(self)
    }

    fn write(&self, out: &mut Vec<u8>, version: ProtocolVersion, knows_rate_limit_error: bool) {
        CqlError::write(self, out, version, knows_rate_limit_error);
    }
}

impl CqlError {
    /// Appends the body of an ERROR message. A client that does not know the rate-limit error is told of the table's
    /// options, as by ScyllaDB.
    pub fn write(&self, out: &mut Vec<u8>, version: ProtocolVersion, knows_rate_limit_error: bool) {
        let body = match self.body() {
            ErrorBody::RateLimited { .. } if !knows_rate_limit_error => ErrorBody::ConfigError,
            body => body,
        };
        write_error(out, version, &body, self);
    }

    pub fn code(&self) -> ErrorCode {
        self.body().code()
    }

    fn body(&self) -> ErrorBody<'_> {
        match self {
            CqlError::Syntax(_) | CqlError::SyntaxRule(_) => ErrorBody::SyntaxError,
            CqlError::BadCredentials(_) => ErrorBody::BadCredentials,
            CqlError::Invalid(_) | CqlError::MarkerCount { .. } => ErrorBody::Invalid,
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
            CqlError::CdcWriteFailure(_) => ErrorBody::CdcWriteFailure,
            CqlError::Protocol(_) => ErrorBody::ProtocolError,
            CqlError::Server(_) => ErrorBody::ServerError,
            CqlError::RateLimited { operation, .. } => ErrorBody::RateLimited {
                operation: *operation,
                is_by_coordinator: false,
            },
            CqlError::Unavailable { .. }
            | CqlError::ReadTimeout { .. }
            | CqlError::WriteTimeout { .. }
            | CqlError::CasWriteTimeout { .. }
            | CqlError::CasWriteUnknown { .. }
            | CqlError::ReadFailure(_)
            | CqlError::WriteFailure(_) => self.replica_body(),
        }
    }

    /// The kinds that count the answers of replicas.
    fn replica_body(&self) -> ErrorBody<'_> {
        match *self {
            CqlError::Unavailable {
                consistency,
                required,
                alive,
            } => ErrorBody::Unavailable {
                consistency,
                required,
                alive,
            },
            CqlError::ReadTimeout {
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
            CqlError::WriteTimeout {
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
            CqlError::CasWriteTimeout {
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
            CqlError::CasWriteUnknown {
                consistency,
                received,
                block_for,
            } => ErrorBody::CasWriteUnknown {
                consistency,
                received,
                block_for,
            },
            _ => self.failure_body(),
        }
    }

    /// Those that also say which replicas have failed.
    fn failure_body(&self) -> ErrorBody<'_> {
        match self {
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
            // `body` sends no other kind here.
            _ => ErrorBody::ServerError,
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use helenus_protocol::Consistency;
    use helenus_protocol::extensions::RateLimitedOperation;
    use helenus_schema::{PerPartitionRateLimit, TableMetadata, TableParams};

    use super::*;
    use crate::error::{AlreadyExists, PreparedId};
    use crate::modify::no_table;

    #[test]
    fn an_error_is_written_with_its_code_and_message() {
        let mut out = Vec::new();
        CqlError::invalid(format_args!("no {}", 7)).write(&mut out, ProtocolVersion::V5, false);
        assert_eq!(out, b"\0\0\x22\0\0\x04no 7");
        assert_eq!(
            CqlError::Unprepared(PreparedId([0; 16])).code(),
            ErrorCode::Unprepared
        );
    }

    #[test]
    fn a_rate_limit_has_its_own_error_only_where_it_was_negotiated() {
        let table = TableMetadata {
            keyspace: "ks".into(),
            name: "t".into(),
            params: TableParams {
                per_partition_rate_limit: Some(PerPartitionRateLimit {
                    max_reads_per_second: None,
                    max_writes_per_second: NonZeroU32::new(7),
                }),
                ..TableParams::default()
            },
            ..no_table()
        };
        let error = CqlError::RateLimited {
            table: Arc::new(table),
            operation: RateLimitedOperation::Write,
        };
        let text = b"Per-partition rate limit of ks.t reached: 7 writes per second";
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        error.write(&mut known, ProtocolVersion::V4, true);
        error.write(&mut unknown, ProtocolVersion::V4, false);
        assert_eq!(
            known,
            [&[0, 0, 0x43, 0x21, 0, text.len() as u8], &text[..], &[1, 0]].concat()
        );
        assert_eq!(
            unknown,
            [&[0, 0, 0x23, 0, 0, text.len() as u8], &text[..]].concat()
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
            is_detail_alone: false,
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
