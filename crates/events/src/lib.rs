//! Events that a node tells its operator, and the listener that decides what becomes of them.
//!
//! Libraries report and never print: the server writes a line for each event, an application that embeds a node may count them,
//! and tests stay silent. An event is rare; none belongs on the path of a request that is served.

mod event;
mod words;

use std::fmt::Debug;
use std::sync::Arc;

pub use event::{Event, Field, Level};

/// Receives the events of a node, on whatever thread they happen. It must not wait: a shard may be the one that tells.
pub trait EventListener: Debug + Send + Sync {
    fn event(&self, event: &Event<'_>);
}

/// The listener of one node.
pub type Events = Arc<dyn EventListener>;

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl EventListener for Silent {
    fn event(&self, _: &Event<'_>) {}
}

/// The listener of whoever wants none.
pub fn silent() -> Events {
    Arc::new(Silent)
}
