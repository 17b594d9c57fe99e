//! How a session is set up.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helenus_protocol::frame::Compression;
use helenus_protocol::{Consistency, ProtocolVersion};
use tokio::net::lookup_host;
use tokio::sync::Notify;

use super::{Caller, Cluster, Counters, Session, SessionOptions, Shared, control};
use crate::buffer_pool::BufferPool;
use crate::connection::ConnectionOptions;
use crate::error::{ConnectError, RequestError};
use crate::retry::RetryPolicy;
use crate::statement::ExecutionOptions;
use crate::throttle::{ThrottleMode, WAITING_MAX_DEFAULT};

/// Two connections carry 65,536 requests at once and let a second one go on while the first is replaced.
const CONNECTIONS_PER_NODE_DEFAULT: usize = 2;

/// Connecting takes a round trip or two and a login, which may hash a password.
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Sets up a [`Session`]; what is not set works everywhere.
#[derive(Clone, Debug)]
#[must_use = "a session is made by `connect`"]
pub struct SessionBuilder {
    nodes: Vec<String>,
    has_pool: bool,
    options: SessionOptions,
}

impl SessionBuilder {
    pub(super) fn new() -> Self {
        SessionBuilder {
            nodes: Vec::new(),
            has_pool: true,
            options: SessionOptions {
                connection: ConnectionOptions {
                    compression: None,
                    credentials: None,
                    #[cfg(feature = "tls")]
                    tls: None,
                    connect_timeout: CONNECT_TIMEOUT_DEFAULT,
                    version_max: ProtocolVersion::V5,
                    buffers: BufferPool::new(true),
                },
                throttle: ThrottleMode::Adaptive,
                waiting_max: WAITING_MAX_DEFAULT,
                retry: RetryPolicy::default(),
                connections_per_node: CONNECTIONS_PER_NODE_DEFAULT,
                waits_for_ready: false,
                discovers_nodes: true,
                datacenter: None,
                execution: ExecutionOptions::default(),
            },
        }
    }

    /// A node to begin with, as `HOST:PORT`; give several so that any of them may be down.
    pub fn node(mut self, address: impl Into<String>) -> Self {
        self.nodes.push(address.into());
        self
    }

    /// Only the nodes that were named are used, whatever the cluster says of others.
    pub fn only_these_nodes(mut self) -> Self {
        self.options.discovers_nodes = false;
        self
    }

    /// Nodes of this datacenter come first; the others only when none of it can be reached.
    pub fn datacenter(mut self, name: impl Into<String>) -> Self {
        self.options.datacenter = Some(name.into());
        self
    }

    /// Sets user and password for servers that ask for a login (SASL PLAIN: in clear unless TLS is on).
    /// Without them such a server is [`ConnectError::CredentialsNeeded`]; wrong ones are
    /// [`ConnectError::Refused`].
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.options.connection.credentials = Some((user.into(), password.into()));
        self
    }

    /// Every connection is encrypted.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::Tls) -> Self {
        self.options.connection.tls = Some(tls);
        self
    }

    /// Sets the compression of messages, used where the server offers it; from v5 on only LZ4 is. Default
    /// `None`.
    pub fn compression(mut self, compression: Option<Compression>) -> Self {
        self.options.connection.compression = compression;
        self
    }

    /// The newest version to speak; a session steps down to what the server speaks.
    pub fn protocol_version_max(mut self, version: ProtocolVersion) -> Self {
        self.options.connection.version_max = version;
        self
    }

    /// Sets the time for opening one connection, TLS and login included; default 5 s. A node that has
    /// announced its end and leaves no connection is awaited as long before it counts as unreachable.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connection.connect_timeout = timeout;
        self
    }

    /// For a server without shards; one with shards gets a connection for each.
    pub fn connections_per_node(mut self, count: usize) -> Self {
        self.options.connections_per_node = count.max(1);
        self
    }

    /// Sets how many requests each node is asked at once; default [`ThrottleMode::Adaptive`].
    pub fn throttle(mut self, mode: ThrottleMode) -> Self {
        self.options.throttle = mode;
        self
    }

    /// Callers that may wait for their turn at one node.
    pub fn waiting_max(mut self, callers: usize) -> Self {
        self.options.waiting_max = callers;
        self
    }

    /// Sets how often an idempotent request that may have run is sent again; default twice. What did not run
    /// is sent again in any case, until its deadline.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.options.retry = policy;
        self
    }

    /// While no node can be reached, requests wait until their deadline instead of failing at once.
    pub fn wait_for_ready(mut self) -> Self {
        self.options.waits_for_ready = true;
        self
    }

    /// The deadline of statements that set none of their own.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.execution.timeout = timeout;
        self
    }

    /// The consistency level of prepared statements that set none of their own.
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.options.execution.consistency = consistency;
        self
    }

    /// Sets whether large answers use buffers again; off only to measure what it saves.
    pub fn buffer_pool(mut self, is_on: bool) -> Self {
        self.has_pool = is_on;
        self
    }

    /// Connects to the nodes named, and to those that they name.
    ///
    /// # Errors
    ///
    /// None of the nodes can be reached, or they ask for what was not given (credentials).
    pub async fn connect(mut self) -> Result<Session, RequestError> {
        self.options.connection.buffers = BufferPool::new(self.has_pool);
        let addresses = self
            .addresses()
            .await
            .map_err(|error| RequestError::Unreachable(Arc::new(error)))?;
        let shared = Arc::new(Shared {
            options: self.options,
            cluster: Mutex::default(),
            prepared: Mutex::new(HashMap::default()),
            changed: Arc::new(Notify::new()),
            is_closed: AtomicBool::new(false),
            next_caller: AtomicU64::new(1),
            turn: AtomicU64::new(0),
            counters: Counters::default(),
        });
        let cluster = Cluster {
            pools: addresses
                .iter()
                .map(|address| shared.new_pool(*address))
                .collect(),
            ..Cluster::default()
        };
        *crate::lock::lock(&shared.cluster) = Arc::new(cluster);
        control::start(&shared).await?;
        Ok(Session {
            shared,
            caller: Caller(0),
        })
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>, ConnectError> {
        let mut addresses = Vec::new();
        for node in &self.nodes {
            let found = lookup_host(node)
                .await
                .map_err(|_| ConnectError::Address(node.clone()))?;
            addresses.extend(found.take(1));
        }
        if addresses.is_empty() {
            return Err(ConnectError::NoNodes);
        }
        addresses.dedup();
        Ok(addresses)
    }
}
