//! Accepts connections. A new socket stays here until a valid STARTUP or OPTIONS has arrived; anything else is rejected before
//! a task, a session or a buffer is allocated.
//!
//! One task on the accepting thread looks after all pending connections, with an event queue of its own, in turns of bounded
//! length.

mod first_message;

use std::io::{self, Read};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_events::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::SockRef;
use tokio::io::unix::AsyncFd;
use tokio::time::{Sleep, sleep};

use crate::connection_limits::{ConnectionCounts, ConnectionPermit};
use crate::context::TransportContext;
use crate::descriptors::DescriptorReserve;
use crate::dispatcher::ConnectionDispatcher;
use crate::handover::{Departures, HandedOver, Progress};
use crate::metrics::{ConnectionMetrics, ConnectionRefusal};
use crate::pending_connections::{PendingConnections, Queue};
use crate::placement::Placement;
use first_message::{Judgement, Rest};

/// Bytes read at once of a connection in the acceptor: a first message and what a hasty client sends behind it.
const READ_BYTES: usize = 8 * 1024;

/// A turn of the acceptor, half of it for pending connections and half to accept others; the last one begun is finished.
/// At some 20 us of kernel time each that is four, and as long as the shortest turn that a connection has (see `Admission::turn_ns`): with 16 of
/// each, requests of the thread's connections waited for 600 us in a storm.
const TURN_NS_MAX: u64 = 50_000;

/// The same in connections, however fast they are.
const PER_TURN_MAX: usize = 16;

/// While there is work that is known, the kernel is asked for more of it at every so many turns.
const TURNS_PER_LOOK: usize = 4;

/// Connections in the acceptor: 10 MiB of them. The oldest that has not said anything makes room for a new one, so that
/// silent ones never keep others out.
const PENDING_MAX: usize = 65_536;

/// How long a refused client's socket stays open at least, so that what the client still sends does not reset the
/// connection before it has read the answer: a round trip around the earth.
const REJECTED_LINGER_MS: u64 = 250;

/// Refused clients whose sockets are kept open for that; the oldest makes room. A storm must not take the file
/// descriptors that SSTables need. At 20,000 refusals a second each of them still has 12 ms, a hundred round trips in a
/// datacenter.
const LINGERING_MAX: usize = 256;

/// Bytes that a refused client may still send before the connection is reset.
const IGNORED_BYTES_MAX: usize = 1 << 20;

/// The kernel is to wait with what is sent until more, or the end, comes: a segment less on both sides.
#[cfg(target_os = "linux")]
const MORE_FOLLOWS: i32 = libc::MSG_MORE;
#[cfg(not(target_os = "linux"))]
const MORE_FOLLOWS: i32 = 0;

/// How often the acceptor looks for connections whose time is over.
const TICK: Duration = Duration::from_millis(250);

/// How long accepting pauses when the process has no file descriptor for a connection and nobody in the acceptor can give one
/// back.
const OUT_OF_FILES_PAUSE: Duration = Duration::from_millis(10);

/// A storm that finds no file descriptor is one line a minute in the log.
const COMPLAINT_INTERVAL_S: u64 = 60;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// The listeners of a server, and the connections that were not handed to a thread yet.
pub(crate) struct Acceptor {
    transport: Rc<TransportContext>,
    dispatcher: ConnectionDispatcher,
    counts: Arc<ConnectionCounts>,
    reserve: DescriptorReserve,
    /// The connection that was accepted last got a descriptor of the reserve.
    is_short_of_descriptors: bool,
    poll: AsyncFd<Poll>,
    listeners: Vec<Listener>,
    pending: PendingConnections<PendingConnection>,
    handshake_timeout_ms: u64,
    /// Pending connections of which the kernel has news.
    ready: Vec<u32>,
    /// Buffer of the bytes being read; nothing of it is kept between two connections.
    scratch: Box<[u8]>,
    answer: Vec<u8>,
    /// When the log was last told that connections wait.
    complained_s: Option<u64>,
    departures: Arc<Departures>,
}

/// Connections that were accepted elsewhere, and those that others go on with.
pub(crate) struct Relay {
    /// Connections of which nothing but the beginning of a first message has come.
    pub arrivals: Vec<Arrival>,
    pub departures: Arc<Departures>,
}

/// A connection that another process has accepted and nobody has served.
pub(crate) struct Arrival {
    pub stream: std::net::TcpStream,
    pub placement: Placement,
    pub received: Vec<u8>,
}

struct Listener {
    socket: TcpListener,
    placement: Placement,
    may_have_more: bool,
}

struct PendingConnection {
    stream: TcpStream,
    peer: SocketAddr,
    placement: Placement,
    permit: ConnectionPermit,
    /// The beginning of its first message, if it came in pieces.
    received: Vec<u8>,
    ignored_bytes: usize,
}

impl Acceptor {
    pub fn new(
        transport: Rc<TransportContext>,
        dispatcher: ConnectionDispatcher,
        counts: Arc<ConnectionCounts>,
        reserve: DescriptorReserve,
        sockets: Vec<(std::net::TcpListener, Placement)>,
        relay: Relay,
    ) -> io::Result<Acceptor> {
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
        let mut acceptor = Acceptor {
            transport,
            dispatcher,
            counts,
            reserve,
            is_short_of_descriptors: false,
            poll,
            listeners,
            pending: PendingConnections::new(),
            handshake_timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            ready: Vec::new(),
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            answer: Vec::new(),
            complained_s: None,
            departures: relay.departures,
        };
        for arrival in relay.arrivals {
            acceptor.arrive(arrival);
        }
        Ok(acceptor)
    }

    /// Goes on waiting for the first message of a connection.
    fn arrive(&mut self, arrival: Arrival) {
        let Arrival {
            stream,
            placement,
            received,
        } = arrival;
        // Who has gone meanwhile has no address.
        let Ok(peer) = stream.peer_addr() else { return };
        if let Some(permit) = self.admit_from(peer)
            && received.len() < READ_BYTES
        {
            self.keep_pending(PendingConnection {
                stream: TcpStream::from_std(stream),
                peer,
                placement,
                permit,
                received,
                ignored_bytes: 0,
            });
        }
    }

    /// A place among the connections, if there is one.
    fn admit_from(&mut self, peer: SocketAddr) -> Option<ConnectionPermit> {
        match self.counts.admit(peer.ip().to_canonical()) {
            Ok(permit) => Some(permit),
            Err(too_many) => {
                self.transport
                    .metrics
                    .connection_refused(ConnectionRefusal::TooMany);
                self.counts
                    .report(too_many, self.now_ms() / 1_000, &self.transport.events);
                None
            }
        }
    }

    /// Receives connections until the future is dropped, which closes the listeners and everybody in the acceptor.
    pub async fn receive(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut tick = Box::pin(sleep(TICK));
        loop {
            self.wait_for_news(tick.as_mut()).await?;
            if tick.is_elapsed() {
                self.close_late();
                tick.set(sleep(TICK));
            }
            for turn in 0_usize.. {
                if turn.is_multiple_of(TURNS_PER_LOOK) {
                    self.take_news(&mut events)?;
                }
                self.look_after_pending();
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
        let has_pending = self.pending.len() > 0;
        tokio::select! {
            // What came before the flag is cleared is seen by the look at the queue that follows.
            ready = self.poll.readable() => ready?.clear_ready(),
            () = tick, if has_pending => {}
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

    fn token_of(&self, connection: u32) -> Token {
        Token(self.listeners.len() + connection as usize)
    }

    fn now_ms(&self) -> u64 {
        self.transport.clock().monotonic_ns() / 1_000_000
    }

    fn turn_ends_ns(&self) -> u64 {
        self.transport.clock().monotonic_ns() + TURN_NS_MAX / 2
    }

    fn look_after_pending(&mut self) {
        let ends_ns = self.turn_ends_ns();
        for _ in 0..PER_TURN_MAX {
            let Some(number) = self.ready.pop() else { break };
            self.look_after(number);
            if self.transport.clock().monotonic_ns() >= ends_ns {
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
                        self.accepted(stream, peer, placement);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => listener.may_have_more = false,
                    Err(error) if is_out_of_resources(&error) => return self.make_room(&error),
                    // Of the connection that was to be accepted: it has gone, or its network has.
                    Err(_) => accepted += 1,
                }
                if self.transport.clock().monotonic_ns() >= ends_ns {
                    return true;
                }
            }
        }
        true
    }

    /// Returns whether another connection leaves the reserve whole. Where that is in doubt, the next connection waits in the
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
            self.transport.events.event(&event);
        }
        let leaving = self.pending.oldest(Queue::Lingering);
        let Some((number, _)) = leaving.or_else(|| self.pending.oldest(Queue::Waiting)) else {
            return false;
        };
        self.count_if_waiting(number, ConnectionRefusal::Crowded);
        self.pending.remove(number);
        true
    }

    fn count_if_waiting(&mut self, number: u32, why: ConnectionRefusal) {
        if let Some((_, Queue::Waiting)) = self.pending.get_mut(number) {
            self.transport.metrics.connection_refused(why);
        }
    }

    /// A new connection: what it has sent by now is usually all there is to know of it.
    fn accepted(&mut self, stream: TcpStream, peer: SocketAddr, placement: Placement) {
        let Some(permit) = self.admit_from(peer) else {
            return;
        };
        let mut connection = PendingConnection {
            stream,
            peer,
            placement,
            permit,
            received: Vec::new(),
            ignored_bytes: 0,
        };
        match connection.stream.read(&mut self.scratch) {
            Ok(0) => self
                .transport
                .metrics
                .connection_refused(ConnectionRefusal::Silent),
            Ok(count) => match self.judge(count) {
                Judgement::Accepted => self.hand_over(connection, count),
                Judgement::Incomplete => {
                    connection.received.extend_from_slice(&self.scratch[..count]);
                    self.keep_pending(connection);
                }
                Judgement::Rejected(rest) => {
                    refuse(&self.transport.metrics, &connection.stream, &self.answer);
                    if rest == Rest::Unknown {
                        self.let_linger(connection);
                    }
                }
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.keep_pending(connection),
            Err(_) => self
                .transport
                .metrics
                .connection_refused(ConnectionRefusal::Silent),
        }
    }

    /// Waits for news of the connection. Without a place in the event queue nothing could be heard of it: it is closed.
    fn keep_pending(&mut self, mut connection: PendingConnection) {
        if self.pending.len() >= PENDING_MAX
            && let Some((number, _)) = self.pending.oldest(Queue::Waiting)
        {
            self.count_if_waiting(number, ConnectionRefusal::Crowded);
            self.pending.remove(number);
        }
        let token = self.token_of(self.pending.next_number());
        let registry = self.poll.get_ref().registry();
        if registry
            .register(&mut connection.stream, token, Interest::READABLE)
            .is_ok()
        {
            let now_ms = self.now_ms();
            self.pending.insert(connection, Queue::Waiting, now_ms);
        }
    }

    /// Keeps a refused client's socket open for a while. Nobody listens to it: it costs no event.
    fn let_linger(&mut self, connection: PendingConnection) {
        let now_ms = self.now_ms();
        self.pending.insert(connection, Queue::Lingering, now_ms);
        self.close_excess();
    }

    fn close_excess(&mut self) {
        while self.pending.count(Queue::Lingering) > LINGERING_MAX
            && let Some((number, _)) = self.pending.oldest(Queue::Lingering)
        {
            self.close_behind(number);
        }
    }

    /// Closes a refused client's connection with nothing left unread, which would make it a reset.
    fn close_behind(&mut self, number: u32) {
        let Some(mut connection) = self.pending.remove(number) else {
            return;
        };
        while connection.ignored_bytes < IGNORED_BYTES_MAX {
            match connection.stream.read(&mut self.scratch) {
                Ok(count @ 1..) => connection.ignored_bytes += count,
                _ => return,
            }
        }
    }

    /// Reads what a connection has sent, to the end: the kernel tells of it once.
    fn look_after(&mut self, number: u32) {
        loop {
            let Some((connection, queue)) = self.pending.get_mut(number) else {
                return;
            };
            // What came before is put in front, so that the message is judged as a whole.
            let before = connection.received.len();
            // No first message is as long as the scratch buffer.
            let Some((begun, rest)) = self.scratch.split_at_mut_checked(before) else {
                self.pending.remove(number);
                return;
            };
            begun.copy_from_slice(&connection.received);
            let count = match connection.stream.read(rest) {
                Ok(count @ 1..) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => {
                    self.count_if_waiting(number, ConnectionRefusal::Silent);
                    self.pending.remove(number);
                    return;
                }
            };
            if queue == Queue::Lingering {
                connection.ignored_bytes += count;
                if connection.ignored_bytes > IGNORED_BYTES_MAX {
                    self.pending.remove(number);
                    return;
                }
                continue;
            }
            match self.judge(before + count) {
                Judgement::Incomplete => {
                    if let Some((connection, _)) = self.pending.get_mut(number) {
                        connection.received.clear();
                        connection
                            .received
                            .extend_from_slice(&self.scratch[..before + count]);
                    }
                }
                Judgement::Accepted => return self.admit(number, before + count),
                Judgement::Rejected(rest) => self.reject(number, rest),
            }
        }
    }

    fn admit(&mut self, number: u32, bytes: usize) {
        let Some(mut connection) = self.pending.remove(number) else {
            return;
        };
        // If this fails the shard's event queue cannot take it either.
        let registry = self.poll.get_ref().registry();
        if registry.deregister(&mut connection.stream).is_ok() {
            self.hand_over(connection, bytes);
        }
    }

    /// Tells a connection that was waiting what `judge` found, and lets it leave.
    fn reject(&mut self, number: u32, rest: Rest) {
        if let Some((connection, _)) = self.pending.get_mut(number) {
            refuse(&self.transport.metrics, &connection.stream, &self.answer);
            connection.received = Vec::new();
            if rest == Rest::Nothing {
                self.pending.remove(number);
                return;
            }
            let now_ms = self.now_ms();
            self.pending.move_to(number, Queue::Lingering, now_ms);
        }
        self.close_excess();
    }

    fn hand_over(&mut self, connection: PendingConnection, bytes: usize) {
        let first = self.scratch[..bytes].into();
        let stream = connection.stream.into();
        self.dispatcher.dispatch(
            stream,
            connection.peer,
            first,
            connection.placement,
            connection.permit,
        );
    }

    /// Looks at the first `bytes` bytes of the scratch buffer. The answer to a rejected message is in `self.answer` then.
    fn judge(&mut self, bytes: usize) -> Judgement {
        let received = &self.scratch[..bytes];
        first_message::judge(received, &mut self.answer, &self.transport.metrics)
    }

    /// Closes whoever has had its time.
    fn close_late(&mut self) {
        let now_ms = self.now_ms();
        for (queue, time_ms) in [
            (Queue::Waiting, self.handshake_timeout_ms),
            (Queue::Lingering, REJECTED_LINGER_MS),
        ] {
            while let Some((number, since_ms)) = self.pending.oldest(queue)
                && now_ms.saturating_sub(since_ms) >= time_ms
            {
                self.count_if_waiting(number, ConnectionRefusal::HandshakeTimeout);
                self.close_behind(number);
            }
        }
    }
}

impl Drop for Acceptor {
    /// Where another process takes the connections, who has not said everything goes on there.
    fn drop(&mut self) {
        if !self.departures.has_begun() {
            return;
        }
        while let Some((number, _)) = self.pending.oldest(Queue::Waiting) {
            let Some(connection) = self.pending.remove(number) else {
                return;
            };
            let progress = Progress::Pending {
                placement: connection.placement,
                received: connection.received,
            };
            self.departures
                .add(HandedOver::new(connection.stream.into(), progress));
        }
    }
}

/// Sends the last answer, and says that nothing follows: in one segment, as the kernel keeps the answer until the end is
/// behind it. It goes out before the socket is closed, so that what the client sends meanwhile takes no answer away.
fn refuse(metrics: &ConnectionMetrics, stream: &TcpStream, answer: &[u8]) {
    metrics.connection_refused(ConnectionRefusal::Protocol);
    // A new socket has room for a hundred bytes; if not, the client has left.
    let _left = SockRef::from(stream).send_with_flags(answer, MORE_FOLLOWS);
    let _left = stream.shutdown(std::net::Shutdown::Write);
}

/// Returns whether accepting failed for want of what every connection takes: descriptors or memory.
fn is_out_of_resources(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
