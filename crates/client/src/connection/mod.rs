//! One connection: requests in, answers out, in any order.
//!
//! A caller writes its request straight into the connection's output under a short lock and waits for its stream's
//! slot to be filled. A task of the connection sends what has gathered in one write, reads what is there in one read,
//! and wakes the callers whose answers came. Nothing is shared between a caller that gave up and the next user of the
//! stream: the stream stays taken until its late answer, decoded as every other, has arrived and been dropped.

mod exchange;
mod handshake;
mod io_task;
mod streams;
#[cfg(feature = "tls")]
mod tls;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use helenus_protocol::frame::{Compression, EnvelopeFlags, FrameWriter};
use helenus_protocol::{Opcode, ProtocolVersion};
use tokio::sync::{Notify, mpsc};

pub(crate) use exchange::{Exchange, Lost};
pub(crate) use handshake::{ConnectTarget, open};
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError, TlsOptions};

use crate::buffer_pool::BufferPool;
use crate::error::ConnectError;
use crate::lock::lock;
use crate::response::Response;
use streams::StreamTable;

/// Options that every connection of a session is opened with.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionOptions {
    pub compression: Option<Compression>,
    pub credentials: Option<(String, String)>,
    #[cfg(feature = "tls")]
    pub tls: Option<Tls>,
    pub connect_timeout: Duration,
    pub version_max: ProtocolVersion,
    pub buffers: Arc<BufferPool>,
}

/// Requests that are written and not yet sent may take this much memory: eight of the largest bodies that servers
/// take by default (16 MiB), so that one slow peer does not gather the callers' requests without end.
const OUTPUT_BYTES_MAX: usize = 128 << 20;

/// Callers that gave up on one connection and whose streams are still taken: a connection that leaves so many
/// requests unanswered is replaced (the number is the Java driver's default).
pub(crate) const ABANDONED_STREAMS_MAX: usize = 256;

/// A request was not taken: nothing of it is on its way, so another connection may have it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// All streams are in use, or the output is full.
    Busy,
    /// The connection drains or is gone.
    Leaving,
    /// The request is beyond the protocol's 2 GiB.
    TooBig { bytes: usize },
}

/// A word of the server that no request asked for.
#[derive(Debug)]
pub(crate) struct ReceivedEvent {
    pub response: Response,
}

/// Facts of a connection that do not change once it is open.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    pub version: ProtocolVersion,
    /// The shard that the connection belongs to, if the server has shards to tell of.
    pub shard: Option<u16>,
    pub shard_count: u16,
    pub shard_aware_port: Option<u16>,
    /// The server promises it: see [`helenus_protocol::extensions::OVERLOADED_IS_NOT_RUN`].
    pub overloaded_is_not_run: bool,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub peer: Peer,
    state: Mutex<State>,
    /// Tells the owner that the connection drains, is gone, or has a free stream again after it had none.
    changed: Arc<Notify>,
}

/// Where in its life a connection is.
#[derive(Clone, Debug)]
pub(crate) enum Lifecycle {
    Open,
    /// Answers what it has accepted and takes nothing more.
    Draining,
    Closed(Arc<ConnectError>),
}

#[derive(Debug)]
struct State {
    writer: FrameWriter,
    /// Requests that the I/O task has not taken yet.
    output: Vec<u8>,
    /// The number of the write that `output` will leave with; decides whether a request may have been sent.
    batch: u64,
    streams: StreamTable,
    lifecycle: Lifecycle,
    took_leave: bool,
    /// The I/O task, while it has nothing to send.
    task: Option<Waker>,
    was_busy: bool,
    last_answered: Instant,
}

impl Connection {
    fn new(peer: Peer, writer: FrameWriter, changed: Arc<Notify>) -> Self {
        Connection {
            peer,
            state: Mutex::new(State {
                writer,
                output: Vec::new(),
                batch: 1,
                streams: StreamTable::new(),
                lifecycle: Lifecycle::Open,
                took_leave: false,
                task: None,
                was_busy: false,
                last_answered: Instant::now(),
            }),
            changed,
        }
    }

    /// Takes a request: `encode` appends its body. The exchange ends with its answer, or with the connection.
    pub fn exchange(
        self: &Arc<Self>,
        opcode: Opcode,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Exchange, NotTaken> {
        let state = &mut *lock(&self.state);
        if !matches!(state.lifecycle, Lifecycle::Open) {
            return Err(NotTaken::Leaving);
        }
        if state.output.len() > OUTPUT_BYTES_MAX {
            state.was_busy = true;
            return Err(NotTaken::Busy);
        }
        let Some(stream) = state.streams.take(state.batch) else {
            state.was_busy = true;
            return Err(NotTaken::Busy);
        };
        let version = self.peer.version;
        let mark = state.writer.begin(
            &mut state.output,
            version,
            EnvelopeFlags::NONE,
            stream.cast_signed(),
            opcode,
        );
        encode(&mut state.output);
        if let Err(too_big) = state.writer.finish(&mut state.output, mark) {
            state.streams.give_back(stream);
            return Err(NotTaken::TooBig { bytes: too_big.bytes });
        }
        if let Some(task) = state.task.take() {
            task.wake();
        }
        Ok(Exchange::new(self.clone(), stream))
    }

    pub fn takes_requests(&self) -> bool {
        matches!(lock(&self.state).lifecycle, Lifecycle::Open)
    }

    /// Returns whether its end was announced.
    pub fn took_leave(&self) -> bool {
        lock(&self.state).took_leave
    }

    /// Why it is closed, if it is.
    pub fn close_reason(&self) -> Option<Arc<ConnectError>> {
        match &lock(&self.state).lifecycle {
            Lifecycle::Closed(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    pub fn last_answered(&self) -> Instant {
        lock(&self.state).last_answered
    }

    /// Takes no more requests, gives back those that have not been sent, and closes once the others are answered.
    pub fn drain(&self) {
        let state = &mut *lock(&self.state);
        if !matches!(state.lifecycle, Lifecycle::Open) {
            return;
        }
        // Before anything else: no caller may choose this connection any more.
        state.lifecycle = Lifecycle::Draining;
        state.took_leave = true;
        state.writer.flush(&mut state.output);
        state.output.clear();
        let wakers = state.streams.lose_batch(state.batch);
        let task = state.task.take();
        self.leaves();
        wakers.into_iter().chain(task).for_each(Waker::wake);
    }

    /// Tells the owner, also where it is not waiting just now.
    fn leaves(&self) {
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// Ends the connection; every exchange under way ends with `reason`.
    pub fn close(&self, reason: ConnectError) {
        let state = &mut *lock(&self.state);
        if matches!(state.lifecycle, Lifecycle::Closed(_)) {
            return;
        }
        // Until the I/O task has looked, nothing is known of what it has sent: take it that all of it was.
        let wakers = state.streams.lose_all(|_| true);
        state.lifecycle = Lifecycle::Closed(Arc::new(reason));
        let task = state.task.take();
        self.leaves();
        wakers.into_iter().chain(task).for_each(Waker::wake);
    }
}

/// Where the events of a connection go; full or gone, they are dropped.
pub(crate) type EventSender = mpsc::Sender<ReceivedEvent>;
