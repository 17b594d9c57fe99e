//! One client's side of the conversation: who it is, what it chose, and where its answers go.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;

use helenus_protocol::frame::{Compression, ENVELOPE_HEADER_BYTES, EnvelopeFlags, EnvelopeHeader};
use helenus_protocol::response::{ErrorBody, Prelude, WireError};
use helenus_protocol::{Direction, Opcode, ProtocolVersion};

use crate::buffer_pool::BufferPool;
use crate::client_state::ClientState;
use crate::outbox::{FRAMING_SHARE, Outbox, SEALED_BYTES_MIN};
use crate::request_memory::{Account, RequestMemory};

/// State that a service keeps of one client's conversation.
pub trait Conversation: Default + 'static {
    /// Errors that its requests may be answered with in place of a result.
    type Error: WireError;
}

/// Shared by a connection and the answers that are on their way to it; lives on one shard.
///
/// `C` is what the service knows of the conversation beside what every service has to know.
pub struct Session<C> {
    client: Cell<ClientState>,
    user: RefCell<Option<Arc<str>>>,
    /// Taken from the client so far.
    requests: Cell<u64>,
    outbox: Outbox,
    /// The service's own.
    pub conversation: C,
}

impl<C: Conversation> Session<C> {
    /// For a client within the process.
    pub fn new(version: ProtocolVersion) -> Self {
        Session::of_client(ClientState::in_process(version), Outbox::new())
    }

    /// For a connection: the output takes its memory from `buffers`, and what both hold is charged to `memory`.
    pub fn of_connection(client: ClientState, buffers: &Rc<BufferPool>, memory: &Arc<RequestMemory>) -> Self {
        Session::of_client(client, Outbox::of_connection(buffers.clone(), memory))
    }

    /// For a client within the process that has an account: whole envelopes are taken from its outbox, as they are.
    pub fn of_account(client: ClientState, buffers: &Rc<BufferPool>, account: &Arc<Account>) -> Self {
        Session::of_client(client, Outbox::of_account(buffers.clone(), account))
    }

    fn of_client(client: ClientState, outbox: Outbox) -> Self {
        Session {
            client: Cell::new(client),
            user: RefCell::new(None),
            requests: Cell::new(0),
            outbox,
            conversation: C::default(),
        }
    }
}

impl<C: Conversation> Session<C> {
    /// The same client, charged to the same account, in a conversation of its own: what it is answered is taken from there.
    pub fn apart(&self, conversation: C) -> Session<C> {
        Session {
            client: self.client.clone(),
            user: self.user.clone(),
            requests: Cell::new(0),
            outbox: Outbox::charged_with(&self.outbox),
            conversation,
        }
    }

    /// Where answers go.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Returns the client's identity, and all it negotiated.
    #[inline]
    pub fn client(&self) -> ClientState {
        self.client.get()
    }

    /// In which version the client is spoken to.
    #[inline]
    pub fn version(&self) -> ProtocolVersion {
        self.client.get().version
    }

    /// Until STARTUP is answered: in which version the client is spoken to.
    pub(crate) fn set_version(&self, version: ProtocolVersion) {
        let client = self.client.get();
        self.client.set(ClientState { version, ..client });
    }

    /// The answer to STARTUP has been appended: from now on answers are framed and compressed as agreed.
    pub fn startup_answered(&self, client: ClientState, compression: Option<Compression>) {
        self.client.set(client);
        self.outbox.startup_answered(client.version, compression);
    }

    /// Name of the user who has logged in; `None` where clients are not asked, or not yet.
    pub fn user(&self) -> Option<Arc<str>> {
        self.user.borrow().clone()
    }

    /// The client has logged in.
    pub fn set_user(&self, user: Arc<str>) {
        *self.user.borrow_mut() = Some(user);
    }

    /// The client has sent so many more requests.
    pub fn count_requests(&self, count: u64) {
        self.requests.set(self.requests.get() + count);
    }

    /// Requests that the client has sent.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Whom what is made for the client is charged to.
    #[inline]
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.outbox.account()
    }

    /// An answer will come later, through [`Session::respond_later`].
    pub fn expect_answer(&self) {
        self.outbox.expect_answer();
    }

    /// An answer that was announced with [`Session::expect_answer`] is in the output.
    pub fn answer_came(&self) {
        self.outbox.answer_came();
    }

    /// Answers without looking at the request: `envelope` is a template of this connection's version.
    #[inline]
    pub fn respond_template(&self, stream: i16, envelope: &[u8]) {
        self.outbox.append_template(stream, envelope);
    }

    /// Appends an answer: `body` writes it. What `body` wrote before an error is taken back and the error written
    /// instead.
    pub fn respond(
        &self,
        stream: i16,
        flags: EnvelopeFlags,
        opcode: Opcode,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), C::Error>,
    ) {
        let result = self.try_respond(stream, flags, opcode, |out| body(out).map(|()| true));
        if let Err(error) = result {
            self.respond_error(stream, &error);
        }
    }

    /// Appends an answer that cannot fail: `body` writes it.
    pub fn respond_with(&self, stream: i16, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) {
        self.outbox.append(self.version(), stream, opcode, body);
    }

    /// As [`Session::respond`], but takes everything back where `body` fails or says that it has no answer.
    #[inline]
    pub fn try_respond(
        &self,
        stream: i16,
        flags: EnvelopeFlags,
        opcode: Opcode,
        body: impl FnOnce(&mut Vec<u8>) -> Result<bool, C::Error>,
    ) -> Result<(), C::Error> {
        self.outbox
            .try_append(self.version(), stream, flags, opcode, body)
    }

    /// Appends an error.
    pub fn respond_error(&self, stream: i16, error: &C::Error) {
        let client = self.client.get();
        self.outbox.append(client.version, stream, Opcode::Error, |out| {
            error.write(out, client.version, client.knows_rate_limit_error);
        });
    }

    /// Answers a message that cannot be decoded: what is wrong is written where it is sent from.
    pub fn respond_protocol_error(&self, stream: i16, error: &dyn Display) {
        self.respond_refusal(stream, &ErrorBody::ProtocolError, error);
    }

    /// Appends an error that is nobody's but the transport's.
    pub(crate) fn respond_refusal(&self, stream: i16, body: &ErrorBody<'_>, text: &dyn Display) {
        self.outbox.append_refusal(self.version(), stream, body, text);
    }

    /// As [`Session::respond`], for an answer that was announced with [`Session::expect_answer`].
    pub fn respond_later(
        &self,
        stream: i16,
        flags: EnvelopeFlags,
        opcode: Opcode,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), C::Error>,
    ) {
        if self.outbox.is_closed() {
            return self.answer_came();
        }
        let before = self.outbox.bytes();
        match self.try_respond(stream, flags, opcode, |out| body(out).map(|()| true)) {
            Ok(()) => self
                .outbox
                .later_answer_took(self.outbox.bytes().saturating_sub(before)),
            // How short a refusal is says nothing of the answers.
            Err(error) => self.respond_error(stream, &error),
        }
        self.answer_came();
    }

    /// As [`Session::respond_later`], with warnings in front (v4 and later).
    pub fn respond_later_warning(
        &self,
        stream: i16,
        opcode: Opcode,
        warnings: &[&str],
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), C::Error>,
    ) {
        let version = self.version();
        let prelude = Prelude {
            warnings,
            ..Prelude::default()
        };
        self.respond_later(stream, prelude.flags(version), opcode, |out| {
            prelude.write(out, version);
            body(out)
        });
    }

    /// As [`Session::respond_later_warning`], with a RESULT that is made already.
    pub fn pass_on_later(&self, stream: i16, warnings: &[&str], body: &[u8]) {
        self.respond_later_warning(stream, Opcode::Result, warnings, |out| {
            if body.len() >= SEALED_BYTES_MIN {
                out.reserve_exact(body.len() + body.len() / FRAMING_SHARE);
            }
            out.extend_from_slice(body);
            Ok(())
        });
    }

    /// Passes on the answer that another session was given, with the id of its trace in front; false if it is none.
    pub fn pass_on_traced(&self, stream: i16, answer: &[u8], trace_id: [u8; 16]) -> bool {
        let head = answer.split_first_chunk::<ENVELOPE_HEADER_BYTES>();
        let decoded = head.and_then(|(head, body)| {
            EnvelopeHeader::decode(head, Direction::Response)
                .ok()
                .map(|header| (header, body))
        });
        let Some((header, body)) = decoded else {
            return false;
        };
        let flags = header.flags.with(EnvelopeFlags::TRACING);
        self.respond_later(stream, flags, header.opcode, |out| {
            out.extend_from_slice(&trace_id);
            out.extend_from_slice(body);
            Ok(())
        });
        true
    }
}
