//! How a shard takes the requests of clients in this process: as it takes those of a connection.

use std::rc::Rc;

use helenus_protocol::frame::{Envelope, EnvelopeHeader};
use helenus_protocol::request::Request;
use helenus_protocol::{ErrorCode, Opcode};
use helenus_transport::admission::is_time_to_shed;
use helenus_transport::overloaded_template;

use super::VERSION;
use super::answer::Reply;
use super::client::{Asked, Client};
use super::lane::Lane;

use crate::session::{RequestContext, Session};
use crate::shard::Shard;

/// Statements that are begun between two looks at the clock: as many as in a connection's turn.
const STATEMENTS_PER_LOOK: u64 = 8;

impl Shard {
    /// Returns whether a request is begun; if not it is answered OVERLOADED.
    fn admits_asked(&self, session: &Session, envelope: &Envelope<'_>, received_ns: u64) -> bool {
        let mut turn = self.lanes.turn(|| {
            let now_ns = self.context.last_looked_ns();
            self.context.transport.admission.turn_begins(now_ns);
            now_ns
        });
        let work = &mut turn.work;
        let throws_on_overload = session.client().throws_on_overload;
        let wait_ns_max = self.context.transport.admission.wait_ns_max(throws_on_overload);
        let delay_ns = self.context.last_looked_ns().saturating_sub(received_ns);
        work.delay_ns_max = work.delay_ns_max.max(delay_ns);
        let is_late = || {
            delay_ns > wait_ns_max
                || !session.outbox().has_room()
                || (throws_on_overload
                    && self
                        .reader
                        .cannot_begin_read_in_time(session, envelope, received_ns))
        };
        let is_shed = || is_time_to_shed(delay_ns, wait_ns_max) && self.sheds_partition_of(envelope);
        let is_begun = if throws_on_overload && self.is_beyond_rate_of_table(envelope) {
            work.shed_at_once += 1;
            false
        } else if is_shed() {
            work.shed += 1;
            false
        } else if is_late() {
            work.refused += 1;
            false
        } else {
            work.handled += 1;
            true
        };
        if is_begun && work.handled.is_multiple_of(STATEMENTS_PER_LOOK) {
            self.context.look_at_clock();
        }
        self.lanes.set_turn(turn);
        is_begun
    }

    /// The messages that the shard took together have all been handled.
    pub(crate) fn end_turn_of_asked(&self) {
        self.lanes.deliver();
        let Some(turn) = self.lanes.take_turn() else {
            return;
        };
        let overloaded = turn.work.overloaded();
        if overloaded > 0 {
            self.context
                .transport
                .metrics
                .count_errors(ErrorCode::Overloaded, overloaded);
        }
        self.context
            .transport
            .admission
            .turn_ended(None, turn.began_ns, &turn.work);
    }
}

impl Shard {
    /// Takes a request of a client in this process. It is answered now or later; where it is not, its caller sees that
    /// the sender has gone.
    pub(crate) fn asked(self: &Rc<Self>, asked: Asked) {
        if asked.answer.is_closed() {
            return;
        }
        let Some(lane) = self.lane_of(&asked.client) else {
            return;
        };
        let session = &lane.session;
        if let Some(user) = asked.user.filter(|user| session.user().as_ref() != Some(user)) {
            session.set_user(user);
        }
        let stream = match lane.take_stream(asked.answer) {
            Ok(stream) => stream,
            Err(refused) => {
                let _given_up = refused.send(Reply::overloaded());
                return;
            }
        };
        let header = EnvelopeHeader {
            version: VERSION,
            flags: asked.flags,
            stream,
            opcode: asked.opcode,
            body_bytes: u32::try_from(asked.body.len()).unwrap_or(u32::MAX),
        };
        let envelope = Envelope {
            header,
            body: &asked.body,
        };
        session.count_requests(1);
        if asked.opcode == Opcode::AuthResponse {
            self.begin_login(session, &envelope);
        } else if asked.client.must_log_in && session.user().is_none() {
            let error = format_args!("Unexpected message {}, expecting SASL_RESPONSE", asked.opcode);
            session.respond_protocol_error(stream, &error);
        } else if !self.admits_asked(session, &envelope, asked.received_ns) {
            session.respond_template(stream, overloaded_template(VERSION));
        } else {
            let context = RequestContext {
                session,
                stream,
                received_ns: asked.received_ns,
                latest_ns: asked.latest_ns,
                may_be_put_back: false,
            };
            if let Err(error) = self.handle(context, &envelope) {
                session.respond_protocol_error(stream, &error);
                self.context
                    .transport
                    .metrics
                    .count_error(ErrorCode::ProtocolError);
            }
        }
        if session.outbox().has_output() {
            self.lanes.deliver_later(&lane);
        }
    }

    fn begin_login(self: &Rc<Self>, session: &Rc<Session>, envelope: &Envelope<'_>) {
        match Request::decode(envelope) {
            Ok((Request::AuthResponse(token), _)) => {
                self.log_in_later(session, envelope.header.stream, token)
            }
            _ => session.respond_protocol_error(envelope.header.stream, &"AUTH_RESPONSE without a token"),
        }
    }

    fn lane_of(self: &Rc<Self>, client: &Client) -> Option<Rc<Lane>> {
        if let Some(lane) = self.lanes.get(client.number) {
            return Some(lane);
        }
        let lane = Lane::new(
            client,
            usize::from(self.context.id.0),
            &self.context.transport.buffers,
        )?;
        self.lanes.insert(client.number, &lane);
        if client.home == self.context.id {
            let options = client.startup_options.iter();
            let options = options.map(|(name, value)| (*name, value.as_str()));
            self.clients.started(client.number, &lane.session, options);
        }
        self.context.spawn(lane.clone().run());
        Some(lane)
    }

    /// The last handle of a client has gone.
    pub(crate) fn client_gone(&self, client: u64) {
        self.lanes.close(client);
        self.clients.closed(client);
    }
}
