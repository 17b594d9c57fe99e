//! Opens a server to its clients: accepts connections on one thread, serves them on all, and ends them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use helenus_events::{Event, Events};
use helenus_protocol::ProtocolVersion;
use helenus_protocol::frame::FrameLimits;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Semaphore, watch};

use crate::acceptor::{Acceptor, Arrival, Relay};
use crate::client_state::ClientState;
use crate::connection::{Connection, Limits};
use crate::connection_limits::{ConnectionCounts, ConnectionLimits};
use crate::connection_registry::ConnectionRegistry;
use crate::descriptors::DescriptorReserve;
use crate::dispatcher::{ConnectionDispatcher, NewConnection};
use crate::handover::{Departures, HandedOver, Progress};
use crate::placement::Placement;
use crate::service::Service;
use crate::session::Session;
use crate::socket::Socket;

/// Where a server listens for clients, and how far they may go.
pub struct ListenOptions {
    /// Made by [`listen`](crate::listen).
    pub plain: TcpListener,
    /// Socket whose clients choose the thread by their source port.
    pub shard_aware: Option<TcpListener>,
    /// Threads that serve connections.
    pub threads: usize,
    /// Bounds of messages.
    pub frame_limits: FrameLimits,
    /// Bounds of connections.
    pub connection_limits: ConnectionLimits,
    /// The address that clients know the server by.
    pub advertised: SocketAddr,
    /// Connections that another process has served until now.
    pub handed_over: Vec<HandedOver>,
    /// Listener to which events are reported.
    pub events: Events,
}

/// The listeners of a server. What each of its threads needs is taken by it once, with [`Listeners::open`].
pub struct Listeners {
    events: Events,
    advertised: SocketAddr,
    dispatcher: ConnectionDispatcher,
    new_connections: Vec<Mutex<Option<UnboundedReceiver<NewConnection>>>>,
    sockets: Mutex<Option<Vec<(TcpListener, Placement)>>>,
    shard_aware_port: Option<u16>,
    frame_limits: FrameLimits,
    counts: Arc<ConnectionCounts>,
    descriptor_reserve: DescriptorReserve,
    arrivals: Mutex<Vec<Arrival>>,
    departures: Arc<Departures>,
    ending: watch::Sender<Ending>,
    /// Set once nothing is accepted any more.
    accepting_ended: watch::Sender<bool>,
    drained: Vec<Semaphore>,
}

/// End of the connections: none yet, a drain or a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// They are served.
    None,
    /// They are closed, as mildly as their clients allow.
    Drain,
    /// Another process goes on with them.
    HandOver,
}

impl Listeners {
    /// Nothing is accepted before the first thread has opened.
    pub fn new(options: ListenOptions) -> Arc<Listeners> {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..options.threads).map(|_| unbounded_channel()).unzip();
        let shard_aware_port = options
            .shard_aware
            .as_ref()
            .and_then(|listener| listener.local_addr().ok())
            .map(|address| address.port());
        let mut sockets = vec![(options.plain, Placement::FewestConnections)];
        sockets.extend(
            options
                .shard_aware
                .map(|listener| (listener, Placement::BySourcePort)),
        );
        let listeners = Listeners {
            events: options.events,
            advertised: options.advertised,
            dispatcher: ConnectionDispatcher::new(senders),
            new_connections: receivers
                .into_iter()
                .map(|receiver| Mutex::new(Some(receiver)))
                .collect(),
            sockets: Mutex::new(Some(sockets)),
            shard_aware_port,
            frame_limits: options.frame_limits,
            counts: ConnectionCounts::new(options.connection_limits),
            descriptor_reserve: DescriptorReserve::of_this_process(),
            arrivals: Mutex::default(),
            departures: Arc::default(),
            ending: watch::Sender::new(Ending::None),
            accepting_ended: watch::Sender::new(false),
            drained: (0..options.threads).map(|_| Semaphore::new(0)).collect(),
        };
        listeners.go_on_with(options.handed_over);
        Arc::new(listeners)
    }

    /// Gives connections of another process their threads, or those that were in its acceptor to this one's.
    fn go_on_with(&self, connections: Vec<HandedOver>) {
        for connection in connections {
            let (stream, progress) = connection.into_parts();
            match progress {
                Progress::Pending { placement, received } => {
                    let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
                    arrivals.push(Arrival {
                        stream,
                        placement,
                        received,
                    });
                }
                Progress::Served(resumed) => {
                    // Who has gone meanwhile has no address.
                    let Ok(peer) = stream.peer_addr() else { continue };
                    if let Ok(permit) = self.counts.admit(peer.ip().to_canonical()) {
                        self.dispatcher.resume(stream, peer, resumed, permit);
                    }
                }
            }
        }
    }

    /// Serves the connections of one of the threads, and on the first accepts for all. To be called once on each, from the
    /// thread itself.
    pub fn open<S: Service>(self: &Arc<Self>, service: &Rc<S>, thread: usize) {
        let registry = ConnectionRegistry::new(
            service.transport().clone(),
            u16::try_from(thread).unwrap_or(u16::MAX),
            self.shard_aware_port,
            self.departures.clone(),
        );
        let announced = registry.clone();
        service.on_schema_change(Box::new(move |change| announced.announce(change)));
        if let Some(connections) = self.new_connections.get(thread).and_then(take) {
            let serving = self.clone().serve(service.clone(), registry.clone(), connections);
            service.spawn(serving);
        }
        if thread == 0
            && let Some(sockets) = take(&self.sockets)
        {
            self.accept(service, sockets);
        }
        let listeners = self.clone();
        service.spawn(async move {
            match listeners.stopping().await {
                Ending::HandOver => {
                    // What was accepted last is on its way to its thread by then, and counted.
                    listeners.wait_until_accepting_ended().await;
                    registry.hand_over(|| listeners.dispatcher.count(thread)).await;
                }
                _ => registry.drain(listeners.advertised).await,
            }
            if let Some(drained) = listeners.drained.get(thread) {
                drained.add_permits(1);
            }
        });
    }

    /// Accepts no more, and has every thread end its connections as mildly as their clients allow.
    pub fn stop(&self) {
        self.ending.send_replace(Ending::Drain);
    }

    /// Accepts no more, and has every thread give up its connections as soon as what was read of them is answered, for another
    /// process to go on with: [`Listeners::handed_over`].
    pub fn hand_over(&self) {
        self.departures.begin();
        self.ending.send_replace(Ending::HandOver);
    }

    /// The connections that were given up so far.
    pub fn handed_over(&self) -> Vec<HandedOver> {
        self.departures.take()
    }

    /// Waits until all connections are closed or given up; only after [`Listeners::stop`] or [`Listeners::hand_over`].
    pub async fn drained(&self) {
        for drained in &self.drained {
            // Never closed, so acquiring cannot fail.
            let _permit = drained.acquire().await;
        }
    }

    /// Runs a listener until all are stopped; dropping its future closes its socket.
    pub async fn until_stopped(self: Arc<Self>, listening: impl Future<Output = io::Result<()>>) {
        tokio::select! {
            result = listening => {
                if let Err(error) = result {
                    self.events.event(&Event::ListenerStopped { error: &error });
                }
            }
            _ending = self.stopping() => {}
        }
    }

    async fn stopping(&self) -> Ending {
        let mut ending = self.ending.subscribe();
        // An error would mean that the sender is gone, but it is ours.
        let ending = ending.wait_for(|&ending| ending != Ending::None).await;
        ending.map_or(Ending::Drain, |ending| *ending)
    }

    async fn wait_until_accepting_ended(&self) {
        let mut ended = self.accepting_ended.subscribe();
        let _ended = ended.wait_for(|&ended| ended).await.is_ok();
    }

    fn accept<S: Service>(self: &Arc<Self>, service: &Rc<S>, sockets: Vec<(TcpListener, Placement)>) {
        let acceptor = Acceptor::new(
            service.transport().clone(),
            self.dispatcher.clone(),
            self.counts.clone(),
            self.descriptor_reserve,
            sockets,
            Relay {
                arrivals: std::mem::take(&mut *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)),
                departures: self.departures.clone(),
            },
        );
        match acceptor {
            Ok(acceptor) => {
                let listeners = self.clone();
                service.spawn(async move {
                    listeners.clone().until_stopped(acceptor.receive()).await;
                    listeners.accepting_ended.send_replace(true);
                });
            }
            Err(error) => {
                self.accepting_ended.send_replace(true);
                let event = Event::ConnectionsNotAccepted { error: &error };
                self.events.event(&event);
            }
        }
    }

    async fn serve<S: Service>(
        self: Arc<Self>,
        service: Rc<S>,
        registry: Rc<ConnectionRegistry<S::Conversation>>,
        mut connections: UnboundedReceiver<NewConnection>,
    ) {
        let limits = Limits {
            frames: self.frame_limits,
            connections: *self.counts.limits(),
        };
        while let Some(new) = connections.recv().await {
            let Ok(socket) = Socket::accepted(new.stream) else {
                continue;
            };
            let client = ClientState::new(new.peer, ProtocolVersion::CURRENT);
            let transport = service.transport();
            let session = Session::of_connection(client, &transport.buffers, &transport.memory);
            let mut connection = Connection::new(
                socket,
                &new.first,
                service.clone(),
                registry.clone(),
                Rc::new(session),
                limits,
            );
            let slot = new.slot;
            if let Some(resumed) = &new.resumed
                && !connection.resume(resumed, limits.connections.handshake_timeout)
            {
                continue;
            }
            // A future that is moved into another one keeps its place there too: a pointer is smaller.
            let connection = Box::pin(connection);
            service.spawn(async move {
                let _given_back_at_the_end = slot;
                connection.await;
            });
        }
    }
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}
