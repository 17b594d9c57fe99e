//! One CQL connection: bytes in, whole messages to the service, answers out.
//!
//! A single future owns the socket. Each time it runs it reads what is there, hands whole messages to the service, and
//! sends every answer that is ready in one write; answers that come later wake it through the outbox. A turn ends when
//! its time is over: what is left is handled in the next, before more is read. Statements that have waited longer than
//! admission control allows are refused by their headers.

mod handing_over;
mod handling;
mod receiver;
mod sender;
mod serving;

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use helenus_protocol::ErrorCode;
use helenus_protocol::frame::FrameLimits;

use crate::backlog::Backlog;
use crate::connection_limits::ConnectionLimits;
use crate::connection_registry::{ConnectionRegistry, DrainPhase};
use crate::context::TransportContext;
use crate::deadline::nanoseconds;
use crate::handshake::Stage;
use crate::metrics::ConnectionRefusal;
use crate::read_rotation::Reader;
use crate::service::Service;
use crate::session::Session;
use crate::socket::Socket;
use crate::turn::{Turn, TurnLimits};
use crate::turn_shares::UserTurns;
use receiver::Receiver;
use sender::Sender;
use serving::{OUTPUT_BYTES_MAX, Serving};

/// A client's connection on its service's thread; runs until it has come to its end.
pub(crate) struct Connection<S: Service> {
    id: u64,
    socket: Socket,
    stage: Stage,
    receiver: Receiver,
    serving: Serving<S>,
    sender: Sender,
    /// Since when nothing has happened on it, while connections are drained; on the thread's clock.
    quiet_since_ns: Option<u64>,
    read_pause: ReadPause,
    /// Turns of all connections of its user.
    user_turns: Rc<UserTurns>,
    /// Round in which it waited last because its user had had its share.
    waits_in: Cell<u64>,
}

/// State of a connection's pauses in being read.
#[derive(Default)]
struct ReadPause {
    /// Something of it was refused in its last turn.
    was_refused: bool,
    /// Left unread until the rotation comes to it.
    is_paused: bool,
}

/// Limits that a connection has to keep to.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub frames: FrameLimits,
    pub connections: ConnectionLimits,
}

/// Answers of one turn: large ones end it before they leave the core's own cache, and fit a pooled buffer.
const OUTPUT_BYTES_PER_TURN_MAX: usize = 192 * 1024;

impl<S: Service> Connection<S> {
    /// `first` was read before the thread got the connection. If STARTUP has not been answered when the time is over, the
    /// connection is closed.
    pub fn new(
        socket: Socket,
        first: &[u8],
        service: Rc<S>,
        registry: Rc<ConnectionRegistry<S::Conversation>>,
        session: Rc<Session<S::Conversation>>,
        limits: Limits,
    ) -> Self {
        let id = registry.connection_opened(&session);
        session.outbox().sends_at_once(socket.sends_at_once());
        let transport = service.transport();
        transport.metrics.connection_opened();
        Connection {
            id,
            socket,
            stage: Stage::new(limits.connections.handshake_timeout),
            receiver: Receiver::new(first, limits.frames, transport),
            sender: Sender::new(limits.connections.answer_timeout),
            quiet_since_ns: None,
            read_pause: ReadPause::default(),
            user_turns: transport.admission.turns_of(None),
            waits_in: Cell::new(0),
            serving: Serving {
                service,
                registry,
                session,
                backlog: Backlog::default(),
                waits_for_others: false,
            },
        }
    }

    fn transport(&self) -> &TransportContext {
        self.serving.service.transport()
    }

    /// Returns whether the time for the handshake is over, or the time to read the last answer.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let is_late = self.stage.is_over(context);
        if is_late && !self.stage.is_ready() {
            let metrics = &self.transport().metrics;
            metrics.connection_refused(ConnectionRefusal::HandshakeTimeout);
        }
        is_late
    }

    /// Returns whether everything accepted has been answered and sent.
    fn is_idle(&self) -> bool {
        let outbox = self.serving.session.outbox();
        outbox.in_flight() == 0
            && self.sender.is_empty()
            && !outbox.has_output()
            && self.serving.backlog.is_empty()
    }

    /// Returns whether the client's messages wait for the answer to its login.
    fn is_logging_in(&self) -> bool {
        self.stage.is_authenticating() && self.serving.session.outbox().in_flight() > 0
    }

    fn may_read(&self) -> bool {
        !self.is_logging_in() && self.serving.may_begin()
    }

    /// While connections are drained: whether nothing has been on its way for long enough to close. To be asked when the
    /// socket was just seen empty: a thread that was held up itself finds requests there, however old its last look is.
    fn has_left(&mut self) -> bool {
        if self.serving.registry.drain_phase() == DrainPhase::Open || !self.is_idle() {
            self.quiet_since_ns = None;
            return false;
        }
        let now_ns = self.transport().clock().monotonic_ns();
        let quiet_since_ns = *self.quiet_since_ns.get_or_insert(now_ns);
        let quiet_time = self.serving.registry.quiet_time(self.id);
        now_ns.saturating_sub(quiet_since_ns) >= nanoseconds(quiet_time)
    }

    /// Sends what is ready. Pending if the socket takes no more.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outbox = self.serving.session.outbox();
        let buffers = &self.serving.service.transport().buffers;
        let sent = self.sender.poll_send(context, &mut self.socket, outbox, buffers);
        outbox.set_is_sending(!self.sender.is_empty());
        sent
    }

    /// Reads what is there; whether the socket may have more.
    fn receive(&mut self, context: &mut Context<'_>, now_ns: u64) -> bool {
        let has_backlog = !self.serving.backlog.is_empty();
        let transport = self.serving.service.transport();
        let read = self
            .receiver
            .receive(context, &mut self.socket, transport, now_ns, has_backlog);
        if read.has_read {
            self.quiet_since_ns = None;
        }
        read.has_more
    }

    fn begin_turn(&self, now_ns: u64) -> Turn {
        let admission = &self.transport().admission;
        let session = &self.serving.session;
        let throws_on_overload = session.client().throws_on_overload;
        let limits = TurnLimits {
            turn_ns: admission.turn_ns_of(&self.user_turns, throws_on_overload),
            wait_ns_max: admission.wait_ns_max(throws_on_overload),
            throws_on_overload,
            is_out_of_memory: !session.outbox().has_room(),
            earliest_ns: self.receiver.earliest_ns(),
        };
        Turn::begin(now_ns, limits, self.receiver.is_draining_backlog())
    }

    fn end_turn(&mut self, turn: &Turn) {
        let transport = self.serving.service.transport();
        let overloaded = turn.work.overloaded();
        if overloaded > 0 {
            transport.metrics.count_errors(ErrorCode::Overloaded, overloaded);
        }
        self.read_pause.was_refused = turn.work.has_refused();
        let requests = turn.work.requests();
        self.serving.session.count_requests(requests);
        transport
            .admission
            .turn_ended(Some(self.id), turn.began_ns, &turn.work);
        let (took_ns, was_cut) = turn.taken();
        self.user_turns.turn_ended(took_ns, was_cut);
        self.receiver.give_back(transport);
    }

    /// Bytes that it holds beside its backlog.
    fn held_bytes(&self) -> usize {
        self.receiver.capacity() + self.sender.capacity()
    }
}

/// The connection is of no more use.
struct Closed;

impl<S: Service> Future for Connection<S> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let ended = this.run(context);
        if ended.is_pending() {
            this.serving.charge(this.held_bytes());
        }
        ended
    }
}

impl<S: Service> Connection<S> {
    /// Sends, reads and handles as much as one turn may; ready when the connection has come to its end.
    fn run(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.serving.session.outbox().set_waker(context.waker());
        let was_listening = self.receiver.take_listening();
        match self.poll_send(context) {
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Pending if self.sender.is_stuck(context) => return Poll::Ready(()),
            // A client that does not take its answers is not asked for more.
            Poll::Pending if self.serving.session.outbox().bytes() >= OUTPUT_BYTES_MAX => {
                return Poll::Pending;
            }
            _ => {}
        }
        if self.stage.is_authenticating() && self.serving.session.user().is_some() {
            self.open();
        }
        if self.is_late(context) {
            return Poll::Ready(());
        }
        if self.serving.registry.is_handing_over()
            && let Some(poll) = self.poll_hand_over()
        {
            return poll;
        }
        if !self.may_read() {
            return Poll::Pending;
        }
        let admission = &self.transport().admission;
        if admission.must_wait_for_others(&self.user_turns, &self.waits_in, context.waker()) {
            return Poll::Pending;
        }
        self.serving.service.before_turn();
        let now_ns = self.transport().look_at_clock();
        let admission = &self.transport().admission;
        admission.turn_begins(now_ns);
        admission.turn_of_user_begins(&self.user_turns);
        let Some(mut has_more) = self.receive_in_turn(context, now_ns, was_listening) else {
            return Poll::Pending;
        };
        let mut turn = self.begin_turn(now_ns);
        if self.transport().admission.is_refusing() {
            turn.work.receiving_ns = self.transport().look_at_clock().saturating_sub(now_ns);
        }
        let refused_before = self.transport().admission.refused_begun();
        if let Err(Closed) = self.handle_turn(context, &mut turn, &mut has_more) {
            return Poll::Ready(());
        }
        turn.work.refused_begun = self.transport().admission.refused_begun() - refused_before;
        self.end_turn(&turn);
        let mut sent = self.poll_send(context);
        if turn.work.is_all_refusals() {
            let took_ns = self.transport().look_at_clock().saturating_sub(now_ns);
            let refusing_ns = took_ns.saturating_sub(turn.work.receiving_ns);
            self.transport().admission.refusing_took(&turn.work, refusing_ns);
        }
        if self.stage.is_closing() && sent.is_ready() {
            sent = self.socket.poll_shutdown(context);
        }
        if sent.is_pending() && self.sender.is_stuck(context) {
            return Poll::Ready(());
        }
        self.turn_ended(context, &sent, has_more)
    }

    /// Reads, unless something is left to be handled first. Whether the socket may have more; `None` where the connection
    /// has to wait to be read.
    fn receive_in_turn(
        &mut self,
        context: &mut Context<'_>,
        now_ns: u64,
        was_listening: bool,
    ) -> Option<bool> {
        // While there is a leftover the socket is not looked at: it may have more.
        if self.receiver.has_leftover || self.receiver.has_ended {
            return Some(self.receiver.has_leftover && !self.receiver.has_ended);
        }
        // What comes behind the last message is for the process that goes on with the connection.
        if self.is_to_leave() {
            return Some(false);
        }
        // The order of what is kept is worth nothing without what came last.
        if self.serving.backlog.is_empty() && self.must_wait(context) {
            self.read_pause.is_paused = true;
            return None;
        }
        if std::mem::take(&mut self.read_pause.is_paused) {
            self.receiver.resumed(now_ns, &self.socket);
        }
        self.receiver.set_listening(was_listening);
        Some(self.receive(context, now_ns))
    }

    /// Returns whether it is to be left unread until it is woken.
    #[inline]
    fn must_wait(&self, context: &Context<'_>) -> bool {
        let was_refused = self.read_pause.was_refused;
        let admission = &self.transport().admission;
        if !admission.may_have_to_wait(was_refused) {
            return false;
        }
        let reader = Reader {
            connection: self.id,
            user: self.serving.session.user(),
            was_refused,
        };
        admission.must_wait(reader, context.waker())
    }

    /// Ready once the connection has come to its end; if not, it is woken where there is more to do.
    fn turn_ended(
        &mut self,
        context: &mut Context<'_>,
        sent: &Poll<io::Result<()>>,
        has_more: bool,
    ) -> Poll<()> {
        let backlog = &self.serving.backlog;
        let is_handled = !self.receiver.has_leftover && backlog.is_empty();
        if matches!(sent, Poll::Ready(Err(_))) || (self.receiver.has_ended && is_handled) {
            return Poll::Ready(());
        }
        let goes_on = self.receiver.has_leftover || has_more || backlog.has_next(self.serving.may_queue());
        if !goes_on && self.has_left() {
            return Poll::Ready(());
        }
        // Where requests are kept behind others, an answer wakes the connection.
        let leaves_now = self.serving.backlog.is_empty() && self.is_to_leave();
        if self.may_read() && (goes_on || leaves_now) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<S: Service> Drop for Connection<S> {
    fn drop(&mut self) {
        self.serving.session.outbox().close();
        self.serving.service.connection_closed(self.id);
        self.transport().admission.connection_closed(self.id);
        self.serving.registry.connection_closed(self.id);
        self.transport().metrics.connection_closed();
    }
}
