//! The operator's door: a socket in the data folder that only the node's user may use. A line of JSON in, lines of
//! JSON out (`helenus_tools::control`), one request a connection.
//!
//! A request takes as long as the disk needs, so each has a thread of its own; the shards see nothing of it but short
//! messages.

mod conversation;
mod places;
mod socket;

pub use places::Places;
pub use socket::ControlSocket;
