//! Long statements are planned beside their shard, on a thread of its own: the longest that is accepted takes a tenth of a
//! second, and everybody else would wait for it.
//!
//! The shard keeps what waits, so that each connection has its turn, and gives the thread one job at a time. A request
//! that is planned there is a task until its plan is back, and goes on like any other then.

mod long_texts;

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;

use helenus_cql::TokenBudget;
use helenus_engine::functions::Clock;
use helenus_engine::prepare::prepare_within;
use helenus_engine::{CqlError, Prepared};
use helenus_protocol::frame::{Envelope, EnvelopeHeader};
use helenus_protocol::request::{Batch, BatchStatement, Request};
use helenus_schema::{Schema, TableMetadata};
use helenus_transport::request_memory::Account;
use helenus_transport::round_robin::RoundRobinQueue;
use helenus_vfs::{Threads, Urgency, Worker};
use tokio::sync::oneshot;

use crate::panic_boundary::catch;
use crate::shard::mailbox::Mailbox;

/// Texts up to so many bytes are planned where they arrive: `SELECT` with a thousand columns of one letter each, which
/// takes less than a millisecond. Statements of applications are shorter by far.
const PLANNED_AT_ONCE_BYTES_MAX: usize = 4 << 10;

/// With a table of more columns than so many, nothing is planned where it arrives: `SELECT *` takes half a microsecond for each. The
/// tables of applications have some dozens.
const COLUMNS_PLANNED_AT_ONCE_MAX: usize = 1_000;

/// Requests that wait to be planned; they are held in memory that is charged, which most of the time is less.
const WAITING_MAX: usize = 4_096;

/// Requests of one connection among those, at most.
const WAITING_OF_CONNECTION_MAX: usize = 1_024;

/// How often a statement is planned again because the schema has changed meanwhile.
const PLANNINGS_MAX: u32 = 16;

type Job = Box<dyn FnOnce() + Send>;

/// The plans of a request's texts in their order, up to the first that has none.
pub(crate) type Plans = Vec<Result<Arc<Prepared>, CqlError>>;

/// A shard's thread for work that would hold the shard.
pub(crate) struct Planner {
    worker: RefCell<Worker<Job>>,
    /// Mailbox of the shard.
    mailbox: Mailbox,
    /// By the address of the account that is charged for what waits and lives as long: a connection has one turn, whatever it
    /// waits for.
    waiting: RefCell<RoundRobinQueue<usize, Job>>,
    is_busy: Cell<bool>,
    /// Texts up to so many bytes are planned where they arrive.
    at_once_bytes_max: Cell<usize>,
    /// Plans, and what they were bound to, of requests that may not be over yet. Freeing one takes as long as making it.
    retired: RefCell<Vec<Arc<dyn Send + Sync>>>,
}

/// A request, free of the buffer that it came in.
pub(crate) struct Message {
    header: EnvelopeHeader,
    body: Box<[u8]>,
}

/// Tells the shard when a job is over, however it ends.
struct JobOver(Mailbox);

impl Drop for JobOver {
    fn drop(&mut self) {
        self.0.run(|shard| shard.planner.next());
    }
}

impl Planner {
    pub fn start(threads: &dyn Threads, shard: u16, mailbox: &Mailbox, schema: &Schema) -> io::Result<Self> {
        let worker = Worker::start(threads, format!("plan-{shard}"), Urgency::Answers, |job: Job| {
            // Whoever waits for it is told by what the job drops.
            let _reported = catch(job);
        })?;
        let planner = Planner {
            worker: RefCell::new(worker),
            mailbox: mailbox.clone(),
            waiting: RefCell::new(RoundRobinQueue::new(WAITING_MAX, WAITING_OF_CONNECTION_MAX)),
            is_busy: Cell::new(false),
            at_once_bytes_max: Cell::new(PLANNED_AT_ONCE_BYTES_MAX),
            retired: RefCell::default(),
        };
        planner.set_schema(schema);
        Ok(planner)
    }

    /// The schema has changed.
    pub fn set_schema(&self, schema: &Schema) {
        let is_wide = |table: &Arc<TableMetadata>| table.columns.len() > COLUMNS_PLANNED_AT_ONCE_MAX;
        let mut keyspaces = schema.keyspaces.values();
        let has_wide_tables = keyspaces.any(|keyspace| keyspace.tables.values().any(is_wide));
        self.at_once_bytes_max.set(match has_wide_tables {
            true => 0,
            false => PLANNED_AT_ONCE_BYTES_MAX,
        });
    }

    /// Returns whether a text is planned where it arrives.
    pub fn plans_at_once(&self, text: &str) -> bool {
        text.len() <= self.at_once_bytes_max.get()
    }

    /// Returns whether the texts of a batch are.
    pub fn plans_batch_at_once(&self, batch: &Batch<'_>, body_bytes: usize) -> bool {
        let bytes_max = self.at_once_bytes_max.get();
        body_bytes <= bytes_max || texts_of(batch).map(str::len).sum::<usize>() <= bytes_max
    }

    /// Runs `work` on the planner's thread and returns its result; `None` if it panicked or the node is stopping.
    /// OVERLOADED where too much waits.
    pub async fn run<T: Send + 'static>(
        &self,
        asker: &Arc<Account>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, CqlError> {
        let (begin, begun) = oneshot::channel::<()>();
        let (sender, receiver) = oneshot::channel();
        let job = Box::new(move || {
            // Whoever waits may have given up.
            if begin.send(()).is_ok() {
                let _gone = sender.send(work());
            }
        });
        self.push(Arc::as_ptr(asker).addr(), job);
        // What has no room is dropped before it is begun.
        if begun.await.is_err() {
            return Err(CqlError::overloaded(format_args!(
                "Too many long statements are waiting to be planned"
            )));
        }
        Ok(receiver.await.ok())
    }

    fn push(&self, asker: usize, job: Job) {
        let refused = self.waiting.borrow_mut().push(asker, job);
        drop(refused);
        if !self.is_busy.get() {
            self.next();
        }
    }

    /// The thread has nothing to do: gives it the next job.
    fn next(&self) {
        let job = self.waiting.borrow_mut().pop(|_| true);
        self.is_busy.set(job.is_some());
        if let Some(job) = job {
            let over = JobOver(self.mailbox.clone());
            self.worker.borrow().send(Box::new(move || {
                let _over = over;
                job();
            }));
        }
    }

    /// Has plans and the like freed on the thread, once nothing uses them any more.
    pub fn retire(&self, plans: impl IntoIterator<Item = Arc<dyn Send + Sync>>) {
        self.retired.borrow_mut().extend(plans);
        self.free_retired();
    }

    /// Called again and again.
    pub fn free_retired(&self) {
        let mut retired = self.retired.borrow_mut();
        if retired.is_empty() {
            return;
        }
        let unused: Vec<_> = retired
            .extract_if(.., |plan| Arc::strong_count(plan) == 1)
            .collect();
        if !unused.is_empty() {
            self.worker.borrow().send(Box::new(move || drop(unused)));
        }
    }

    /// Waits for the job that was begun.
    pub fn stop(&self) {
        self.worker.borrow_mut().finish();
    }
}

impl Message {
    fn envelope(&self) -> Envelope<'_> {
        Envelope {
            header: self.header,
            body: &self.body,
        }
    }

    /// On the planner's thread.
    fn plan(&self, schema: &Arc<Schema>, keyspace: Option<&str>, now: Clock) -> Plans {
        let mut budget = TokenBudget::default();
        let mut plan = |keyspace: Option<&str>, text: &str| {
            prepare_within(schema, keyspace, now, text, &mut budget).map(Arc::new)
        };
        // The shard has decoded it before.
        match Request::decode(&self.envelope()) {
            Ok((Request::Query(query), _)) => vec![plan(query.parameters.keyspace.or(keyspace), query.text)],
            Ok((Request::Prepare(prepare), _)) => {
                let planned = plan(prepare.keyspace.or(keyspace), prepare.text);
                // Its shard will ask for them, and would be held by counting them.
                let _bytes = planned.as_ref().map(|plan| plan.heap_bytes());
                vec![planned]
            }
            Ok((Request::Batch(batch), _)) => {
                let keyspace = batch.parameters.keyspace.or(keyspace);
                let mut plans = Plans::new();
                for text in texts_of(&batch) {
                    plans.push(plan(keyspace, text));
                    if plans.last().is_some_and(Result::is_err) {
                        break;
                    }
                }
                plans
            }
            _ => Plans::new(),
        }
    }
}

fn texts_of<'a>(batch: &Batch<'a>) -> impl Iterator<Item = &'a str> {
    batch.queries.iter().filter_map(|query| match query.statement {
        BatchStatement::Text(text) => Some(text),
        BatchStatement::Prepared(_) => None,
    })
}
