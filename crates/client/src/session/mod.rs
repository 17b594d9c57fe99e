//! A session: an application's way to a cluster.

mod attempts;
mod builder;
mod control;
mod pager;
mod pool;
mod request;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use helenus_protocol::response::{ReceivedResult, Response as Message};
use tokio::sync::Notify;

pub use builder::SessionBuilder;
pub use pager::Pager;

use crate::connection::ConnectionOptions;
use crate::error::{ConnectError, RequestError};
use crate::lock::lock;
use crate::response::Answer;
use crate::retry::RetryPolicy;
use crate::routing::Topology;
use crate::statement::{Batch, ExecutionOptions, Prepared, PreparedStatement, ResultShape, Statement};
use crate::throttle::{ThrottleMode, ThrottleStatus};
use crate::values::{BindValues, BoundValues};
use pool::NodePool;
use request::Request;

/// Statements that a session keeps prepared; beyond that it forgets them all and learns anew. As many as Helenus and
/// Cassandra keep for a client with ordinary statements.
const PREPARED_MAX: usize = 10_000;

/// Executes statements on a cluster. Cheap to clone; all clones share connections and limits.
#[derive(Clone, Debug)]
pub struct Session {
    shared: Arc<Shared>,
    caller: Caller,
}

/// Identity of a caller: turns at a busy node go round among callers, however much each of them wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller(u64);

#[derive(Debug)]
struct Shared {
    options: SessionOptions,
    cluster: Mutex<Arc<Cluster>>,
    prepared: Mutex<HashMap<String, Arc<PreparedStatement>, RandomState>>,
    /// A node has become ready, or is gone.
    changed: Arc<Notify>,
    is_closed: AtomicBool,
    next_caller: AtomicU64,
    turn: AtomicU64,
    counters: Counters,
}

/// How a session works; set with [`SessionBuilder`].
#[derive(Clone, Debug)]
struct SessionOptions {
    connection: ConnectionOptions,
    throttle: ThrottleMode,
    waiting_max: usize,
    retry: RetryPolicy,
    connections_per_node: usize,
    waits_for_ready: bool,
    discovers_nodes: bool,
    datacenter: Option<String>,
    execution: ExecutionOptions,
}

/// The nodes there are; replaced as a whole when they change.
#[derive(Debug, Default)]
struct Cluster {
    pools: Vec<Arc<NodePool>>,
    topology: Topology,
    /// For each node of the topology, its pool.
    pool_of_node: Vec<usize>,
}

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    sent_again: AtomicU64,
    retried: AtomicU64,
    refused: AtomicU64,
}

/// Counters of a session, and its current state.
#[derive(Clone, Debug, Default)]
pub struct SessionStatistics {
    /// Requests handed to a connection, those sent again included.
    pub sent: u64,
    /// Requests that provably had not run and went out again.
    pub sent_again: u64,
    /// Requests that may have run and were retried, being idempotent.
    pub retried: u64,
    /// OVERLOADED and its like.
    pub refused: u64,
    /// For each node: its throttle, its open connections.
    pub nodes: Vec<(SocketAddr, ThrottleStatus, usize)>,
}

impl Session {
    /// Begins the settings of a session; nothing is connected before [`SessionBuilder::connect`].
    pub fn builder() -> SessionBuilder {
        SessionBuilder::new()
    }

    /// A session of a caller of its own, for fairness among parts of an application.
    #[must_use]
    pub fn for_new_caller(&self) -> Session {
        Session {
            shared: self.shared.clone(),
            caller: Caller(self.shared.next_caller.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Executes a statement that is not prepared. Values are sent as their Rust types say.
    pub async fn query(
        &self,
        statement: impl Into<Statement>,
        values: impl BindValues,
    ) -> Result<Answer, RequestError> {
        let statement: Statement = statement.into();
        let options = statement
            .options
            .as_ref()
            .unwrap_or(&self.shared.options.execution);
        let mut bound = BoundValues::new();
        values.bind(&[], &mut bound)?;
        let request = Request::Query {
            text: &statement.text,
            options,
            values: &bound,
        };
        self.run(&request, options).await
    }

    /// Prepares a statement on one node; the others learn it when they are first asked.
    pub async fn prepare(&self, text: &str) -> Result<Prepared, RequestError> {
        let options = self.shared.options.execution.clone();
        if let Some(known) = lock(&self.shared.prepared).get(text) {
            return Ok(Prepared {
                shared: known.clone(),
                options,
            });
        }
        let answer = self.run(&Request::Prepare { text }, &options).await?;
        let statement = Arc::new(prepared_statement(text, &answer)?);
        let prepared = &mut *lock(&self.shared.prepared);
        if prepared.len() >= PREPARED_MAX {
            prepared.clear();
        }
        prepared.insert(text.to_owned(), statement.clone());
        Ok(Prepared {
            shared: statement,
            options,
        })
    }

    /// Executes a prepared statement and returns its first page.
    pub async fn execute(
        &self,
        statement: &Prepared,
        values: impl BindValues,
    ) -> Result<Answer, RequestError> {
        let buffers = &self.shared.options.connection.buffers;
        let bound = statement.shared.bind_within(buffers.scratch(), &values)?;
        let answer = self.execute_bound(statement, &bound, None).await;
        buffers.give_back(bound.into_buffer());
        answer
    }

    /// As [`Session::execute`], with values bound before and from a page on.
    pub async fn execute_bound(
        &self,
        statement: &Prepared,
        values: &BoundValues,
        paging_state: Option<&[u8]>,
    ) -> Result<Answer, RequestError> {
        let shape = statement.shared.result();
        let request = Request::Execute {
            statement,
            shape: &shape,
            values,
            paging_state,
        };
        let mut answer = self.run(&request, &statement.options).await?;
        answer.shape = Some(learn_changed_columns(statement, shape, &answer));
        Ok(answer)
    }

    /// Executes several writes as one.
    pub async fn batch(&self, batch: &Batch) -> Result<Answer, RequestError> {
        self.run(&Request::Batch { batch }, &batch.options).await
    }

    /// Reads a result page by page.
    pub fn pages<'a>(&'a self, statement: &'a Prepared, values: BoundValues) -> Pager<'a> {
        Pager::new(self, statement, values)
    }

    /// Returns the counters since the session was connected, those of all its clones together, and the state
    /// of each node. They are read one by one: sums over them may be off by requests that end meanwhile.
    pub fn statistics(&self) -> SessionStatistics {
        let counters = &self.shared.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let pools = self.shared.cluster();
        SessionStatistics {
            sent: count(&counters.sent),
            sent_again: count(&counters.sent_again),
            retried: count(&counters.retried),
            refused: count(&counters.refused),
            nodes: pools
                .pools
                .iter()
                .map(|pool| (pool.address, pool.throttle.status(), pool.open_connections()))
                .collect(),
        }
    }

    /// For every node: a fixed limit that stands in for the adaptive one ([`crate::throttle::Throttle::stand_in`]).
    pub fn stand_in_limit(&self, limit: Option<usize>) {
        for pool in &self.shared.cluster().pools {
            pool.throttle.stand_in(limit);
        }
    }

    /// Closes every connection. Requests under way end; new ones are refused.
    pub fn close(&self) {
        self.shared.close();
    }
}

/// Keeps what v5 says of rows whose columns have changed since they were prepared.
fn learn_changed_columns(statement: &Prepared, known: Arc<ResultShape>, answer: &Answer) -> Arc<ResultShape> {
    /// Where the flags of a Rows result stand: behind its kind.
    const FLAGS_AT: std::ops::Range<usize> = 4..8;
    const METADATA_CHANGED: u8 = 0x08;
    let flags = answer.response.body.get(FLAGS_AT).and_then(<[u8]>::last);
    if flags.is_none_or(|flags| flags & METADATA_CHANGED == 0) {
        return known;
    }
    let Ok((Message::Result(ReceivedResult::Rows(rows)), _)) = answer.response.decode() else {
        return known;
    };
    match ResultShape::of_changed(&rows.metadata) {
        None => known,
        Some(changed) => {
            statement.shared.set_result(changed);
            statement.shared.result()
        }
    }
}

fn prepared_statement(text: &str, answer: &Answer) -> Result<PreparedStatement, RequestError> {
    let address = answer.address;
    match answer.response.decode() {
        Ok((Message::Result(ReceivedResult::Prepared(prepared)), _)) => {
            Ok(PreparedStatement::of(text, &prepared))
        }
        Ok(_) => Err(RequestError::Unexpected {
            address,
            wanted: "a prepared statement",
            found: answer.response.opcode.name(),
        }),
        Err(source) => Err(RequestError::Unreadable { address, source }),
    }
}

impl Shared {
    fn cluster(&self) -> Arc<Cluster> {
        lock(&self.cluster).clone()
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        for pool in &self.cluster().pools {
            pool.close();
        }
        self.changed.notify_waiters();
    }

    /// A pool for a node, its connections under way.
    fn new_pool(self: &Arc<Self>, address: SocketAddr) -> Arc<NodePool> {
        NodePool::start(address, &self.options, self.changed.clone())
    }

    fn last_error(&self) -> Arc<ConnectError> {
        let cluster = self.cluster();
        let mut errors = cluster.pools.iter().filter_map(|pool| pool.last_error());
        errors.next().unwrap_or_else(|| Arc::new(ConnectError::NoNodes))
    }
}

/// The last clone of a session takes the connections with it.
impl Drop for Shared {
    fn drop(&mut self) {
        for pool in &lock(&self.cluster).pools {
            pool.close();
        }
    }
}
