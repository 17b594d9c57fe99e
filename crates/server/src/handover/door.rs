//! The listening sockets of a server, by what is served on them.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Service that a socket leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoorKind {
    Cql = 1,
    ShardAwareCql = 2,
    Metrics = 3,
    HttpAndGrpc = 4,
}

impl DoorKind {
    const ALL: [DoorKind; 4] = [
        DoorKind::Cql,
        DoorKind::ShardAwareCql,
        DoorKind::Metrics,
        DoorKind::HttpAndGrpc,
    ];

    /// Names of the service and of the option with its address, in a person's words.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            DoorKind::Cql => ("CQL", "--listen"),
            DoorKind::ShardAwareCql => ("shard-aware CQL", "native_shard_aware_transport_port"),
            DoorKind::Metrics => ("metrics", "--metrics"),
            DoorKind::HttpAndGrpc => ("HTTP and gRPC", "--grpc"),
        }
    }

    /// As it goes over the socket.
    pub fn of_byte(byte: u8) -> Option<DoorKind> {
        DoorKind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Listening sockets.
#[derive(Default)]
pub(crate) struct ListeningSockets(Vec<(DoorKind, TcpListener)>);

impl ListeningSockets {
    /// Those that another process has sent. What is no listening socket is left out: there a new one is opened.
    pub fn received(kinds: &[u8], descriptors: Vec<OwnedFd>) -> Self {
        let sockets = kinds.iter().zip(descriptors).filter_map(|(kind, descriptor)| {
            let is_listening = rustix::net::sockopt::get_socket_acceptconn(&descriptor) == Ok(true);
            let kind = DoorKind::of_byte(*kind).filter(|_| is_listening)?;
            let listener = TcpListener::from(descriptor);
            listener.set_nonblocking(true).ok()?;
            Some((kind, listener))
        });
        ListeningSockets(sockets.collect())
    }

    pub fn add(&mut self, kind: DoorKind, listener: TcpListener) {
        self.0.push((kind, listener));
    }

    /// The one that leads there and has the address that is asked for; port 0 is any.
    pub fn take(&mut self, kind: DoorKind, asked: SocketAddr) -> Option<TcpListener> {
        let fits = |listener: &TcpListener| {
            listener.local_addr().is_ok_and(|address| {
                address.ip() == asked.ip() && (asked.port() == 0 || address.port() == asked.port())
            })
        };
        let place = self
            .0
            .iter()
            .position(|(other, listener)| *other == kind && fits(listener))?;
        Some(self.0.swap_remove(place).1)
    }

    /// Kinds of the sockets, a byte each, and their descriptors, as they are sent.
    pub fn to_send(&self) -> (Vec<u8>, Vec<BorrowedFd<'_>>) {
        self.0
            .iter()
            .map(|(kind, listener)| (*kind as u8, listener.as_fd()))
            .unzip()
    }
}

/// The sockets of a running server, which stay open when it accepts no more: until it ends, or another process has them.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<ListeningSockets>>);

impl Kept {
    /// Keeps another descriptor of the socket. Without one it closes when nobody accepts on it any more, as ever.
    pub fn keep(&self, kind: DoorKind, listener: &TcpListener) {
        if let Ok(listener) = listener.try_clone() {
            self.sockets().add(kind, listener);
        }
    }

    pub fn sockets(&self) -> MutexGuard<'_, ListeningSockets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives them up: who accepts on one has the last descriptor, unless another process has one.
    pub fn take(&self) -> ListeningSockets {
        std::mem::take(&mut *self.sockets())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_taken_for_what_it_leads_to_and_by_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut sockets = ListeningSockets::default();
        sockets.add(DoorKind::Cql, listener);
        assert!(sockets.take(DoorKind::Metrics, address).is_none());
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], address.port()));
        assert!(sockets.take(DoorKind::Cql, elsewhere).is_none());
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        assert!(sockets.take(DoorKind::Cql, any_port).is_some());
        assert!(sockets.take(DoorKind::Cql, any_port).is_none());
    }

    #[test]
    fn what_is_no_listening_socket_is_left_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let connected = std::net::TcpStream::connect(address).unwrap();
        let descriptors = vec![file.into(), connected.into(), listener.into()];
        let mut sockets = ListeningSockets::received(&[1, 1, 1], descriptors);
        assert_eq!(sockets.to_send().0, [1]);
        assert!(sockets.take(DoorKind::Cql, address).is_some());
    }
}
