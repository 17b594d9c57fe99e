//! How far the doors are on their way out.

/// What the doors do with clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// They are served.
    Open,
    /// They are asked to go elsewhere, and answered what they have asked.
    Draining,
    /// Their connections are closed.
    Closed,
}
