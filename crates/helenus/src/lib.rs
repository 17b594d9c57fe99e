//! A whole database node as a library: what Apache Cassandra stores and answers, in this process, without a socket.
//!
//! ```
//! use helenus::{Node, block_on};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("helenus-doc-{}", std::process::id()));
//! # let folder = folder.as_path();
//! let node = Node::builder(folder).open()?;
//! let shop = node.handle();
//! block_on(async {
//!     shop.query(
//!         "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
//!         (),
//!     )
//!     .await?;
//!     shop.query("CREATE TABLE shop.orders (id bigint PRIMARY KEY, item text)", ()).await?;
//!
//!     let insert = shop.prepare("INSERT INTO shop.orders (id, item) VALUES (?, ?)").await?;
//!     shop.execute(&insert, (7_i64, "lamp")).await?;
//!
//!     let select = shop.prepare("SELECT item FROM shop.orders WHERE id = ?").await?;
//!     let lamps: Vec<(String,)> = shop.execute(&select, (7_i64,)).await?.read()?;
//!     assert_eq!(lamps, [("lamp".to_owned(),)]);
//!     Ok::<(), helenus::RequestError>(())
//! })?;
//! drop(node);
//! # std::fs::remove_dir_all(folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is where
//!
//! [`Node::builder`] opens a folder, [`Node::in_memory`] keeps nothing; [`Node::handle`] is a client, for any thread and any
//! executor, or for none with [`block_on`]. Requests have [`RequestOptions`] and are answered with an [`Answer`] or a
//! [`RequestError`]; a door that the process opens to others gives each of its callers a client of its own
//! ([`Handle::client`]).
//!
//! # What an embedded node does to its process
//!
//! It starts threads: for each shard one that serves, and some that write and compact; all of them are joined before the drop
//! of the [`Node`] returns. It prints nothing (what happens it tells a [`NodeBuilder::events`] listener), installs no hook,
//! no signal handler and no allocator, and opens no port. Any number of nodes live side by side, each in a folder of its own,
//! which is locked meanwhile.
//!
//! A write is answered when it is on the disk, unless [`NodeBuilder::commitlog_sync`] says otherwise; a node that is dropped has flushed what
//! it held, and one whose process is killed replays its log.

#![deny(missing_docs)]

use std::path::PathBuf;
use std::sync::Arc;

pub use helenus_events::{Event, EventListener, Events};
pub use helenus_node::handle::{
    Answer, Batch, ClientOptions, Column, Handle, Login, Outcome, Pages, Prepared, RequestError,
    RequestOptions, Rows, SchemaChange, SchemaChangeTarget, SchemaEvent, SchemaEvents, ServerError, block_on,
    block_on_within,
};
pub use helenus_node::{Authenticator, CommitlogSync, NodeOptions, StartError};
pub use helenus_protocol::request::BatchKind;
pub use helenus_protocol::response::ErrorBody;
pub use helenus_protocol::{Consistency, ErrorCode};
pub use helenus_types::CqlType;
pub use helenus_values as values;

/// A node in this process. Dropping it stops it: everything is flushed, its threads are gone, its folder is free for another.
pub struct Node {
    /// Taken by the drop.
    running: Option<helenus_node::Node>,
    handle: Handle,
}

impl Node {
    /// A node that keeps its data in `folder`, which is made if it is not there.
    pub fn builder(folder: impl Into<PathBuf>) -> NodeBuilder {
        NodeBuilder {
            options: NodeOptions::new(folder.into()),
        }
    }

    /// A node whose data goes with it.
    pub fn in_memory() -> NodeBuilder {
        NodeBuilder {
            options: NodeOptions {
                in_memory: true,
                ..NodeOptions::new(PathBuf::new())
            },
        }
    }

    /// The process's own client, which need not log in.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(node) = self.running.take() {
            node.stop();
        }
    }
}

/// How a node is laid out; see [`Node::builder`].
#[must_use]
pub struct NodeBuilder {
    options: NodeOptions,
}

impl NodeBuilder {
    /// Threads that own data, 1 by default: a core each is the most that is of use. A folder can be opened with another number
    /// later.
    pub fn shards(mut self, count: u16) -> Self {
        self.options.shard_count = count.max(1);
        self
    }

    /// Sets the memory that memtables and caches of all shards may take together, in bytes: 256 MiB by default.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.options.memory_bytes = bytes;
        self
    }

    /// When writes are answered; by default once they are on the disk.
    pub fn commitlog_sync(mut self, sync: CommitlogSync) -> Self {
        self.options.commitlog_sync = sync;
        self
    }

    /// How clients that the process lets in have to say who they are; by default not at all.
    pub fn authenticator(mut self, authenticator: Authenticator) -> Self {
        self.options.authenticator = authenticator;
        self
    }

    /// Sets the listener that is told what happens in the node; by default there is none.
    pub fn events(mut self, listener: impl EventListener + 'static) -> Self {
        self.options.events = Arc::new(listener);
        self
    }

    /// Everything else that a node can be told.
    pub fn configure(mut self, change: impl FnOnce(&mut NodeOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Opens the folder, replays what its log has, and starts the threads; returns when requests are answered.
    pub fn open(self) -> Result<Node, StartError> {
        let running = helenus_node::Node::start(self.options, Arc::new(|_| {}))?;
        Ok(Node {
            handle: running.handle(),
            running: Some(running),
        })
    }
}
