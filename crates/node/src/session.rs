//! One client's side of the conversation, as the engine sees it: where answers go, and what the client chose.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use helenus_engine::CqlError;
use helenus_protocol::frame::{
    Compression, ENVELOPE_HEADER_BYTES, EnvelopeFlags, EnvelopeHeader, EnvelopeMark, FrameWriter,
    ResponseTooBig,
};
use helenus_protocol::response::{ErrorBody, Prelude, write_error};
use helenus_protocol::{Direction, Opcode, ProtocolVersion};
use helenus_transport::BufferPool;
use helenus_transport::request_memory::{Account, Held, RequestMemory};

/// Shared by a connection and the answers that are on their way to it; lives on one shard.
///
/// Whoever has an answer appends it to the output and wakes the connection, which sends everything that is ready in
/// one write.
pub struct Session {
    negotiated: Cell<Negotiated>,
    output: RefCell<Output>,
    keyspace: RefCell<Option<Arc<str>>>,
    /// Requests accepted and not yet answered.
    in_flight: Cell<u32>,
    connection: RefCell<Option<Waker>>,
    is_warned_of_use_keyspace: Cell<bool>,
    peer: Cell<SocketAddr>,
    /// Taken from the client so far.
    requests: Cell<u64>,
    user: RefCell<Option<Arc<str>>>,
    /// When the bytes of the request that is being handled came, on the shard's clock. Read before the request is
    /// suspended for the first time.
    received_ns: Cell<u64>,
    /// Of a traced request: what happens to it.
    events: Option<RefCell<Vec<TraceEvent>>>,
    /// Where output buffers come from, and where the connection gives them back.
    buffers: Option<Rc<BufferPool>>,
    /// What a connection and its output are charged for.
    held: Option<Held>,
    /// Of that, what the connection holds itself.
    connection_bytes: Cell<usize>,
    is_closed: Cell<bool>,
    /// Of the answers that came later: what the next is expected to have.
    later_answer_bytes: Cell<usize>,
}

/// What client and node agreed on at the start of their conversation, in one value: whoever answers for a connection has
/// all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    pub version: ProtocolVersion,
    /// The client wants an error rather than a slower connection when the shard has too much to do.
    pub throws_on_overload: bool,
    /// The client knows ScyllaDB's error for partitions that are asked for too often.
    pub knows_rate_limit_error: bool,
}

impl Negotiated {
    pub fn of_version(version: ProtocolVersion) -> Self {
        Negotiated {
            version,
            throws_on_overload: false,
            knows_rate_limit_error: false,
        }
    }
}

/// Something that happened to a traced request.
pub(crate) struct TraceEvent {
    /// Made when it happened: its time is in it.
    pub id: [u8; 16],
    pub at_ns: u64,
    pub activity: String,
}

struct Output {
    writer: FrameWriter,
    bytes: Vec<u8>,
    /// What comes before `bytes`: answers that the client was slow to take, in pieces that go one by one.
    sealed: VecDeque<Vec<u8>>,
    sealed_bytes: usize,
}

impl Output {
    fn new() -> Self {
        Output {
            writer: FrameWriter::new(),
            bytes: Vec::new(),
            sealed: VecDeque::new(),
            sealed_bytes: 0,
        }
    }

    fn seal(&mut self) {
        self.writer.flush(&mut self.bytes);
        let mut sealed = std::mem::take(&mut self.bytes);
        if sealed.capacity() > sealed.len() + sealed.len() / SEALED_SLACK_SHARE {
            sealed.shrink_to_fit();
        }
        self.sealed_bytes += sealed.capacity();
        self.sealed.push_back(sealed);
    }

    /// What all of it takes.
    fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.sealed_bytes + self.writer.side_bytes()
    }
}

/// Answers of which as many bytes wait are a piece of their own, which grows no more: a buffer that grows by doubling takes
/// twice of what is in it, and one that is sent gives its memory back when all of it is gone. More than a turn makes.
const SEALED_BYTES_MIN: usize = 256 * 1024;

/// The part of a piece that may be empty: to copy it costs more than an eighth is worth.
const SEALED_SLACK_SHARE: usize = 8;

/// What framing adds to a body is less than this part of it: 10 bytes to a segment of 128 KiB.
const FRAMING_SHARE: usize = 4096;

/// The most an idle connection keeps of its output buffer, in bytes: one large write, so that pages of rows do not
/// reallocate it each time.
const KEPT_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// An envelope that is being written: taken back unless it is finished, also where its body panics.
struct Begun<'a> {
    writer: &'a mut FrameWriter,
    bytes: &'a mut Vec<u8>,
    mark: Option<EnvelopeMark>,
}

impl Begun<'_> {
    #[inline]
    fn finish(mut self) -> Result<(), ResponseTooBig> {
        match self.mark.take() {
            Some(mark) => self.writer.finish(self.bytes, mark),
            None => Ok(()),
        }
    }
}

impl Drop for Begun<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(mark) = self.mark.take() {
            self.writer.abandon(self.bytes, mark);
        }
    }
}

impl Session {
    pub fn new(version: ProtocolVersion) -> Self {
        Session {
            negotiated: Cell::new(Negotiated::of_version(version)),
            output: RefCell::new(Output::new()),
            keyspace: RefCell::new(None),
            in_flight: Cell::new(0),
            connection: RefCell::new(None),
            is_warned_of_use_keyspace: Cell::new(false),
            peer: Cell::new(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)),
            requests: Cell::new(0),
            user: RefCell::new(None),
            received_ns: Cell::new(0),
            events: None,
            buffers: None,
            held: None,
            connection_bytes: Cell::new(0),
            is_closed: Cell::new(false),
            later_answer_bytes: Cell::new(0),
        }
    }

    /// A session whose output takes its memory from `buffers`.
    pub fn with_buffers(version: ProtocolVersion, buffers: Rc<BufferPool>) -> Self {
        Session {
            buffers: Some(buffers),
            ..Session::new(version)
        }
    }

    /// From now on what its connection and its output hold is charged to `memory`.
    pub fn charged_to(self, memory: &Arc<RequestMemory>) -> Self {
        Session {
            held: Some(Held::nothing_of(&Account::of(memory))),
            ..self
        }
    }

    /// Whom what is made for the client is charged to.
    #[inline]
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.held.as_ref().map(Held::account)
    }

    /// Whether a request of the client may be begun, for all that it holds.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.account().is_none_or(|account| account.has_room())
    }

    /// What a request of the client may bring with it.
    pub fn free_bytes(&self) -> usize {
        self.account().map_or(usize::MAX, |account| account.free_bytes())
    }

    /// The connection holds so many bytes besides the session's output.
    pub fn charge_connection(&self, bytes: usize) {
        self.connection_bytes.set(bytes);
        self.charge();
    }

    fn charge(&self) {
        if let Some(held) = &self.held {
            let output = &mut *self.output.borrow_mut();
            if output.bytes.len() >= SEALED_BYTES_MIN {
                output.seal();
            }
            held.set(self.connection_bytes.get() + output.heap_bytes());
        }
    }

    /// The connection has gone: nobody reads the answers that are still to come.
    pub fn close(&self) {
        self.is_closed.set(true);
        if let Some(account) = self.account() {
            account.close();
        }
        *self.output.borrow_mut() = Output::new();
        self.charge_connection(0);
    }

    /// What the requests under way are expected to be answered with, by what those before them were.
    pub fn expected_bytes(&self) -> usize {
        (self.in_flight.get() as usize).saturating_mul(self.later_answer_bytes.get())
    }

    #[inline]
    fn lend(&self, output: &mut Vec<u8>) {
        if output.capacity() == 0 {
            self.lend_memory(output);
        }
    }

    #[inline(never)]
    fn lend_memory(&self, output: &mut Vec<u8>) {
        if let Some(buffers) = &self.buffers {
            *output = buffers.take();
            // One that grows answer by answer never comes to what the pool keeps, and does so again in each turn.
            output.reserve(BufferPool::BUFFER_BYTES_MIN);
        }
    }

    pub fn negotiated(&self) -> Negotiated {
        self.negotiated.get()
    }

    /// A session of one traced request of the same client: answered as the client wants to be answered, and heard.
    pub(crate) fn of_traced_request(&self) -> Session {
        let traced = Session::new(self.version());
        traced.negotiated.set(self.negotiated.get());
        traced.keyspace.replace(self.keyspace());
        traced.user.replace(self.user());
        traced.peer.set(self.peer.get());
        traced.received_ns.set(self.received_ns.get());
        traced
            .is_warned_of_use_keyspace
            .set(self.is_warned_of_use_keyspace.get());
        Session {
            events: Some(RefCell::default()),
            held: self.account().map(Held::nothing_of),
            ..traced
        }
    }

    /// What a traced request has chosen for those that follow.
    pub(crate) fn adopt_choices_of(&self, traced: &Session) {
        self.keyspace.replace(traced.keyspace());
        self.is_warned_of_use_keyspace
            .set(traced.is_warned_of_use_keyspace.get());
    }

    pub(crate) fn is_traced(&self) -> bool {
        self.events.is_some()
    }

    pub(crate) fn note_event(&self, event: TraceEvent) {
        if let Some(events) = &self.events {
            events.borrow_mut().push(event);
        }
    }

    pub(crate) fn take_events(&self) -> Vec<TraceEvent> {
        self.events.as_ref().map(RefCell::take).unwrap_or_default()
    }

    /// Answers without looking at the request: `envelope` is a template of this connection's version.
    #[inline]
    pub fn respond_template(&self, stream: i16, envelope: &[u8]) {
        let Output { writer, bytes, .. } = &mut *self.output.borrow_mut();
        self.lend(bytes);
        // A template is far below the 2 GiB that cannot be sent.
        let _fits = writer.append_template(bytes, envelope, stream);
    }

    pub(crate) fn received_ns(&self) -> u64 {
        self.received_ns.get()
    }

    pub(crate) fn set_received_ns(&self, received_ns: u64) {
        self.received_ns.set(received_ns);
    }

    /// Where the client connects from; unknown for a session without a socket.
    pub fn peer(&self) -> IpAddr {
        self.peer.get().ip()
    }

    pub(crate) fn peer_address(&self) -> SocketAddr {
        self.peer.get()
    }

    pub fn set_peer(&self, peer: SocketAddr) {
        self.peer.set(peer);
    }

    /// The client has sent so many more requests.
    pub fn count_requests(&self, count: u64) {
        self.requests.set(self.requests.get() + count);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Who has logged in; nobody where clients are not asked, or not yet.
    pub fn user(&self) -> Option<Arc<str>> {
        self.user.borrow().clone()
    }

    pub(crate) fn set_user(&self, user: Arc<str>) {
        *self.user.borrow_mut() = Some(user);
    }

    pub fn version(&self) -> ProtocolVersion {
        self.negotiated.get().version
    }

    /// Until STARTUP is answered: in which version the client is spoken to.
    pub fn set_version(&self, version: ProtocolVersion) {
        self.negotiated.set(Negotiated {
            version,
            ..self.negotiated.get()
        });
    }

    /// The answer to STARTUP has been appended: from now on answers are framed and compressed as agreed.
    pub fn startup_answered(&self, negotiated: Negotiated, compression: Option<Compression>) {
        self.negotiated.set(negotiated);
        let output = &mut *self.output.borrow_mut();
        output.writer.flush(&mut output.bytes);
        output.writer.startup_answered(negotiated.version, compression);
    }

    /// What `USE` chose.
    pub fn keyspace(&self) -> Option<Arc<str>> {
        self.keyspace.borrow().clone()
    }

    pub fn set_keyspace(&self, keyspace: Arc<str>) {
        *self.keyspace.borrow_mut() = Some(keyspace);
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// An answer will come later, through [`Session::respond_later`].
    pub fn expect_answer(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// As [`Session::respond_later`], with warnings in front (v4 and later).
    pub fn respond_later_warning(
        &self,
        stream: i16,
        opcode: Opcode,
        warnings: &[&str],
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), CqlError>,
    ) {
        let version = self.version();
        let prelude = Prelude {
            warnings,
            ..Prelude::default()
        };
        self.respond_later(stream, prelude.flags(version), opcode, |out| {
            prelude.write(out, version);
            body(out)
        });
    }

    /// As [`Session::respond_later_warning`], with a RESULT that is made already.
    pub(crate) fn pass_on_later(&self, stream: i16, warnings: &[&str], body: &[u8]) {
        self.respond_later_warning(stream, Opcode::Result, warnings, |out| {
            if body.len() >= SEALED_BYTES_MIN {
                out.reserve_exact(body.len() + body.len() / FRAMING_SHARE);
            }
            out.extend_from_slice(body);
            Ok(())
        });
    }

    /// Whether this is the first time that the session is to be warned of prepared statements without a keyspace.
    pub fn take_use_keyspace_warning(&self) -> bool {
        !self.is_warned_of_use_keyspace.replace(true)
    }

    /// Appends an answer: `body` writes it. What `body` wrote before an error is taken back and the error written
    /// instead.
    pub fn respond(
        &self,
        stream: i16,
        flags: EnvelopeFlags,
        opcode: Opcode,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), CqlError>,
    ) {
        let result = self.try_respond(stream, flags, opcode, |out| body(out).map(|()| true));
        if let Err(error) = result {
            self.respond_error(stream, &error);
        }
    }

    /// As [`Session::respond`], but takes everything back where `body` fails or says that it has no answer.
    #[inline]
    pub fn try_respond(
        &self,
        stream: i16,
        flags: EnvelopeFlags,
        opcode: Opcode,
        body: impl FnOnce(&mut Vec<u8>) -> Result<bool, CqlError>,
    ) -> Result<(), CqlError> {
        let Output { writer, bytes, .. } = &mut *self.output.borrow_mut();
        self.lend(bytes);
        let mark = writer.begin(bytes, self.version(), flags, stream, opcode);
        let begun = Begun {
            writer,
            bytes,
            mark: Some(mark),
        };
        match body(begun.bytes) {
            Ok(true) => begun
                .finish()
                .map_err(|too_big| CqlError::invalid(format_args!("{too_big}; ask for it in pages"))),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Passes on the answer that another session was given, with the id of its trace in front.
    pub fn pass_on_traced(&self, stream: i16, answer: &[u8], trace_id: [u8; 16]) {
        let head = answer.split_first_chunk::<ENVELOPE_HEADER_BYTES>();
        let decoded = head.and_then(|(head, body)| {
            EnvelopeHeader::decode(head, Direction::Response)
                .ok()
                .map(|header| (header, body))
        });
        let Some((header, body)) = decoded else {
            // A session's output starts with a whole envelope, so this is a bug; the client still gets an answer.
            let error = CqlError::server(format_args!("The answer to a traced request was lost"));
            return self.respond_later(stream, EnvelopeFlags::NONE, Opcode::Error, |_| Err(error));
        };
        let flags = header.flags.with(EnvelopeFlags::TRACING);
        self.respond_later(stream, flags, header.opcode, |out| {
            out.extend_from_slice(&trace_id);
            out.extend_from_slice(body);
            Ok(())
        });
    }

    pub fn respond_error(&self, stream: i16, error: &CqlError) {
        let version = self.version();
        let Output { writer, bytes, .. } = &mut *self.output.borrow_mut();
        self.lend(bytes);
        let mark = writer.begin(bytes, version, EnvelopeFlags::NONE, stream, Opcode::Error);
        error.write(bytes, version, self.negotiated.get().knows_rate_limit_error);
        // An error message is far below the 2 GiB that cannot be sent.
        let _fits = writer.finish(bytes, mark);
    }

    /// Answers a message that cannot be decoded: what is wrong is written where it is sent from.
    pub fn respond_protocol_error(&self, stream: i16, error: &dyn Display) {
        let version = self.version();
        let Output { writer, bytes, .. } = &mut *self.output.borrow_mut();
        self.lend(bytes);
        let mark = writer.begin(bytes, version, EnvelopeFlags::NONE, stream, Opcode::Error);
        write_error(bytes, version, &ErrorBody::ProtocolError, error);
        // An error message is far below the 2 GiB that cannot be sent.
        let _fits = writer.finish(bytes, mark);
    }

    /// As [`Session::respond`], for an answer that was announced with [`Session::expect_answer`].
    pub fn respond_later(
        &self,
        stream: i16,
        flags: EnvelopeFlags,
        opcode: Opcode,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), CqlError>,
    ) {
        if self.is_closed.get() {
            return self.answer_came();
        }
        let before = self.output_bytes();
        match self.try_respond(stream, flags, opcode, |out| body(out).map(|()| true)) {
            Ok(()) => {
                let bytes = self.output_bytes().saturating_sub(before);
                let expected = self.later_answer_bytes.get();
                // The largest of late, forgotten by an eighth with each that is smaller.
                self.later_answer_bytes.set(bytes.max(expected - expected / 8));
            }
            // How short a refusal is says nothing of the answers.
            Err(error) => self.respond_error(stream, &error),
        }
        self.answer_came();
    }

    /// An answer that was announced with [`Session::expect_answer`] is in the output.
    pub(crate) fn answer_came(&self) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        self.charge();
        self.wake();
    }

    pub fn wake(&self) {
        if let Some(waker) = &*self.connection.borrow() {
            waker.wake_by_ref();
        }
    }

    /// The connection's task is to be woken when there is output.
    pub fn set_waker(&self, waker: &Waker) {
        let mut connection = self.connection.borrow_mut();
        if !connection.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *connection = Some(waker.clone());
        }
    }

    pub fn has_output(&self) -> bool {
        let output = self.output.borrow();
        !output.bytes.is_empty() || !output.sealed.is_empty()
    }

    pub fn output_bytes(&self) -> usize {
        let output = self.output.borrow();
        output.bytes.len() + output.sealed_bytes
    }

    /// Moves what is ready to be sent into `bytes`, which must be empty; gives its memory in exchange. What a client was slow
    /// to take comes in several pieces.
    pub fn take_output(&self, bytes: &mut Vec<u8>) {
        debug_assert!(bytes.is_empty());
        let output = &mut *self.output.borrow_mut();
        if let Some(sealed) = output.sealed.pop_front() {
            output.sealed_bytes -= sealed.capacity();
            *bytes = sealed;
            return;
        }
        output.writer.flush(&mut output.bytes);
        std::mem::swap(&mut output.bytes, bytes);
        if output.bytes.capacity() > KEPT_OUTPUT_BYTES_MAX {
            output.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use helenus_protocol::response::write_void;

    use super::*;

    /// A traced request was answered as if its client had negotiated nothing: with an error code that it does not know.
    #[test]
    fn a_traced_request_keeps_what_its_client_negotiated() {
        let session = Session::new(ProtocolVersion::V4);
        let negotiated = Negotiated {
            version: ProtocolVersion::V4,
            throws_on_overload: true,
            knows_rate_limit_error: true,
        };
        session.startup_answered(negotiated, None);
        session.set_peer(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4_000));
        session.set_user("app".into());
        session.set_keyspace("k".into());
        let traced = session.of_traced_request();
        assert_eq!(traced.negotiated(), negotiated);
        assert_eq!(traced.peer(), session.peer());
        assert_eq!(
            (traced.user().as_deref(), traced.keyspace().as_deref()),
            (Some("app"), Some("k"))
        );
        traced.set_keyspace("other".into());
        session.adopt_choices_of(&traced);
        assert_eq!(session.keyspace().as_deref(), Some("other"));
    }

    /// Small answers into a buffer that began with nothing: four reallocations in each turn, a fiftieth of what seven writes
    /// take, for as long as the connection lived.
    #[test]
    fn small_answers_are_in_a_buffer_that_the_pool_keeps() {
        let buffers = Rc::new(BufferPool::default());
        let session = Session::with_buffers(ProtocolVersion::V4, buffers.clone());
        session.respond(1, EnvelopeFlags::NONE, Opcode::Result, |out| {
            write_void(out);
            Ok(())
        });
        let mut sending = Vec::new();
        session.take_output(&mut sending);
        assert!(!sending.is_empty());
        buffers.give_back(sending);
        assert!(buffers.idle_bytes() > 0);
    }
}
