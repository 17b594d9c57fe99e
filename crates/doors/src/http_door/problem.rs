//! Errors as problem documents (RFC 9457), with the native protocol's code and Cassandra's words.

use helenus_protocol::ErrorCode;
use helenus_types::json::write_json_string;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

use super::{set_allowed, whole};
use crate::body::Body;
use crate::failure::Failure;

/// The answer that says what is wrong.
pub fn response(failure: &Failure) -> Response<Body> {
    let status = status(failure);
    let mut response = whole(status, "application/problem+json", document(failure));
    match failure {
        Failure::Method(methods) => set_allowed(&mut response, methods),
        Failure::Unauthenticated(_) => {
            let scheme = HeaderValue::from_static("x-cassandra-token");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        _ => {}
    }
    if is_worth_waiting(status) {
        let seconds = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}

/// Where nothing was done, and will be when there is less to do.
fn is_worth_waiting(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
    )
}

/// The problem document.
pub fn document(failure: &Failure) -> String {
    let code = failure.code();
    let mut out = format!(
        "{{\"type\":\"urn:cassandra:error:{:04x}\",\"title\":\"{}\",\"status\":{},\"detail\":",
        code.number(),
        code.name(),
        status(failure).as_u16(),
    );
    write_json_string(&mut out, &failure.message());
    out.push_str(&format!(",\"code\":{}}}", code.number()));
    out
}

fn status(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Server(error) => status_of(error.code),
        Failure::Invalid(_) | Failure::Malformed(_) => StatusCode::BAD_REQUEST,
        Failure::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
        Failure::Forbidden(_) => StatusCode::FORBIDDEN,
        Failure::NotFound => StatusCode::NOT_FOUND,
        Failure::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
        Failure::MediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Failure::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Failure::Slow => StatusCode::REQUEST_TIMEOUT,
        Failure::NoRoom | Failure::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        Failure::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::ProtocolError
        | ErrorCode::SyntaxError
        | ErrorCode::Invalid
        | ErrorCode::ConfigError
        | ErrorCode::FunctionFailure => StatusCode::BAD_REQUEST,
        ErrorCode::BadCredentials => StatusCode::UNAUTHORIZED,
        ErrorCode::Unauthorized => StatusCode::FORBIDDEN,
        ErrorCode::AlreadyExists => StatusCode::CONFLICT,
        ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Unavailable | ErrorCode::Overloaded | ErrorCode::IsBootstrapping => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        ErrorCode::WriteTimeout | ErrorCode::ReadTimeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::ServerError
        | ErrorCode::TruncateError
        | ErrorCode::ReadFailure
        | ErrorCode::WriteFailure
        | ErrorCode::CdcWriteFailure
        | ErrorCode::CasWriteUnknown
        | ErrorCode::Unprepared => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_cassandra_says() {
        let failure = Failure::Invalid("table \"t\" does not exist".to_owned());
        assert_eq!(
            document(&failure),
            r#"{"type":"urn:cassandra:error:2200","title":"INVALID","status":400,"detail":"table \"t\" does not exist","code":8704}"#
        );
    }
}
