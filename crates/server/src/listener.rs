//! Accepting connections and giving each to a shard.
//!
//! One shard accepts for all. On the plain port the shard with the fewest connections gets the next one; on the
//! shard-aware port the client has chosen: its source port modulo the number of shards.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;

/// Where accepted sockets go, and how many each shard has.
#[derive(Clone)]
pub struct Reception {
    shards: Arc<[ShardReception]>,
}

struct ShardReception {
    sockets: UnboundedSender<(TcpStream, Place)>,
    connections: AtomicUsize,
}

/// A connection's place in the count of its shard; given back when it is dropped, however the connection ended.
pub struct Place {
    reception: Reception,
    shard: usize,
}

/// Which shard an accepted connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    FewestConnections,
    BySourcePort,
}

impl Reception {
    pub fn new(sockets: Vec<UnboundedSender<(TcpStream, Place)>>) -> Self {
        let shards = sockets
            .into_iter()
            .map(|sockets| ShardReception {
                sockets,
                connections: AtomicUsize::new(0),
            })
            .collect();
        Reception { shards }
    }

    fn place(&self, socket: TcpStream, peer: SocketAddr, placement: Placement) {
        let shard = match placement {
            Placement::BySourcePort => usize::from(peer.port()) % self.shards.len(),
            Placement::FewestConnections => self.emptiest(),
        };
        self.shards[shard].connections.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            reception: self.clone(),
            shard,
        };
        // A shard that has stopped takes no more: socket and place are dropped.
        let _stopped = self.shards[shard].sockets.send((socket, place));
    }

    fn emptiest(&self) -> usize {
        let counts = self
            .shards
            .iter()
            .map(|shard| shard.connections.load(Ordering::Relaxed));
        counts
            .enumerate()
            .min_by_key(|&(_, count)| count)
            .map_or(0, |(shard, _)| shard)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.reception.shards[self.shard]
            .connections
            .fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the kernel may hold of a connection that is not read, in bytes; it doubles it for its own needs. Left alone it
/// grows to megabytes, tens of thousands of requests that grow old unseen; so it is what one turn of a connection reads,
/// and TCP holds the client back beyond it.
const RECEIVE_BUFFER_BYTES: usize = 128 * 1024;

/// How long accepting pauses when the process has no file descriptor left: until then one may have been closed.
const OUT_OF_FILES_PAUSE: Duration = Duration::from_millis(10);

/// Accepts until the future is dropped.
pub async fn accept(
    listener: std::net::TcpListener,
    reception: Reception,
    placement: Placement,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let mut has_complained = false;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                has_complained = false;
                let buffer_is_set = SockRef::from(&stream).set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
                // Any of them fails only if the peer has left already.
                if buffer_is_set.is_ok()
                    && stream.set_nodelay(true).is_ok()
                    && let Ok(socket) = stream.into_std()
                {
                    reception.place(socket, peer, placement);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if !has_complained {
                    has_complained = true;
                    eprintln!("cannot accept connections: {error}");
                }
                tokio::time::sleep(OUT_OF_FILES_PAUSE).await;
            }
        }
    }
}
