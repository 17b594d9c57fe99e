//! Accepting connections.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use helenus_node::metrics::DOOR_CONNECTIONS;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::DRAIN_TIMEOUT;
use crate::bounds::{ACCEPT_PAUSE, CONNECTIONS_PER_ADDRESS_MAX};
use crate::caller::Caller;
use crate::connection;
use crate::drain::Stage;
use crate::state::State;

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

/// Serves clients until the doors are closed, or have drained.
pub async fn serve(listener: std::net::TcpListener, state: Rc<State>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let forgetting = tokio::task::spawn_local(forget_statements(state.clone()));
    let mut connections = JoinSet::new();
    tokio::select! {
        () = accept(&listener, &state, &mut connections) => {}
        () = state.reached(Stage::Draining) => {}
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        _ = tokio::time::timeout(DRAIN_TIMEOUT, ended) => {}
        () = state.reached(Stage::Closed) => {}
    }
    connections.shutdown().await;
    forgetting.abort();
}

async fn accept(listener: &TcpListener, state: &Rc<State>, connections: &mut JoinSet<()>) {
    let places = Rc::new(Places::default());
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                // One too many is closed at once, as CQL's are; so is one for which the log or a flush would lack a descriptor.
                Ok((stream, _)) if state.descriptors.is_touched_by(&stream) => drop(stream),
                Ok((stream, peer)) => if let Some(place) = Place::take(&places, state, peer.ip()) {
                    let caller = Rc::new(Caller::new(state, peer));
                    connections.spawn_local(serve_one(stream, caller, place));
                },
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_ended) = connections.join_next() => {}
        }
    }
}

async fn serve_one(stream: TcpStream, caller: Rc<Caller>, place: Place) {
    let _given_back_at_the_end = place;
    connection::serve(stream, caller).await;
}

/// Types of markers are those of the schema, so what is prepared goes with it.
async fn forget_statements(state: Rc<State>) {
    let mut changes = state.node.schema_events();
    while changes.next().await.is_some() {
        state.statements.clear();
    }
}
