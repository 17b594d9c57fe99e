//! Which nodes hold a partition.

mod replication;

use std::collections::HashMap;
use std::net::SocketAddr;

use helenus_types::Token;

pub use replication::Replication;
use replication::replicas_by_position;

/// A node, as the cluster describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Address that it takes clients' connections at.
    pub address: SocketAddr,
    /// Datacenter's name; empty if the server tells none.
    pub datacenter: String,
    /// Rack's name within the datacenter; empty if the server tells none.
    pub rack: String,
    /// Last tokens of the ring's ranges that the node is the primary replica of, in no order.
    pub tokens: Vec<i64>,
}

/// The ring of a cluster, and who holds what of each keyspace.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    nodes: Vec<Node>,
    /// Where each token's owner ends, in token order.
    positions: Vec<Token>,
    /// By keyspace: the nodes of each position, the primary one first.
    replicas: HashMap<String, Vec<Box<[u16]>>>,
}

impl Topology {
    /// Works out every keyspace's replicas once, so that a request only looks them up.
    pub fn new(nodes: Vec<Node>, keyspaces: &[(String, Replication)]) -> Self {
        let mut ring: Vec<(Token, u16)> = nodes
            .iter()
            .zip(0_u16..)
            .flat_map(|(node, index)| node.tokens.iter().map(move |token| (Token(*token), index)))
            .collect();
        ring.sort_unstable();
        let replicas = keyspaces
            .iter()
            .map(|(name, replication)| (name.clone(), replicas_by_position(&nodes, &ring, replication)))
            .collect();
        Topology {
            nodes,
            positions: ring.into_iter().map(|(token, _)| token).collect(),
            replicas,
        }
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Indexes of the nodes that hold the token's partitions; empty where nothing is known of the keyspace.
    pub fn replicas(&self, keyspace: &str, token: Token) -> &[u16] {
        let Some(replicas) = self.replicas.get(keyspace).filter(|all| !all.is_empty()) else {
            return &[];
        };
        let position = self.positions.partition_point(|end| *end < token) % replicas.len();
        &replicas[position]
    }
}
