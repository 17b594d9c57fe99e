//! Bounds on what a client may make a connection hold or do.

/// Bounds of a connection. All are announced to the client where HTTP/2 has a setting for it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams at a time; one more is refused, and may be tried again.
    pub streams_max: u32,
    /// Bytes of a stream's body that may come before they are consumed.
    pub stream_window_bytes: u32,
    /// The same of all streams together; at least 65,535, which is what a client begins with.
    pub connection_window_bytes: u32,
    /// A request's headers as HTTP/2 counts them: names, values and 32 bytes for each. A request with more is answered with 431.
    pub headers_bytes_max: usize,
    /// Requests that a client may begin and take back before anybody has looked at them, which is within one input of
    /// [`Connection::next`](crate::Connection::next). More of them are a flood (rapid reset, CVE-2023-44487).
    pub resets_max: u32,
    /// Bytes that are put into the output before bodies wait for them to be taken.
    pub unsent_bytes_max: usize,
}

/// Frames that continue a header block: a block of the longest kind takes two.
pub(crate) const CONTINUATIONS_MAX: usize = 16;

/// The longest header block, as a multiple of what its fields may take: what is a little too long is told so, what is longer ends the
/// connection.
pub(crate) const BLOCK_FACTOR: usize = 2;
