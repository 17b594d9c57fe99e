//! Bounds on what clients can make the doors hold.

use std::time::Duration;

/// Connections at a time. One that is idle takes 16 KiB, so all of them 16 MiB.
pub const CONNECTIONS_MAX: usize = 1_024;

/// Part of the process's file descriptors that the doors' connections take at most, as a divisor: where few files may be open,
/// CQL's connections have room.
pub const DESCRIPTORS_SHARE: u64 = 4;

/// Connections of one address at a time: half of all, so that one client leaves places for others.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 512;

/// From the accepted connection to the bytes that tell HTTP/2 from HTTP/1.1.
pub const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of HTTP/1.1 from a request's first byte to the end of its headers, and between two requests.
pub const HEADERS_TIMEOUT: Duration = Duration::from_secs(30);

/// From the headers of a request to the end of its body, but for the streams of gRPC.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A silent client of HTTP/2 is asked for a sign of life this often,
pub const PING_INTERVAL: Duration = Duration::from_secs(60);

/// and gone if it gives none for so long.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// A client whose socket takes nothing for so long has gone.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A request's headers, as HTTP/2 counts them; also what HTTP/1.1 buffers while it reads them. Servers allow 8 to 16 KiB.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;

/// Headers of an HTTP/1.1 request.
pub const HEADERS_MAX: usize = 100;

/// Streams of an HTTP/2 connection at a time: more than grpc-go's default of 100.
pub const STREAMS_MAX: u32 = 256;

/// Streams that a client may open and reset before anybody has looked at them. A client that cancels all of its streams at once is within its
/// rights; a flood of resets (rapid reset) ends the connection here.
pub const RESET_STREAMS_MAX: u32 = 2 * STREAMS_MAX;

/// Flow-control window in bytes: what a stream, and a connection, may send before it is read.
pub const STREAM_WINDOW_BYTES: u32 = 128 * 1024;

/// See [`STREAM_WINDOW_BYTES`].
pub const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;

/// Bytes of an answer that are buffered while its client does not take it, besides those that [`MEMORY_BYTES_MAX`] counts.
pub const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Bytes of a request that HTTP/1.1 buffers.
pub const REQUEST_BUFFER_BYTES: usize = 64 * 1024;

/// A request's body, and a message of gRPC: what gRPC's servers take by default. A node with little memory takes less, see
/// [`Memory::body_bytes_max`](crate::memory::Memory::body_bytes_max).
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// Bytes charged for a byte of a request, because it may be that much when it is read: a value of gRPC takes two bytes or more on
/// its way and some dozens in memory, until it is bound.
pub const BODY_COST: usize = 8;

/// Values of a statement, and statements of a batch: as many as the native protocol counts.
pub const VALUES_MAX: usize = u16::MAX as usize;

/// Part of the node's memory, as a divisor, that bodies and answers of all clients may take together on top of it: with it a node
/// stays below its memory and a fifth.
pub const MEMORY_SHARE: u64 = 8;

/// Largest size of that part in bytes, however large the node is.
pub const MEMORY_BYTES_MAX: usize = 128 << 20;

/// Smallest size of that part in bytes, however small the node is.
pub const MEMORY_BYTES_MIN: usize = 8 << 20;

/// Eighths of that which one connection may have.
pub const CONNECTION_EIGHTHS: usize = 3;

/// Statements that are kept prepared, with their texts.
pub const STATEMENTS_MAX: usize = 1_024;

/// Longest text of a statement that is kept prepared, in bytes.
pub const STATEMENT_BYTES_MAX: usize = 16 * 1024;

/// Tokens that are valid at a time. The one that was used least lately makes place for the next.
pub const TOKENS_MAX: usize = 10_000;

/// A token that is not used for so long is forgotten, as Stargate's are.
pub const TOKEN_LIFE: Duration = Duration::from_secs(30 * 60);

/// For so long a token is good without looking up the role of its user again: Cassandra's `roles_validity`.
pub const ROLE_VALIDITY: Duration = Duration::from_secs(2);

/// Users of one connection at a time; each has a client of its own at the node.
pub const USERS_MAX: usize = 16;

/// Answers on their way from a stream's producer to its connection: the next is made while the last one is sent.
pub const STREAM_ANSWERS_MAX: usize = 2;

/// How long accepting pauses after an error: one of a connection is gone by then, a process without file descriptors may have some.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long the node may take to say that it answers.
pub const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the first bytes are waited for, where only a part of them has come.
pub const PREFACE_PAUSE: Duration = Duration::from_millis(5);

/// After the last answer: how long a socket stays open for its client to close it, so that nothing of the answer is lost.
pub const LINGER: Duration = Duration::from_secs(2);

/// A client that sends no more may still read: for so long it is answered what it has asked. As long as reads may take by default; whoever
/// has gone altogether holds its place until then, or until the first byte of an answer is refused.
pub const HALF_CLOSED: Duration = Duration::from_secs(5);

/// Between telling balancers that the node is going away, and going away: what they need to send new calls elsewhere.
pub const NOTICE: Duration = Duration::from_millis(100);

/// How long a client may need to hear that its connection goes, where somebody waits for that: a round trip around the earth. What it
/// sends until then is answered.
pub const HEARING: Duration = Duration::from_millis(250);

/// How often it is looked whether everything is answered.
pub const LOOK: Duration = Duration::from_millis(2);

/// An answer that is shorter is not compressed: the call costs more than its bytes.
pub const COMPRESSED_BYTES_MIN: usize = 1_024;

/// The window that a client's zstd may ask for, as a power of two: what the bytes of a message need.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 22;

/// A trace is written when its request has been answered: how often it is looked for,
pub const TRACE_ATTEMPTS_MAX: usize = 10;

/// and how long after each time.
pub const TRACE_PAUSE: Duration = Duration::from_millis(10);
