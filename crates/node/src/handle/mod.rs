//! [`Handle`]: the client of a node in the same process, for whoever embeds it, tests it, or opens a door of another kind to it.
//!
//! A handle is one client, as a connection is: it may have logged in, it has chosen a keyspace, and `system_views.clients`
//! shows it. Clones are the same client; [`Handle::client`] makes another. All of it may be used from any thread and any
//! executor, and costs no socket and no thread: a request is a message to the shard that owns its partition, if the statement
//! is prepared and its values name one, or else to the client's own shard.
//!
//! | | |
//! |---|---|
//! | [`query`](Handle::query), [`execute`](Handle::execute), [`batch`](Handle::batch) | a statement's text, a prepared statement, several writes; an [`Answer`] |
//! | [`prepare`](Handle::prepare) | a [`Prepared`] statement, which is prepared again by itself where the node has forgotten it |
//! | [`pages`](Handle::pages) | a long result, page by page |
//! | `.._with` | the same with [`RequestOptions`]: consistency, page, timestamp, timeout, tracing |
//! | [`log_in`](Handle::log_in) | where clients have to say who they are |
//! | [`schema_events`](Handle::schema_events) | what changes in the schema |
//! | [`block_on`] | any of it on a thread that may wait |
//!
//! Requests are taken as those of connections are: by the same admission, under the same deadlines, charged to the client's
//! share of the shard's memory, and counted by the same metrics. They are refused with the protocol's errors
//! ([`ServerError`]). Of one client at most [`REQUESTS_UNDER_WAY_MAX`] are under way, the others wait in their callers; a
//! future that is dropped frees its place, and what the shard has not begun by then it never does.

mod answer;
mod blocking;
pub(crate) mod client;
mod direct;
mod door;
mod error;
mod events;
mod gathering;
pub(crate) mod lane;
mod message;
mod options;
mod pages;
mod serving;
mod statement;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::response::ErrorBody;
use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_transport::deadline::nanoseconds;
use helenus_transport::refusal::TIMED_OUT_WAITING;
use helenus_transport::request_memory::Held;
use helenus_types::ShardId;
use helenus_values::{BindValues, BoundValues};
use tokio::sync::{Semaphore, oneshot};

pub use answer::{Answer, Column, Outcome, Reply, Rows};
pub use blocking::{block_on, block_on_within};
pub(crate) use door::Door;
pub use error::{RequestError, ServerError};
pub use events::{SchemaEvent, SchemaEvents};
pub use gathering::gather_requests;
pub use helenus_catalog::ddl::{SchemaChange, SchemaChangeTarget};
pub use message::Message;
pub use options::{ClientOptions, Login, PAGE_SIZE_DEFAULT, RequestOptions};
pub use pages::Pages;
pub use statement::{Batch, Prepared};

use client::{Asked, Client};
use statement::bind_untyped;

/// In which requests and answers are written.
const VERSION: ProtocolVersion = ProtocolVersion::CURRENT;

/// Requests of one client that are under way at a time: those of a busy driver's connection. The others wait for a place, in
/// their order.
pub const REQUESTS_UNDER_WAY_MAX: usize = 1_024;

/// One client of a node in the same process. Cheap to clone; a clone is the same client.
#[derive(Clone)]
pub struct Handle {
    opened: Arc<OpenClient>,
}

/// A client, until its last handle has gone.
struct OpenClient {
    door: Arc<Door>,
    client: Arc<Client>,
    places: Semaphore,
    user: RwLock<Option<Arc<str>>>,
    /// The shards that know the client.
    is_known: Box<[AtomicBool]>,
}

impl Drop for OpenClient {
    fn drop(&mut self) {
        let number = self.client.number;
        for (mailbox, is_known) in self.door.mailboxes.iter().zip(&self.is_known) {
            if is_known.load(Ordering::Relaxed) {
                mailbox.run_behind_asked(move |shard| shard.client_gone(number));
            }
        }
    }
}

impl Handle {
    pub(crate) fn open(door: Arc<Door>, options: &ClientOptions) -> Self {
        let client = Arc::new(door.new_client(options));
        let user = match &options.login {
            Login::As(user) => Some(user.clone()),
            Login::AsConfigured | Login::Trusted => None,
        };
        Handle {
            opened: Arc::new(OpenClient {
                is_known: door.mailboxes.iter().map(|_| AtomicBool::new(false)).collect(),
                door,
                client,
                places: Semaphore::new(REQUESTS_UNDER_WAY_MAX),
                user: RwLock::new(user),
            }),
        }
    }

    /// Another client of the same node, with its own share of memory, keyspace and user.
    pub fn client(&self, options: &ClientOptions) -> Handle {
        Handle::open(self.opened.door.clone(), options)
    }

    /// Executes a statement's text. The types of its values are taken from the Rust types.
    pub async fn query(&self, text: &str, values: impl BindValues) -> Result<Answer, RequestError> {
        self.query_with(text, values, &RequestOptions::default()).await
    }

    /// As [`Handle::query`].
    pub async fn query_with(
        &self,
        text: &str,
        values: impl BindValues,
        options: &RequestOptions,
    ) -> Result<Answer, RequestError> {
        let message = Message::query(text, &bind_untyped(&values)?, options);
        let reply = self.send(message, None, options).await?;
        Ok(Answer::of(reply, Opcode::Query, None)?.0)
    }

    /// Prepares a statement, on all shards.
    pub async fn prepare(&self, text: &str) -> Result<Prepared, RequestError> {
        self.prepare_with(text, &RequestOptions::default()).await
    }

    /// As [`Handle::prepare`]; of the options, what is said of keyspace, time and tracing.
    pub async fn prepare_with(&self, text: &str, options: &RequestOptions) -> Result<Prepared, RequestError> {
        let keyspace = options.keyspace.as_deref();
        let reply = self.send(Message::prepare(text, keyspace), None, options).await?;
        Prepared::of(reply, text, keyspace)
    }

    /// Executes a statement that is prepared.
    pub async fn execute(
        &self,
        statement: &Prepared,
        values: impl BindValues,
    ) -> Result<Answer, RequestError> {
        self.execute_with(statement, values, &RequestOptions::default())
            .await
    }

    /// As [`Handle::execute`].
    pub async fn execute_with(
        &self,
        statement: &Prepared,
        values: impl BindValues,
        options: &RequestOptions,
    ) -> Result<Answer, RequestError> {
        let values = statement.bind(values)?;
        let executed = self.execute_bound(statement, &values, options).await;
        if !is_unprepared(&executed) {
            return executed;
        }
        self.prepare_again(statement).await?;
        self.execute_bound(statement, &values, options).await
    }

    /// As [`Handle::execute_with`], once: where the node has forgotten the statement, that is the answer
    /// ([`ErrorCode::Unprepared`]). For whoever keeps statements for others, whose markers may be of other types by then.
    pub async fn execute_bound(
        &self,
        statement: &Prepared,
        values: &BoundValues,
        options: &RequestOptions,
    ) -> Result<Answer, RequestError> {
        let known = statement.known();
        let message = Message::execute_known(statement.id(), &known, values, options);
        let owner = statement
            .token(values)
            .map(|token| self.opened.door.owner_of(token));
        let reply = self.send(message, owner, options).await?;
        let (answer, changed) = Answer::of(reply, Opcode::Execute, Some(&known))?;
        if let Some(columns) = changed {
            statement.learn(columns);
        }
        Ok(answer)
    }

    async fn prepare_again(&self, statement: &Prepared) -> Result<(), RequestError> {
        let options = RequestOptions {
            keyspace: statement.keyspace().map(str::to_owned),
            ..RequestOptions::default()
        };
        let prepared = self.prepare_with(statement.text(), &options).await?;
        statement.learn(prepared.known());
        Ok(())
    }

    /// Executes several writes together.
    pub async fn batch(&self, batch: &Batch) -> Result<Answer, RequestError> {
        self.batch_with(batch, &RequestOptions::default()).await
    }

    /// As [`Handle::batch`].
    pub async fn batch_with(&self, batch: &Batch, options: &RequestOptions) -> Result<Answer, RequestError> {
        let executed = self.batch_once(batch, options).await;
        if !is_unprepared(&executed) {
            return executed;
        }
        for statement in batch.prepared() {
            self.prepare_again(statement).await?;
        }
        self.batch_once(batch, options).await
    }

    /// As [`Handle::batch_with`], once; see [`Handle::execute_bound`].
    pub async fn batch_once(&self, batch: &Batch, options: &RequestOptions) -> Result<Answer, RequestError> {
        let reply = self.send(batch.message(options), None, options).await?;
        Ok(Answer::of(reply, Opcode::Batch, None)?.0)
    }

    /// The pages of a statement's result, each fetched when it is asked for.
    pub fn pages(
        &self,
        statement: &Prepared,
        values: impl BindValues,
        options: &RequestOptions,
    ) -> Result<Pages, RequestError> {
        let values = statement.bind(values)?;
        Ok(Pages::new(
            self.clone(),
            statement.clone(),
            values,
            options.clone(),
        ))
    }

    /// Says who the client is, where the node asks for passwords. Until then nothing else is understood.
    pub async fn log_in(&self, user: &str, password: &str) -> Result<(), RequestError> {
        let message = Message::auth_response(format!("\0{user}\0{password}").as_bytes());
        let reply = self
            .send(message, None, &RequestOptions::default())
            .await?
            .checked()?;
        if reply.opcode != Opcode::AuthSuccess {
            return Err(RequestError::Unexpected {
                asked: Opcode::AuthResponse,
                found: reply.opcode,
            });
        }
        let mut known = self.opened.user.write().unwrap_or_else(PoisonError::into_inner);
        *known = Some(user.into());
        Ok(())
    }

    /// Changes of the schema from now on, whoever makes them.
    pub fn schema_events(&self) -> SchemaEvents {
        self.opened.door.schema_events()
    }

    /// Sends a message of the protocol as it is, to the client's own shard or to another one: for doors that speak the protocol
    /// themselves. Of the options, what is said of time and tracing.
    pub async fn send(
        &self,
        message: Message,
        shard: Option<ShardId>,
        options: &RequestOptions,
    ) -> Result<Reply, RequestError> {
        let shard = shard.unwrap_or(self.opened.client.home);
        let OpenClient { door, places, .. } = &*self.opened;
        let mailbox = door
            .mailboxes
            .get(usize::from(shard.0))
            .ok_or(RequestError::Stopped)?;
        let now_ns = door.clock.monotonic_ns();
        let received_ns = now_ns.saturating_sub(nanoseconds(options.waited));
        // The semaphore is never closed.
        let _place = places.acquire().await.map_err(|_| RequestError::Stopped)?;
        let (answer, answered) = oneshot::channel();
        let asked = self.asked(message, shard, options, received_ns, answer)?;
        if let Some(is_known) = self.opened.is_known.get(usize::from(shard.0)) {
            is_known.store(true, Ordering::Relaxed);
        }
        let no_answer = || match mailbox.is_closed() {
            true => RequestError::Stopped,
            false => ServerError::refused(&ErrorBody::ServerError, NO_ANSWER).into(),
        };
        gathering::post(door, shard, asked);
        gathering::answered(answered).await.map_err(|_| no_answer())
    }

    /// Builds the request for the shard, if the client may send it.
    fn asked(
        &self,
        message: Message,
        shard: ShardId,
        options: &RequestOptions,
        received_ns: u64,
        answer: oneshot::Sender<Reply>,
    ) -> Result<Asked, RequestError> {
        let OpenClient { client, user, .. } = &*self.opened;
        let account = client
            .accounts
            .get(usize::from(shard.0))
            .ok_or(RequestError::Stopped)?;
        let bytes = message.body.len();
        if bytes > MESSAGE_BYTES_MAX {
            let bytes_max = MESSAGE_BYTES_MAX;
            return Err(RequestError::TooLong { bytes, bytes_max });
        }
        if bytes > account.free_bytes() {
            return Err(overloaded());
        }
        let timeout_ns = options.timeout.map_or(u64::MAX, nanoseconds);
        Ok(Asked {
            client: client.clone(),
            user: user.read().unwrap_or_else(PoisonError::into_inner).clone(),
            opcode: message.opcode,
            flags: match options.is_traced {
                true => EnvelopeFlags::TRACING,
                false => EnvelopeFlags::NONE,
            },
            _held: Held::waiting(account, bytes),
            body: message.body,
            received_ns,
            latest_ns: received_ns.saturating_add(timeout_ns),
            answer,
        })
    }
}

/// Bytes that a message may have, as a connection's may by default.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

fn overloaded() -> RequestError {
    ServerError::refused(&ErrorBody::Overloaded, TIMED_OUT_WAITING).into()
}

/// Message to a caller whose request made its shard panic outside of the request's own bounds.
const NO_ANSWER: &str = "Internal error: the request was lost, which is a bug";

fn is_unprepared(executed: &Result<Answer, RequestError>) -> bool {
    let failed = executed.as_ref().err();
    failed.and_then(RequestError::code) == Some(ErrorCode::Unprepared)
}
