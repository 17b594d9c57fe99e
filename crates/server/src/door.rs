//! What the connections of one shard share: who is connected, who wants events, and whether the door is closing.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hashbrown::HashMap;
use helenus_engine::ddl::SchemaChange;
use helenus_node::Session;
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::request::{EventKind, Register};
use helenus_protocol::response::{Event, write_event};
use tokio::sync::Notify;

/// The native transport of one shard.
#[derive(Default)]
pub struct Door {
    connections: RefCell<HashMap<u64, Connected, foldhash::fast::RandomState>>,
    next_id: Cell<u64>,
    shard_aware_port: Cell<Option<u16>>,
    draining: Cell<bool>,
    closed: Notify,
}

struct Connected {
    session: Rc<Session>,
    events: Register,
}

impl Door {
    pub fn new(shard_aware_port: Option<u16>) -> Rc<Door> {
        Rc::new(Door {
            shard_aware_port: Cell::new(shard_aware_port),
            ..Door::default()
        })
    }

    pub fn shard_aware_port(&self) -> Option<u16> {
        self.shard_aware_port.get()
    }

    pub fn connection_opened(&self, session: &Rc<Session>) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let connected = Connected {
            session: session.clone(),
            events: Register::default(),
        };
        self.connections.borrow_mut().insert(id, connected);
        id
    }

    pub fn connection_closed(&self, id: u64) {
        self.connections.borrow_mut().remove(&id);
        self.closed.notify_one();
    }

    pub fn register(&self, id: u64, events: Register) {
        if let Some(connected) = self.connections.borrow_mut().get_mut(&id) {
            connected.events.add(events);
        }
    }

    /// Tells every connection that asked for it.
    pub fn announce(&self, change: &SchemaChange) {
        for connected in self.connections.borrow().values() {
            if !connected.events.contains(EventKind::SchemaChange) {
                continue;
            }
            let session = &connected.session;
            session.respond(Event::STREAM, EnvelopeFlags::NONE, Opcode::Event, |out| {
                write_event(out, session.version(), &Event::SchemaChange(change.to_protocol()));
                Ok(())
            });
            session.wake();
        }
    }

    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Takes no more requests; returns when every accepted one is answered and its connection closed.
    pub async fn drain(&self) {
        self.draining.set(true);
        for connected in self.connections.borrow().values() {
            connected.session.wake();
        }
        while !self.connections.borrow().is_empty() {
            self.closed.notified().await;
        }
    }
}
