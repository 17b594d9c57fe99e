//! Starting and stopping a node that serves clients, and handing its place to another process.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use helenus_doors::{DRAIN_TIMEOUT, Doors};
use helenus_events::{Event, Events};
use helenus_handover::HandoverError;
use helenus_node::{Node, NodeOptions, OpenDoors, StartError};
use helenus_protocol::frame::FrameLimits;
use helenus_storage::store::FolderError;
use helenus_transport::{ConnectionLimits, ListenOptions, Listeners};

use crate::control::{ControlSocket, Places};
use crate::doors::{self, DoorSettings};
use crate::handover::{
    Connections, DoorKind, Kept, ListeningSockets, Offer, OfferParts, Released, ReplaceError, Succession,
    Takeover,
};
use crate::metrics_page;
use crate::sockets::{Sockets, local_address, local_address_of};

/// Where a server listens, and what it is a server of.
#[derive(Clone)]
pub struct ServeOptions {
    pub node: NodeOptions,
    pub listen: SocketAddr,
    /// Port 0 picks a free one; `None` serves without a shard-aware port.
    pub shard_aware: Option<SocketAddr>,
    /// `None` serves no metrics.
    pub metrics: Option<MetricsSettings>,
    /// HTTP, gRPC and the console; `None` serves CQL only.
    pub doors: Option<DoorSettings>,
    pub frame_limits: FrameLimits,
    pub connection_limits: ConnectionLimits,
    /// How long a stop waits for accepted requests to be answered.
    pub drain_timeout: Duration,
}

/// Where the page for Prometheus is served.
#[derive(Clone, Copy, Debug)]
pub struct MetricsSettings {
    /// Port 0 picks a free one.
    pub address: SocketAddr,
    /// True if somebody has asked for this address: if it cannot be had, the node does not start. Else it goes on without the
    /// page, since two nodes of one machine both have the default.
    pub is_asked_for: bool,
}

/// A running server.
pub struct Server {
    node: Node,
    listeners: Arc<Listeners>,
    events: Events,
    control: Option<ControlSocket>,
    doors: Option<Doors>,
    offer: Option<Offer>,
    sockets: Kept,
    /// Options it was started with, should a successor fail.
    options: ServeOptions,
    pub address: SocketAddr,
    pub shard_aware_address: Option<SocketAddr>,
    pub metrics_address: Option<SocketAddr>,
    pub doors_address: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// `option` names another address.
    #[error("cannot listen on {address} for {door}: {source}; {option} names another address")]
    Listen {
        door: &'static str,
        option: &'static str,
        address: SocketAddr,
        source: io::Error,
    },
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    #[error("a node in memory has nothing that another process could go on with; start it without --replace")]
    ReplaceInMemory,
}

/// Outcome of a handover, for the server whose place was to be taken.
pub enum Handover {
    /// Another process serves, or is about to.
    Done,
    /// The other process does not serve: this one goes on.
    TakenBack(Box<Server>),
}

/// How long what a request has begun may keep connections from being handed over, and with them everybody who waits for the other
/// process: half of what drivers give a request (Java 2 s). Whose request takes longer loses its connection, as by a restart.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(1);

/// A process that has ended, or given up the data folder, may have its lock for a moment still.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How often the lock is tried meanwhile.
const LOCK_PAUSE: Duration = Duration::from_millis(1);

impl Server {
    /// Starts the node and accepts connections; returns when the first one can be answered.
    pub fn start(options: ServeOptions) -> Result<Server, ServeError> {
        helenus_node::count_panics();
        let sockets = Sockets::open(&options, &mut ListeningSockets::default())?;
        Self::start_on(options, sockets, Connections::default(), Duration::ZERO)
    }

    /// Takes the place of the node that runs on the data folder, with its listening sockets and its connections; where there is none,
    /// starts as [`Server::start`] does. Where this fails, the other node goes on.
    pub fn replace(options: ServeOptions) -> Result<Server, ServeError> {
        if options.node.in_memory {
            return Err(ServeError::ReplaceInMemory);
        }
        let Some((succession, mut inherited)) = Succession::begin(&options.node.data_folder)? else {
            return Self::start(options);
        };
        helenus_node::count_panics();
        let started = Sockets::open(&options, &mut inherited).and_then(|sockets| {
            drop(inherited);
            helenus_node::check_data_folder(&options.node)?;
            let connections = succession.take()?;
            Self::start_on(options, sockets, connections, LOCK_PATIENCE)
        });
        match &started {
            Ok(_) => succession.serving(),
            Err(error) => succession.fail(error),
        }
        started
    }

    /// `lock_patience`: how long another process may still have the data folder.
    fn start_on(
        mut options: ServeOptions,
        sockets: Sockets,
        connections: Connections,
        lock_patience: Duration,
    ) -> Result<Server, ServeError> {
        let kept = sockets.kept();
        let Sockets {
            plain,
            shard_aware,
            metrics,
            doors,
        } = sockets;
        let address = local_address(DoorKind::Cql, &plain, options.listen)?;
        let shard_aware_address =
            local_address_of(DoorKind::ShardAwareCql, shard_aware.as_ref(), options.shard_aware)?;
        let metrics_asked = options.metrics.map(|settings| settings.address);
        let metrics_address = local_address_of(DoorKind::Metrics, metrics.as_ref(), metrics_asked)?;
        options.node.advertised_address = address;
        options.node.is_awaited = !lock_patience.is_zero();

        let events = options.node.events.clone();
        let listeners = Listeners::new(ListenOptions {
            plain,
            shard_aware,
            threads: usize::from(options.node.shard_count),
            frame_limits: options.frame_limits,
            connection_limits: options.connection_limits,
            advertised: address,
            handed_over: connections.cql,
            events: events.clone(),
        });
        let open = open_doors(listeners.clone(), metrics);
        let opening = doors.zip(options.doors).map(|(listener, settings)| {
            doors::Opening::new(listener, connections.doors, settings, &options.node)
        });
        let node = start_node(&options.node, &open, lock_patience)?;
        let places = Places::default();
        let doors = opening.and_then(|opening| opening.open(&node, &places));
        let data_folder = (!options.node.in_memory).then_some(&*options.node.data_folder);
        let control = data_folder.and_then(|folder| open_control(folder, &node, places, &events));
        let offer = data_folder.and_then(|folder| open_offer(folder, &node, &kept, &events));
        Ok(Server {
            node,
            listeners,
            events,
            control,
            doors_address: doors.as_ref().map(|doors| doors.address),
            doors,
            offer,
            sockets: kept,
            options,
            address,
            shard_aware_address,
            metrics_address,
        })
    }

    /// Waits until another process is ready to take this one's place.
    pub async fn takeover(&mut self) -> Takeover {
        match &mut self.offer {
            Some(offer) => offer.takeover().await,
            None => std::future::pending().await,
        }
    }

    /// Accepts no more, answers what was accepted, then stops the node with everything flushed.
    pub async fn stop(mut self) {
        // From now on connects are refused.
        drop(self.sockets.take());
        self.listeners.stop();
        self.close_sockets();
        if let Some(doors) = &self.doors {
            doors.begin_drain();
        }
        let drained = async {
            self.listeners.drained().await;
            if let Some(doors) = &self.doors {
                doors.drained().await;
            }
        };
        let drain_timeout = self.options.drain_timeout;
        if tokio::time::timeout(drain_timeout, drained).await.is_err() {
            self.events.event(&Event::DrainTimedOut { drain_timeout });
        }
        if let Some(doors) = self.doors {
            doors.close();
        }
        self.node.stop();
    }

    /// Gives the listening sockets, the connections and the data folder to another process. What was accepted is answered here, what
    /// comes meanwhile waits in the kernel and is answered there. If that process fails, this one opens the folder again and goes on
    /// with the sockets and the connections; an error if it cannot. `stopped` ends the wait for the other process: it is told to stop
    /// by who told this one.
    pub async fn hand_over(
        mut self,
        takeover: Takeover,
        stopped: impl Future<Output = ()>,
    ) -> Result<Handover, ServeError> {
        let begun = Instant::now();
        self.close_sockets();
        self.listeners.hand_over();
        if let Some(doors) = &self.doors {
            doors.begin_hand_over();
        }
        let at_rest = async {
            self.listeners.drained().await;
            if let Some(doors) = &self.doors {
                doors.answered().await;
            }
        };
        if tokio::time::timeout(HAND_OVER_TIMEOUT, at_rest).await.is_err() {
            self.events.event(&Event::DrainTimedOut {
                drain_timeout: HAND_OVER_TIMEOUT,
            });
        }
        self.node.stop_awaited();
        let doors = self.doors.as_ref();
        let connections = Connections {
            cql: self.listeners.handed_over(),
            doors: doors.map(Doors::handed_over).unwrap_or_default(),
        };
        let process = takeover.process();
        let served = match takeover.release(&connections) {
            Ok(released) => wait_until_served(released, stopped).await,
            Err(error) => Err(error),
        };
        match served {
            Ok(()) => {
                self.events.event(&Event::Replaced {
                    process: u64::try_from(process).unwrap_or_default(),
                    connections: connections.len() as u64,
                    away: begun.elapsed(),
                });
                if let Some(doors) = self.doors {
                    // Clients of HTTP/2 close when they have read the last answer.
                    let _given_up = tokio::time::timeout(DRAIN_TIMEOUT, doors.drained()).await;
                    doors.close();
                }
                Ok(Handover::Done)
            }
            Err(error) => {
                if let Some(doors) = self.doors {
                    doors.close();
                }
                let server = take_back(self.options, self.sockets.take(), connections)?;
                server.events.event(&Event::NotReplaced { error: &error });
                Ok(Handover::TakenBack(Box::new(server)))
            }
        }
    }

    /// Those in the data folder.
    fn close_sockets(&mut self) {
        if let Some(offer) = self.offer.take() {
            offer.close();
        }
        if let Some(control) = self.control.take() {
            control.close();
        }
    }
}

/// An error if the other process serves nobody.
async fn wait_until_served(
    released: Released,
    stopped: impl Future<Output = ()>,
) -> Result<(), HandoverError> {
    let closing = released.duplicate()?;
    let waiting = tokio::task::spawn_blocking(move || released.wait_until_served());
    tokio::select! {
        served = waiting => served.unwrap_or(Err(HandoverError::Gone)),
        () = stopped => {
            // The thread that waits would keep the process.
            closing.close();
            Ok(())
        }
    }
}

fn take_back(
    options: ServeOptions,
    mut sockets: ListeningSockets,
    connections: Connections,
) -> Result<Server, ServeError> {
    let sockets = Sockets::open(&options, &mut sockets)?;
    Server::start_on(options, sockets, connections, LOCK_PATIENCE)
}

/// Tries again for a while where another process has the data folder.
fn start_node(options: &NodeOptions, open: &OpenDoors, patience: Duration) -> Result<Node, StartError> {
    let begun = Instant::now();
    loop {
        match Node::start(options.clone(), open.clone()) {
            Err(StartError::Folder(FolderError::InUse { .. })) if begun.elapsed() < patience => {
                std::thread::sleep(LOCK_PAUSE);
            }
            started => return started,
        }
    }
}

/// Returns the work of each shard before its first message: it serves its connections, the first one also the metrics page.
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
fn open_control(data_folder: &Path, node: &Node, places: Places, events: &Events) -> Option<ControlSocket> {
    match ControlSocket::open(data_folder, node.operator(), places) {
        Ok(control) => Some(control),
        Err(error) => {
            events.event(&Event::ControlSocketNotOpened { error: &error });
            None
        }
    }
}

/// So does one that cannot be replaced.
fn open_offer(data_folder: &Path, node: &Node, sockets: &Kept, events: &Events) -> Option<Offer> {
    let parts = OfferParts {
        sockets: sockets.clone(),
        operator: node.operator(),
    };
    let failed = |error| events.event(&Event::HandoverNotOffered { error: &error });
    Offer::open(data_folder, parts).map_err(failed).ok()
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .take()
}
