//! What becomes of the messages that have come: handled, kept for later, or refused.

use std::rc::Rc;
use std::task::Context;

use helenus_node::{RequestContext, Session};
use helenus_protocol::frame::{FrameError, Recovery};
use helenus_protocol::response::ErrorBody;
use helenus_protocol::{ErrorCode, ProtocolVersion};
use helenus_transport::overloaded_template;

use super::{Closed, Connection, OUTPUT_BYTES_PER_TURN_MAX};
use crate::door::DrainPhase;
use crate::handshake::{Handshake, Outcome, Phase};
use crate::message_bounds::{check_bytes, is_statement};
use crate::turn::Turn;

/// A turn that keeps what it reads empties the socket, and looks for more so often.
const KEEPING_READS_PER_TURN_MAX: u32 = 8;

/// Requests of a connection with a backlog that its shard has in a queue of its own: as many as the disk is asked for at a time.
const QUEUED_MAX: u32 = 64;

impl Connection {
    /// What a turn does with what was received, and where some of it waits, with all that is in the socket.
    #[inline]
    pub(super) fn handle_turn(
        &mut self,
        context: &mut Context<'_>,
        turn: &mut Turn,
        has_more: &mut bool,
    ) -> Result<(), Closed> {
        self.has_leftover = self.handle_received(turn)?;
        match self.backlog.is_empty() {
            true => Ok(()),
            false => self.keep_and_serve(context, turn, has_more),
        }
    }

    #[inline(never)]
    fn keep_and_serve(
        &mut self,
        context: &mut Context<'_>,
        turn: &mut Turn,
        has_more: &mut bool,
    ) -> Result<(), Closed> {
        let mut reads = 0;
        while *has_more && !self.has_leftover && !self.has_ended && reads < KEEPING_READS_PER_TURN_MAX {
            reads += 1;
            *has_more = self.receive(context, turn.now_ns);
            self.has_leftover = self.handle_received(turn)?;
        }
        turn.begins_serving(&self.shard);
        self.serve_backlog(turn);
        Ok(())
    }

    /// Begins what was kept, as far as the turn allows.
    fn serve_backlog(&mut self, turn: &mut Turn) {
        let template = overloaded_template(self.session.version());
        while let Some(stream) = self.next_hopeless(turn.now_ns) {
            turn.refuses_kept();
            self.session.respond_template(stream, template);
            if turn.is_over(&self.shard) {
                return;
            }
        }
        while !turn.is_over(&self.shard)
            && self.may_read()
            && self.session.outbox().bytes() < OUTPUT_BYTES_PER_TURN_MAX
        {
            let may_queue = self.may_queue();
            let Some((received_ns, message)) = self.backlog.next(may_queue, turn.now_ns) else {
                return;
            };
            let envelope = message.envelope();
            let stream = envelope.header.stream;
            if self.door.drain_phase() == DrainPhase::Refusing {
                refuse_to_start(&self.session, stream);
                self.shard.metrics.count_error(ErrorCode::IsBootstrapping);
            } else if !turn.admits_kept(received_ns, &envelope, &self.shard) {
                self.session.respond_template(stream, template);
            } else if let Err(error) = self
                .shard
                .handle(request_of(&self.session, stream, received_ns), &envelope)
            {
                self.refuse_message(stream, &error);
            }
        }
    }

    /// Whether more of what waits in a queue of the shard may be begun. If not, an answer wakes the connection.
    pub(super) fn may_queue(&self) -> bool {
        self.session.outbox().in_flight() < QUEUED_MAX
    }

    /// The stream of one that is too late, or of the oldest where there is no memory for them all.
    fn next_hopeless(&mut self, now_ns: u64) -> Option<i16> {
        let late = self.backlog.next_late(now_ns);
        if late.is_some() || self.session.outbox().has_room() {
            return late;
        }
        let oldest = self.backlog.give_up_oldest();
        self.charge();
        oldest
    }

    /// Handles what was received until the turn is over; whether whole messages may be left.
    fn handle_received(&mut self, turn: &mut Turn) -> Result<bool, Closed> {
        loop {
            if self.phase == Phase::Refusing {
                self.received.discard_all();
                self.backlog.clear();
                return Ok(false);
            }
            if turn.is_over(&self.shard)
                || !self.may_read()
                || self.backlog.is_full()
                || self.session.outbox().bytes() >= OUTPUT_BYTES_PER_TURN_MAX
            {
                return Ok(true);
            }
            let received_ns = self.arrivals.arrival_ns(|| self.received.unread().len());
            match self.reader.next_envelope(&mut self.received) {
                Ok(None) => {
                    if self.waits_for_rest(turn.now_ns) {
                        return Ok(false);
                    }
                }
                Ok(Some(envelope)) if self.phase == Phase::Open && is_statement(envelope.header.opcode) => {
                    if self.door.drain_phase() == DrainPhase::Refusing {
                        refuse_to_start(&self.session, envelope.header.stream);
                        self.shard.metrics.count_error(ErrorCode::IsBootstrapping);
                    } else if turn.keeps(received_ns, !self.backlog.is_empty(), &envelope) {
                        self.backlog.keep(
                            &envelope,
                            turn.wait_of(received_ns),
                            self.shard.would_queue(&envelope),
                            turn.now_ns,
                        );
                    } else if !turn.admits(received_ns, &self.session, &envelope, &self.shard) {
                        let stream = envelope.header.stream;
                        self.session
                            .respond_template(stream, overloaded_template(self.session.version()));
                    } else {
                        let stream = envelope.header.stream;
                        let request = request_of(&self.session, stream, received_ns);
                        if let Err(error) = self.shard.handle(request, &envelope) {
                            self.refuse_message(stream, &error);
                        }
                    }
                }
                Ok(Some(envelope)) => {
                    let stream = envelope.header.stream;
                    if let Err(error) = check_bytes(self.phase, &envelope.header, envelope.body.len()) {
                        self.refuse_for_good(stream, &error);
                        continue;
                    }
                    let handshake = Handshake {
                        shard: &self.shard,
                        door: &self.door,
                        session: &self.session,
                        id: self.id,
                    };
                    match handshake.handle(&envelope, self.phase) {
                        Ok(Outcome::Answered) => {}
                        Ok(Outcome::Started(version, compression)) => {
                            self.reader.startup_answered(version, compression);
                            if handshake.must_log_in() {
                                self.phase = Phase::Authenticating;
                            } else {
                                self.let_in();
                            }
                        }
                        Err(error) => self.refuse_message(stream, &error),
                    }
                }
                Err(error) => self.refuse_frame(&error)?,
            }
        }
    }

    /// Of a message of which the beginning has arrived; else it is refused, or passed over as it comes.
    fn waits_for_rest(&mut self, now_ns: u64) -> bool {
        let begun = self.reader.begun(&self.received);
        if let Some(header) = begun
            && let Err(error) = check_bytes(self.phase, &header, header.body_bytes as usize)
        {
            self.refuse_for_good(header.stream, &error);
            return false;
        }
        let has_memory = self.has_memory_for_begun(now_ns);
        if !has_memory {
            self.reader.skip_begun(&self.received);
        }
        has_memory
    }

    /// Answers a message behind which nothing of the connection is wanted any more.
    fn refuse_for_good(&mut self, stream: i16, error: &impl std::fmt::Display) {
        self.session.respond_protocol_error(stream, error);
        self.shard.metrics.count_error(ErrorCode::ProtocolError);
        self.begin_leaving();
    }

    fn refuse_message(&mut self, stream: i16, error: &impl std::fmt::Display) {
        self.session.respond_protocol_error(stream, error);
        self.shard.metrics.count_error(ErrorCode::ProtocolError);
        if self.reader.message_failed() != Recovery::Continue {
            self.begin_leaving();
        }
    }

    fn refuse_frame(&mut self, error: &FrameError) -> Result<(), Closed> {
        // Drivers try the newest version that they know first.
        if !matches!(error, FrameError::UnsupportedVersion { .. }) {
            self.shard.metrics.count_error(error.code());
        }
        let recovery = error.recovery();
        if recovery == Recovery::Close {
            return Err(Closed);
        }
        if let FrameError::UnsupportedVersion { .. } = error {
            // Drivers step down to the version of this answer.
            self.session.set_version(ProtocolVersion::CURRENT);
        }
        let body = match error.code() {
            ErrorCode::Invalid => ErrorBody::Invalid,
            ErrorCode::Overloaded => ErrorBody::Overloaded,
            _ => ErrorBody::ProtocolError,
        };
        self.session.respond_refusal(error.stream(), &body, error);
        if recovery == Recovery::CloseAfterReply {
            self.begin_leaving();
        }
        Ok(())
    }
}

fn request_of(session: &Rc<Session>, stream: i16, received_ns: u64) -> RequestContext<'_> {
    RequestContext {
        session,
        stream,
        received_ns,
    }
}

/// Drivers take this error as the word of a node that cannot serve yet or any more: they ask another one, also for
/// statements that are not idempotent.
fn refuse_to_start(session: &Session, stream: i16) {
    session.respond_refusal(stream, &ErrorBody::IsBootstrapping, &"The node is stopping");
}
