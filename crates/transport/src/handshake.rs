//! How far a connection has come, and the messages that are about the connection itself: OPTIONS, STARTUP, AUTH_RESPONSE and
//! REGISTER.

use std::pin::Pin;
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

use helenus_protocol::frame::{Compression, Envelope};
use helenus_protocol::request::{Request, Startup, StartupError};
use helenus_protocol::response::{write_authenticate, write_ready};
use helenus_protocol::wire::DecodeError;
use helenus_protocol::{Opcode, ProtocolVersion, extensions};
use tokio::time::{Sleep, sleep};

use crate::client_state::ClientState;
use crate::connection_registry::ConnectionRegistry;
use crate::handover::ResumedStage;
use crate::service::Service;
use crate::session::Session;

/// How long a client may take to read its last answer and to close.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// How far a connection has come, with the time that it has to get further.
pub(crate) enum Stage {
    /// OPTIONS and STARTUP are all that is understood.
    AwaitingStartup(AwaitingStartup),
    /// STARTUP was answered with AUTHENTICATE: AUTH_RESPONSE is all that is understood.
    Authenticating(Authenticating),
    /// The handshake is over: statements are served.
    Open,
    /// The last answer is written; what still arrives is thrown away until the peer closes. Closing earlier would make the
    /// kernel reset the connection and the peer lose the answer.
    Closing(Timer),
}

/// A connection whose client has not been told yet that it may speak.
pub(crate) struct AwaitingStartup {
    handshake_ends: Timer,
}

/// A connection whose client has to say who it is.
pub(crate) struct Authenticating {
    handshake_ends: Timer,
}

/// A STARTUP that was answered: from now on messages are framed as it says.
pub(crate) struct Accepted {
    pub version: ProtocolVersion,
    pub compression: Option<Compression>,
    must_log_in: bool,
}

/// When a stage is over in any case.
pub(crate) struct Timer(Pin<Box<Sleep>>);

impl Timer {
    fn after(duration: Duration) -> Self {
        Timer(Box::pin(sleep(duration)))
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        self.0.as_mut().poll(context).is_ready()
    }
}

impl AwaitingStartup {
    /// The client has to log in, in what is left of the handshake's time.
    fn challenged(self) -> Authenticating {
        Authenticating {
            handshake_ends: self.handshake_ends,
        }
    }
}

impl Stage {
    /// Stage of a new connection.
    pub fn new(handshake_timeout: Duration) -> Self {
        Stage::AwaitingStartup(AwaitingStartup {
            handshake_ends: Timer::after(handshake_timeout),
        })
    }

    /// Stage of a connection that another process has served: a client yet to log in still has the handshake's time.
    pub fn resumed(at: ResumedStage, handshake_timeout: Duration) -> Self {
        match at {
            ResumedStage::AwaitingStartup => Stage::new(handshake_timeout),
            ResumedStage::Authenticating => Stage::Authenticating(Authenticating {
                handshake_ends: Timer::after(handshake_timeout),
            }),
            ResumedStage::Open => Stage::Open,
        }
    }

    /// Where another process can go on; nowhere behind the last answer.
    pub fn to_resume(&self) -> Option<ResumedStage> {
        match self {
            Stage::AwaitingStartup(_) => Some(ResumedStage::AwaitingStartup),
            Stage::Authenticating(_) => Some(ResumedStage::Authenticating),
            Stage::Open => Some(ResumedStage::Open),
            Stage::Closing(_) => None,
        }
    }

    /// The next answer is the last: the client is to read it and close.
    pub fn closing() -> Self {
        Stage::Closing(Timer::after(LINGER_TIMEOUT))
    }

    /// A STARTUP was answered.
    pub fn accepted(self, accepted: &Accepted) -> Self {
        match self {
            Stage::AwaitingStartup(awaiting) if accepted.must_log_in => {
                Stage::Authenticating(awaiting.challenged())
            }
            Stage::AwaitingStartup(_) => Stage::Open,
            other => other,
        }
    }

    pub fn is_open(&self) -> bool {
        matches!(self, Stage::Open)
    }

    pub fn is_authenticating(&self) -> bool {
        matches!(self, Stage::Authenticating(_))
    }

    pub fn is_closing(&self) -> bool {
        matches!(self, Stage::Closing(_))
    }

    /// Returns whether the client may send statements, or has been able to.
    pub fn is_ready(&self) -> bool {
        matches!(self, Stage::Open | Stage::Closing(_))
    }

    /// Returns whether the stage has taken too long.
    pub fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        match self {
            Stage::AwaitingStartup(AwaitingStartup { handshake_ends })
            | Stage::Authenticating(Authenticating { handshake_ends }) => handshake_ends.is_over(context),
            Stage::Open => false,
            Stage::Closing(linger) => linger.is_over(context),
        }
    }

    /// Names the messages understood now, in Cassandra's words.
    fn expectation(&self) -> &'static str {
        match self {
            Stage::AwaitingStartup(_) => "expecting STARTUP or OPTIONS",
            Stage::Authenticating(_) => "expecting SASL_RESPONSE",
            Stage::Open | Stage::Closing(_) => "the connection is ready",
        }
    }
}

/// Why a message about the connection itself is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    #[error(transparent)]
    Startup(#[from] StartupError),
    #[error("Unexpected message {opcode}, {expectation}")]
    Unexpected {
        opcode: Opcode,
        expectation: &'static str,
    },
}

/// Handles those messages.
pub(crate) struct Handshake<'a, S: Service> {
    pub service: &'a Rc<S>,
    pub registry: &'a Rc<ConnectionRegistry<S::Conversation>>,
    pub session: &'a Rc<Session<S::Conversation>>,
    pub connection: u64,
}

impl<S: Service> Handshake<'_, S> {
    /// Answers a message, now or later. If it was a STARTUP: what follows from that.
    pub fn handle(&self, envelope: &Envelope<'_>, stage: &Stage) -> Result<Option<Accepted>, HandshakeError> {
        let header = &envelope.header;
        if let Stage::AwaitingStartup(_) = stage {
            self.session.set_version(header.version);
        }
        let (request, _payload) = Request::decode(envelope)?;
        match (request, stage) {
            (Request::Options, stage) if !stage.is_authenticating() => {
                let sharding = self.service.sharding(self.registry.shard_aware_port());
                self.session
                    .respond_with(header.stream, Opcode::Supported, |out| {
                        extensions::write_supported(out, sharding);
                    });
                Ok(None)
            }
            (Request::Startup(startup), Stage::AwaitingStartup(_)) => {
                self.start(header.stream, header.version, &startup).map(Some)
            }
            (Request::AuthResponse(token), Stage::Authenticating(_)) => {
                self.service.log_in(self.session, header.stream, token);
                Ok(None)
            }
            (Request::Register(events), Stage::Open) => {
                self.session
                    .respond_with(header.stream, Opcode::Ready, write_ready);
                self.registry.register(self.connection, events);
                Ok(None)
            }
            (_, stage) => Err(HandshakeError::Unexpected {
                opcode: header.opcode,
                expectation: stage.expectation(),
            }),
        }
    }

    fn start(
        &self,
        stream: i16,
        version: ProtocolVersion,
        startup: &Startup<'_>,
    ) -> Result<Accepted, HandshakeError> {
        let compression = startup.negotiate(version)?;
        let authenticator = self.service.authenticator();
        match authenticator {
            Some(class) => self
                .session
                .respond_with(stream, Opcode::Authenticate, |out| write_authenticate(out, class)),
            None => self.session.respond_with(stream, Opcode::Ready, write_ready),
        }
        let client = ClientState {
            version,
            throws_on_overload: startup.throws_on_overload(),
            knows_rate_limit_error: startup.knows_rate_limit_error(),
            ..self.session.client()
        };
        self.session.startup_answered(client, compression);
        self.service
            .connection_started(self.connection, self.session, startup);
        Ok(Accepted {
            version,
            compression,
            must_log_in: authenticator.is_some(),
        })
    }
}
