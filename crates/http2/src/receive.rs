//! Frames of a client, one after the other.

use http::request::Parts;
use http::{HeaderMap, StatusCode};

use crate::closed::Ended;
use crate::connection::{Connection, Stage};
use crate::fault::{ErrorCode, Fault};
use crate::frame::{self, Head, PREFACE};
use crate::head::{self, NoHead};
use crate::limits::{BLOCK_FACTOR, CONTINUATIONS_MAX};
use crate::stream::{Stream, Then};

/// Meaning of a client's bytes.
#[derive(Debug)]
pub enum Event<'i, S> {
    /// A request. If `is_whole`, it has no body.
    Begun {
        /// Number of its stream.
        stream: u32,
        /// Method, target and headers.
        head: Box<Parts>,
        /// True if nothing follows.
        is_whole: bool,
        /// The length of its body, where the client has said so.
        body_bytes: Option<u64>,
    },
    /// A piece of a request's body, which is consumed by [`Connection::consumed`].
    Data {
        /// Number of its stream.
        stream: u32,
        /// The piece, where it lies in the input.
        bytes: &'i [u8],
        /// True if nothing follows.
        is_last: bool,
    },
    /// A request is over: the client has taken it back, or it was not what it said.
    Reset {
        /// Number of its stream.
        stream: u32,
        /// The caller's state of it.
        state: S,
    },
}

/// How much of a connection's first bytes was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// So many bytes of the preface.
    Preface(usize),
    /// All of it; SETTINGS have to come first.
    Settings,
    Over,
}

/// A header block that has not come in full.
#[derive(Debug)]
pub struct Block {
    stream: u32,
    ends_stream: bool,
    depends_on_itself: bool,
    bytes: Vec<u8>,
    continuations: usize,
}

type Received<'i, S> = Result<Option<Event<'i, S>>, Fault>;

impl<S: Default> Connection<S> {
    /// Says what the bytes at the front of `input` mean, and takes them; `None` if the rest is not a whole frame.
    ///
    /// # Errors
    ///
    /// Why the connection has to end. The client is told in the output, and nothing more may be read.
    pub fn next<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i, S>>, ErrorCode> {
        loop {
            let received = self.preface(input).map_err(Fault::from).and_then(|is_over| {
                let taken = if is_over { frame::take(input)? } else { None };
                match taken {
                    Some((head, payload)) => self.receive(head, payload).map(Some),
                    None => Ok(None),
                }
            });
            match received {
                Ok(None) => {
                    self.inputs += 1;
                    self.resets = 0;
                    return Ok(None);
                }
                Ok(Some(None)) => {}
                Ok(Some(event)) => return Ok(event),
                Err(Fault::Connection(code)) => {
                    self.put_goaway(self.last_stream, code);
                    return Err(code);
                }
                Err(Fault::Stream(stream, code)) => {
                    if let Some(state) = self.reset(stream, code) {
                        return Ok(Some(Event::Reset { stream, state }));
                    }
                }
            }
        }
    }

    /// Returns whether all of it has come.
    fn preface(&mut self, input: &mut &[u8]) -> Result<bool, ErrorCode> {
        let Beginning::Preface(seen) = self.beginning else {
            return Ok(true);
        };
        let wanted = PREFACE.get(seen..).unwrap_or_default();
        let (come, rest) = input.split_at(input.len().min(wanted.len()));
        if !wanted.starts_with(come) {
            return Err(ErrorCode::ProtocolError);
        }
        *input = rest;
        self.beginning = match come.len() == wanted.len() {
            true => Beginning::Settings,
            false => Beginning::Preface(seen + come.len()),
        };
        Ok(self.beginning == Beginning::Settings)
    }

    fn receive<'i>(&mut self, head: Head, payload: &'i [u8]) -> Received<'i, S> {
        if self.block.is_some() && head.kind != frame::CONTINUATION {
            return Err(ErrorCode::ProtocolError.into());
        }
        if self.beginning == Beginning::Settings {
            if head.kind != frame::SETTINGS || head.has(frame::ACK) {
                return Err(ErrorCode::ProtocolError.into());
            }
            self.beginning = Beginning::Over;
        }
        let is_of_stream = match head.kind {
            frame::SETTINGS | frame::PING | frame::GOAWAY => Some(false),
            frame::DATA | frame::HEADERS | frame::PRIORITY | frame::RST_STREAM | frame::CONTINUATION => {
                Some(true)
            }
            _ => None,
        };
        if is_of_stream.is_some_and(|wanted| wanted != (head.stream != 0)) {
            return Err(ErrorCode::ProtocolError.into());
        }
        match head.kind {
            frame::DATA => return self.data(head, payload),
            frame::HEADERS => return self.headers(head, payload),
            frame::CONTINUATION => return self.continuation(head, payload),
            frame::RST_STREAM => return self.taken_back(head.stream, payload),
            frame::PRIORITY => priority(head.stream, payload)?,
            frame::SETTINGS => self.settings(head, payload)?,
            frame::PING => self.pinged(head, payload)?,
            frame::WINDOW_UPDATE => self.window(head.stream, payload)?,
            frame::GOAWAY if payload.len() < 8 => return Err(ErrorCode::FrameSizeError.into()),
            frame::PUSH_PROMISE => return Err(ErrorCode::ProtocolError.into()),
            // A client that goes has nothing to be told, and unknown frames mean nothing.
            _ => {}
        }
        Ok(None)
    }

    fn data<'i>(&mut self, head: Head, payload: &'i [u8]) -> Received<'i, S> {
        let bytes = frame::unpadded(head, payload)?;
        let counted = payload.len() as u32;
        let left = self.receive_window.checked_sub(counted);
        self.receive_window = left.ok_or(ErrorCode::FlowControlError)?;
        let id = head.stream;
        let Some(stream) = self.streams.get_mut(&id) else {
            self.release(counted);
            return self.data_of_none(id).map(|()| None);
        };
        if !stream.is_receiving {
            self.release(counted);
            return Err(Fault::Stream(id, ErrorCode::StreamClosed));
        }
        let is_last = head.has(frame::END_STREAM);
        stream.unconsumed_bytes += counted;
        stream.is_receiving = !is_last;
        match stream.receive_window.checked_sub(counted) {
            Some(left) => stream.receive_window = left,
            None => return Err(Fault::Stream(id, ErrorCode::FlowControlError)),
        }
        if let Some(left) = &mut stream.body_bytes_left {
            match left.checked_sub(bytes.len() as u64) {
                Some(less) if less == 0 || !is_last => *left = less,
                _ => return Err(Fault::Stream(id, ErrorCode::ProtocolError)),
            }
        }
        if counted as usize > bytes.len() {
            self.consumed(id, counted as usize - bytes.len());
        }
        Ok(Some(Event::Data {
            stream: id,
            bytes,
            is_last,
        }))
    }

    fn data_of_none(&self, stream: u32) -> Result<(), Fault> {
        if self.is_beyond_the_last(stream) {
            return Ok(());
        }
        match self.closed.find(stream) {
            Some(Ended::Reset) => Ok(()),
            _ if stream > self.last_stream => Err(ErrorCode::ProtocolError.into()),
            _ => Err(Fault::Stream(stream, ErrorCode::StreamClosed)),
        }
    }

    /// Streams that a client has not begun, and may not talk about.
    fn is_idle_stream(&self, stream: u32) -> bool {
        stream > self.last_stream && !self.is_beyond_the_last(stream)
    }

    /// Streams that a client has begun after it was told which one was its last.
    fn is_beyond_the_last(&self, stream: u32) -> bool {
        matches!(self.stage, Stage::Last(last) if stream > last)
    }

    fn headers<'i>(&mut self, head: Head, payload: &'i [u8]) -> Received<'i, S> {
        if head.stream.is_multiple_of(2) {
            return Err(ErrorCode::ProtocolError.into());
        }
        let mut fragment = frame::unpadded(head, payload)?;
        let mut depends_on_itself = false;
        if head.has(frame::HAS_PRIORITY) {
            let (&[a, b, c, d, _weight], rest) = fragment
                .split_first_chunk::<5>()
                .ok_or(ErrorCode::FrameSizeError)?;
            depends_on_itself = u32::from_be_bytes([a, b, c, d]) & frame::STREAM_MAX == head.stream;
            fragment = rest;
        }
        let mut block = Block {
            stream: head.stream,
            ends_stream: head.has(frame::END_STREAM),
            depends_on_itself,
            bytes: Vec::new(),
            continuations: 0,
        };
        if head.has(frame::END_HEADERS) {
            return self.whole_block(&block, fragment);
        }
        block.bytes.extend_from_slice(fragment);
        self.block = Some(block);
        Ok(None)
    }

    fn continuation<'i>(&mut self, head: Head, payload: &'i [u8]) -> Received<'i, S> {
        let mut block = self.block.take().ok_or(ErrorCode::ProtocolError)?;
        if block.stream != head.stream {
            return Err(ErrorCode::ProtocolError.into());
        }
        block.bytes.extend_from_slice(payload);
        block.continuations += 1;
        let bytes_max = BLOCK_FACTOR * self.limits.headers_bytes_max;
        if block.bytes.len() > bytes_max || block.continuations > CONTINUATIONS_MAX {
            return Err(ErrorCode::EnhanceYourCalm.into());
        }
        if head.has(frame::END_HEADERS) {
            let bytes = std::mem::take(&mut block.bytes);
            return self.whole_block(&block, &bytes);
        }
        self.block = Some(block);
        Ok(None)
    }

    /// Every block is read, whatever becomes of it: later ones refer to it.
    fn whole_block<'i>(&mut self, block: &Block, bytes: &[u8]) -> Received<'i, S> {
        let mut reading = head::Reading::new(self.limits.headers_bytes_max);
        let read = self
            .decoder
            .decode(bytes, |entry| reading.add(&entry.field, entry.bytes));
        read.map_err(|_corrupt| ErrorCode::CompressionError)?;
        let id = block.stream;
        if let Some(stream) = self.streams.get_mut(&id) {
            if !stream.is_receiving {
                return Err(Fault::Stream(id, ErrorCode::StreamClosed));
            }
            let is_short = stream.body_bytes_left.is_some_and(|left| left > 0);
            if !block.ends_stream || !reading.are_trailers() || is_short {
                return Err(Fault::Stream(id, ErrorCode::ProtocolError));
            }
            stream.is_receiving = false;
            let (stream, bytes, is_last) = (id, &[][..], true);
            return Ok(Some(Event::Data {
                stream,
                bytes,
                is_last,
            }));
        }
        if id <= self.last_stream {
            return match self.closed.find(id) {
                Some(Ended::Reset) => Ok(None),
                Some(Ended::Whole) => Err(ErrorCode::StreamClosed.into()),
                None => Err(ErrorCode::ProtocolError.into()),
            };
        }
        if self.is_beyond_the_last(id) {
            return Ok(None);
        }
        self.last_stream = id;
        if block.depends_on_itself {
            return Err(Fault::Stream(id, ErrorCode::ProtocolError));
        }
        if self.streams.len() >= self.limits.streams_max as usize {
            return Err(Fault::Stream(id, ErrorCode::RefusedStream));
        }
        self.begin(id, block.ends_stream, reading)
    }

    fn begin<'i>(&mut self, id: u32, is_whole: bool, reading: head::Reading) -> Received<'i, S> {
        let malformed = Fault::Stream(id, ErrorCode::ProtocolError);
        let read = match reading.finish() {
            Ok(read) => read,
            Err(NoHead::Malformed) => return Err(malformed),
            Err(NoHead::TooLong) => {
                self.put_head(
                    id,
                    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    &HeaderMap::new(),
                    true,
                );
                return match is_whole {
                    true => {
                        self.closed.add(id, Ended::Whole);
                        Ok(None)
                    }
                    false => Err(Fault::Stream(id, ErrorCode::NoError)),
                };
            }
        };
        if is_whole && read.body_bytes.is_some_and(|bytes| bytes > 0) {
            return Err(malformed);
        }
        let stream = Stream {
            state: S::default(),
            input: self.inputs,
            is_receiving: !is_whole,
            receive_window: self
                .limits
                .stream_window_bytes
                .max(crate::connection::WINDOW_BYTES),
            unconsumed_bytes: 0,
            untold_bytes: 0,
            body_bytes_left: read.body_bytes,
            send_window: self.first_send_window,
            pending: Default::default(),
            then: Then::Unknown,
            is_waiting: false,
            wants_room: false,
        };
        self.streams.insert(id, stream);
        Ok(Some(Event::Begun {
            stream: id,
            head: Box::new(read.parts),
            is_whole,
            body_bytes: read.body_bytes,
        }))
    }

    fn taken_back<'i>(&mut self, stream: u32, payload: &[u8]) -> Received<'i, S> {
        if payload.len() != 4 {
            return Err(ErrorCode::FrameSizeError.into());
        }
        if self.is_idle_stream(stream) {
            return Err(ErrorCode::ProtocolError.into());
        }
        let Some(of) = self.streams.get(&stream) else {
            return Ok(None);
        };
        // Beginning a request and taking it back costs a client next to nothing.
        self.resets += u32::from(of.input == self.inputs);
        if self.resets > self.limits.resets_max {
            return Err(ErrorCode::EnhanceYourCalm.into());
        }
        let state = self.forget(stream, Ended::Reset);
        Ok(state.map(|state| Event::Reset { stream, state }))
    }

    fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), ErrorCode> {
        if head.has(frame::ACK) {
            return match payload {
                [] => Ok(()),
                _ => Err(ErrorCode::FrameSizeError),
            };
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(ErrorCode::FrameSizeError);
        }
        let mut window_bytes = None;
        for &[a, b, c, d, e, f] in settings {
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                frame::ENABLE_PUSH if value > 1 => return Err(ErrorCode::ProtocolError),
                frame::INITIAL_WINDOW_SIZE if value > frame::STREAM_MAX => {
                    return Err(ErrorCode::FlowControlError);
                }
                frame::INITIAL_WINDOW_SIZE => window_bytes = Some(value),
                // The least that may be said is all that is ever sent.
                frame::MAX_FRAME_SIZE if !(16_384..1 << 24).contains(&value) => {
                    return Err(ErrorCode::ProtocolError);
                }
                _ => {}
            }
        }
        // Once a frame: a frame may say it 2,730 times.
        if let Some(bytes) = window_bytes {
            self.set_windows(bytes)?;
        }
        self.put_frame(frame::SETTINGS, frame::ACK, 0, &[]);
        Ok(())
    }

    /// Windows that are open already become as much longer or shorter (RFC 9113, section 6.9.2).
    fn set_windows(&mut self, bytes: u32) -> Result<(), ErrorCode> {
        let more = i64::from(bytes) - self.first_send_window;
        self.first_send_window = i64::from(bytes);
        for (id, stream) in &mut self.streams {
            stream.send_window += more;
            if stream.send_window > i64::from(frame::STREAM_MAX) {
                return Err(ErrorCode::FlowControlError);
            }
            if stream.begins_to_wait() {
                self.waiting.push_back(*id);
            }
        }
        Ok(())
    }

    fn pinged(&mut self, head: Head, payload: &[u8]) -> Result<(), ErrorCode> {
        if payload.len() != 8 {
            return Err(ErrorCode::FrameSizeError);
        }
        match head.has(frame::ACK) {
            true => self.ping_answered(payload),
            false => self.put_frame(frame::PING, frame::ACK, 0, payload),
        }
        Ok(())
    }

    fn window(&mut self, id: u32, payload: &[u8]) -> Result<(), Fault> {
        let bytes = payload.try_into().map_err(|_| ErrorCode::FrameSizeError)?;
        let more = i64::from(u32::from_be_bytes(bytes) & frame::STREAM_MAX);
        let longest = i64::from(frame::STREAM_MAX);
        if id == 0 {
            self.send_window += more;
            return match (more, self.send_window > longest) {
                (0, _) => Err(ErrorCode::ProtocolError.into()),
                (_, true) => Err(ErrorCode::FlowControlError.into()),
                _ => Ok(()),
            };
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            return match self.is_idle_stream(id) {
                true => Err(ErrorCode::ProtocolError.into()),
                false => Ok(()),
            };
        };
        stream.send_window += more;
        match (more, stream.send_window > longest) {
            (0, _) => return Err(Fault::Stream(id, ErrorCode::ProtocolError)),
            (_, true) => return Err(Fault::Stream(id, ErrorCode::FlowControlError)),
            _ => {}
        }
        if stream.begins_to_wait() {
            self.waiting.push_back(id);
        }
        Ok(())
    }
}

fn priority(stream: u32, payload: &[u8]) -> Result<(), Fault> {
    let Ok([a, b, c, d, _weight]) = <[u8; 5]>::try_from(payload) else {
        return Err(Fault::Stream(stream, ErrorCode::FrameSizeError));
    };
    match u32::from_be_bytes([a, b, c, d]) & frame::STREAM_MAX == stream {
        true => Err(Fault::Stream(stream, ErrorCode::ProtocolError)),
        false => Ok(()),
    }
}
