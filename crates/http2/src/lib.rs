//! The side of a server in HTTP/2 (RFC 9113) and its header compression (RFC 7541), without I/O.
//!
//! Bytes that a client has sent go into [`Connection::next`], which says what they mean: a request has begun, a piece of its body is
//! there, the client has taken it back. Answers go into [`Connection::respond`], [`Connection::send`] and [`Connection::finish`], and
//! bytes for the client come out of [`Connection::output`]. Nothing here waits, reads a clock or owns a body: pieces of bodies are lent
//! to the caller where they lie, and handed back as pieces of his own.
//!
//! Whatever a client sends, what is held for it is bounded by [`Limits`]: a table of 4 KiB for its headers, one header block, a state
//! for each stream, and what is to be sent. Whoever reads no more while [`Connection::is_congested`] bounds that, too.

#![deny(missing_docs)]

mod closed;
mod connection;
mod fault;
mod frame;
mod head;
mod hpack;
mod limits;
mod output;
mod receive;
mod send;
mod stream;

pub use connection::Connection;
pub use fault::ErrorCode;
pub use limits::Limits;
pub use output::Output;
pub use receive::Event;
pub use stream::Trailers;
