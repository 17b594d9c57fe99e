//! Failures of a history.

use std::fmt::{self, Display};

use crate::configuration::Configuration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// Counted from 0; the number of steps if it was found after the last, `None` before the first.
    pub step: Option<usize>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Two nodes answered differently.
    Disagreement(Difference),
    /// All nodes answered what CQL does not say.
    Model,
    /// An answer that says that the node failed, which is never the statement's fault.
    Refused,
    /// An event that must succeed did not.
    Broken,
    /// Something did not end.
    Hang,
    Panic,
}

/// In what two answers differ. A history that shrinks keeps it: others are other faults, or none where what they need is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// One is an error, or has no rows where the other has.
    Kind,
    Error,
    Columns,
    Warnings,
    Rows,
}

impl Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(out, "{:?} at step {}: {}", self.kind, step + 1, self.text),
            None => write!(out, "{:?} at the start: {}", self.kind, self.text),
        }
    }
}

/// Failure after which an instance cannot go on.
pub struct Trouble {
    pub kind: FailureKind,
    pub text: String,
}

impl Trouble {
    /// Something that must succeed did not.
    pub fn broken(what: &str, error: impl Display) -> Trouble {
        Trouble {
            kind: FailureKind::Broken,
            text: format!("{what}: {error}"),
        }
    }

    pub fn under(self, configuration: &Configuration) -> Trouble {
        Trouble {
            kind: self.kind,
            text: format!("on {configuration}: {}", self.text),
        }
    }
}
