//! A shard: one thread that owns a contiguous range of tokens and everything stored under them.
//!
//! Invariants:
//! 1. Only the shard's thread touches its store; others send messages ([`mailbox`]).
//! 2. No `RefCell` borrow of the shard is held across an `await`.
//! 3. A write is acknowledged only after [`Shard::log_persisted`] covered its position, unless the log is periodic.

mod background;
pub(crate) mod deferred_read;
mod durability;
mod ending;
mod foreground;
mod log;
mod log_queue;
pub mod mailbox;
mod prepared_cache;
mod tasks;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use helenus_catalog::ddl::SchemaChange;
use helenus_engine::execute::Scratch;
use helenus_engine::functions;
use helenus_schema::Schema;
use helenus_storage::ShardStore;
use helenus_storage::commitlog::ResolvedWriteSets;
use helenus_storage::store::JobResult;
use helenus_transport::request_memory::RequestMemory;
use helenus_transport::{TransportContext, TransportOptions};
use helenus_types::value::timeuuid::TimeuuidGenerator;
use helenus_types::{ShardId, Token, shard_of};
use helenus_vfs::Clock;
use tokio::sync::{Mutex, Notify, broadcast};
use uuid::Uuid;

pub use background::BackgroundThreads;
pub use durability::{Acknowledgement, LogThread};
pub use ending::Ending;
pub use foreground::Foreground;
pub use prepared_cache::{LearnedCost, PreparedCache, is_valid};

use crate::clients::Clients;
use crate::counting::Counters;
use crate::deadline::{Deadline, Timeouts};
use crate::disk_reads::DiskReads;
use crate::forward::PendingForwards;
use crate::handle::lane::Lanes;
use crate::hot_partitions::HotPartitions;
use crate::long_reads::LongReads;
use crate::metrics::{Gauges, MetricsSnapshot, ShardMetrics};
use crate::options::{CommitlogSync, NodeOptions};
use crate::panic_boundary::catch;
use crate::planning::Planner;
use crate::rate_limit::{RateLimiter, has_rate_limits};
use crate::roles::default_role::DefaultRole;
use crate::roles::password_threads::PasswordThreads;
use crate::roles::passwords::Passwords;
use crate::schema_change::{SCHEMA_OWNER, SchemaKeeper, SchemaListeners, SchemaWorker};
use crate::sealed_partitions::SealedPartitions;
use crate::snapshot_worker::SnapshotWorker;
use crate::stall::StallDetector;
use crate::truncation::Truncations;
use crate::viewed_writes::Views;
use crate::write_set::WriteSets;
use foreground::PROBE_INTERVAL;
use log_queue::LogQueue;
use mailbox::{Inbox, Mailbox, Message};

/// What a shard starts with; its store, log and background thread are its own.
pub(crate) struct ShardParts {
    pub id: ShardId,
    pub options: Arc<NodeOptions>,
    pub mailboxes: Arc<[Mailbox]>,
    pub store: ShardStore,
    pub schema: Arc<Schema>,
    pub schema_version: Uuid,
    /// Of shard 0 only.
    pub schema_worker: Option<SchemaWorker>,
    /// Of shard 0 only: where it announces changes of the schema to clients in this process.
    pub announcing: Option<broadcast::Sender<SchemaChange>>,
    /// Of shard 0 only, and of none in memory.
    pub schema_keeper: Option<SchemaKeeper>,
    /// Of shard 0 only, and of none in memory.
    pub snapshot_worker: Option<SnapshotWorker>,
    /// Of shard 0 only.
    pub default_role: Option<DefaultRole>,
    pub host_id: Uuid,
    pub log: Option<LogThread>,
    pub resolved: Arc<ResolvedWriteSets>,
    /// Where clients log in with passwords.
    pub passwords: Option<Arc<PasswordThreads>>,
    pub background: BackgroundThreads,
    pub planner: Planner,
}

pub struct Shard {
    pub id: ShardId,
    pub options: Arc<NodeOptions>,
    pub(crate) timeouts: Timeouts,
    pub clock: Arc<dyn Clock>,
    /// Every shard's mailbox, by id; this shard's own included.
    pub mailboxes: Arc<[Mailbox]>,
    pub store: RefCell<ShardStore>,
    pub schema: RefCell<Arc<Schema>>,
    /// Of that: to compute it takes time in proportion to the schema.
    pub(crate) schema_version: Cell<Uuid>,
    /// Of the owner of the schema.
    pub(crate) schema_worker: Option<SchemaWorker>,
    pub prepared: RefCell<PreparedCache>,
    pub metrics: ShardMetrics,
    /// What it shares with its connections.
    pub transport: Rc<TransportContext>,
    pub(crate) hot_partitions: HotPartitions,
    /// Where a key is put together to see whether its request is shed.
    pub(crate) shed_key: RefCell<Vec<u8>>,
    /// What the answer to one statement may take.
    pub(crate) answer_bytes_max: usize,
    pub clients: Clients,
    /// Of clients in this process.
    pub(crate) lanes: Lanes,
    /// Where clients log in with passwords.
    pub(crate) passwords: Option<Passwords>,
    pub(crate) rate_limiter: RefCell<RateLimiter>,
    /// Whether any table limits what its partitions are asked for.
    pub(crate) has_rate_limits: Cell<bool>,
    pub(crate) foreground: Foreground,
    pub(crate) disk_reads: RefCell<DiskReads>,
    pub(crate) long_reads: LongReads,
    /// Reads wait until the disk has less to do.
    pub(crate) disk_is_busy: Cell<bool>,
    stalls: StallDetector,
    pub(crate) planner: Planner,
    pub(crate) forwards: RefCell<PendingForwards>,
    pub(crate) scratch: RefCell<Scratch>,
    pub(crate) counters: Counters,
    pub(crate) views: Views,
    pub(crate) sealed: SealedPartitions,
    /// Where the owner of the schema makes changes durable. The mutex orders changes: each starts from the schema
    /// that the one before it made.
    pub(crate) schema_keeper: Mutex<Option<SchemaKeeper>>,
    /// Where the owner of the schema knows whether the default role was made. The mutex lets one login at a time decide.
    pub(crate) default_role: Mutex<Option<DefaultRole>>,
    pub(crate) snapshot_worker: Option<SnapshotWorker>,
    /// Of the owner of the schema.
    pub(crate) truncations: Truncations,
    /// The default role is known to have been made.
    pub(crate) default_role_is_settled: Cell<bool>,
    /// Chosen once per data folder.
    pub host_id: Uuid,
    pub(crate) schema_listeners: SchemaListeners,
    timeuuids: RefCell<TimeuuidGenerator>,
    tasks_spawned: Cell<u64>,
    log: LogQueue,
    pub(crate) write_sets: WriteSets,
    background: RefCell<BackgroundThreads>,
    /// Set where the loop must look at log and background work before it sleeps.
    turn: Notify,
    /// Woken when a flush gave memory back, or the log accepted more.
    room: Notify,
    stopping: Cell<bool>,
    pub(crate) last_timestamp_us: Cell<i64>,
}

/// Messages taken from the inbox between two looks at the sockets: enough to amortise the look, few enough that a
/// burst of messages does not starve the shard's own connections.
const MESSAGES_PER_TURN_MAX: usize = 256;

impl Shard {
    pub(crate) fn new(parts: ShardParts, disk_reads: DiskReads, has_slept: Arc<AtomicBool>) -> Rc<Shard> {
        let memory = parts.mailboxes[usize::from(parts.id.0)].memory().clone();
        let answer_bytes_max = memory.answer_bytes_max();
        let transport = TransportContext::new(transport_options(&parts.options, memory), has_slept);
        let clock = parts.options.clock.clone();
        let started_at = functions::Clock {
            server_timestamp_us: clock.wall_us(),
        };
        // Random, so that two nodes (or this one before a restart) never make the same timeuuid.
        let timeuuid_seed = parts.options.random.next_u64();
        let rate_limiter = RateLimiter::new(parts.options.random.next_u64());
        let stalls = StallDetector::telling(parts.options.stalls.clone());
        Rc::new(Shard {
            write_sets: WriteSets::new(parts.id, parts.resolved),
            id: parts.id,
            has_rate_limits: Cell::new(has_rate_limits(&parts.schema)),
            views: Views::of_schema(&parts.schema, started_at),
            sealed: SealedPartitions::default(),
            clock,
            prepared: RefCell::new(PreparedCache::of_memory(parts.options.memory_bytes)),
            timeouts: Timeouts::of(&parts.options),
            options: parts.options,
            mailboxes: parts.mailboxes,
            store: RefCell::new(parts.store),
            schema: RefCell::new(parts.schema),
            schema_version: Cell::new(parts.schema_version),
            schema_worker: parts.schema_worker,
            metrics: ShardMetrics::default(),
            transport,
            shed_key: RefCell::new(Vec::new()),
            hot_partitions: HotPartitions::new(timeuuid_seed),
            answer_bytes_max,
            clients: Clients::default(),
            lanes: Lanes::default(),
            passwords: parts.passwords.map(Passwords::new),
            rate_limiter: RefCell::new(rate_limiter),
            foreground: Foreground::default(),
            disk_reads: RefCell::new(disk_reads),
            long_reads: LongReads::default(),
            disk_is_busy: Cell::new(false),
            stalls,
            planner: parts.planner,
            forwards: RefCell::new(PendingForwards::default()),
            scratch: RefCell::new(Scratch::default()),
            counters: Counters::default(),
            schema_keeper: Mutex::new(parts.schema_keeper),
            snapshot_worker: parts.snapshot_worker,
            truncations: Truncations::default(),
            default_role: Mutex::new(parts.default_role),
            default_role_is_settled: Cell::new(false),
            host_id: parts.host_id,
            schema_listeners: SchemaListeners::default(),
            timeuuids: RefCell::new(TimeuuidGenerator::new(timeuuid_seed)),
            tasks_spawned: Cell::new(0),
            log: LogQueue::new(parts.log),
            background: RefCell::new(parts.background),
            turn: Notify::new(),
            room: Notify::new(),
            stopping: Cell::new(false),
            last_timestamp_us: Cell::new(0),
        })
    }

    /// Runs until [`Shard::stop`]; the thread's main task.
    pub(crate) async fn run(self: &Rc<Self>, mut inbox: Inbox) {
        self.spawn(self.clone().turns());
        if !self.options.in_memory {
            self.spawn(self.clone().pace_compactions());
        }
        if self.id == SCHEMA_OWNER {
            self.build_views_at_start();
        }
        self.spawn(self.clone().tend_vectors());
        if self.snapshot_worker.is_some() {
            self.spawn(self.clone().sweep_snapshots());
        }
        self.spawn(self.clone().watch_disk_reads());
        self.spawn(self.clone().give_up_late_requests());
        self.spawn(self.transport.clone().mark_rounds());
        // Not watched as a whole for what holds the shard: each step is.
        tokio::task::spawn_local(self.clone().run_long_reads());
        if matches!(self.options.commitlog_sync, CommitlogSync::Periodic { .. }) && !self.options.in_memory {
            self.spawn(self.clone().write_log_periodically());
        }
        let mut messages = Vec::with_capacity(MESSAGES_PER_TURN_MAX);
        while !self.stopping.get() && inbox.receive(&mut messages, MESSAGES_PER_TURN_MAX).await {
            self.look_at_clock();
            for message in messages.drain(..) {
                self.stalls.watch("a message", || match message {
                    // These two answer the sender themselves where they panic.
                    Message::Read(read) => self.read_forwarded(*read),
                    Message::Write(write) => self.write_forwarded(*write),
                    // Dropping the request tells its caller.
                    Message::Asked(asked) => {
                        let _reported = catch(|| self.asked(*asked));
                    }
                    Message::Answered { ticket, result } => self.forward_answered(ticket, result),
                    Message::Run(work) => {
                        // Dropping the work has told whoever waits for it; see `no_answer_from`.
                        let _reported = catch(|| work(self));
                    }
                });
            }
            self.end_turn_of_asked();
        }
    }

    pub fn owner_of(&self, token: Token) -> ShardId {
        shard_of(token, self.options.shard_count)
    }

    pub fn mailbox(&self, shard: ShardId) -> &Mailbox {
        &self.mailboxes[usize::from(shard.0)]
    }

    /// Of this shard's requests and answers.
    pub fn request_memory(&self) -> &Arc<RequestMemory> {
        self.mailbox(self.id).memory()
    }

    pub fn schema(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    /// Seconds since the Unix epoch.
    pub fn now_s(&self) -> u32 {
        self.clock.wall_s()
    }

    /// A write timestamp in microseconds, larger than any this shard gave out before.
    pub fn next_timestamp_us(&self) -> i64 {
        let timestamp_us = self.clock.wall_us().max(self.last_timestamp_us.get() + 1);
        self.last_timestamp_us.set(timestamp_us);
        timestamp_us
    }

    pub fn new_timeuuid(&self) -> Uuid {
        Uuid::from_bytes(self.timeuuids.borrow_mut().next(self.clock.wall_us()))
    }

    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.options.shard_count).map(ShardId)
    }

    /// Something was appended to the log or to a memtable: look at it when the tasks that are ready have run.
    pub fn schedule_turn(&self) {
        self.turn.notify_one();
    }

    /// Waits until a flush has given memory back. False if the write's time is over.
    pub(crate) async fn wait_for_room(&self, deadline: Deadline) -> bool {
        self.schedule_turn();
        let left = deadline.left(self.clock.monotonic_ns());
        tokio::time::timeout(left, self.room.notified()).await.is_ok()
    }

    /// Waits until a background job has ended, a request was found to need none, or the log has accepted more.
    pub(crate) async fn job_ended(&self) {
        self.schedule_turn();
        self.room.notified().await;
    }

    async fn turns(self: Rc<Self>) {
        loop {
            self.turn.notified().await;
            self.log.begin_turn();
            // Without its turns the shard would acknowledge nothing any more.
            let _reported = catch(|| {
                self.hand_over_log(!self.acknowledges_at_once());
                self.offer_background_work();
            });
        }
    }

    /// Looks how late the loop is, and lets compactions go as fast as requests do not feel.
    async fn pace_compactions(self: Rc<Self>) {
        loop {
            let due_ns = self.clock.monotonic_ns() + PROBE_INTERVAL.as_nanos() as u64;
            tokio::time::sleep(PROBE_INTERVAL).await;
            if self
                .foreground
                .probe(self.clock.monotonic_ns().saturating_sub(due_ns))
            {
                let store = self.store.borrow();
                let share = self
                    .foreground
                    .next_share(store.has_compactions(), store.is_far_behind());
                store.compaction_pace().set_share(share);
            }
        }
    }

    fn offer_background_work(&self) {
        let mut store = self.store.borrow_mut();
        if store.tend_row_cache() {
            self.schedule_turn();
        }
        self.background.borrow_mut().offer(&mut store);
        if store.take_settled_request() {
            self.schedule_turn();
            self.room.notify_waiters();
        }
    }

    pub(crate) fn job_finished(self: &Rc<Self>, thread: usize, result: JobResult) {
        self.background.borrow_mut().job_finished(thread);
        let report = self.store.borrow_mut().complete(result);
        report.tell(self.id.0, &self.options.events);
        self.room.notify_waiters();
        self.schedule_turn();
    }

    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        let store = self.store.borrow();
        self.metrics.snapshot(
            self.id.0,
            &self.transport,
            &self.gauges(),
            &store,
            self.hot_partitions.activity(self.last_looked_ns()),
            self.hot_partitions.shed_requests(),
        )
    }

    fn gauges(&self) -> Gauges {
        let (waiting, begun) = self.long_reads.counts();
        Gauges {
            prepared_statements: self.prepared.borrow().len() as u64,
            long_reads_waiting: waiting as u64,
            long_reads_begun: begun as u64,
            disk_reads_waiting: self.disk_reads.borrow().queued() as u64,
        }
    }

    /// Forgets all rows and pages that could be read again: for measurements that begin cold.
    pub fn clear_caches(&self) {
        self.store.borrow_mut().clear_caches();
    }
}

fn transport_options(options: &NodeOptions, memory: Arc<RequestMemory>) -> TransportOptions {
    TransportOptions {
        admission: options.admission,
        request_timeout: options.read_request_timeout.min(options.write_request_timeout),
        buffer_pool: options.buffer_pool,
        memory,
        clock: options.clock.clone(),
        events: options.events.clone(),
    }
}
