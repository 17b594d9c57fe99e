//! Accepting connections.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use helenus_node::handle::gather_requests;
use helenus_node::metrics::DOOR_CONNECTIONS;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::DRAIN_TIMEOUT;
use crate::bounds::{ACCEPT_PAUSE, CONNECTIONS_PER_ADDRESS_MAX};
use crate::caller::Caller;
use crate::connection;
use crate::drain::Stage;
use crate::handover::HandedOverConnection;
use crate::socket::Socket;
use crate::state::{Beginning, State};

/// How many connections there are, by address.
#[derive(Default)]
struct Places(RefCell<HashMap<IpAddr, usize, foldhash::fast::RandomState>>);

/// A connection's place, given back by its drop.
struct Place {
    places: Rc<Places>,
    state: Rc<State>,
    address: IpAddr,
}

impl Place {
    fn take(places: &Rc<Places>, state: &Rc<State>, address: IpAddr) -> Option<Place> {
        if state.connections.get() >= state.connections_max() {
            return None;
        }
        let mut counts = places.0.borrow_mut();
        let count = counts.entry(address).or_insert(0);
        if *count >= CONNECTIONS_PER_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        state.connections.set(state.connections.get() + 1);
        DOOR_CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        Some(Place {
            places: places.clone(),
            state: state.clone(),
            address,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.state.connections.set(self.state.connections.get() - 1);
        DOOR_CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
        let mut counts = self.places.0.borrow_mut();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Serves clients until the doors are closed, or have drained. Says when everything is answered.
pub async fn serve(beginning: Beginning, state: Rc<State>, answered: watch::Sender<bool>) {
    let Ok(listener) = TcpListener::from_std(beginning.listener) else {
        return;
    };
    let gathering = tokio::task::spawn_local(gather_requests());
    let forgetting = tokio::task::spawn_local(forget_statements(state.clone()));
    let mut accepted = Accepted {
        places: Rc::default(),
        state: state.clone(),
        connections: JoinSet::new(),
    };
    for connection in beginning.handed_over {
        accepted.go_on_with(connection);
    }
    tokio::select! {
        () = accept(&listener, &mut accepted) => {}
        () = state.reached(Stage::Draining) => {}
    }
    drop(listener);
    let mut connections = accepted.connections;
    let saying = tokio::task::spawn_local({
        let state = state.clone();
        async move {
            // Each connection has begun to be served by then.
            tokio::task::yield_now().await;
            state.all_answered().await;
            state.depart();
            answered.send_replace(true);
        }
    });
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        _ = tokio::time::timeout(DRAIN_TIMEOUT, ended) => {}
        () = state.reached(Stage::Closed) => {}
    }
    connections.shutdown().await;
    // Whoever waits for the answer sees that the thread has ended.
    state.depart();
    saying.abort();
    forgetting.abort();
    gathering.abort();
}

/// Connections that are served.
struct Accepted {
    places: Rc<Places>,
    state: Rc<State>,
    connections: JoinSet<()>,
}

impl Accepted {
    /// Serves a connection of which `received` was read already. One too many is closed at once, as CQL's are.
    fn serve(&mut self, stream: TcpStream, peer: SocketAddr, received: Vec<u8>) {
        if let Some(place) = Place::take(&self.places, &self.state, peer.ip()) {
            let caller = Rc::new(Caller::new(&self.state, peer));
            let socket = Socket::new(stream, received);
            self.connections.spawn_local(serve_one(socket, caller, place));
        }
    }

    /// Serves a connection that another process has served until now.
    fn go_on_with(&mut self, connection: HandedOverConnection) {
        let HandedOverConnection { socket, received } = connection;
        // Who has gone meanwhile has no address.
        if let Ok(peer) = socket.peer_addr()
            && let Ok(stream) = TcpStream::from_std(socket)
        {
            self.serve(stream, peer, received);
        }
    }
}

async fn accept(listener: &TcpListener, accepted: &mut Accepted) {
    loop {
        tokio::select! {
            connection = listener.accept() => match connection {
                // The log or a flush would lack its descriptor.
                Ok((stream, _)) if accepted.state.descriptors.is_touched_by(&stream) => drop(stream),
                Ok((stream, peer)) => accepted.serve(stream, peer, Vec::new()),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_ended) = accepted.connections.join_next() => {}
        }
    }
}

async fn serve_one(socket: Socket, caller: Rc<Caller>, place: Place) {
    let _given_back_at_the_end = place;
    connection::serve(socket, caller).await;
}

/// Types of markers are those of the schema, so what is prepared goes with it.
async fn forget_statements(state: Rc<State>) {
    let mut changes = state.node.schema_events();
    while changes.next().await.is_some() {
        state.statements.clear();
    }
}
