//! Answers as gRPC sends them: messages with their lengths, then the status.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use helenus_http2::Trailers;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use tokio::sync::mpsc;

use super::compression::{ACCEPTED, Compression, ENCODING, UNDERSTOOD};
use super::status::{Code, Status};
use crate::body::{Body, Piece};
use crate::bounds::COMPRESSED_BYTES_MIN;
use crate::failure::Failure;
use crate::memory::Memory;

/// In front of each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The other side of a call that answers with a stream.
pub struct Answers {
    pub pieces: mpsc::Sender<Piece>,
    pub compression: Option<Compression>,
    pub memory: Arc<Memory>,
    /// Trailers of the end besides the status.
    pub trailers: RefCell<HeaderMap>,
}

impl Answers {
    /// Sends a message, once the client has taken enough of those before it.
    pub async fn send(&self, message: &impl Message) -> Result<(), Status> {
        self.send_as(message, self.compression).await
    }

    /// As [`send`](Self::send), without compression.
    pub async fn send_plain(&self, message: &impl Message) -> Result<(), Status> {
        self.send_as(message, None).await
    }

    async fn send_as(&self, message: &impl Message, compression: Option<Compression>) -> Result<(), Status> {
        let bytes = framed(message, compression, &self.memory)?;
        let sent = self.pieces.send(Piece::Data(bytes)).await;
        sent.map_err(|_gone| Status::new(Code::Unknown, "The client has gone"))
    }

    /// Says how the call ended.
    pub async fn end(&self, status: Status) {
        let mut trailers = Box::new(self.trailers.take());
        trailers.extend(status.into_headers());
        let _gone = self.pieces.send(Piece::Trailers(Trailers::Own(trailers))).await;
    }
}

/// The answer to a call that has one message.
pub fn answered(
    message: &impl Message,
    compression: Option<Compression>,
    memory: &Arc<Memory>,
) -> Result<Response<Body>, Failure> {
    let bytes = framed(message, compression, memory)?;
    let body = Body::Whole {
        bytes,
        trailers: Some(Trailers::Shared(Status::ok_headers())),
    };
    Ok(begun(body, compression))
}

/// An answer that is made while it is sent.
pub fn streamed(pieces: mpsc::Receiver<Piece>, compression: Option<Compression>) -> Response<Body> {
    begun(Body::Stream(pieces), compression)
}

/// The answer to a call that failed before its first message.
pub fn failed(status: &Status) -> Response<Body> {
    let mut response = begun(Body::empty(), None);
    response.headers_mut().extend(status.clone().into_headers());
    response
}

fn begun(body: Body, compression: Option<Compression>) -> Response<Body> {
    /// By how messages are compressed.
    static HEADERS: LazyLock<[HeaderMap; 3]> = LazyLock::new(|| {
        [None, Some(Compression::Gzip), Some(Compression::Zstd)].map(|compression| {
            let encoding =
                compression.map(|compression| (ENCODING, HeaderValue::from_static(compression.name())));
            let always = [
                (CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
                (ACCEPTED, HeaderValue::from_static(UNDERSTOOD)),
            ];
            always.into_iter().chain(encoding).collect()
        })
    });
    let [plain, gzip, zstd] = &*HEADERS;
    let mut response = Response::new(body);
    response.headers_mut().clone_from(match compression {
        None => plain,
        Some(Compression::Gzip) => gzip,
        Some(Compression::Zstd) => zstd,
    });
    response
}

/// A message with its prefix, compressed where that is accepted and worth it.
fn framed(
    message: &impl Message,
    compression: Option<Compression>,
    memory: &Arc<Memory>,
) -> Result<Bytes, Failure> {
    let length = message.encoded_len();
    let taken = memory.take(PREFIX_BYTES + length)?;
    let mut bytes = memory.buffer(PREFIX_BYTES + length);
    bytes.extend_from_slice(&[0; PREFIX_BYTES]);
    message.encode_raw(&mut bytes);
    let is_worth_it = length >= COMPRESSED_BYTES_MIN;
    let packed = compression.filter(|_| is_worth_it).and_then(|compression| {
        let mut packed = vec![0; PREFIX_BYTES];
        let written = compression.compress(bytes.get(PREFIX_BYTES..)?, &mut packed);
        (written.is_ok() && packed.len() < bytes.len()).then_some(packed)
    });
    let is_compressed = packed.is_some();
    let mut bytes = packed.unwrap_or(bytes);
    let length =
        u32::try_from(bytes.len() - PREFIX_BYTES).map_err(|_| Failure::TooLarge { bytes_max: None })?;
    if let Some((flag, rest)) = bytes.split_first_mut()
        && let Some(place) = rest.first_chunk_mut::<4>()
    {
        *flag = u8::from(is_compressed);
        *place = length.to_be_bytes();
    }
    Ok(taken.charge(bytes))
}
