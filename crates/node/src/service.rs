//! A shard as what answers the connections of its thread.

use std::rc::Rc;

use helenus_protocol::extensions::Sharding;
use helenus_protocol::frame::Envelope;
use helenus_protocol::request::Startup;
use helenus_protocol::response::SchemaChange;
use helenus_protocol::wire::{DecodeError, WireReader};
use helenus_transport::{Service, TransportContext};

use crate::session::{Conversation, RequestContext, Session};
use crate::shard::Shard;

impl Service for Shard {
    type Conversation = Conversation;

    #[inline]
    fn transport(&self) -> &Rc<TransportContext> {
        &self.context.transport
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.context.spawn(task);
    }

    #[inline]
    fn handle(
        self: &Rc<Self>,
        request: RequestContext<'_>,
        envelope: &Envelope<'_>,
    ) -> Result<(), DecodeError> {
        Shard::handle(self, request, envelope)
    }

    #[inline]
    fn before_turn(self: &Rc<Self>) {
        self.serve_begun();
    }

    fn sheds(&self, envelope: &Envelope<'_>) -> bool {
        self.sheds_partition_of(envelope)
    }

    #[inline]
    fn is_beyond_rate(&self, envelope: &Envelope<'_>) -> bool {
        self.is_beyond_rate_of_table(envelope)
    }

    fn queued_max(&self) -> u32 {
        self.reader.queued_max()
    }

    fn queued_wait_ns(&self, envelope: &Envelope<'_>) -> Option<u64> {
        let would_queue = self.reader.would_queue_read(envelope);
        would_queue.then(|| self.reader.queued_wait_ns())
    }

    #[inline]
    fn cannot_begin_in_time(&self, request: RequestContext<'_>, envelope: &Envelope<'_>) -> bool {
        self.reader
            .cannot_begin_read_in_time(request.session, envelope, request.received_ns)
    }

    fn authenticator(&self) -> Option<&'static str> {
        self.context.options.authenticator.class()
    }

    fn log_in(self: &Rc<Self>, session: &Rc<Session>, stream: i16, token: &[u8]) {
        self.log_in_later(session, stream, token);
    }

    fn sharding(&self, shard_aware_port: Option<u16>) -> Option<Sharding> {
        Some(Sharding {
            shard: u32::from(self.context.id.0),
            shards: u32::from(self.context.options.shard_count),
            shard_aware_port,
        })
    }

    fn connection_started(&self, connection: u64, session: &Rc<Session>, startup: &Startup<'_>) {
        self.clients.started(connection, session, startup.iter());
    }

    fn conversation_of(&self, connection: u64, session: &Rc<Session>) -> Vec<u8> {
        let mut out = Vec::new();
        session.conversation.tell(&mut out);
        self.clients.tell(connection, &mut out);
        out
    }

    fn resume(&self, connection: u64, session: &Rc<Session>, conversation: &[u8]) -> Result<(), DecodeError> {
        let mut told = WireReader::new(conversation);
        session.conversation.resume(&mut told)?;
        self.clients.resumed(connection, session, &mut told)
    }

    fn connection_closed(&self, connection: u64) {
        self.clients.closed(connection);
    }

    fn on_schema_change(&self, listener: Box<dyn Fn(&SchemaChange<'_>)>) {
        self.schema_listeners
            .add(Box::new(move |change| listener(&change.to_protocol())));
    }
}
