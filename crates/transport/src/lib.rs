//! Between sockets and whatever answers: connections, and what keeps them from asking for more than can be served.
//!
//! Overload control: [`admission`] (how long requests have waited, turns of connections, refusals), read rotation (which
//! connections are read where refusing alone costs too much), [`request_memory`] (accounts of memory, and reservations for large
//! requests that are still to come), and the queues of what is not answered at once ([`aged_queue`], [`fair_share`],
//! [`round_robin`]). Nothing here knows what a statement is.

#![deny(missing_docs)]

pub mod admission;
pub mod aged_queue;
mod buffer_pool;
mod client_state;
pub mod deadline;
pub mod fair_share;
mod memory_reservation;
mod outbox;
mod read_rotation;
pub mod refusal;
mod request;
pub mod request_memory;
pub mod round_robin;
mod session;
pub mod standing_queue;

pub use admission::{Admission, TurnWork};
pub use buffer_pool::BufferPool;
pub use client_state::ClientState;
pub use outbox::Outbox;
pub use refusal::overloaded_template;
pub use request::RequestContext;
pub use request_memory::RequestMemory;
pub use session::{Conversation, Session};
