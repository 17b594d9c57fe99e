//! A stream: one request and its answer.

use std::collections::VecDeque;
use std::ops::Deref;

use bytes::Bytes;
use http::HeaderMap;

/// Fields behind an answer's body.
#[derive(Clone, Debug)]
pub enum Trailers {
    /// Those of this answer.
    Own(Box<HeaderMap>),
    /// Those of many.
    Shared(&'static HeaderMap),
}

impl Trailers {
    /// The fields, for a use of their own.
    pub fn into_headers(self) -> HeaderMap {
        match self {
            Trailers::Own(headers) => *headers,
            Trailers::Shared(headers) => headers.clone(),
        }
    }
}

impl Deref for Trailers {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        match self {
            Trailers::Own(headers) => headers,
            Trailers::Shared(headers) => headers,
        }
    }
}

/// Rest of an answer behind the pieces of its body that are there.
#[derive(Debug)]
pub enum Then {
    /// More of it, or its end, when the caller has said so.
    Unknown,
    End,
    Trailers(Trailers),
}

/// State of a stream on both sides. `S` is the caller's.
#[derive(Debug)]
pub struct Stream<S> {
    pub state: S,
    /// The input that it has begun in.
    pub input: u64,
    /// True until the client has sent its last.
    pub is_receiving: bool,
    /// Bytes that the client may still send.
    pub receive_window: u32,
    /// Bytes that have come and are not consumed.
    pub unconsumed_bytes: u32,
    /// Bytes that were consumed, and that the client was not told of.
    pub untold_bytes: u32,
    /// Rest of the length that the client has named.
    pub body_bytes_left: Option<u64>,
    /// Bytes that we may still send; the client may make it less than nothing.
    pub send_window: i64,
    /// The body's pieces that wait for their window.
    pub pending: VecDeque<Bytes>,
    pub then: Then,
    /// True while it stands among those that wait for a window.
    pub is_waiting: bool,
    /// True if the caller waits until nothing is pending.
    pub wants_room: bool,
}

impl<S> Stream<S> {
    /// Returns whether it waits from now on to be sent: its window has opened, and there is something that did not fit.
    pub fn begins_to_wait(&mut self) -> bool {
        let begins = self.send_window > 0 && self.has_pending() && !self.is_waiting;
        self.is_waiting |= begins;
        begins
    }

    /// Returns whether something is to be sent.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty() || !matches!(self.then, Then::Unknown)
    }
}
