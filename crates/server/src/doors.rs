//! Opens the doors beside CQL to a node.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use helenus_doors::{DoorOptions, Doors, HandedOver, MetricsPage, Operation, Operations};
use helenus_events::{Event, Events};
use helenus_node::{Authenticator, Mailbox, Node, NodeOptions, Operator, metrics};
use helenus_tools::control::{Request, execute};
use helenus_types::ShardId;
use helenus_vfs::{Clock, Random};
use tokio::sync::oneshot;

use crate::control::Places;

/// Where HTTP, gRPC and the console are served, and how.
#[derive(Clone, Copy, Debug)]
pub struct DoorSettings {
    /// Port 0 picks a free one.
    pub address: SocketAddr,
    /// True if somebody has asked for this address: if it cannot be had, the node does not start. Else it goes on without
    /// doors, since two nodes of one machine both have the default.
    pub is_asked_for: bool,
    /// True if only statements that read are taken.
    pub is_read_only: bool,
    /// True if gRPC's `TestService` is there, which interop clients call.
    pub serves_tests: bool,
}

/// Doors to a node that is not there yet.
pub(crate) struct Opening {
    listener: TcpListener,
    handed_over: HandedOver,
    settings: DoorSettings,
    node_memory_bytes: u64,
    buffer_pool: bool,
    asks_for_passwords: bool,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    events: Events,
}

impl Opening {
    pub fn new(
        listener: TcpListener,
        handed_over: HandedOver,
        settings: DoorSettings,
        node: &NodeOptions,
    ) -> Self {
        Opening {
            listener,
            handed_over,
            settings,
            node_memory_bytes: node.memory_bytes,
            buffer_pool: node.buffer_pool,
            asks_for_passwords: node.authenticator != Authenticator::AllowAll,
            clock: node.clock.clone(),
            random: node.random.clone(),
            events: node.events.clone(),
        }
    }

    /// A node that cannot have them serves CQL all the same.
    pub fn open(self, node: &Node, places: &Places) -> Option<Doors> {
        let first_shard = node.mailbox(ShardId(0)).clone();
        let opened = Doors::open(DoorOptions {
            listener: self.listener,
            handed_over: self.handed_over,
            node: node.handle(),
            node_memory_bytes: self.node_memory_bytes,
            asks_for_passwords: self.asks_for_passwords,
            is_read_only: self.settings.is_read_only,
            serves_tests: self.settings.serves_tests,
            buffer_pool: self.buffer_pool,
            operations: Arc::new(NodeOperations {
                operator: node.operator(),
                places: places.clone(),
            }),
            metrics: Arc::new(move || metrics_page(&first_shard)),
            clock: self.clock,
            random: self.random,
        });
        let failed = |error| {
            self.events.event(&Event::DoorsNotOpened {
                address: &self.settings.address,
                error: &error,
            });
        };
        opened.map_err(failed).ok()
    }
}

/// Operations through the doors, which have their places among those of the operator's socket.
struct NodeOperations {
    operator: Operator,
    places: Places,
}

impl Operations for NodeOperations {
    fn begin(&self, request: Request) -> Result<Operation, String> {
        let place = self.places.take(&request).map_err(|busy| busy.to_string())?;
        let operator = self.operator.clone();
        Ok(Box::new(move |progress| {
            let _place = place;
            execute(&operator, &request, progress).map_err(|error| error.to_string())
        }))
    }
}

/// Empty where the node has stopped.
fn metrics_page(first_shard: &Mailbox) -> MetricsPage {
    let (page, made) = oneshot::channel();
    first_shard.run(move |shard| {
        let asking = shard.clone();
        shard.context.spawn(async move {
            let _gone = page.send(metrics::render(&asking.metrics_snapshots().await));
        });
    });
    Box::pin(async move { made.await.unwrap_or_default() })
}
