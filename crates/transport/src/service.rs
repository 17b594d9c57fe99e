//! Service: the seam between connections and whatever answers them.

use std::rc::Rc;

use helenus_protocol::extensions::Sharding;
use helenus_protocol::frame::Envelope;
use helenus_protocol::request::Startup;
use helenus_protocol::response::SchemaChange;
use helenus_protocol::wire::DecodeError;

use crate::context::TransportContext;
use crate::request::RequestContext;
use crate::session::{Conversation, Session};

/// For services that do not say otherwise.
const QUEUED_MAX: u32 = 64;

/// Requests of one connection that may be under way where one is put back: with fewer it is begun, so that there is always an answer to come
/// that wakes the connection.
pub const UNDER_WAY_AT_BUSY_MAX: u32 = 64;

/// The part of a server that lives on one thread and answers requests: a node's shard, or a gateway before other servers.
///
/// Connections are generic over it, so that nothing is boxed, allocated or cloned for a request on its way here.
pub trait Service: 'static {
    /// State that it keeps of each client's conversation.
    type Conversation: Conversation;

    /// Context that it shares with the connections of its thread.
    fn transport(&self) -> &Rc<TransportContext>;

    /// Starts a task on its thread.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// Takes one QUERY, PREPARE, EXECUTE or BATCH. Its answer is in the session's output when this returns, or comes there
    /// later and wakes the connection. An error means that the message could not be decoded; it has no answer yet.
    fn handle(
        self: &Rc<Self>,
        request: RequestContext<'_, Self::Conversation>,
        envelope: &Envelope<'_>,
    ) -> Result<(), DecodeError>;

    /// A connection is about to have its turn: what others have begun on this thread comes first.
    #[inline]
    fn before_turn(self: &Rc<Self>) {}

    /// Returns whether a statement is for a partition that is refused first where requests wait. Only asked then.
    fn sheds(&self, _envelope: &Envelope<'_>) -> bool {
        false
    }

    /// Returns whether a statement is for a table that takes most of what can be done, and beyond what it is left: refused
    /// at once, however short it has waited. Asked of every statement whose client asked to be told of overload.
    #[inline]
    fn is_beyond_rate(&self, _envelope: &Envelope<'_>) -> bool {
        false
    }

    /// Requests of one connection that the service may have in its queues; what is beyond them stays raw.
    fn queued_max(&self) -> u32 {
        QUEUED_MAX
    }

    /// How long a statement may wait, in nanoseconds, that would do so in a queue of the service; `None` for what is answered at once.
    fn queued_wait_ns(&self, _envelope: &Envelope<'_>) -> Option<u64> {
        None
    }

    /// Returns whether a statement of a THROW_ON_OVERLOAD client would wait too long for what is queued before it. Asked of
    /// each such statement, so it must cost next to nothing where nothing is queued.
    #[inline]
    fn cannot_begin_in_time(
        &self,
        _request: RequestContext<'_, Self::Conversation>,
        _envelope: &Envelope<'_>,
    ) -> bool {
        false
    }

    /// The authenticator that clients have to log in with; `None` where nobody has to.
    fn authenticator(&self) -> Option<&'static str> {
        None
    }

    /// Answers AUTH_RESPONSE, now or later. Once that was AUTH_SUCCESS, [`Session::user`] says who is there.
    fn log_in(self: &Rc<Self>, session: &Rc<Session<Self::Conversation>>, stream: i16, token: &[u8]);

    /// Returns the sharding that OPTIONS is answered with: the threads that tokens are spread over.
    fn sharding(&self, _shard_aware_port: Option<u16>) -> Option<Sharding> {
        None
    }

    /// A connection, by its number on this thread, has been answered STARTUP.
    fn connection_started(
        &self,
        _connection: u64,
        _session: &Rc<Session<Self::Conversation>>,
        _startup: &Startup<'_>,
    ) {
    }

    /// Encodes its state of a client's conversation, for another process that goes on with it; see [`Service::resume`].
    fn conversation_of(&self, _connection: u64, _session: &Rc<Session<Self::Conversation>>) -> Vec<u8> {
        Vec::new()
    }

    /// Goes on with a conversation of another process, of which that one's [`Service::conversation_of`] has told. An error closes the
    /// connection.
    fn resume(
        &self,
        _connection: u64,
        _session: &Rc<Session<Self::Conversation>>,
        _conversation: &[u8],
    ) -> Result<(), DecodeError> {
        Ok(())
    }

    /// A connection has gone.
    fn connection_closed(&self, _connection: u64) {}

    /// `listener` is to be told of every change of the schema.
    fn on_schema_change(&self, listener: Box<dyn Fn(&SchemaChange<'_>)>);
}
