//! Connections and tokens that another process goes on with. The connections have said nothing yet, or are those of HTTP/1.1 between two
//! requests.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tokens::HandedOverToken;

/// Everything that another process goes on with.
#[derive(Default)]
pub struct HandedOver {
    /// Connections at rest.
    pub connections: Vec<HandedOverConnection>,
    /// Tokens of clients that have logged in.
    pub tokens: Vec<HandedOverToken>,
}

/// A connection at rest.
pub struct HandedOverConnection {
    /// The connection itself.
    pub socket: TcpStream,
    /// Bytes of the next request that were read.
    pub received: Vec<u8>,
}

/// Where it is put.
#[derive(Clone, Default)]
pub(crate) struct Departures(Arc<Mutex<HandedOver>>);

impl Departures {
    /// Without a descriptor for it the connection is closed.
    pub fn add(&self, socket: &impl AsFd, received: &[u8]) {
        if let Ok(socket) = socket.as_fd().try_clone_to_owned() {
            self.handed_over().connections.push(HandedOverConnection {
                socket: socket.into(),
                received: received.to_vec(),
            });
        }
    }

    pub fn set_tokens(&self, tokens: Vec<HandedOverToken>) {
        self.handed_over().tokens = tokens;
    }

    pub fn take(&self) -> HandedOver {
        std::mem::take(&mut *self.handed_over())
    }

    fn handed_over(&self) -> MutexGuard<'_, HandedOver> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
