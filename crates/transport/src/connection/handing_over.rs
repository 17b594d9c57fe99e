//! The end of a connection in this process where another one goes on with it.

use std::task::Poll;
use std::time::Duration;

use super::{Connection, Serving};
use crate::handover::{HandedOver, Progress, Resumed, ResumedStage};
use crate::handshake::Stage;
use crate::service::Service;

impl<S: Service> Connection<S> {
    /// Hands the connection over once everything that was read of it is answered; what the client sends meanwhile stays in the
    /// kernel, for the other process. `None` where a message is there or half there: it is read to its end and handled first.
    pub(super) fn poll_hand_over(&mut self) -> Option<Poll<()>> {
        let Some(stage) = self.stage.to_resume() else {
            // Its last answer is all that it waits for.
            return self.sender.is_empty().then_some(Poll::Ready(()));
        };
        if self.receiver.has_ended || !self.is_between_messages() || !self.serving.backlog.is_empty() {
            return None;
        }
        if !self.is_idle() {
            // An answer wakes the connection.
            return Some(Poll::Pending);
        }
        let Serving {
            service,
            registry,
            session,
            ..
        } = &self.serving;
        let client = session.client();
        let resumed = Resumed {
            thread: registry.thread(),
            stage,
            version: client.version,
            throws_on_overload: client.throws_on_overload,
            knows_rate_limit_error: client.knows_rate_limit_error,
            compression: self.receiver.reader.compression(),
            events: registry.events_of(self.id),
            user: session.user(),
            conversation: service.conversation_of(self.id, session),
        };
        // Without a descriptor the connection is closed, as it is where nobody goes on with it.
        if let Ok(socket) = self.socket.duplicate() {
            registry.depart(HandedOver::new(socket, Progress::Served(resumed)));
        }
        Some(Poll::Ready(()))
    }

    /// Once all that was read of it is answered: no message has been read in part.
    pub(super) fn is_to_leave(&self) -> bool {
        self.serving.registry.is_handing_over() && self.is_between_messages()
    }

    /// Nothing that was read is left to be handled.
    pub(super) fn is_between_messages(&self) -> bool {
        !self.receiver.has_leftover && self.receiver.is_between_messages()
    }

    /// Goes on where another process has stopped. False where the service does not understand what that one says.
    pub fn resume(&mut self, resumed: &Resumed, handshake_timeout: Duration) -> bool {
        self.stage = Stage::resumed(resumed.stage, handshake_timeout);
        let session = &self.serving.session;
        if resumed.stage == ResumedStage::AwaitingStartup {
            session.set_version(resumed.version);
            return true;
        }
        let (version, compression) = (resumed.version, resumed.compression);
        session.startup_answered(resumed.client(session.client().peer), compression);
        self.receiver.reader.startup_answered(version, compression);
        if let Some(user) = &resumed.user {
            session.set_user(user.clone());
        }
        if resumed.stage == ResumedStage::Open {
            self.receiver.reader.ready();
        }
        self.serving.registry.register(self.id, resumed.events);
        let service = &self.serving.service;
        service.resume(self.id, session, &resumed.conversation).is_ok()
    }
}
