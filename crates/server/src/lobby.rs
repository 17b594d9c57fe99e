//! Where a connection waits until its first message is seen to be good: a socket and some dozens of bytes.
//!
//! Whoever speaks another protocol, sends something else than STARTUP or OPTIONS, or nothing at all, never gets further:
//! no task, no session and no buffer of its own. One task on the accepting shard looks after all of them, with an event
//! queue of its own, in turns of bounded length.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_engine::CqlError;
use helenus_events::Event;
use helenus_node::Shard;
use helenus_node::metrics::ConnectionRefusal;
use helenus_protocol::frame::{
    EnvelopeFlags, FirstMessage, FrameError, FrameWriter, first_message, is_one_message,
};
use helenus_protocol::request::Request;
use helenus_protocol::response::{ErrorBody, write_error};
use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::SockRef;
use tokio::io::unix::AsyncFd;
use tokio::time::{Sleep, sleep};

use crate::connection_limits::{Admitted, ConnectionCounts};
use crate::descriptors::DescriptorReserve;
use crate::guests::{Guests, Queue};
use crate::listener::{Placement, Reception};

/// A connection's first message, header included: a STARTUP with a dozen options is below 1 KiB.
const FIRST_MESSAGE_BYTES_MAX: u32 = 4 * 1024;

/// What is read at once of a connection in the lobby: a first message and what a hasty client sends behind it.
const READ_BYTES: usize = 8 * 1024;

/// A turn of the lobby, half of it for guests and half to accept others; the last one begun is finished. At some 20 us of
/// kernel time each that is four, and as long as the shortest turn that a connection has (see `Admission::turn_ns`): with 16 of
/// each, requests of the shard's connections waited for 600 us in a storm.
const TURN_NS_MAX: u64 = 50_000;

/// The same in connections, however fast they are.
const PER_TURN_MAX: usize = 16;

/// While there is work that is known, the kernel is asked for more of it at every so many turns.
const TURNS_PER_LOOK: usize = 4;

/// Connections in the lobby: 10 MiB of them. The oldest that has not said anything makes room for a new one, so that
/// silent ones never keep others out.
const GUESTS_MAX: usize = 65_536;

/// How long a refused client's socket stays open at least, so that what the client still sends does not reset the
/// connection before it has read the answer: a round trip around the earth.
const LEAVE_TIME_MS: u64 = 250;

/// Refused clients whose sockets are kept open for that; the oldest makes room. A storm must not take the file
/// descriptors that SSTables need. At 20,000 refusals a second each of them still has 12 ms, a hundred round trips in a
/// datacenter.
const LEAVING_MAX: usize = 256;

/// What a refused client may still send before the connection is reset.
const IGNORED_BYTES_MAX: usize = 1 << 20;

/// The kernel is to wait with what is sent until more, or the end, comes: a segment less on both sides.
#[cfg(target_os = "linux")]
const MORE_FOLLOWS: i32 = libc::MSG_MORE;
#[cfg(not(target_os = "linux"))]
const MORE_FOLLOWS: i32 = 0;

/// How often the lobby looks for guests whose time is over.
const TICK: Duration = Duration::from_millis(250);

/// How long accepting pauses when the process has no file descriptor for a connection and nobody in the lobby can give one
/// back.
const OUT_OF_FILES_PAUSE: Duration = Duration::from_millis(10);

/// A storm that finds no file descriptor is one line a minute in the log.
const COMPLAINT_INTERVAL_S: u64 = 60;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// The lobby of a server: its listeners, and everybody who has not been shown to a shard.
pub struct Lobby {
    shard: Rc<Shard>,
    reception: Reception,
    counts: Arc<ConnectionCounts>,
    reserve: DescriptorReserve,
    /// The connection that was accepted last got a descriptor of the reserve.
    is_short_of_descriptors: bool,
    poll: AsyncFd<Poll>,
    listeners: Vec<Listener>,
    guests: Guests<Guest>,
    handshake_timeout_ms: u64,
    /// Guests of whom the kernel has news.
    ready: Vec<u32>,
    /// What is being read; nothing of it is kept between two guests.
    scratch: Box<[u8]>,
    answer: Vec<u8>,
    /// When the log was last told that connections wait.
    complained_s: Option<u64>,
}

struct Listener {
    socket: TcpListener,
    placement: Placement,
    may_have_more: bool,
}

struct Guest {
    stream: TcpStream,
    peer: SocketAddr,
    placement: Placement,
    admitted: Admitted,
    /// The beginning of its first message, if it came in pieces.
    received: Vec<u8>,
    ignored_bytes: usize,
}

/// What a guest's bytes are worth.
enum Verdict {
    /// More of them are needed.
    Wait,
    Good,
    Refuse(Rest),
}

/// What a refused guest may still have to say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It has sent one message, to the end, and waits for the answer.
    Nothing,
    Unknown,
}

impl Lobby {
    pub fn new(
        shard: Rc<Shard>,
        reception: Reception,
        counts: Arc<ConnectionCounts>,
        reserve: DescriptorReserve,
        sockets: Vec<(std::net::TcpListener, Placement)>,
    ) -> io::Result<Lobby> {
        let poll = Poll::new()?;
        let mut listeners = Vec::new();
        for (number, (socket, placement)) in sockets.into_iter().enumerate() {
            let mut socket = TcpListener::from_std(socket);
            poll.registry()
                .register(&mut socket, Token(number), Interest::READABLE)?;
            listeners.push(Listener {
                socket,
                placement,
                may_have_more: true,
            });
        }
        let timeout = counts.limits().handshake_timeout;
        // SAFETY: a `Poll` owns its descriptor, names the same one each time, and keeps it open until it is dropped; the
        // `AsyncFd` owns the `Poll` and never gives it out to be replaced.
        let poll = unsafe { AsyncFd::register_with_interest(poll, tokio::io::Interest::READABLE) }?;
        Ok(Lobby {
            shard,
            reception,
            counts,
            reserve,
            is_short_of_descriptors: false,
            poll,
            listeners,
            guests: Guests::new(),
            handshake_timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            ready: Vec::new(),
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            answer: Vec::new(),
            complained_s: None,
        })
    }

    /// Receives connections until the future is dropped, which closes the listeners and everybody in the lobby.
    pub async fn receive(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut tick = Box::pin(sleep(TICK));
        loop {
            self.wait_for_news(tick.as_mut()).await?;
            if tick.is_elapsed() {
                self.close_late();
                tick.as_mut().reset(tokio::time::Instant::now() + TICK);
            }
            for turn in 0_usize.. {
                if turn.is_multiple_of(TURNS_PER_LOOK) {
                    self.take_news(&mut events)?;
                }
                self.look_after_guests();
                let is_out_of_files = !self.accept_some();
                if is_out_of_files {
                    sleep(OUT_OF_FILES_PAUSE).await;
                } else if self.has_work() {
                    tokio::task::yield_now().await;
                } else {
                    break;
                }
            }
        }
    }

    async fn wait_for_news(&mut self, tick: std::pin::Pin<&mut Sleep>) -> io::Result<()> {
        let has_guests = self.guests.len() > 0;
        tokio::select! {
            // What came before the flag is cleared is seen by the look at the queue that follows.
            ready = self.poll.readable() => ready?.clear_ready(),
            () = tick, if has_guests => {}
        }
        Ok(())
    }

    fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.listeners.iter().any(|listener| listener.may_have_more)
    }

    /// Asks the kernel whose sockets have something to read.
    fn take_news(&mut self, events: &mut Events) -> io::Result<()> {
        match self.poll.get_mut().poll(events, Some(Duration::ZERO)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            outcome => outcome?,
        }
        for event in events.iter() {
            let Token(number) = event.token();
            match self.listeners.get_mut(number) {
                Some(listener) => listener.may_have_more = true,
                None => self.ready.push((number - self.listeners.len()) as u32),
            }
        }
        Ok(())
    }

    fn token_of(&self, guest: u32) -> Token {
        Token(self.listeners.len() + guest as usize)
    }

    fn now_ms(&self) -> u64 {
        self.shard.clock.monotonic_ns() / 1_000_000
    }

    fn turn_ends_ns(&self) -> u64 {
        self.shard.clock.monotonic_ns() + TURN_NS_MAX / 2
    }

    fn look_after_guests(&mut self) {
        let ends_ns = self.turn_ends_ns();
        for _ in 0..PER_TURN_MAX {
            let Some(number) = self.ready.pop() else { break };
            self.look_after(number);
            if self.shard.clock.monotonic_ns() >= ends_ns {
                break;
            }
        }
    }

    /// Accepts a turn's worth; false if there is no file descriptor left.
    fn accept_some(&mut self) -> bool {
        let mut accepted = 0;
        let ends_ns = self.turn_ends_ns();
        for index in 0..self.listeners.len() {
            while self.listeners[index].may_have_more && accepted < PER_TURN_MAX {
                if !self.has_descriptors() {
                    let reserve = self.reserve.descriptors;
                    return self.make_room(&format_args!("fewer than {reserve} file descriptors are left"));
                }
                let listener = &mut self.listeners[index];
                match listener.socket.accept() {
                    Ok((stream, peer)) => {
                        accepted += 1;
                        self.is_short_of_descriptors = self.reserve.is_touched_by(&stream);
                        let placement = listener.placement;
                        self.welcome(stream, peer, placement);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => listener.may_have_more = false,
                    Err(error) if is_out_of_resources(&error) => return self.make_room(&error),
                    // Of the connection that was to be accepted: it has gone, or its network has.
                    Err(_) => accepted += 1,
                }
                if self.shard.clock.monotonic_ns() >= ends_ns {
                    return true;
                }
            }
        }
        true
    }

    /// Whether another connection leaves the reserve whole. Where that is in doubt, the next connection waits in the
    /// kernel.
    fn has_descriptors(&mut self) -> bool {
        if self.is_short_of_descriptors {
            self.is_short_of_descriptors = !self.reserve.is_whole(&self.poll);
        }
        !self.is_short_of_descriptors
    }

    /// The process has no file descriptor for another connection: shows somebody out who has nothing to say.
    fn make_room(&mut self, why: &dyn std::fmt::Display) -> bool {
        let now_s = self.now_ms() / 1_000;
        if self
            .complained_s
            .is_none_or(|last_s| now_s >= last_s + COMPLAINT_INTERVAL_S)
        {
            self.complained_s = Some(now_s);
            let event = Event::ConnectionsNotAccepted { error: why };
            self.shard.options.events.event(&event);
        }
        let leaving = self.guests.oldest(Queue::Leaving);
        let Some((number, _)) = leaving.or_else(|| self.guests.oldest(Queue::Waiting)) else {
            return false;
        };
        self.count_if_waiting(number, ConnectionRefusal::Crowded);
        self.guests.remove(number);
        true
    }

    fn count_if_waiting(&mut self, number: u32, why: ConnectionRefusal) {
        if let Some((_, Queue::Waiting)) = self.guests.get_mut(number) {
            self.shard.metrics.connection_refused(why);
        }
    }

    /// A new connection: what it has sent by now is usually all there is to know of it.
    fn welcome(&mut self, stream: TcpStream, peer: SocketAddr, placement: Placement) {
        let admitted = match self.counts.admit(peer.ip().to_canonical()) {
            Ok(admitted) => admitted,
            Err(too_many) => {
                self.shard.metrics.connection_refused(ConnectionRefusal::TooMany);
                return self
                    .counts
                    .report(too_many, self.now_ms() / 1_000, &self.shard.options.events);
            }
        };
        let mut guest = Guest {
            stream,
            peer,
            placement,
            admitted,
            received: Vec::new(),
            ignored_bytes: 0,
        };
        match guest.stream.read(&mut self.scratch) {
            Ok(0) => self.shard.metrics.connection_refused(ConnectionRefusal::Silent),
            Ok(count) => match self.judge(count) {
                Verdict::Good => self.hand_over(guest, count),
                Verdict::Wait => {
                    guest.received.extend_from_slice(&self.scratch[..count]);
                    self.seat(guest);
                }
                Verdict::Refuse(rest) => {
                    refuse(&self.shard, &guest.stream, &self.answer);
                    if rest == Rest::Unknown {
                        self.let_leave(guest);
                    }
                }
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.seat(guest),
            Err(_) => self.shard.metrics.connection_refused(ConnectionRefusal::Silent),
        }
    }

    /// Waits for news of the guest. Without a place in the event queue nothing could be heard of it: it is closed.
    fn seat(&mut self, mut guest: Guest) {
        if self.guests.len() >= GUESTS_MAX
            && let Some((number, _)) = self.guests.oldest(Queue::Waiting)
        {
            self.count_if_waiting(number, ConnectionRefusal::Crowded);
            self.guests.remove(number);
        }
        let token = self.token_of(self.guests.next_number());
        let registry = self.poll.get_ref().registry();
        if registry
            .register(&mut guest.stream, token, Interest::READABLE)
            .is_ok()
        {
            let now_ms = self.now_ms();
            self.guests.insert(guest, Queue::Waiting, now_ms);
        }
    }

    /// Keeps a refused client's socket open for a while. Nobody listens to it: it costs no event.
    fn let_leave(&mut self, guest: Guest) {
        let now_ms = self.now_ms();
        self.guests.insert(guest, Queue::Leaving, now_ms);
        self.close_excess();
    }

    fn close_excess(&mut self) {
        while self.guests.count(Queue::Leaving) > LEAVING_MAX
            && let Some((number, _)) = self.guests.oldest(Queue::Leaving)
        {
            self.close_behind(number);
        }
    }

    /// Closes a refused client's connection with nothing left unread, which would make it a reset.
    fn close_behind(&mut self, number: u32) {
        let Some(mut guest) = self.guests.remove(number) else {
            return;
        };
        while guest.ignored_bytes < IGNORED_BYTES_MAX {
            match guest.stream.read(&mut self.scratch) {
                Ok(count @ 1..) => guest.ignored_bytes += count,
                _ => return,
            }
        }
    }

    /// Reads what a guest has sent, to the end: the kernel tells of it once.
    fn look_after(&mut self, number: u32) {
        loop {
            let Some((guest, queue)) = self.guests.get_mut(number) else {
                return;
            };
            // What came before is put in front, so that the message is judged as a whole.
            let before = guest.received.len();
            // No first message is as long as the scratch buffer.
            let Some((begun, rest)) = self.scratch.split_at_mut_checked(before) else {
                self.guests.remove(number);
                return;
            };
            begun.copy_from_slice(&guest.received);
            let count = match guest.stream.read(rest) {
                Ok(count @ 1..) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => {
                    self.count_if_waiting(number, ConnectionRefusal::Silent);
                    self.guests.remove(number);
                    return;
                }
            };
            if queue == Queue::Leaving {
                guest.ignored_bytes += count;
                if guest.ignored_bytes > IGNORED_BYTES_MAX {
                    self.guests.remove(number);
                    return;
                }
                continue;
            }
            match self.judge(before + count) {
                Verdict::Wait => {
                    if let Some((guest, _)) = self.guests.get_mut(number) {
                        guest.received.clear();
                        guest.received.extend_from_slice(&self.scratch[..before + count]);
                    }
                }
                Verdict::Good => return self.show_in(number, before + count),
                Verdict::Refuse(rest) => self.dismiss(number, rest),
            }
        }
    }

    fn show_in(&mut self, number: u32, bytes: usize) {
        let Some(mut guest) = self.guests.remove(number) else {
            return;
        };
        // If this fails the shard's event queue cannot take it either.
        let registry = self.poll.get_ref().registry();
        if registry.deregister(&mut guest.stream).is_ok() {
            self.hand_over(guest, bytes);
        }
    }

    /// Tells a guest that was waiting what `judge` found, and lets it leave.
    fn dismiss(&mut self, number: u32, rest: Rest) {
        if let Some((guest, _)) = self.guests.get_mut(number) {
            refuse(&self.shard, &guest.stream, &self.answer);
            guest.received = Vec::new();
            if rest == Rest::Nothing {
                self.guests.remove(number);
                return;
            }
            let now_ms = self.now_ms();
            self.guests.move_to(number, Queue::Leaving, now_ms);
        }
        self.close_excess();
    }

    fn hand_over(&mut self, guest: Guest, bytes: usize) {
        let first = self.scratch[..bytes].into();
        let stream = guest.stream.into();
        self.reception
            .place(stream, guest.peer, first, guest.placement, guest.admitted);
    }

    /// Judges the first `bytes` bytes of the scratch buffer. A refusal's answer is in `self.answer` then.
    fn judge(&mut self, bytes: usize) -> Verdict {
        let received = &self.scratch[..bytes];
        let rest = if is_one_message(received) {
            Rest::Nothing
        } else {
            Rest::Unknown
        };
        match first_message(received, FIRST_MESSAGE_BYTES_MAX) {
            Ok(FirstMessage::Nothing) => Verdict::Wait,
            Ok(FirstMessage::Begun(header)) if may_come_first(header.opcode) => Verdict::Wait,
            Ok(FirstMessage::Whole(envelope)) if may_come_first(envelope.header.opcode) => {
                let error = match Request::decode(&envelope) {
                    Ok((Request::Startup(startup), _)) => match startup.negotiate(envelope.header.version) {
                        Ok(_) => return Verdict::Good,
                        Err(error) => CqlError::protocol(format_args!("{error}")),
                    },
                    Ok(_) => return Verdict::Good,
                    Err(error) => CqlError::protocol(format_args!("{error}")),
                };
                self.shard.metrics.count_error(ErrorCode::ProtocolError);
                let (version, stream) = (envelope.header.version, envelope.header.stream);
                self.write_answer(version, stream, &ErrorBody::ProtocolError, &error);
                Verdict::Refuse(rest)
            }
            Ok(FirstMessage::Begun(header)) => {
                self.write_unexpected(header.version, header.stream, header.opcode);
                Verdict::Refuse(rest)
            }
            Ok(FirstMessage::Whole(envelope)) => {
                let header = envelope.header;
                self.write_unexpected(header.version, header.stream, header.opcode);
                Verdict::Refuse(rest)
            }
            Err(error) => {
                // Drivers step down to the version of the answer to one that nobody knows: nothing is wrong with that.
                if !matches!(error, FrameError::UnsupportedVersion { .. }) {
                    self.shard.metrics.count_error(error.code());
                }
                let version = received
                    .first()
                    .and_then(|first| ProtocolVersion::from_number(*first))
                    .filter(|_| !matches!(error, FrameError::BetaVersion { .. }))
                    .unwrap_or(ProtocolVersion::CURRENT);
                let body = match error.code() {
                    ErrorCode::Invalid => ErrorBody::Invalid,
                    _ => ErrorBody::ProtocolError,
                };
                self.write_answer(version, error.stream(), &body, &error);
                Verdict::Refuse(rest)
            }
        }
    }

    fn write_unexpected(&mut self, version: ProtocolVersion, stream: i16, opcode: Opcode) {
        self.shard.metrics.count_error(ErrorCode::ProtocolError);
        let text = format_args!("Unexpected message {opcode}, expecting STARTUP or OPTIONS");
        self.write_answer(version, stream, &ErrorBody::ProtocolError, &text);
    }

    fn write_answer(
        &mut self,
        version: ProtocolVersion,
        stream: i16,
        body: &ErrorBody<'_>,
        text: &dyn std::fmt::Display,
    ) {
        self.answer.clear();
        let mut writer = FrameWriter::new();
        let mark = writer.begin(
            &mut self.answer,
            version,
            EnvelopeFlags::NONE,
            stream,
            Opcode::Error,
        );
        write_error(&mut self.answer, version, body, text);
        // A line of text fits any envelope.
        let _fits = writer.finish(&mut self.answer, mark);
    }

    /// Closes whoever has had its time.
    fn close_late(&mut self) {
        let now_ms = self.now_ms();
        for (queue, time_ms) in [
            (Queue::Waiting, self.handshake_timeout_ms),
            (Queue::Leaving, LEAVE_TIME_MS),
        ] {
            while let Some((number, since_ms)) = self.guests.oldest(queue)
                && now_ms.saturating_sub(since_ms) >= time_ms
            {
                self.count_if_waiting(number, ConnectionRefusal::HandshakeTimeout);
                self.close_behind(number);
            }
        }
    }
}

/// Sends the last answer, and says that nothing follows: in one segment, as the kernel keeps the answer until the end is
/// behind it. It goes out before the socket is closed, so that what the client sends meanwhile takes no answer away.
fn refuse(shard: &Shard, stream: &TcpStream, answer: &[u8]) {
    shard.metrics.connection_refused(ConnectionRefusal::Protocol);
    // A new socket has room for a hundred bytes; if not, the client has left.
    let _left = SockRef::from(stream).send_with_flags(answer, MORE_FOLLOWS);
    let _left = stream.shutdown(std::net::Shutdown::Write);
}

/// Whether accepting failed for want of what every connection takes: descriptors or memory.
fn is_out_of_resources(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// What a client may say before anything else.
fn may_come_first(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Startup | Opcode::Options)
}
