//! OPTIONS, STARTUP, AUTH_RESPONSE and REGISTER: the messages that are about the connection itself.

use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_node::{Session, Shard};
use helenus_protocol::extensions::{Sharding, write_supported};
use helenus_protocol::frame::Envelope;
use helenus_protocol::request::{Request, Startup};
use helenus_protocol::response::{write_authenticate, write_ready};
use helenus_protocol::{Opcode, ProtocolVersion};
use helenus_transport::ClientState;

use crate::door::Door;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// OPTIONS and STARTUP are all that is understood.
    Opening,
    /// STARTUP was answered with AUTHENTICATE: AUTH_RESPONSE is all that is understood.
    Authenticating,
    Open,
    /// The last answer is written; what still arrives is thrown away until the peer closes. Closing earlier would make
    /// the kernel reset the connection and the peer lose the answer.
    Refusing,
}

/// Handles them.
pub struct Handshake<'a> {
    pub shard: &'a Rc<Shard>,
    pub door: &'a Rc<Door>,
    pub session: &'a Rc<Session>,
    pub id: u64,
}

pub enum Outcome {
    Answered,
    Started(ProtocolVersion, Option<helenus_protocol::frame::Compression>),
}

impl Handshake<'_> {
    pub fn handle(&self, envelope: &Envelope<'_>, phase: Phase) -> Result<Outcome, CqlError> {
        let header = &envelope.header;
        if phase == Phase::Opening {
            self.session.set_version(header.version);
        }
        let (request, _payload) =
            Request::decode(envelope).map_err(|error| CqlError::protocol(format_args!("{error}")))?;
        match request {
            Request::Options if phase != Phase::Authenticating => {
                let sharding = Sharding {
                    shard: u32::from(self.shard.id.0),
                    shards: u32::from(self.shard.options.shard_count),
                    shard_aware_port: self.door.shard_aware_port(),
                };
                self.answer(header.stream, Opcode::Supported, |out| {
                    write_supported(out, Some(sharding))
                });
                Ok(Outcome::Answered)
            }
            Request::Startup(startup) if phase == Phase::Opening => {
                self.start(header.stream, header.version, &startup)
            }
            Request::AuthResponse(token) if phase == Phase::Authenticating => {
                self.shard.log_in_later(self.session, header.stream, token);
                Ok(Outcome::Answered)
            }
            Request::Register(events) if phase == Phase::Open => {
                self.answer(header.stream, Opcode::Ready, write_ready);
                self.door.register(self.id, events);
                Ok(Outcome::Answered)
            }
            _ => Err(CqlError::protocol(format_args!(
                "Unexpected message {}, {}",
                header.opcode,
                match phase {
                    Phase::Opening => "expecting STARTUP or OPTIONS",
                    Phase::Authenticating => "expecting SASL_RESPONSE",
                    Phase::Open | Phase::Refusing => "the connection is ready",
                }
            ))),
        }
    }

    fn authenticator_class(&self) -> Option<&'static str> {
        self.shard.options.authenticator.class()
    }

    pub fn must_log_in(&self) -> bool {
        self.authenticator_class().is_some()
    }

    fn start(
        &self,
        stream: i16,
        version: ProtocolVersion,
        startup: &Startup<'_>,
    ) -> Result<Outcome, CqlError> {
        let compression = startup
            .negotiate(version)
            .map_err(|error| CqlError::protocol(format_args!("{error}")))?;
        match self.authenticator_class() {
            Some(class) => self.answer(stream, Opcode::Authenticate, |out| write_authenticate(out, class)),
            None => self.answer(stream, Opcode::Ready, write_ready),
        }
        let client = ClientState {
            version,
            throws_on_overload: startup.throws_on_overload(),
            knows_rate_limit_error: startup.knows_rate_limit_error(),
            ..self.session.client()
        };
        self.session.startup_answered(client, compression);
        self.shard.clients.started(self.id, self.session, startup.iter());
        Ok(Outcome::Started(version, compression))
    }

    fn answer(&self, stream: i16, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) {
        self.session.respond_with(stream, opcode, body);
    }
}
