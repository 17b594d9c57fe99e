//! Opening the doors of a node, and closing them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helenus_events::{Event, Events};
use helenus_node::{Node, NodeOptions, Session, Shard, StartError};
use helenus_protocol::ProtocolVersion;
use helenus_protocol::frame::FrameLimits;
use helenus_transport::ClientState;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::connection::Connection;
use crate::connection_limits::{ConnectionCounts, ConnectionLimits};
use crate::control::ControlSocket;
use crate::descriptors::DescriptorReserve;
use crate::door::Door;
use crate::listener::{self, Arrival, Placement, Reception};
use crate::lobby::Lobby;
use crate::metrics_page;

/// Where a server listens, and what it is a server of.
pub struct ServeOptions {
    pub node: NodeOptions,
    pub listen: SocketAddr,
    /// Port 0 picks a free one; `None` serves without a shard-aware port.
    pub shard_aware: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    pub frame_limits: FrameLimits,
    pub connection_limits: ConnectionLimits,
    /// How long a stop waits for accepted requests to be answered.
    pub drain_timeout: Duration,
}

/// A running server.
pub struct Server {
    node: Node,
    doors: Arc<Doors>,
    control: Option<ControlSocket>,
    drain_timeout: Duration,
    pub address: SocketAddr,
    pub shard_aware_address: Option<SocketAddr>,
    pub metrics_address: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Start(#[from] StartError),
}

type Arrivals = UnboundedReceiver<Arrival>;

/// What each shard needs to open its door; taken once by its thread.
struct Doors {
    events: Events,
    reception: Reception,
    sockets: Vec<Mutex<Option<Arrivals>>>,
    listeners: Mutex<Option<Listeners>>,
    shard_aware_port: Option<u16>,
    frame_limits: FrameLimits,
    connection_counts: Arc<ConnectionCounts>,
    descriptor_reserve: DescriptorReserve,
    stop: tokio::sync::watch::Sender<bool>,
    drained: Vec<tokio::sync::Semaphore>,
}

struct Listeners {
    plain: TcpListener,
    shard_aware: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Server {
    /// Starts the node and accepts connections; returns when the first one can be answered.
    pub fn start(mut options: ServeOptions) -> Result<Server, ServeError> {
        let plain = listen(options.listen)?;
        let shard_aware = options.shard_aware.map(listen).transpose()?;
        let metrics = options.metrics.map(bind).transpose()?;
        let address = local_address(&plain, options.listen)?;
        let shard_aware_address = local_address_of(shard_aware.as_ref(), options.shard_aware)?;
        let metrics_address = local_address_of(metrics.as_ref(), options.metrics)?;
        options.node.advertised_address = address;

        let shard_count = usize::from(options.node.shard_count);
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..shard_count).map(|_| unbounded_channel()).unzip();
        let events = options.node.events.clone();
        let doors = Arc::new(Doors {
            events: events.clone(),
            reception: Reception::new(senders),
            sockets: receivers
                .into_iter()
                .map(|receiver| Mutex::new(Some(receiver)))
                .collect(),
            listeners: Mutex::new(Some(Listeners {
                plain,
                shard_aware,
                metrics,
            })),
            shard_aware_port: shard_aware_address.map(|address| address.port()),
            frame_limits: options.frame_limits,
            connection_counts: ConnectionCounts::new(options.connection_limits),
            descriptor_reserve: DescriptorReserve::of_this_process(),
            stop: tokio::sync::watch::Sender::new(false),
            drained: (0..shard_count).map(|_| tokio::sync::Semaphore::new(0)).collect(),
        });
        let opened = doors.clone();
        let data_folder = (!options.node.in_memory).then(|| options.node.data_folder.clone());
        let node = Node::start(options.node, Arc::new(move |shard| opened.open(shard)))?;
        let control = data_folder.and_then(|folder| open_control(&folder, &node, &events));
        Ok(Server {
            node,
            doors,
            control,
            drain_timeout: options.drain_timeout,
            address,
            shard_aware_address,
            metrics_address,
        })
    }

    /// Accepts no more, answers what was accepted, then stops the node with everything flushed.
    pub async fn stop(self) {
        self.doors.stop.send_replace(true);
        if let Some(control) = self.control {
            control.close();
        }
        let all_drained = async {
            for drained in &self.doors.drained {
                // Never closed, so acquiring cannot fail.
                let _permit = drained.acquire().await;
            }
        };
        if tokio::time::timeout(self.drain_timeout, all_drained)
            .await
            .is_err()
        {
            self.doors.events.event(&Event::DrainTimedOut {
                drain_timeout: self.drain_timeout,
            });
        }
        self.node.stop();
    }
}

impl Doors {
    fn open(self: &Arc<Self>, shard: &Rc<Shard>) {
        let door = Door::new(self.shard_aware_port);
        let announced = door.clone();
        shard.on_schema_change(Box::new(move |event| announced.announce(event)));
        let index = usize::from(shard.id.0);
        if let Some(sockets) = take(&self.sockets[index]) {
            shard.spawn(self.clone().receive(shard.clone(), door.clone(), sockets));
        }
        if index == 0
            && let Some(listeners) = take(&self.listeners)
        {
            self.listen(shard, listeners);
        }
        let doors = self.clone();
        let advertised = shard.options.advertised_address;
        shard.spawn(async move {
            let mut stop = doors.stop.subscribe();
            // An error would mean that the sender is gone, but `doors` has it.
            let _stopping = stop.wait_for(|&stopping| stopping).await.is_ok();
            door.drain(advertised).await;
            doors.drained[index].add_permits(1);
        });
    }

    fn listen(self: &Arc<Self>, shard: &Rc<Shard>, listeners: Listeners) {
        let mut sockets = vec![(listeners.plain, Placement::FewestConnections)];
        sockets.extend(
            listeners
                .shard_aware
                .map(|listener| (listener, Placement::BySourcePort)),
        );
        let counts = self.connection_counts.clone();
        let reserve = self.descriptor_reserve;
        match Lobby::new(shard.clone(), self.reception.clone(), counts, reserve, sockets) {
            Ok(lobby) => shard.spawn(self.clone().until_stopped(lobby.receive())),
            Err(error) => {
                let event = Event::ConnectionsNotAccepted { error: &error };
                shard.options.events.event(&event);
            }
        }
        if let Some(listener) = listeners.metrics {
            let serving = metrics_page::serve(listener, shard.clone());
            shard.spawn(self.clone().until_stopped(serving));
        }
    }

    /// Runs a listener; dropping its future closes its socket.
    async fn until_stopped(self: Arc<Self>, listening: impl Future<Output = io::Result<()>>) {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            result = listening => {
                if let Err(error) = result {
                    self.events.event(&Event::ListenerStopped { error: &error });
                }
            }
            _ = stop.wait_for(|&stopping| stopping) => {}
        }
    }

    async fn receive(self: Arc<Self>, shard: Rc<Shard>, door: Rc<Door>, mut sockets: Arrivals) {
        let limits = self.frame_limits;
        let connection_limits = *self.connection_counts.limits();
        while let Some(arrival) = sockets.recv().await {
            let Ok(stream) = TcpStream::from_std(arrival.stream) else {
                continue;
            };
            let client = ClientState::new(arrival.peer, ProtocolVersion::CURRENT);
            let session = Session::of_connection(client, &shard.buffers, shard.request_memory());
            let session = Rc::new(session);
            let mut connection = Connection::new(stream, shard.clone(), door.clone(), session, limits);
            connection.begin(&arrival.first, connection_limits);
            let place = arrival.place;
            // A future that is moved into another one keeps its place there too: a pointer is smaller.
            let connection = Box::pin(connection);
            shard.spawn(async move {
                let _given_back_at_the_end = place;
                connection.await;
            });
        }
    }
}

/// A node without its operator's door serves all the same.
fn open_control(data_folder: &std::path::Path, node: &Node, events: &Events) -> Option<ControlSocket> {
    match ControlSocket::open(data_folder, node.operator()) {
        Ok(control) => Some(control),
        Err(error) => {
            events.event(&Event::ControlSocketNotOpened { error: &error });
            None
        }
    }
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .take()
}

fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).map_err(|source| ServeError::Listen { address, source })
}

fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    listener::listen(address).map_err(|source| ServeError::Listen { address, source })
}

fn local_address(listener: &TcpListener, asked: SocketAddr) -> Result<SocketAddr, ServeError> {
    listener.local_addr().map_err(|source| ServeError::Listen {
        address: asked,
        source,
    })
}

fn local_address_of(
    listener: Option<&TcpListener>,
    asked: Option<SocketAddr>,
) -> Result<Option<SocketAddr>, ServeError> {
    match (listener, asked) {
        (Some(listener), Some(asked)) => local_address(listener, asked).map(Some),
        _ => Ok(None),
    }
}
