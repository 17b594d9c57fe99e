//! Where the answers to one client are put together, and what of it is charged to whom.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use helenus_protocol::frame::{Compression, EnvelopeFlags, EnvelopeMark, FrameWriter, ResponseTooBig};
use helenus_protocol::response::{ErrorBody, write_error};
use helenus_protocol::{Opcode, ProtocolVersion};

use crate::buffer_pool::BufferPool;
use crate::latency::MeasuredRequest;
use crate::request_memory::{Account, Held, RequestMemory};
use crate::socket::SendsAtOnce;

/// Answers to one client, requests of it that are not answered yet, and its connection's task.
///
/// Whoever has an answer appends it and wakes the connection, which sends everything that is ready in one write.
pub struct Outbox {
    output: RefCell<Output>,
    /// Requests accepted and not yet answered.
    in_flight: Cell<u32>,
    connection: RefCell<Option<Waker>>,
    /// Where output buffers come from, and where the connection gives them back.
    buffers: Option<Rc<BufferPool>>,
    /// Memory charged for a connection and its output.
    held: Option<Held>,
    /// Part of that which the connection holds itself.
    connection_bytes: Cell<usize>,
    is_closed: Cell<bool>,
    /// Expected size of the next answer that comes later, by those before it.
    later_answer_bytes: Cell<usize>,
    /// The connection's socket; none where answers are taken within the process.
    socket: RefCell<Option<SendsAtOnce>>,
    /// The connection has not sent all that it took.
    is_sending: Cell<bool>,
    /// Stream of the measured request, [`NOTHING_MEASURED`], or [`MEASURED_IS_ANSWERED`].
    measured_stream: Cell<i32>,
    /// The request of which the latency is counted when its answer is taken; one at a time.
    measured: Cell<Option<MeasuredRequest>>,
}

/// No stream's number, as the next one.
const NOTHING_MEASURED: i32 = i32::MIN;

/// The answer to the measured request is among what waits to be taken.
const MEASURED_IS_ANSWERED: i32 = i32::MAX;

/// Answers that wait to be sent.
struct Output {
    writer: FrameWriter,
    bytes: Vec<u8>,
    /// Output before `bytes`: answers that the client was slow to take, in pieces that go one by one.
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

    /// Memory of all of it.
    fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.sealed_bytes + self.writer.side_bytes()
    }
}

/// Answers of which as many bytes wait are a piece of their own, which grows no more: a buffer that grows by doubling takes
/// twice of what is in it, and one that is sent gives its memory back when all of it is gone. More than a turn makes.
pub(crate) const SEALED_BYTES_MIN: usize = 256 * 1024;

/// The part of a piece that may be empty: to copy it costs more than an eighth is worth.
const SEALED_SLACK_SHARE: usize = 8;

/// Upper bound of what framing adds to a body, as a part of it: 10 bytes to a segment of 128 KiB are less.
pub(crate) const FRAMING_SHARE: usize = 4096;

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

impl Default for Outbox {
    fn default() -> Self {
        Outbox::new()
    }
}

impl Outbox {
    /// For whoever takes the answers within the process: charged to nobody.
    pub fn new() -> Self {
        Outbox {
            output: RefCell::new(Output::new()),
            in_flight: Cell::new(0),
            connection: RefCell::new(None),
            buffers: None,
            held: None,
            connection_bytes: Cell::new(0),
            is_closed: Cell::new(false),
            later_answer_bytes: Cell::new(0),
            socket: RefCell::default(),
            is_sending: Cell::new(false),
            measured_stream: Cell::new(NOTHING_MEASURED),
            measured: Cell::new(None),
        }
    }

    /// Takes its memory from `buffers`; what it and its connection hold is charged to `memory`.
    pub fn of_connection(buffers: Rc<BufferPool>, memory: &Arc<RequestMemory>) -> Self {
        Self::of_account(buffers, &Account::of(memory))
    }

    /// As [`Outbox::of_connection`], of an account that there is already.
    pub fn of_account(buffers: Rc<BufferPool>, account: &Arc<Account>) -> Self {
        Outbox {
            buffers: Some(buffers),
            held: Some(Held::nothing_of(account)),
            ..Outbox::new()
        }
    }

    /// Charged to the account that `other` is charged to.
    pub(crate) fn charged_with(other: &Outbox) -> Self {
        Outbox {
            held: other.account().map(Held::nothing_of),
            ..Outbox::new()
        }
    }

    /// Whom what is made for the client is charged to.
    #[inline]
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.held.as_ref().map(Held::account)
    }

    /// Returns whether a request of the client may be begun, for all that it holds.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.account().is_none_or(|account| account.has_room())
    }

    /// Bytes that a request of the client may bring with it.
    pub fn free_bytes(&self) -> usize {
        self.account().map_or(usize::MAX, |account| account.free_bytes())
    }

    /// The connection holds so many bytes besides what is here.
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
        *self.socket.borrow_mut() = None;
        if let Some(account) = self.account() {
            account.close();
        }
        *self.output.borrow_mut() = Output::new();
        self.charge_connection(0);
    }

    /// Returns whether the connection has gone.
    pub fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Expected bytes of the answers to the requests under way, by the size of those before them.
    pub(crate) fn expected_bytes(&self) -> usize {
        (self.in_flight.get() as usize).saturating_mul(self.later_answer_bytes.get())
    }

    /// An answer that came later has so many bytes.
    pub(crate) fn later_answer_took(&self, bytes: usize) {
        let expected = self.later_answer_bytes.get();
        // The largest of late, forgotten by an eighth with each that is smaller.
        self.later_answer_bytes.set(bytes.max(expected - expected / 8));
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

    /// From now on answers are framed and compressed as agreed.
    pub fn startup_answered(&self, version: ProtocolVersion, compression: Option<Compression>) {
        let output = &mut *self.output.borrow_mut();
        output.writer.flush(&mut output.bytes);
        output.writer.startup_answered(version, compression);
    }

    /// Requests accepted and not yet answered.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// An answer will come later.
    pub fn expect_answer(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// An answer that was announced with [`Outbox::expect_answer`] is there.
    pub fn answer_came(&self) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        self.charge();
        self.wake();
    }

    /// Appends an envelope that is made already, but for its stream.
    #[inline]
    pub fn append_template(&self, stream: i16, envelope: &[u8]) {
        let Output { writer, bytes, .. } = &mut *self.output.borrow_mut();
        self.lend(bytes);
        // A template is far below the 2 GiB that cannot be sent.
        let _fits = writer.append_template(bytes, envelope, stream);
        self.appended(stream);
    }

    /// Appends an envelope that `body` writes; takes everything back where it fails, says that it has no answer, or panics.
    #[inline]
    pub(crate) fn try_append<E: From<ResponseTooBig>>(
        &self,
        version: ProtocolVersion,
        stream: i16,
        flags: EnvelopeFlags,
        opcode: Opcode,
        body: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Output { writer, bytes, .. } = &mut *self.output.borrow_mut();
        self.lend(bytes);
        let mark = writer.begin(bytes, version, flags, stream, opcode);
        let begun = Begun {
            writer,
            bytes,
            mark: Some(mark),
        };
        match body(begun.bytes) {
            Ok(true) => begun
                .finish()
                .map_err(E::from)
                .inspect(|()| self.appended(stream)),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Appends an envelope of which the body is far below the 2 GiB that cannot be sent.
    pub fn append(
        &self,
        version: ProtocolVersion,
        stream: i16,
        opcode: Opcode,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        let Output { writer, bytes, .. } = &mut *self.output.borrow_mut();
        self.lend(bytes);
        let mark = writer.begin(bytes, version, EnvelopeFlags::NONE, stream, opcode);
        body(bytes);
        let _fits = writer.finish(bytes, mark);
        self.appended(stream);
    }

    /// Appends an error with a line of text.
    pub(crate) fn append_refusal(
        &self,
        version: ProtocolVersion,
        stream: i16,
        body: &ErrorBody<'_>,
        text: &dyn Display,
    ) {
        self.append(version, stream, Opcode::Error, |out| {
            write_error(out, version, body, text);
        });
    }

    /// The latency of this request is counted when its answer is taken, unless that of another one is already to be.
    pub fn measure(&self, request: MeasuredRequest) {
        if self.measured_stream.get() == NOTHING_MEASURED {
            self.measured_stream.set(i32::from(request.stream));
            self.measured.set(Some(request));
        }
    }

    #[inline]
    fn appended(&self, stream: i16) {
        if self.measured_stream.get() == i32::from(stream) {
            self.measured_stream.set(MEASURED_IS_ANSWERED);
        }
    }

    #[cold]
    fn count_measured(&self) {
        self.measured_stream.set(NOTHING_MEASURED);
        if let Some(measured) = self.measured.take() {
            measured.answered();
        }
    }

    /// Wakes the connection, which sends what is there.
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

    /// Returns whether there is something to send.
    pub fn has_output(&self) -> bool {
        let output = self.output.borrow();
        !output.bytes.is_empty() || !output.sealed.is_empty()
    }

    /// From now on answers may be sent while it is not the connection's turn.
    pub(crate) fn sends_at_once(&self, socket: SendsAtOnce) {
        *self.socket.borrow_mut() = Some(socket);
    }

    /// Puts what the connection has begun to send before everything else.
    #[inline]
    pub(crate) fn set_is_sending(&self, is_sending: bool) {
        self.is_sending.set(is_sending);
    }

    /// Sends what is ready, not in the connection's turn: under load that is a round away. What the socket does not take is
    /// left to the connection, which whoever appended an answer has woken.
    pub fn send_now(&self) {
        if self.is_sending.get() || !self.has_output() {
            return;
        }
        if let Some(socket) = &*self.socket.borrow() {
            let mut bytes = Vec::new();
            self.take(&mut bytes);
            let sent = socket.send(&bytes);
            self.sent(bytes, sent);
        }
    }

    /// The first `sent` of the bytes that were taken are gone.
    fn sent(&self, mut bytes: Vec<u8>, sent: usize) {
        if sent < bytes.len() {
            bytes.drain(..sent);
            let output = &mut *self.output.borrow_mut();
            output.sealed_bytes += bytes.capacity();
            output.sealed.push_front(bytes);
        } else if let Some(buffers) = &self.buffers {
            buffers.give_back(bytes);
        }
        self.charge();
    }

    /// Bytes that wait to be sent.
    pub fn bytes(&self) -> usize {
        let output = self.output.borrow();
        output.bytes.len() + output.sealed_bytes
    }

    /// Moves what is ready to be sent into `bytes`, which must be empty; gives its memory in exchange. What a client was slow
    /// to take comes in several pieces.
    pub fn take(&self, bytes: &mut Vec<u8>) {
        debug_assert!(bytes.is_empty());
        if self.measured_stream.get() == MEASURED_IS_ANSWERED {
            self.count_measured();
        }
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
    use std::io::{self, Read};

    use helenus_protocol::response::write_void;

    use helenus_vfs::Clock;

    use super::*;
    use crate::latency::LatencyHistogram;
    use crate::socket::Socket;

    /// Small answers into a buffer that began with nothing: four reallocations in each turn, a fiftieth of what seven writes
    /// take, for as long as the connection lived.
    #[test]
    fn small_answers_are_in_a_buffer_that_the_pool_keeps() {
        let buffers = Rc::new(BufferPool::default());
        let outbox = Outbox::of_connection(buffers.clone(), &RequestMemory::of_shard(1 << 30, true));
        outbox.append(ProtocolVersion::V4, 1, Opcode::Result, write_void);
        let mut sending = Vec::new();
        outbox.take(&mut sending);
        assert!(!sending.is_empty());
        buffers.give_back(sending);
        assert!(buffers.idle_bytes() > 0);
    }

    #[test]
    fn the_latency_of_a_measured_request_ends_where_its_answer_is_taken() {
        let clock = Arc::new(helenus_vfs::ManualClock::starting_at(1_000_000_000));
        let histogram = Rc::new(LatencyHistogram::new(clock.clone()));
        let request = |stream, weight| MeasuredRequest {
            stream,
            received_ns: clock.monotonic_ns(),
            weight,
            histogram: histogram.clone(),
        };
        let outbox = Outbox::new();
        let answer = |stream| outbox.append(ProtocolVersion::V4, stream, Opcode::Result, write_void);
        let counted = || -> u64 { histogram.counts().counts.iter().sum() };
        let take = || outbox.take(&mut Vec::new());

        outbox.measure(request(7, 3));
        outbox.measure(request(8, 100));
        clock.advance_ns(2_000_000);
        answer(8);
        take();
        assert_eq!(counted(), 0, "that of another request");
        answer(7);
        clock.advance_ns(1_000_000);
        assert_eq!(counted(), 0, "nobody has taken it");
        take();
        assert_eq!((counted(), histogram.counts().sum_us), (3, 3 * 3_000));
        answer(7);
        take();
        assert_eq!(counted(), 3, "it is answered once");
        outbox.measure(request(7, 1));
        outbox.append_template(7, &void_envelope());
        take();
        assert_eq!(counted(), 4);
    }

    fn void_envelope() -> Vec<u8> {
        let outbox = Outbox::new();
        outbox.append(ProtocolVersion::V4, 1, Opcode::Result, write_void);
        let mut envelope = Vec::new();
        outbox.take(&mut envelope);
        envelope
    }

    /// An answer from another thread waited for its connection's turn: for a round, behind the one in which the request had waited.
    #[test]
    fn what_is_ready_is_sent_without_the_connections_turn_and_behind_what_that_has_begun() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let _within = runtime.enter();
        let listener = crate::listen("127.0.0.1:0".parse().map_err(io::Error::other)?)?;
        listener.set_nonblocking(false)?;
        let mut client = std::net::TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        server.set_nonblocking(true)?;
        let socket = Socket::accepted(server)?;
        let memory = RequestMemory::of_shard(64 << 20, true);
        let outbox = Outbox::of_connection(Rc::default(), &memory);
        outbox.sends_at_once(socket.sends_at_once());
        let Socket::Plain(stream) = &socket;
        let stream = || stream.borrow();
        // The event loop has to know of the socket.
        runtime.block_on(stream().writable())?;

        outbox.append(ProtocolVersion::V4, 1, Opcode::Result, write_void);
        outbox.set_is_sending(true);
        outbox.send_now();
        assert!(outbox.has_output());
        outbox.set_is_sending(false);
        outbox.send_now();
        assert!(!outbox.has_output());
        let mut received = void_envelope();
        client.read_exact(&mut received)?;
        assert_eq!(received, void_envelope());

        // More than a socket takes: the rest is what the connection sends next.
        let mut all = Vec::new();
        for piece in 0..=u8::MAX {
            let body = vec![piece; 128 << 10];
            outbox.append(ProtocolVersion::V4, 1, Opcode::Result, |out| {
                out.extend_from_slice(&body);
            });
            outbox.charge_connection(0);
            all.extend(body);
        }
        let before = outbox.bytes();
        (0..=u8::MAX).for_each(|_| outbox.send_now());
        assert!(outbox.has_output() && outbox.bytes() < before);
        assert_eq!(memory.charged_bytes(), outbox.output.borrow().heap_bytes());
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            client.read_to_end(&mut received).map(|_| received)
        });
        let mut rest = Vec::new();
        while outbox.has_output() {
            let mut piece = Vec::new();
            outbox.take(&mut piece);
            rest.extend(piece);
        }
        let mut sent = 0;
        while sent < rest.len() {
            runtime.block_on(stream().writable())?;
            match stream().try_write(&rest[sent..]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                count => sent += count?,
            }
        }
        outbox.close();
        drop(socket);
        let received = reader.join().map_err(|_| io::ErrorKind::Other)??;
        let bodies = received
            .chunks(9 + (128 << 10))
            .flat_map(|envelope| &envelope[9..]);
        assert!(bodies.eq(&all));
        Ok(())
    }
}
