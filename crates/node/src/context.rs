//! Context shared by everything on a shard: its place among the shards, options, clock, counters, tasks.
//!
//! A value of the shard that needs more than its own fields gets this, and neither the shard nor its store.

mod answers;
mod timestamps;

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_engine::functions::Clock as StatementClock;
use helenus_engine::{CqlError, QueryOptions};
use helenus_protocol::ProtocolVersion;
use helenus_protocol::request::QueryParameters;
use helenus_protocol::response::MetadataForm;
use helenus_transport::TransportContext;
use helenus_transport::deadline::{LATE_LOOK_INTERVAL, nanoseconds};
use helenus_transport::request_memory::RequestMemory;
use helenus_types::{ShardId, Token, shard_of};
use helenus_vfs::Clock;
use uuid::Uuid;

use crate::deadline::{Deadline, Timeouts, not_begun_in_time};
use crate::metrics::ShardMetrics;
use crate::options::NodeOptions;
use crate::panic_boundary::Panicked;
use crate::session::{RequestContext, Session, TraceEvent};
use crate::shard::foreground::Foreground;
use crate::shard::mailbox::Mailbox;
use crate::slow_queries::SlowQueries;
use crate::stall::StallDetector;
use crate::unavailable::node_is_stopping;

pub(crate) use timestamps::{Timestamps, check_ahead};

pub struct ShardContext {
    pub id: ShardId,
    pub(crate) options: Arc<NodeOptions>,
    pub(crate) timeouts: Timeouts,
    pub(crate) clock: Arc<dyn Clock>,
    /// Every shard's mailbox, by id; this shard's own included.
    pub(crate) mailboxes: Arc<[Mailbox]>,
    /// Context that the shard shares with its connections.
    pub transport: Rc<TransportContext>,
    pub(crate) metrics: ShardMetrics,
    /// Delays that requests feel, for the pace of compactions.
    pub(crate) foreground: Foreground,
    pub(crate) timestamps: Timestamps,
    pub(crate) slow_queries: SlowQueries,
    pub(crate) stalls: StallDetector,
    tasks_spawned: Cell<u64>,
    /// Bytes of the answer to one statement at most.
    answer_bytes_max: usize,
    /// Chosen once per data folder.
    pub(crate) host_id: Uuid,
}

impl ShardContext {
    pub(crate) fn new(
        id: ShardId,
        options: Arc<NodeOptions>,
        mailboxes: Arc<[Mailbox]>,
        transport: Rc<TransportContext>,
        timestamps: Timestamps,
        host_id: Uuid,
    ) -> Self {
        let memory = mailboxes[usize::from(id.0)].memory();
        ShardContext {
            id,
            timeouts: Timeouts::of(&options),
            clock: options.clock.clone(),
            answer_bytes_max: memory.answer_bytes_max(),
            mailboxes,
            transport,
            metrics: ShardMetrics::new(&options.clock),
            foreground: Foreground::default(),
            timestamps,
            slow_queries: SlowQueries::over(options.slow_query_log_timeout),
            stalls: StallDetector::telling(options.stalls.clone()),
            tasks_spawned: Cell::new(0),
            host_id,
            options,
        }
    }

    pub(crate) fn owner_of(&self, token: Token) -> ShardId {
        shard_of(token, self.options.shard_count)
    }

    pub fn mailbox(&self, shard: ShardId) -> &Mailbox {
        &self.mailboxes[usize::from(shard.0)]
    }

    /// Memory of this shard's requests and answers.
    pub fn request_memory(&self) -> &Arc<RequestMemory> {
        self.mailbox(self.id).memory()
    }

    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.options.shard_count).map(ShardId)
    }

    /// A shard that was asked has given no answer: it has stopped, or what it was asked made it panic.
    pub(crate) fn no_answer_from(&self, shard: ShardId) -> CqlError {
        if self.mailbox(shard).is_closed() {
            node_is_stopping()
        } else {
            Panicked.error()
        }
    }

    /// Seconds since the Unix epoch.
    pub fn now_s(&self) -> u32 {
        self.clock.wall_s()
    }

    /// The moment that a statement is prepared.
    pub(crate) fn now(&self) -> StatementClock {
        StatementClock {
            server_timestamp_us: self.clock.wall_us(),
        }
    }

    /// Looks at the clock once for everything that happens until the next look.
    pub fn look_at_clock(&self) -> u64 {
        self.transport.look_at_clock()
    }

    /// Clock reading of the last look, at most one turn of a connection old.
    #[inline]
    pub(crate) fn last_looked_ns(&self) -> u64 {
        self.transport.last_looked_ns()
    }

    pub(crate) fn deadline_after(&self, timeout: Duration) -> u64 {
        self.clock.monotonic_ns().saturating_add(nanoseconds(timeout))
    }

    /// When a request must be answered; an error if that was before it could be begun.
    #[inline]
    pub(crate) fn deadline_of(&self, request: &RequestContext<'_>, timeout_ns: u64) -> Result<u64, CqlError> {
        let deadline_ns = request
            .received_ns
            .saturating_add(timeout_ns)
            .min(request.latest_ns);
        if self.last_looked_ns() > deadline_ns {
            return Err(not_begun_in_time());
        }
        Ok(deadline_ns)
    }

    /// Gives `work` up where its shards have not said themselves in time that it is late.
    pub(crate) async fn in_time<T>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = Result<T, CqlError>>,
    ) -> Result<T, CqlError> {
        let left = deadline.left(self.clock.monotonic_ns()) + 2 * LATE_LOOK_INTERVAL;
        let work: Pin<&mut dyn Future<Output = Result<T, CqlError>>> = pin!(work);
        let done = tokio::time::timeout(left, work).await;
        done.unwrap_or_else(|_| Err(deadline.timed_out()))
    }

    /// Returns the options of one execution, by its request and the clock.
    #[inline]
    pub(crate) fn options_of<'a>(
        &self,
        version: ProtocolVersion,
        parameters: &QueryParameters<'a>,
        server_timestamp_us: i64,
    ) -> QueryOptions<'a> {
        QueryOptions {
            version,
            consistency: parameters.consistency,
            serial_consistency: parameters.serial_consistency,
            page_size: parameters.page_size,
            paging_state: parameters.paging_state,
            timestamp_us: parameters.default_timestamp,
            now_s: parameters
                .now_in_seconds
                .unwrap_or_else(|| self.timestamps.wall_s_at(server_timestamp_us)),
            server_timestamp_us,
            deadline_ns: u64::MAX,
            answer_bytes_max: self.answer_bytes_max,
            metadata_form: if parameters.skip_metadata {
                MetadataForm::Skipped
            } else {
                MetadataForm::Full
            },
        }
    }

    /// The largest page that no guardrail has anything to say of.
    pub(crate) fn page_rows_unwarned(&self) -> u64 {
        let page_size = &self.options.guardrails.page_size;
        page_size.warn.min(page_size.fail)
    }

    pub(crate) fn count_failure<T>(&self, result: &Result<T, CqlError>) {
        if let Err(error) = result {
            self.metrics.count_error(error.code());
        }
    }

    /// Notes what happens to a request, if that is traced.
    #[inline]
    pub(crate) fn trace(&self, session: &Session, activity: impl FnOnce() -> String) {
        if session.conversation.is_traced() {
            session.conversation.note_event(TraceEvent {
                id: *self.timestamps.new_timeuuid().as_bytes(),
                at_ns: self.clock.monotonic_ns(),
                activity: activity(),
            });
        }
    }

    /// Starts a task on this shard.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        // In a box, because whatever wraps a future copies it, and without its type, because the runtime is compiled anew for each.
        self.spawn_boxed(Box::pin(task));
    }

    fn spawn_boxed(&self, mut task: Pin<Box<dyn Future<Output = ()>>>) {
        self.tasks_spawned.set(self.tasks_spawned.get() + 1);
        let stalls = self.stalls.clone();
        tokio::task::spawn_local(poll_fn(move |context| {
            stalls.watch("a task", || task.as_mut().poll(context))
        }));
    }

    /// For work of others on this thread, where somebody looks for what holds it.
    pub(crate) fn watching_stalls<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        self.stalls.watch(what, work)
    }

    pub fn tasks_spawned(&self) -> u64 {
        self.tasks_spawned.get()
    }
}
