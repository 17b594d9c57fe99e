//! The connections to one node, and the task that keeps them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use helenus_protocol::Opcode;
use helenus_types::{Token, shard_of};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::SessionOptions;
use crate::connection::{ConnectTarget, Connection, ConnectionOptions, Exchange, NotTaken, open};
use crate::error::ConnectError;
use crate::lock::lock;
use crate::throttle::Throttle;

#[derive(Debug)]
pub(super) struct NodePool {
    pub address: SocketAddr,
    pub throttle: Arc<Throttle>,
    /// A connection drains, is gone, or has room again.
    pub changed: Arc<Notify>,
    /// The session's: some node has become ready, or is gone.
    session_changed: Arc<Notify>,
    options: ConnectionOptions,
    connections_wanted: usize,
    connections: Mutex<Arc<[Arc<Connection>]>>,
    readiness: Mutex<Readiness>,
    /// When the last connection took its leave in good order: the node restarts, and is not given up so soon.
    left_at: Mutex<Option<Instant>>,
    turn: AtomicU64,
    is_closed: AtomicBool,
    swallows_disconnects: Arc<AtomicBool>,
}

/// Readiness of a node to be asked.
#[derive(Clone, Debug)]
pub(super) enum Readiness {
    /// No attempt has failed since it was last ready: a request may well wait for it.
    Connecting,
    Ready,
    /// The last attempt failed so.
    Failed(Arc<ConnectError>),
}

/// Between attempts to connect: a quarter of the time that the node has been away, so that its return is noticed soon
/// after a short absence and a long one costs few attempts.
const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(20);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(5);
const RECONNECT_PAUSE_OF_ABSENCE: u32 = 4;

/// A connection that has been silent for so long is asked whether it lives.
const HEARTBEAT_AFTER: Duration = Duration::from_secs(15);
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);
const HEARTBEAT_TICK: Duration = Duration::from_secs(5);

impl NodePool {
    pub fn start(address: SocketAddr, options: &SessionOptions, session_changed: Arc<Notify>) -> Arc<Self> {
        let pool = Arc::new(NodePool {
            address,
            throttle: Throttle::new(options.throttle, options.waiting_max),
            changed: Arc::new(Notify::new()),
            session_changed,
            options: options.connection.clone(),
            connections_wanted: options.connections_per_node,
            connections: Mutex::new(Arc::new([])),
            readiness: Mutex::new(Readiness::Connecting),
            left_at: Mutex::new(None),
            turn: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            swallows_disconnects: Arc::default(),
        });
        tokio::spawn(keep_connected(Arc::downgrade(&pool)));
        tokio::spawn(keep_alive(Arc::downgrade(&pool)));
        pool
    }

    /// Returns the target that connections to the node are opened with.
    pub fn target(&self) -> ConnectTarget {
        ConnectTarget {
            address: self.address,
            shard: None,
            events: None,
            changed: self.changed.clone(),
            swallows_disconnects: self.swallows_disconnects.clone(),
        }
    }

    pub fn readiness(&self) -> Readiness {
        lock(&self.readiness).clone()
    }

    pub fn is_ready(&self) -> bool {
        matches!(*lock(&self.readiness), Readiness::Ready)
    }

    pub fn last_error(&self) -> Option<Arc<ConnectError>> {
        match &*lock(&self.readiness) {
            Readiness::Failed(error) => Some(error.clone()),
            Readiness::Connecting | Readiness::Ready => None,
        }
    }

    pub fn open_connections(&self) -> usize {
        let connections = self.connections();
        connections
            .iter()
            .filter(|connection| connection.takes_requests())
            .count()
    }

    fn connections(&self) -> Arc<[Arc<Connection>]> {
        lock(&self.connections).clone()
    }

    /// Hands a request to a connection: that of the partition's shard if the server has shards, else any. The token is
    /// asked for only where it decides.
    pub fn exchange(
        &self,
        token: impl FnOnce() -> Option<Token>,
        opcode: Opcode,
        mut write: impl FnMut(&Connection, &mut Vec<u8>),
    ) -> Result<Exchange, NotTaken> {
        let connections = self.connections();
        let count = connections.len();
        let shard_count = connections.first().map_or(1, |first| first.peer.shard_count);
        let of_shard = if shard_count > 1 { token() } else { None }.and_then(|token| {
            let shard = shard_of(token, shard_count);
            connections
                .iter()
                .position(|connection| connection.peer.shard == Some(shard.0))
        });
        let start = of_shard.unwrap_or_else(|| self.turn.fetch_add(1, Ordering::Relaxed) as usize);
        let mut refusal = NotTaken::Leaving;
        for step in 0..count {
            let connection = &connections[(start + step) % count];
            match connection.exchange(opcode, |out| write(connection, out)) {
                Err(NotTaken::Leaving) => {}
                Err(other) => refusal = other,
                taken => return taken,
            }
        }
        Err(refusal)
    }

    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        for connection in self.connections().iter() {
            connection.close(ConnectError::SessionClosed);
        }
        self.changed.notify_one();
    }

    /// Forgets connections that take no more requests. They answer what they have accepted and close by themselves.
    pub fn forget_leaving(&self) -> Vec<Arc<Connection>> {
        let connections = &mut *lock(&self.connections);
        if connections.iter().any(|connection| connection.took_leave()) {
            *lock(&self.left_at) = Some(Instant::now());
        }
        let open: Vec<_> = connections
            .iter()
            .filter(|connection| connection.takes_requests())
            .cloned()
            .collect();
        if open.len() < connections.len() {
            *connections = open.clone().into();
        }
        if open.is_empty() {
            let readiness = &mut *lock(&self.readiness);
            if matches!(readiness, Readiness::Ready) {
                *readiness = Readiness::Connecting;
            }
        }
        open
    }

    fn add(&self, connection: Arc<Connection>) {
        {
            let connections = &mut *lock(&self.connections);
            *connections = connections.iter().cloned().chain([connection]).collect();
        }
        *lock(&self.readiness) = Readiness::Ready;
        self.session_changed.notify_waiters();
        self.changed.notify_waiters();
    }

    /// No connection is left and none can be made. A node that said it would go may be awaited for as long as
    /// connecting may take.
    fn failed(&self, error: ConnectError) {
        let is_awaited =
            lock(&self.left_at).is_some_and(|left| left.elapsed() < self.options.connect_timeout);
        if is_awaited {
            return;
        }
        *lock(&self.readiness) = Readiness::Failed(Arc::new(error));
        self.session_changed.notify_waiters();
    }

    /// Returns the connection that is missing: none, or the shard to connect to (`None`: any).
    fn missing(&self, open: &[Arc<Connection>]) -> Option<Option<(u16, u16, u16)>> {
        let Some(first) = open.first() else {
            return Some(None);
        };
        let peer = &first.peer;
        let (Some(port), true) = (peer.shard_aware_port, peer.shard_count > 1) else {
            return (open.len() < self.connections_wanted).then_some(None);
        };
        let has = |shard| open.iter().any(|connection| connection.peer.shard == Some(shard));
        let shard = (0..peer.shard_count).find(|shard| !has(*shard))?;
        Some(Some((shard, peer.shard_count, port)))
    }

    async fn connect_missing(&self) -> Result<(), ConnectError> {
        loop {
            let open_now = self.forget_leaving();
            let Some(shard) = self.missing(&open_now) else {
                return Ok(());
            };
            let mut target = self.target();
            target.shard = shard;
            let connection = open(&target, &self.options).await?;
            let is_new_shard = open_now
                .iter()
                .all(|known| known.peer.shard != connection.peer.shard);
            if let Some((wanted, ..)) = shard
                && connection.peer.shard != Some(wanted)
                && !is_new_shard
            {
                // An address translation stands between the ports: the server cannot be asked for a shard.
                connection.drain();
                return Ok(());
            }
            if self.is_closed.load(Ordering::Acquire) {
                connection.close(ConnectError::SessionClosed);
                return Ok(());
            }
            self.add(connection);
        }
    }
}

/// Connects what is missing, again and again, until the pool is closed or gone.
async fn keep_connected(pool: Weak<NodePool>) {
    let mut away_since = None;
    loop {
        let Some(pool) = pool
            .upgrade()
            .filter(|pool| !pool.is_closed.load(Ordering::Acquire))
        else {
            return;
        };
        match pool.connect_missing().await {
            Ok(()) => {
                away_since = None;
                let changed = pool.changed.clone();
                drop(pool);
                // A connection's end stores a permit, so none is missed between the check and here.
                let _ticked = timeout(HEARTBEAT_TICK, changed.notified()).await;
            }
            Err(error) => {
                if pool.open_connections() == 0 {
                    pool.failed(error);
                }
                drop(pool);
                let away_since = away_since.get_or_insert_with(Instant::now);
                let pause = away_since.elapsed() / RECONNECT_PAUSE_OF_ABSENCE;
                tokio::time::sleep(pause.clamp(RECONNECT_PAUSE_MIN, RECONNECT_PAUSE_MAX)).await;
            }
        }
    }
}

/// Asks silent connections for a sign of life and closes those that give none.
async fn keep_alive(pool: Weak<NodePool>) {
    loop {
        tokio::time::sleep(HEARTBEAT_TICK).await;
        let Some(pool) = pool
            .upgrade()
            .filter(|pool| !pool.is_closed.load(Ordering::Acquire))
        else {
            return;
        };
        let connections = pool.connections();
        drop(pool);
        for connection in connections.iter() {
            if connection.last_answered().elapsed() < HEARTBEAT_AFTER {
                continue;
            }
            let Ok(exchange) = connection.exchange(Opcode::Options, |_| {}) else {
                continue;
            };
            if timeout(HEARTBEAT_TIMEOUT, exchange).await.is_err() {
                connection.close(ConnectError::Timeout {
                    address: connection.peer.address,
                    timeout_ms: HEARTBEAT_TIMEOUT.as_millis() as u64,
                });
            }
        }
    }
}
