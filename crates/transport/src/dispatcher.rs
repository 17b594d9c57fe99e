//! Which thread gets a connection, and how many each has.
//!
//! One thread accepts for all. On the plain port the thread with the fewest connections gets the next one; on the
//! shard-aware port the client has chosen: its source port modulo the number of threads.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use socket2::{Domain, Socket, Type};
use tokio::sync::mpsc::UnboundedSender;

use crate::connection_limits::ConnectionPermit;
use crate::handover::Resumed;
use crate::placement::Placement;

/// Where accepted sockets go, and how many each thread has.
#[derive(Clone)]
pub struct ConnectionDispatcher {
    threads: Arc<[ThreadConnections]>,
}

struct ThreadConnections {
    sockets: UnboundedSender<NewConnection>,
    connections: AtomicUsize,
}

/// A connection whose first message was seen to be good, on its way to its thread.
pub struct NewConnection {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    /// Bytes already read of it: its first message, and what came right behind.
    pub first: Box<[u8]>,
    /// State handed over by the process that has served it until now.
    pub resumed: Option<Box<Resumed>>,
    /// Held for as long as the connection is open.
    pub slot: ConnectionSlot,
}

/// A connection's place in the counts; given back when it is dropped, however the connection ended.
pub struct ConnectionSlot {
    dispatcher: ConnectionDispatcher,
    thread: usize,
    _permit: ConnectionPermit,
}

impl ConnectionDispatcher {
    pub fn new(sockets: Vec<UnboundedSender<NewConnection>>) -> Self {
        let threads = sockets
            .into_iter()
            .map(|sockets| ThreadConnections {
                sockets,
                connections: AtomicUsize::new(0),
            })
            .collect();
        ConnectionDispatcher { threads }
    }

    /// Gives a connection to its thread.
    pub fn dispatch(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        first: Box<[u8]>,
        placement: Placement,
        permit: ConnectionPermit,
    ) {
        let thread = match placement {
            Placement::BySourcePort => usize::from(peer.port()) % self.threads.len(),
            Placement::FewestConnections => self.emptiest(),
        };
        let slot = self.slot(thread, permit);
        self.send(NewConnection {
            stream,
            peer,
            first,
            resumed: None,
            slot,
        });
    }

    /// Gives a connection that another process has served to the thread that has the same number here.
    pub fn resume(&self, stream: TcpStream, peer: SocketAddr, resumed: Resumed, permit: ConnectionPermit) {
        let thread = usize::from(resumed.thread) % self.threads.len();
        let slot = self.slot(thread, permit);
        self.send(NewConnection {
            stream,
            peer,
            first: Box::default(),
            resumed: Some(Box::new(resumed)),
            slot,
        });
    }

    /// Connections of a thread, also those that it has not seen yet.
    pub fn count(&self, thread: usize) -> usize {
        let thread = self.threads.get(thread);
        thread.map_or(0, |thread| thread.connections.load(Ordering::Relaxed))
    }

    fn slot(&self, thread: usize, permit: ConnectionPermit) -> ConnectionSlot {
        self.threads[thread].connections.fetch_add(1, Ordering::Relaxed);
        ConnectionSlot {
            dispatcher: self.clone(),
            thread,
            _permit: permit,
        }
    }

    fn send(&self, connection: NewConnection) {
        // A thread that has stopped takes no more: socket and slot are dropped.
        let _stopped = self.threads[connection.slot.thread].sockets.send(connection);
    }

    fn emptiest(&self) -> usize {
        let counts = self
            .threads
            .iter()
            .map(|thread| thread.connections.load(Ordering::Relaxed));
        counts
            .enumerate()
            .min_by_key(|&(_, count)| count)
            .map_or(0, |(thread, _)| thread)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.dispatcher.threads[self.thread]
            .connections
            .fetch_sub(1, Ordering::Relaxed);
    }
}

/// Receive buffer of a connection in the kernel, in bytes; the kernel doubles it for its own needs. Left alone it grows to
/// megabytes, tens of thousands of requests that grow old unseen; so it is what one turn of a connection reads, and TCP holds
/// the client back beyond it.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 128 * 1024;

/// Connections that the kernel may have completed and nobody has accepted yet: what Linux allows by default
/// (`net.core.somaxconn`). What does not fit is tried again by the client's kernel after a second.
const BACKLOG: i32 = 4_096;

/// Listens for CQL clients. Accepted sockets inherit the options, so none is set on a connection that is refused.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
