//! A whole node in process, for tests: statements go in as protocol messages and come out as decoded rows, without a
//! socket in between. Any number of shards; restart and crash are methods.

mod hooked_disk;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use helenus_events::{Event, EventListener, Events};
use helenus_node::{
    CommitlogSync, CompactionSettings, CopyRule, Node, NodeOptions, Operator, RequestContext, Session, Shard,
    SsTableFormat, Stalls, StartError,
};
use helenus_protocol::frame::{
    Envelope, EnvelopeFlags, FrameLimits, FrameReader, FrameWriter, ReceiveBuffer,
};
use helenus_protocol::request::{
    BatchKind, BatchStatement, BindValues, QueryParameters, Value, write_batch, write_execute, write_prepare,
    write_query,
};
use helenus_protocol::response::{ReceivedColumn, ReceivedResult, Response};
use helenus_protocol::{Consistency, Direction, ErrorCode, Opcode, ProtocolVersion};
use helenus_schema::Schema;
use helenus_types::{CqlType, ShardId};
use helenus_vfs::{Clock, Disk, MemoryDisk, SystemClock, SystemRandom, SystemThreads};

pub use hooked_disk::{Hook, HookedDisk};

/// A node that a test owns. Dropping it stops it as a crash would.
pub struct TestNode {
    options: NodeOptions,
    node: Option<Node>,
}

/// A statement on its way.
pub struct Pending {
    receiver: mpsc::Receiver<TracedAnswer>,
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
}

const VERSION: ProtocolVersion = ProtocolVersion::V5;

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

/// A node on `disk` with group commit; tests change what they are about.
pub fn options(shard_count: u16, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> NodeOptions {
    let events = events();
    NodeOptions {
        shard_count,
        data_folder: PathBuf::from("/helenus-data"),
        in_memory: false,
        memory_bytes: 256 << 20,
        row_cache: true,
        copy_rule: CopyRule::default(),
        admission: true,
        buffer_pool: true,
        commitlog_sync: CommitlogSync::Group,
        column_index_bytes: 64 * 1024,
        sstable_format: SsTableFormat::DEFAULT,
        compaction: CompactionSettings::default(),
        cluster_name: "Test Cluster".to_owned(),
        advertised_address: SocketAddr::from(([127, 0, 0, 1], 9042)),
        read_request_timeout: Duration::from_secs(5),
        range_request_timeout: Duration::from_secs(10),
        truncate_request_timeout: Duration::from_secs(60),
        write_request_timeout: Duration::from_secs(2),
        started_at_s: clock.wall_s(),
        disk_io: Default::default(),
        tombstones: Default::default(),
        guardrails: Default::default(),
        auto_snapshot: false,
        auto_snapshot_ttl: None,
        default_secondary_index: helenus_schema::IndexKind::Legacy,
        materialized_views: true,
        authenticator: Default::default(),
        disk,
        clock,
        threads: Arc::new(SystemThreads),
        random: Arc::new(SystemRandom::new()),
        stalls: Stalls::from_environment(&events),
        events,
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
        let text = text.to_owned();
        let owned = execution.clone();
        self.request(execution, Opcode::Query, move |out| {
            owned.write(|parameters, values| write_query(out, VERSION, &text, parameters, values));
        })
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
                    let execution = Execution::default();
                    let (answer, _trace) = converse(
                        &shard,
                        Duration::ZERO,
                        EnvelopeFlags::NONE,
                        Opcode::Query,
                        |out| {
                            execution.write(|parameters, values| {
                                write_query(out, VERSION, &text, parameters, values)
                            });
                        },
                    )
                    .await;
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
        let (text, keyspace) = (text.to_owned(), execution.keyspace.clone());
        self.request(execution, Opcode::Prepare, move |out| {
            write_prepare(out, VERSION, &text, keyspace.as_deref())
        })
    }

    /// As [`TestNode::submit`], a BATCH message.
    pub fn submit_batch(&self, kind: BatchKind, members: Vec<BatchMember>, execution: &Execution) -> Pending {
        let owned = execution.clone();
        self.request(execution, Opcode::Batch, move |out| {
            let values: Vec<Vec<Value<'_>>> =
                members.iter().map(|member| values_of(member.values())).collect();
            let queries: Vec<(BatchStatement<'_>, BindValues<'_>)> = members
                .iter()
                .zip(&values)
                .map(|(member, values)| (member.statement(), BindValues::Positional(values)))
                .collect();
            owned.write(|parameters, _| write_batch(out, VERSION, kind, &queries, parameters));
        })
    }

    /// What shard 0 has.
    pub fn schema(&self) -> Arc<Schema> {
        self.on_shard(0, |shard| shard.schema())
    }

    /// What `work` finds on a shard's thread.
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
        let (sender, receiver) = mpsc::channel();
        let text = text.to_owned();
        node.mailbox(ShardId(shard)).run(move |shard| {
            let shard = shard.clone();
            gate.recv_timeout(ANSWER_TIMEOUT).expect("the gate is opened");
            let mut answer = Box::pin(async move {
                let body = |out: &mut Vec<u8>| write_prepare(out, VERSION, &text, None);
                converse(&shard, Duration::ZERO, EnvelopeFlags::NONE, Opcode::Prepare, body).await
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
        Pending { receiver }
    }

    pub fn execute_prepared(&self, id: &[u8], execution: &Execution) -> Answer {
        self.submit_prepared(id, execution).answer()
    }

    /// As [`TestNode::submit`].
    pub fn submit_prepared(&self, id: &[u8], execution: &Execution) -> Pending {
        let id = id.to_vec();
        let owned = execution.clone();
        self.request(execution, Opcode::Execute, move |out| {
            owned.write(|parameters, values| write_execute(out, VERSION, &id, &[0; 16], parameters, values));
        })
    }

    /// Whether the shard would refuse an EXECUTE first where its requests wait.
    pub fn sheds_prepared(&self, id: &[u8], execution: &Execution) -> bool {
        let node = self.node.as_ref().expect("the node is running");
        let (sender, receiver) = mpsc::channel();
        let (id, owned) = (id.to_vec(), execution.clone());
        node.mailbox(ShardId(execution.shard)).run(move |shard| {
            let is_shed = with_envelope(
                EnvelopeFlags::NONE,
                Opcode::Execute,
                |out| {
                    owned.write(|parameters, values| {
                        write_execute(out, VERSION, &id, &[0; 16], parameters, values)
                    });
                },
                |envelope| shard.sheds_partition_of(envelope),
            );
            let _unwanted = sender.send(is_shed);
        });
        receiver.recv_timeout(ANSWER_TIMEOUT).expect("the shard runs")
    }

    /// The answer to a traced statement, and the id of its trace.
    pub fn execute_traced(&self, text: &str) -> (Answer, Option<[u8; 16]>) {
        let text = text.to_owned();
        let execution = Execution::default();
        self.send(
            &Execution::default(),
            EnvelopeFlags::TRACING,
            Opcode::Query,
            move |out| {
                execution.write(|parameters, values| write_query(out, VERSION, &text, parameters, values));
            },
        )
        .traced_answer()
    }

    /// As [`TestNode::execute_traced`], of a prepared statement.
    pub fn execute_prepared_traced(&self, id: &[u8], execution: &Execution) -> (Answer, Option<[u8; 16]>) {
        let id = id.to_vec();
        let owned = execution.clone();
        self.send(execution, EnvelopeFlags::TRACING, Opcode::Execute, move |out| {
            owned.write(|parameters, values| write_execute(out, VERSION, &id, &[0; 16], parameters, values));
        })
        .traced_answer()
    }

    fn request(
        &self,
        execution: &Execution,
        opcode: Opcode,
        body: impl FnOnce(&mut Vec<u8>) + Send + 'static,
    ) -> Pending {
        self.send(execution, EnvelopeFlags::NONE, opcode, body)
    }

    fn send(
        &self,
        execution: &Execution,
        flags: EnvelopeFlags,
        opcode: Opcode,
        body: impl FnOnce(&mut Vec<u8>) + Send + 'static,
    ) -> Pending {
        let node = self.node.as_ref().expect("the node is running");
        let (sender, receiver) = mpsc::channel();
        let waited = execution.waited;
        node.mailbox(ShardId(execution.shard)).run(move |shard| {
            let shard = shard.clone();
            tokio::task::spawn_local(async move {
                let answer = converse(&shard, waited, flags, opcode, body).await;
                // A test that has crashed the node may not want the answer any more.
                let _unwanted = sender.send(answer);
            });
        });
        Pending { receiver }
    }
}

impl Pending {
    /// The answer; `None` if the node ended first.
    pub fn wait(self) -> Option<Answer> {
        self.wait_traced().map(|(answer, _trace)| answer)
    }

    /// The answer; `None` if the node ended first, or none came in time.
    pub fn wait_for(self, timeout: Duration) -> Option<Answer> {
        self.receiver
            .recv_timeout(timeout)
            .ok()
            .map(|(answer, _trace)| answer)
    }

    fn wait_traced(self) -> Option<TracedAnswer> {
        match self.receiver.recv_timeout(ANSWER_TIMEOUT) {
            Ok(answer) => Some(answer),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no answer within {ANSWER_TIMEOUT:?}"),
        }
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
    fn write(&self, write: impl FnOnce(&QueryParameters<'_>, BindValues<'_>)) {
        let mut parameters = QueryParameters::new(self.consistency.unwrap_or(Consistency::One));
        parameters.page_size = self.page_size;
        parameters.paging_state = self.paging_state.as_deref();
        parameters.keyspace = self.keyspace.as_deref();
        write(&parameters, BindValues::Positional(&values_of(&self.values)));
    }
}

fn values_of(values: &[Option<Vec<u8>>]) -> Vec<Value<'_>> {
    let values = values.iter();
    values
        .map(|value| value.as_deref().map_or(Value::Null, Value::Bytes))
        .collect()
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
    let write = |out: &mut Vec<u8>| {
        execution.write(|parameters, values| write_query(out, VERSION, text, parameters, values));
    };
    ask(shard, execution.waited, Opcode::Query, write).await
}

/// As [`execute_on`].
pub async fn prepare_on(shard: &Rc<Shard>, text: &str) -> Answer {
    let write = |out: &mut Vec<u8>| write_prepare(out, VERSION, text, None);
    ask(shard, Duration::ZERO, Opcode::Prepare, write).await
}

/// As [`execute_on`].
pub async fn execute_prepared_on(shard: &Rc<Shard>, id: &[u8], execution: &Execution) -> Answer {
    let write = |out: &mut Vec<u8>| {
        execution.write(|parameters, values| write_execute(out, VERSION, id, &[0; 16], parameters, values));
    };
    ask(shard, execution.waited, Opcode::Execute, write).await
}

async fn ask(shard: &Rc<Shard>, waited: Duration, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) -> Answer {
    let (answer, _trace) = converse(shard, waited, EnvelopeFlags::NONE, opcode, body).await;
    answer
}

/// Sends one message as a connection would, and waits for its answer.
async fn converse(
    shard: &Rc<Shard>,
    waited: Duration,
    flags: EnvelopeFlags,
    opcode: Opcode,
    body: impl FnOnce(&mut Vec<u8>),
) -> (Answer, Option<[u8; 16]>) {
    let session = Rc::new(Session::new(VERSION));
    let received_ns = shard.look_at_clock().saturating_sub(waited.as_nanos() as u64);
    let handled = with_envelope(flags, opcode, body, |envelope| {
        let context = RequestContext {
            session: &session,
            stream: envelope.header.stream,
            received_ns,
        };
        shard.watching_stalls("a request", || shard.handle(context, envelope))
    });
    if let Err(error) = handled {
        let message = error.to_string();
        return (
            Answer::Error {
                code: ErrorCode::ProtocolError,
                message,
            },
            None,
        );
    }
    std::future::poll_fn(|context| {
        session.outbox().set_waker(context.waker());
        if session.outbox().has_output() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    let mut output = Vec::new();
    session.outbox().take(&mut output);
    decode(&output)
}

/// Gives `work` a message as a connection would.
fn with_envelope<T>(
    flags: EnvelopeFlags,
    opcode: Opcode,
    body: impl FnOnce(&mut Vec<u8>),
    work: impl FnOnce(&Envelope<'_>) -> T,
) -> T {
    let mut writer = FrameWriter::new();
    let mut bytes = Vec::new();
    let mark = writer.begin(&mut bytes, VERSION, flags, 1, opcode);
    body(&mut bytes);
    writer
        .finish(&mut bytes, mark)
        .expect("a test's request fits an envelope");
    let mut received = ReceiveBuffer::new();
    received.feed(&bytes);
    let mut reader = FrameReader::new(Direction::Request, FrameLimits::default());
    let envelope = reader
        .next_envelope(&mut received)
        .expect("a valid frame")
        .expect("a whole frame");
    work(&envelope)
}

fn decode(output: &[u8]) -> (Answer, Option<[u8; 16]>) {
    let mut received = ReceiveBuffer::new();
    received.feed(output);
    // What requests may be does not bound answers: drivers take frames of 256 MiB.
    let limits = FrameLimits {
        envelope_bytes_max: 256 << 20,
        message_bytes_max: 256 << 20,
        ..FrameLimits::default()
    };
    let mut reader = FrameReader::new(Direction::Response, limits);
    let envelope = reader
        .next_envelope(&mut received)
        .expect("a valid frame")
        .expect("a whole frame");
    let (response, prelude) = Response::decode(&envelope).expect("a valid response");
    let answer = match response {
        Response::Error(error) => Answer::Error {
            code: error.body.code(),
            message: error.message.to_owned(),
        },
        Response::Result(ReceivedResult::Void) => Answer::Void,
        Response::Result(ReceivedResult::SetKeyspace(keyspace)) => Answer::SetKeyspace(keyspace.to_owned()),
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
    };
    (answer, prelude.tracing_id)
}
