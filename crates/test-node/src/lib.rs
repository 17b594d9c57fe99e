//! A whole node in process, for tests: statements go in as protocol messages and come out as decoded rows, without a
//! socket in between. Any number of shards; restart and crash are methods.

mod complaints;
mod hooked_disk;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use helenus_events::{Event, EventListener, Events};
use helenus_node::handle::{
    ClientOptions, Login, Message, Reply, RequestError, RequestOptions, block_on_within,
};
use helenus_node::{Node, NodeOptions, Operator, Shard, Stalls, StartError};
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::request::{BatchKind, BatchStatement};
use helenus_protocol::response::{ReceivedColumn, ReceivedPrelude, ReceivedResult, Response};
use helenus_protocol::{Consistency, ErrorCode};
use helenus_schema::Schema;
use helenus_types::{CqlType, ShardId};
use helenus_values::BoundValues;
use helenus_vfs::{Clock, Disk, MemoryDisk, SystemClock};
use tokio::sync::oneshot;

pub use complaints::Complaints;
pub use hooked_disk::HookedDisk;

/// A node that a test owns. Dropping it stops it as a crash would.
pub struct TestNode {
    options: NodeOptions,
    node: Option<Node>,
}

/// A statement on its way.
pub struct Pending {
    /// Polled once, so that the shard has it.
    asked: Pin<Box<dyn Future<Output = Result<Reply, RequestError>> + Send>>,
    answered: Option<Result<Reply, RequestError>>,
}

/// An answer with the id of its trace.
type TracedAnswer = (Answer, Option<[u8; 16]>);

/// The answer to a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Void,
    Rows(Rows),
    SetKeyspace(String),
    SchemaChange,
    Prepared {
        id: Vec<u8>,
        markers: Vec<Column>,
        columns: Vec<Column>,
    },
    Error {
        code: ErrorCode,
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    pub paging_state: Option<Vec<u8>>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub cql_type: CqlType,
}

/// How a statement is executed, where it is not the default.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    pub values: Vec<Option<Vec<u8>>>,
    pub page_size: Option<i32>,
    pub paging_state: Option<Vec<u8>>,
    pub keyspace: Option<String>,
    /// ONE if it is none.
    pub consistency: Option<Consistency>,
    /// The shard whose connection it comes in on.
    pub shard: u16,
    /// How long its bytes have been there when the shard begins with it.
    pub waited: Duration,
    pub is_traced: bool,
    /// Its client asks to be told of overload.
    pub throws_on_overload: bool,
    /// Begun whatever it waited and however much memory it takes, as if nobody stood at the shard's door.
    pub past_admission: bool,
}

/// Longer than any statement takes on a busy machine; a test that reaches it hangs for another reason.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The environment variable that has events printed; tests are silent without.
const EVENTS_VARIABLE: &str = "HELENUS_EVENTS";

#[derive(Debug)]
struct Printed;

impl EventListener for Printed {
    fn event(&self, event: &Event<'_>) {
        eprintln!("{event}");
    }
}

fn events() -> Events {
    match std::env::var_os(EVENTS_VARIABLE) {
        Some(_) => Arc::new(Printed),
        None => helenus_events::silent(),
    }
}

/// A node on `disk` with group commit, and with more time for requests than a busy machine takes; tests change what they are about.
pub fn options(shard_count: u16, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> NodeOptions {
    let events = events();
    NodeOptions {
        shard_count,
        auto_snapshot: false,
        started_at_s: clock.wall_s(),
        disk,
        clock,
        stalls: Stalls::from_environment(&events),
        events,
        read_request_timeout: ANSWER_TIMEOUT,
        range_request_timeout: ANSWER_TIMEOUT,
        write_request_timeout: ANSWER_TIMEOUT,
        ..NodeOptions::new(PathBuf::from("/helenus-data"))
    }
}

impl TestNode {
    /// A node on a disk in memory, with the system's clock.
    pub fn with_shards(shard_count: u16) -> TestNode {
        let options = options(
            shard_count,
            Arc::new(MemoryDisk::new()),
            Arc::new(SystemClock::new()),
        );
        TestNode::start(options).expect("an empty disk in memory can be opened")
    }

    pub fn start(options: NodeOptions) -> Result<TestNode, StartError> {
        helenus_node::count_panics();
        let node = Node::start(options.clone(), Arc::new(|_| {}))?;
        Ok(TestNode {
            options,
            node: Some(node),
        })
    }

    /// Stops cleanly (everything flushed) and starts again on the same disk.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.stop();
        self.node = Some(Node::start(self.options.clone(), Arc::new(|_| {}))?);
        Ok(())
    }

    /// Stops cleanly, everything flushed; [`TestNode::restart`] starts it again.
    pub fn stop(&mut self) {
        if let Some(node) = self.node.take() {
            node.stop();
        }
    }

    /// Ends all threads without flushing or syncing anything. What the disk lost is the simulated disk's business.
    pub fn crash(&mut self) {
        if let Some(node) = self.node.take() {
            node.abandon();
        }
    }

    /// After [`TestNode::crash`].
    pub fn start_again(&mut self) -> Result<(), StartError> {
        self.restart()
    }

    /// For the operator's tools; not to be kept over a restart.
    pub fn operator(&self) -> Operator {
        self.node.as_ref().expect("the node is running").operator()
    }

    pub fn data_folder(&self) -> &Path {
        &self.options.data_folder
    }

    /// Executes a statement's text.
    pub fn execute(&self, text: &str) -> Answer {
        self.execute_with(text, &Execution::default())
    }

    /// The rows of a statement that must succeed.
    pub fn rows(&self, text: &str) -> Vec<Vec<Option<Vec<u8>>>> {
        match self.execute(text) {
            Answer::Rows(rows) => rows.rows,
            other => panic!("{text}: wanted rows, got {other:?}"),
        }
    }

    /// A statement that must succeed.
    pub fn run(&self, text: &str) {
        if let Answer::Error { code, message } = self.execute(text) {
            panic!("{text}: {code:?}: {message}");
        }
    }

    pub fn execute_with(&self, text: &str, execution: &Execution) -> Answer {
        self.submit(text, execution).answer()
    }

    /// Sends a statement on a connection of its own and does not wait for the answer.
    pub fn submit(&self, text: &str, execution: &Execution) -> Pending {
        self.send(
            Message::query(text, &execution.bound(), &execution.options()),
            execution,
        )
    }

    /// Sends statements to shard 0 in one go, so that all of them are there before the first is begun; their answers
    /// with their places in `texts`, in the order in which they came.
    pub fn execute_together(&self, texts: &[String]) -> Vec<(usize, Answer)> {
        let node = self.node.as_ref().expect("the node is running");
        let (sender, receiver) = mpsc::channel();
        let texts: Vec<String> = texts.to_vec();
        let count = texts.len();
        node.mailbox(ShardId(0)).run(move |shard| {
            for (index, text) in texts.into_iter().enumerate() {
                let (shard, sender) = (shard.clone(), sender.clone());
                tokio::task::spawn_local(async move {
                    let answer = execute_on(&shard, &text, &Execution::default()).await;
                    let _unwanted = sender.send((index, answer));
                });
            }
        });
        (0..count)
            .map(|_| {
                receiver
                    .recv_timeout(ANSWER_TIMEOUT)
                    .expect("every statement is answered")
            })
            .collect()
    }

    pub fn prepare(&self, text: &str) -> Answer {
        self.submit_prepare(text, &Execution::default()).answer()
    }

    /// As [`TestNode::submit`]; of the execution, the keyspace and the shard count.
    pub fn submit_prepare(&self, text: &str, execution: &Execution) -> Pending {
        let message = Message::prepare(text, execution.keyspace.as_deref());
        self.send(message, execution)
    }

    /// As [`TestNode::submit`], a BATCH message.
    pub fn submit_batch(&self, kind: BatchKind, members: Vec<BatchMember>, execution: &Execution) -> Pending {
        let values: Vec<BoundValues> = members.iter().map(|member| bound(member.values())).collect();
        let statements = members.iter().map(BatchMember::statement).zip(&values);
        self.send(Message::batch(kind, statements, &execution.options()), execution)
    }

    /// Returns the schema of shard 0.
    pub fn schema(&self) -> Arc<Schema> {
        self.on_shard(0, |shard| shard.schema())
    }

    /// Runs `work` on a shard's thread and returns its result.
    pub fn on_shard<T: Send + 'static>(
        &self,
        shard: u16,
        work: impl FnOnce(&Rc<Shard>) -> T + Send + 'static,
    ) -> T {
        let node = self.node.as_ref().expect("the node is running");
        let (sender, receiver) = mpsc::channel();
        node.mailbox(ShardId(shard)).run(move |shard| {
            let _unwanted = sender.send(work(shard));
        });
        receiver.recv_timeout(ANSWER_TIMEOUT).expect("the shard runs")
    }

    pub fn shard_count(&self) -> u16 {
        self.options.shard_count
    }

    /// A PREPARE on a shard whose thread does nothing else until `gate` is opened, and nothing before it then: what has
    /// come to the shard meanwhile is handled behind it.
    pub fn prepare_behind(&self, shard: u16, gate: mpsc::Receiver<()>, text: &str) -> Pending {
        let node = self.node.as_ref().expect("the node is running");
        let (sender, receiver) = oneshot::channel();
        let text = text.to_owned();
        node.mailbox(ShardId(shard)).run(move |shard| {
            let shard = shard.clone();
            gate.recv_timeout(ANSWER_TIMEOUT).expect("the gate is opened");
            let mut answer = Box::pin(async move {
                let received_ns = shard.context.look_at_clock();
                let message = Message::prepare(&text, None);
                shard.answer(&message, EnvelopeFlags::NONE, received_ns).await
            });
            let mut context = Context::from_waker(Waker::noop());
            let begun = answer.as_mut().poll(&mut context);
            tokio::task::spawn_local(async move {
                let answer = match begun {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => answer.await,
                };
                let _unwanted = sender.send(answer);
            });
        });
        Pending::begin(async move { receiver.await.unwrap_or(Err(RequestError::Stopped)) })
    }

    pub fn execute_prepared(&self, id: &[u8], execution: &Execution) -> Answer {
        self.submit_prepared(id, execution).answer()
    }

    /// As [`TestNode::submit`].
    pub fn submit_prepared(&self, id: &[u8], execution: &Execution) -> Pending {
        self.send(
            Message::execute(id, &execution.bound(), &execution.options()),
            execution,
        )
    }

    /// Returns whether the shard would refuse an EXECUTE first where its requests wait.
    pub fn sheds_prepared(&self, id: &[u8], execution: &Execution) -> bool {
        let node = self.node.as_ref().expect("the node is running");
        let (sender, receiver) = mpsc::channel();
        let message = Message::execute(id, &execution.bound(), &execution.options());
        node.mailbox(ShardId(execution.shard)).run(move |shard| {
            let is_shed =
                message.with_envelope(EnvelopeFlags::NONE, |envelope| shard.sheds_partition_of(envelope));
            let _unwanted = sender.send(is_shed);
        });
        receiver.recv_timeout(ANSWER_TIMEOUT).expect("the shard runs")
    }

    /// The answer to a traced statement, and the id of its trace.
    pub fn execute_traced(&self, text: &str) -> (Answer, Option<[u8; 16]>) {
        let execution = Execution {
            is_traced: true,
            ..Execution::default()
        };
        self.submit(text, &execution).traced_answer()
    }

    /// As [`TestNode::execute_traced`], of a prepared statement.
    pub fn execute_prepared_traced(&self, id: &[u8], execution: &Execution) -> (Answer, Option<[u8; 16]>) {
        let execution = Execution {
            is_traced: true,
            ..execution.clone()
        };
        self.submit_prepared(id, &execution).traced_answer()
    }

    /// Sends a message as a client of its own.
    fn send(&self, message: Message, execution: &Execution) -> Pending {
        let node = self.node.as_ref().expect("the node is running");
        if execution.past_admission {
            return past_admission(node, message, execution.clone());
        }
        let client = node.handle().client(&ClientOptions {
            login: Login::Trusted,
            knows_rate_limit_error: false,
            shard: Some(execution.shard),
            throws_on_overload: execution.throws_on_overload,
            ..ClientOptions::default()
        });
        let options = execution.options();
        Pending::begin(async move { client.send(message, None, &options).await })
    }
}

fn past_admission(node: &Node, message: Message, execution: Execution) -> Pending {
    let (sender, receiver) = oneshot::channel();
    node.mailbox(ShardId(execution.shard)).run(move |shard| {
        let shard = shard.clone();
        tokio::task::spawn_local(async move {
            // A test that has crashed the node may not want the answer any more.
            let _unwanted = sender.send(ask(&shard, &message, &execution).await);
        });
    });
    Pending::begin(async move { receiver.await.unwrap_or(Err(RequestError::Stopped)) })
}

impl Pending {
    fn begin(asked: impl Future<Output = Result<Reply, RequestError>> + Send + 'static) -> Pending {
        let mut asked = Box::pin(asked);
        let begun = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        Pending {
            asked,
            answered: match begun {
                Poll::Ready(answered) => Some(answered),
                Poll::Pending => None,
            },
        }
    }

    /// The answer; `None` if the node ended first.
    pub fn wait(self) -> Option<Answer> {
        self.wait_traced().map(|(answer, _trace)| answer)
    }

    /// The answer; `None` if the node ended first, or none came in time.
    pub fn wait_for(self, timeout: Duration) -> Option<Answer> {
        match self.replied_within(timeout) {
            Some(Ok(reply)) => Some(decode(&reply).0),
            Some(Err(RequestError::Stopped)) | None => None,
            Some(Err(refused)) => Some(refusal(&refused)),
        }
    }

    fn wait_traced(self) -> Option<TracedAnswer> {
        match self.replied_within(ANSWER_TIMEOUT) {
            Some(Ok(reply)) => Some(decode(&reply)),
            Some(Err(RequestError::Stopped)) => None,
            Some(Err(refused)) => Some((refusal(&refused), None)),
            None => panic!("no answer within {ANSWER_TIMEOUT:?}"),
        }
    }

    /// Warnings of the answer, whatever else it is.
    pub fn warnings(self) -> Vec<String> {
        let Some(Ok(reply)) = self.replied_within(ANSWER_TIMEOUT) else {
            return Vec::new();
        };
        let (_, prelude) = reply.decode().expect("a valid response");
        prelude.warnings.iter().map(str::to_owned).collect()
    }

    fn replied_within(self, timeout: Duration) -> Option<Result<Reply, RequestError>> {
        if let Some(answered) = self.answered {
            return Some(answered);
        }
        block_on_within(timeout, self.asked)
    }

    fn answer(self) -> Answer {
        self.traced_answer().0
    }

    fn traced_answer(self) -> TracedAnswer {
        self.wait_traced().expect("the node runs until the test ends it")
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.crash();
    }
}

impl Execution {
    fn bound(&self) -> BoundValues {
        bound(&self.values)
    }

    fn options(&self) -> RequestOptions {
        RequestOptions {
            consistency: self.consistency.unwrap_or(Consistency::One),
            page_size: self.page_size.and_then(|rows| u32::try_from(rows).ok()),
            paging_state: self.paging_state.clone(),
            keyspace: self.keyspace.clone(),
            is_traced: self.is_traced,
            waited: self.waited,
            ..RequestOptions::default()
        }
    }

    fn flags(&self) -> EnvelopeFlags {
        match self.is_traced {
            true => EnvelopeFlags::TRACING,
            false => EnvelopeFlags::NONE,
        }
    }
}

fn bound(values: &[Option<Vec<u8>>]) -> BoundValues {
    let mut bound = BoundValues::new();
    for value in values {
        bound
            .push_serialized(value.as_deref())
            .expect("a test's values fit");
    }
    bound
}

/// A statement of a BATCH message, with its values.
#[derive(Clone, Debug)]
pub enum BatchMember {
    Text(String, Vec<Option<Vec<u8>>>),
    /// By its id.
    Prepared(Vec<u8>, Vec<Option<Vec<u8>>>),
}

impl BatchMember {
    fn values(&self) -> &[Option<Vec<u8>>] {
        match self {
            BatchMember::Text(_, values) | BatchMember::Prepared(_, values) => values,
        }
    }

    fn statement(&self) -> BatchStatement<'_> {
        match self {
            BatchMember::Text(text, _) => BatchStatement::Text(text),
            BatchMember::Prepared(id, _) => BatchStatement::Prepared(id),
        }
    }
}

impl Column {
    fn of(received: &ReceivedColumn<'_>) -> Column {
        Column {
            name: received.name.to_owned(),
            cql_type: received.data_type.clone(),
        }
    }
}

/// A statement's text on a connection of its own, for who has the shard on his thread.
pub async fn execute_on(shard: &Rc<Shard>, text: &str, execution: &Execution) -> Answer {
    let message = Message::query(text, &execution.bound(), &execution.options());
    answer_of(ask(shard, &message, execution).await)
}

/// As [`execute_on`].
pub async fn prepare_on(shard: &Rc<Shard>, text: &str) -> Answer {
    answer_of(ask(shard, &Message::prepare(text, None), &Execution::default()).await)
}

/// As [`execute_on`].
pub async fn execute_prepared_on(shard: &Rc<Shard>, id: &[u8], execution: &Execution) -> Answer {
    let message = Message::execute(id, &execution.bound(), &execution.options());
    answer_of(ask(shard, &message, execution).await)
}

async fn ask(shard: &Rc<Shard>, message: &Message, execution: &Execution) -> Result<Reply, RequestError> {
    let waited_ns = execution.waited.as_nanos() as u64;
    let received_ns = shard.context.look_at_clock().saturating_sub(waited_ns);
    shard.answer(message, execution.flags(), received_ns).await
}

fn answer_of(replied: Result<Reply, RequestError>) -> Answer {
    replied.map_or_else(|refused| refusal(&refused), |reply| decode(&reply).0)
}

/// Makes the answer to a request that was refused before a shard had it.
fn refusal(error: &RequestError) -> Answer {
    Answer::Error {
        code: error.code().unwrap_or(ErrorCode::ServerError),
        message: match error {
            RequestError::Server(error) => error.message.clone(),
            other => other.to_string(),
        },
    }
}

fn decode(reply: &Reply) -> TracedAnswer {
    let (response, prelude) = reply.decode().expect("a valid response");
    (Answer::received(response, &prelude), prelude.tracing_id)
}

impl Answer {
    /// Makes the answer of what a connection has received, from this node or another server.
    pub fn received(response: Response<'_>, prelude: &ReceivedPrelude<'_>) -> Answer {
        match response {
            Response::Error(error) => Answer::Error {
                code: error.body.code(),
                message: error.message.to_owned(),
            },
            Response::Result(ReceivedResult::Void) => Answer::Void,
            Response::Result(ReceivedResult::SetKeyspace(keyspace)) => {
                Answer::SetKeyspace(keyspace.to_owned())
            }
            Response::Result(ReceivedResult::SchemaChange(_)) => Answer::SchemaChange,
            Response::Result(ReceivedResult::Prepared(prepared)) => Answer::Prepared {
                id: prepared.statement_id.to_vec(),
                markers: prepared.markers.columns.iter().map(Column::of).collect(),
                columns: prepared.result.columns.iter().map(Column::of).collect(),
            },
            Response::Result(ReceivedResult::Rows(rows)) => Answer::Rows(Rows {
                columns: rows.metadata.columns.iter().map(Column::of).collect(),
                rows: rows
                    .iter()
                    .map(|row| row.map(|value| value.map(<[u8]>::to_vec)).collect())
                    .collect(),
                paging_state: rows.metadata.paging_state.map(<[u8]>::to_vec),
                warnings: prelude.warnings.iter().map(str::to_owned).collect(),
            }),
            other => panic!("a statement was answered with {other:?}"),
        }
    }
}
