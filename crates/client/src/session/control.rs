//! View of the cluster, kept up to date over a connection of its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use helenus_protocol::response::{Event, Response as Message};
use helenus_protocol::{Consistency, Opcode};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::request::Request;
use super::{Cluster, Shared};
use crate::connection::{Connection, EventSender, ReceivedEvent, open};
use crate::error::RequestError;
use crate::lock::lock;
use crate::response::Answer;
use crate::routing::{Node, Replication, Topology};
use crate::statement::ExecutionOptions;
use crate::values::{BoundValues, FromRow, Row, RowError};

/// Events that may wait; a client that is behind looks at everything anyway.
const EVENTS_MAX: usize = 64;

/// Without an event, the cluster is looked at this often.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);

/// Servers send several events for one change.
const REFRESH_DELAY: Duration = Duration::from_millis(200);

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Learns the cluster once, then keeps it in mind in the background.
pub(super) async fn start(shared: &Arc<Shared>) -> Result<(), RequestError> {
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    let connection = connect(shared, &sender).await?;
    refresh(shared, &connection).await?;
    tokio::spawn(keep(Arc::downgrade(shared), connection, sender, receiver));
    Ok(())
}

/// A connection to the first node that can be reached.
async fn connect(shared: &Arc<Shared>, events: &EventSender) -> Result<Arc<Connection>, RequestError> {
    let mut last = None;
    for pool in &shared.cluster().pools {
        let mut target = pool.target();
        target.events = Some(events.clone());
        match open(&target, &shared.options.connection).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) => RequestError::Unreachable(Arc::new(error)),
        None => RequestError::Closed,
    })
}

async fn keep(
    shared: Weak<Shared>,
    mut connection: Arc<Connection>,
    sender: EventSender,
    mut events: mpsc::Receiver<ReceivedEvent>,
) {
    let mut pause = PAUSE_MIN;
    loop {
        let wake = timeout(REFRESH_INTERVAL.min(Duration::from_secs(1)), events.recv()).await;
        let Some(shared) = shared.upgrade() else {
            connection.close(crate::error::ConnectError::SessionClosed);
            return;
        };
        if !connection.takes_requests() {
            match connect(&shared, &sender).await {
                Ok(new) => {
                    connection = new;
                    pause = PAUSE_MIN;
                }
                Err(_) => {
                    drop(shared);
                    sleep(pause).await;
                    pause = (2 * pause).min(PAUSE_MAX);
                    continue;
                }
            }
        } else if !wake.is_ok_and(|event| event.is_some_and(|event| changes_the_cluster(&event))) {
            continue;
        }
        sleep(REFRESH_DELAY).await;
        while events.try_recv().is_ok() {}
        // What cannot be learned now is learned with the next event or connection.
        let _kept_if_failed = refresh(&shared, &connection).await;
    }
}

fn changes_the_cluster(event: &ReceivedEvent) -> bool {
    match event.response.decode() {
        Ok((Message::Event(Event::SchemaChange(change)), _)) => {
            matches!(change.target, helenus_protocol::response::SchemaTarget::Keyspace)
        }
        Ok((Message::Event(_), _)) => true,
        _ => false,
    }
}

async fn refresh(shared: &Arc<Shared>, connection: &Arc<Connection>) -> Result<(), RequestError> {
    let nodes = nodes(connection).await?;
    let keyspaces = keyspaces(connection).await?;
    let old = shared.cluster();
    let mut pools = Vec::new();
    let mut pool_of_node = Vec::new();
    for node in &nodes {
        let known = old.pools.iter().find(|pool| pool.address == node.address);
        match known {
            Some(pool) => {
                pool_of_node.push(pools.len());
                pools.push(pool.clone());
            }
            None if shared.options.discovers_nodes => {
                pool_of_node.push(pools.len());
                pools.push(shared.new_pool(node.address));
            }
            None => pool_of_node.push(usize::MAX),
        }
    }
    for pool in &old.pools {
        let is_kept = pools.iter().any(|kept| Arc::ptr_eq(kept, pool));
        // Named by the application under an address that the cluster does not use for it.
        let is_only_way = !shared.options.discovers_nodes || nodes.is_empty();
        if is_kept {
            continue;
        }
        if is_only_way || pool.address == connection.peer.address {
            pools.push(pool.clone());
        } else {
            pool.close();
        }
    }
    *lock(&shared.cluster) = Arc::new(Cluster {
        pools,
        topology: Topology::new(nodes, &keyspaces),
        pool_of_node,
    });
    shared.changed.notify_waiters();
    Ok(())
}

async fn ask(connection: &Arc<Connection>, text: &str) -> Result<Answer, RequestError> {
    let address = connection.peer.address;
    let values = BoundValues::new();
    let options = ExecutionOptions {
        consistency: Consistency::One,
        ..ExecutionOptions::default()
    };
    let request = Request::Query {
        text,
        options: &options,
        values: &values,
    };
    let lost = || RequestError::ConnectionLost {
        address,
        reason: connection
            .close_reason()
            .unwrap_or_else(|| Arc::new(crate::error::ConnectError::ClosedByServer { address })),
    };
    let version = connection.peer.version;
    let exchange = connection
        .exchange(Opcode::Query, |out| request.write(out, version))
        .map_err(|_| lost())?;
    let response = timeout(QUERY_TIMEOUT, exchange)
        .await
        .map_err(|_| RequestError::DeadlinePassed {
            timeout_ms: QUERY_TIMEOUT.as_millis() as u64,
            was_sent: true,
        })?
        .map_err(|_| lost())?;
    if response.opcode == Opcode::Error {
        return Err(response.server_error(address).into());
    }
    Ok(Answer {
        response,
        address,
        shape: None,
    })
}

/// A row of system.local or of the peers: address, datacenter, rack, tokens, and where the server has one, the port.
struct PeerRow {
    address: Option<IpAddr>,
    datacenter: Option<String>,
    rack: Option<String>,
    tokens: Vec<String>,
    port: Option<i32>,
}

impl FromRow for PeerRow {
    fn from_row(row: Row<'_>) -> Result<Self, RowError> {
        Ok(PeerRow {
            address: row.column(0)?,
            datacenter: row.column(1)?,
            rack: row.column(2)?,
            tokens: row.column(3)?,
            port: if row.column_count() > 4 {
                row.column(4)?
            } else {
                None
            },
        })
    }
}

impl PeerRow {
    fn into_node(self, address: SocketAddr) -> Node {
        Node {
            address,
            datacenter: self.datacenter.unwrap_or_default(),
            rack: self.rack.unwrap_or_default(),
            tokens: self
                .tokens
                .iter()
                .filter_map(|token| token.parse().ok())
                .collect(),
        }
    }
}

const LOCAL: &str = "SELECT rpc_address, data_center, rack, tokens FROM system.local";

/// Cassandra 4 and later, Helenus; then ScyllaDB and Cassandra 3, whose nodes all listen on one port.
const PEERS: [&str; 2] = [
    "SELECT native_address, data_center, rack, tokens, native_port FROM system.peers_v2",
    "SELECT rpc_address, data_center, rack, tokens FROM system.peers",
];

async fn nodes(connection: &Arc<Connection>) -> Result<Vec<Node>, RequestError> {
    let contact = connection.peer.address;
    let mut nodes = Vec::new();
    for row in ask(connection, LOCAL).await?.rows::<PeerRow>()? {
        nodes.push(row?.into_node(contact));
    }
    let mut peers = ask(connection, PEERS[0]).await;
    if let Err(RequestError::Server(_)) = peers {
        peers = ask(connection, PEERS[1]).await;
    }
    for row in peers?.rows::<PeerRow>()? {
        let row = row?;
        let Some(address) = row.address.filter(|address| !address.is_unspecified()) else {
            continue;
        };
        let port = row.port.and_then(|port| u16::try_from(port).ok());
        let address = SocketAddr::new(address, port.unwrap_or(contact.port()));
        nodes.push(row.into_node(address));
    }
    Ok(nodes)
}

async fn keyspaces(connection: &Arc<Connection>) -> Result<Vec<(String, Replication)>, RequestError> {
    let query = "SELECT keyspace_name, replication FROM system_schema.keyspaces";
    let answer = ask(connection, query).await?;
    answer
        .rows::<(String, BTreeMap<String, String>)>()?
        .map(|row| row.map(|(name, options)| (name, Replication::of_options(&options))))
        .collect()
}
