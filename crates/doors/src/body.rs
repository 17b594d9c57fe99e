//! Bodies: answers as HTTP sends them, and requests as they are read.

use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use helenus_http2::Trailers;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::bounds::{BODY_COST, BODY_TIMEOUT};
use crate::failure::Failure;
use crate::http2::Arriving;
use crate::memory::{Lent, Memory, Taken};

/// The body of an answer.
pub enum Body {
    /// All of it, then the trailers.
    Whole {
        bytes: Bytes,
        trailers: Option<Trailers>,
    },
    /// As it is made.
    Stream(mpsc::Receiver<Piece>),
}

/// A part of an answer that is made while it is sent.
pub enum Piece {
    Data(Bytes),
    Trailers(Trailers),
    /// The rest cannot be had: the client sees that its answer is not whole.
    Broken,
}

/// An answer ended before its end.
#[derive(Debug, thiserror::Error)]
#[error("the answer could not be finished")]
pub struct Broken;

impl From<Infallible> for Broken {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl Body {
    pub fn empty() -> Self {
        Body::whole(Bytes::new())
    }

    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Body::Whole {
            bytes: bytes.into(),
            trailers: None,
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Body::Whole { bytes, .. } if bytes.has_remaining() => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            Body::Whole { trailers, .. } => {
                let trailers = trailers.take();
                Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers.into_headers()))))
            }
            Body::Stream(pieces) => pieces.poll_recv(context).map(|piece| {
                piece.map(|piece| match piece {
                    Piece::Data(bytes) => Ok(Frame::data(bytes)),
                    Piece::Trailers(trailers) => Ok(Frame::trailers(trailers.into_headers())),
                    Piece::Broken => Err(Broken),
                })
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole { bytes, trailers: None } if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

/// The body of a request, as it comes.
pub enum Incoming {
    Http1(hyper::body::Incoming),
    Http2(Arriving),
}

/// A piece of a request's body.
pub enum Chunk {
    Bytes(Bytes),
    Lent(Lent),
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Chunk::Bytes(bytes) => bytes,
            Chunk::Lent(lent) => lent,
        }
    }
}

impl Incoming {
    /// The length that the client has named, if it has.
    fn announced_bytes(&self) -> u64 {
        match self {
            Incoming::Http1(incoming) => incoming.size_hint().lower(),
            Incoming::Http2(arriving) => arriving.announced_bytes(),
        }
    }

    /// The next bytes of the body; `None` at its end, and where its client has gone.
    pub async fn next(&mut self) -> Option<Chunk> {
        let incoming = match self {
            Incoming::Http1(incoming) => incoming,
            Incoming::Http2(arriving) => return arriving.next().await.map(Chunk::Lent),
        };
        loop {
            let frame = poll_fn(|context| Pin::new(&mut *incoming).poll_frame(context)).await?;
            // Trailers of a request say nothing here.
            if let Ok(data) = frame.ok()?.into_data() {
                return Some(Chunk::Bytes(data));
            }
        }
    }
}

/// A request's body as a whole, with what it takes.
pub struct Received {
    pub bytes: Lent,
    _taken: Taken,
}

/// Reads a body to its end.
pub async fn read_whole(mut incoming: Incoming, memory: &Arc<Memory>) -> Result<Received, Failure> {
    let announced = incoming.announced_bytes();
    let bytes_max = memory.body_bytes_max();
    let too_large = Failure::TooLarge {
        bytes_max: Some(bytes_max),
    };
    if announced > bytes_max as u64 {
        return Err(too_large);
    }
    let reading = async {
        let mut taken = memory.take(0)?;
        let mut bytes = memory.lend(0);
        while let Some(data) = incoming.next().await {
            if bytes.len() + data.len() > bytes_max {
                return Err(too_large);
            }
            taken.grow(BODY_COST * data.len())?;
            bytes.extend(&data);
        }
        Ok(Received { bytes, _taken: taken })
    };
    match tokio::time::timeout(BODY_TIMEOUT, reading).await {
        Ok(read)
            if read
                .as_ref()
                .is_ok_and(|read| (read.bytes.len() as u64) < announced) =>
        {
            Err(Failure::Malformed("The body ends too early".to_owned()))
        }
        Ok(read) => read,
        Err(_) => Err(Failure::Slow),
    }
}
