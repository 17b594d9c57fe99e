//! Statements of a connection: begun, kept for later, or refused.

use std::rc::Rc;

use helenus_protocol::ErrorCode;
use helenus_protocol::frame::Envelope;
use helenus_protocol::response::ErrorBody;
use helenus_protocol::wire::DecodeError;

use super::OUTPUT_BYTES_PER_TURN_MAX;
use crate::aged_queue::Wait;
use crate::backlog::Backlog;
use crate::connection_registry::{ConnectionRegistry, DrainPhase};
use crate::refusal::overloaded_template;
use crate::request::RequestContext;
use crate::service::{Service, UNDER_WAY_AT_BUSY_MAX};
use crate::session::Session;
use crate::turn::Turn;

/// Answers that may wait for a client that does not read them; no more of its requests are read until it does.
pub(super) const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Answers that may be on their way to it, by the size of those before them: a thousand rows of 8 KiB, or one large page.
const EXPECTED_BYTES_MAX: usize = 8 << 20;

/// Requests of one connection that may be under way: the number of its streams.
const IN_FLIGHT_MAX: u32 = 32_768;

/// A statement that was kept and could not be decoded: it has no answer yet.
pub(super) struct Undecodable {
    pub stream: i16,
    pub error: DecodeError,
}

/// Where statements go, and those of them that wait.
pub(super) struct Serving<S: Service> {
    pub service: Rc<S>,
    pub registry: Rc<ConnectionRegistry<S::Conversation>>,
    pub session: Rc<Session<S::Conversation>>,
    /// Statements that have waited so long that the order matters.
    pub backlog: Backlog,
    /// The last of those that wait in another queue was put back.
    pub waits_for_others: bool,
}

impl<S: Service> Serving<S> {
    /// Returns whether more of the client's requests may be begun.
    pub fn may_begin(&self) -> bool {
        let outbox = self.session.outbox();
        outbox.in_flight() < IN_FLIGHT_MAX
            && outbox.bytes() < OUTPUT_BYTES_MAX
            && outbox.expected_bytes() < EXPECTED_BYTES_MAX
    }

    /// Returns whether more of what waits in a queue of the service may be begun. If not, an answer wakes the connection.
    pub fn may_queue(&self) -> bool {
        let under_way_max = match self.waits_for_others {
            true => UNDER_WAY_AT_BUSY_MAX,
            false => self.service.queued_max(),
        };
        self.session.outbox().in_flight() < under_way_max
    }

    fn request(&self, stream: i16, received_ns: u64) -> RequestContext<'_, S::Conversation> {
        RequestContext {
            session: &self.session,
            stream,
            received_ns,
            latest_ns: u64::MAX,
            may_be_put_back: true,
        }
    }

    /// Takes a statement that came at `received_ns`. An error means that it has no answer yet.
    #[inline]
    pub fn take(
        &mut self,
        turn: &mut Turn,
        envelope: &Envelope<'_>,
        received_ns: u64,
    ) -> Result<(), DecodeError> {
        let stream = envelope.header.stream;
        if self.registry.drain_phase() == DrainPhase::Refusing {
            self.refuse_to_start(stream);
            return Ok(());
        }
        let others_are_kept = !self.backlog.is_empty() || self.would_queue_behind_others(turn, envelope);
        if turn.keeps(received_ns, others_are_kept, envelope) {
            let queued_wait_ns = self.service.queued_wait_ns(envelope);
            let unqueued = turn.wait_of(received_ns);
            let wait = Wait {
                wait_ns_max: queued_wait_ns.unwrap_or(unqueued.wait_ns_max),
                ..unqueued
            };
            self.backlog
                .keep(envelope, wait, queued_wait_ns.is_some(), turn.now_ns);
            return Ok(());
        }
        let request = self.request(stream, received_ns);
        if !turn.admits(request, envelope, &*self.service) {
            let template = overloaded_template(self.session.version());
            self.session.respond_template(stream, template);
            return Ok(());
        }
        let handled = self.service.handle(request, envelope);
        if self.service.transport().takes_put_back() {
            self.waits_for_others = true;
            turn.puts_back();
            self.backlog
                .keep(envelope, turn.wait_of(received_ns), true, turn.now_ns);
        }
        handled
    }

    /// Returns whether as many of the client's requests are under way as its service may have in a queue, and would have this
    /// one there too. Decoded and queued it takes ten times the memory, and time that those need who can still be served.
    #[inline]
    fn would_queue_behind_others(&self, turn: &Turn, envelope: &Envelope<'_>) -> bool {
        !self.may_queue() && turn.may_keep() && self.service.queued_wait_ns(envelope).is_some()
    }

    /// Begins what was kept, as far as the turn allows. `other_bytes`: what the connection holds beside it.
    pub fn serve_backlog(&mut self, turn: &mut Turn, other_bytes: usize) -> Result<(), Undecodable> {
        let template = overloaded_template(self.session.version());
        while let Some(stream) = self.next_hopeless(turn.now_ns, other_bytes) {
            turn.refuses_kept();
            self.session.respond_template(stream, template);
            if turn.is_over(self.service.transport()) {
                return Ok(());
            }
        }
        while !turn.is_over(self.service.transport())
            && self.may_begin()
            && self.session.outbox().bytes() < OUTPUT_BYTES_PER_TURN_MAX
        {
            let may_queue = self.may_queue();
            let Some((wait, message)) = self.backlog.next(may_queue, turn.now_ns) else {
                return Ok(());
            };
            let envelope = message.envelope();
            let stream = envelope.header.stream;
            if self.registry.drain_phase() == DrainPhase::Refusing {
                self.refuse_to_start(stream);
            } else if !turn.admits_kept(&wait, &envelope, &*self.service) {
                self.session.respond_template(stream, template);
            } else {
                let handled = self
                    .service
                    .handle(self.request(stream, wait.received_ns), &envelope);
                if self.service.transport().takes_put_back() {
                    self.waits_for_others = true;
                    turn.puts_back();
                    self.backlog.put_back(wait, message, turn.now_ns);
                } else if self.session.outbox().in_flight() < UNDER_WAY_AT_BUSY_MAX {
                    self.waits_for_others = false;
                }
                handled.map_err(|error| Undecodable { stream, error })?;
            }
        }
        Ok(())
    }

    /// The stream of one that is too late, or of the oldest where there is no memory for them all.
    fn next_hopeless(&mut self, now_ns: u64, other_bytes: usize) -> Option<i16> {
        let late = self.backlog.next_late(now_ns);
        if late.is_some() || self.session.outbox().has_room() {
            return late;
        }
        let oldest = self.backlog.give_up_oldest();
        self.charge(other_bytes);
        oldest
    }

    /// At the end of each run: what was sent is gone, what the socket did not take is there and no more in the outbox.
    #[inline]
    pub fn charge(&self, other_bytes: usize) {
        let bytes = other_bytes + self.backlog.bytes();
        let outbox = self.session.outbox();
        outbox.charge_connection(bytes);
        if let Some(account) = outbox.account() {
            account.set_kept_requests(self.backlog.len());
        }
    }

    /// Drivers take this error as the word of a node that cannot serve yet or any more: they ask another one, also for
    /// statements that are not idempotent.
    fn refuse_to_start(&self, stream: i16) {
        let body = ErrorBody::IsBootstrapping;
        self.session
            .respond_refusal(stream, &body, &"The node is stopping");
        let metrics = &self.service.transport().metrics;
        metrics.count_error(ErrorCode::IsBootstrapping);
    }
}
