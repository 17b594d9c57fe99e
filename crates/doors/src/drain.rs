//! How far the doors are on their way out.

/// Stage of the doors' way out, by what is done with clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// They are served.
    Open,
    /// They are asked to go elsewhere, and answered what they have asked.
    Draining,
    /// Their connections go to another process where it can go on with them, and are asked to connect again where it cannot; what they
    /// have asked is answered here.
    HandingOver,
    /// Their connections are closed.
    Closed,
}
