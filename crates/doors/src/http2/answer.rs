//! Answers on their way to a connection.

use std::time::{Duration, SystemTime};

use helenus_http2::ErrorCode;
use helenus_vfs::Clock;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderValue, Response};

use super::Requests;
use crate::body::{Body, Piece};

/// Gives an answer to the connection, whose client may take its time.
pub async fn send(
    requests: &Requests,
    stream: u32,
    is_head: bool,
    response: Response<Body>,
    clock: &dyn Clock,
) {
    let (parts, body) = response.into_parts();
    let mut headers = parts.headers;
    let is_grpc = headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value == "application/grpc");
    if !is_grpc {
        complete(&mut headers, &body, clock);
    }
    let pieces = match body {
        Body::Whole { bytes, trailers } => {
            let mut connection = requests.connection();
            let is_all = is_head || (bytes.is_empty() && trailers.is_none());
            connection.respond(stream, parts.status, &headers, is_all);
            if !is_all {
                connection.send(stream, bytes);
                connection.finish(stream, trailers);
            }
            drop(connection);
            return requests.wake();
        }
        Body::Stream(pieces) => pieces,
    };
    requests
        .connection()
        .respond(stream, parts.status, &headers, is_head);
    requests.wake();
    if !is_head {
        send_pieces(requests, stream, pieces).await;
    }
}

async fn send_pieces(requests: &Requests, stream: u32, mut pieces: tokio::sync::mpsc::Receiver<Piece>) {
    let mut trailers = None;
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Data(bytes) => {
                requests.connection().send(stream, bytes);
                requests.wake();
                requests.room(stream).await;
            }
            Piece::Trailers(last) => {
                trailers = Some(last);
                break;
            }
            Piece::Broken => {
                requests.connection().reset(stream, ErrorCode::InternalError);
                return requests.wake();
            }
        }
    }
    requests.connection().finish(stream, trailers);
    requests.wake();
}

/// Headers that HTTP wants of an answer (RFC 9110, sections 6.6.1 and 8.6), and that gRPC does without.
fn complete(headers: &mut HeaderMap, body: &Body, clock: &dyn Clock) {
    if let Body::Whole { bytes, .. } = body {
        headers
            .entry(CONTENT_LENGTH)
            .or_insert_with(|| HeaderValue::from(bytes.len()));
    }
    let since = Duration::from_secs(u64::from(clock.wall_s()));
    let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since);
    if let Ok(date) = HeaderValue::try_from(date) {
        headers.insert(DATE, date);
    }
}
