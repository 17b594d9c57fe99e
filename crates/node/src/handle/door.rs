//! Part of the node that all clients in this process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helenus_catalog::ddl::SchemaChange;
use helenus_types::{ShardId, Token, shard_of};
use helenus_vfs::Clock;
use tokio::sync::broadcast;

use super::client::Client;
use super::events::{EVENTS_WAITING_MAX, SchemaEvents};
use super::options::ClientOptions;
use crate::options::NodeOptions;
use crate::roles::authenticator::Authenticator;
use crate::shard::mailbox::Mailbox;

/// The node, for clients in this process.
pub(crate) struct Door {
    pub mailboxes: Arc<[Mailbox]>,
    pub clock: Arc<dyn Clock>,
    asks_for_passwords: bool,
    clients_so_far: AtomicU64,
    /// Closed once the shard that announces changes has ended.
    schema_changes: broadcast::WeakSender<SchemaChange>,
}

impl Door {
    /// Also where changes of the schema are to be announced.
    pub fn new(
        options: &NodeOptions,
        mailboxes: Arc<[Mailbox]>,
    ) -> (Arc<Door>, broadcast::Sender<SchemaChange>) {
        let (announcing, _nobody_yet) = broadcast::channel(EVENTS_WAITING_MAX);
        let door = Door {
            mailboxes,
            clock: options.clock.clone(),
            asks_for_passwords: options.authenticator != Authenticator::AllowAll,
            clients_so_far: AtomicU64::new(0),
            schema_changes: announcing.downgrade(),
        };
        (Arc::new(door), announcing)
    }

    pub fn new_client(&self, options: &ClientOptions) -> Client {
        let number = self.clients_so_far.fetch_add(1, Ordering::Relaxed);
        let memories = self.mailboxes.iter().map(Mailbox::memory);
        Client::new(number, options, self.asks_for_passwords, memories)
    }

    pub fn owner_of(&self, token: Token) -> ShardId {
        // As many as the node was started with, which is a u16.
        shard_of(token, self.mailboxes.len() as u16)
    }

    pub fn schema_events(&self) -> SchemaEvents {
        let sender = self.schema_changes.upgrade();
        SchemaEvents::new(sender.map(|sender| sender.subscribe()))
    }
}
