//! The doors of a node: the CQL native transport, the metrics page and the operator's socket, and the configuration that opens them.
//!
//! A door accepts bytes and hands whole messages to the shard it lives on; it knows nothing of CQL.

mod arrivals;
mod backlog;
mod catching_up;
pub mod config;
mod connection;
mod connection_limits;
mod control;
mod control_lane;
mod descriptors;
mod door;
mod guests;
mod handshake;
mod listener;
mod lobby;
mod message_bounds;
mod metrics_page;
mod serve;
mod turn;

pub use connection_limits::ConnectionLimits;
pub use serve::{ServeError, ServeOptions, Server};
