//! A connection: its streams, and what both sides have agreed on.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::closed::{Closed, Ended};
use crate::fault::ErrorCode;
use crate::frame;
use crate::hpack::Decoder;
use crate::limits::Limits;
use crate::output::Output;
use crate::receive::{Beginning, Block};
use crate::stream::Stream;

/// Bytes that a connection's windows begin with on both sides (RFC 9113, section 6.9.2).
pub const WINDOW_BYTES: u32 = 65_535;

/// Payload of the ping of a drain, so that its answer is known among others.
const DRAIN: [u8; 8] = *b"draining";

/// How far a connection is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Open,
    /// The client was told to begin no more streams, and has not answered yet.
    Draining,
    /// Streams beyond this one are not looked at.
    Last(u32),
}

/// The server's side of a connection of HTTP/2. `S` is what the caller keeps of each request.
#[derive(Debug)]
pub struct Connection<S> {
    pub(crate) limits: Limits,
    pub(crate) beginning: Beginning,
    pub(crate) decoder: Decoder,
    /// A header block that has not come in full.
    pub(crate) block: Option<Block>,
    pub(crate) streams: HashMap<u32, Stream<S>, foldhash::fast::RandomState>,
    /// The latest that the client has begun.
    pub(crate) last_stream: u32,
    pub(crate) closed: Closed,
    pub(crate) stage: Stage,
    /// Inputs that were read to their end.
    pub(crate) inputs: u64,
    /// Requests of this input that the client has taken back.
    pub(crate) resets: u32,
    /// Bytes that the client may still send.
    pub(crate) receive_window: u32,
    pub(crate) untold_bytes: u32,
    pub(crate) send_window: i64,
    /// Bytes that a stream's window begins with, as the client has said.
    pub(crate) first_send_window: i64,
    /// Streams with something to send that wait for a window, in turns.
    pub(crate) waiting: VecDeque<u32>,
    /// Streams whose caller waits for room, and has it.
    pub(crate) with_room: Vec<u32>,
    pub(crate) output: Output,
    /// A header block of an answer while it is made.
    pub(crate) scratch: Vec<u8>,
}

impl<S: Default> Connection<S> {
    /// One that has just begun, with what the server says first.
    pub fn new(limits: Limits) -> Self {
        let mut connection = Connection {
            limits,
            beginning: Beginning::Preface(0),
            decoder: Decoder::default(),
            block: None,
            streams: HashMap::default(),
            last_stream: 0,
            closed: Closed::default(),
            stage: Stage::Open,
            inputs: 0,
            resets: 0,
            receive_window: limits.connection_window_bytes.max(WINDOW_BYTES),
            untold_bytes: 0,
            send_window: i64::from(WINDOW_BYTES),
            first_send_window: i64::from(WINDOW_BYTES),
            waiting: VecDeque::new(),
            with_room: Vec::new(),
            output: Output::default(),
            scratch: Vec::new(),
        };
        let settings = [
            (frame::MAX_CONCURRENT_STREAMS, limits.streams_max),
            (frame::INITIAL_WINDOW_SIZE, limits.stream_window_bytes),
            (frame::MAX_HEADER_LIST_SIZE, limits.headers_bytes_max as u32),
        ];
        let mut payload = Vec::with_capacity(6 * settings.len());
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        connection.put_frame(frame::SETTINGS, 0, 0, &payload);
        let more = connection.receive_window - WINDOW_BYTES;
        if more > 0 {
            connection.put_frame(frame::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        }
        connection
    }

    /// The caller's state of a request; `None` once it is over.
    pub fn state(&mut self, stream: u32) -> Option<&mut S> {
        self.streams.get_mut(&stream).map(|stream| &mut stream.state)
    }

    /// The states of all requests that are not over.
    pub fn states(&mut self) -> impl Iterator<Item = &mut S> {
        self.streams.values_mut().map(|stream| &mut stream.state)
    }

    /// Returns whether every request is answered, and the answers are in the output.
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    /// Bytes for the client. What comes behind [`Output::advance`] is [`Connection::pump`].
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Returns whether the client should take something before more is read of it.
    pub fn is_congested(&self) -> bool {
        self.output.len() >= self.limits.unsent_bytes_max
    }

    /// Asks the client for a sign of life.
    pub fn ping(&mut self) {
        self.put_frame(frame::PING, 0, 0, &[0; 8]);
    }

    /// Tells the client to begin no more streams, and asks whether it has heard so. What it sends until it says that it has is served,
    /// and then it hears which stream was the last (RFC 9113, section 6.8).
    pub fn begin_drain(&mut self) {
        if self.stage == Stage::Open {
            self.stage = Stage::Draining;
            self.put_goaway(frame::STREAM_MAX, ErrorCode::NoError);
            self.put_frame(frame::PING, 0, 0, &DRAIN);
        }
    }

    /// Returns whether the client knows its last stream, and has all its answers.
    pub fn is_drained(&self) -> bool {
        matches!(self.stage, Stage::Last(_)) && self.is_idle()
    }

    pub(crate) fn ping_answered(&mut self, payload: &[u8]) {
        if payload == DRAIN && self.stage == Stage::Draining {
            self.stage = Stage::Last(self.last_stream);
            self.put_goaway(self.last_stream, ErrorCode::NoError);
        }
    }

    pub(crate) fn put_goaway(&mut self, last_stream: u32, code: ErrorCode) {
        let [a, b, c, d] = last_stream.to_be_bytes();
        let [e, f, g, h] = (code as u32).to_be_bytes();
        self.put_frame(frame::GOAWAY, 0, 0, &[a, b, c, d, e, f, g, h]);
    }

    pub(crate) fn put_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.output.put(&frame::head(kind, flags, stream, payload.len()));
        self.output.put(payload);
    }

    /// Ends a stream on both sides, for `code`. Returns what the caller has kept of it, if it was one.
    pub fn reset(&mut self, stream: u32, code: ErrorCode) -> Option<S> {
        self.put_frame(frame::RST_STREAM, 0, stream, &(code as u32).to_be_bytes());
        self.forget(stream, Ended::Reset)
    }

    pub(crate) fn forget(&mut self, stream: u32, ended: Ended) -> Option<S> {
        self.closed.add(stream, ended);
        let gone = self.streams.remove(&stream)?;
        self.release(gone.unconsumed_bytes);
        Some(gone.state)
    }

    /// The caller has consumed bytes of a request's body, so that the client may send as many again.
    pub fn consumed(&mut self, stream: u32, bytes: usize) {
        let bytes = bytes as u32;
        // Of a stream that is over everything was given back.
        let Some(of) = self.streams.get_mut(&stream) else {
            return;
        };
        let bytes = bytes.min(of.unconsumed_bytes);
        of.unconsumed_bytes -= bytes;
        of.untold_bytes += bytes;
        if of.is_receiving && of.untold_bytes >= self.limits.stream_window_bytes / 2 {
            let told = std::mem::take(&mut of.untold_bytes);
            of.receive_window += told;
            self.put_frame(frame::WINDOW_UPDATE, 0, stream, &told.to_be_bytes());
        }
        self.release(bytes);
    }

    /// Gives bytes back to the connection's window.
    pub(crate) fn release(&mut self, bytes: u32) {
        self.untold_bytes += bytes;
        if self.untold_bytes >= self.limits.connection_window_bytes / 2 {
            let told = std::mem::take(&mut self.untold_bytes);
            self.receive_window += told;
            self.put_frame(frame::WINDOW_UPDATE, 0, 0, &told.to_be_bytes());
        }
    }
}
