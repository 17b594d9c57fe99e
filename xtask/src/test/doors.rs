//! A node whose HTTP and gRPC door has an address that the test knows, and the programs that go through it.

use std::path::PathBuf;

use super::Context;
use crate::node::{Node, free_address};
use crate::program::Tally;
use crate::{TaskError, workspace};

/// A node, and where its door is.
pub struct Door {
    pub node: Node,
    pub address: String,
}

impl Door {
    pub fn start(context: &Context, name: &str, options: &[&str]) -> Result<Self, TaskError> {
        let address = free_address()?.to_string();
        let mut all = vec!["--grpc", &address];
        all.extend(options);
        let node = Node::start(&context.target, name, &all)?;
        Ok(Self { node, address })
    }

    /// Stops the node, which must not have panicked.
    pub fn stop(self, name: &str, tally: &mut Tally) {
        let panics = self.node.check_panics();
        tally.check(&format!("{name} left no panic in the server"), panics);
        let stopped = self.node.stop();
        tally.check(&format!("{name}: the server stops cleanly"), stopped);
    }
}

/// The Go module that pins programs of others.
pub fn go_tools() -> PathBuf {
    workspace::path("tests/drivers/grpc-tools")
}
