//! Placement of connections on threads: by the server or by the client.

/// Which thread an accepted connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    FewestConnections,
    BySourcePort,
}
