//! Connections that another process goes on with: those that have said nothing yet, and those of HTTP/1.1 between two requests.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

/// A connection at rest.
pub struct HandedOver {
    /// The connection itself.
    pub socket: TcpStream,
    /// Bytes of the next request that were read.
    pub received: Vec<u8>,
}

/// Where they are put.
#[derive(Clone, Default)]
pub(crate) struct Departures(Arc<Mutex<Vec<HandedOver>>>);

impl Departures {
    /// Without a descriptor for it the connection is closed.
    pub fn add(&self, socket: &impl AsFd, received: &[u8]) {
        if let Ok(socket) = socket.as_fd().try_clone_to_owned() {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(HandedOver {
                    socket: socket.into(),
                    received: received.to_vec(),
                });
        }
    }

    pub fn take(&self) -> Vec<HandedOver> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
