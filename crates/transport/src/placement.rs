//! Who chooses the thread of a connection.

/// Which thread an accepted connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    FewestConnections,
    BySourcePort,
}
