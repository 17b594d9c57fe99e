//! One CQL connection: bytes in, whole messages to the shard, answers out.
//!
//! A single future owns the socket. Each time it runs it reads what is there, hands every whole message to the
//! shard, and sends every answer that is ready in one write; answers that come later wake it through the session.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use helenus_engine::CqlError;
use helenus_node::{Session, Shard};
use helenus_protocol::extensions::{Sharding, write_supported};
use helenus_protocol::frame::{
    Envelope, EnvelopeFlags, FrameError, FrameLimits, FrameReader, ReceiveBuffer, Recovery,
};
use helenus_protocol::request::{Request, Startup};
use helenus_protocol::response::{ErrorBody, write_error, write_ready};
use helenus_protocol::{Direction, Opcode, ProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::door::{Door, DrainPhase, QUIET_TIME};

pub struct Connection {
    stream: TcpStream,
    shard: Rc<Shard>,
    door: Rc<Door>,
    session: Rc<Session>,
    id: u64,
    reader: FrameReader,
    received: ReceiveBuffer,
    /// Taken from the session; the first `sent` bytes are gone.
    sending: Vec<u8>,
    sent: usize,
    phase: Phase,
    /// Since when nothing has happened on it, while the door is closing.
    quiet_since: Option<Instant>,
    /// When this turn of the connection began, on the shard's clock: what it reads came before.
    received_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// OPTIONS and STARTUP are all that is understood.
    Opening,
    Open,
    /// The last answer is written; what still arrives is thrown away until the peer closes. Closing earlier would make
    /// the kernel reset the connection and the peer lose the answer.
    Refusing,
}

/// Answers that may wait for a client that does not read them; no more of its requests are read until it does.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Requests of one connection that may be under way: the number of its streams.
const IN_FLIGHT_MAX: u32 = 32_768;

/// Reads of one run of the future: afterwards the other connections of the shard get their turn.
const READS_PER_TURN_MAX: usize = 8;

impl Connection {
    pub fn new(stream: TcpStream, shard: Rc<Shard>, door: Rc<Door>, limits: FrameLimits) -> Self {
        let session = Rc::new(Session::new(ProtocolVersion::CURRENT));
        if let Ok(peer) = stream.peer_addr() {
            session.set_peer(peer.ip());
        }
        let id = door.connection_opened(&session);
        shard.metrics.connection_opened();
        Connection {
            stream,
            shard,
            door,
            session,
            id,
            reader: FrameReader::new(Direction::Request, limits),
            received: ReceiveBuffer::new(),
            sending: Vec::new(),
            sent: 0,
            phase: Phase::Opening,
            quiet_since: None,
            received_ns: 0,
        }
    }

    /// Whether everything accepted has been answered and sent.
    fn is_idle(&self) -> bool {
        self.session.in_flight() == 0 && self.sent == self.sending.len() && !self.session.has_output()
    }

    fn may_read(&self) -> bool {
        self.session.in_flight() < IN_FLIGHT_MAX && self.session.output_bytes() < OUTPUT_BYTES_MAX
    }

    /// While the door is closing: whether nothing has been on its way for long enough to close.
    fn has_left(&mut self) -> bool {
        if self.door.drain_phase() == DrainPhase::Open || !self.is_idle() {
            self.quiet_since = None;
            return false;
        }
        let now = Instant::now();
        now.duration_since(*self.quiet_since.get_or_insert(now)) >= QUIET_TIME
    }

    /// Sends what is ready. Pending if the socket takes no more.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.sent < self.sending.len() {
                let stream = Pin::new(&mut self.stream);
                match stream.poll_write(context, &self.sending[self.sent..]) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => self.sent += count,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            self.sending.clear();
            self.sent = 0;
            if !self.session.has_output() {
                return Poll::Ready(Ok(()));
            }
            self.session.take_output(&mut self.sending);
        }
    }

    fn handle_received(&mut self) -> Result<(), Closed> {
        loop {
            if self.phase == Phase::Refusing {
                self.received.discard_all();
                return Ok(());
            }
            match self.reader.next_envelope(&mut self.received) {
                Ok(None) => return Ok(()),
                Ok(Some(envelope)) if self.phase == Phase::Open && is_statement(envelope.header.opcode) => {
                    if self.door.drain_phase() == DrainPhase::Refusing {
                        refuse_to_start(&self.session, envelope.header.stream);
                    } else if let Err(error) = self.shard.handle(&self.session, &envelope, self.received_ns) {
                        let stream = envelope.header.stream;
                        self.refuse_message(stream, &error);
                    }
                }
                Ok(Some(envelope)) => {
                    let stream = envelope.header.stream;
                    let control = Control {
                        shard: &self.shard,
                        door: &self.door,
                        session: &self.session,
                        id: self.id,
                    };
                    match control.handle(&envelope, self.phase) {
                        Ok(Outcome::Answered) => {}
                        Ok(Outcome::Started(version, compression)) => {
                            self.reader.startup_answered(version, compression);
                            self.reader.ready();
                            self.phase = Phase::Open;
                        }
                        Err(error) => self.refuse_message(stream, &error),
                    }
                }
                Err(error) => self.refuse_frame(&error)?,
            }
        }
    }

    fn refuse_message(&mut self, stream: i16, error: &impl std::fmt::Display) {
        self.session
            .respond_error(stream, &CqlError::protocol(format_args!("{error}")));
        self.shard
            .metrics
            .count_error(helenus_protocol::ErrorCode::ProtocolError);
        if self.reader.message_failed() != Recovery::Continue {
            self.phase = Phase::Refusing;
        }
    }

    fn refuse_frame(&mut self, error: &FrameError) -> Result<(), Closed> {
        self.shard.metrics.count_error(error.code());
        let recovery = error.recovery();
        if recovery == Recovery::Close {
            return Err(Closed);
        }
        if let FrameError::UnsupportedVersion { .. } = error {
            // Drivers step down to the version of this answer.
            self.session.set_version(ProtocolVersion::CURRENT);
        }
        let body = match error.code() {
            helenus_protocol::ErrorCode::Invalid => ErrorBody::Invalid,
            _ => ErrorBody::ProtocolError,
        };
        let version = self.session.version();
        self.session
            .respond(error.stream(), EnvelopeFlags::NONE, Opcode::Error, |out| {
                write_error(out, version, &body, error);
                Ok(())
            });
        if recovery == Recovery::CloseAfterReply {
            self.phase = Phase::Refusing;
        }
        Ok(())
    }
}

/// Drivers take this error as the word of a node that cannot serve yet or any more: they ask another one, also for
/// statements that are not idempotent.
fn refuse_to_start(session: &Session, stream: i16) {
    let version = session.version();
    session.respond(stream, EnvelopeFlags::NONE, Opcode::Error, |out| {
        write_error(out, version, &ErrorBody::IsBootstrapping, "The node is stopping");
        Ok(())
    });
}

/// The connection is of no more use.
struct Closed;

impl Future for Connection {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.session.set_waker(context.waker());
        this.received_ns = this.shard.look_at_clock();
        for _ in 0..READS_PER_TURN_MAX {
            match this.poll_send(context) {
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                // A client that does not take its answers is not asked for more.
                Poll::Pending if this.session.output_bytes() >= OUTPUT_BYTES_MAX => return Poll::Pending,
                _ => {}
            }
            if this.has_left() {
                return Poll::Ready(());
            }
            if !this.may_read() {
                return Poll::Pending;
            }
            let read = pin!(this.stream.read_buf(this.received.tail())).poll(context);
            match read {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(_)) => {
                    this.quiet_since = None;
                    if this.handle_received().is_err() {
                        return Poll::Ready(());
                    }
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        context.waker().wake_by_ref();
        match this.poll_send(context) {
            Poll::Ready(Err(_)) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.door.connection_closed(self.id);
        self.shard.metrics.connection_closed();
    }
}

fn is_statement(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Query | Opcode::Execute | Opcode::Batch | Opcode::Prepare
    )
}

/// Handles the messages that are about the connection itself.
struct Control<'a> {
    shard: &'a Rc<Shard>,
    door: &'a Rc<Door>,
    session: &'a Rc<Session>,
    id: u64,
}

enum Outcome {
    Answered,
    Started(ProtocolVersion, Option<helenus_protocol::frame::Compression>),
}

impl Control<'_> {
    fn handle(&self, envelope: &Envelope<'_>, phase: Phase) -> Result<Outcome, CqlError> {
        let header = &envelope.header;
        if phase == Phase::Opening {
            self.session.set_version(header.version);
        }
        let (request, _payload) =
            Request::decode(envelope).map_err(|error| CqlError::protocol(format_args!("{error}")))?;
        match request {
            Request::Options => {
                let sharding = Sharding {
                    shard: u32::from(self.shard.id.0),
                    shards: u32::from(self.shard.options.shard_count),
                    shard_aware_port: self.door.shard_aware_port(),
                };
                self.answer(header.stream, Opcode::Supported, |out| {
                    write_supported(out, Some(sharding))
                });
                Ok(Outcome::Answered)
            }
            Request::Startup(startup) if phase == Phase::Opening => {
                self.start(header.stream, header.version, &startup)
            }
            Request::Register(events) if phase == Phase::Open => {
                self.door.register(self.id, events);
                self.answer(header.stream, Opcode::Ready, write_ready);
                Ok(Outcome::Answered)
            }
            _ => Err(CqlError::protocol(format_args!(
                "Unexpected message {}, {}",
                header.opcode,
                if phase == Phase::Opening {
                    "expecting STARTUP or OPTIONS"
                } else {
                    "the connection is ready"
                }
            ))),
        }
    }

    fn start(
        &self,
        stream: i16,
        version: ProtocolVersion,
        startup: &Startup<'_>,
    ) -> Result<Outcome, CqlError> {
        let compression = startup
            .negotiate(version)
            .map_err(|error| CqlError::protocol(format_args!("{error}")))?;
        self.answer(stream, Opcode::Ready, write_ready);
        self.session.startup_answered(version, compression);
        Ok(Outcome::Started(version, compression))
    }

    fn answer(&self, stream: i16, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) {
        self.session.respond(stream, EnvelopeFlags::NONE, opcode, |out| {
            body(out);
            Ok(())
        });
    }
}
