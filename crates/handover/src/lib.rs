//! How a running node and its successor talk: messages with descriptors over a Unix socket (`SCM_RIGHTS`, unix(7)).
//!
//! ```text
//! successor                      the running node
//!     HELLO(release)         ->
//!                            <-  LISTENERS(doors, descriptors)
//!     TAKE                   ->                                    flushes, then ends its connections
//!                            <-  CONNECTIONS(states, descriptors)  any number
//!                            <-  RELEASED                          the data folder is free
//!     SERVING                ->                                    ends
//! ```
//!
//! Either side says FAILED(text) in place of what it should, or closes. Until TAKE the running node does nothing else than it always
//! does; behind it, it goes on serving unless it hears SERVING. Both may be of different releases: each message says the version of
//! these messages, and nothing of another version is understood.

#![deny(missing_docs)]

mod channel;
mod message;
mod socket;

pub use channel::Channel;
pub use message::{HandoverError, Kind, Message};
pub use socket::{SOCKET, connect};

/// The version of the messages, and of everything in them.
pub const VERSION: u8 = 1;

/// Descriptors of one message: half of what the kernel takes at once (`SCM_MAX_FD`, 253).
pub const DESCRIPTORS_MAX: usize = 120;

/// Bytes of one message beside its header: what [`DESCRIPTORS_MAX`] connections with 8 KiB of a first message take.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
