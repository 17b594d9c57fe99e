//! State of a client's conversation beside what was negotiated: the keyspace that `USE` chose, and what happens to a traced
//! request.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_protocol::wire::{DecodeError, WireReader, put_string};

use crate::traced_reads::TracedReads;

/// One client's side of the conversation.
pub type Session = helenus_transport::Session<Conversation>;

/// One request on its way through a shard.
pub type RequestContext<'a> = helenus_transport::RequestContext<'a, Conversation>;

/// The node's part of a session.
#[derive(Default)]
pub struct Conversation {
    keyspace: RefCell<Option<Arc<str>>>,
    is_warned_of_use_keyspace: Cell<bool>,
    /// Trace of the request, if it is traced.
    trace: Option<Trace>,
}

/// Trace of a request that is under way.
#[derive(Default)]
struct Trace {
    events: RefCell<Vec<TraceEvent>>,
    reads: Arc<TracedReads>,
}

/// Something that happened to a traced request.
pub(crate) struct TraceEvent {
    /// Made when it happened: its time is in it.
    pub id: [u8; 16],
    pub at_ns: u64,
    pub activity: String,
}

impl helenus_transport::Conversation for Conversation {
    type Error = CqlError;
}

impl Conversation {
    /// As this one is now, and what happens is noted.
    pub(crate) fn traced(&self) -> Conversation {
        Conversation {
            keyspace: self.keyspace.clone(),
            is_warned_of_use_keyspace: self.is_warned_of_use_keyspace.clone(),
            trace: Some(Trace::default()),
        }
    }

    /// Adopts the choices of a traced request for those that follow.
    pub(crate) fn adopt_choices_of(&self, traced: &Conversation) {
        self.keyspace.replace(traced.keyspace());
        self.is_warned_of_use_keyspace
            .set(traced.is_warned_of_use_keyspace.get());
    }

    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    pub(crate) fn note_event(&self, event: TraceEvent) {
        if let Some(trace) = &self.trace {
            trace.events.borrow_mut().push(event);
        }
    }

    pub(crate) fn take_events(&self) -> Vec<TraceEvent> {
        let events = self.trace.as_ref().map(|trace| trace.events.take());
        events.unwrap_or_default()
    }

    /// Counts of what the request reads, if it is traced.
    pub(crate) fn traced_reads(&self) -> Option<&Arc<TracedReads>> {
        self.trace.as_ref().map(|trace| &trace.reads)
    }

    /// Keyspace that `USE` chose.
    pub fn keyspace(&self) -> Option<Arc<str>> {
        self.keyspace.borrow().clone()
    }

    pub(crate) fn set_keyspace(&self, keyspace: Arc<str>) {
        *self.keyspace.borrow_mut() = Some(keyspace);
    }

    /// Writes the state that another process needs to go on with the conversation.
    pub(crate) fn tell(&self, out: &mut Vec<u8>) {
        let keyspace = self.keyspace.borrow();
        out.push(u8::from(keyspace.is_some()));
        put_string(out, keyspace.as_deref().unwrap_or_default());
        out.push(u8::from(self.is_warned_of_use_keyspace.get()));
    }

    /// Goes on where another process has stopped.
    pub(crate) fn resume(&self, told: &mut WireReader<'_>) -> Result<(), DecodeError> {
        let has_keyspace = told.byte("flag")? != 0;
        let keyspace = told.string()?;
        self.keyspace.replace(has_keyspace.then(|| keyspace.into()));
        self.is_warned_of_use_keyspace.set(told.byte("flag")? != 0);
        Ok(())
    }

    /// Returns whether this is the first time that the client is to be warned of prepared statements without a keyspace.
    pub(crate) fn take_use_keyspace_warning(&self) -> bool {
        !self.is_warned_of_use_keyspace.replace(true)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use helenus_protocol::ProtocolVersion;
    use helenus_transport::ClientState;

    use super::*;

    /// A traced request was answered as if its client had negotiated nothing: with an error code that it does not know.
    #[test]
    fn a_traced_request_keeps_what_its_client_negotiated() {
        let session = Session::new(ProtocolVersion::V4);
        let client = ClientState {
            peer: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4_000),
            version: ProtocolVersion::V4,
            throws_on_overload: true,
            knows_rate_limit_error: true,
        };
        session.startup_answered(client, None);
        session.set_user("app".into());
        session.conversation.set_keyspace("k".into());
        let traced = session.apart(session.conversation.traced());
        assert_eq!(traced.client(), client);
        assert_eq!(
            (
                traced.user().as_deref(),
                traced.conversation.keyspace().as_deref()
            ),
            (Some("app"), Some("k"))
        );
        traced.conversation.set_keyspace("other".into());
        session.conversation.adopt_choices_of(&traced.conversation);
        assert_eq!(session.conversation.keyspace().as_deref(), Some("other"));
    }
}
