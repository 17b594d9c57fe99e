//! A node as a server: the listeners of the CQL native transport, the metrics page and the operator's socket, and the
//! configuration that opens them.
//!
//! What happens between a socket and the node is in `helenus-transport`.

pub mod config;
mod control;
mod doors;
mod handover;
mod metrics_page;
mod private_socket;
mod serve;
mod sockets;

pub use doors::DoorSettings;
pub use handover::{ReplaceError, Takeover};
pub use serve::{Handover, MetricsSettings, ServeError, ServeOptions, Server};
