//! Between sockets and whatever answers: connections, and what keeps them from asking for more than can be served.
//!
//! A [`Service`] is what answers, on one thread: a node's shard, or a gateway before other servers. [`Listeners`] accept
//! connections for it. A new socket stays in the acceptor until a valid STARTUP or OPTIONS has arrived; then a connection reads
//! it in turns of bounded time and hands whole messages to the service as they come.
//!
//! Overload control: [`admission`] (how long requests have waited, turns of connections, refusals), shares of turns (by user, then by
//! connection), read rotation (which connections are read where refusing alone costs too much), [`request_memory`] (accounts of memory, and reservations for large
//! requests that are still to come), and the queues of what is not answered at once ([`aged_queue`], [`fair_share`],
//! [`round_robin`]). Nothing here knows what a statement is.

#![deny(missing_docs)]

mod acceptor;
pub mod admission;
pub mod aged_queue;
mod backlog;
mod backlog_drain;
mod buffer_pool;
mod client_state;
mod connection;
mod connection_limits;
mod connection_registry;
mod context;
pub mod deadline;
pub mod descriptors;
mod dispatcher;
pub mod fair_share;
mod handover;
mod handshake;
pub mod latency;
mod listeners;
mod max_min_fair;
mod memory_reservation;
mod message_bounds;
pub mod metrics;
mod outbox;
mod pending_connections;
mod placement;
mod priority_statements;
mod read_rotation;
mod receive_times;
pub mod refusal;
mod request;
pub mod request_memory;
mod rest;
pub mod round_robin;
mod service;
mod session;
mod socket;
pub mod standing_queue;
mod turn;
mod turn_shares;

pub use admission::{Admission, TurnWork};
pub use buffer_pool::BufferPool;
pub use client_state::ClientState;
pub use connection_limits::ConnectionLimits;
pub use context::{TransportContext, TransportOptions};
pub use dispatcher::listen;
pub use handover::HandedOver;
pub use listeners::{ListenOptions, Listeners};
pub use outbox::Outbox;
pub use refusal::overloaded_template;
pub use request::RequestContext;
pub use request_memory::RequestMemory;
pub use service::{Service, UNDER_WAY_AT_BUSY_MAX};
pub use session::{Conversation, Session};
