//! The connections of one thread: who is connected, who wants events, and whether they are being drained.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use helenus_protocol::Opcode;
use helenus_protocol::request::{EventKind, Register};
use helenus_protocol::response::{Event, SchemaChange, StatusChange, write_event};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::context::TransportContext;
use crate::deadline::nanoseconds;
use crate::handover::{Departures, HandedOver};
use crate::session::{Conversation, Session};

/// The connections of one thread.
pub(crate) struct ConnectionRegistry<C> {
    connections: RefCell<HashMap<u64, Connected<C>, foldhash::fast::RandomState>>,
    next_id: Cell<u64>,
    /// The thread's number.
    thread: u16,
    shard_aware_port: Option<u16>,
    transport: Rc<TransportContext>,
    /// On the thread's clock.
    draining_since_ns: Cell<Option<u64>>,
    is_handing_over: Cell<bool>,
    /// Where connections go that another process goes on with.
    departures: Arc<Departures>,
    closed: Notify,
}

struct Connected<C> {
    session: Rc<Session<C>>,
    events: Register,
}

impl<C: Conversation> Connected<C> {
    fn send(&self, event: &Event<'_>) {
        let session = &self.session;
        session.respond_with(Event::STREAM, Opcode::Event, |out| {
            write_event(out, session.version(), event);
        });
        session.outbox().wake();
    }
}

impl<C: Conversation> ConnectionRegistry<C> {
    pub fn new(
        transport: Rc<TransportContext>,
        thread: u16,
        shard_aware_port: Option<u16>,
        departures: Arc<Departures>,
    ) -> Rc<Self> {
        Rc::new(ConnectionRegistry {
            connections: RefCell::default(),
            next_id: Cell::new(0),
            thread,
            shard_aware_port,
            transport,
            draining_since_ns: Cell::new(None),
            is_handing_over: Cell::new(false),
            departures,
            closed: Notify::new(),
        })
    }

    pub fn thread(&self) -> u16 {
        self.thread
    }

    pub fn shard_aware_port(&self) -> Option<u16> {
        self.shard_aware_port
    }

    pub fn connection_opened(&self, session: &Rc<Session<C>>) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let connected = Connected {
            session: session.clone(),
            events: Register::default(),
        };
        self.connections.borrow_mut().insert(id, connected);
        id
    }

    pub fn connection_closed(&self, id: u64) {
        self.connections.borrow_mut().remove(&id);
        self.closed.notify_one();
    }

    /// To be called once the registration is answered: where connections are being drained already, the event follows at once.
    pub fn register(&self, id: u64, events: Register) {
        let mut connections = self.connections.borrow_mut();
        let Some(connected) = connections.get_mut(&id) else {
            return;
        };
        connected.events.add(events);
        if self.draining_since_ns.get().is_some() && connected.events.contains(EventKind::GracefulDisconnect)
        {
            connected.send(&Event::GracefulDisconnect);
        }
    }

    /// Returns the events that a connection is registered for.
    pub fn events_of(&self, id: u64) -> Register {
        let connections = self.connections.borrow();
        connections
            .get(&id)
            .map_or(Register::default(), |connected| connected.events)
    }

    /// Returns whether connections go to another process as soon as they are at rest.
    #[inline]
    pub fn is_handing_over(&self) -> bool {
        self.is_handing_over.get()
    }

    /// Another process goes on with a connection.
    pub fn depart(&self, connection: HandedOver) {
        self.departures.add(connection);
    }

    /// Hands every connection over, and returns when `count` says that none is left. Clients are told nothing: nothing happens to
    /// them.
    pub async fn hand_over(&self, count: impl Fn() -> usize) {
        self.is_handing_over.set(true);
        while count() > 0 {
            for connected in self.connections.borrow().values() {
                connected.session.outbox().wake();
            }
            tokio::select! {
                () = self.closed.notified() => {}
                () = sleep(HAND_OVER_LOOK) => {}
            }
        }
    }

    /// How long a connection must be quiet before a drain closes it.
    pub fn quiet_time(&self, id: u64) -> Duration {
        let connections = self.connections.borrow();
        let closes_by_itself = connections
            .get(&id)
            .is_some_and(|connected| connected.events.contains(EventKind::GracefulDisconnect));
        let is_late = self
            .drained_for_ns()
            .is_some_and(|ns| ns >= nanoseconds(DRAIN_GRACE + REFUSE_TIME));
        match (closes_by_itself, is_late) {
            (true, _) => TOLD_QUIET_TIME,
            (false, false) => QUIET_TIME,
            (false, true) => Duration::ZERO,
        }
    }

    /// Tells every connection that asked for it.
    pub fn announce(&self, change: &SchemaChange<'_>) {
        self.tell(EventKind::SchemaChange, &Event::SchemaChange(change.clone()));
    }

    fn tell(&self, kind: EventKind, event: &Event<'_>) {
        for connected in self.connections.borrow().values() {
            if connected.events.contains(kind) {
                connected.send(event);
            }
        }
    }

    /// How long connections have been drained, if they are.
    #[inline]
    fn drained_for_ns(&self) -> Option<u64> {
        let since_ns = self.draining_since_ns.get()?;
        Some(self.transport.clock().monotonic_ns().saturating_sub(since_ns))
    }

    /// How the thread's connections are to end, if they are.
    pub fn drain_phase(&self) -> DrainPhase {
        match self.drained_for_ns() {
            None => DrainPhase::Open,
            Some(ns) if ns < nanoseconds(DRAIN_GRACE) => DrainPhase::Leaving,
            Some(_) => DrainPhase::Refusing,
        }
    }

    /// Ends every connection as mildly as its client allows, and returns when all are closed.
    ///
    /// Clients are told first: those that subscribed, that this connection goes (CEP-59); those that watch the cluster,
    /// that the node does. For [`DRAIN_GRACE`] requests are served as before, so that none that was on its way is lost;
    /// later ones are refused before any work, with the error on which drivers ask another node whatever the
    /// statement. A connection that has been quiet for [`ConnectionRegistry::quiet_time`] is closed, which a late one need not have been.
    pub async fn drain(&self, advertised: SocketAddr) {
        let now_ns = self.transport.clock().monotonic_ns();
        self.draining_since_ns.set(Some(now_ns));
        self.tell(EventKind::GracefulDisconnect, &Event::GracefulDisconnect);
        let down = Event::StatusChange {
            status: StatusChange::Down,
            node: advertised,
        };
        self.tell(EventKind::StatusChange, &down);
        while !self.connections.borrow().is_empty() {
            for connected in self.connections.borrow().values() {
                connected.session.outbox().wake();
            }
            tokio::select! {
                () = self.closed.notified() => {}
                () = sleep(QUIET_TIME / 2) => {}
            }
        }
    }
}

/// How often connections that are to be handed over are looked at, should nothing else wake them.
const HAND_OVER_LOOK: Duration = Duration::from_millis(5);

/// How far the end of the connections has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainPhase {
    Open,
    /// Clients have been told and are still served.
    Leaving,
    /// Requests that still come are refused.
    Refusing,
}

/// How long clients are served after they were told that the node stops: many round trips on any network that a
/// database is used over, and short enough for an operator who waits.
pub const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// A connection on which nothing happens for so long has nothing on its way: a round trip in a datacenter, 50 times.
pub const QUIET_TIME: Duration = Duration::from_millis(50);

/// How long a client that knows of no drain is refused what it goes on to send, so that it asks another node. One that
/// still does not pause has nowhere else to go, and every refusal is an error to its callers: its connection is closed at
/// the first moment at which everything is answered and its socket is empty, and the node is back so much earlier.
pub const REFUSE_TIME: Duration = Duration::from_millis(500);

/// A client that was told closes the connection itself once it has its answers: only it knows what is still on its way.
/// One that does not is closed after so long a silence, well beyond any pause of its own.
pub const TOLD_QUIET_TIME: Duration = Duration::from_secs(2);
