//! Messages that have come: taken apart, and answered where they are wrong.

use std::fmt::Display;
use std::task::Context;

use helenus_protocol::frame::{Envelope, FrameError, Recovery};
use helenus_protocol::response::ErrorBody;
use helenus_protocol::{ErrorCode, ProtocolVersion};

use super::serving::Serving;
use super::{Closed, Connection, OUTPUT_BYTES_PER_TURN_MAX};
use crate::handshake::{Accepted, Handshake, HandshakeError, Stage};
use crate::message_bounds::{TooLong, check_bytes, is_statement};
use crate::service::Service;
use crate::turn::Turn;

/// A turn that keeps what it reads empties the socket, and looks for more so often.
const KEEPING_READS_PER_TURN_MAX: u32 = 8;

/// Why a message about the connection itself is not answered as it wants.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    TooLong(#[from] TooLong),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// Handles a message that is no statement.
fn take_other<S: Service>(
    serving: &Serving<S>,
    stage: &Stage,
    connection: u64,
    envelope: &Envelope<'_>,
) -> Result<Option<Accepted>, Refused> {
    check_bytes(stage, &envelope.header, envelope.body.len())?;
    let handshake = Handshake {
        service: &serving.service,
        registry: &serving.registry,
        session: &serving.session,
        connection,
    };
    Ok(handshake.handle(envelope, stage)?)
}

impl<S: Service> Connection<S> {
    /// Handles the messages received, and where some of them wait, also all that is in the socket.
    #[inline]
    pub(super) fn handle_turn(
        &mut self,
        context: &mut Context<'_>,
        turn: &mut Turn,
        has_more: &mut bool,
    ) -> Result<(), Closed> {
        self.receiver.has_leftover = self.handle_received(turn)?;
        match self.serving.backlog.is_empty() {
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
        while *has_more
            && !self.receiver.has_leftover
            && !self.receiver.has_ended
            && reads < KEEPING_READS_PER_TURN_MAX
        {
            reads += 1;
            *has_more = self.receive(context, turn.now_ns);
            self.receiver.has_leftover = self.handle_received(turn)?;
        }
        turn.begins_serving(self.transport());
        let held_bytes = self.held_bytes();
        while let Err(undecodable) = self.serving.serve_backlog(turn, held_bytes) {
            self.refuse_message(undecodable.stream, &undecodable.error);
        }
        Ok(())
    }

    /// Handles what was received until the turn is over; whether whole messages may be left.
    fn handle_received(&mut self, turn: &mut Turn) -> Result<bool, Closed> {
        loop {
            if self.stage.is_closing() {
                self.receiver.received.discard_all();
                self.serving.backlog.clear();
                return Ok(false);
            }
            if turn.is_over(self.transport())
                || !self.may_read()
                || self.serving.backlog.is_full()
                || self.serving.session.outbox().bytes() >= OUTPUT_BYTES_PER_TURN_MAX
            {
                return Ok(true);
            }
            match self.receiver.next_message(turn.now_ns) {
                Ok(None) => {
                    if self.waits_for_rest(turn.now_ns) {
                        return Ok(false);
                    }
                }
                Ok(Some((envelope, received_ns)))
                    if self.stage.is_open() && is_statement(envelope.header.opcode) =>
                {
                    let stream = envelope.header.stream;
                    if let Err(error) = self.serving.take(turn, &envelope, received_ns) {
                        self.refuse_message(stream, &error);
                    }
                }
                Ok(Some((envelope, _))) => {
                    let stream = envelope.header.stream;
                    match take_other(&self.serving, &self.stage, self.id, &envelope) {
                        Ok(None) => {}
                        Ok(Some(accepted)) => self.startup_accepted(&accepted),
                        Err(Refused::TooLong(error)) => self.refuse_for_good(stream, &error),
                        Err(Refused::Handshake(error)) => self.refuse_message(stream, &error),
                    }
                }
                Err(error) => self.refuse_frame(&error)?,
            }
        }
    }

    fn startup_accepted(&mut self, accepted: &Accepted) {
        self.receiver
            .reader
            .startup_answered(accepted.version, accepted.compression);
        let stage = std::mem::replace(&mut self.stage, Stage::Open);
        self.stage = stage.accepted(accepted);
        if self.stage.is_open() {
            self.open();
        }
    }

    /// The handshake is over.
    pub(super) fn open(&mut self) {
        self.receiver.reader.ready();
        self.stage = Stage::Open;
        let user = self.serving.session.user();
        self.user_turns = self.transport().admission.turns_of(user);
    }

    /// The next answer is the last: the client is to read it and close.
    fn begin_closing(&mut self) {
        self.stage = Stage::closing();
    }

    /// Returns whether the rest of a begun message is waited for; else it is refused, or passed over as it comes.
    fn waits_for_rest(&mut self, now_ns: u64) -> bool {
        if let Some(header) = self.receiver.begun()
            && let Err(error) = check_bytes(&self.stage, &header, header.body_bytes as usize)
        {
            self.refuse_for_good(header.stream, &error);
            return false;
        }
        let transport = self.serving.service.transport();
        let outbox = self.serving.session.outbox();
        let has_memory =
            self.receiver
                .has_memory_for_begun(transport, self.id, || outbox.free_bytes(), now_ns);
        if !has_memory {
            self.receiver.skip_begun();
        }
        has_memory
    }

    fn respond_protocol_error(&self, stream: i16, error: &dyn Display) {
        self.serving.session.respond_protocol_error(stream, error);
        self.transport().metrics.count_error(ErrorCode::ProtocolError);
    }

    /// Answers a message behind which nothing of the connection is wanted any more.
    fn refuse_for_good(&mut self, stream: i16, error: &dyn Display) {
        self.respond_protocol_error(stream, error);
        self.begin_closing();
    }

    fn refuse_message(&mut self, stream: i16, error: &dyn Display) {
        self.respond_protocol_error(stream, error);
        if self.receiver.reader.message_failed() != Recovery::Continue {
            self.begin_closing();
        }
    }

    fn refuse_frame(&mut self, error: &FrameError) -> Result<(), Closed> {
        // Drivers try the newest version that they know first.
        if !matches!(error, FrameError::UnsupportedVersion { .. }) {
            self.transport().metrics.count_error(error.code());
        }
        let recovery = error.recovery();
        if recovery == Recovery::Close {
            return Err(Closed);
        }
        let session = &self.serving.session;
        if let FrameError::UnsupportedVersion { .. } = error {
            // Drivers step down to the version of this answer.
            session.set_version(ProtocolVersion::CURRENT);
        }
        let body = match error.code() {
            ErrorCode::Invalid => ErrorBody::Invalid,
            ErrorCode::Overloaded => ErrorBody::Overloaded,
            _ => ErrorBody::ProtocolError,
        };
        session.respond_refusal(error.stream(), &body, error);
        if recovery == Recovery::CloseAfterReply {
            self.begin_closing();
        }
        Ok(())
    }
}
