//! ERROR as a client reads it.

use std::net::IpAddr;

use crate::consistency::Consistency;
use crate::error_code::{ErrorCode, FailureReason, WriteType};
use crate::extensions::RateLimitedOperation;
use crate::response::error::ErrorBody;
use crate::version::ProtocolVersion;
use crate::wire::{DecodeError, WireReader};

/// An error a server answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedError<'a> {
    pub message: &'a str,
    pub body: ErrorBody<'a>,
}

impl<'a> ReceivedError<'a> {
    pub(super) fn decode(reader: &mut WireReader<'a>, version: ProtocolVersion) -> Result<Self, DecodeError> {
        let number = reader.int("an error code")?.cast_unsigned();
        let code = ErrorCode::from_number(number).ok_or(DecodeError::UnknownErrorCode(number))?;
        let message = reader.string()?;
        Ok(ReceivedError {
            message,
            body: read_body(reader, version, code)?,
        })
    }
}

fn read_body<'a>(
    reader: &mut WireReader<'a>,
    version: ProtocolVersion,
    code: ErrorCode,
) -> Result<ErrorBody<'a>, DecodeError> {
    Ok(match code {
        ErrorCode::ServerError => ErrorBody::ServerError,
        ErrorCode::ProtocolError => ErrorBody::ProtocolError,
        ErrorCode::BadCredentials => ErrorBody::BadCredentials,
        ErrorCode::Overloaded => ErrorBody::Overloaded,
        ErrorCode::IsBootstrapping => ErrorBody::IsBootstrapping,
        ErrorCode::TruncateError => ErrorBody::TruncateError,
        ErrorCode::CdcWriteFailure => ErrorBody::CdcWriteFailure,
        ErrorCode::SyntaxError => ErrorBody::SyntaxError,
        ErrorCode::Unauthorized => ErrorBody::Unauthorized,
        ErrorCode::Invalid => ErrorBody::Invalid,
        ErrorCode::ConfigError => ErrorBody::ConfigError,
        ErrorCode::Unavailable => {
            let (consistency, required, alive) = read_counts(reader)?;
            ErrorBody::Unavailable {
                consistency,
                required,
                alive,
            }
        }
        ErrorCode::WriteTimeout => {
            let (consistency, received, block_for) = read_counts(reader)?;
            let write_type = read_write_type(reader)?;
            let has_contentions =
                version >= ProtocolVersion::V5 && write_type == WriteType::Cas && !reader.rest().is_empty();
            let contentions = if has_contentions {
                Some(reader.short("contentions")?)
            } else {
                None
            };
            ErrorBody::WriteTimeout {
                consistency,
                received,
                block_for,
                write_type,
                contentions,
            }
        }
        ErrorCode::ReadTimeout => {
            let (consistency, received, block_for) = read_counts(reader)?;
            let data_present = reader.byte("data presence")? != 0;
            ErrorBody::ReadTimeout {
                consistency,
                received,
                block_for,
                data_present,
            }
        }
        ErrorCode::ReadFailure => {
            let (consistency, received, block_for) = read_counts(reader)?;
            let failures = read_failures(reader, version)?;
            let data_present = reader.byte("data presence")? != 0;
            ErrorBody::ReadFailure {
                consistency,
                received,
                block_for,
                failures,
                data_present,
            }
        }
        ErrorCode::WriteFailure => {
            let (consistency, received, block_for) = read_counts(reader)?;
            let failures = read_failures(reader, version)?;
            let write_type = read_write_type(reader)?;
            ErrorBody::WriteFailure {
                consistency,
                received,
                block_for,
                failures,
                write_type,
            }
        }
        ErrorCode::CasWriteUnknown => {
            let (consistency, received, block_for) = read_counts(reader)?;
            ErrorBody::CasWriteUnknown {
                consistency,
                received,
                block_for,
            }
        }
        ErrorCode::FunctionFailure => {
            let (keyspace, function) = (reader.string()?, reader.string()?);
            let argument_types = super::StringList::decode(reader)?.iter().collect();
            ErrorBody::FunctionFailure {
                keyspace,
                function,
                argument_types,
            }
        }
        ErrorCode::AlreadyExists => ErrorBody::AlreadyExists {
            keyspace: reader.string()?,
            table: reader.string()?,
        },
        ErrorCode::Unprepared => ErrorBody::Unprepared {
            statement_id: reader.short_bytes()?,
        },
        ErrorCode::RateLimited => ErrorBody::RateLimited {
            operation: match reader.byte("the kind of operation")? {
                0 => RateLimitedOperation::Read,
                _ => RateLimitedOperation::Write,
            },
            is_by_coordinator: reader.byte("who refused")? != 0,
        },
    })
}

fn read_counts(reader: &mut WireReader<'_>) -> Result<(Consistency, i32, i32), DecodeError> {
    Ok((
        reader.consistency()?,
        reader.int("responses")?,
        reader.int("responses needed")?,
    ))
}

fn read_write_type(reader: &mut WireReader<'_>) -> Result<WriteType, DecodeError> {
    let name = reader.string()?;
    WriteType::from_name(name).ok_or_else(|| DecodeError::UnknownName {
        value: name.into(),
        kind: "WriteType",
    })
}

/// v3 and v4 give the number of failures only, which is read as that many unknown ones would be: not at all.
fn read_failures(
    reader: &mut WireReader<'_>,
    version: ProtocolVersion,
) -> Result<Vec<(IpAddr, FailureReason)>, DecodeError> {
    if version < ProtocolVersion::V5 {
        reader.int("failures")?;
        return Ok(Vec::new());
    }
    // A failure is at least an IPv4 address (5 bytes) and a reason (2 bytes).
    let count = reader.long_count("failures", 7)?;
    (0..count)
        .map(|_| {
            let address = reader.inet_address()?;
            Ok((
                address,
                FailureReason::from_number(reader.short("a failure's reason")?),
            ))
        })
        .collect()
}
