//! Answers: heads at once, bodies as far as the client's windows allow, trailers behind them.

use bytes::{Buf, Bytes};
use http::{HeaderMap, StatusCode};

use crate::closed::Ended;
use crate::connection::Connection;
use crate::fault::ErrorCode;
use crate::frame::{self, PAYLOAD_BYTES_MAX};
use crate::hpack::encode;
use crate::stream::{Then, Trailers};

impl<S: Default> Connection<S> {
    /// Begins an answer. With `is_whole` it has no body. What is said to a request that is over is forgotten, here and below.
    pub fn respond(&mut self, stream: u32, status: StatusCode, headers: &HeaderMap, is_whole: bool) {
        if !self.streams.contains_key(&stream) {
            return;
        }
        self.put_head(stream, status, headers, is_whole);
        if is_whole {
            self.sent_all(stream);
        }
    }

    /// Adds a piece to an answer's body.
    pub fn send(&mut self, stream: u32, piece: Bytes) {
        let Some(of) = self.streams.get_mut(&stream) else {
            return;
        };
        if !piece.is_empty() {
            of.pending.push_back(piece);
            self.advance_stream(stream);
        }
    }

    /// Ends an answer's body, with trailers if there are any.
    pub fn finish(&mut self, stream: u32, trailers: Option<Trailers>) {
        let Some(of) = self.streams.get_mut(&stream) else {
            return;
        };
        of.then = trailers.map_or(Then::End, Then::Trailers);
        self.advance_stream(stream);
    }

    /// Returns whether everything that was sent on a stream is in the output, or the stream is over. If not,
    /// [`next_with_room`](Self::next_with_room) will say so.
    pub fn has_room(&mut self, stream: u32) -> bool {
        let Some(of) = self.streams.get_mut(&stream) else {
            return true;
        };
        of.wants_room = of.has_pending();
        !of.wants_room
    }

    /// A stream that has room, and was waited for.
    pub fn next_with_room(&mut self) -> Option<u32> {
        self.with_room.pop()
    }

    /// Puts into the output what waits for it, as far as there is room: to be called when the client has sent or taken something.
    pub fn pump(&mut self) {
        for _ in 0..self.waiting.len() {
            if self.is_congested() || self.send_window <= 0 {
                return;
            }
            let Some(stream) = self.waiting.pop_front() else {
                return;
            };
            if let Some(of) = self.streams.get_mut(&stream) {
                of.is_waiting = false;
                self.advance_stream(stream);
            }
        }
    }

    /// Sends of a stream what its window, the connection's and the output allow. The rest waits for its turn.
    fn advance_stream(&mut self, stream: u32) {
        let Some(of) = self.streams.get_mut(&stream) else {
            return;
        };
        // Who waits has others before it.
        if of.is_waiting {
            return;
        }
        while let Some(piece) = of.pending.front_mut() {
            let window = of.send_window.min(self.send_window).max(0) as usize;
            let length = piece.len().min(window).min(PAYLOAD_BYTES_MAX);
            if length == 0 || self.output.len() >= self.limits.unsent_bytes_max {
                // A stream whose own window is closed is woken by its opening.
                if of.send_window > 0 {
                    of.is_waiting = true;
                    self.waiting.push_back(stream);
                }
                return;
            }
            let is_last = length == piece.len() && of.pending.len() == 1 && matches!(of.then, Then::End);
            let Some(piece) = of.pending.front_mut() else {
                return;
            };
            let sent = piece.split_to(length);
            if !piece.has_remaining() {
                of.pending.pop_front();
            }
            of.send_window -= length as i64;
            self.send_window -= length as i64;
            let flags = if is_last { frame::END_STREAM } else { 0 };
            self.output.put(&frame::head(frame::DATA, flags, stream, length));
            self.output.put_piece(sent);
            if is_last {
                return self.sent_all(stream);
            }
        }
        if of.wants_room {
            of.wants_room = false;
            self.with_room.push(stream);
        }
        match std::mem::replace(&mut of.then, Then::Unknown) {
            Then::Unknown => {}
            Then::End => {
                self.put_frame(frame::DATA, frame::END_STREAM, stream, &[]);
                self.sent_all(stream);
            }
            Then::Trailers(trailers) => {
                self.scratch.clear();
                encode::fields(&trailers, &mut self.scratch);
                self.put_block(stream, true);
                self.sent_all(stream);
            }
        }
    }

    /// The answer is in the output; a client that has more to say is told that nobody listens (RFC 9113, section 8.1).
    fn sent_all(&mut self, stream: u32) {
        let Some(of) = self.streams.get(&stream) else {
            return;
        };
        if of.wants_room {
            self.with_room.push(stream);
        }
        match of.is_receiving {
            true => drop(self.reset(stream, ErrorCode::NoError)),
            false => drop(self.forget(stream, Ended::Whole)),
        }
    }

    pub(crate) fn put_head(&mut self, stream: u32, status: StatusCode, headers: &HeaderMap, is_whole: bool) {
        self.scratch.clear();
        encode::status(status, &mut self.scratch);
        encode::fields(headers, &mut self.scratch);
        self.put_block(stream, is_whole);
    }

    /// Sends the header block in `scratch`, in as many frames as it takes.
    fn put_block(&mut self, stream: u32, ends_stream: bool) {
        let mut kind = frame::HEADERS;
        let mut flags = if ends_stream { frame::END_STREAM } else { 0 };
        let mut rest: &[u8] = &self.scratch;
        loop {
            let (payload, behind) = rest.split_at(rest.len().min(PAYLOAD_BYTES_MAX));
            if behind.is_empty() {
                flags |= frame::END_HEADERS;
            }
            self.output.put(&frame::head(kind, flags, stream, payload.len()));
            self.output.put(payload);
            if behind.is_empty() {
                return;
            }
            (kind, flags, rest) = (frame::CONTINUATION, 0, behind);
        }
    }
}
