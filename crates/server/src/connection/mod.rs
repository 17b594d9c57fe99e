//! One CQL connection: bytes in, whole messages to the shard, answers out.
//!
//! A single future owns the socket. Each time it runs it reads what is there, hands whole messages to the shard, and
//! sends every answer that is ready in one write; answers that come later wake it through the session. A turn ends when
//! its time is over: what is left is handled in the next, before more is read. Statements that have waited longer than
//! the shard's admission allows are refused by their headers.

mod handling;
mod receiving;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use helenus_node::metrics::ConnectionRefusal;
use helenus_node::{Session, Shard};
use helenus_protocol::frame::{FrameLimits, FrameReader, ReceiveBuffer};
use helenus_protocol::{Direction, ErrorCode};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::arrivals::{Arrivals, Emptied};
use crate::backlog::Backlog;
use crate::catching_up::CatchingUp;
use crate::connection_limits::ConnectionLimits;
use crate::door::{Door, DrainPhase};
use crate::handshake::Phase;
use crate::turn::{Turn, TurnLimits};

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
    /// When the socket was last seen empty, on the shard's clock.
    empty_ns: u64,
    emptied: Emptied,
    /// Since then nothing has kept the connection from hearing at once that there is something to read.
    is_listening: bool,
    /// Of what is in `received`.
    arrivals: Arrivals,
    /// What has waited so long that the order matters.
    backlog: Backlog,
    /// Whole messages may be left in `received` from the last turn.
    has_leftover: bool,
    /// The peer sends no more; what it sent is still handled.
    has_ended: bool,
    was_refused: bool,
    /// Left unread until its shift comes.
    is_waiting: bool,
    /// After such a wait.
    catching_up: Option<CatchingUp>,
    /// Memory is set aside for the rest of a message.
    has_reservation: bool,
    /// When it is closed unless it gets further: in the handshake, and while the client reads the last answer.
    ends: Option<Pin<Box<Sleep>>>,
    /// When it is closed unless the client takes something of what is being sent.
    taken_until: Option<Pin<Box<Sleep>>>,
    answer_timeout: Duration,
}

/// How long a client may take to read its last answer and to close.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// Answers that may wait for a client that does not read them; no more of its requests are read until it does.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Answers that may be on their way to it, by the size of those before them: a thousand rows of 8 KiB, or one large page.
const EXPECTED_BYTES_MAX: usize = 8 << 20;

/// Answers of one turn: large ones end it before they leave the core's own cache, and fit a pooled buffer.
const OUTPUT_BYTES_PER_TURN_MAX: usize = 192 * 1024;

/// Requests of one connection that may be under way: the number of its streams.
const IN_FLIGHT_MAX: u32 = 32_768;

impl Connection {
    pub fn new(
        stream: TcpStream,
        shard: Rc<Shard>,
        door: Rc<Door>,
        session: Rc<Session>,
        limits: FrameLimits,
    ) -> Self {
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
            empty_ns: 0,
            emptied: Emptied::default(),
            is_listening: true,
            arrivals: Arrivals::default(),
            backlog: Backlog::default(),
            has_leftover: false,
            has_ended: false,
            was_refused: false,
            is_waiting: false,
            catching_up: None,
            has_reservation: false,
            ends: None,
            taken_until: None,
            answer_timeout: Duration::MAX,
        }
    }

    /// `first` was read before the shard got the connection. If STARTUP has not been answered when the time is over, the
    /// connection is closed.
    pub fn begin(&mut self, first: &[u8], limits: ConnectionLimits) {
        self.received.lend(self.shard.buffers.take());
        self.received.feed(first);
        let now_ns = self.shard.look_at_clock();
        self.arrivals = Arrivals::new(now_ns, now_ns, first.len());
        // Who is not let in yet has sent nothing that waits.
        self.empty_ns = now_ns;
        self.has_leftover = true;
        self.ends = Some(Box::pin(sleep(limits.handshake_timeout)));
        self.answer_timeout = limits.answer_timeout;
    }

    /// Whether the time for the handshake is over, or the time to read the last answer.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let Some(ends) = &mut self.ends else { return false };
        if ends.as_mut().poll(context).is_pending() {
            return false;
        }
        if matches!(self.phase, Phase::Opening | Phase::Authenticating) {
            self.shard
                .metrics
                .connection_refused(ConnectionRefusal::HandshakeTimeout);
        }
        true
    }

    /// The next answer is the last: the client is to read it and close.
    fn begin_leaving(&mut self) {
        self.phase = Phase::Refusing;
        self.ends = Some(Box::pin(sleep(LEAVE_TIME)));
    }

    /// Whether everything accepted has been answered and sent.
    fn is_idle(&self) -> bool {
        self.session.outbox().in_flight() == 0
            && self.sent == self.sending.len()
            && !self.session.outbox().has_output()
            && self.backlog.is_empty()
    }

    /// Whether what the client sent waits for the answer to its login.
    fn is_logging_in(&self) -> bool {
        self.phase == Phase::Authenticating && self.session.outbox().in_flight() > 0
    }

    fn may_read(&self) -> bool {
        !self.is_logging_in()
            && self.session.outbox().in_flight() < IN_FLIGHT_MAX
            && self.session.outbox().bytes() < OUTPUT_BYTES_MAX
            && self.session.outbox().expected_bytes() < EXPECTED_BYTES_MAX
    }

    /// While the door is closing: whether nothing has been on its way for long enough to close. To be asked when the
    /// socket was just seen empty: a shard that was held up itself finds requests there, however old its last look is.
    fn has_left(&mut self) -> bool {
        if self.door.drain_phase() == DrainPhase::Open || !self.is_idle() {
            self.quiet_since = None;
            return false;
        }
        let now = Instant::now();
        now.duration_since(*self.quiet_since.get_or_insert(now)) >= self.door.quiet_time(self.id)
    }

    /// Sends what is ready. Pending if the socket takes no more.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.sent < self.sending.len() {
                let stream = Pin::new(&mut self.stream);
                match stream.poll_write(context, &self.sending[self.sent..]) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => {
                        self.sent += count;
                        self.taken_until = None;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            self.sending.clear();
            self.sent = 0;
            if !self.session.outbox().has_output() {
                self.shard.buffers.give_back(std::mem::take(&mut self.sending));
                return Poll::Ready(Ok(()));
            }
            self.session.outbox().take(&mut self.sending);
        }
    }

    /// Whether the client, whose socket took no more when it was last tried, has taken nothing for too long.
    fn takes_nothing(&mut self, context: &mut Context<'_>) -> bool {
        let timeout = self.answer_timeout;
        let until = self.taken_until.get_or_insert_with(|| Box::pin(sleep(timeout)));
        until.as_mut().poll(context).is_ready()
    }

    /// The handshake is over.
    fn let_in(&mut self) {
        self.reader.ready();
        self.phase = Phase::Open;
        self.ends = None;
    }

    fn begin_turn(&self, now_ns: u64) -> Turn {
        let admission = &self.shard.admission;
        let throws_on_overload = self.session.client().throws_on_overload;
        let limits = TurnLimits {
            turn_ns: admission.turn_ns(),
            wait_ns_max: admission.wait_ns_max(throws_on_overload),
            throws_on_overload,
            is_out_of_memory: !self.session.outbox().has_room(),
            earliest_ns: self.arrivals.earliest_ns(),
        };
        Turn::begin(now_ns, limits, self.catching_up.is_some())
    }

    fn end_turn(&mut self, turn: &Turn) {
        let admission = &self.shard.admission;
        let overloaded = turn.work.overloaded();
        if overloaded > 0 {
            self.shard.metrics.count_errors(ErrorCode::Overloaded, overloaded);
        }
        self.was_refused = overloaded > 0;
        self.session.count_requests(turn.work.handled + overloaded);
        admission.turn_ended(turn.began_ns, &turn.work);
        if let Some(catching_up) = &mut self.catching_up
            && let Some(sent_after_ns) = catching_up.handled(turn.now_ns, turn.work.handled + overloaded)
        {
            self.empty_ns = self.empty_ns.max(sent_after_ns);
        }
        if let Some(memory) = self.received.take_memory() {
            let buffers = &self.shard.buffers;
            buffers.give_back(memory);
            buffers.give_back(self.reader.take_scratch());
        }
    }

    /// At the end of each run: what was sent is gone, what the socket did not take is here and no more in the session.
    #[inline]
    fn charge(&self) {
        self.session.outbox().charge_connection(
            self.received.capacity()
                + self.reader.scratch_bytes()
                + self.sending.capacity()
                + self.backlog.bytes(),
        );
    }
}

/// The connection is of no more use.
struct Closed;

impl Future for Connection {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let ended = this.run(context);
        if ended.is_pending() {
            this.charge();
        }
        ended
    }
}

impl Connection {
    /// Sends, reads and handles as much as one turn may; ready when the connection has come to its end.
    fn run(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.session.outbox().set_waker(context.waker());
        // Unless this turn comes to read.
        let was_listening = std::mem::take(&mut self.is_listening);
        match self.poll_send(context) {
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Pending if self.takes_nothing(context) => return Poll::Ready(()),
            // A client that does not take its answers is not asked for more.
            Poll::Pending if self.session.outbox().bytes() >= OUTPUT_BYTES_MAX => return Poll::Pending,
            _ => {}
        }
        if self.phase == Phase::Authenticating && self.session.user().is_some() {
            self.let_in();
        }
        if self.is_late(context) {
            return Poll::Ready(());
        }
        if !self.may_read() {
            return Poll::Pending;
        }
        let now_ns = self.shard.look_at_clock();
        let admission = &self.shard.admission;
        admission.turn_begins(now_ns);
        // While there is a leftover the socket is not looked at: it may have more.
        let mut has_more = self.has_leftover && !self.has_ended;
        if !self.has_leftover && !self.has_ended {
            // The order of what is kept is worth nothing without what came last.
            if self.backlog.is_empty() && admission.must_wait(self.id, self.was_refused, context.waker()) {
                self.is_waiting = true;
                return Poll::Pending;
            }
            if std::mem::take(&mut self.is_waiting) {
                self.catching_up = Some(CatchingUp::new(now_ns));
            }
            self.is_listening = was_listening;
            has_more = self.receive(context, now_ns);
        }
        let mut turn = self.begin_turn(now_ns);
        if self.shard.admission.is_refusing() {
            turn.work.receiving_ns = self.shard.look_at_clock().saturating_sub(now_ns);
        }
        if let Err(Closed) = self.handle_turn(context, &mut turn, &mut has_more) {
            return Poll::Ready(());
        }
        self.end_turn(&turn);
        let mut sent = self.poll_send(context);
        if turn.work.is_all_refusals() {
            let took_ns = self.shard.look_at_clock().saturating_sub(now_ns);
            let refusing_ns = took_ns.saturating_sub(turn.work.receiving_ns);
            self.shard.admission.refusing_took(&turn.work, refusing_ns);
        }
        if self.phase == Phase::Refusing && sent.is_ready() {
            sent = Pin::new(&mut self.stream).poll_shutdown(context);
        }
        if sent.is_pending() && self.takes_nothing(context) {
            return Poll::Ready(());
        }
        let is_handled = !self.has_leftover && self.backlog.is_empty();
        if matches!(sent, Poll::Ready(Err(_))) || (self.has_ended && is_handled) {
            return Poll::Ready(());
        }
        let goes_on = self.has_leftover || has_more || self.backlog.has_next(self.may_queue());
        if !goes_on && self.has_left() {
            return Poll::Ready(());
        }
        if self.may_read() && goes_on {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.outbox().close();
        self.shard.clients.closed(self.id);
        self.shard.admission.connection_closed(self.id);
        self.door.connection_closed(self.id);
        self.shard.metrics.connection_closed();
    }
}
