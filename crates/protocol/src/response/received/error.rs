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
        ErrorCode::Unavailable => read_unavailable(reader)?,
        ErrorCode::WriteTimeout => read_write_timeout(reader, version)?,
        ErrorCode::ReadTimeout => read_read_timeout(reader)?,
        ErrorCode::ReadFailure => read_read_failure(reader, version)?,
        ErrorCode::WriteFailure => read_write_failure(reader, version)?,
        ErrorCode::CasWriteUnknown => read_cas_write_unknown(reader)?,
        ErrorCode::FunctionFailure => ErrorBody::FunctionFailure {
            keyspace: reader.string()?,
            function: reader.string()?,
            argument_types: super::StringList::decode(reader)?.iter().collect(),
        },
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

fn read_unavailable(reader: &mut WireReader<'_>) -> Result<ErrorBody<'static>, DecodeError> {
    let (consistency, required, alive) = read_counts(reader)?;
    Ok(ErrorBody::Unavailable {
        consistency,
        required,
        alive,
    })
}

fn read_write_timeout(
    reader: &mut WireReader<'_>,
    version: ProtocolVersion,
) -> Result<ErrorBody<'static>, DecodeError> {
    let (consistency, received, block_for) = read_counts(reader)?;
    let write_type = read_write_type(reader)?;
    let has_contentions =
        version >= ProtocolVersion::V5 && write_type == WriteType::Cas && !reader.rest().is_empty();
    let contentions = if has_contentions {
        Some(reader.short("contentions")?)
    } else {
        None
    };
    Ok(ErrorBody::WriteTimeout {
        consistency,
        received,
        block_for,
        write_type,
        contentions,
    })
}

fn read_read_timeout(reader: &mut WireReader<'_>) -> Result<ErrorBody<'static>, DecodeError> {
    let (consistency, received, block_for) = read_counts(reader)?;
    Ok(ErrorBody::ReadTimeout {
        consistency,
        received,
        block_for,
        data_present: reader.byte("data presence")? != 0,
    })
}

fn read_read_failure(
    reader: &mut WireReader<'_>,
    version: ProtocolVersion,
) -> Result<ErrorBody<'static>, DecodeError> {
    let (consistency, received, block_for) = read_counts(reader)?;
    Ok(ErrorBody::ReadFailure {
        consistency,
        received,
        block_for,
        failures: read_failures(reader, version)?,
        data_present: reader.byte("data presence")? != 0,
    })
}

fn read_write_failure(
    reader: &mut WireReader<'_>,
    version: ProtocolVersion,
) -> Result<ErrorBody<'static>, DecodeError> {
    let (consistency, received, block_for) = read_counts(reader)?;
    Ok(ErrorBody::WriteFailure {
        consistency,
        received,
        block_for,
        failures: read_failures(reader, version)?,
        write_type: read_write_type(reader)?,
    })
}

fn read_cas_write_unknown(reader: &mut WireReader<'_>) -> Result<ErrorBody<'static>, DecodeError> {
    let (consistency, received, block_for) = read_counts(reader)?;
    Ok(ErrorBody::CasWriteUnknown {
        consistency,
        received,
        block_for,
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
