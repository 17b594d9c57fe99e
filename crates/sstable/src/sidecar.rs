//! Components that are ours and that an SSTable is whole without: what could not be done with one is noted, and nothing
//! else of the SSTable suffers from it.

use std::fmt;

use crate::component::Component;

/// A file of ours beside an SSTable's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sidecar {
    Component(Component),
    /// Terms of a secondary index.
    Terms,
}

/// A component of ours that could not be written, read or decoded; the SSTable is used without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarFault {
    pub sidecar: Sidecar,
    /// Names the file.
    pub reason: String,
}

impl SidecarFault {
    pub(crate) fn new(component: Component, reason: impl ToString) -> Self {
        SidecarFault {
            sidecar: Sidecar::Component(component),
            reason: reason.to_string(),
        }
    }

    pub fn of_terms(reason: impl ToString) -> Self {
        SidecarFault {
            sidecar: Sidecar::Terms,
            reason: reason.to_string(),
        }
    }
}

impl fmt::Display for SidecarFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = match self.sidecar {
            Sidecar::Terms => "queries by the index read all of its rows until it is made again",
            Sidecar::Component(Component::Blocks) => "rows of large partitions take longer to find",
            Sidecar::Component(Component::Fences) => "its partitions take one more read to find",
            _ => "damage to other files of the SSTable may be seen later",
        };
        write!(out, "{}; the SSTable is used without it: {lost}", self.reason)
    }
}
