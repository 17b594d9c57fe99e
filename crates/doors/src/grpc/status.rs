//! How a call ended, as gRPC says it, with what Stargate's clients find out about Cassandra's errors.

use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use helenus_protocol::response::ErrorBody;
use helenus_protocol::{Consistency, ErrorCode};
use http::{HeaderMap, HeaderName, HeaderValue};
use prost::Message;

use super::proto::stargate;
use crate::failure::Failure;

/// gRPC's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    Ok = 0,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// The end of a call.
#[derive(Clone, Debug)]
pub struct Status {
    pub code: i32,
    pub message: String,
    /// Besides code and message.
    pub trailers: Box<HeaderMap>,
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// After how many milliseconds a client may try again (gRFC A6); one that is negative says never.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Bytes of a status's message: more than Cassandra says, and less than clients take of headers.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

impl Status {
    pub fn ok() -> Self {
        Status::new(Code::Ok, String::new())
    }

    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Status {
            code: code as i32,
            message: message.into(),
            trailers: Box::default(),
        }
    }

    /// Stargate's mapping. Whether a client may send the same call again is said where it is certain that nothing was done.
    pub fn of(failure: &Failure) -> Self {
        let mut status = Status::new(code_of(failure), failure.message());
        let pushback_ms = match failure {
            Failure::TooLarge { .. } => Some("-1"),
            Failure::Stopping => Some("0"),
            _ if failure.code() == ErrorCode::Overloaded => Some("100"),
            // Partitions have their rates by the second.
            _ if failure.code() == ErrorCode::RateLimited => Some("1000"),
            _ => None,
        };
        if let Some(pushback_ms) = pushback_ms {
            status
                .trailers
                .insert(PUSHBACK, HeaderValue::from_static(pushback_ms));
        }
        if let Some((name, message)) = failure.details().as_ref().and_then(detail) {
            let encoded = BASE64_STANDARD_NO_PAD.encode(message);
            if let Ok(value) = HeaderValue::from_str(&encoded) {
                status.trailers.insert(HeaderName::from_static(name), value);
            }
        }
        status
    }

    /// The last headers of an answer to a call in which nothing was wrong.
    pub fn ok_headers() -> &'static HeaderMap {
        static OK: LazyLock<HeaderMap> =
            LazyLock::new(|| HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static("0"))]));
        &OK
    }

    /// As the last headers of an answer.
    pub fn into_headers(self) -> HeaderMap {
        let mut headers = *self.trailers;
        headers.insert(GRPC_STATUS, HeaderValue::from(self.code));
        if !self.message.is_empty()
            && let Ok(value) = HeaderValue::from_str(&percent_encoded(&self.message))
        {
            headers.insert(GRPC_MESSAGE, value);
        }
        headers
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        Status::of(&failure)
    }
}

fn code_of(failure: &Failure) -> Code {
    match failure {
        Failure::Server(error) => code_of_error(error.code),
        Failure::Invalid(_) => Code::InvalidArgument,
        Failure::Malformed(_) | Failure::Internal(_) => Code::Internal,
        Failure::Unauthenticated(_) => Code::Unauthenticated,
        Failure::Forbidden(_) => Code::PermissionDenied,
        Failure::NotFound | Failure::Method(_) | Failure::MediaType(_) => Code::Unimplemented,
        Failure::TooLarge { .. } | Failure::NoRoom => Code::ResourceExhausted,
        Failure::Slow => Code::DeadlineExceeded,
        Failure::Stopping => Code::Unavailable,
    }
}

fn code_of_error(code: ErrorCode) -> Code {
    match code {
        ErrorCode::ServerError | ErrorCode::ProtocolError | ErrorCode::Unprepared => Code::Internal,
        ErrorCode::Invalid | ErrorCode::SyntaxError => Code::InvalidArgument,
        ErrorCode::TruncateError
        | ErrorCode::CdcWriteFailure
        | ErrorCode::ReadFailure
        | ErrorCode::WriteFailure
        | ErrorCode::CasWriteUnknown => Code::Aborted,
        ErrorCode::BadCredentials => Code::Unauthenticated,
        ErrorCode::Unauthorized => Code::PermissionDenied,
        ErrorCode::Unavailable | ErrorCode::IsBootstrapping => Code::Unavailable,
        ErrorCode::Overloaded | ErrorCode::RateLimited => Code::ResourceExhausted,
        ErrorCode::ReadTimeout | ErrorCode::WriteTimeout => Code::DeadlineExceeded,
        ErrorCode::ConfigError | ErrorCode::FunctionFailure => Code::FailedPrecondition,
        ErrorCode::AlreadyExists => Code::AlreadyExists,
    }
}

/// Details of an error besides its words: the trailer's name, and the message in it.
fn detail(body: &ErrorBody<'_>) -> Option<(&'static str, Vec<u8>)> {
    Some(match body {
        ErrorBody::Unavailable {
            consistency,
            required,
            alive,
        } => {
            let message = stargate::Unavailable {
                consistency: number(*consistency),
                required: *required,
                alive: *alive,
            };
            ("stargate.unavailable-bin", message.encode_to_vec())
        }
        ErrorBody::WriteTimeout {
            consistency,
            received,
            block_for,
            write_type,
            ..
        } => {
            let message = stargate::WriteTimeout {
                consistency: number(*consistency),
                received: *received,
                block_for: *block_for,
                write_type: write_type.name().to_owned(),
            };
            ("stargate.writetimeout-bin", message.encode_to_vec())
        }
        ErrorBody::ReadTimeout {
            consistency,
            received,
            block_for,
            data_present,
        } => {
            let message = stargate::ReadTimeout {
                consistency: number(*consistency),
                received: *received,
                block_for: *block_for,
                data_present: *data_present,
            };
            ("stargate.readtimeout-bin", message.encode_to_vec())
        }
        ErrorBody::AlreadyExists { keyspace, table } => {
            let message = stargate::AlreadyExists {
                keyspace: (*keyspace).to_owned(),
                table: (*table).to_owned(),
            };
            ("stargate.alreadyexists-bin", message.encode_to_vec())
        }
        other => return failure_detail(other),
    })
}

fn failure_detail(body: &ErrorBody<'_>) -> Option<(&'static str, Vec<u8>)> {
    Some(match body {
        ErrorBody::ReadFailure {
            consistency,
            received,
            block_for,
            failures,
            data_present,
        } => {
            let message = stargate::ReadFailure {
                consistency: number(*consistency),
                received: *received,
                block_for: *block_for,
                num_failures: failures.len() as i32,
                data_present: *data_present,
            };
            ("stargate.readfailure-bin", message.encode_to_vec())
        }
        ErrorBody::WriteFailure {
            consistency,
            received,
            block_for,
            failures,
            write_type,
        } => {
            let message = stargate::WriteFailure {
                consistency: number(*consistency),
                received: *received,
                block_for: *block_for,
                num_failures: failures.len() as i32,
                write_type: write_type.name().to_owned(),
            };
            ("stargate.writefailure-bin", message.encode_to_vec())
        }
        ErrorBody::FunctionFailure {
            keyspace,
            function,
            argument_types,
        } => {
            let message = stargate::FunctionFailure {
                keyspace: (*keyspace).to_owned(),
                function: (*function).to_owned(),
                arg_types: argument_types.iter().map(|name| (*name).to_owned()).collect(),
            };
            ("stargate.functionfailure-bin", message.encode_to_vec())
        }
        ErrorBody::CasWriteUnknown {
            consistency,
            received,
            block_for,
        } => {
            let message = stargate::CasWriteUnknown {
                consistency: number(*consistency),
                received: *received,
                block_for: *block_for,
            };
            ("stargate.caswriteunknown-bin", message.encode_to_vec())
        }
        _ => return None,
    })
}

/// Stargate's numbers are those of the native protocol.
fn number(consistency: Consistency) -> i32 {
    i32::from(consistency.code())
}

/// As `grpc-message` travels.
fn percent_encoded(message: &str) -> String {
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
    let mut out = String::with_capacity(end);
    for byte in message.bytes().take(end) {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_travel_as_ascii() {
        assert_eq!(percent_encoded("a \u{e9}%\n"), "a %C3%A9%25%0A");
    }

    #[test]
    fn who_may_come_again_is_told_when() {
        let pushback = |failure: Failure| Status::of(&failure).trailers.get(PUSHBACK).cloned();
        assert_eq!(pushback(Failure::NoRoom).unwrap(), "100");
        assert_eq!(pushback(Failure::TooLarge { bytes_max: None }).unwrap(), "-1");
        assert_eq!(pushback(Failure::Internal(String::new())), None);
    }
}
