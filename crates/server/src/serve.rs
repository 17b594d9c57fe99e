//! Starting and stopping a node that serves clients.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helenus_doors::Doors;
use helenus_events::{Event, Events};
use helenus_node::{Node, NodeOptions, OpenDoors, StartError};
use helenus_protocol::frame::FrameLimits;
use helenus_transport::{ConnectionLimits, ListenOptions, Listeners};

use crate::control::ControlSocket;
use crate::doors::{self, DoorSettings};
use crate::metrics_page;

/// Where a server listens, and what it is a server of.
pub struct ServeOptions {
    pub node: NodeOptions,
    pub listen: SocketAddr,
    /// Port 0 picks a free one; `None` serves without a shard-aware port.
    pub shard_aware: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    /// HTTP, gRPC and the console; `None` serves CQL only.
    pub doors: Option<DoorSettings>,
    pub frame_limits: FrameLimits,
    pub connection_limits: ConnectionLimits,
    /// How long a stop waits for accepted requests to be answered.
    pub drain_timeout: Duration,
}

/// A running server.
pub struct Server {
    node: Node,
    listeners: Arc<Listeners>,
    events: Events,
    control: Option<ControlSocket>,
    doors: Option<Doors>,
    drain_timeout: Duration,
    pub address: SocketAddr,
    pub shard_aware_address: Option<SocketAddr>,
    pub metrics_address: Option<SocketAddr>,
    pub doors_address: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Server {
    /// Starts the node and accepts connections; returns when the first one can be answered.
    pub fn start(mut options: ServeOptions) -> Result<Server, ServeError> {
        helenus_node::count_panics();
        let plain = listen(options.listen)?;
        let shard_aware = options.shard_aware.map(listen).transpose()?;
        let metrics = options.metrics.map(bind).transpose()?;
        let doors = match &options.doors {
            Some(settings) => doors::listen(settings, &options.node.events)?,
            None => None,
        };
        let address = local_address(&plain, options.listen)?;
        let shard_aware_address = local_address_of(shard_aware.as_ref(), options.shard_aware)?;
        let metrics_address = local_address_of(metrics.as_ref(), options.metrics)?;
        options.node.advertised_address = address;

        let events = options.node.events.clone();
        let listeners = Listeners::new(ListenOptions {
            plain,
            shard_aware,
            threads: usize::from(options.node.shard_count),
            frame_limits: options.frame_limits,
            connection_limits: options.connection_limits,
            advertised: address,
            events: events.clone(),
        });
        let open = open_doors(listeners.clone(), metrics);
        let data_folder = (!options.node.in_memory).then(|| options.node.data_folder.clone());
        let opening =
            doors.map(|(listener, settings)| doors::Opening::new(listener, settings, &options.node));
        let node = Node::start(options.node, open)?;
        let doors = opening.and_then(|opening| opening.open(&node));
        let control = data_folder.and_then(|folder| open_control(&folder, &node, &events));
        Ok(Server {
            node,
            listeners,
            events,
            control,
            doors_address: doors.as_ref().map(|doors| doors.address),
            doors,
            drain_timeout: options.drain_timeout,
            address,
            shard_aware_address,
            metrics_address,
        })
    }

    /// Accepts no more, answers what was accepted, then stops the node with everything flushed.
    pub async fn stop(self) {
        self.listeners.stop();
        if let Some(control) = self.control {
            control.close();
        }
        if let Some(doors) = &self.doors {
            doors.begin_drain();
        }
        let drained = async {
            self.listeners.drained().await;
            if let Some(doors) = &self.doors {
                doors.drained().await;
            }
        };
        let drained = tokio::time::timeout(self.drain_timeout, drained);
        if drained.await.is_err() {
            self.events.event(&Event::DrainTimedOut {
                drain_timeout: self.drain_timeout,
            });
        }
        if let Some(doors) = self.doors {
            doors.close();
        }
        self.node.stop();
    }
}

/// What each shard does before its first message: it serves its connections, the first one also the metrics page.
fn open_doors(listeners: Arc<Listeners>, metrics: Option<TcpListener>) -> OpenDoors {
    let metrics = Mutex::new(metrics);
    Arc::new(move |shard| {
        listeners.open(shard, usize::from(shard.context.id.0));
        if shard.context.id.0 == 0
            && let Some(listener) = take(&metrics)
        {
            let serving = metrics_page::serve(listener, shard.clone());
            shard.context.spawn(listeners.clone().until_stopped(serving));
        }
    })
}

/// A node without its operator's socket serves all the same.
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

pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).map_err(|source| ServeError::Listen { address, source })
}

fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    helenus_transport::listen(address).map_err(|source| ServeError::Listen { address, source })
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
