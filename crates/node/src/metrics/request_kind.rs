//! The kinds of statement.

/// The kinds of statement that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum RequestKind {
    Read,
    Write,
    Batch,
    Prepare,
    Other,
}

impl RequestKind {
    /// By their numbers, as the label `kind` has them.
    pub const NAMES: [&str; 5] = ["read", "write", "batch", "prepare", "other"];
}
