//! Events of the node that clients in this process hear of without asking.

use helenus_catalog::ddl::SchemaChange;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Changes of the schema that a subscriber may be behind: a thousand statements, more than a script that makes a schema has.
pub(super) const EVENTS_WAITING_MAX: usize = 1_024;

/// Changes of the schema, from when they were subscribed to. Every shard has the new schema before its event is told, and the
/// statement that made it may be answered before that.
pub struct SchemaEvents {
    receiver: Option<broadcast::Receiver<SchemaChange>>,
}

/// An event for a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaEvent {
    /// Something was made, altered or dropped.
    Changed(SchemaChange),
    /// So many changes came while the subscriber looked elsewhere: whoever keeps a picture of the schema reads it again.
    Missed(u64),
}

impl SchemaEvents {
    pub(super) fn new(receiver: Option<broadcast::Receiver<SchemaChange>>) -> Self {
        SchemaEvents { receiver }
    }

    /// Waits for the next event; `None` once the node has stopped.
    pub async fn next(&mut self) -> Option<SchemaEvent> {
        match self.receiver.as_mut()?.recv().await {
            Ok(change) => Some(SchemaEvent::Changed(change)),
            Err(RecvError::Lagged(missed)) => Some(SchemaEvent::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}
