//! Components that are ours and that an SSTable is whole without: what could not be done with one is noted, and nothing
//! else of the SSTable suffers from it.

use std::fmt;

use crate::component::Component;

/// A component of ours that could not be written, read or decoded; the SSTable is used without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarFault {
    pub component: Component,
    /// Names the file.
    pub reason: String,
}

impl SidecarFault {
    pub(crate) fn new(component: Component, reason: impl ToString) -> Self {
        SidecarFault {
            component,
            reason: reason.to_string(),
        }
    }
}

impl fmt::Display for SidecarFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = match self.component {
            Component::Blocks => "rows of large partitions take longer to find",
            _ => "damage to other files of the SSTable may be seen later",
        };
        write!(out, "{}; the SSTable is used without it: {lost}", self.reason)
    }
}
